"""Ranges by categories: the product mechanism against noise on cells and on answers, stated and true largest errors.

    python -m benchmarks product

Every range of ages by sex and region, replace-one, epsilon 1, delta 10^-6 (zCDP), beta 0.05; errors in records of
50,000. True: the median over releases of the largest difference to the truth.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

import maquette as mq
from maquette.domain import Attribute, Kind

N, RUNS, DELTA = 50_000, 5, 1e-6
SHAPES = ((20, 2, 4), (40, 2, 6))
MECHANISMS = ("product", "histogram-gaussian", "gaussian")


def run(data: Path | None) -> list[dict[str, Any]]:
    return [_figure(shape, mechanism) for shape in SHAPES for mechanism in MECHANISMS]


def _figure(shape: tuple[int, int, int], mechanism: str) -> dict[str, Any]:
    ages, sexes, regions = shape
    domain = mq.Domain(
        (
            Attribute("age", Kind.ORDINAL, codes=ages),
            Attribute("sex", Kind.CATEGORICAL, codes=sexes),
            Attribute("region", Kind.CATEGORICAL, codes=regions),
        )
    )
    workload = mq.boxes(
        domain,
        [
            {"age": (low, high), "sex": (s, s), "region": (r, r)}
            for low in range(ages)
            for high in range(low, ages)
            for s in range(sexes)
            for r in range(regions)
        ],
    )
    rng = np.random.default_rng(6)
    codes = {
        "age": rng.binomial(ages - 1, 0.4, N),
        "sex": rng.integers(0, sexes, N),
        "region": np.minimum(rng.geometric(0.4, N) - 1, regions - 1),
    }
    exact = np.asarray(workload.on_rows(codes))
    started = time.process_time()
    asked = {"epsilon": 1.0, "delta": DELTA, "relation": "replace-one", "certificate": 0.0, "post": "none"}
    plan = mq.plan(workload, n=N, mechanisms=[mechanism], accounting="zcdp", **asked)
    planned = time.process_time() - started
    errors: list[float] = []
    if shape == SHAPES[0]:
        table = mq.open({name: column.tolist() for name, column in codes.items()}, domain=domain)
        for _ in range(RUNS):
            ledger = mq.Ledger.memory(
                budget=mq.Budget(1.0, DELTA),
                relation=mq.Relation.REPLACE_ONE,
                domain_fingerprint=domain.fingerprint,
                name="product",
            )
            release = mq.release(
                table.for_another_ledger(), workload, mechanism=mechanism, ledger=ledger, **asked
            )
            errors.append(float(np.abs(release.answers.fractions * N - exact).max()))
    return {
        "boxes": workload.count,
        "cells": domain.size,
        "mechanism": mechanism,
        "stated, records": round((plan.forecasts[0].guaranteed or 1.0) * N, 1),
        "true, records": round(float(np.median(errors)), 1) if errors else None,
        "seconds of the plan": round(planned, 2),
    }
