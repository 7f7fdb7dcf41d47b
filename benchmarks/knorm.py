"""The K-norm mechanism against Laplace, L-infinity, factorisation and a histogram: stated and true largest errors.

    python -m benchmarks knorm

Few prefixes, ranges and random queries; replace-one, epsilon 1, pure, errors in records of 10,000 at beta = 0.05. True:
the median over releases of the largest difference to the truth.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import maquette as mq
from benchmarks import factorisation
from maquette.domain import Attribute, Kind

RUNS = 25
MECHANISMS = ("knorm", "linf", "laplace", "factorisation", "histogram-laplace")


def run(data: Path | None) -> list[dict[str, Any]]:
    return [
        figure
        for name, (workload, cells) in _workloads().items()
        for figure in factorisation.compare(
            name,
            workload,
            cells,
            0.0,
            [m for m in MECHANISMS if m != "linf" or workload.denominator == 1],
            runs=RUNS,
        )
    ]


def _workloads() -> dict[str, tuple[Any, int]]:
    rng = np.random.default_rng(8)

    def line(cells: int) -> mq.Domain:
        return mq.Domain((Attribute("age", Kind.ORDINAL, codes=cells),))

    def random(count: int, cells: int) -> Any:
        return mq.weights(line(cells), (rng.random((count, cells)) < 0.5).astype(float), attributes=["age"])

    return {
        "4 prefixes": (mq.prefixes(line(4), "age"), 4),
        "8 prefixes": (mq.prefixes(line(8), "age"), 8),
        "36 ranges": (mq.ranges(line(8), "age"), 8),
        "3 random queries": (random(3, 64), 64),
        "6 random queries": (random(6, 64), 64),
        "5 random weighted sums": (
            mq.weights(line(20), rng.random((5, 20)), attributes=["age"]),
            20,
        ),
    }
