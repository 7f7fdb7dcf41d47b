"""kill -9 at random moments and at every named point: nothing lost, nothing doubled, nothing changed."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest

from maquette.accounting.ledger import Ledger
from support import crash_points
from support.ledger_cases import create, digest, pay
from support.ledger_postgres import new_database, server
from support.ledger_process import Child, seen_by_clients, wait_for_lines

POINTS = get_args(crash_points.Point)
COST = 7


def check_after_crash(location: str | Path, journal: Path) -> Counter[str]:
    """The promises of the ledger, read after a crash; counts what state the keys were left in."""
    with Ledger.open(location) as ledger:
        ledger.verify()
        reserved = list(ledger.entries(kind="reserve"))
        answers = {e.key: e.payload for e in ledger.entries(kind="answer", payloads=True)}
        assert len({e.key for e in reserved}) == len(reserved), "a key was charged twice"
        assert ledger.spent_units == sum(e.units for e in reserved) == COST * len(reserved)
    known = {key: digest_of(data) for key, data in answers.items()}
    for key, seen in seen_by_clients(journal):
        assert key in known, "a client saw an answer that is not in the ledger"
        assert known[key] == seen, "a client saw another answer than the ledger holds"
    return Counter("answered" if e.key in answers else "unanswered" for e in reserved)


def digest_of(data: bytes | None) -> str:
    import hashlib

    assert data is not None
    return hashlib.sha256(data).hexdigest()


def one_round(child: Child, location: str | Path, journal: Path, number: int, crash_at: str, **more) -> int:
    """Let a worker run until it dies; returns the signal that ended it."""
    before = len(seen_by_clients(journal))
    child.tell(
        **{
            "location": str(location),
            "journal": str(journal),
            "round": number,
            "crash_at": crash_at,
            "threads": 1 + 3 * (number % 2),
            "steps": 10_000,
            "broken": False,
            **more,
        }
    )
    pid = child.hear()["pid"]
    if not crash_at:
        rng = random.Random(number)
        wait_for_lines(journal, before + rng.choice((0, 0, 1, 2, 4)))
        time.sleep(rng.uniform(0.0, 0.01))
        os.kill(pid, signal.SIGKILL)
    return child.hear()["signal"]


def kill_loop(location: str | Path, journal: Path, rounds: int) -> tuple[Counter[str], Counter[str]]:
    kinds: Counter[str] = Counter()
    states: Counter[str] = Counter()
    with Child("forkserver") as child:
        for number in range(1, rounds + 1):
            crash_at = f"{POINTS[number // 2 % len(POINTS)]}:{1 + number % 4}" if number % 2 else ""
            assert one_round(child, location, journal, number, crash_at) == signal.SIGKILL
            kinds[crash_at.partition(":")[0] or "random"] += 1
            states += check_after_crash(location, journal)
    return kinds, states


def finish(location: str | Path, journal: Path) -> None:
    """Every key that was ever charged can still be answered, without a second charge."""
    with Ledger.open(location) as ledger:
        spent = ledger.spent_units
        for entry in list(ledger.entries(kind="reserve")):
            again = pay(ledger, entry.key, COST)
            if again.payload is None:
                assert ledger.answer(entry.key, b"drawn again, never shown before").answered is not None
        assert ledger.spent_units == spent
    assert check_after_crash(location, journal)["unanswered"] == 0


@pytest.mark.slow
def test_two_hundred_kills_lose_double_and_change_nothing(tmp_path):
    location, journal = tmp_path / "survey.ledger", tmp_path / "journal"
    create(location, 10**9).close()
    kinds, states = kill_loop(location, journal, 200)
    assert kinds["random"] == 100
    assert all(kinds[point] >= 15 for point in POINTS)
    assert states["unanswered"] > 0, "no kill fell between paying and answering: the loop proves nothing"
    assert len(seen_by_clients(journal)) > 100
    finish(location, journal)


@pytest.mark.slow
def test_kills_of_clients_and_of_the_server_in_postgresql(tmp_path):
    location, journal = new_database(), tmp_path / "journal"
    create(location, 10**9).close()
    for _ in range(2):
        kill_loop(location, journal, 10)
        server().crash()
        server().start()
        check_after_crash(location, journal)
    finish(location, journal)


@pytest.mark.slow
def test_the_check_catches_a_client_that_returns_before_the_answer_is_durable(tmp_path):
    location, journal = tmp_path / "survey.ledger", tmp_path / "journal"
    create(location, 10**9).close()
    with Child("forkserver") as child:
        one_round(child, location, journal, 1, "before-answer:1", broken=True)
    with pytest.raises(AssertionError, match="not in the ledger"):
        check_after_crash(location, journal)


def test_the_check_catches_a_ledger_that_changes_an_answer(tmp_path):
    location, journal = tmp_path / "survey.ledger", tmp_path / "journal"
    ledger = create(location, 100)
    pay(ledger, "k", COST)
    ledger.answer("k", b"stored")
    journal.write_text(f"k {digest('shown')}\n")
    with pytest.raises(AssertionError, match="another answer"):
        check_after_crash(location, journal)


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_what_each_crash_point_leaves_behind(tmp_path, point):
    location, journal = tmp_path / "survey.ledger", tmp_path / "journal"
    create(location, 10**9).close()
    with Child("forkserver") as child:
        assert one_round(child, location, journal, 2, f"{point}:1", threads=1) == signal.SIGKILL
    with Ledger.open(location) as ledger:
        found = [e.kind for e in ledger.entries(after=1)]
    expected = {
        "before-reserve": [],
        "mid-transaction": [],
        "after-reserve": ["reserve"],
        "before-answer": ["reserve"],
        "after-answer": ["reserve", "answer"],
    }
    assert found == expected[point]
    assert not seen_by_clients(journal)


@pytest.mark.slow
@pytest.mark.parametrize(
    "point",
    [
        "before-reserve",
        "mid-transaction",
        "before-receipt",
        "after-receipt",
        "after-reserve",
        "before-answer",
        "after-answer",
    ],
)
def test_a_kill_at_each_step_of_groups_of_sixteen_loses_and_doubles_nothing(tmp_path, point):
    """Before it is paid, inside the commit, between commit and receipt, after both, before and after the answer."""
    location, journal = tmp_path / "survey.ledger", tmp_path / "journal"
    create(location, 10**9).close()
    with Child("forkserver") as child:
        for number, visit in enumerate((1, 2, 5, 9), start=2):
            assert (
                one_round(child, location, journal, number, f"{point}:{visit}", threads=16) == signal.SIGKILL
            )
            check_after_crash(location, journal)
    finish(location, journal)
    assert seen_by_clients(journal) or point in ("before-reserve", "mid-transaction", "before-receipt")


def test_without_the_variable_a_crash_point_does_nothing(monkeypatch):
    killed: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, _number: killed.append(pid))
    for value in (None, "", "elsewhere"):
        monkeypatch.delenv(crash_points.VARIABLE, raising=False)
        if value is not None:
            monkeypatch.setenv(crash_points.VARIABLE, value)
        crash_points.point("after-reserve")
    assert not killed
    monkeypatch.setenv(crash_points.VARIABLE, "after-reserve")
    crash_points.point("after-reserve")
    assert killed == [os.getpid()]
