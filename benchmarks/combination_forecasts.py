"""How large the errors over combinations of values are beside what the planner expects of the workload's cells.

The generated tables of `benchmarks.class_forecasts`, one release of all marginals each: the largest error of the
released rows over every family of combinations, by the number of columns, beside the expected largest error over the
workload's cells. `python -m benchmarks combination_forecasts` adds tables that are missing, as many as a few minutes
allow; `python -m benchmarks.combination_forecasts` prints the constants that the planner uses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import maquette as mq
from benchmarks import calibrate
from benchmarks.class_certificates import ledger_of
from benchmarks.class_forecasts import MAX_QUERIES, half_unordered
from maquette.core.any_order import Family, Statistic, largest_errors
from maquette.core.combinations import axes_of
from maquette.core.rows.engine import typical_errors
from maquette.core.typical import TypicalQuestion
from maquette.owner import engine_of
from maquette.queries.combinations import COMBINATIONS
from maquette.queries.typical import TYPICAL
from maquette.releasing.certify import USEFUL

COUNT = 60
"""Seeds of `calibrate.case`."""
MAX_RECORDS = 60_000
"""Larger tables are left out: they take minutes."""


def run(data: Path | None) -> list[dict[str, Any]]:
    """The tables that are still missing."""
    del data
    from benchmarks.__main__ import RESULTS, append_each

    seen = calibrate.figures(RESULTS / "combination_forecasts.jsonl")
    done = {figure["seed"] for figure in seen if "often" in figure}
    append_each("combination_forecasts", simulated([seed for seed in range(COUNT) if seed not in done]))
    return []


def simulated(seeds: Sequence[int]) -> Iterator[dict[str, Any]]:
    for seed in seeds:
        case = calibrate.case(seed)
        is_small = case.n <= MAX_RECORDS and calibrate.queries_of(case.sizes, case.k) <= MAX_QUERIES
        if case.delta and case.k > 1 and is_small:
            yield simulate(case) | {"command": "python -m benchmarks combination_forecasts"}


def simulate(case: calibrate.Case) -> dict[str, Any]:
    """One release, and the true largest error of its rows over every family."""
    table = half_unordered(calibrate.table(case)).open()
    queries = mq.marginals(table.domain, k=case.k)
    release = mq.release(
        table,
        queries,
        epsilon=case.epsilon,
        delta=case.delta,
        mechanism="sculpt",
        certificate=["workload", "any combination"],
        ledger=ledger_of(table, case.epsilon, delta=case.delta),
    )
    assert release.distribution is not None
    released = release.distribution.rows()
    records, times = engine_of(table).distinct_records(released.names)
    statistics = {
        name: Statistic(one.family, one.order or len(released.names)) for name, one in COMBINATIONS.items()
    }
    axes = axes_of(table.domain, released.names)
    errors = largest_errors(axes, records, released.codes, list(statistics.values()), times=times)
    ranked = mq.plan(queries, n=case.n, epsilon=case.epsilon, delta=case.delta, mechanisms=["sculpt"])
    shares = {name: float(f"{error / case.n:.4g}") for name, error in zip(statistics, errors, strict=True)}
    expected = {"expected": ranked.forecasts[0].expected}
    return asdict(case) | expected | {"combinations": shares, "often": often(table, release)}


def often(table: mq.Table, release: mq.Release) -> dict[str, float]:
    """What questions and tables of every kind are off by typically, as shares of the records."""
    assert release.distribution is not None
    released, engine, rng = release.distribution.rows(), engine_of(table), np.random.default_rng(1)
    asked = {
        name: kind.statistic(table.domain, released, rng=rng, chance=1e-4) for name, kind in TYPICAL.items()
    }
    found = {name: one for name, one in asked.items() if one is not None}
    question = TypicalQuestion.of(table.domain, released, list(found.values()))
    errors = typical_errors(engine, question) / engine.size()
    return {name: float(f"{error:.4g}") for name, error in zip(found, errors, strict=True)}


def fit(figures: Sequence[dict[str, Any]]) -> dict[str, tuple[float, float, float]]:
    """The constants of `releasing/certify.py`: least squares on logarithms.

    Cells of the largest column count where one column is free; plain combinations go by the expected error alone.
    """
    typical: dict[str, tuple[float, float, float]] = {}
    for name, one in COMBINATIONS.items():
        seen = [f for f in figures if f["expected"] < USEFUL and f["combinations"][name] > 0]
        by_cells = [math.log(max(f["sizes"])) if one.family > Family.CELL else 0.0 for f in seen]
        rows = np.array(
            [(1.0, cells, math.log(f["expected"])) for cells, f in zip(by_cells, seen, strict=True)]
        )
        errors = np.log([f["combinations"][name] for f in seen])
        constant, cells, expected = np.linalg.lstsq(rows, errors, rcond=None)[0].round(3)
        typical[name] = (float(constant), float(cells), float(expected))
    return typical


def fit_often(figures: Sequence[dict[str, Any]]) -> dict[str, tuple[float, float, float]]:
    """The same for what questions and tables are off by typically, by the expected error alone."""
    often: dict[str, tuple[float, float, float]] = {}
    for name in TYPICAL:
        seen = [f for f in figures if f["expected"] < USEFUL and f.get("often", {}).get(name, 0) > 0]
        rows = np.array([(1.0, math.log(f["expected"])) for f in seen])
        errors = np.log([f["often"][name] for f in seen])
        constant, expected = np.linalg.lstsq(rows, errors, rcond=None)[0].round(3)
        apart = np.exp(errors - rows @ [constant, expected])
        low, high = np.quantile(apart, [0.05, 0.95]).round(2)
        print(f"{name}: {len(seen)} tables, nine of ten within {low} to {high}")
        often[name] = (float(constant), 0.0, float(expected))
    return often


def spread(
    figures: Sequence[dict[str, Any]], typical: dict[str, tuple[float, float, float]]
) -> tuple[float, float]:
    """Nine of ten true errors lie between these multiples of the typical ones."""
    apart = [
        f["combinations"][name]
        / math.exp(constant + cells * math.log(max(f["sizes"])) + expected * math.log(f["expected"]))
        for name, (constant, cells, expected) in typical.items()
        for f in figures
        if f["expected"] < USEFUL and f["combinations"][name] > 0
    ]
    low, high = np.quantile(apart, [0.05, 0.95])
    return round(float(low), 2), round(float(high), 2)


def stored() -> list[dict[str, Any]]:
    """The tables that were measured, each once."""
    from benchmarks.__main__ import RESULTS

    return calibrate.figures(RESULTS / "combination_forecasts.jsonl")


def main() -> None:
    figures = stored()
    typical = fit(figures)
    for name, constants in typical.items():
        print(f'    "{name}": {constants},')
    print(f"{len(figures)} tables, nine of ten within {spread(figures, typical)}")
    for name, constants in fit_often(figures).items():
        print(f'    "{name}": {constants},')


if __name__ == "__main__":
    main()
