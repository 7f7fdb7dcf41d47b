"""How large the errors over classes of questions are beside what the planner expects of the workload's cells.

Generated tables of `benchmarks.calibrate`, which differ in records, attributes, cells, skew, dependence, order and
epsilon: one release of all marginals each, with the classes of questions that it can certify, and the true largest
error of every class beside the expected largest error over the cells. `python -m benchmarks class_forecasts` adds the
tables that are missing; `python -m benchmarks.class_forecasts` prints the constants that the planner uses, their
spread on tables that were not fitted, and how errors grow with the cells of a table.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import maquette as mq
from benchmarks import calibrate, tables
from benchmarks.class_certificates import NAMES, largest_errors, ledger_of
from maquette.domain import Attribute, Domain, Kind
from maquette.queries.classes import CLASSES
from maquette.releasing.certify import MANY, SMALL_PAIRS, TYPICAL, USEFUL

SMALL_ONES = "one small attribute"

COUNT = 240
"""Seeds of `calibrate.case`; those with a pure budget buy no classes and are left out."""
MAX_QUERIES = 300_000
"""Larger workloads are left out: they take minutes."""


def run(data: Path | None) -> list[dict[str, Any]]:
    """The tables that are still missing."""
    del data
    from benchmarks.__main__ import RESULTS, append_each

    done = {figure["seed"] for figure in calibrate.figures(RESULTS / "class_forecasts.jsonl")}
    append_each("class_forecasts", simulated([seed for seed in range(COUNT) if seed not in done]))
    return []


def simulated(seeds: Sequence[int]) -> Iterator[dict[str, Any]]:
    for seed in seeds:
        case = calibrate.case(seed)
        if case.delta and calibrate.queries_of(case.sizes, case.k) <= MAX_QUERIES:
            yield simulate(case) | {"command": "python -m benchmarks class_forecasts"}


def simulate(case: calibrate.Case) -> dict[str, Any]:
    """One release: for every class the largest errors of its tables, by their cells."""
    table = _half_unordered(calibrate.table(case)).open()
    queries = mq.marginals(table.domain, k=case.k)
    release = mq.release(
        table,
        queries,
        epsilon=case.epsilon,
        delta=case.delta,
        mechanism="sculpt",
        certificate=["workload", *(name for name in NAMES if CLASSES[name].order <= case.k)],
        ledger=ledger_of(table, case.epsilon, delta=case.delta),
    )
    ranked = mq.plan(queries, n=case.n, epsilon=case.epsilon, delta=case.delta, mechanisms=["sculpt"])
    classes: dict[str, Any] = {}
    for certificate in release.certificates:
        by_cells: dict[int, float] = {}
        for one, error, _ in largest_errors(release, certificate, table):
            cells = table.domain.cells(one.margin)
            by_cells[cells] = max(by_cells.get(cells, 0.0), error / case.n)
        classes[certificate.name] = [
            [cells, float(f"{error:.4g}")] for cells, error in sorted(by_cells.items())
        ]
    return asdict(case) | {"expected": ranked.forecasts[0].expected, "classes": classes}


def _half_unordered(made: tables.Made) -> tables.Made:
    """The same table with every second attribute declared as categories."""
    attributes = [
        Attribute(a.name, Kind.CATEGORICAL if i % 2 else a.kind, codes=a.size)
        for i, a in enumerate(made.domain)
    ]
    return tables.Made(Domain(tuple(attributes)), made.source)


def fit(figures: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The constants of `releasing/certify.py`: least squares on logarithms, three quarters of the tables.

    The spread is that of the other tables, over all classes: the 5 % and 95 % quantiles of true over typical.
    """
    typical: dict[str, tuple[float, ...]] = {}
    apart: list[float] = []
    for name in TYPICAL:
        seen = list(_terms(name, figures))
        rows = np.array([terms for seed, terms, _ in seen if seed % calibrate.HELD_OUT])
        errors = np.log([error for seed, _, error in seen if seed % calibrate.HELD_OUT])
        exponents = np.linalg.lstsq(rows, errors, rcond=None)[0].round(3)
        typical[name] = tuple(float(x) for x in exponents)
        others = [(terms, error) for seed, terms, error in seen if not seed % calibrate.HELD_OUT]
        apart += [error / float(np.exp(exponents @ np.array(terms))) for terms, error in others]
    within = tuple(round(float(q), 2) for q in np.quantile(apart, [0.05, 0.95]))
    return {"TYPICAL": typical, "WITHIN": within, "tables": len(figures)}


