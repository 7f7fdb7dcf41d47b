"""SmallDB, drawn exactly: how long one draw takes, and where it beats noisy trees.

Times are of one thread on made-up tables, compiled code warm; `cpu_seconds` is what a quiet machine would show.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import maquette as mq
from maquette.core.budget import Unit
from maquette.core.inversion import SystemBits
from maquette.core.prices import Prices
from maquette.domain import Attribute, Domain, Kind
from maquette.samplers.atoms import Atoms, layout
from maquette.samplers.brackets import Scale, Uniform
from maquette.samplers.lists import Column, Listed, all_multisets, levels_of
from maquette.samplers.ordered import Base, Intervals, Nested, Node, Thresholds
from maquette.samplers.slices import Blocks, Slices
from maquette.samplers.structures import Family, family
from maquette.samplers.trees import Forest
from maquette.samplers.trellis import Trellis

MEASURED = ("smalldb", "tree", "laplace")
SHAPES = ("uniform", "two bumps", "zipf", "12 spikes")


def run(data: Path | None) -> list[dict[str, Any]]:
    """All figures; the tables are made here, so `data` is not needed."""
    del data
    load = {"load": [round(x, 1) for x in os.getloadavg()]}
    return [figure | load for figure in (*times(), *factors(), *enumeration(), *winners())]


def values(shape: str, size: int, n: int, rng: np.random.Generator) -> NDArray[np.uint64]:
    """n records of a made-up table over `size` cells."""
    match shape:
        case "uniform":
            share = rng.random(n)
        case "two bumps":
            share = np.where(rng.random(n) < 0.5, rng.normal(0.3, 0.05, n), rng.normal(0.7, 0.1, n))
        case "zipf":
            share = np.minimum(rng.zipf(1.1, n), size) / size
        case _:
            share = rng.choice(rng.random(12), n)
    return np.minimum((share.clip(0, 1 - 2**-53) * float(size)).astype(np.uint64), np.uint64(size - 1))


def column(codes: NDArray[Any], size: int) -> Column:
    found, counts = np.unique(codes.astype(np.uint64), return_counts=True)
    return Column.of(found, counts, cells=size, size=size)


PURE = Prices(Unit.EPSILON, Unit.EPSILON, mq.Relation.ADD_REMOVE)


def weight(epsilon: float) -> Fraction:
    return PURE.draw(Fraction(str(epsilon)), resolution=1, what="benchmark").decay


def draw(counter: Any, epsilon: float) -> tuple[Any, int]:
    """One database and how many levels were counted."""
    levels: list[int] = []
    slices = Slices(counter, decay=weight(epsilon), report=levels.append)
    return slices.draw(Uniform(SystemBits())), len(levels)


def times() -> list[dict[str, Any]]:
    """One draw of each class at the sizes of the goals."""
    rng = np.random.default_rng(0)

    def thresholds(size: int, n: int, m: int, base: Base, shape: str = "two bumps") -> dict[str, Any]:
        count = "all 2^64" if size == 2**64 else f"{size:,}"
        goal = "< 60 s, aim < 5 s" if size == 2**64 else "< 3 s"
        counter = Thresholds(column(values(shape, size, n, rng), size), Scale(m, 1), base)
        return timed(f"{count} thresholds, {base} base, {shape}", goal, n, m, counter)

    def intervals(size: int, goal: str) -> dict[str, Any]:
        held = column(values("two bumps", size, 10_000, rng), size)
        count = f"{size * (size + 1) // 2:,} intervals of {size:,} cells"
        return timed(count, goal, 10_000, 100, Intervals(held, Scale(100, 1), "tree", 1))

    for base in ("tree", "flat"):  # compile
        thresholds(2**64, 300, 10, base)
    return [
        thresholds(2**64, 10_000, 100, "tree"),
        thresholds(2**64, 10_000, 100, "tree", "uniform"),
        thresholds(2**64, 10_000, 100, "tree", "12 spikes"),
        thresholds(2**64, 100_000, 316, "tree"),
        thresholds(100_000, 100_000, 1000, "flat"),
        thresholds(100_000, 100_000, 316, "tree"),
        intervals(4096, "< 10 s"),
        intervals(65_536, "< 60 s"),
        timed("dyadic tree of 8,190 sets", "< 5 s", 10_000, 100, dyadic(4096, 10_000, 100, rng)),
        timed("one-way marginals, 50 x 10 values", "< 5 s", 1000, 50, one_way(50, 10, 1000, 50, rng)),
        timed("two-way marginals along a chain of 50 bits", "< 20 s", 1000, 50, chain(50, 1000, 50, rng)),
        timed("trellis, 38 windows of 3 of 40 cells", "none", 200, 15, windows(40, 200, 15, rng)),
        whole_release(rng),
    ]


def whole_release(rng: np.random.Generator) -> dict[str, Any]:
    """From the opened table to the certificate: all 2^64 thresholds of 10,000 keys."""
    domain = Domain((Attribute("x", Kind.ORDINAL, codes=2**64),))
    codes = values("two bumps", 2**64, 10_000, rng)
    table = mq.open({"x": codes}, domain=domain)
    start, cpu = time.perf_counter(), time.process_time()
    made = mq.release(
        table,
        mq.prefixes(domain, "x"),
        epsilon=1.0,
        mechanism="smalldb",
        typical_rows=10_000,
        certificate=0.05,
        ledger="memory",
    )
    assert made.certificate is not None
    return {
        "what": "seconds of one release through the gate: all 2^64 thresholds, certified",
        "n": 10_000,
        "m": made.parameters["m"],
        "epsilon": 1.0,
        "seconds": round(time.perf_counter() - start, 2),
        "cpu_seconds": round(time.process_time() - cpu, 2),
        "certified": round(made.certificate.alpha, 4),
        "goal": "< 60 s, aim < 5 s",
    }


def windows(cells: int, n: int, m: int, rng: np.random.Generator) -> Trellis:
    held = np.array([[int(a <= c < a + 3) for c in range(cells)] for a in range(cells - 2)], dtype=np.int64)
    single = Atoms(("x",), (cells,), held, 1, np.arange(cells, dtype=np.int64))
    records = rng.multinomial(n, rng.dirichlet(np.ones(cells))).astype(np.int64)
    return Trellis(single, layout(single), records, Scale(m, 1), sequences=False)


def timed(what: str, goal: str, n: int, m: int, counter: Any) -> dict[str, Any]:
    """One exact draw at epsilon 1, by the wall and by the processor."""
    start, cpu = time.perf_counter(), time.process_time()
    small, levels = draw(counter, 1.0)
    return {
        "what": f"seconds of one exact draw: {what}",
        "n": n,
        "m": m,
        "epsilon": 1.0,
        "seconds": round(time.perf_counter() - start, 2),
        "cpu_seconds": round(time.process_time() - cpu, 2),
        "levels": levels,
        "largest_error": round(counter.level(small) / n, 4),
        "goal": goal,
    }


def nodes(tree: Family, below: NDArray[np.int64]) -> Node:
    first, last = tree.run
    return Node(tree, int(below[last + 1] - below[first]), tuple(nodes(part, below) for part in tree.inside))


def histogram_counter(codes: NDArray[Any], runs: list[tuple[int, int]], size: int, m: int) -> Nested:
    below = np.concatenate([[0], np.cumsum(np.bincount(codes.astype(np.int64), minlength=size))])
    return Nested(nodes(family(runs, size), below), len(codes), Scale(m, 1))


def dyadic(size: int, n: int, m: int, rng: np.random.Generator) -> Nested:
    widths = [size >> level for level in range(1, size.bit_length())]
    runs = [(i * width, (i + 1) * width - 1) for width in widths for i in range(size // width)]
    return histogram_counter(values("two bumps", size, n, rng), runs, size, m)


def one_way(attributes: int, size: int, n: int, m: int, rng: np.random.Generator) -> Blocks:
    runs = [(c, c) for c in range(size)]
    columns = [rng.choice(size, n, p=rng.dirichlet(np.ones(size))) for _ in range(attributes)]
    return Blocks([histogram_counter(codes, runs, size, m) for codes in columns])


def chain(attributes: int, n: int, m: int, rng: np.random.Generator) -> Forest:
    bits = [rng.integers(0, 2, n)]
    for _ in range(attributes - 1):
        bits.append(np.where(rng.random(n) < 0.25, 1 - bits[-1], bits[-1]))
    edges = [(a, a + 1) for a in range(attributes - 1)]
    return Forest(
        attributes=attributes,
        edges=edges,
        singles=frozenset(),
        ones=[int(b.sum()) for b in bits],
        both={(a, b): int((bits[a] & bits[b]).sum()) for a, b in edges},
        n=n,
        scale=Scale(m, 1),
    )


def winners(size: int = 2**20) -> list[dict[str, Any]]:
    """The largest error over all thresholds of whole releases, add/remove-one, and whom the planner recommends."""
    domain = Domain((Attribute("x", Kind.ORDINAL, codes=size),))
    queries = mq.prefixes(domain, "x")
    found: list[dict[str, Any]] = []
    for product, runs in ((100, 5), (1000, 12), (10_000, 5)):
        public: dict[str, Any] = {"n": product, "epsilon": 1.0, "certificate": 0.0}
        overall = mq.plan(queries, **public).best("expected").mechanism
        recommended = mq.plan(queries, mechanisms=MEASURED, **public).best("expected").mechanism
        for shape in SHAPES:
            rng = np.random.default_rng([product, len(shape)])
            errors: dict[str, list[float]] = {name: [] for name in MEASURED}
            for _ in range(runs):
                codes = values(shape, size, product, rng)
                for name in ("smalldb", "tree"):
                    errors[name].append(released_error(domain, queries, codes, name))
                errors["laplace"].append(laplace_error(size, product))
            other: dict[str, float] = {}
            if overall not in MEASURED:
                codes = values(shape, size, product, rng)
                other[overall] = round(released_error(domain, queries, codes, overall), 4)
            means = {name: float(np.mean(e)) for name, e in errors.items()}
            winner = min(means, key=lambda name: means[name])
            found.append(
                {
                    "what": f"largest error over 2^20 thresholds, {shape}",
                    "epsilon_n": product,
                    "runs": runs,
                    "smalldb": round(means["smalldb"], 4),
                    "peer_consistent_16_ary_tree": round(means["tree"], 4),
                    "peer_plain_laplace": round(means["laplace"], 4),
                    "spread_of_one_run": {n: round(float(np.std(e, ddof=1)), 4) for n, e in errors.items()},
                    "winner": winner,
                    "planner_of_these": recommended,
                    "planner_agrees": agrees(errors, winner, recommended),
                    "planner_of_all": overall,
                    "one_run_of_another": other,
                }
            )
    return found


def factors(draws: int = 6) -> list[dict[str, Any]]:
    """Largest error times sqrt(epsilon n) at m = 1.25 sqrt(epsilon n): what the planner's expected errors rest on."""
    rng = np.random.default_rng(8)

    def paths(base: Base, size: int, n: int, m: int, shape: str) -> Any:
        return Thresholds(column(values(shape, size, n, rng), size), Scale(m, 1), base)

    found: dict[str, list[float]] = {}
    for n in (100, 1000, 10_000):
        m = math.ceil(1.25 * math.sqrt(n))
        for shape in SHAPES:
            for size in (2**12, 2**20):
                for base in ("tree", "flat"):
                    counters = [paths(base, size, n, m, shape) for _ in range(draws)]
                    found.setdefault(f"thresholds, {base} base", []).extend(_factor(c, n) for c in counters)
            if n < 10_000:
                counters = [paths("sequence", 2**12, n, m, shape) for _ in range(draws)]
                found.setdefault("thresholds, sequence base", []).extend(_factor(c, n) for c in counters)
                held = [column(values(shape, 2**12, n, rng), 2**12) for _ in range(2)]
                spans = [Intervals(c, Scale(m, 1), "tree", 1) for c in held]
                found.setdefault("intervals, tree base", []).extend(_factor(c, n) for c in spans)
    for n in (200, 1000):
        m = math.ceil(1.25 * math.sqrt(n))
        many = range(draws)
        found.setdefault("dyadic tree of 510 sets", []).extend(
            _factor(dyadic(256, n, m, rng), n) for _ in many
        )
        edges = 19**0.5
        found.setdefault("chain of 20 bits, over sqrt(edges)", []).extend(
            _factor(chain(20, n, m, rng), n) / edges for _ in range(2)
        )
        found.setdefault("windows of 3 of 40 cells", []).extend(
            _factor(windows(40, n, min(m, 25), rng), n) for _ in many
        )
    return [
        {
            "what": f"largest error times sqrt(epsilon n): {name}",
            "mean": round(float(np.mean(seen)), 2),
            "least": round(min(seen), 2),
            "largest": round(max(seen), 2),
            "draws": len(seen),
        }
        for name, seen in found.items()
    ]


