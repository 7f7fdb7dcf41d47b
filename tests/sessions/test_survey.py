"""Sessions that buy a survey first: what follows is free and within its error, over restarts and crashes too."""

# pyright: reportOptionalMemberAccess=false

from dataclasses import replace

import numpy as np
import pytest

from maquette.accounting.ledger import Ledger
from maquette.core.budget import Budget
from maquette.core.ledger.transaction import Transaction
from maquette.domain import Relation
from maquette.errors import BudgetExceeded, KeyReused, LedgerError
from maquette.sessions.opening import session as open_session
from support.online_cases import book, people, seeded_session, truth

BUDGET = Budget(0.26, 1e-6)
OPTIONS = {"epsilon": 0.26, "delta": 1e-6, "alpha": 0.03, "queries": 20_000}
TEXTS = [f"age = {a} and job = {j} and sex = {s}" for a in range(8) for j in range(4) for s in range(2)]
TEXTS += [f"age between {a} and {a + 2} and job in (0, {j})" for a in range(5) for j in range(1, 4)]
TEXTS += [f"not (age >= {a} and sex = 1)" for a in range(1, 8)]


def ask_all(session):
    found = []
    for text in TEXTS:
        try:
            found.append((text, session.ask(text)))
        except BudgetExceeded:
            continue
    return found


@pytest.mark.slow
@pytest.mark.parametrize("relation", list(Relation))
def test_answers_that_follow_are_free_and_all_are_within_their_errors(monkeypatch, relation):
    table = people()
    free = paid = 0
    for seed in range(4):
        ledger = book(BUDGET, relation=relation)
        session = seeded_session(
            monkeypatch, seed, table.for_another_ledger(), ledger=ledger, relation=relation, **OPTIONS
        )
        for text, answer in ask_all(session):
            assert abs(answer.value - truth(table, text)) <= answer.error <= OPTIONS["alpha"] + 1e-9
            assert (answer.kind == "paid") == (answer.cost > 0)
            free, paid = free + (answer.kind == "free"), paid + (answer.kind == "paid")
        told = session.history()
        assert [past.kind for past in told].count("survey") == 2
        spent = sum(past.cost for past in told)
        assert spent == pytest.approx(session.total - session.left, abs=1e-11)
    assert free > paid > 0


@pytest.mark.slow
def test_what_is_out_of_budget_may_still_follow():
    session = open_session(people(), ledger=book(BUDGET), **OPTIONS)
    ask_all(session)
    wide = [f"age <= {a} and job in (0, 1, {j})" for a in range(1, 5) for j in (2, 3)]
    with pytest.raises(BudgetExceeded):
        any(session.ask(text) is None for text in wide)
    new = session.ask("age = 7 and job = 1")
    assert (new.kind, new.cost) == ("free", 0)


def test_a_forecast_says_what_the_survey_takes_and_then_that_the_rest_is_free():
    session = open_session(
        people(), ledger=book(BUDGET, relation=Relation.REPLACE_ONE), relation="replace-one", **OPTIONS
    )
    text = "age = 7 and job = 1"
    before = session.forecast(text)
    plan = session._planner.settings().survey
    assert before.kind == "measure"
    assert before.cost >= plan.price
    first = session.ask(text)
    assert first.kind == "paid"
    assert first.cost <= before.cost
    after = session.forecast("age = 7 and job = 2")
    assert (after.kind, after.cost) == ("free", 0.0)
    answer = session.ask("age = 7 and job = 2")
    assert (answer.kind, answer.value, answer.error) == ("free", after.guess, after.error)
    assert session.ask("not (age = 7 and job = 2)").kind == "cached"


@pytest.mark.slow
def test_a_session_goes_on_after_a_restart_with_the_same_survey(tmp_path):
    table = people()
    with book(BUDGET, tmp_path / "x.ledger") as ledger:
        session = open_session(table, ledger=ledger, **OPTIONS)
        first = [(text, answer.value, answer.error) for text, answer in ask_all(session)]
        left = session.left
    with Ledger.open(tmp_path / "x.ledger") as ledger:
        again = open_session(table, ledger=ledger, **OPTIONS)
        assert [(text, a.value, a.error) for text, a in ask_all(again)] == first
        assert {a.kind for _, a in ask_all(again)} == {"cached"}
        assert again.left == left
        ledger.verify()


