"""What error to expect of `sculpt`: many generated tables, one release each, and a fit on public inputs alone.

Tables differ in records, attributes, cells, skew and dependence, workloads in order, budgets in epsilon; one budget in
seven is pure. `python -m benchmarks.calibrate` adds simulations until there are `COUNT`; it can be stopped and goes on.
`python -m benchmarks.calibrate --fit` prints the constants that these simulations give, with three quarters of them
fitted; the planner's own are fitted to the families (`expected.py`). `--check DIR` compares these with public tables.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import ndtr

import maquette as mq
from benchmarks import _accuracy, tables
from maquette.core.budget import UNITS, Unit
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.mechanisms.base import Task
from maquette.owner import exact_answers
from maquette.queries.marginals import Marginals
from maquette.sculpt import allocation
from maquette.sculpt.allocation import attribute_sets

COUNT = 240
DELTA = 1e-9
HELD_OUT = 4
"""Every so many-th simulation is not fitted."""
MAX_QUERIES = 1_500_000
STYLES = {
    "tiny": (2, 12, 2, 4),
    "bits": (2, 2, 5, 20),
    "few": (2, 8, 4, 16),
    "mixed": (2, 60, 4, 14),
    "wide": (10, 120, 3, 9),
}
"""Least and most cells of an attribute, least and most attributes."""
CONSTANTS = Path(allocation.__file__)
"""The module that holds the fitted constants, one to a line."""


@dataclass(frozen=True, slots=True)
class Case:
    """The public side of one simulation, and how its table was made."""

    seed: int
    n: int
    sizes: tuple[int, ...]
    k: int
    epsilon: float
    delta: float
    style: str
    strength: float
    skew: float


def case(seed: int) -> Case:
    """A case at random, the same for the same seed."""
    rng = np.random.default_rng([7, seed])
    style = str(rng.choice(list(STYLES)))
    low, high, fewest, most = STYLES[style]
    k = int(rng.choice([2, 3], p=[0.6, 0.4]))
    d = int(rng.integers(max(fewest, k), (min(most, 11) if k == 3 else most) + 1))
    sizes = tuple(int(s) for s in np.rint(np.exp(rng.uniform(math.log(low), math.log(high), d))))
    while queries_of(sizes, k) > MAX_QUERIES and len(sizes) > k:
        sizes = sizes[:-1]
    return Case(
        seed=seed,
        n=int(np.exp(rng.uniform(math.log(500), math.log(200_000)))),
        sizes=sizes,
        k=k,
        epsilon=float(f"{np.exp(rng.uniform(math.log(0.1), math.log(10))):.3g}"),
        delta=0.0 if rng.random() < 0.15 else DELTA,
        style=style,
        strength=float(f"{math.sqrt(rng.uniform(0, 1)):.3g}"),
        skew=float(f"{np.exp(rng.uniform(math.log(0.02), math.log(1))):.3g}"),
    )


def queries_of(sizes: Sequence[int], k: int) -> int:
    return sum(math.prod(margin) for margin in combinations(sizes, k))


def table(given: Case) -> tables.Made:
    """Columns that follow a hidden scale, a hidden class or an earlier column, by the strength of the case."""
    rng = np.random.default_rng([11, given.seed])
    classes = int(rng.integers(2, 13))
    hidden = rng.choice(classes, given.n, p=rng.dirichlet(np.full(classes, 1.0)))
    scale = rng.normal(size=given.n)
    columns: list[NDArray[np.int64]] = []
    for size in given.sizes:
        lean = given.strength * rng.beta(0.5, 0.5)  # some columns hardly follow another, some nearly always
        if rng.random() < 0.5:
            columns.append(_ordered(scale, size, lean, rng))
            continue
        own = rng.choice(size, given.n, p=rng.dirichlet(np.full(size, given.skew)))
        if columns and rng.random() < 0.5:
            parent = columns[int(rng.integers(0, len(columns)))]
            other = (parent * int(rng.integers(1, 4)) + rng.integers(0, 2, given.n)) % size
        else:
            other = _by_class(hidden, rng.dirichlet(np.full(size, 0.4), classes), rng)
        columns.append(np.where(rng.random(given.n) < lean, other, own))
    names = [f"x{i}" for i in range(len(columns))]
    source = pa.table({name: column.astype(np.uint8) for name, column in zip(names, columns, strict=True)})
    return tables.Made(domain_of(given.sizes), source)


def domain_of(sizes: Sequence[int]) -> Domain:
    return Domain(tuple(Attribute(f"x{i}", Kind.ORDINAL, codes=size) for i, size in enumerate(sizes)))


def simulate(given: Case) -> dict[str, Any]:
    """One release and its true errors."""
    made = table(given)
    private = made.open()
    queries = mq.marginals(made.domain, k=given.k)
    budget = mq.Budget(given.epsilon, given.delta)
    return asdict(given) | release(private, queries, budget)


def release(private: mq.Table, queries: Marginals, budget: mq.Budget) -> dict[str, Any]:
    """One release by `sculpt`: the price that it had, its true errors, its processor seconds."""
    started = time.process_time()
    done = mq.release(
        private,
        queries,
        epsilon=budget.epsilon,
        delta=budget.delta,
        mechanism="sculpt",
        certificate=0.0,
        ledger=_accuracy.ledger(queries, "sculpt", epsilon=budget.epsilon, delta=budget.delta),
    )
    seconds = time.process_time() - started
    truth = exact_answers(private, queries)
    off = np.abs(done.answers.fractions - truth.numerators / truth.records)
    return {
        "unit": done.budget.unit,
        "price": done.budget.total_units / UNITS,
        "max": float(f"{off.max():.4g}"),
        "L1": float(f"{off.sum() / len(queries.margins):.4g}"),
        "processor seconds": round(seconds, 2),
    }


def run(data: Path | None) -> list[dict[str, Any]]:
    """The simulations that are still missing, at most `COUNT` in all."""
    del data
    from benchmarks.__main__ import RESULTS

    return list(simulated(missing(RESULTS / "calibrate.jsonl")))


def missing(path: Path) -> list[int]:
    """The seeds of which a file has no simulation."""
    done = {figure["seed"] for figure in figures(path)}
    return [seed for seed in range(COUNT) if seed not in done]


def simulated(seeds: Sequence[int]) -> Iterator[dict[str, Any]]:
    for seed in seeds:
        print(f"simulation {seed} ...", file=sys.stderr)
        yield simulate(case(seed)) | {"command": f"python -m benchmarks.calibrate --seeds {seed} {seed + 1}"}


def figures(path: Path) -> list[dict[str, Any]]:
    """The simulations in a file, the newest of every seed."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return list({f["seed"]: f for f in (json.loads(line)["figures"] for line in lines)}.values())


