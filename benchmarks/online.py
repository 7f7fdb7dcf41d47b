"""Online answering: what sessions spend, how many questions they answer, and how fast.

python -m benchmarks online --data DIR

Repeated questions are free in every design, from the ledger; so only the first of each is asked, and all are
counted. Budgets and errors are those that the sessions state; largest errors are measured, the tables being public.
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
from maquette.domain import Attribute, Kind
from maquette.errors import BudgetExceeded
from maquette.queries import boxes, canonical_hash, where

SHAPES = {128: (2, 2, 2, 4, 4), 1728: (12,) * 3, 16384: (4,) * 7}
N, ALPHA, ASKED, POOL = 50_000, 0.05, 20_000, 4_000
DESIGNS: dict[str, dict[str, Any]] = {
    "exact-match caching": {"mechanism": "direct"},
    "textbook PMW": {"update": "step"},
    "PMW with refit": {"bypass": False},
    "PMW with refit and bypass": {},
}
BOTH = ("exact-match caching", "PMW with refit and bypass")
"""Designs that are also run on popular questions."""
LARGE = 60.0
"""A budget that no design exhausts, so that spending can be compared."""


def run(data: Path | None) -> list[dict[str, Any]]:
    """Four figures: budgets, real questions, free answers per second, durable paid answers per second."""
    figures = [*_budgets(), *_free(2**20), _paid(), _paid(clients=16)]
    if data is not None:
        figures += [*_adult(data), *_free_adult(data)]
    return figures


def _budgets() -> list[dict[str, Any]]:
    figures: list[dict[str, Any]] = []
    for cells in SHAPES:
        for popularity in ("uniform", "zipf"):
            rng = np.random.default_rng([cells, len(popularity)])
            table, truth = _made(SHAPES[cells], rng)
            pool = _pool(table.domain, rng)
            order = _order(popularity, rng)
            for name, options in DESIGNS.items():
                if popularity == "uniform" or name in BOTH:
                    figures.append(
                        {"what": name, "cells": cells, "popularity": popularity}
                        | _spend(table, truth, pool, order, options)
                    )
    return figures


def _made(shape: tuple[int, ...], rng: np.random.Generator) -> tuple[mq.Table, np.ndarray]:
    """A table of clumped records, and its histogram."""
    domain = mq.Domain(tuple(Attribute(f"a{i}", Kind.CATEGORICAL, codes=s) for i, s in enumerate(shape)))
    cells = rng.choice(domain.size, size=N, p=rng.dirichlet(np.full(domain.size, 0.1)))
    codes = np.unravel_index(cells, shape)
    import pandas as pd

    frame = pd.DataFrame(dict(zip(domain.names, codes, strict=True)))
    return mq.open(frame, domain=domain), np.bincount(cells, minlength=domain.size).reshape(shape)


def _pool(domain: mq.Domain, rng: np.random.Generator) -> list[Any]:
    """Conjunctions that differ in meaning."""
    found: dict[str, Any] = {}
    while len(found) < POOL:
        one = _conjunction(domain, rng)
        found[canonical_hash(one)] = one
    return list(found.values())


def _conjunction(domain: mq.Domain, rng: np.random.Generator) -> Any:
    """Some attributes, a random set of cells of each."""
    width = int(rng.integers(1, len(domain.names) + 1))
    parts: list[str] = []
    for place in rng.choice(len(domain.names), size=width, replace=False):
        size = domain.shape[place]
        chosen = rng.choice(size, size=int(rng.integers(1, size)), replace=False)
        parts.append(f"{domain.names[place]} in ({', '.join(str(c) for c in sorted(chosen))})")
    return where(domain, " and ".join(parts))


def _order(popularity: str, rng: np.random.Generator) -> list[int]:
    weights = np.ones(POOL) if popularity == "uniform" else 1 / np.arange(1, POOL + 1)
    drawn = rng.choice(POOL, size=ASKED, p=weights / weights.sum())
    return list(dict.fromkeys(drawn.tolist()))


def _ledger(table: mq.Table, budget: mq.Budget, location: Path | None = None) -> mq.Ledger:
    facts: dict[str, Any] = {
        "budget": budget,
        "relation": mq.Relation.REPLACE_ONE,
        "domain_fingerprint": table.domain.fingerprint,
        "name": "benchmark",
    }
    return mq.Ledger.memory(**facts) if location is None else mq.Ledger.create(location, **facts)


def _session(table: mq.Table, budget: mq.Budget, *, ledger: mq.Ledger | None = None, **options: Any) -> Any:
    return mq.session(
        table,
        epsilon=budget.epsilon,
        delta=budget.delta,
        relation="replace-one",
        ledger=ledger or _ledger(table, budget),
        queries=ASKED,
        **options,
    )


def _spend(
    table: mq.Table, truth: np.ndarray, pool: list[Any], order: list[int], options: dict[str, Any]
) -> dict[str, Any]:
    session = _session(table, mq.Budget(LARGE), alpha=ALPHA, **options)
    started = time.process_time()
    errors = [abs(session.ask(pool[i]).value - int(pool[i].on_histogram(truth)[0]) / N) for i in order]
    kinds = [past.kind for past in session.history()]
    return {
        "questions": ASKED,
        "distinct": len(order),
        "epsilon spent": round(session.total - session.left, 4),
        "largest error": round(max(errors), 4),
        "stated error": ALPHA,
        "measured answers": kinds.count("paid"),
        "processor seconds": round(time.process_time() - started, 1),
    }


def _adult(data: Path) -> list[dict[str, Any]]:
    """How many of 20,000 real questions are answered within 0.02 before (1, 1e-9) is spent."""
    domain = mq.Domain.load(data / "adult.domain.json")
    table = mq.open(data / "adult.csv", domain=domain)
    rng = np.random.default_rng(7)
    questions = [_real(domain, rng) for _ in range(ASKED)]
    budget = mq.Budget(1.0, 1e-9)
    designs = {"fresh Gaussian noise": DESIGNS["exact-match caching"], "PMW with refit and bypass": {}}
    return [
        {"what": f"{name}, real questions on adult", "epsilon": 1.0, "delta": 1e-9, "alpha": 0.02}
        | _until_refused(table, _session(table, budget, alpha=0.02, **options), questions)
        for name, options in designs.items()
    ]


def _real(domain: mq.Domain, rng: np.random.Generator) -> Any:
    """Three attributes: one value of a categorical one, a range of an ordered one."""
    box: dict[str, tuple[int, int]] = {}
    for place in rng.choice(len(domain.names), size=3, replace=False):
        attribute = domain[domain.names[place]]
        first = int(rng.integers(attribute.size))
        ordered = attribute.kind in (Kind.ORDINAL, Kind.NUMERIC)
        last = int(rng.integers(first, attribute.size)) if ordered else first
        box[attribute.name] = (first, last)
    return boxes(domain, [box])


def _until_refused(table: mq.Table, session: Any, questions: list[Any]) -> dict[str, Any]:
    started, answered, worst = time.process_time(), 0, 0.0
    size = table._engine.size()
    for question in questions:
        try:
            answer = session.ask(question)
        except BudgetExceeded:
            break
        answered += 1
        worst = max(worst, abs(answer.value - int(table._engine.answer(question)[0]) / size))
    kinds = [past.kind for past in session.history()]
    return {
        "answered": answered,
        "of": len(questions),
        "measured answers": kinds.count("paid"),
        "largest error": round(worst, 4),
        "processor seconds": round(time.process_time() - started, 1),
    }


def _free(cells: int) -> list[dict[str, Any]]:
    """New questions that pass their test, stored durably one by one; and what the hypothesis says, unasked."""
    rng = np.random.default_rng(3)
    table, _ = _made((16,) * 5, rng)
    assert table.domain.size == cells
    return [_free_figure(table, lambda: _conjunction(table.domain, rng), f"{cells:,} cells, dense")]


def _free_adult(data: Path) -> list[dict[str, Any]]:
    domain = mq.Domain.load(data / "adult.domain.json")
    table = mq.open(data / "adult.csv", domain=domain)
    rng = np.random.default_rng(3)
    return [_free_figure(table, lambda: _real(domain, rng), "adult, weighted rows")]


def _free_figure(table: mq.Table, question: Callable[[], Any], what: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="mq-bench-") as folder:
        budget = mq.Budget(1000.0)
        ledger = _ledger(table, budget, Path(folder) / "x.ledger")
        session = _session(table, budget, ledger=ledger, alpha=0.2, bypass=False)
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
    table, _ = _made((12,) * 3, np.random.default_rng(5))
    with tempfile.TemporaryDirectory(prefix="mq-bench-") as folder:
        ledger = _ledger(table, mq.Budget(1000.0), Path(folder) / "x.ledger")
        budget = mq.Budget(1000.0 / (clients + 1))
        sessions = [
            _session(table, budget, ledger=ledger, alpha=0.05, mechanism="direct", key=f"s{i}")
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
    domain = session._desk.curator.domain
    asked = 0
    while asked < count:
        asked += session.ask(_conjunction(domain, rng)).kind == "paid"
