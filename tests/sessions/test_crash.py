"""kill -9 through the session: an answer that was seen is in the ledger, charged once, and the same for ever.

MAQUETTE_CRASH_ROUNDS sets the number of rounds: 48 by default, 500 and more before a release.
"""

# pyright: reportOptionalMemberAccess=false

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from maquette.accounting.ledger import Ledger
from maquette.core.budget import Budget
from maquette.core.ledger import ledger as calls
from maquette.core.measurement import has_outcome, read_step
from maquette.sessions import Session
from support import crash_points
from support.ledger_process import Child, seen_by_clients, wait_for_lines
from support.online_cases import book
from support.online_child import BEFORE_REPLY, EPSILON, KINDS, opened, question
from support.online_rounds import RANDOM, Round, Seen, plan, seen

pytestmark = pytest.mark.slow  # processes of their own

ROUNDS = int(os.environ.get("MAQUETTE_CRASH_ROUNDS", "48"))
PER_LEDGER = 20
POINTS = {*get_args(crash_points.Point), BEFORE_REPLY}
MEMORY = Path("/dev/shm")


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    with Child(script="online_child.py") as made:
        yield made


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where the system has such a place: a kill loses nothing that was written, on whatever disk."""
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as made:
        yield Path(made)


def new_ledger(folder: Path, name: str = "x") -> tuple[Path, Path]:
    location = folder / f"{name}.ledger"
    book(Budget(EPSILON), location=location).close()
    return location, folder / f"{name}.journal"


def check(location: Path, journal: Path, session: Session) -> Counter[str]:
    """The promises, read after a crash; counts what the steps are."""
    session._planner.sync()  # takes in what others did, and asks again what they paid for and did not store
    with Ledger.open(location) as ledger:
        ledger.verify()
        steps = list(ledger.children(session.key))
        envelope = ledger.find(session.key)
        assert envelope is not None
        assert sum(e.units for e in steps) <= envelope.units
        epochs = [e for e in steps if e.body["ask"] == "epoch"]
        assert all(e.answered is not None for e in epochs), "an epoch was charged without its threshold"
        asked = [e for e in steps if e.body["ask"] in ("test", "measure") and has_outcome(read_step(e))]
        meanings = [e.body["meaning"] for e in asked]
        assert len(set(meanings)) == len(meanings), "a question was answered twice"
        spent = sum(e.units for e in steps)
    for key, text in seen_by_clients(journal):
        asked = question(int(key[1:]))
        if key.startswith("m"):  # asked among many, without a key
            assert session.forecast(asked).kind == "cached", (
                "a client saw an answer that is not in the ledger"
            )
            answer = session.ask(asked)
        else:
            stored = session._planner.state.answers_by_key.get(key)
            assert stored is not None, "a client saw an answer that is not in the ledger"
            answer = session.ask(asked, key=key)
        assert (repr(answer.value), answer.kind, answer.cost) == (text, "cached", 0.0), (
            "a client saw another answer"
        )
    with Ledger.open(location) as ledger:
        assert sum(e.units for e in ledger.children(session.key)) == spent, "a retry was charged"
    return Counter(str(e.body["ask"]) for e in steps)


def die(
    child: Child, location: Path, journal: Path, this: Round, number: int, *, broken: bool = False
) -> None:
    """One round: a worker asks until it is dead; AssertionError if it died elsewhere than planned, or lives."""
    before = seen(location, journal, this.kind)
    child.tell(
        location=str(location),
        journal=str(journal),
        kind=this.kind,
        crash_at=this.crash_at,
        early=this.early,
        many=this.many,
        ask=this.asks(number),
        broken=broken,
    )
    pid = child.hear()["pid"]
    if this.point == RANDOM:
        rng = random.Random(number)
        wait_for_lines(journal, before.lines + rng.choice((0, 0, 2, 4, 8)))
        time.sleep(rng.uniform(0.0, 0.02))
        os.kill(pid, signal.SIGKILL)
    assert child.hear()["signal"] == signal.SIGKILL, f"{this} was not reached"
    if this.point != RANDOM and not broken:
        this.check(before, seen(location, journal, this.kind))


class Desk:
    """A session on a ledger of its own, watched from this process."""

    def __init__(self, folder: Path, name: str, kind: str) -> None:
        self.kind = kind
        self.location, self.journal = new_ledger(folder, f"{name}-{kind}")
        self._watching = opened(self.location, kind)
        self._watching.ask(question(0), key="first")  # the number of records, before anything is counted
        assert self._watching.history()[0].kind == "size"

    def check(self, *, anew: bool = False) -> Counter[str]:
        session = opened(self.location, self.kind) if anew else self._watching
        return check(self.location, self.journal, session)


def desks_in(folder: Path, name: str) -> dict[str, Desk]:
    return {kind: Desk(folder, name, kind) for kind in KINDS}


def test_kills_at_every_point_lose_double_and_change_nothing(folder, child, monkeypatch):
    monkeypatch.setattr(calls, "PATIENCE", 0.0)
    planned = list(plan(ROUNDS))
    died: Counter[str] = Counter()
    steps: Counter[str] = Counter()
    desks: dict[str, Desk] = {}
    for number, this in enumerate(planned):
        place = number % PER_LEDGER
        if not desks or (place == 0 and not planned[number - 1].leaves):
            desks = desks_in(folder, str(number))
        desk = desks[this.kind]
        die(child, desk.location, desk.journal, this, 1 + place)
        died[this.point] += 1
        if not this.leaves:
            steps += desk.check(anew=number % 5 == 0)
    assert died == Counter(this.point for this in planned)
    assert set(died) == {RANDOM, *POINTS} or ROUNDS < 48
    assert min(steps[ask] for ask in ("measure", "epoch", "test")) > 10
    print(f"{sum(died.values())} kills: {dict(died)}")


def test_a_worker_that_is_not_killed_or_killed_elsewhere_fails_the_round(folder, child):
    kind = "measures"
    desk = Desk(folder, "x", kind)
    with pytest.raises(AssertionError, match="was not reached"):
        die(child, desk.location, desk.journal, Round(kind, "nowhere"), 1)
    here, there = Round(kind, "after-reserve", 2), Round(kind, "before-reserve", 2)
    empty, found = Seen((), False, 0), Seen(("measure",), True, 1)
    here.check(empty, found)
    with pytest.raises(AssertionError, match="expected"):
        there.check(empty, found)
    with pytest.raises(AssertionError, match="expected"):
        replace(here, visit=1).check(empty, found)


def test_the_check_catches_an_answer_that_was_shown_before_it_was_stored(folder, child):
    desk = Desk(folder, "x", "tests")
    die(child, desk.location, desk.journal, Round("tests", "before-answer", 3), 1, broken=True)
    with pytest.raises(AssertionError, match="client saw"):
        desk.check()


@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_on_one_session_agree_and_pay_once(folder, child, kind):
    location, journal = new_ledger(folder)
    child.tell(location=str(location), numbers=[list(range(24)), list(range(23, -1, -1))], kinds=[kind, kind])
    one, other = child.hear()["answers"]
    assert one == other
    assert len(one) == 24
    watching = opened(location, kind)
    steps = check(location, journal, watching)
    assert steps["measure"] + steps["test"] == 24
    if kind == "tests":
        far = sum(p.kind == "paid" for p in watching.history())
        assert far // 4 <= steps["epoch"] <= far // 4 + 1


def test_two_processes_in_two_sessions_of_one_ledger_keep_its_total_and_share_answers(folder, child):
    location, journal = new_ledger(folder)
    halves = [list(range(24)), list(range(23, -1, -1))]
    child.tell(location=str(location), numbers=halves, kinds=["measures", "tests"])
    one, other = child.hear()["answers"]
    assert one.keys() == other.keys()
    with Ledger.open(location) as ledger:
        ledger.verify()
        spent = {kind: sum(e.units for e in ledger.children(kind)) for kind in ("measures", "tests")}
        envelopes = {kind: ledger.find(kind) for kind in spent}
        assert all(0 < spent[kind] <= envelopes[kind].units for kind in spent)
        assert ledger.spent_units == sum(e.units for e in envelopes.values()) <= ledger.total_units
    taken = 0
    for kind in spent:
        steps = check(location, journal, opened(location, kind))
        assert steps["measure"] + steps["test"] + steps["note"] == 24
        taken += steps["note"]
    # they began at opposite ends, so what the one came to last the other had been answered
    assert taken > 0
    assert sum(one[n] == other[n] for n in one) >= taken
