"""The test double of the gate: all methods of the protocol with their signatures, true counts, prices paid."""

from __future__ import annotations

import inspect
from fractions import Fraction

import numpy as np
import pytest

from maquette.core.binned import Binned
from maquette.core.budget import Unit
from maquette.core.curator import Curator as RealCurator
from maquette.core.weighting import Weighting
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import BudgetExceeded
from maquette.mechanisms.base import Curator
from maquette.models.answers import Answers
from maquette.queries import marginals
from support.fake_curator import FakeCurator

DOMAIN = Domain((Attribute("a", Kind.ORDINAL, codes=4), Attribute("b", Kind.ORDINAL, codes=3)))
HISTOGRAM = 1000 * np.arange(12).reshape(4, 3)
HIGH = Fraction(10**6)
"""A price at which noise vanishes beside the counts."""
QUESTIONS = sorted(
    name for name, member in vars(Curator).items() if inspect.isfunction(member) and not name.startswith("_")
)


def fake(relation: Relation = Relation.ADD_REMOVE, unit: Unit = Unit.EPSILON) -> FakeCurator:
    return FakeCurator(HISTOGRAM, DOMAIN, relation=relation, unit=unit, price=100 * HIGH, seed=1)


def parameters(owner: type, name: str) -> list[tuple[str, object, object]]:
    signature = inspect.signature(getattr(owner, name))
    return [(p.name, p.kind, p.default) for p in signature.parameters.values()]


def test_the_protocol_has_questions():
    assert len(QUESTIONS) >= 10


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_has_the_signature_of_the_protocol(name):
    assert parameters(FakeCurator, name) == parameters(Curator, name)


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_real_curator_has_it_too_and_may_take_a_note(name):
    mine, real = parameters(Curator, name), parameters(RealCurator, name)
    assert [p for p in real if p[0] != "note"] == mine


def test_its_facts_are_those_of_the_protocol():
    facts = {name for name, member in vars(Curator).items() if isinstance(member, property)}
    assert facts == {"domain", "relation", "unit", "left"}
    assert all(hasattr(fake(), name) for name in facts)


@pytest.mark.parametrize("unit", [Unit.EPSILON, Unit.RHO])
@pytest.mark.parametrize("relation", list(Relation))
def test_its_counts_are_those_of_the_histogram(relation, unit):
    curator = fake(relation, unit)
    assert abs(curator.size(price=HIGH).value - HISTOGRAM.sum()) <= 1
    weights = Weighting("a", (0, 1, 2, 4), 4, 4.0)
    heavy = int(HISTOGRAM.sum(axis=1) @ np.array([0, 1, 2, 4])) / 4
    assert abs(curator.total(weights, price=HIGH).value - heavy) <= 1
    halves = Binned(("a", "b"), ((0, 2), (0, 1)))
    coarse = Binned(("a",), ((0, 1, 2),))
    first, second = curator.measure_tables([halves, coarse], variances=[Fraction(1, 10**4)] * 2)
    assert first.values.tolist() == [3000, 12000, 15000, 36000]
    assert second.values.tolist() == [3000, 12000, 21000 + 30000]
    apart, _ = curator.distances([halves], [np.zeros(4, dtype=np.int64)], price=HIGH)
    assert abs(apart[0] - HISTOGRAM.sum()) <= 1


def test_it_selects_what_is_far_and_states_the_largest_error():
    curator = fake()
    queries = marginals(DOMAIN, k=1)
    truth = queries.on_histogram(HISTOGRAM) / HISTOGRAM.sum()
    off = truth.copy()
    off[2] += 0.1
    answers = Answers.from_fractions(off)
    assert curator.select(queries, answers, price=HIGH) == 2
    assert curator.select(queries, answers, price=HIGH, signed=True) == 2 + queries.count
    stated = curator.largest_error(queries, answers, price=HIGH)
    assert abs(stated.values[0] - 0.1 * HISTOGRAM.sum()) <= 2
    tables = [Binned(("a",), ((0, 2),)), Binned(("b",), ((0, 1),))]
    references = [np.array([15000, 51000]), np.array([0, 0])]
    assert curator.select_tables(tables, references, np.zeros(2, dtype=np.int64), count=1, price=HIGH) == (1,)


def test_it_refuses_what_it_cannot_pay_and_counts_what_it_paid():
    curator = FakeCurator(
        HISTOGRAM, DOMAIN, relation=Relation.ADD_REMOVE, unit=Unit.EPSILON, price=Fraction(1), seed=1
    )
    curator.size(price=Fraction(3, 4))
    assert curator.left == Fraction(1, 4)
    with pytest.raises(BudgetExceeded):
        curator.size(price=Fraction(1, 2))
    assert curator.asked == ["size"]
