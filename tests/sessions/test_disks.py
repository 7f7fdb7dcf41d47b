"""Full and read-only disks: no answer, nothing lost, and on it goes when there is room."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from maquette.accounting.ledger import Ledger
from maquette.core.budget import Budget
from maquette.errors import LedgerError
from maquette.sessions import Session
from support.online_cases import PEOPLE, book
from support.online_child import EPSILON, KINDS, opened, question
from support.privacy_doubles import Untouchable


def ledger_at(folder: Path) -> Path:
    location = folder / "x.ledger"
    book(Budget(EPSILON), location=location).close()
    return location


def full(connection_of: Any, pages: int) -> Any:
    def connect(address: str) -> Any:
        connection = connection_of(address)
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    return connect


def ask_until_full(session: Session) -> dict[int, float]:
    given: dict[int, float] = {}

    def ask_on() -> None:
        for number in range(500):
            given[number] = session.ask(question(number), key=f"k{number}").value

    with pytest.raises(LedgerError, match="disk is full"):
        ask_on()
    return given


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk_fails_closed_and_the_session_goes_on_when_there_is_room(tmp_path, monkeypatch, kind):
    from maquette.core.ledger import store

    location = ledger_at(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(store, "_connect", full(store._connect, 60))
        given = ask_until_full(opened(location, kind))
    assert len(given) > 5
    again = opened(location, kind)
    with Ledger.open(location) as ledger:
        ledger.verify()
    for number, value in given.items():
        answer = again.ask(question(number), key=f"k{number}")
        assert (answer.value, answer.kind) == (value, "cached")
    after = again.ask(question(len(given)), key="more")
    assert after.kind in ("free", "paid", "cached")
    steps = [e for e in Ledger.open(location).children(kind) if e.body["ask"] in ("test", "measure")]
    assert len({e.body["meaning"] for e in steps}) == len(steps) == len(given) + 1


def refuse_writing(session: Session) -> None:
    engine = session._ledger._store.engine
    engine.dispose()
    with engine.connect() as connection:
        connection.connection.dbapi_connection.execute("PRAGMA query_only = ON")


@pytest.mark.parametrize("kind", KINDS)
def test_a_read_only_ledger_answers_nothing_new(tmp_path, kind):
    location = ledger_at(tmp_path)
    session = opened(location, kind)
    first = session.ask(question(1))
    before = [e.head for e in Ledger.open(location).entries()]
    refuse_writing(session)
    if kind != "tests":  # what cannot be paid is not looked at; a test inside an epoch was paid before
        session._planner.curator._engine = Untouchable(PEOPLE)
    with pytest.raises(LedgerError, match="read-only"):
        session.ask(question(2))
    assert session.ask(question(1)).value == first.value
    assert [e.head for e in Ledger.open(location).entries()] == before