@pytest.mark.parametrize("crash", [2, 3])
def test_a_survey_that_was_seen_and_not_stored_is_stored_by_the_next_session_of_the_process(
    monkeypatch, tmp_path, crash
):
    """The second and third payments of a session are those of the survey, after the number of records."""
    table, calls = people(), []
    stored = Transaction.answer

    def cut(self, key, payload):
        calls.append(key)
        if len(calls) == crash:
            raise LedgerError("cut")
        return stored(self, key, payload)

    text = "age = 7 and job = 1"
    with book(BUDGET, tmp_path / "x.ledger") as ledger:
        session = open_session(table, ledger=ledger, **OPTIONS)
        monkeypatch.setattr(Transaction, "answer", cut)
        with pytest.raises(LedgerError, match="cut"):
            session.ask(text)
        monkeypatch.setattr(Transaction, "answer", stored)
    with Ledger.open(tmp_path / "x.ledger") as ledger:
        again = open_session(table, ledger=ledger, **OPTIONS)
        answer = again.ask(text)
        assert abs(answer.value - truth(table, text)) <= answer.error
        assert [past.kind for past in again.history()].count("survey") == 2
        plan = again._planner.settings().survey
        assert again.total - again.left <= float(plan.price + again._planner.rules.size_price) + 1e-11
        ledger.verify()


def test_a_key_keeps_an_answer_that_follows():
    session = open_session(people(), ledger=book(BUDGET), **OPTIONS)
    session.ask("age = 7 and job = 1")
    first = session.ask("age = 7 and job = 2", key="k")
    again = session.ask("age = 7 and job = 2", key="k")
    assert (again.kind, again.value, again.receipt) == ("cached", first.value, first.receipt)
    with pytest.raises(KeyReused):
        session.ask("age = 7 and job = 3", key="k")


@pytest.mark.parametrize(
    "changes",
    [
        {"delta": 0.0},
        {"mechanism": "direct"},
        {"measure_first": False, "epsilon": 6.0, "alpha": 0.15},
        {"queries": 20},
    ],
    ids=str,
)
def test_no_survey_where_it_does_not_suit(changes):
    """Pure budgets, other mechanisms, sessions that always test, few questions."""
    options = OPTIONS | changes
    budget = Budget(options["epsilon"], options["delta"])
    ledger = book(budget, relation=Relation.REPLACE_ONE)
    session = open_session(people(), ledger=ledger, relation="replace-one", **options)
    assert session._planner.settings().survey is None


def test_a_session_that_began_without_a_survey_goes_on_without():
    table, ledger = people(), book(BUDGET)
    old = open_session(table, ledger=ledger, **OPTIONS)
    old._planner.curator.size(price=old._planner.rules.size_price)
    old._planner.sync()
    old._planner._settings = replace(old._planner.settings(), survey=None)
    old.ask("age = 7 and job = 1")
    again = open_session(table, ledger=ledger, **OPTIONS)
    assert again._planner.settings().survey is not None
    assert again.ask("age = 7 and job = 2").cost < again._planner.settings().survey.price / 2
    assert "survey" not in {past.kind for past in again.history()}


def test_the_survey_is_a_function_of_what_was_released(monkeypatch):
    """The second payment's bins follow from the first payment's values: the same draws, the same tables."""
    seen = []
    for n in (20_000, 20_001):
        table = people(n)
        session = seeded_session(monkeypatch, 3, table, ledger=book(BUDGET), **OPTIONS)
        session.ask("age = 7 and job = 1")
        tables = session._planner.state.tables
        seen.append([(t.binned, t.variance) for t in tables])
        assert all(np.issubdtype(t.values.dtype, np.integer) for t in tables)
    assert seen[0] == seen[1]
