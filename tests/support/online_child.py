"""Processes that ask in a session and may be killed at any moment. Run as a script; talks in JSON lines.

Each line on stdin forks a worker that asks; the server answers with its pid and, when it died, how. A line with
`numbers` forks one worker per list instead, all at once, and says what each was answered.
"""

# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import itertools
import json
import os
import random
import signal
from pathlib import Path
from typing import Any

from maquette.accounting.ledger import Ledger
from maquette.core.budget import Budget
from maquette.core.ledger import ledger as calls
from maquette.queries import boxes
from maquette.queries.base import Queries
from maquette.sessions import Session
from maquette.sessions.opening import session
from support import crash_points
from support.forking import Order, fork_workers
from support.online_cases import PEOPLE, book, people

ROWS = 3000
EPSILON = 400.0
KINDS: dict[str, dict[str, Any]] = {
    "measures": {"mechanism": "direct"},
    "tests": {"measure_first": False},
    "both": {},
}
"""Sessions that measure every question, test every guess, or go from the one to the other."""
BEFORE_REPLY = "before-reply"
_BOXES = [
    {"age": ages, "sex": (sex, sex)} | job
    for ages in itertools.combinations_with_replacement(range(8), 2)
    for sex in range(2)
    for job in [{}, *({"job": (job, job)} for job in range(4))]
]
random.Random(0).shuffle(_BOXES)
QUESTIONS = len(_BOXES)


def question(number: int) -> Queries:
    """One of 360 questions, no two of the same meaning and none the complement of another."""
    return boxes(PEOPLE, [_BOXES[number]])


def opened(location: Path | str, kind: str) -> Session:
    return session(
        people(ROWS),
        ledger=Ledger.open(location),
        epsilon=EPSILON / (len(KINDS) + 1),  # the rest pays for looks that are lost
        alpha=0.1,
        queries=QUESTIONS,
        key=kind,
        **KINDS[kind],
    )


def _warm_up() -> None:
    """So that no worker pays for imports and compiled loops."""
    for options in KINDS.values():
        warm = session(people(ROWS), ledger=book(Budget(4.0)), epsilon=4.0, alpha=0.1, queries=100, **options)
        for number in range(12):
            warm.ask(question(number), key=f"k{number}")


def _work(order: Order) -> None:
    """Ask, and only then write down what was seen, as a client would. Whoever asked before is dead."""
    calls.PATIENCE = 0.0
    place, _, visit = order["crash_at"].partition(":")
    armed = place not in ("", BEFORE_REPLY)
    if armed and order["early"]:
        os.environ[crash_points.VARIABLE] = order["crash_at"]
    journal = os.open(order["journal"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    own = opened(order["location"], order["kind"])
    if armed:
        os.environ[crash_points.VARIABLE] = order["crash_at"]
    if order["many"]:
        answers = own.ask_many([question(number) for number in order["ask"]])
        lines = [f"m{n} {a.value!r}\n" for n, a in zip(order["ask"], answers, strict=True)]
        os.write(journal, "".join(lines).encode())
        return
    for step, number in enumerate(order["ask"]):
        key = f"k{number}"
        if order.get("broken"):
            os.write(journal, f"{key} 0.12345\n".encode())
        answer = own.ask(question(number), key=key)
        if place == BEFORE_REPLY and step + 1 >= int(visit):
            os.kill(os.getpid(), signal.SIGKILL)
        os.write(journal, f"{key} {answer.value!r}\n".encode())


def _together(order: Order) -> dict[str, Any] | None:
    if "numbers" not in order:
        return None
    pids = []
    for place, numbers in enumerate(order["numbers"]):
        pids.append(os.fork())
        if pids[-1] == 0:
            own = opened(order["location"], order["kinds"][place])
            answers = {n: own.ask(question(n), key=f"k{n}").value for n in numbers}
            Path(f"{order['location']}.{place}").write_text(json.dumps(answers))
            os._exit(0)
    for pid in pids:
        os.waitpid(pid, 0)
    return {"answers": [json.loads(Path(f"{order['location']}.{i}").read_text()) for i in range(len(pids))]}


if __name__ == "__main__":
    _warm_up()
    crash_points.install()
    fork_workers(_work, special=_together)
