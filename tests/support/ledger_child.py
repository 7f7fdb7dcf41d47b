"""Processes that use a ledger and may be killed at any moment. Run as a script; talks in JSON lines.

forkserver          each line on stdin forks a worker; the server answers with its pid and, when it died, how
clients             one line on stdin: clients in threads that start together
create              one line on stdin: an attempt to create a ledger
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
import threading
from typing import Any

from maquette.accounting.ledger import Ledger
from maquette.errors import BudgetExceeded, LedgerError
from support import crash_points
from support.forking import fork_workers, say
from support.ledger_cases import create, pay


def _work(order: dict[str, Any]) -> None:
    """Pay, look, answer, and only then write down what was seen, as a client of the service would."""
    if order["crash_at"]:
        os.environ[crash_points.VARIABLE] = order["crash_at"]
    journal = os.open(order["journal"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    ledger = Ledger.open(order["location"])
    threads = [
        threading.Thread(target=_ask_for_ever, args=(ledger, journal, order, number))
        for number in range(order["threads"])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _ask_for_ever(ledger: Ledger, journal: int, order: dict[str, Any], number: int) -> None:
    rng = random.Random(f"{order['round']}-{number}")
    for step in range(order["steps"]):
        # new keys, keys of this and earlier rounds, and keys that other threads ask for at the same time
        key = f"k{rng.randrange(max(1, order['round'] * 3 - 30), order['round'] * 3 + 5)}-{step % 2}"
        entry = pay(ledger, key, 7)
        data = entry.payload
        if data is None:
            drawn = os.urandom(24)  # the look: another draw would be another answer
            if order["broken"]:
                _write_down(journal, key, drawn)
            data = ledger.answer(key, drawn).payload
        assert data is not None
        _write_down(journal, key, data)


def _write_down(journal: int, key: str, data: bytes) -> None:
    os.write(journal, f"{key} {hashlib.sha256(data).hexdigest()}\n".encode())


def clients() -> None:
    """Many clients, several with the same key; says what each one got."""
    order = json.loads(sys.stdin.readline())
    ledger = Ledger.open(order["location"])
    together = threading.Barrier(order["clients"])
    results: list[tuple[str, str]] = []

    def ask(number: int) -> None:
        keys = list(order["keys"])
        random.Random(number // order["copies"]).shuffle(keys)
        together.wait()
        for key in keys[number % order["copies"] :: order["copies"]] + keys:
            results.append((key, _ask(ledger, key, order["cost"])))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(order["clients"])]
    say(ready=True)
    sys.stdin.readline()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    say(results=results)


def _ask(ledger: Ledger, key: str, cost: int) -> str:
    try:
        entry = pay(ledger, key, cost)
    except BudgetExceeded:
        return "refused"
    data = entry.payload
    if data is None:
        data = ledger.answer(key, os.urandom(16)).payload
    assert data is not None
    return data.hex()


def make() -> None:
    order = json.loads(sys.stdin.readline())
    say(ready=True)
    sys.stdin.readline()
    try:
        say(made=create(order["location"], name=order["name"]).name)
    except LedgerError as error:
        say(refused=str(error))


if __name__ == "__main__":
    crash_points.install()
    {"forkserver": lambda: fork_workers(_work), "clients": clients, "create": make}[sys.argv[1]]()
