"""Coverage of intervals by replicates: records are drawn from a known law, released, and analysed by released rows.

A run draws records, releases all k-way marginals by `sculpt` through the fast double of the gate, makes replicates and
asks whether the 95 % interval of each statistic holds the value of the law. A statistic counts as *covered* in a run if
every pair of its attributes was measured code by code (`Replicates.covers`), which is what the rule is stated for.

    python -m benchmarks replicates                                  # every setting, 60 runs each
    python -m benchmarks.replicates --only coarse:20000:2@1 --runs 200
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks import tables
from benchmarks.families import cells
from benchmarks.families.double import engine_of
from maquette.models.answers import generator
from maquette.results.replicates import combine
from maquette.sculpt.refit import clear_pairs, refit

Columns = dict[str, NDArray[np.int64]]
Estimate = tuple[float, float]
"""A value and its variance."""
REPLICATES, RUNS, LEVEL = 10, 60, 0.95
_LAW = 3_000_000
"""Records by which the value of the law is computed."""


class Setting(NamedTuple):
    """Which law, how many records, which release."""

    law: str
    n: int
    cell: str

    def __str__(self) -> str:
        return f"{self.law}:{self.n}:{self.cell}"


SETTINGS = (
    Setting("coarse", 20_000, "2@1"),
    Setting("coarse", 5_000, "2@1"),
    Setting("coarse", 20_000, "2@1-pure"),
    Setting("fine", 5_000, "2@1"),
)
SIZES = {
    "fine": {"age": 20, "educ": 6, "income": 15, "sex": 2, "region": 5, "smoker": 2, "health": 4},
    "coarse": {"age": 6, "educ": 4, "income": 6, "sex": 2, "region": 5, "smoker": 2, "health": 3},
}


def draw(law: str, n: int, rng: np.random.Generator) -> Columns:
    """Records of a small survey: ages, schooling and incomes that follow each other, and what follows from them."""
    age = np.floor(rng.beta(2, 3, n) * 20).clip(0, 19)
    sex = (rng.random(n) < 0.48).astype(np.float64)
    region = rng.choice(5, n, p=[0.4, 0.25, 0.2, 0.1, 0.05])
    educ = np.rint(2.2 + rng.normal(0, 1.2, n) - 0.05 * (age - 8) + 0.3 * (region == 0)).clip(0, 5)
    income = np.rint(2 + 0.22 * age + 0.9 * educ - 0.6 * sex + rng.normal(0, 2, n)).clip(0, 14)
    smoker = rng.random(n) < 1 / (1 + np.exp(0.6 - 0.03 * (age - 8) + 0.35 * (educ - 2) - 0.3 * sex))
    mean = 2.6 - 0.08 * (age - 8) - 0.5 * smoker + 0.07 * (income - 6)
    health = np.rint(mean + rng.normal(0, 0.8, n)).clip(0, 3)
    if law == "coarse":
        age, educ, income = (np.floor(x / w) for x, w in ((age, 3), (educ, 1.5), (income, 2)))
        age, income, health = np.minimum(age, 5), np.minimum(income, 5), np.maximum(health - 1, 0)
    columns = (age, educ, income, sex, region, smoker, health)
    return {name: x.astype(np.int64) for name, x in zip(SIZES[law], columns, strict=True)}


def mean(x: NDArray[Any]) -> Estimate:
    return float(x.mean()), float(x.var() / len(x))


def difference(y: NDArray[Any], group: NDArray[Any]) -> Estimate:
    (a, var_a), (b, var_b) = mean(y[group == 1]), mean(y[group == 0])
    return a - b, var_a + var_b


def least_squares(y: NDArray[Any], *x: NDArray[Any]) -> Estimate:
    """The first slope, with the variance that allows for unequal spread."""
    design = np.column_stack([*x, np.ones(len(y))]).astype(np.float64)
    inverse = np.linalg.inv(design.T @ design)
    slopes = inverse @ design.T @ y
    scores = design * (y - design @ slopes)[:, None]
    return float(slopes[0]), float((inverse @ (scores.T @ scores) @ inverse)[0, 0])


def logistic(y: NDArray[Any], *x: NDArray[Any]) -> Estimate:
    """The first coefficient, by Newton's steps."""
    design = np.column_stack([*x, np.ones(len(y))]).astype(np.float64)
    beta = np.zeros(design.shape[1])
    information = np.eye(len(beta))
    for _ in range(12):
        chance = 1 / (1 + np.exp(-design @ beta))
        information = (design * (chance * (1 - chance))[:, None]).T @ design
        beta = beta + np.linalg.solve(information, design.T @ (y - chance))
    return float(beta[0]), float(np.linalg.inv(information)[0, 0])


