"""What releases of small tables state, and a release of one question beside what is possible; true errors beside both.

Two-way marginals of three small tables at epsilon 1, delta 1e-6 with everything left to the library, and one question
(22 %) of a survey of 65,000 records at epsilon 1, delta 1e-9. Possible for one question: Gaussian noise with a fifth
of the budget for the number of records where it is private, at 95 %. `failures` are releases whose true error lies
above the stated one.

`coverage` asks how often that happens, on generated tables that no setting was chosen by, each drawn anew: by how far
the true error lies above the stated one, at a beta that shows failures in few releases.

    python -m benchmarks small --data DIR
    python -m benchmarks small coverage MECHANISM RELEASES BETA
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import maquette as mq
from benchmarks import tables
from benchmarks.__main__ import append_each
from benchmarks.certificates import summary
from maquette.core.budget import UNITS
from maquette.owner import exact_answers
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


def main(words: list[str]) -> None:
    """One figure of the coverage."""
    _, mechanism, releases, beta = words
    append_each("small", [coverage(mechanism, int(releases), float(beta))])


def coverage(mechanism: str, releases: int, beta: float) -> dict[str, Any]:
    """How many releases of small generated tables state less than their true error, add/remove-one."""
    rng = np.random.default_rng(30)
    pairs: list[tuple[float, float]] = []
    for _ in range(releases):
        made = small_table(rng)
        queries = mq.marginals(made.domain, k=2)
        pairs += _released(
            made, queries, runs=1, delta=1e-6, relation="add-remove", mechanism=mechanism, beta=beta
        )
    failed = sum(true > stated for stated, true in pairs)
    found = summary(mechanism, beta, releases, failed, beta)
    del found["exact chance"]
    return {
        "command": f"python -m benchmarks small coverage {mechanism} {releases} {beta:g}",
        **found,
        "what": f"releases of 200 to 1,500 records that state less than their error, {mechanism}, beta {beta:g}",
        "stated": _summary(pairs)["stated"],
        "true": _summary(pairs)["true"],
    }


def small_table(rng: np.random.Generator) -> tables.Made:
    """A table of 200 to 1,500 records in three to six columns; each leans on the one before."""
    n, sizes = int(rng.integers(200, 1500)), rng.integers(2, 9, int(rng.integers(3, 7)))
    columns = [rng.choice(sizes[0], n, p=rng.dirichlet(np.ones(sizes[0])))]
    for before, size in itertools.pairwise(map(int, sizes)):
        laws = rng.dirichlet(np.full(size, 0.7), before)
        columns.append((rng.random((n, 1)) > laws.cumsum(axis=1)[columns[-1]][:, :-1]).sum(axis=1))
    names = [f"x{i}" for i in range(len(sizes))]
    return tables.coded(
        dict(zip(names, columns, strict=True)), dict(zip(names, map(int, sizes), strict=True))
    )


def _released(
    made: tables.Made, queries: Queries, *, runs: int, delta: float, relation: str, **options: Any
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
        done = mq.release(
            source.for_another_ledger(),
            queries,
            epsilon=1.0,
            delta=delta,
            relation=relation,
            ledger=book,
            **options,
        )
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
