"""How a session that names no mechanism answers: decided by public numbers, said before anything is paid."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

import maquette as mq
from maquette.accounting.ledger import Ledger
from maquette.core.budget import UNITS, Budget
from maquette.domain import Relation
from maquette.errors import ParameterError
from maquette.owner import Table
from maquette.sessions import state
from maquette.sessions.rules import how_answered
from maquette.theory import ratios
from support.online_cases import PEOPLE, book, people, seeded_session, truth
from support.privacy_doubles import Untouchable

N = 65_000
TEXT = "age >= 3 and sex = 1"


def opened(
    monkeypatch, n: int, *, delta: float = 0.0, relation=Relation.ADD_REMOVE, epsilon=1.0, **options: Any
):
    table = people(n)
    ledger = book(Budget(epsilon, delta), relation=relation)
    session = seeded_session(
        monkeypatch, 1, table, ledger=ledger, epsilon=epsilon, delta=delta, relation=relation, **options
    )
    return session, table, ledger


def possible(share: float, n: int, questions: int, budget: Budget, relation: Relation) -> float:
    """The stated error of questions that are known in advance, with a fifth of the budget for the size."""
    price = budget.total_units / UNITS
    size = 0.0 if relation is Relation.REPLACE_ONE else price / 5
    each = (price - size) / questions
    if budget.pure:
        size_scale = 1 / size if size else 0.0
        gap = ratios.laplace_gap(
            scale=1 / each, size_scale=size_scale, beta=0.05, log_queries=math.log(questions), step=0.0
        )
    else:
        deviation, size_deviation = (math.sqrt(1 / (2 * part)) if part else 0.0 for part in (each, size))
        gap = ratios.gaussian_gap(
            deviation=deviation, size_deviation=size_deviation, beta=0.05, log_queries=math.log(questions), step=0.0
        )  # fmt: skip
    low, high = ratios.share_between(share * n, n, gap=gap)
    return max(float(high[0]) - share, share - float(low[0]))


@pytest.mark.parametrize("questions", [1, 20, 200])
@pytest.mark.parametrize("delta", [0.0, 1e-9])
@pytest.mark.parametrize("relation", list(Relation))
def test_few_questions_are_stated_nearly_as_well_as_is_possible(monkeypatch, questions, delta, relation):
    session, table, _ = opened(monkeypatch, N, delta=delta, relation=relation, queries=questions)
    answer = session.ask(TEXT)
    share = truth(table, TEXT)
    assert abs(answer.value - share) <= answer.error
    best = possible(share, N, questions, Budget(1.0, delta), relation)
    assert answer.error <= 1.5 * best
    assert answer.error >= 0.7 * best  # nothing is stated that the noise does not allow


def test_one_question_on_a_small_table(monkeypatch):
    session, table, _ = opened(monkeypatch, 1306, epsilon=0.5, queries=1)
    answer = session.ask(TEXT)
    assert abs(answer.value - truth(table, TEXT)) <= answer.error < 0.015


def test_many_questions_go_on_as_before(monkeypatch):
    table, ledger = people(N), book()
    before = seeded_session(monkeypatch, 1, table, ledger=ledger, epsilon=1.0, mechanism="pmw")
    now = seeded_session(monkeypatch, 1, table, ledger=ledger, epsilon=1.0)
    assert now.rules.mechanism == "pmw"
    assert now.key == before.key


@pytest.mark.parametrize("mechanism", ["pmw", "direct"])
@pytest.mark.parametrize("key", [None, "mine"])
def test_a_session_that_is_there_goes_on_as_it_began(monkeypatch, mechanism, key):
    table, ledger = people(), book()
    facts: dict[str, Any] = {"ledger": ledger, "epsilon": 1.0, "queries": 20, "key": key}
    before = seeded_session(monkeypatch, 1, table, mechanism=mechanism, **facts)
    first = before.ask(TEXT)
    now = seeded_session(monkeypatch, 1, table, **facts)
    assert (now.rules, now.key) == (before.rules, before.key)
    again = now.ask(TEXT)
    assert (again.value, again.error, again.kind) == (first.value, first.error, "cached")


def test_the_choice_is_said_and_made_before_anything_is_paid_or_touched():
    facts: dict[str, Any] = {"epsilon": 1.0, "queries": 20}
    engine: Any = Untouchable(PEOPLE)
    ledger = book()
    session = mq.session(Table(engine, name="people", source="x"), ledger=ledger, **facts)
    assert session.rules.mechanism == "direct"
    assert "every new question is measured (mechanism direct), chosen for 20 questions" in session.plan
    one = how_answered(replace(session.rules, questions=1), session._expected_errors)
    assert "chosen for 1 question:" in one
    assert "on 100,000 records" in session.plan
    assert "5.0 % of the budget buys the number of records first" in session.plan
    assert not list(ledger.children(session.key))


def test_typical_rows_are_given_and_not_read(monkeypatch):
    """A small table is told by who knows that such tables are small; the table itself says nothing."""
    chosen = {
        (n, rows): opened(monkeypatch, n, queries=60, epsilon=0.5, typical_rows=rows)[0].rules.mechanism
        for n in (500, 20_000)
        for rows in (500, 100_000)
    }
    assert chosen == {
        (500, 500): "pmw", (20_000, 500): "pmw", (500, 100_000): "direct", (20_000, 100_000): "direct"
    }  # fmt: skip
    with pytest.raises(ParameterError, match="typical_rows"):
        opened(monkeypatch, 500, typical_rows=0)


def test_a_small_table_measures_fewer_questions_rather_than_none(monkeypatch):
    session, table, _ = opened(monkeypatch, 1306, epsilon=0.5, queries=200)
    answer = session.ask(TEXT)
    assert abs(answer.value - truth(table, TEXT)) <= answer.error < 0.25
    assert 0 < session.questions_left < 199
    direct, _, _ = opened(monkeypatch, 1306, epsilon=0.5, queries=200, mechanism="direct")
    with pytest.raises(mq.UselessAnswer):
        direct.ask(TEXT)


def test_the_number_of_records_is_bought_again_where_the_first_look_says_too_little(monkeypatch):
    session, table, ledger = opened(monkeypatch, 1306, epsilon=0.5)
    session.buy_size()
    first = session.size
    forecast = session.forecast(TEXT)
    answer = session.ask(TEXT)
    assert [past.kind for past in session.history()] == ["size", "size", "paid"]
    assert first is not None
    assert session.size is not None
    assert session.size.noise is not None
    assert first.noise is not None
    assert session.size.noise.deviation < first.noise.deviation
    assert answer.cost == pytest.approx(forecast.cost, rel=1e-6)
    assert forecast.error is not None
    assert answer.error <= forecast.error
    assert abs(answer.value - truth(table, TEXT)) <= answer.error
    while session.questions_left:
        session.ask(f"job = {session.questions_left % 4} and age <= {session.questions_left // 4}")
    assert session.left >= 0
    again = seeded_session(monkeypatch, 1, table, ledger=ledger, epsilon=0.5)
    assert [(past.what, past.error) for past in again.history()] == [
        (past.what, past.error) for past in session.history()
    ]


def test_a_guess_and_a_value_state_less_for_a_small_share(monkeypatch):
    session, _, _ = opened(monkeypatch, 20_000, mechanism="pmw", alpha=0.05)
    small, large = session.ask("age = 6"), session.ask("age <= 6")
    assert small.error < large.error <= 0.05


def test_a_step_of_an_earlier_version_states_what_it_stated(monkeypatch):
    session, _, ledger = opened(monkeypatch, 20_000, queries=20)
    answer = session.ask(TEXT)
    step = next(step for step in read_steps(ledger, session.key) if step.ask == "measure")
    body = dict(step.body)
    assert state.read_answer(step, 1)[1] == answer.error < body["errors"][1]
    body.pop("gap")
    older = type(step)(
        step.number, step.ask, body, step.values, step.units, step.created, step.receipt, answered=True
    )
    assert state.read_answer(older, 1)[1] == body["errors"][1]


def read_steps(ledger: Ledger, key: str) -> list[Any]:
    return [state.read_step(entry) for entry in ledger.children(key)]