def form(figure: dict[str, Any]) -> allocation.BinnedRegime | allocation.DenseRegime:
    """What the planner sees of a simulation."""
    queries = mq.marginals(domain_of(figure["sizes"]), k=figure["k"])
    task = Task(queries, Relation.ADD_REMOVE, Unit(figure["unit"]), Fraction(figure["price"]), 0.05)
    return allocation.regime_of(task, attribute_sets(queries), n=figure["n"])


def fit(simulations: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The constants, by name: least squares on logarithms, apart for tables in bins and for whole marginals.

    The spread is that of simulations which were not fitted: the 5 % and 95 % quantiles of true over expected.
    """
    seen = [(figure, form(figure)) for figure in simulations]
    binned = [(figure, f) for figure, f in seen if isinstance(f, allocation.BinnedRegime)]
    whole = [(figure, f) for figure, f in seen if isinstance(f, allocation.DenseRegime)]
    found: dict[str, Any] = {"SIMULATIONS": len(seen), "OF_WHOLE_MARGINALS": len(whole)}
    for name, what, group in (
        ("LARGEST", "max", [(figure, f.terms) for figure, f in binned]),
        ("MEAN_L1", "L1", [(figure, f.terms) for figure, f in binned]),
        ("DENSE_LARGEST", "max", [(figure, f.largest_terms) for figure, f in whole]),
        ("DENSE_MEAN_L1", "L1", [(figure, f.mean_terms) for figure, f in whole]),
    ):
        found |= _fitted(name, what, group)
    return found


def _fitted(
    name: str, what: str, group: Sequence[tuple[dict[str, Any], tuple[float, ...]]]
) -> dict[str, Any]:
    """Exponents of one error, and its spread."""
    learn = [(terms, figure[what]) for figure, terms in group if figure["seed"] % HELD_OUT]
    rows, errors = np.array([terms for terms, _ in learn]), np.log([error for _, error in learn])
    exponents = [round(float(x), 4) for x in np.linalg.lstsq(rows, errors, rcond=None)[0]]
    ratios = [f[what] / allocation.power_law(exponents, t) for f, t in group if not f["seed"] % HELD_OUT]
    within = [round(float(q), 2) for q in np.quantile(ratios, [0.05, 0.95])]
    return {name: exponents, f"{name}_WITHIN": within}


def rewritten(source: str, found: dict[str, Any]) -> str:
    """A module with these values of its constants, each of which it must have on a line of its own."""
    for name, value in found.items():
        line = f"{name} = {tuple(value) if isinstance(value, list) else value}"
        source, count = re.subn(rf"(?m)^{name} = .*$", line, source)
        if count != 1:
            raise ValueError(f"expected one line '{name} = ...', found {count}")
    return source


def compared(data: Path) -> Iterator[dict[str, Any]]:
    """Expected and true errors on public tables, which no constant was fitted to."""
    for name in ("adult", "salary", "chicago_taxi", "msnbc", "adult-reduced"):
        made = tables.load(name, data)
        private = made.open()
        n = private._engine.size()  # a public table
        for k, epsilon in ((2, 0.1), (2, 1.0), (2, 10.0), (3, 1.0)):
            queries = mq.marginals(made.domain, k=k)
            budget = mq.Budget(epsilon, DELTA)
            found = release(private, queries, budget)
            task = Task(queries, Relation.ADD_REMOVE, Unit(found["unit"]), Fraction(found["price"]), 0.05)
            told = allocation.typical_error(task, attribute_sets(queries), n=n)
            yield {"table": name, "k": k, "epsilon": epsilon} | {
                what: {
                    "expected": float(f"{value:.3g}"),
                    "true": found[what],
                    "ratio": round(found[what] / value, 2),
                }
                for what, value in (("max", told.largest), ("L1", told.mean_l1))
                if value is not None
            }


def main(arguments: list[str] | None = None) -> None:
    from benchmarks.__main__ import RESULTS, append_each

    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibrate", description=__doc__)
    parser.add_argument(
        "--fit", action="store_true", help="print the constants that the simulations so far give"
    )
    parser.add_argument(
        "--check", type=Path, help="compare expected and true errors on tables of this folder"
    )
    parser.add_argument(
        "--seeds",
        nargs=2,
        type=int,
        help="first seed, and the one after the last, simulated anew; those that are missing if absent",
    )
    chosen = parser.parse_args(arguments)
    place = RESULTS / "calibrate.jsonl"
    if chosen.fit:
        found = fit(figures(place))
        print(json.dumps(found))
    elif chosen.check:
        for figure in compared(chosen.check):
            print(json.dumps(figure), flush=True)
    else:
        append_each("calibrate", simulated(range(*chosen.seeds) if chosen.seeds else missing(place)))


def _ordered(
    scale: NDArray[np.float64], size: int, lean: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Smooth counts over ordered cells, heavier at the low end, as of ages, hours or amounts."""
    mixed = lean * scale + math.sqrt(1 - lean**2) * rng.normal(size=len(scale))
    return np.floor(size * ndtr(mixed) ** (1 + 4 * rng.random())).astype(np.int64).clip(0, size - 1)


def _by_class(
    hidden: NDArray[np.int64], laws: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """A value for every record by the law of its class."""
    points = rng.random(len(hidden))
    found = np.empty(len(hidden), dtype=np.int64)
    for group, law in enumerate(laws):
        inside = hidden == group
        found[inside] = np.searchsorted(np.cumsum(law)[:-1], points[inside])
    return found


if __name__ == "__main__":
    main()
