"""How fast sessions answer: free answers and durable paid answers per second, in one run.

    python -m benchmarks online_speed --data DIR

`weights` measures the hypotheses alone: updates beside one pass over the weights, answers without a ledger.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import maquette as mq
from benchmarks import weights
from benchmarks._online import conjunction, ledger_for, made, open_session, real_question


def run(data: Path | None) -> list[dict[str, Any]]:
    """Sessions, and beside them, at the same time of day, the hypotheses alone."""
    figures = [*_free(2**20), _paid(), _paid(clients=16)]
    if data is not None:
        figures += _free_adult(data)
    return figures + weights.run(data)


def _free(cells: int) -> list[dict[str, Any]]:
    """New questions that pass their test, stored durably one by one; and what the hypothesis says, unasked."""
    rng = np.random.default_rng(3)
    table, _ = made((16,) * 5, rng)
    assert table.domain.size == cells
    return [_free_figure(table, lambda: conjunction(table.domain, rng), f"{cells:,} cells, dense")]


def _free_adult(data: Path) -> list[dict[str, Any]]:
    domain = mq.Domain.load(data / "adult.domain.json")
    table = mq.open(data / "adult.csv", domain=domain)
    rng = np.random.default_rng(3)
    return [_free_figure(table, lambda: real_question(domain, rng), "adult, weighted rows")]


def _free_figure(table: mq.Table, question: Callable[[], Any], what: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="mq-bench-") as folder:
        budget = mq.Budget(1000.0)
        ledger = ledger_for(table, budget, Path(folder) / "x.ledger")
        session = open_session(table, budget, ledger=ledger, alpha=0.2, measure_first=False)
        for _ in range(20):
            session.ask(question())
        asked = [question() for _ in range(300)]
        started = time.perf_counter()
        kinds = [session.ask(one).kind for one in asked]
        durable = len(asked) / (time.perf_counter() - started)
        new = [question() for _ in range(300)]
        started = time.perf_counter()
        for one in new:
            session.forecast(one)
        unasked = len(new) / (time.perf_counter() - started)
    return {
        "what": f"free answers per second, {what}",
        "tested and durable": round(durable, 1),
        "from the hypothesis alone": round(unasked, 1),
        "free of 300": kinds.count("free"),
        "load average": round(os.getloadavg()[0], 1),
    }


def _paid(*, clients: int = 1, each: int = 100) -> dict[str, Any]:
    """Measured answers, each with its payment and its value on the disk before it is shown."""
    table, _ = made((12,) * 3, np.random.default_rng(5))
    with tempfile.TemporaryDirectory(prefix="mq-bench-") as folder:
        ledger = ledger_for(table, mq.Budget(1000.0), Path(folder) / "x.ledger")
        budget = mq.Budget(1000.0 / (clients + 1))
        sessions = [
            open_session(table, budget, ledger=ledger, alpha=0.05, mechanism="direct", key=f"s{i}")
            for i in range(clients)
        ]
        _ask_all(sessions[0], 0, 5)

        def work(place: int) -> None:
            _ask_all(sessions[place], place + 1, each)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(clients)]
        started = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - started
        ledger.verify()
    return {
        "what": f"durable paid answers per second, {clients} session(s)",
        "per second": round(clients * each / seconds, 1),
        "load average": round(os.getloadavg()[0], 1),
    }


def _ask_all(session: Any, seed: int, count: int) -> None:
    rng = np.random.default_rng([seed, 99])
    domain = session._planner.curator.domain
    asked = 0
    while asked < count:
        asked += session.ask(conjunction(domain, rng)).kind == "paid"