STATISTICS: dict[str, tuple[tuple[str, ...], Callable[..., Estimate]]] = {
    "mean of income": (("income",), mean),
    "mean of age": (("age",), mean),
    "share of smokers": (("smoker",), mean),
    "share of the smallest region": (("region",), lambda r: mean(r == 4)),
    "share of women who smoke": (("sex", "smoker"), lambda s, t: mean(s * t)),
    "share of low incomes in a region": (("income", "region"), lambda i, r: mean((i < 2) & (r == 1))),
    "income by sex": (("income", "sex"), difference),
    "health by smoking": (("health", "smoker"), difference),
    "age by smoking": (("age", "smoker"), difference),
    "income on schooling": (("income", "educ"), least_squares),
    "income on age, schooling and sex": (("income", "age", "educ", "sex"), least_squares),
    "income on sex, age and schooling": (("income", "sex", "age", "educ"), least_squares),
    "health on smoking, age and income": (("health", "smoker", "age", "income"), least_squares),
    "health on income, age and smoking": (("health", "income", "age", "smoker"), least_squares),
    "smoking on sex (logit)": (("smoker", "sex"), logistic),
    "smoking on schooling, age and sex (logit)": (("smoker", "educ", "age", "sex"), logistic),
}


def analyse(columns: Columns) -> list[Estimate]:
    """Every statistic of some rows."""
    return [statistic(*(columns[name] for name in names)) for names, statistic in STATISTICS.values()]


@cache
def truth(law: str) -> NDArray[np.float64]:
    return np.array(analyse(draw(law, _LAW, np.random.default_rng(1))))[:, 0]


def simulate(setting: Setting, run: int) -> dict[str, NDArray[Any]]:
    """One run: by statistic, does the interval hold the truth, and whether it is one that the rule is stated for."""
    records = draw(setting.law, setting.n, np.random.default_rng([2, run]))
    table = cells.Loaded("survey", engine_of(tables.coded(records, SIZES[setting.law]).open()))
    outcome, _ = cells.release(table, cells.Workload.parse(setting.cell), "sculpt", run)
    database, model = outcome.database, outcome.model
    assert database is not None
    estimate, variance = np.array(analyse(dict(database.columns))).T
    repeated = [
        refit(model, m=database.m, names=database.columns, rng=generator(f"{setting} {run} {j}"))
        for j in range(REPLICATES)
    ]
    values = np.array([analyse(dict(rows.columns)) for rows in repeated])[:, :, 0]
    share = database.m / outcome.size.divisor
    found = combine(estimate, variance, values, share=share, level=LEVEL)
    plain = 1.96 * np.sqrt(variance)
    exact, exact_variance = np.array(analyse(records)).T
    full = clear_pairs(model)
    return {
        "holds": (found.lower <= truth(setting.law)) & (truth(setting.law) <= found.upper),
        "plain": np.abs(estimate - truth(setting.law)) <= plain,
        "on records": np.abs(exact - truth(setting.law)) <= 1.96 * np.sqrt(exact_variance),
        "width": (found.upper - found.lower) / (2 * 1.96 * np.sqrt(exact_variance)),
        "covered": np.array(
            [
                all((a, b) in full or (b, a) in full for a, b in combinations(names, 2))
                for names, _ in STATISTICS.values()
            ]
        ),
    }


def figure(setting: Setting, runs: int) -> dict[str, Any]:
    """Coverage of every statistic, over the runs in which the rule is stated for it and over the others."""
    done = [simulate(setting, run) for run in range(runs)]
    seen = {key: np.array([run[key] for run in done]) for key in done[0]}
    covered = seen["covered"]
    by_statistic: dict[str, Any] = {}
    for i, name in enumerate(STATISTICS):
        inside, outside = seen["holds"][covered[:, i], i], seen["holds"][~covered[:, i], i]
        by_statistic[name] = {
            "covered runs": len(inside),
            "coverage": _rounded(inside),
            "coverage of the other runs": _rounded(outside),
            "without replicates": _rounded(seen["plain"][:, i]),
            "on the records": _rounded(seen["on records"][:, i]),
            "width by that on the records": _rounded(seen["width"][:, i]),
        }
    return {
        "setting": str(setting),
        "runs": runs,
        "replicates": REPLICATES,
        "level": LEVEL,
        "coverage where stated": _rounded(seen["holds"][covered]),
        "coverage elsewhere": _rounded(seen["holds"][~covered]),
        "statistics": by_statistic,
        "command": f"python -m benchmarks.replicates --only {setting} --runs {runs}",
    }


def _rounded(values: NDArray[Any]) -> float | None:
    return round(float(values.mean()), 3) if values.size else None


def figures(settings: Sequence[Setting], runs: int) -> Iterator[dict[str, Any]]:
    for setting in settings:
        print(f"{datetime.now(UTC):%H:%M} {setting} ...", file=sys.stderr, flush=True)
        yield figure(setting, runs)


def run(data: Path | None) -> list[dict[str, Any]]:
    del data
    return list(figures(SETTINGS, RUNS))


def main(arguments: list[str] | None = None) -> None:
    from benchmarks.__main__ import append_each

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.replicates",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", nargs="+", help="settings, such as coarse:20000:2@1")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--results", type=Path, help="append to this file instead of benchmarks/results")
    chosen = parser.parse_args(arguments)
    settings = [s for s in SETTINGS if chosen.only is None or str(s) in chosen.only]
    append_each("replicates", figures(settings, chosen.runs), place=chosen.results)


if __name__ == "__main__":
    main()
