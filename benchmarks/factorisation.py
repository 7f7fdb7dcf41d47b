"""The factorisation mechanism against Laplace, Gaussian and L-infinity noise: stated and true largest errors.

    python -m benchmarks factorisation

Prefixes, ranges and random 0/1 matrices over one attribute; replace-one, epsilon 1, pure and with delta 10^-6, errors
in records. Stated: in advance, at beta = 0.05. True: the median over runs of the largest difference to the truth.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import maquette as mq
from benchmarks._online import ledger_for
from maquette.domain import Attribute, Kind

N, RUNS = 10_000, 5
CELLS = (32, 128)
PURE = ("factorisation", "laplace", "linf", "histogram-laplace")
APPROXIMATE = ("factorisation", "gaussian", "laplace", "linf", "histogram-gaussian")


def run(data: Path | None) -> list[dict[str, Any]]:
    return [
        figure
        for cells in CELLS
        for name, workload in _workloads(cells).items()
        for delta in (0.0, 1e-6)
        for figure in compare(name, workload, cells, delta, APPROXIMATE if delta else PURE)
    ]


def _workloads(cells: int) -> dict[str, Any]:
    domain = mq.Domain((Attribute("age", Kind.ORDINAL, codes=cells),))
    rng = np.random.default_rng(cells)

    def random(count: int) -> Any:
        return mq.weights(domain, (rng.random((count, cells)) < 0.5).astype(float), attributes=["age"])

    return {
        "prefixes": mq.prefixes(domain, "age"),
        "ranges": mq.ranges(domain, "age"),
        "2N random queries": random(2 * cells),
        "8 random queries": random(8),
    }


def compare(
    name: str, workload: Any, cells: int, delta: float, mechanisms: Sequence[str], *, runs: int = RUNS
) -> list[dict[str, Any]]:
    """Each mechanism's stated and true error on one workload over one attribute."""
    rng = np.random.default_rng(5)
    codes = np.minimum(rng.geometric(min(4 / cells, 0.3), N) - 1, cells - 1)
    table = mq.open({"age": codes.tolist()}, domain=workload.domain)
    exact = table._engine.answer(workload.to_forms()) / workload.denominator
    figures: list[dict[str, Any]] = []
    for mechanism in mechanisms:
        started = time.process_time()
        plan = mq.plan(
            workload,
            n=N,
            epsilon=1.0,
            delta=delta,
            relation="replace-one",
            mechanisms=[mechanism],
            certificate=0.0,
            post="none",
        )
        planned = time.process_time() - started
        (forecast,) = plan.forecasts
        errors = [_error(table, workload, mechanism, delta, exact) for _ in range(runs)]
        figures.append(
            {
                "workload": name,
                "queries": workload.count,
                "cells": cells,
                "delta": delta,
                "mechanism": mechanism,
                "stated, records": round((forecast.guaranteed or 1.0) * N, 1),
                "true, records": round(float(np.median(errors)), 1),
                "seconds of the plan": round(planned, 2),
            }
        )
    return figures


def _error(table: mq.Table, workload: Any, mechanism: str, delta: float, exact: np.ndarray) -> float:
    release = mq.release(
        table.for_another_ledger(),
        workload,
        epsilon=1.0,
        delta=delta,
        relation="replace-one",
        mechanism=mechanism,
        post="none",
        certificate=0.0,
        ledger=ledger_for(table, mq.Budget(1.0, delta)),
    )
    return float(np.abs(release.answers.fractions * N - exact).max())