def _terms(
    name: str, figures: Sequence[dict[str, Any]]
) -> Iterator[tuple[int, tuple[float, float, float], float]]:
    """Seed, terms and largest error of every table where the cells are expected to say something."""
    most = CLASSES[name].max_cells
    for figure in figures:
        inside = _errors(name, figure)
        if inside and figure["expected"] < USEFUL:
            largest = max(size for size in figure["sizes"] if size <= most)
            yield figure["seed"], (1.0, math.log(largest), math.log(figure["expected"])), max(inside)


def _errors(name: str, figure: dict[str, Any]) -> list[float]:
    """The largest errors of the tables of a class; those of small attributes are among those of all."""
    whole = {SMALL_ONES: "one attribute", SMALL_PAIRS: "two attributes"}.get(name, name)
    errors = dict(map(tuple, figure["classes"].get(whole, [])))
    if name == SMALL_ONES:
        return [error for cells, error in errors.items() if cells <= CLASSES[name].max_cells]
    if name == SMALL_PAIRS:
        pairs = itertools.combinations(figure["sizes"], 2)
        return [errors[a * b] for a, b in pairs if min(a, b) <= CLASSES[name].smallest and a * b in errors]
    return list(errors.values())


def beside_large_pairs(figures: Sequence[dict[str, Any]], *, many: int) -> dict[str, Any]:
    """The largest error of pairs with an attribute of few cells beside that of all pairs: quartiles.

    Over the tables with two attributes of at least `many` cells.
    """
    ratios: list[float] = []
    for figure in figures:
        small, every = _errors(SMALL_PAIRS, figure), _errors("two attributes", figure)
        if small and sorted(figure["sizes"])[-2] >= many and figure["expected"] < USEFUL:
            ratios.append(max(small) / max(every))
    quartiles = np.quantile(ratios, [0.25, 0.5, 0.75])
    return {"tables": len(ratios), "quartiles": [round(float(q), 2) for q in quartiles]}


def growth(name: str, cells: int, figures: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How the largest errors of tables up to so many cells compare with those of the larger ones: quartiles."""
    ratios: list[float] = []
    for figure in figures:
        errors = figure["classes"].get(name, [])
        small = max((error for size, error in errors if size <= cells), default=0.0)
        large = max((error for size, error in errors if size > cells), default=0.0)
        if small and large and figure["expected"] < USEFUL:
            ratios.append(small / large)
    return {
        "tables": len(ratios),
        "quartiles": [round(float(q), 2) for q in np.quantile(ratios, [0.25, 0.5, 0.75])],
    }


def stored() -> list[dict[str, Any]]:
    """The tables that were measured, each once."""
    from benchmarks.__main__ import RESULTS

    return calibrate.figures(RESULTS / "class_forecasts.jsonl")


def main() -> None:
    figures = stored()
    for name, value in fit(figures).items():
        print(f"{name} = {value}")
    for name, cells in (
        ("one attribute", 16),
        ("two attributes", 256),
        ("two attributes", 1000),
        ("two ranges", 256),
    ):
        print(f"errors of at most {cells} cells beside larger ones, {name}: {growth(name, cells, figures)}")
    for many in (2, 20, MANY):
        print(
            f"pairs with few cells, beside two attributes of {many}: {beside_large_pairs(figures, many=many)}"
        )


if __name__ == "__main__":
    main()
