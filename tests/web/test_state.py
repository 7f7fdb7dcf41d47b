"""What the front remembers: brought up from an earlier form, and a database that is away is a refusal."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, inspect, text

from maquette.errors import LedgerError
from maquette.web import state
from maquette.web.pages import status_of
from maquette.web.state import State

OLD = Path(__file__).parents[1] / "support" / "state_format_1.sql"
JOB = {
    "key": "second-job", "person": "stella", "table": "people", "request": "{}", "state": "running",
    "stage": "", "share": 0, "why": "", "published": 0, "created": 1790000001,
}  # fmt: skip


def write_old(folder: Path) -> None:
    with sqlite3.connect(folder / "service.db") as connection:
        connection.executescript(OLD.read_text("utf-8"))
    connection.close()


def indexes(store: State) -> set[str]:
    found = inspect(store._engine)  # the test looks at the tables themselves
    return {str(one["name"]) for table in ("job", "browser") for one in found.get_indexes(table)}


def check_old_rows(store: Any) -> None:
    token = store.find(state.token, id="aabbccddeeff")
    assert (token["person"], token["digest"], token["revoked"]) == ("anna", bytes(range(32)), None)
    assert store.find(state.browser, token="aabbccddeeff")["csrf"] == "a-csrf-token"
    assert [row["id"] for row in store.rows(state.job, state="done")] == ["0011223344556677"]
    assert store.add(state.job, id="8899", **JOB)
    assert [(row["number"], row["attempt"]) for row in store.rows(state.job)] == [(1, 0), (2, 0)]
    key = {
        "person": "anna",
        "table": "people",
        "key": "a-key-of-tests",
        "digest": "00",
        "created": 1790000001,
    }
    assert [store.add(state.statement, **key), store.add(state.statement, **key)] == [True, False]


def test_the_state_of_the_first_version_is_brought_up_with_all_that_it_holds(tmp_path):
    write_old(tmp_path)
    store = State.at(tmp_path)
    assert store.was_upgraded
    check_old_rows(store)
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    new = State.at(fresh)
    assert not new.was_upgraded
    assert indexes(store) == indexes(new) == {"job_state", "browser_expires"}
    store.close()
    assert not State.at(tmp_path).was_upgraded


def test_every_form_has_a_step_to_the_next():
    assert sorted(state.STEPS) == list(range(1, state.FORMAT))


def test_the_state_of_a_newer_version_is_refused_and_left_as_it_is(tmp_path):
    State.at(tmp_path).close()
    with sqlite3.connect(tmp_path / "service.db") as connection:
        connection.execute(f"UPDATE about SET format = {state.FORMAT + 1}")
    with pytest.raises(LedgerError, match="newer version"):
        State.at(tmp_path)
    assert connection.execute("SELECT format FROM about").fetchone() == (state.FORMAT + 1,)
    connection.close()


def test_a_step_that_fails_leaves_the_earlier_form(tmp_path, monkeypatch):
    write_old(tmp_path)
    monkeypatch.setitem(state.STEPS, 1, (*state.STEPS[1], "CREATE INDEX broken ON nothing (nothing)"))
    with pytest.raises(LedgerError, match="cannot use the service's state"):
        State.at(tmp_path)
    with sqlite3.connect(tmp_path / "service.db") as connection:
        assert connection.execute("SELECT format FROM about").fetchone() == (1,)
        assert not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'job_state'").fetchall()
    connection.close()
    monkeypatch.undo()
    check_old_rows(State.at(tmp_path))


def test_several_that_start_at_once_bring_it_up_once(tmp_path):
    write_old(tmp_path)
    together, upgraded = threading.Barrier(4), list[bool]()

    def start() -> None:
        together.wait()
        store = State.at(tmp_path)
        upgraded.append(store.was_upgraded)
        store.close()

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(upgraded) == [False, False, False, True]


@pytest.mark.slow
def test_the_first_form_in_postgresql(tmp_path):
    from support.ledger_postgres import server

    url = server().new_database()
    engine = create_engine(url)
    with engine.begin() as connection:
        state.metadata.create_all(connection)
        for name in ("job_state", "browser_expires"):
            connection.execute(text(f"DROP INDEX {name}"))
        for name in ("statement", "saved"):
            connection.execute(text(f"DROP TABLE {name}"))
        connection.execute(text("ALTER TABLE job DROP COLUMN attempt"))
        connection.execute(text("INSERT INTO about VALUES (1)"))
    engine.dispose()
    store = State.at(tmp_path, url.replace("postgresql+psycopg://", "postgresql://"))
    assert store.was_upgraded
    assert store.rows(state.statement) == []
    assert indexes(store) >= {"job_state", "browser_expires"}
    store.close()


@pytest.mark.parametrize("damage", ["lost", "locked"])
def test_a_state_that_cannot_be_used_is_a_refusal_without_its_place(tmp_path, damage):
    store = State.at(tmp_path)
    other = sqlite3.connect(tmp_path / "service.db", isolation_level=None)
    if damage == "lost":
        other.execute("DROP TABLE token")
    else:
        other.execute("BEGIN EXCLUSIVE")
        with store._engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA busy_timeout = 10")
    with pytest.raises(LedgerError) as raised:
        store.add(
            state.token,
            id="x",
            person="anna",
            label="",
            salt=b"",
            digest=b"",
            created=0,
            expires=0,
            revoked=None,
        )
    assert status_of(raised.value) == 503
    assert str(tmp_path) not in str(raised.value)
    other.close()