def _factor(counter: Any, n: int) -> float:
    return float(counter.level(draw(counter, 1.0)[0])) / math.sqrt(n)


def released_error(domain: Domain, queries: Any, codes: NDArray[np.uint64], mechanism: str) -> float:
    """One release at epsilon 1, the whole budget for the mechanism, against the truth."""
    table = mq.open({"x": codes}, domain=domain)
    options: dict[str, Any] = {"mechanism": mechanism, "epsilon": 1.0, "certificate": 0.0, "ledger": "memory"}
    made = mq.release(table, queries, **options | ({} if mechanism == "smalldb" else {"rows": 1000}))
    exact = np.searchsorted(np.sort(codes), np.arange(queries.count, dtype=np.uint64), side="right") / len(
        codes
    )
    return float(np.abs(made.answers.fractions - exact).max())


def laplace_error(size: int, n: int) -> float:
    """Laplace noise of scale `size` on every threshold; an answer clipped to [0, 1] is off by at most 1."""
    return min(1.0, size * math.log(size) / n)


def agrees(errors: dict[str, list[float]], winner: str, recommended: str) -> str:
    """Yes, no, or a tie: the difference of the means is within two of its standard errors."""
    if recommended == winner:
        return "yes"
    gaps = np.array(errors[recommended]) - np.array(errors[winner])
    error = float(np.std(gaps, ddof=1)) / math.sqrt(len(gaps))
    return "tie" if float(gaps.mean()) <= 2 * error else "no"


