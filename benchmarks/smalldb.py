"""SmallDB, drawn exactly: how long one draw takes, and where it beats noisy trees.

Times are of one thread on made-up tables, compiled code warm; `cpu_seconds` is what a quiet machine would show.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.gate.draw.blocks import Blocks
from maquette.gate.draw.column import Column
from maquette.gate.draw.forest import Forest
from maquette.gate.draw.intervals import Intervals
from maquette.gate.draw.listed import Listed, all_multisets, levels_of
from maquette.gate.draw.nested import Nested, Node
from maquette.gate.draw.price import pricing
from maquette.gate.draw.scale import Scale
from maquette.gate.draw.slices import Slices
from maquette.gate.draw.thresholds import Base, Thresholds
from maquette.gate.draw.uniform import Uniform
from maquette.gate.noise.bits import SystemBits
from maquette.models.family import Family, family

SHAPES = ("uniform", "two bumps", "zipf", "12 spikes")
TREE_ARITY = 16


def run(data: Path | None) -> list[dict[str, Any]]:
    """All figures; the tables are made here, so `data` is not needed."""
    del data
    return [*times(), *winners(), enumeration()]


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


def weight(epsilon: float) -> Fraction:
    return pricing(price=Fraction(str(epsilon)), unit="epsilon", resolution=1, what="benchmark").base


def draw(counter: Any, epsilon: float) -> tuple[Any, int]:
    """One database and how many levels were counted."""
    levels: list[int] = []
    slices = Slices(counter, base=weight(epsilon), report=levels.append)
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
    ]


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


def winners(size: int = 2**20, runs: int = 3) -> list[dict[str, Any]]:
    """The largest error over all thresholds beside a consistent noisy tree and plain Laplace, add/remove-one."""
    found: list[dict[str, Any]] = []
    for product in (100, 1000, 10_000):
        for shape in SHAPES:
            rng = np.random.default_rng(product)
            n, epsilon = product, 1.0
            m = math.ceil(1.25 * math.sqrt(product))
            errors: dict[str, list[float]] = {"smalldb": [], "tree": [], "laplace": []}
            for _ in range(runs):
                held = column(values(shape, size, n, rng), size)
                counter = Thresholds(held, Scale(m, 1), "tree")
                low, high = held.deviations(draw(counter, epsilon)[0], m)
                errors["smalldb"].append(max(-low, high) / (n * m))
                exact = np.zeros(size)
                exact[held.codes.astype(np.int64)] = np.diff(held.below, prepend=0)
                errors["tree"].append(tree_error(exact, n, epsilon, rng))
                errors["laplace"].append(min(1.0, size * math.log(size) / (epsilon * n)))
            means = {name: round(float(np.mean(e)), 4) for name, e in errors.items()}
            found.append(
                {
                    "what": f"largest error over 2^20 thresholds, {shape}",
                    "epsilon_n": product,
                    "m": m,
                    "smalldb": means["smalldb"],
                    "peer_consistent_16_ary_laplace_tree": means["tree"],
                    "peer_plain_laplace_expected": means["laplace"],
                    "winner": min(means, key=lambda name: means[name]),
                    "runs": runs,
                }
            )
    return found


def tree_error(exact: NDArray[np.float64], n: int, epsilon: float, rng: np.random.Generator) -> float:
    """Laplace noise on every node of a 16-ary tree, least squares (Hay et al. 2010), then made monotone."""
    levels = [exact]
    while len(levels[-1]) > 1:
        levels.append(levels[-1].reshape(-1, TREE_ARITY).sum(axis=1))
    scale = (len(levels) - 1) / epsilon
    noisy = [v + rng.laplace(0, scale, len(v)) for v in levels[:-1]] + [np.array([float(n)])]
    best = [noisy[0]]
    for height in range(1, len(levels)):
        power = float(TREE_ARITY**height)
        share = (power * TREE_ARITY - power) / (power * TREE_ARITY - 1)
        below = best[-1].reshape(-1, TREE_ARITY).sum(axis=1)
        best.append(share * noisy[height] + (1 - share) * below)
    best[-1] = np.array([float(n)])
    fitted = best[-1]
    for height in range(len(levels) - 2, -1, -1):
        gap = fitted - best[height].reshape(-1, TREE_ARITY).sum(axis=1)
        fitted = best[height] + np.repeat(gap / TREE_ARITY, TREE_ARITY)
    rising = np.cumsum(fitted)
    # half way between the running maximum from the left and the running minimum from the right: monotone
    rising = (np.maximum.accumulate(rising) + np.minimum.accumulate(rising[::-1])[::-1]) / 2
    return float(np.abs(rising.clip(0, n) - np.cumsum(exact)).max() / n)


def enumeration(atoms: int = 16, m: int = 7) -> dict[str, Any]:
    """What listing every database can do in a minute, beside what the counters do."""
    start = time.process_time()
    rng = np.random.default_rng(0)
    rows = all_multisets(atoms, m)
    thresholds = np.tril(np.ones((atoms, atoms), dtype=np.int64))
    records = rng.multinomial(1000, np.full(atoms, 1 / atoms)).astype(np.int64)
    levels = levels_of(rows, thresholds, records, denominator=1, scale=Scale(m, 1))
    draw(Listed.of(levels), 1.0)
    rate = len(rows) / (time.process_time() - start)
    reach = rate * 60
    largest = max(k for k in range(1, 60) if math.comb(atoms + k - 1, k) <= reach)
    return {
        "what": "largest range that enumeration scores in 60 cpu seconds, all thresholds of 16 cells",
        "databases_per_second": round(rate),
        "enumeration": f"|X| = {atoms}, |Q| = {atoms}, m = {largest}",
        "maquette": "|X| = 2^64, |Q| = 2^64, m = 316 (see above)",
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path)
    for line in run(parser.parse_args().data):
        print(json.dumps(line), flush=True)
