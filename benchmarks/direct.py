"""Accuracy of the direct mechanisms at equal privacy: true errors beside what was certified and guaranteed.

The tables are public, so true answers may be compared. Answers only: max is the largest error of a cell as a fraction,
L1 the mean over marginals of the L1 distance. Defaults throughout, but for a certificate that is always bought (5 %).
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import maquette as mq
from benchmarks import _accuracy
from maquette.queries.marginals import Marginals

TABLES = {"adult": "adult.csv", "msnbc": "msnbc.parquet", "salary": "salary.parquet"}
EPSILON, DELTA, RUNS = 1.0, 1e-9, 3


def run(data: Path | None) -> list[dict[str, Any]]:
    """Plain Gaussian noise beside the residual basis on the 2-way marginals of three tables, and adult's 3-way."""
    if data is None:
        return []
    records = [_measure(data, name, k=2, mechanism=m) for name in TABLES for m in ("gaussian", "residual")]
    records.append(_measure(data, "adult", k=3, mechanism="residual"))
    return records


def _measure(data: Path, name: str, *, k: int, mechanism: str) -> dict[str, Any]:
    domain = mq.Domain.load(data / f"{name}.domain.json")
    table = mq.open(data / TABLES[name], domain=domain)
    queries = mq.marginals(domain, k=k)
    truth = table._engine.answer(queries.to_forms()) / table._engine.size()
    runs = [_once(table, queries, truth, mechanism) for _ in range(RUNS)]
    means = {key: float(f"{np.mean([r[key] for r in runs]):.4g}") for key in runs[0]}
    return {
        "what": f"{mechanism}, all {k}-way marginals of {name}",
        "epsilon": EPSILON,
        "delta": DELTA,
        "queries": queries.count,
        "runs": RUNS,
    } | means


def _once(table: mq.Table, queries: Marginals, truth: np.ndarray, mechanism: str) -> dict[str, float]:
    ledger = _accuracy.ledger(queries, mechanism, epsilon=EPSILON, delta=DELTA)
    started = time.process_time()
    release = mq.release(
        table.for_another_ledger(),
        queries,
        epsilon=EPSILON,
        delta=DELTA,
        mechanism=mechanism,
        certificate=0.05,
        ledger=ledger,
    )
    seconds = time.process_time() - started
    errors = np.abs(release.answers.fractions - truth)
    assert release.certificate is not None
    return {
        "max": float(errors.max()),
        "L1": float(np.mean([errors[place].sum() for place in queries.slices.values()])),
        "certified": release.certificate.alpha,
        "guaranteed": release.guarantee.alpha,
        "processor seconds": seconds,
    }


if __name__ == "__main__":
    for record in run(Path(sys.argv[1])):
        print(json.dumps(record))
