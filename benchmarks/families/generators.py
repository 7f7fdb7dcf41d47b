"""Generated tables, thirteen kinds of six each, by fixed seeds: nothing is stored.

A kind is one sort of structure that real tables have. Its six tables differ in records (500 to a million), columns,
sizes of attributes and strength. A generator gets a random source, n and the number of the variant, and returns codes
and sizes of its columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from benchmarks import tables

Codes = NDArray[np.int64]
Columns = list[tuple[Codes, int]]
"""The codes of a column, and of how many codes they are."""
Generator = Callable[[np.random.Generator, int, int], Columns]

VARIANTS = 6
RECORDS = (500, 2_000, 8_000, 30_000, 120_000, 1_000_000)
FURTHER = range(VARIANTS, 1_000 * (len(RECORDS) + 1))
"""Variants beyond those of the two halves."""
_MAX_LARGE = 3_000
"""Codes of the largest attribute."""


def _chosen(rng: np.random.Generator, laws: NDArray[np.float64], group: Codes) -> Codes:
    """A value for every record by the law of its group."""
    points = rng.random(len(group))
    values = np.empty(len(group), dtype=np.int64)
    order = np.argsort(group, kind="stable")
    ends = np.searchsorted(group[order], np.arange(len(laws) + 1))
    for i, law in enumerate(laws):
        inside = order[ends[i] : ends[i + 1]]
        values[inside] = np.searchsorted(np.cumsum(law)[:-1], points[inside], side="right")
    return values


def _laws(rng: np.random.Generator, groups: int, size: int, skew: float) -> NDArray[np.float64]:
    return rng.dirichlet(np.full(size, skew), groups)


def _sizes(rng: np.random.Generator, count: int, low: int, high: int) -> list[int]:
    return [int(s) for s in np.rint(np.exp(rng.uniform(np.log(low), np.log(high), count)))]


def _levels(values: NDArray[np.float64], size: int, power: float = 1.0) -> Codes:
    """Ordered codes of normal values: equal shares, or more at the low end for a power above 1."""
    return np.floor(size * ndtr(values) ** power).astype(np.int64).clip(0, size - 1)


def tree(rng: np.random.Generator, n: int, variant: int) -> Columns:
    """Every column depends on one earlier column."""
    columns: Columns = []
    for size in _sizes(rng, 8 + variant, 2, 20):
        if not columns:
            columns.append((_chosen(rng, _laws(rng, 1, size, 1.0), np.zeros(n, dtype=np.int64)), size))
            continue
        parent, parents = columns[int(rng.integers(0, len(columns)))]
        columns.append((_chosen(rng, _laws(rng, parents, size, 0.2 + 0.3 * rng.random()), parent), size))
    return columns


def clique(rng: np.random.Generator, n: int, variant: int) -> Columns:
    """Groups of three or four columns with a joint law of their own, of which most cells are (nearly) empty."""
    columns: Columns = []
    for _ in range(3 + variant % 2):
        sizes = _sizes(rng, int(rng.integers(3, 5)), 2, 9)
        cells = int(np.prod(sizes))
        joint = _chosen(rng, _laws(rng, 1, cells, 0.05 + 0.1 * rng.random()), np.zeros(n, dtype=np.int64))
        columns += list(zip(map(np.asarray, np.unravel_index(joint, sizes)), sizes, strict=True))
    return columns


def mixture(rng: np.random.Generator, n: int, variant: int) -> Columns:
    """A hidden class decides the law of every column."""
    classes = (3, 30, 8, 60, 15, 5)[variant]
    hidden = _chosen(rng, _laws(rng, 1, classes, 0.7), np.zeros(n, dtype=np.int64))
    sizes = _sizes(rng, 9 + variant % 4, 2, 24)
    return [(_chosen(rng, _laws(rng, classes, size, 0.3), hidden), size) for size in sizes]


def tied(rng: np.random.Generator, n: int, variant: int) -> Columns:
    """Columns that follow from others: coarser codes, sums, flags."""
    scale = rng.normal(size=n)
    columns: Columns = []
    for _ in range(3):
        size = int(rng.integers(12, 40 + 10 * variant))
        fine = _levels(0.6 * scale + 0.8 * rng.normal(size=n), size, 1 + 2 * rng.random())
        step = int(rng.integers(3, 8))
        columns += [(fine, size), (fine // step, (size - 1) // step + 1)]
        columns.append(((fine > size // 3).astype(np.int64), 2))
    a, b = rng.integers(0, 4, (2, n))
    columns += [(a, 4), (b, 4), (a + b, 7)]
    return columns


def missing(rng: np.random.Generator, n: int, variant: int) -> Columns:
    """Blocks of questions that are all left open together: code 0, on 30 to 90 % of the records."""
    scale = rng.normal(size=n)
    columns: Columns = [(_levels(scale, 10), 10), (rng.integers(0, 3, n), 3)]
    for _ in range(3):
        is_open = scale * rng.choice([-0.7, 0.7]) + rng.normal(size=n) > rng.uniform(-1.2, 1.0)
        for size in _sizes(rng, 3 + variant % 2, 2, 12):
            answer = 1 + _levels(0.5 * scale + rng.normal(size=n), size, 1 + rng.random())
            stray = rng.random(n) < 0.01
            columns.append((np.where(is_open & ~stray, 0, answer), size + 1))
    return columns


def twins(rng: np.random.Generator, n: int, variant: int) -> Columns:
    """Pairs of columns that agree on all but 0.2 to 5 % of the records."""
    columns: Columns = []
    for size in _sizes(rng, 5 + variant % 2, 2, 30):
        one = _chosen(rng, _laws(rng, 1, size, 0.5), np.zeros(n, dtype=np.int64))
        if columns and rng.random() < 0.5:
            other, _ = columns[int(rng.integers(0, len(columns)))]
            one = np.where(rng.random(n) < 0.5, (other * 2 + 1) % size, one)
        differs = rng.random(n) < np.exp(rng.uniform(np.log(0.002), np.log(0.05)))
        columns += [(one, size), (np.where(differs, rng.integers(0, size, n), one), size)]
    return columns


def tails(rng: np.random.Generator, n: int, variant: int) -> Columns:
    """Codes by a power law, on attributes of up to 300 codes that follow a common scale."""
    scale = rng.normal(size=n)
    columns: Columns = []
    for size in _sizes(rng, 6 + variant % 3, 4, 80 + 40 * variant):
        lean = rng.uniform(0, 0.9)
        share = ndtr(lean * scale + np.sqrt(1 - lean**2) * rng.normal(size=n))
        weight = np.cumsum(1.0 / np.arange(1, size + 1) ** rng.uniform(0.8, 2.0))
        code = np.searchsorted(weight / weight[-1], share)
        columns.append((np.minimum(code, size - 1), size))
    return columns


def spikes(rng: np.random.Generator, n: int, variant: int) -> Columns:
    """Ordered columns with most records on zero or on round values, and a smooth rest."""
    scale = rng.normal(size=n)
    columns: Columns = []
    for size in _sizes(rng, 7 + variant % 3, 6, 90):
        lean = rng.uniform(0.1, 0.9)
        value = _levels(lean * scale + np.sqrt(1 - lean**2) * rng.normal(size=n), size, 1 + 3 * rng.random())
        place = int(rng.choice([0, size // 2, size - 1]))
        on_spike = rng.normal(size=n) + scale * rng.choice([-0.5, 0.5]) > rng.uniform(-1.3, 0.8)
        if size > 20:
            rounded = value // 5 * 5
            value = np.where(rng.random(n) < 0.4, rounded, value)
        columns.append((np.where(on_spike, place, value), size))
    return columns


def binary(rng: np.random.Generator, n: int, variant: int) -> Columns:
    """Twenty to forty yes-or-no columns: rare ones, common ones, several hidden scales, a few copies."""
    hidden = rng.normal(size=(3, n))
    columns: Columns = []
    for _ in range(20 + 4 * variant):
        weights = rng.normal(size=3) * (rng.random(3) < 0.6)
        bit = weights @ hidden + rng.normal(size=n) > rng.uniform(-1.0, 3.0)
        if columns and rng.random() < 0.2:
            other, _ = columns[int(rng.integers(0, len(columns)))]
            bit = np.where(rng.random(n) < 0.9, other == 1, bit)
        columns.append((bit.astype(np.int64), 2))
    return columns


def large(rng: np.random.Generator, n: int, variant: int) -> Columns:
    """One or two attributes of hundreds to thousands of codes among small ones, tied to them."""
    size = (400, 1_000, _MAX_LARGE, 700, 2_000, 1_500)[variant]
    region = _chosen(rng, _laws(rng, 1, 8, 1.0), np.zeros(n, dtype=np.int64))
    columns: Columns = [(region, 8), (_chosen(rng, _laws(rng, 8, size, 0.02), region), size)]
    if variant % 2:
        ordered = _levels(0.2 * (region - 3) + rng.normal(size=n), size // 2, 3.0)
        columns.append((ordered, size // 2))
    code = columns[1][0]
    for small in _sizes(rng, 4, 2, 12):
        by_code = rng.integers(0, small, size)[code]
        columns.append((np.where(rng.random(n) < 0.5, by_code, rng.integers(0, small, n)), small))
    return columns


def parity(rng: np.random.Generator, n: int, variant: int) -> Columns:
    """Triples whose pairs say (nearly) nothing, among columns that follow a scale."""
    scale = rng.normal(size=n)
    columns: Columns = []
    for _ in range(2 + variant % 2):
        size = int(rng.integers(2, 6))
        a, b = rng.integers(0, size, (2, n))
        noise = rng.random(n) < rng.uniform(0.02, 0.5)
        columns += [(a, size), (b, size), (np.where(noise, rng.integers(0, size, n), (a + b) % size), size)]
    columns += [
        (_levels(0.7 * scale + 0.7 * rng.normal(size=n), size, 1 + rng.random()), size)
        for size in _sizes(rng, 5, 2, 16)
    ]
    return columns


def ordered(rng: np.random.Generator, n: int, variant: int) -> Columns:
    """Measurements in many bins whose relations are curved: bands, bows, changing spread."""
    scale, second = rng.normal(size=(2, n))
    shapes: Sequence[Callable[[], NDArray[np.float64]]] = (
        lambda: scale + 0.2 * rng.normal(size=n),
        lambda: scale**2 + 0.5 * second,
        lambda: second + 0.5 * rng.normal(size=n),
        lambda: np.abs(scale) * rng.normal(size=n),
        lambda: np.sin(2 * scale) + 0.3 * rng.normal(size=n),
        lambda: np.exp(0.7 * scale + 0.5 * second),
    )
    columns: Columns = []
    for i, size in enumerate(_sizes(rng, 7 + variant % 3, 8, 60 + 20 * variant)):
        value = shapes[i % len(shapes)]()
        low, high = np.quantile(value, [0.002, 0.998])
        columns.append(
            (np.floor((value - low) / (high - low) * size).astype(np.int64).clip(0, size - 1), size)
        )
    return columns


def dates(rng: np.random.Generator, n: int, variant: int) -> Columns:
    """A long ordered column: others change at a point of it, are missing before one, or follow the seasons."""
    size = (366, 100, 1_000, 200, 500, 150)[variant]
    day = np.minimum((size * rng.beta(1.2, 1.0, n)).astype(np.int64), size - 1)
    columns: Columns = [(day, size)]
    for number, codes in enumerate(_sizes(rng, 6 + variant % 3, 2, 9)):
        point = int(size * rng.uniform(0.2, 0.8))
        before, after = _laws(rng, 2, codes, 0.7)
        match number % 3:
            case 0:  # a change point
                columns.append(
                    (_chosen(rng, np.array([before, after]), (day >= point).astype(np.int64)), codes)
                )
            case 1:  # asked from a date on
                answer = 1 + _chosen(rng, after[None], np.zeros(n, dtype=np.int64))
                columns.append((np.where(day < point, 0, answer), codes + 1))
            case _:  # seasonal shares
                turns = 2 * np.linspace(0.0, 1.0, size, endpoint=False) + rng.random()
                share = (1 + np.sin(2 * math.pi * turns)) / 2
                laws = share[:, None] * before + (1 - share[:, None]) * after
                columns.append((_chosen(rng, laws, day), codes))
    return columns


KINDS: dict[str, Generator] = {
    make.__name__: make
    for make in (
        tree, clique, mixture, tied, missing, twins, tails, spikes, binary, large, parity, ordered, dates,
    )
}  # fmt: skip


def records(kind: str, variant: int) -> int:
    """n of a table: every kind has every number of records once, every half of the variants every second one.

    Further tables go on with the next number at every turn; from 1,000 on the thousands say which (4,007: 30,000).
    """
    if variant >= 1_000:
        return RECORDS[variant // 1_000 - 1]
    return RECORDS[(list(KINDS).index(kind) + variant + variant // VARIANTS) % len(RECORDS)]


def make(kind: str, variant: int) -> tables.Made:
    """One table. Variants beyond the six are made like them, of other seeds and records: for tuning only."""
    place, like = list(KINDS).index(kind), variant % 1_000 % VARIANTS
    columns = KINDS[kind](np.random.default_rng([14, place, variant]), records(kind, variant), like)
    names = [f"x{i}" for i in range(len(columns))]
    return tables.coded(
        dict(zip(names, (codes for codes, _ in columns), strict=True)),
        dict(zip(names, (size for _, size in columns), strict=True)),
    )