def enumeration() -> list[dict[str, Any]]:
    """The most rows for which listing every database takes 60 seconds, by a measured rate, beside a counter's draw."""
    return [enumerated(cells) for cells in (4, 16, 64, 256, 4096)]


def enumerated(cells: int, reach: int = 100_000) -> dict[str, Any]:
    """All thresholds of so many cells."""
    rng = np.random.default_rng(0)
    m = max(k for k in range(1, 2000) if k == 1 or math.comb(cells + k - 1, k) <= reach)
    held = column(rng.integers(0, cells, 1000), cells)
    thresholds = np.tril(np.ones((cells, cells), dtype=np.int64))
    records = np.zeros(cells, dtype=np.int64)
    records[held.codes.astype(np.int64)] = np.diff(held.below, prepend=0)
    start = time.process_time()
    rows = all_multisets(cells, m)
    draw(Listed.of(levels_of(rows, thresholds, records, denominator=1, scale=Scale(m, 1))), 1.0)
    rate = len(rows) / (time.process_time() - start)
    largest = max(k for k in range(1, 4000) if k == 1 or math.comb(cells + k - 1, k) <= 60 * rate)
    ours = 40 if cells < 64 else 300
    start = time.process_time()
    draw(Thresholds(held, Scale(ours, 1), "tree"), 1.0)
    return {
        "what": f"enumeration beside a counter: all thresholds of {cells:,} cells, n = 1000",
        "databases_per_cpu_second": round(rate),
        "enumeration_in_60_s": f"|X| = {cells}, |Q| = {cells}, m = {largest}",
        "ours": f"|X| = {cells}, |Q| = {cells}, m = {ours}",
        "our_cpu_seconds": round(time.process_time() - start, 2),
        "ours_at_most": "|X| = |Q| = 2^64, m = 316 (above)",
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path)
    for line in run(parser.parse_args().data):
        print(json.dumps(line), flush=True)
