"""Sessions that start from a release against sessions that start from nothing: epsilon spent on 20,000 questions.

    python -m benchmarks online_prior --data DIR
    python -m benchmarks online_prior 1728                    # one table of so many cells; or adult, with --data DIR

The tables, conjunctions and errors of `python -m benchmarks online`, then Adult with 20,000 conjunctions of three
attributes. The release was paid for before, at the epsilon that is named; a session spends nothing on it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import maquette as mq
from benchmarks._online import ASKED, N, conjunction, ledger_for, made, open_session, real_question
from maquette.errors import BudgetExceeded
from maquette.queries import canonical_hash, marginals

SHAPES = {128: (2, 2, 2, 4, 4), 1728: (12,) * 3, 16384: (4,) * 7}
ALPHA, LARGE, RELEASED = 0.05, 60.0, 1.0
REAL = {"alpha": 0.02, "epsilon": 60.0, "delta": 1e-9}


def run(data: Path | None) -> list[dict[str, Any]]:
    figures = [figure for cells in SHAPES for figure in _made(cells)]
    return figures if data is None else [*figures, *_adult(data)]


def main(words: list[str]) -> None:
    """One part: the number of cells, or `adult` with --data DIR."""
    from benchmarks.__main__ import append_each

    command = {"command": f"python -m benchmarks online_prior {words[0]}"}
    if words[0] == "adult":
        append_each("online_prior", (figure | command for figure in _adult(Path(words[-1]))))
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


def _release(table: mq.Table) -> mq.Release:
    budget = mq.Budget(RELEASED, 1e-9)
    return mq.release(
        table,
        marginals(table.domain, 2),
        epsilon=budget.epsilon,
        delta=budget.delta,
        relation="replace-one",
        mechanism="sculpt",
        certificate=None,
        ledger=ledger_for(table, budget),
    )


def _spend(
    table: mq.Table, asked: list[Any], shares: list[float], budget: mq.Budget, **options: Any
) -> dict[str, Any]:
    session = open_session(table, budget, **options)
    started, errors, kinds, outside = time.process_time(), [0.0], [], 0
    for question, share in zip(asked, shares, strict=True):
        try:
            answer = session.ask(question)
        except BudgetExceeded:
            break
        kinds.append(answer.kind)
        errors.append(abs(answer.value - share))
        outside += errors[-1] > answer.error
    return {
        "questions": ASKED,
        "distinct": len(asked),
        "answered": len(kinds),
        "epsilon spent": round(session.total - session.left, 4),
        "stated error": options["alpha"],
        "largest error": round(max(errors), 4),
        "outside of the stated error": outside,
        "paid": kinds.count("paid"),
        "processor seconds": round(time.process_time() - started, 1),
    }
