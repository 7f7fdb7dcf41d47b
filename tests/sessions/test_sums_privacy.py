"""Sums and means of a session: what a record moves on every pair of tiny tables, and an audit from outside.

Replays on neighbouring tables and planted bugs of whole sessions are in `test_sums.py`. Here are the queries that sums
and means are made of, on all tables of up to three records, and the values that the gate really returns for them,
drawn often on two neighbours: what an attacker can tell apart with them bounds epsilon from below.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest

from maquette.core import forms
from maquette.core.bounds import sensitivity_of
from maquette.core.budget import UNITS, Budget
from maquette.core.curator import Curator
from maquette.core.laws import NoiseRequest
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import WorkloadError
from maquette.queries.predicates import where
from maquette.queries.weights import Weights
from maquette.results.select import parse_select
from maquette.sessions.sums import Scale, parts_of, weighted_query
from support.privacy_doubles import histograms, neighbours, table_of
from support.privacy_statistics import bound_from_below
from support.privacy_tally import TallyLedger

pytestmark = pytest.mark.privacy

SMALL = Domain(
    (
        Attribute("x", Kind.NUMERIC, edges=(0.0, 10.0, 25.0, 100.0), nullable=True),
        Attribute("y", Kind.NUMERIC, bounds=(-2.0, 2.0), bins=2, integer=True),
    )
)
"""8 cells: 165 tables of up to 3 records."""
FIGURES = ("sum(x)", "avg(x)", "sum(y)", "avg(y)")
CONDITIONS = ("x >= 10", "y < 0", "x < 25 and y >= 0")


@lru_cache(maxsize=1)
def asked() -> tuple[Weights, ...]:
    """Every query with weights that these figures ask of these groups."""
    found: list[Weights] = []
    for text in FIGURES:
        item = parse_select(SMALL, f"select {text} from t").items[0]
        for part in parts_of(SMALL, item):
            if part.end is not None:
                found += [weighted_query(SMALL, where(SMALL, one), part)[0] for one in CONDITIONS]
    return tuple(found)


@lru_cache(maxsize=1)
def exact() -> dict[tuple[int, ...], np.ndarray]:
    """Numerators on every tiny table, through the production engine."""
    answers: dict[tuple[int, ...], np.ndarray] = {}
    for table in histograms(SMALL.size, most=3):
        engine = table_of(SMALL, table)._engine
        answers[table] = np.array([int(engine.answer(query.to_forms())[0]) for query in asked()])
    return answers


def farthest(relation: Relation) -> np.ndarray:
    """How far each numerator moves on any pair of neighbours."""
    answers = exact()
    moved = [np.abs(answers[one] - answers[other]) for one, other in neighbours(list(answers), relation)]
    assert len(moved) >= 720
    return np.max(moved, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("relation", list(Relation))
def test_no_pair_of_tiny_tables_moves_a_sum_beyond_its_sensitivity(relation):
    moved = farthest(relation)
    for query, most in zip(asked(), moved, strict=True):
        one = sensitivity_of(query.to_forms(), SMALL, relation)  # what is charged
        assert one == query.sensitivity(relation)  # what is said
        assert Fraction(int(most), query.denominator) == one.l1 == one.linf  # reached, and never more
        assert one.l1**2 == one.l2_squared
        assert one.linf <= 1  # what a test of a session counts on


def test_a_sensitivity_of_the_mean_record_is_seen(monkeypatch):
    """A planted bug: the middle of the weights in the place of the largest."""
    real = forms.Weights.added

    def mean(self, sizes):
        one = real(self, sizes)
        return type(one)(one.l1 / 2, one.l2_squared / 4, one.linf / 2)

    def understated() -> bool:
        relation = Relation.ADD_REMOVE
        pairs = zip(asked(), farthest(relation), strict=True)
        return any(
            Fraction(int(most), q.denominator) > sensitivity_of(q.to_forms(), SMALL, relation).l1
            for q, most in pairs
        )

    assert not understated()
    monkeypatch.setattr(forms.Weights, "added", mean)
    assert understated()


@pytest.mark.parametrize("relation", list(Relation))
def test_a_class_that_understates_its_sensitivity_is_charged_by_its_weights(monkeypatch, relation):
    """A planted bug in the class of queries: no part of what is charged."""
    noise = NoiseRequest("laplace", PRICE)
    sound = [noise.sensitivity_of(query.to_forms(), SMALL, relation) for query in asked()]
    nothing = forms.counting(0)
    monkeypatch.setattr(Weights, "sensitivity", lambda self, relation: nothing)
    assert [query.sensitivity(relation) for query in asked()] == [nothing] * len(sound)
    assert [noise.sensitivity_of(query.to_forms(), SMALL, relation) for query in asked()] == sound


def test_a_scale_that_is_too_narrow_makes_no_query(monkeypatch):
    """A planted bug: weights by half the width would pass 1. They are cut off, or refused; never asked."""
    monkeypatch.setattr(Scale, "width", property(lambda self: 50.0))
    item = parse_select(SMALL, "select sum(x) from t").items[0]
    for part in parts_of(SMALL, item):
        query, _ = weighted_query(SMALL, where(SMALL, "x >= 0"), part)
        assert sensitivity_of(query.to_forms(), SMALL, Relation.ADD_REMOVE).linf <= 1
    monkeypatch.setattr(np, "clip", lambda values, *_: values)
    with pytest.raises(WorkloadError, match="numerators from 0 to the denominator"):
        weighted_query(SMALL, where(SMALL, "x >= 0"), parts_of(SMALL, item)[-1])


# --- an audit from outside ------------------------------------------------------------------------------------------

DRAWS = 800
"""Chance that a bound from below is wrong: this test fails by chance less often than once in 10^9 runs."""
BASE = (1, 0, 2, 0, 0, 1, 1, 0)
PRICE = Fraction(1, 2)


def sampled(histogram: tuple[int, ...], query: Weights, budget: Budget) -> tuple[np.ndarray, float]:
    """Values of one measured sum as sessions get them, with the system's own noise, and what each was charged."""
    table, noise = table_of(SMALL, histogram), NoiseRequest("laplace", PRICE)
    values, charged = [], 0
    for _ in range(DRAWS):
        ledger = TallyLedger(budget=budget, relation=Relation.ADD_REMOVE)
        curator = Curator(table, ledger, key="audit", budget=budget)
        values.append(float(curator.measure(query, noise=noise).counts[0]))
        ((_, charged, _),) = ledger.charges
    return np.array(values), charged / UNITS


