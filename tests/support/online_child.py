"""Processes that ask in a session and may be killed at any moment. Run as a script; talks in JSON lines.

Each line on stdin forks a worker that asks; the server answers with its pid and, when it died, how. A line with
`numbers` forks one worker per list instead, all at once, and says what each was answered.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

from maquette.accounting.budget import Budget
from maquette.accounting.ledger import Ledger, faults
from maquette.sessions import Session, session
from support.online_cases import book, people

ROWS = 3000
OPTIONS: dict[str, Any] = {"epsilon": 400.0, "alpha": 0.1, "queries": 5000, "key": "s"}
BEFORE_REPLY = "before-reply"


def question(number: int) -> str:
    """One of very many questions, the same for the same number."""
    rng = random.Random(number)
    parts = [f"age = {rng.randrange(8)}", f"job = {rng.randrange(4)}", f"sex = {rng.randrange(2)}"]
    low = rng.randrange(7)
    more = f"age between {low} and {rng.randrange(low, 8)}"
    return f"({rng.choice(parts)} or {more}) and not ({rng.choice(parts)} and {rng.choice(parts)})"


def opened(location: str, **more: Any) -> Session:
    return session(people(ROWS), ledger=Ledger.open(location), **{**OPTIONS, **more})


def serve() -> None:
    for bypass in (True, False):  # so that no worker pays for imports and compiled loops
        warm = session(people(ROWS), ledger=book(Budget(400.0)), **{**OPTIONS, "bypass": bypass})
        for number in range(12):
            warm.ask(question(number), key=f"k{number}")
    for line in sys.stdin:
        order = json.loads(line)
        if "numbers" in order:
            _say(answers=_together(order))
            continue
        pid = os.fork()
        if pid == 0:
            _work(order)
            os._exit(0)
        _say(pid=pid)
        _, status = os.waitpid(pid, 0)
        _say(signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0)


def _work(order: dict[str, Any]) -> None:
    """Ask, and only then write down what was seen, as a client would."""
    place, _, visit = order["crash_at"].partition(":")
    if place and place != BEFORE_REPLY:
        os.environ[faults.VARIABLE] = order["crash_at"]
    journal = os.open(order["journal"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    own = opened(order["location"], bypass=order["bypass"], key=order["session"])
    rng = random.Random(order["round"])
    for step in range(order["steps"]):
        # new questions, and some of earlier rounds
        number = rng.randrange(max(0, 4 * order["round"] - 12), 4 * order["round"] + 6)
        key = f"k{number}"
        if order.get("broken"):
            os.write(journal, f"{key} 0.12345\n".encode())
        answer = own.ask(question(number), key=key)
        if place == BEFORE_REPLY and step + 1 >= int(visit):
            os.kill(os.getpid(), signal.SIGKILL)
        os.write(journal, f"{key} {answer.value!r}\n".encode())


def _together(order: dict[str, Any]) -> list[Any]:
    pids = []
    for place, numbers in enumerate(order["numbers"]):
        pids.append(os.fork())
        if pids[-1] == 0:
            own = opened(order["location"], bypass=order["bypass"])
            answers = {n: own.ask(question(n), key=f"k{n}").value for n in numbers}
            Path(f"{order['location']}.{place}").write_text(json.dumps(answers))
            os._exit(0)
    for pid in pids:
        os.waitpid(pid, 0)
    return [json.loads(Path(f"{order['location']}.{i}").read_text()) for i in range(len(pids))]


def _say(**values: Any) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    serve()
