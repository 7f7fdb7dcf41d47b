"""Durable charges per second: one by one, and by 32 clients that share commits, beside the bare disk and SQLite.

python -m benchmarks.ledger
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from maquette.accounting import Budget, Cost
from maquette.accounting.ledger import Ledger
from maquette.domain import Relation

ALONE, CLIENTS, EACH = 400, 32, 100
REQUEST = hashlib.sha256(b"benchmark").hexdigest()


def run(data: Path | None) -> list[dict[str, Any]]:
    """One figure per store; the peers are measured in the same folder, right before."""
    del data
    with tempfile.TemporaryDirectory(prefix="mq-bench-") as name:
        folder = Path(name)
        peers = {
            "peer_fsyncs_per_second": _fsyncs(folder),
            "peer_sqlite_commits_per_second": _commits(folder),
        }
        figures = [figure("SQLite file, synchronous=FULL", str(folder / "bench.ledger")) | peers]
    try:
        from tests.support.ledger_postgres import Server
    except ImportError:
        return figures
    server = Server()
    try:
        return [*figures, figure("PostgreSQL, synchronous_commit=on", server.new_database())]
    finally:
        server.stop()


def figure(store: str, location: str) -> dict[str, Any]:
    with Ledger.create(
        location,
        budget=Budget(1.0),
        relation=Relation.ADD_REMOVE,
        domain_fingerprint="benchmark",
        name="bench",
    ) as ledger:
        _charge(ledger, "warm")
        alone = _measure(lambda client, number: _charge(ledger, f"alone-{client}-{number}"), 1, ALONE)
        grouped = _measure(lambda client, number: _charge(ledger, f"group-{client}-{number}"), CLIENTS, EACH)
        end = ledger.verify()
        assert ledger.spent_units == 1 + ALONE + CLIENTS * EACH == end.seq - 1
    return {
        "what": "durable charges of a ledger",
        "store": store,
        "alone": alone,
        "grouped": {"clients": CLIENTS} | grouped,
        "goal": "grouped at least 1000 per second",
    }


def _charge(ledger: Ledger, key: str) -> None:
    ledger.reserve(key, request=REQUEST, tag="pure", cost=Cost(1), body={"epsilon": "1/1000000000000"})


def _measure(charge: Callable[[int, int], None], clients: int, each: int) -> dict[str, float]:
    """Charges per second over all clients, and how long one charge takes."""
    taken: list[float] = []
    together = threading.Barrier(clients + 1)

    def work(client: int) -> None:
        together.wait()
        for number in range(each):
            start = time.perf_counter()
            charge(client, number)
            taken.append(time.perf_counter() - start)

    threads = [threading.Thread(target=work, args=(client,)) for client in range(clients)]
    for thread in threads:
        thread.start()
    together.wait()
    start = time.perf_counter()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - start
    cuts = statistics.quantiles(taken, n=100)
    return {
        "charges": clients * each,
        "per_second": round(clients * each / seconds, 1),
        "p50_ms": round(1000 * cuts[49], 2),
        "p99_ms": round(1000 * cuts[98], 2),
    }


def _fsyncs(folder: Path) -> float:
    handle = os.open(folder / "raw", os.O_CREAT | os.O_WRONLY)
    start = time.perf_counter()
    for _ in range(ALONE):
        os.write(handle, b"x" * 4096)
        os.fsync(handle)
    seconds = time.perf_counter() - start
    os.close(handle)
    return round(ALONE / seconds, 1)


def _commits(folder: Path) -> float:
    """A bare insert per commit, by the driver alone: what SQLite itself can do here."""
    connection = sqlite3.connect(folder / "peer.db", isolation_level=None)
    for statement in (
        "PRAGMA journal_mode=WAL",
        "PRAGMA synchronous=FULL",
        "CREATE TABLE t (a INTEGER, b TEXT)",
    ):
        connection.execute(statement)
    start = time.perf_counter()
    for number in range(ALONE):
        connection.execute("INSERT INTO t VALUES (?, ?)", (number, REQUEST * 6))
    seconds = time.perf_counter() - start
    connection.close()
    return round(ALONE / seconds, 1)


if __name__ == "__main__":
    for figure in run(None):
        print(json.dumps(figure))
