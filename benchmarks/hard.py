"""Generated tables whose columns hang together so tightly that rows cannot be moved one value at a time.

They are what fitted rows have failed on: items that are missing together, columns that follow from others, near copies,
columns tied by a rare exception, one heavy combination. Small enough for tests; `n` scales them up.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from benchmarks import tables

Columns = dict[str, NDArray[np.int64]]
Sizes = dict[str, int]


def missing_blocks(n: int, rng: np.random.Generator) -> tuple[Columns, Sizes]:
    """A questionnaire: three blocks of items that are all answered or all missing (code 0), beside year and age."""
    year, age = rng.integers(0, 5, n), np.minimum(rng.geometric(0.25, n) - 1, 9)
    columns: Columns = {"year": year, "age": age}
    sizes = {"year": 5, "age": 10}
    asked = np.zeros((3, n), dtype=bool)
    for block, share in enumerate((0.5, 0.3, 0.7)):
        before = asked[:block].sum(axis=0)  # whoever answers a block is likelier to answer the next
        answered = rng.random(n) < share * np.where(year % 2 == block % 2, 1.0, 0.5) * (1 + before) / 2
        asked[block] = answered
        mood = rng.integers(0, 3, n)
        for item in range(3):
            value = np.where(rng.random(n) < 0.6, mood, rng.integers(0, 3, n))
            columns[f"q{block}{item}"] = np.where(answered, 1 + value, 0)
            sizes[f"q{block}{item}"] = 4
    return columns, sizes


def functions(n: int, rng: np.random.Generator) -> tuple[Columns, Sizes]:
    """Functional dependencies: a place decides its district and region, a job its field and pay band, and so on."""
    place, job = rng.choice(12, n, p=rng.dirichlet(np.full(12, 2.0))), rng.integers(0, 8, n)
    job = np.where(rng.random(n) < 0.3, place % 8, job)
    own = rng.integers(0, 4, n)
    return (
        {
            "place": place,
            "district": place // 2,
            "region": place // 6,
            "coast": (place % 5 == 0).astype(np.int64),
            "job": job,
            "field": job // 2,
            "manual": job % 2,
            "pay": np.where(rng.random(n) < 0.7, job // 3, rng.integers(0, 3, n)),
            "zone": (place + job) % 3,
            "own": own,
        },
        {
            "place": 12,
            "district": 6,
            "region": 2,
            "coast": 2,
            "job": 8,
            "field": 4,
            "manual": 2,
            "pay": 3,
            "zone": 3,
            "own": 4,
        },
    )


def near_copies(n: int, rng: np.random.Generator) -> tuple[Columns, Sizes]:
    """Two groups of columns that agree in all but one of two hundred records, and three columns of their own."""
    columns: Columns = {}
    for group, size in enumerate((6, 3)):
        source = rng.choice(size, n, p=rng.dirichlet(np.full(size, 3.0)))
        for copy in range(4):
            other = rng.random(n) < 0.005
            columns[f"c{group}{copy}"] = np.where(other, rng.integers(0, size, n), source)
    for i in range(3):
        columns[f"own{i}"] = np.where(rng.random(n) < 0.3, columns["c00"] % 4, rng.integers(0, 4, n))
    sizes = {name: {"c0": 6, "c1": 3}.get(name[:2], 4) for name in columns}
    return columns, sizes


def tied_bits(n: int, rng: np.random.Generator) -> tuple[Columns, Sizes]:
    """Twelve bits in three groups of equal or negated columns, and two numbers whose sum decides a thirteenth."""
    columns: Columns = {}
    for group in range(3):
        bit = rng.integers(0, 2, n)
        for i in range(4):
            columns[f"b{group}{i}"] = bit ^ (i % 2) ^ (rng.random(n) < 0.001)
    low, high = rng.integers(0, 5, (2, n))
    columns |= {"low": low, "high": high, "over": (low + high > 4).astype(np.int64)}
    sizes = {name: 5 if name in ("low", "high") else 2 for name in columns}
    return columns, sizes


def spikes(n: int, rng: np.random.Generator) -> tuple[Columns, Sizes]:
    """Nine in ten records are all zero; the others have values that follow each other exactly."""
    active = rng.random(n) < 0.1
    base = rng.integers(0, 8, n)
    columns: Columns = {}
    for i in range(6):
        columns[f"s{i}"] = np.where(active, 1 + (base + i) % 8, 0)
    for i in range(4):
        columns[f"w{i}"] = np.where(rng.random(n) < 0.5, columns[f"s{i}"] > 0, rng.integers(0, 3, n))
    return columns, {name: 9 if name.startswith("s") else 3 for name in columns}


TABLES: dict[str, Callable[[int, np.random.Generator], tuple[Columns, Sizes]]] = {
    "missing-blocks": missing_blocks,
    "functions": functions,
    "near-copies": near_copies,
    "tied-bits": tied_bits,
    "spikes": spikes,
}


def make(name: str, n: int = 30_000, *, seed: int = 17) -> tables.Made:
    """One of `TABLES`, the same for the same seed."""
    return tables.coded(*TABLES[name](n, np.random.default_rng([23, seed])))
