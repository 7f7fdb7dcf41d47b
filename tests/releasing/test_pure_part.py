"""A release with a delta that does without it: what its plan decides by public numbers, and how it is charged."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

import maquette as mq
from maquette.accounting.ledger import Ledger
from maquette.core.budget import Budget
from maquette.domain import Attribute, Domain, Kind
from maquette.mechanisms.base import MECHANISMS
from maquette.releasing import planning
from maquette.releasing.request import Request
from maquette.requests import ReleaseRequest
from maquette.verify import verdict
from support.online_cases import PEOPLE, people

TERMS: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-9}
FORM = Domain(
    (
        Attribute("age", Kind.ORDINAL, codes=40),
        Attribute("sex", Kind.CATEGORICAL, codes=2),
        Attribute("household", Kind.CATEGORICAL, codes=4),
    )
)
ONE = mq.where(PEOPLE, "age >= 3")
ONES, PAIRS = mq.marginals(PEOPLE, k=1), mq.marginals(PEOPLE, k=2)


@pytest.fixture
def place(tmp_path) -> Path:
    return tmp_path / "people.ledger"


def by_hand(place: Path, pure: float, total: float = 1.0) -> Ledger:
    return Ledger.create(
        place,
        budget=Budget(total, 1e-9),
        pure=pure,
        relation="add-remove",
        domain_fingerprint=PEOPLE.fingerprint,
        name="people",
    )


def total_of(place: Path) -> Budget:
    with Ledger.open(place) as ledger:
        return ledger.budget


def stated(release: mq.Release) -> float:
    assert release.stated is not None
    return release.stated.alpha


def test_one_question_is_pure_and_states_less_than_half(place, tmp_path):
    table = people(20_000)
    release = mq.release(table, ONE, **TERMS, ledger=place)
    assert total_of(place) == Budget(1.0, 1e-9, pure_epsilon=1.0)
    assert release.budget == Budget(1.0)
    assert planning.UNUSED_DELTA in release.notes
    with by_hand(tmp_path / "one part.ledger", 0.0) as ledger:
        other = mq.release(table.for_another_ledger(), ONE, **TERMS, ledger=ledger)
    assert other.budget.delta == 1e-9
    assert planning.UNUSED_DELTA not in other.notes
    assert stated(release) < stated(other) / 2
    assert verdict([str(place)])[0] == 0


@pytest.mark.parametrize(
    ("queries", "terms"),
    [
        (ONES, {}),
        (ONE, {"mechanism": "gaussian"}),
        (ONE, {"mechanism": "laplace", "accounting": "gaussian"}),
        (ONE, {"mechanism": "laplace", "accounting": "zcdp"}),
    ],
    ids=["sculpt", "gaussian noise", "counted by hand", "counted by hand as before"],
)
def test_what_pure_noise_does_not_help_keeps_one_part(place, queries, terms):
    release = mq.release(people(2_000), queries, **TERMS, **terms, ledger=place)
    assert release.budget.delta == 1e-9
    assert total_of(place).pure_epsilon == 0


@pytest.mark.parametrize("rows", [1, 3, 2_000])
def test_the_split_does_not_follow_the_table(place, rows):
    """The same request: the same split, whatever the table holds."""
    mq.release(people(rows), ONE, **TERMS, ledger=place)
    assert total_of(place).pure_epsilon == 1.0


def test_the_same_request_again_is_free(place):
    table = people(2_000)
    first = mq.release(table, ONE, **TERMS, ledger=place)
    again = mq.release(table, ONE, **TERMS, ledger=place)
    named = mq.release(table, ONE, epsilon=1.0, ledger=place)  # asks for what it became
    assert (
        first.answers.fractions.tolist()
        == again.answers.fractions.tolist()
        == named.answers.fractions.tolist()
    )
    with Ledger.open(place) as ledger:
        assert ledger.balance().left.pure == 0
        ledger.verify()


def test_a_repeat_takes_the_mechanism_that_the_first_run_took():
    """The first run ranks both ways to pay, a repeat knows the way alone; with a delta `auto` prefers rows."""
    tables = [mq.marginals(domain, k=k) for domain in (PEOPLE, FORM) for k in (1, 2)]
    taken: set[tuple[str, bool]] = set()
    for queries, n in itertools.product((ONE, *tables), (500, 3_000, 20_000)):
        wish = ReleaseRequest(epsilon=1.0, delta=1e-9, typical_rows=n)
        ways = planning.ways_asked(Request.of(queries, wish, persons=None, lists_records=True))
        first = planning.plan_of(*ways)
        begun = next(way for way in ways if way.delta == first.request.delta)
        assert planning.plan_of(begun).mechanism.name == first.mechanism.name
        taken.add((first.mechanism.name, bool(begun.delta)))
    assert {used for _, used in taken} == {False, True}
    assert ("sculpt", False) not in taken, "Gaussian noise keeps its delta"


def test_a_larger_total_keeps_the_rest_for_everything(place):
    table = people(2_000)
    mq.release(table, ONE, **TERMS, ledger=place, total_epsilon=3.0)
    assert total_of(place) == Budget(3.0, 1e-9, pure_epsilon=1.0)
    mq.release(table, ONES, epsilon=2.0, delta=1e-9, mechanism="laplace", ledger=place)
    with Ledger.open(place) as ledger:
        assert ledger.balance().left_units == 0
        ledger.verify()


@pytest.mark.parametrize(
    ("pure", "queries", "is_pure"),
    [(1.0, ONE, True), (0.9, ONE, False), (2.0, ONE, True), (2.0, PAIRS, True), (1.0, PAIRS, False)],
    ids=["enough", "too little", "nothing else", "nothing else for tables", "tables"],
)
def test_on_a_ledger_made_by_hand_it_takes_the_part_that_suits_it(place, pure, queries, is_pure):
    ledger = by_hand(place, pure, total=2.0)
    release = mq.release(people(2_000), queries, **TERMS, ledger=ledger, key="one")
    assert (release.budget.delta == 0) == is_pure
    assert bool(ledger.balance().pure_spent) == is_pure
    assert bool(ledger.balance().spent_units) == (not is_pure)
    assert mq.release(people(2_000), queries, **TERMS, ledger=ledger, key="one").budget == release.budget


@pytest.mark.parametrize("name", ["laplace", "linf", "smalldb", "histogram-laplace", "gaussian"])
def test_the_plan_states_the_better_of_both(name):
    queries = mq.union(ONE, mq.where(PEOPLE, "age >= 2"))

    def expected(**terms: Any) -> float:
        (forecast,) = mq.plan(queries, n=20_000, epsilon=1.0, mechanisms=[name], **terms).forecasts
        alpha = forecast.certified if forecast.stated == "certificate" else forecast.guaranteed
        return float("inf") if forecast.refusal is not None or alpha is None else alpha

    with_delta = min(expected(delta=1e-9, accounting=way) for way in ("zcdp", "gaussian"))
    assert expected(delta=1e-9) <= min(with_delta, expected()) * (1 + 1e-12)
    (forecast,) = mq.plan(queries, n=20_000, **TERMS, mechanisms=[name]).forecasts
    assert (planning.UNUSED_DELTA in forecast.notes) == (expected() < with_delta)


def test_the_release_runs_what_was_planned():
    request = Request(queries=ONE, **TERMS)
    ways = planning.ways_of(request, None, total=Budget(1.0, 1e-9), key=None)
    plan = planning.plan_of(*ways)
    assert [way.budget for way in ways] == [Budget(1.0, 1e-9), Budget(1.0)]
    assert plan.budget == Budget(1.0)
    assert plan.mechanism is MECHANISMS["laplace"]
    assert planning.plan_of(request).budget.delta == 1e-9


def test_fewer_records_are_needed_for_one_question():
    with_pure, without = (
        mq.required(ONE, alpha=0.001, epsilon=1.0, delta=delta, mechanisms=["laplace"])[0].n
        for delta in (1e-9, 0.0)
    )
    assert with_pure == without
