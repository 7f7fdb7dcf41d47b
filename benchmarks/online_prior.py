"""Sessions that start from a release against sessions that start from nothing: epsilon spent on 20,000 questions.

    python -m benchmarks online_prior --data DIR
    python -m benchmarks online_prior 1728                    # one table of so many cells; or adult, with --data DIR
    python -m benchmarks online_prior intervals               # 60 questions on intervals alone

The tables, conjunctions and errors of `python -m benchmarks online`, then Adult with 20,000 conjunctions of three
attributes. The release was paid for before, at the epsilon that is named; a session spends nothing on it. Last,
sessions for 60 intervals and products of two: from no release, one of another ledger, and one of their own ledger.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import maquette as mq
from benchmarks._online import ASKED, N, conjunction, ledger_for, made, open_session, real_question
from maquette.domain import Attribute, Kind
from maquette.errors import BudgetExceeded
from maquette.queries import boxes, canonical_hash, marginals

SHAPES = {128: (2, 2, 2, 4, 4), 1728: (12,) * 3, 16384: (4,) * 7}
FEW = 60
"""Questions of the sessions on intervals."""
ALPHA, LARGE, RELEASED = 0.05, 60.0, 1.0
REAL = {"alpha": 0.02, "epsilon": 60.0, "delta": 1e-9}


def run(data: Path | None) -> list[dict[str, Any]]:
    figures = [*(figure for cells in SHAPES for figure in _made(cells)), *_intervals()]
    return figures if data is None else [*figures, *_adult(data)]


def main(words: list[str]) -> None:
    """One part: the number of cells, `intervals`, or `adult` with --data DIR."""
    from benchmarks.__main__ import append_each

    command = {"command": f"python -m benchmarks online_prior {words[0]}"}
    if words[0] == "adult":
        append_each("online_prior", (figure | command for figure in _adult(Path(words[-1]))))
    elif words[0] == "intervals":
        append_each("online_prior", (figure | command for figure in _intervals()))
    else:
        append_each("online_prior", (figure | command for figure in _made(int(words[0]))))


def _made(cells: int) -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng([cells, 7])
    table, truth = made(SHAPES[cells], rng)
    pool: dict[str, Any] = {}
    while len(pool) < min(ASKED, 4_000):
        one = conjunction(table.domain, rng)
        pool[canonical_hash(one)] = one
    asked = [list(pool.values())[i] for i in dict.fromkeys(rng.integers(0, len(pool), ASKED).tolist())]
    shares = [int(one.on_histogram(truth)[0]) / N for one in asked]
    prior = _release(table)
    for start, chosen in (("uniform", None), ("release", prior)):
        yield {
            "table": f"{cells} cells",
            "start": start,
            "release epsilon": RELEASED if start == "release" else 0,
        } | _spend(table, asked, shares, mq.Budget(LARGE), alpha=ALPHA, prior=chosen)


def _adult(data: Path) -> Iterator[dict[str, Any]]:
    domain = mq.Domain.load(data / "adult.domain.json")
    table = mq.open(data / "adult.csv", domain=domain)
    rng = np.random.default_rng(7)
    asked = [real_question(domain, rng) for _ in range(ASKED)]
    shares = [int(table._engine.answer(one.to_forms())[0]) / table._engine.size() for one in asked]
    prior = _release(table)
    budget = mq.Budget(REAL["epsilon"])
    for start, chosen in (("uniform", None), ("release", prior)):
        yield {
            "table": "adult",
            "start": start,
            "release epsilon": RELEASED if start == "release" else 0,
        } | _spend(table, asked, shares, budget, alpha=REAL["alpha"], prior=chosen)


def _intervals() -> Iterator[dict[str, Any]]:
    """Two ordered attributes that go together and a third one; half of the questions are on one of them."""
    rng = np.random.default_rng(11)
    age = np.clip(rng.normal(45, 14, N), 18, 97).astype(int)
    hours = np.clip(rng.normal(38, 10, N) - 10 * (age > 60), 0, 99).astype(int)
    domain = mq.Domain(
        (
            Attribute("age", Kind.NUMERIC, bounds=(18, 98), bins=80, integer=True),
            Attribute("hours", Kind.NUMERIC, bounds=(0, 100), bins=100, integer=True),
            Attribute("sex", Kind.CATEGORICAL, codes=2),
        )
    )
    table = mq.open(pd.DataFrame({"age": age, "hours": hours, "sex": rng.integers(0, 2, N)}), domain=domain)
    asked: list[Any] = []
    for i in range(FEW):
        runs = {name: np.sort(rng.integers(0, domain[name].size, 2)).tolist() for name in ("age", "hours")}
        names = ("age", "hours") if i % 2 else (("age",), ("hours",))[i // 2 % 2]
        asked.append(boxes(domain, [{name: (runs[name][0], runs[name][1]) for name in names}]))
    codes = {"age": (age - 18).astype(np.uint8), "hours": hours.astype(np.uint8)}
    shares = [int(one.on_rows(codes)[0]) / N for one in asked]
    for delta in (0.0, 1e-9):
        budget = mq.Budget(1.0, delta)
        for start in ("uniform", "release of another ledger", "release of the same ledger"):
            own = ledger_for(table, mq.Budget(2.5, 3 * delta))
            paying = own if start == "release of the same ledger" else ledger_for(table, budget)
            prior = None if start == "uniform" else _release(table, budget, ledger=paying)
            yield {
                "table": "intervals",
                "start": start,
                "epsilon": budget.epsilon,
                "delta": delta,
                "release epsilon": 0 if prior is None else RELEASED,
            } | _spend(table, asked, shares, budget, ledger=own, count=FEW, prior=prior)


def _release(
    table: mq.Table, budget: mq.Budget | None = None, *, ledger: mq.Ledger | None = None
) -> mq.Release:
    paid = budget or mq.Budget(RELEASED, 1e-9)
    options: dict[str, Any] = {"certificate": None} if ledger is None else {}
    return mq.release(
        table.for_another_ledger(),
        marginals(table.domain, 2),
        epsilon=paid.epsilon,
        delta=paid.delta,
        relation="replace-one",
        mechanism="sculpt",
        ledger=ledger or ledger_for(table, paid),
        **options,
    )


def _spend(
    table: mq.Table,
    asked: list[Any],
    shares: list[float],
    budget: mq.Budget,
    *,
    count: int = ASKED,
    **options: Any,
) -> dict[str, Any]:
    session = open_session(table, budget, count=count, **options)
    started, errors, stated, kinds, outside = time.process_time(), [0.0], [0.0], [], 0
    for question, share in zip(asked, shares, strict=True):
        try:
            answer = session.ask(question)
        except BudgetExceeded:
            break
        kinds.append(answer.kind)
        stated.append(answer.error)
        errors.append(abs(answer.value - share))
        outside += errors[-1] > answer.error
    return {
        "questions": count,
        "distinct": len(asked),
        "answered": len(kinds),
        f"{session.unit} spent": round(session.total - session.left, 5),
        "stated error": options.get("alpha", round(max(stated), 4)),
        "largest error": round(max(errors), 4),
        "outside of the stated error": outside,
        "paid": kinds.count("paid"),
        "taken over": kinds.count("cached"),
        "processor seconds": round(time.process_time() - started, 1),
    }
