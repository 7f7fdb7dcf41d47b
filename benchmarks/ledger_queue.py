"""Waiting for the ledger: eight processes that charge as fast as they can, in turn and by SQLite's own lock alone.

Also what keeping a receipt beside the ledger costs one process. Both with and without are measured in the same run.

python -m benchmarks ledger_queue
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.ledger import ALONE, CLIENTS, EACH, _charge, _measure
from maquette.accounting import Budget
from maquette.accounting.ledger import Ledger
from maquette.core.ledger.store import SqliteStore
from maquette.domain import Relation

PROCESSES, SECONDS = 8, 20.0


def run(data: Path | None) -> list[dict[str, Any]]:
    """Waiting times of eight processes, and charges per second of one, with and without turns and receipts."""
    del data
    with tempfile.TemporaryDirectory(prefix="mq-bench-") as name:
        folder = Path(name)
        waits = {
            "what": "waiting for one charge of a ledger file, eight processes at once",
            "processes": PROCESSES,
            "seconds": SECONDS,
            "load_average": os.getloadavg()[0],
            "by_sqlites_lock": _crowd(folder / "bare.ledger", bare=True),
            "in_turn": _crowd(folder / "turns.ledger", bare=False),
            "goal": "the slowest hundredth waits less than three times the median",
        }
        return [waits, _one_process(folder)]


def _crowd(path: Path, *, bare: bool) -> dict[str, Any]:
    _make(path).close()
    command = [
        sys.executable,
        "-m",
        "benchmarks.ledger_queue",
        "worker",
        str(path),
        "bare" if bare else "turns",
    ]
    workers = [
        subprocess.Popen([*command, str(n)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for n in range(PROCESSES)
    ]
    for worker in workers:
        assert worker.stdout is not None
        worker.stdout.readline()
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    taken = [json.loads(worker.communicate()[0]) for worker in workers]
    with Ledger.open(path) as ledger:
        assert ledger.verify().seq - 1 == sum(len(one) for one in taken)
    together = [one for each in taken for one in each]
    cuts = statistics.quantiles(together, n=100)
    return {
        "charges": len(together),
        "per_second": round(len(together) / SECONDS, 1),
        "p50_ms": round(1000 * cuts[49], 1),
        "p99_ms": round(1000 * cuts[98], 1),
        "longest_ms": round(1000 * max(together), 1),
        "charges_of_each": sorted(len(one) for one in taken),
    }


def _work(path: str, how: str, number: str) -> None:
    """Charge until the time is over, and say how long each charge took."""
    if how == "bare":
        _without_turns()
    taken: list[float] = []
    with Ledger.open(path) as ledger:
        print("ready", flush=True)
        sys.stdin.readline()
        end = time.perf_counter() + SECONDS
        while (start := time.perf_counter()) < end:
            _charge(ledger, f"{number}-{len(taken)}")
            taken.append(time.perf_counter() - start)
    print(json.dumps(taken))


def _one_process(folder: Path) -> dict[str, Any]:
    """The same charges with a receipt after every commit and without."""
    figures: dict[str, Any] = {
        "what": "durable charges of one process, with and without a receipt beside the ledger"
    }
    for name, bare in (("with_receipt", False), ("without", True), ("with_receipt_again", False)):
        command = [sys.executable, "-m", "benchmarks.ledger_queue", "alone", str(folder / f"{name}.ledger")]
        done = subprocess.run(
            [*command, "bare" if bare else "turns"], stdout=subprocess.PIPE, text=True, check=True
        )
        figures[name] = json.loads(done.stdout)
    return figures


def _alone(path: str, how: str) -> None:
    if how == "bare":
        _without_turns()
    with _make(Path(path)) as ledger:
        _charge(ledger, "warm")
        alone = _measure(lambda client, number: _charge(ledger, f"alone-{client}-{number}"), 1, ALONE)
        grouped = _measure(lambda client, number: _charge(ledger, f"group-{client}-{number}"), CLIENTS, EACH)
    print(json.dumps({"alone": alone, "grouped": {"clients": CLIENTS} | grouped}))


def _make(path: Path) -> Ledger:
    relation, budget = Relation.ADD_REMOVE, Budget(1.0)
    return Ledger.create(path, budget=budget, relation=relation, domain_fingerprint="benchmark", name="bench")


def _without_turns() -> None:
    """As it was before there were turns and receipts."""

    @contextmanager
    def at_once(_store: SqliteStore) -> Generator[None]:
        yield None

    SqliteStore.turn = at_once  # type: ignore[method-assign]
    SqliteStore.keep = lambda *_, **__: None  # type: ignore[method-assign]


if __name__ == "__main__":
    {"worker": _work, "alone": _alone}[sys.argv[1]](*sys.argv[2:])