def worst_bound() -> tuple[float, float]:
    """One more record of the largest income, which moves the sum of incomes by a whole unit; and what was charged."""
    item = parse_select(SMALL, "select sum(x) from t").items[0]
    query, _ = weighted_query(SMALL, where(SMALL, "y >= 0"), parts_of(SMALL, item)[-1])
    more = (*BASE[:5], BASE[5] + 1, *BASE[6:])
    budget = Budget(1.0)
    (one, charged), (other, _) = (sampled(table, query, budget) for table in (more, BASE))
    return max(bound_from_below(one, other), bound_from_below(-other, -one)), charged


@pytest.mark.slow
def test_what_is_measured_of_a_sum_tells_neighbours_apart_no_better_than_was_charged():
    found, charged = worst_bound()
    assert charged == float(PRICE)
    assert found <= charged


@pytest.mark.slow
def test_the_audit_sees_a_sum_with_too_little_noise(monkeypatch):
    """A planted bug: a sixteenth of the sensitivity, and so of the noise; a record is then worth an epsilon of 8."""
    real = NoiseRequest.sensitivity_of

    def small(self, query_forms, domain, relation):
        one = real(self, query_forms, domain, relation)
        return type(one)(one.l1 / 16, one.l2_squared / 256, one.linf / 16)

    monkeypatch.setattr(NoiseRequest, "sensitivity_of", small)
    found, charged = worst_bound()
    assert charged == float(PRICE)
    assert found > charged
