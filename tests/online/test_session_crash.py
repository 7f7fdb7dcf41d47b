"""kill -9 through the session: an answer that was seen is in the ledger, charged once, and the same for ever.

MAQUETTE_CRASH_ROUNDS sets the number of rounds: 40 by default, 500 and more before a release.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from maquette.accounting.budget import Budget
from maquette.accounting.ledger import Ledger, faults
from maquette.errors import LedgerError
from maquette.sessions import Session
from support.online_cases import book
from support.online_child import BEFORE_REPLY, OPTIONS, opened, question

TESTS = Path(__file__).parent.parent
ROUNDS = int(os.environ.get("MAQUETTE_CRASH_ROUNDS", "40"))
POINTS = (*get_args(faults.Point), BEFORE_REPLY)


class Child:
    """A process of `online_child`."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(TESTS / "support" / "online_child.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(TESTS)},
        )

    def tell(self, **order: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the child ended with {self._process.wait()}"
        return json.loads(line)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    made = Child()
    yield made
    made.close()


def seen_by_clients(journal: Path) -> list[tuple[str, float]]:
    """Whole lines only: the last one may have been cut by the kill."""
    if not journal.exists():
        return []
    lines = journal.read_text().split("\n")[:-1]
    return [(line.split()[0], float(line.split()[1])) for line in lines]


def check(location: Path, journal: Path, session: Session) -> Counter[str]:
    """The promises, read after a crash; counts what the steps are."""
    session.history()  # takes in what others did
    with Ledger.open(location) as ledger:
        ledger.verify()
        steps = list(ledger.children(session.key))
        envelope = ledger.find(session.key)
        assert envelope is not None
        assert sum(e.units for e in steps) <= envelope.units == ledger.spent_units
        epochs = [e for e in steps if e.body["ask"] == "epoch"]
        assert all(e.answered is not None for e in epochs), "an epoch was charged without its threshold"
        meanings = [e.body["meaning"] for e in steps if e.body["ask"] in ("test", "measure")]
        assert len(set(meanings)) == len(meanings), "a question was answered twice"
        spent = sum(e.units for e in steps)
    for key, value in seen_by_clients(journal):
        known = session._desk.state.clients.get(key)
        assert known is not None, "a client saw an answer that is not in the ledger"
        answer = session.ask(question(int(key[1:])), key=key)
        assert (answer.value, answer.kind, answer.cost) == (value, "cached", 0.0), (
            "a client saw another answer"
        )
    with Ledger.open(location) as ledger:
        assert sum(e.units for e in ledger.children(session.key)) == spent, "a retry was charged"
    return Counter(str(e.body["ask"]) for e in steps)


def one_round(child: Child, location: Path, journal: Path, number: int, crash_at: str, **more: Any) -> int:
    before = len(seen_by_clients(journal))
    child.tell(
        **{
            "location": str(location),
            "journal": str(journal),
            "round": number,
            "crash_at": crash_at,
            "steps": 300,
            "bypass": True,
            "session": "s",
            **more,
        }
    )
    pid = child.hear()["pid"]
    if not crash_at:
        rng = random.Random(number)
        wanted = before + rng.choice((0, 2, 4, 8))
        for _ in range(20_000):
            if len(seen_by_clients(journal)) >= wanted:
                break
            time.sleep(0.001)
        time.sleep(rng.uniform(0.0, 0.02))
        os.kill(pid, signal.SIGKILL)
    return child.hear()["signal"]


def kill_loop(folder: Path, rounds: int, *, bypass: bool, child: Child) -> tuple[Counter[str], Counter[str]]:
    """Rounds of asking until killed, at named points and at random; the promises are checked after each."""
    location, journal = folder / f"{bypass}.ledger", folder / f"{bypass}.journal"
    book(Budget(OPTIONS["epsilon"]), location=location).close()
    kinds: Counter[str] = Counter()
    steps: Counter[str] = Counter()
    watching = opened(str(location), bypass=bypass)
    for number in range(1, rounds + 1):
        point = POINTS[number // 2 % len(POINTS)]
        # a session that only tests reserves nothing but itself
        visit = 1 if point.endswith("reserve") and not bypass else 1 + number % 4
        crash_at = f"{point}:{visit}" if number % 2 else ""
        ended = one_round(child, location, journal, number, crash_at, bypass=bypass)
        # a session that has learned enough tests and reserves no more: its worker may come to its end
        assert ended == signal.SIGKILL or (ended == 0 and point.endswith("reserve"))
        kinds[crash_at.partition(":")[0] or "random"] += ended == signal.SIGKILL
        steps = check(location, journal, watching)
        if number % 10 == 0:  # a session opened anew says the same
            steps = check(location, journal, opened(str(location), bypass=bypass))
    assert len(seen_by_clients(journal)) >= rounds // 2
    return kinds, steps


def test_kills_at_every_point_lose_double_and_change_nothing(tmp_path, child):
    measured, steps = kill_loop(tmp_path, ROUNDS * 5 // 8, bypass=True, child=child)
    tested, more = kill_loop(tmp_path, ROUNDS - ROUNDS * 5 // 8, bypass=False, child=child)
    assert set(measured + tested) >= {"random", *POINTS} or ROUNDS < 24
    assert steps["measure"] > 10
    assert more["epoch"] > 1
    assert more["test"] > 10


def test_the_check_catches_an_answer_that_was_shown_before_it_was_stored(tmp_path, child):
    location, journal = tmp_path / "x.ledger", tmp_path / "x.journal"
    book(Budget(OPTIONS["epsilon"]), location=location).close()
    one_round(child, location, journal, 1, "before-answer:3", broken=True)
    with pytest.raises(AssertionError, match="client saw"):
        check(location, journal, opened(str(location)))


def test_two_processes_on_one_session_agree_and_pay_once(tmp_path, child):
    location = tmp_path / "x.ledger"
    book(Budget(OPTIONS["epsilon"]), location=location).close()
    child.tell(location=str(location), numbers=[list(range(24)), list(range(23, -1, -1))], bypass=False)
    one, other = child.hear()["answers"]
    assert one == other
    watching = opened(str(location), bypass=False)
    check(location, tmp_path / "none", watching)
    epochs = [e for e in Ledger.open(location).children("s") if e.body["ask"] == "epoch"]
    far = sum(p.kind == "paid" for p in watching.history())
    assert far // 4 <= len(epochs) <= far // 4 + 1


def full(connection_of: Any) -> Any:
    def connect(address: str) -> Any:
        connection = connection_of(address)
        connection.execute("PRAGMA max_page_count = 60")
        return connection

    return connect


def test_a_full_disk_fails_closed_and_the_session_goes_on_when_there_is_room(tmp_path, monkeypatch):
    from maquette.accounting.ledger import store

    location = tmp_path / "x.ledger"
    book(Budget(OPTIONS["epsilon"]), location=location).close()
    given: dict[int, float] = {}
    with monkeypatch.context() as patch:
        patch.setattr(store, "_connect", full(store._connect))
        session = opened(str(location), bypass=False)

        def ask_on() -> None:
            for number in range(500):
                given[number] = session.ask(question(number), key=f"k{number}").value

        with pytest.raises(LedgerError, match="disk is full"):
            ask_on()
    assert len(given) > 5
    again = opened(str(location), bypass=False)
    Ledger.open(location).verify()
    for number, value in given.items():
        assert again.ask(question(number), key=f"k{number}").value == value
    assert again.ask(question(len(given)), key="more").kind in ("free", "paid", "cached")


def test_a_read_only_ledger_answers_nothing_new(tmp_path):
    location = tmp_path / "x.ledger"
    book(Budget(OPTIONS["epsilon"]), location=location).close()
    session = opened(str(location), bypass=False)
    session.ask(question(1))
    units = Ledger.open(location).spent_units
    session._book._store.engine.dispose()
    with session._book._store.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA query_only = ON")
        connection.connection.dbapi_connection.execute("PRAGMA query_only = ON")
    with pytest.raises(LedgerError, match="read-only"):
        session.ask(question(2))
    assert Ledger.open(location).spent_units == units
