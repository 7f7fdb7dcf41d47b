"""Rates, failing stores and lost looks through a session: what is refused follows from public numbers alone."""

# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import itertools
from typing import Any

import pytest

from maquette.accounting.ledger import Ledger, Rate
from maquette.core.budget import Budget
from maquette.core.ledger import ledger as calls
from maquette.core.ledger import looks
from maquette.core.ledger.transaction import Transaction
from maquette.errors import LedgerError, RateExceeded
from maquette.sessions.opening import session as open_session
from maquette.tools.sparse_vector import above_threshold
from support.ledger_clock import stop_the_clock
from support.online_cases import PEOPLE, book, people
from support.privacy_doubles import Untouchable

pytestmark = pytest.mark.privacy

TESTS: dict[str, Any] = {"epsilon": 2.0, "alpha": 0.15, "measure_first": False, "queries": 200}
DIRECT: dict[str, Any] = {"epsilon": 1.0, "alpha": 0.2, "mechanism": "direct", "queries": 20}
CELLS = "select age, job, count(*) from t group by age, job"


def _full(*_: object) -> None:
    raise LedgerError("the disk is full")


def lose_the_next_look(session, monkeypatch, text: str) -> None:
    """Begin a question, look, and end the process before it is stored."""
    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "answer", _full)
        with pytest.raises(LedgerError, match="full"):
            session.ask(text)
    looks._BY_LEDGER.clear()
    monkeypatch.setattr(calls, "PATIENCE", 0.0)


def test_a_rate_refuses_a_select_in_the_same_words_wherever_a_guess_is_far(monkeypatch):
    """At most eight guesses are begun, whichever of them is far; only then is the first cell refused."""
    stop_the_clock(monkeypatch)
    said = set()
    for far_at in (None, 0, 3, 7):
        ledger = book(Budget(2.0))
        own = open_session(people(4000), ledger=ledger, **TESTS)
        own.ask("age >= 3")  # buys the number of records, opens an epoch, tests one guess
        ledger.limit(own.key, Rate(11, 3600))
        curator, turns = own._planner.curator, itertools.count()
        monkeypatch.setattr(curator, "_far", lambda *_, at=far_at, turns=turns: next(turns) == at)
        before = len(list(ledger.children(own.key)))
        with pytest.raises(RateExceeded) as refusal:
            own.sql(CELLS)
        said.add((str(refusal.value), refusal.value.seconds, len(list(ledger.children(own.key))) - before))
    assert said == {("at most 11 new steps in 3,600 s; ask again in 3,600 s", 3600, 8)}


def test_a_lost_measurement_is_charged_to_the_total_and_a_forecast_finishes_nothing(monkeypatch, tmp_path):
    location, table = tmp_path / "a.ledger", people(4000)
    with book(Budget(2.0), location=location) as ledger:
        own = open_session(table, ledger=ledger, **DIRECT)
        own.ask("sex = 1")
        lose_the_next_look(own, monkeypatch, "age >= 3")
    ledger = Ledger.open(location)
    again = open_session(table, ledger=ledger, **DIRECT)
    engine, again._planner.curator._engine = again._planner.curator._engine, Untouchable(PEOPLE)
    spent, left = ledger.spent_units, again.left
    assert again.forecast("job = 2").kind == "measure"
    assert [past.kind for past in again.history()] == ["size", "paid"]
    assert ledger.spent_units == spent, "looking at what there is costs nothing"
    again._planner.curator._engine = engine
    answer = again.ask("age >= 3")
    (further,) = [e for e in ledger.entries(kind="reserve") if "/again/" in e.key]
    assert answer.kind == "cached"  # the question in flight was asked again, and is this one
    assert (further.parent, ledger.spent_units) == (None, spent + further.units)
    assert again.left < left
    ledger.verify()


def test_a_session_goes_on_without_a_measurement_that_the_total_does_not_cover_again(monkeypatch, tmp_path):
    location, table = tmp_path / "a.ledger", people(4000)
    with book(Budget(1.0), location=location) as ledger:
        own = open_session(table, ledger=ledger, **DIRECT)
        own.ask("sex = 1")
        lose_the_next_look(own, monkeypatch, "age >= 3")
    ledger = Ledger.open(location)
    again = open_session(table, ledger=ledger, **DIRECT)
    assert again.ask("job = 2").kind == "paid"
    assert [past.kind for past in again.history()] == ["size", "paid", "lost", "paid"]
    assert again.history()[2].cost == again.history()[1].cost, "its price stays charged"
    assert again.ask("age >= 3").kind == "paid"  # a new question, at its price
    assert not [e for e in ledger.entries() if "/again/" in e.key]
    ledger.verify()


def test_a_stream_counts_a_lost_test_as_one_above(monkeypatch, tmp_path):
    location, table = tmp_path / "a.ledger", people(4000)
    facts: dict[str, Any] = {"threshold": 10**6, "epsilon": 1.0, "positives": 2, "key": "stream"}
    with book(Budget(1.0), location=location) as ledger:
        stream = above_threshold(table, ledger=ledger, **facts)
        assert not stream.ask("age >= 3").above
        lose_the_next_look(stream, monkeypatch, "sex = 1")
    stream = above_threshold(table, ledger=Ledger.open(location), **facts)
    assert (stream.positives_left, stream.questions_left) == (1, 999)
    assert not stream.ask("sex = 1").above
