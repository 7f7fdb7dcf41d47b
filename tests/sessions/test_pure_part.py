"""A session with a delta that does without it: on a ledger that it makes itself, and on one with a pure part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maquette as mq
from maquette.accounting.ledger import Ledger
from maquette.core.budget import Budget
from maquette.sessions.session import Session
from maquette.verify import verdict
from support.online_cases import PEOPLE, people, truth

TERMS: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-9}


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


def test_for_one_question_it_is_pure_and_states_a_third(place, tmp_path):
    table = people(20_000)
    session = mq.session(table, **TERMS, queries=1, ledger=place)
    assert total_of(place) == Budget(1.0, 1e-9, pure_epsilon=1.0)
    assert session.budget == Budget(1.0)
    assert "pure noise is expected to state less, so delta=1e-09 is not used" in session.plan
    answer = session.ask("age >= 3")
    with by_hand(tmp_path / "one part.ledger", 0.0) as ledger:
        other = mq.session(table.for_another_ledger(), **TERMS, queries=1, ledger=ledger)
        assert other.budget == Budget(1.0, 1e-9)
        assert "pure" not in other.plan
        assert answer.error < other.ask("age >= 3").error / 2
    assert verdict([str(place)])[0] == 0


def test_for_many_questions_it_keeps_its_delta_and_its_ledger_one_part(place):
    session = mq.session(people(2_000), **TERMS, queries=200, ledger=place)
    assert session.budget == total_of(place) == Budget(1.0, 1e-9)


@pytest.mark.parametrize("rows", [1, 3, 2_000])
def test_the_split_does_not_follow_the_table(place, rows):
    """As many questions, as large a budget and as many typical rows: the same split, whatever the table holds."""
    mq.session(people(rows), **TERMS, queries=1, ledger=place)
    assert total_of(place).pure_epsilon == 1.0


def test_it_goes_on_where_it_stopped(place):
    table = people(2_000)
    first = mq.session(table, **TERMS, queries=2, ledger=place, key="ana")
    answer = first.ask("age >= 3")
    with Ledger.open(place) as ledger:
        again = mq.session(table, **TERMS, queries=2, ledger=ledger, key="ana")
        assert (again.budget, again.left) == (first.budget, first.left)
        assert again.ask("age >= 3").value == answer.value
        other = mq.session(table, **TERMS, queries=2, ledger=ledger, key="ana", mechanism="auto")
        assert other.ask("age >= 4").kind == "paid"


def test_a_larger_total_keeps_the_rest_for_everything(place):
    table = people(2_000)
    mq.session(table, **TERMS, queries=1, ledger=place, total_epsilon=3.0, total_delta=1e-9)
    assert total_of(place) == Budget(3.0, 1e-9, pure_epsilon=1.0)
    many = mq.session(table, epsilon=2.0, delta=1e-9, queries=200, ledger=place)
    assert many.budget == Budget(2.0, 1e-9)
    with Ledger.open(place) as ledger:
        assert ledger.balance().left_units == 0
        ledger.verify()


@pytest.mark.parametrize(
    ("pure", "questions", "is_pure"),
    [(1.0, 1, True), (0.9, 1, False), (2.0, 1, True), (2.0, 200, True), (1.0, 200, False)],
    ids=["enough", "too little", "nothing else", "nothing else for many", "many"],
)
def test_on_a_ledger_made_by_hand_it_takes_the_part_that_suits_it(place, pure, questions, is_pure):
    ledger = by_hand(place, pure, total=2.0)
    session = mq.session(people(2_000), **TERMS, queries=questions, ledger=ledger)
    assert session.budget == (Budget(1.0) if is_pure else Budget(1.0, 1e-9))
    assert bool(ledger.balance().pure_spent) == is_pure
    assert bool(ledger.balance().spent_units) == (not is_pure)


@pytest.mark.parametrize("mechanism", ["direct", "pmw"])
def test_so_does_one_that_names_its_mechanism(place, mechanism):
    session: Session = mq.session(people(2_000), **TERMS, queries=1, ledger=place, mechanism=mechanism)
    assert session.rules.mechanism == mechanism
    if mechanism == "direct":
        assert session.budget == Budget(1.0)


def test_a_true_answer_lies_within_what_is_stated(tmp_path):
    table = people(20_000)
    share = truth(table, "age >= 3")
    within = []
    for number in range(40):
        ledger = tmp_path / f"{number}.ledger"
        session = mq.session(table.for_another_ledger(), **TERMS, queries=1, ledger=ledger)
        answer = session.ask("age >= 3")
        within.append(abs(answer.value - share) <= answer.error)
    assert np.mean(within) >= 0.85  # 95 % stated; fewer than 34 of 40 has a chance of 0.5 %
