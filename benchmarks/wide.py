"""Wide tables and large attributes: processor seconds, memory and error of `sculpt` beside independence.

All two-way marginals of a generated table, delta 1e-9, through the public interface; a process per point, one thread,
seconds and memory of the release alone. Independence is the product of exact one-way tables, which no private release
has: to be below it everywhere is more than to be below what a budget could buy of it.

    python -m benchmarks wide                          # every point
    python -m benchmarks.wide --points columns-50      # some of them
    python -m benchmarks.wide --point columns-50       # prints one, appends nothing
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

import maquette as mq
from benchmarks import _accuracy, tables
from benchmarks.counting import peak_megabytes
from maquette.models.answers import Answers, answer_from
from maquette.queries.marginals import Marginals


def mixed(n: int, d: int) -> tables.Made:
    """Columns of 2 to 20 codes: each leans on an earlier one, on one of six hidden scales, or on nothing."""
    rng = np.random.default_rng([14, 11, d])
    sizes = np.rint(np.exp(rng.uniform(np.log(2), np.log(20), d))).astype(np.int64)
    scales = rng.normal(size=(6, n))
    columns: list[NDArray[np.int64]] = []
    for size in sizes.tolist():
        kind = rng.choice(3, p=[0.4, 0.45, 0.15]) if columns else 1
        own = _power_law(rng, n, size)
        if kind == 0:
            place = int(rng.integers(0, len(columns)))
            leans = rng.integers(0, size, int(sizes[place]))[columns[place]]
            column = np.where(rng.random(n) < rng.uniform(0.2, 0.95), leans, own)
        elif kind == 1:
            lean = rng.uniform(0.2, 0.9)
            value = lean * scales[rng.integers(0, 6)] + np.sqrt(1 - lean**2) * rng.normal(size=n)
            column = np.floor(size * ndtr(value) ** rng.uniform(0.5, 3)).astype(np.int64).clip(0, size - 1)
        else:
            column = own
        columns.append(column)
    return _coded(columns, sizes.tolist())


def chess(n: int = 3_196, d: int = 37) -> tables.Made:
    """Yes-or-no features of positions: most of them rare, many that exclude or entail each other."""
    rng = np.random.default_rng([14, 11, 37])
    hidden = rng.normal(size=(4, n))
    columns: list[NDArray[np.int64]] = []
    for _ in range(d):
        kind = rng.random()
        bit = (rng.normal(size=4) * (rng.random(4) < 0.5)) @ hidden + rng.normal(size=n) > rng.uniform(
            -0.5, 4
        )
        if columns and kind < 0.35:
            other = columns[int(rng.integers(0, len(columns)))] == 1
            bit = bit & other if kind < 0.15 else bit & ~other if kind < 0.25 else bit | other
        columns.append(bit.astype(np.int64))
    return _coded(columns, [2] * d)


def routes(n: int = 100_000, *, shuffled: bool = False) -> tables.Made:
    """Two attributes of 3,000 and 1,100 codes tied through a third one of 16, among small ones: journeys.

    Codes of the first stand in the order of the third; `shuffled`, codes of both in none.
    """
    rng = np.random.default_rng([14, 11, 3])
    machines, places, firms = 3_000, 1_100, 16
    firm_of = np.sort(rng.choice(firms, machines, p=rng.dirichlet(np.full(firms, 1.5))))
    machine = rng.choice(machines, n, p=rng.dirichlet(np.full(machines, 0.5)))
    firm = firm_of[machine]
    popular = 1.0 / np.arange(1, places + 1) ** 0.9
    laws = np.array([popular * rng.gamma(0.3, size=places) for _ in range(firms)])
    place = np.empty(n, dtype=np.int64)
    for f in range(firms):
        inside = np.flatnonzero(firm == f)
        place[inside] = rng.choice(places, len(inside), p=laws[f] / laws[f].sum())
    month, hour = rng.integers(0, 12, n), np.minimum(rng.poisson(9 + firm / 2), 23)
    late = (rng.random(n) < 0.1 + 0.02 * hour).astype(np.int64)
    if shuffled:
        machine, place = rng.permutation(machines)[machine], rng.permutation(places)[place]
    return _coded([firm, machine, place, month, hour, late], [firms, machines, places, 12, 24, 2])


def scores(n: int = 100_000) -> tables.Made:
    """Two measurements in 3,000 and 1,100 ordered cells with heavy values and a curved relation, among small ones."""
    rng = np.random.default_rng([14, 11, 4])
    scale = rng.normal(size=n)
    price = np.floor(150 * np.exp(0.9 * scale + 0.4 * rng.normal(size=n))).astype(np.int64).clip(0, 2_999)
    price = np.where(rng.random(n) < 0.4, price // 50 * 50, price)
    weight = np.floor(300 + 160 * (0.7 * scale**2 + rng.normal(size=n))).astype(np.int64).clip(0, 1_099)
    grade = np.floor(6 * ndtr(0.6 * scale + 0.8 * rng.normal(size=n))).astype(np.int64).clip(0, 5)
    kind = rng.choice(20, n, p=rng.dirichlet(np.full(20, 0.7)))
    sold = (rng.random(n) < ndtr(0.5 * scale + 0.1 * kind - 1)).astype(np.int64)
    return _coded([price, weight, grade, kind, sold], [3_000, 1_100, 6, 20, 2])


def _power_law(rng: np.random.Generator, n: int, size: int) -> NDArray[np.int64]:
    weights = 1.0 / np.arange(1, size + 1) ** rng.uniform(0.2, 1.5)
    return rng.choice(size, n, p=weights / weights.sum())


def _coded(columns: Sequence[NDArray[np.int64]], sizes: Sequence[int]) -> tables.Made:
    names = [f"x{i}" for i in range(len(columns))]
    return tables.coded(dict(zip(names, columns, strict=True)), dict(zip(names, sizes, strict=True)))


@dataclass(frozen=True, slots=True)
class Point:
    """A table and a budget."""

    make: Callable[[], tables.Made]
    epsilon: float = 1.0


POINTS = {
    **{f"columns-{d}": Point(lambda d=d: mixed(50_000, d)) for d in (50, 100, 200)},
    "chess": Point(chess),
    "chess-0.1": Point(chess, 0.1),
    "routes": Point(routes),
    "routes-shuffled": Point(lambda: routes(shuffled=True)),
    "scores": Point(scores),
}


def run(data: Path | None) -> list[dict[str, Any]]:
    """Every point."""
    del data
    return list(measure(POINTS))


def measure(names: Sequence[str] | dict[str, Point], runs: int = 1) -> Iterator[dict[str, Any]]:
    """Each in a process of its own."""
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    for name in names:
        print(f"{name} ...", file=sys.stderr)
        words = ["-m", "benchmarks.wide", "--point", name, "--runs", str(runs)]
        done = subprocess.run(
            [sys.executable, *words], capture_output=True, text=True, env=os.environ | one_thread
        )
        command = {"command": " ".join(["python", *words])}
        if done.returncode:
            yield {"point": name, "failed": done.stderr.strip().splitlines()[-1:]} | command
        else:
            yield json.loads(done.stdout.splitlines()[-1]) | command


def figures(name: str, runs: int = 1) -> dict[str, Any]:
    """Means over releases of one point, beside independence."""
    point = POINTS[name]
    case = _accuracy.Case(name, 2, point.epsilon, "sculpt", runs)
    _accuracy.warm_up(case)
    made = point.make()
    table, queries = made.open(), mq.marginals(made.domain, k=2)
    before = peak_megabytes()
    found: list[dict[str, Any]] = []
    peak, exact, n = 0, np.zeros(0, dtype=np.int64), 0
    for number in range(runs):
        done, seconds = _accuracy.release(table, queries, case)
        peak = peak if number else peak_megabytes()
        if not number:
            columns = {field: made.source[field].to_numpy() for field in made.domain.names}
            n = made.source.num_rows
            exact = np.asarray(queries.on_rows(columns))
        found.append(_errors("answers", done.answers, exact, n, queries) | {"processor seconds": seconds})
        if done.database is not None:
            found[-1] |= _errors("rows", answer_from(done.database, queries), exact, n, queries)
            found[-1]["m"] = done.database.m
    independent = independence(queries, exact, n)
    return (
        {
            "point": name,
            "epsilon": point.epsilon,
            "n": n,
            "columns": len(made.domain),
            "queries": queries.count,
        }
        | _accuracy.summary(found)
        | {"runs": runs, "peak MB": peak, "of which before the release, MB": before}
        | {f"independence {word}": float(f"{value:.4g}") for word, value in independent.items()}
    )


def independence(queries: Marginals, exact: NDArray[np.int64], n: int) -> dict[str, float]:
    """Largest error and mean L1 of the product of exact one-way tables."""
    largest = total = 0.0
    for margin, place in queries.slices.items():
        table = exact[place].reshape([queries.domain[name].size for name in margin]) / n
        gap = np.abs(table - np.outer(table.sum(axis=1), table.sum(axis=0)))
        largest, total = max(largest, float(gap.max())), total + float(gap.sum())
    return {"max": largest, "L1": total / len(queries.margins)}


def _errors(
    word: str, answers: Answers, exact: NDArray[np.int64], n: int, queries: Marginals
) -> dict[str, float]:
    largest = total = 0.0
    for start in range(0, len(exact), 2**20):
        part = slice(start, start + 2**20)
        gap = np.abs(answers.numerators[part] / answers.denominator - exact[part] / n)
        largest, total = max(largest, float(gap.max(initial=0.0))), total + float(gap.sum())
    return {f"{word} max": largest, f"{word} L1": total / len(queries.margins)}


def main(arguments: list[str] | None = None) -> None:
    from benchmarks.__main__ import append_each

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.wide",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--point", choices=list(POINTS), help="prints its figures and appends nothing")
    parser.add_argument("--points", nargs="+", choices=list(POINTS), default=list(POINTS))
    parser.add_argument("--runs", type=int, default=1, help="releases of a point whose errors are averaged")
    chosen = parser.parse_args(arguments)
    if chosen.point:
        print(json.dumps(figures(chosen.point, chosen.runs)))
    else:
        append_each("wide", measure(chosen.points, chosen.runs))


if __name__ == "__main__":
    main()
