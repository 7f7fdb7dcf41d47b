"""What releases of small tables state, and a release of one question beside what is possible; true errors beside both.

Two-way marginals of three small tables at epsilon 1, delta 1e-6 with everything left to the library, and one question
(22 %) of a survey of 65,000 records at epsilon 1, delta 1e-9. Possible for one question: Gaussian noise with a fifth
of the budget for the number of records where it is private, at 95 %. `failures` are releases whose true error lies
above the stated one.

    python -m benchmarks small --data DIR
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import maquette as mq
from benchmarks import tables
from maquette.accounting.budget import UNITS
from maquette.gate.handle import exact_answers
from maquette.queries.base import Queries

TABLES = {"penguins": 15.0, "pums_1000": 5.5, "titanic": 6.5}
"""With the goal for the mean stated error, in points."""
RUNS, QUESTION_RUNS = 8, 100
RECORDS, SHARE = 65_000, 0.22


def run(data: Path | None = None) -> list[dict[str, Any]]:
    """All figures; the tables need a folder."""
    found = [question(relation) for relation in ("add-remove", "replace-one")]
    if data is None:
        return found
    return [*found, *(table(name, data) for name in TABLES)]


def table(name: str, data: Path) -> dict[str, Any]:
    """Stated and true largest errors of some releases of one table, in points."""
    made = tables.load(name, data)
    queries = mq.marginals(made.domain, k=2)
    pairs = list(_released(made, queries, runs=RUNS, delta=1e-6, relation="add-remove"))
    return {
        "what": f"two-way marginals of {name}, epsilon 1, delta 1e-6",
        "goal": TABLES[name],
        **_summary(pairs),
    }


def question(relation: str) -> dict[str, Any]:
    """The same for one question of a survey, and what is possible."""
    rng = np.random.default_rng(7)
    made = tables.coded({"a": (rng.random(RECORDS) < SHARE).astype(np.int64)}, {"a": 2})
    queries = mq.where(made.domain, "a = 1")
    pairs = list(_released(made, queries, runs=QUESTION_RUNS, delta=1e-9, relation=relation))
    sigma = 1 / math.sqrt(2 * mq.Budget(1.0, 1e-9, "gaussian").total_units / UNITS)
    parts = (1.0, math.inf) if relation == "replace-one" else (0.8, 0.2)
    noise = math.hypot(sigma / math.sqrt(parts[0]), SHARE * sigma / math.sqrt(parts[1]))
    possible = 100 * 1.96 * noise / RECORDS
    found = _summary(pairs)
    return {
        "what": f"one question of {RECORDS:,} records, epsilon 1, delta 1e-9, {relation}",
        "possible": float(f"{possible:.3g}"),
        "times": float(f"{found['stated'] / possible:.3g}"),
        **found,
    }


def _released(
    made: tables.Made, queries: Queries, *, runs: int, delta: float, relation: str
) -> Iterator[tuple[float, float]]:
    """The stated and the true largest error of every release."""
    source = made.open()
    exact = exact_answers(source, queries)
    truth = exact.numerators / exact.denominator / exact.records
    for _ in range(runs):
        book = mq.Ledger.memory(
            budget=mq.Budget(1.0, delta, "gaussian"),
            relation=mq.Relation(relation),
            domain_fingerprint=queries.domain.fingerprint,
            name="benchmark",
        )
        done = mq.release(source, queries, epsilon=1.0, delta=delta, relation=relation, ledger=book)
        yield done.stated.alpha, float(np.abs(done.answers.fractions - truth).max())


def _summary(pairs: list[tuple[float, float]]) -> dict[str, Any]:
    stated, true = 100 * np.array(pairs).T
    return {
        "releases": len(pairs),
        "stated": float(f"{stated.mean():.3g}"),
        "true": float(f"{true.mean():.3g}"),
        "largest stated": float(f"{stated.max():.3g}"),
        "failures": int((true > stated).sum()),
    }
