"""Databases from a list: all of a tiny range, or public candidates."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement, pairwise
from operator import mul
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from maquette.core.bounds import EXACT
from maquette.samplers.brackets import Bracket, Scale, Uniform

Integers = NDArray[np.int64]

_CHUNK = 2**15


@dataclass(frozen=True, slots=True, eq=False)
class Listed:
    """Databases by number, with the level and the base weight of each; sorted by level."""

    levels: Integers
    order: Integers
    """Numbers by level."""
    borders: list[int] | None
    """Sums of the base weights in that order; None if all are 1."""

    @classmethod
    def of(cls, levels: Integers, weights: Sequence[int] | None = None) -> Listed:
        order = np.argsort(levels, kind="stable").astype(np.int64)
        if weights is None:
            return cls(levels, order, None)
        borders = [0]
        for number in order:
            borders.append(borders[-1] + weights[int(number)])
        return cls(levels, order, borders)

    @property
    def top(self) -> int:
        return int(self.levels.max())

    @property
    def start(self) -> int:
        return int(self.levels.min())

    @property
    def acceptance(self) -> float:
        return 0.9

    @property
    def total(self) -> Bracket:
        return self.mass(self.top, exact=True)

    def mass(self, level: int, *, exact: bool) -> Bracket:
        within = self._within(level)
        return Bracket.whole(within if self.borders is None else self.borders[within])

    def draw(self, level: int, uniform: Uniform) -> int:
        within = self._within(level)
        if self.borders is None:
            return int(self.order[uniform.below(within)])
        return int(self.order[bisect_right(self.borders, uniform.below(self.borders[within])) - 1])

    def draw_any(self, uniform: Uniform) -> int:
        return self.draw(self.top, uniform)

    def level(self, small: int) -> int:
        return int(self.levels[small])

    def _within(self, level: int) -> int:
        return int(np.searchsorted(self.levels[self.order], level, side="right"))


def all_multisets(atoms: int, m: int) -> Integers:
    """Every multiset of m atoms, one per row, sorted."""
    count = math.comb(atoms + m - 1, m)
    listed = combinations_with_replacement(range(atoms), m)
    flat = np.fromiter((atom for rows in listed for atom in rows), dtype=np.int64, count=count * m)
    return flat.reshape(count, m)


def levels_of(rows: Integers, weights: Integers, records: Integers, *, unit: int, scale: Scale) -> Integers:
    """The level of every database: its largest error over the queries, in whole numbers.

    `weights` are the queries' numerators on every atom, `records` how many records each atom has. The error is taken
    over `unit` numerators: their denominator for counts, the atoms' span for a score of sensitivity 1.
    """
    exact, n = weights @ records, int(records.sum())
    # beyond 64 bits in whole numbers of any length; n = 0 as n = 1, so that an empty table takes no other way
    reach = max(n, 1) * scale.m * max(int(weights.max(initial=0)), unit) * scale.resolution
    whole: type[Any] = np.int64 if reach < EXACT else object
    parts: list[Integers] = []
    for start in range(0, len(rows), _CHUNK):
        sums = np.zeros((len(rows[start : start + _CHUNK]), len(weights)), dtype=np.int64)
        for column in rows[start : start + _CHUNK].T:
            sums += weights[:, column].T
        gaps = np.abs(scale.m * exact.astype(whole) - n * sums.astype(whole)).max(axis=1, initial=0)
        levels = -(-gaps * scale.resolution // (scale.m * unit * scale.grid))
        parts.append(levels.astype(np.int64))
    return np.concatenate(parts)


def sequence_weights(rows: Integers, sizes: Integers) -> list[int]:
    """How many sequences of single cells each multiset of atoms stands for."""
    weights: list[int] = []
    for row in rows:
        atoms, counts = np.unique(row, return_counts=True)
        orders = math.factorial(len(row)) // math.prod(math.factorial(int(c)) for c in counts)
        weights.append(
            orders * math.prod(int(sizes[a]) ** int(c) for a, c in zip(atoms, counts, strict=True))
        )
    return weights


# One ordered column of the private table, and which small databases follow it closely.
#
# Cells 0 .. size-1, of which the first `cells` are declared; threshold j counts the cells 0 .. j. At the
# boundary b (between the cells b-1 and b) lie F_b records and k_b of the m rows of a small database, and
# the deviation there, in units of 1 / (n m), is D_b = m F_b - n k_b. Thresholds are the boundaries 1 ..
# cells.
#
# D stays between two bounds iff k_b rises neither too late nor too early: iff the v-th smallest row lies
# between a first and a last cell, for v = 1 .. m. So m pairs of cells hold everything that a draw needs to
# know, however many records or cells there are.

Cells = NDArray[np.uint64]
Places = list[int]
"""The cells of the m rows, sorted."""


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """Where the records of the private table lie in one ordered attribute."""

    codes: NDArray[np.uint64]
    """Distinct declared cells that hold records, increasing."""
    below: Integers
    """How many records lie in the declared cells up to each of `codes`."""
    n: int
    """All records, those outside the declared cells included."""
    cells: int
    size: int

    @classmethod
    def of(cls, codes: NDArray[Any], counts: NDArray[Any], *, cells: int, size: int) -> Column:
        """From the distinct codes of a column, increasing, and how often each occurs."""
        codes = codes.astype(np.uint64)
        declared = codes <= np.uint64(cells - 1)
        below = np.cumsum(counts[declared].astype(np.int64))
        return cls(codes[declared], below, int(counts.sum()), cells, size)

    def up_to(self, cell: int) -> int:
        """How many records lie in the declared cells up to one; 0 for cell -1."""
        place = 0 if cell < 0 else int(np.searchsorted(self.codes, np.uint64(cell), side="right"))
        return int(self.below[place - 1]) if place else 0

    def deviations(self, places: Places, m: int) -> tuple[int, int]:
        """The smallest and the largest D, boundary 0 (where D = 0) included."""
        rows = np.array([p for p in places if p < self.cells], dtype=np.uint64)
        places_of_rows = np.searchsorted(self.codes, rows, side="right")
        at_rows = (
            m * np.where(places_of_rows > 0, self.below[places_of_rows - 1], 0)
            if len(self.codes)
            else np.zeros(len(rows), int)
        )
        at_rows = at_rows - self.n * np.searchsorted(rows, rows, side="right")
        at_codes = m * self.below - self.n * np.searchsorted(rows, self.codes, side="right")
        low = min(at_rows.min(initial=0), at_codes.min(initial=0))
        return int(low), int(max(at_rows.max(initial=0), at_codes.max(initial=0)))

    def band(self, m: int, low: int, high: int) -> Band | None:
        """The databases with low <= D <= high everywhere (low <= 0 <= high), or None if there is none."""
        if self.n == 0:
            return Band(m, self.size, np.zeros(m, np.uint64), np.full(m, self.size - 1, np.uint64))
        v = np.arange(1, m + 1, dtype=np.int64)
        # k >= v is needed as soon as m F - n (v - 1) > high, and allowed as soon as m F - n v >= low
        needed = self._cells_of((self.n * (v - 1) + high) // m + 1, self.size - 1)
        allowed = self._cells_of(-((-(self.n * v + low)) // m), min(self.cells, self.size - 1))
        return None if np.any(allowed > needed) else Band(m, self.size, allowed, needed)

    def _cells_of(self, records: Integers, never: int) -> Cells:
        """The first cell with at least so many records up to it."""
        at = np.searchsorted(self.below, records)
        cells = np.append(self.codes, np.uint64(never))[at]
        return np.where(records <= 0, np.uint64(0), cells)


@dataclass(frozen=True, slots=True, eq=False)
class Band:
    """All databases whose v-th smallest row lies between firsts[v-1] and lasts[v-1], ends included."""

    m: int
    size: int
    firsts: Cells
    lasts: Cells

    def at(self, boundary: int) -> tuple[int, int]:
        """The fewest and the most rows below a boundary."""
        if boundary == self.size:  # may be 2^64
            return self.m, self.m
        place = np.uint64(boundary)
        return int(np.searchsorted(self.lasts, place)), int(np.searchsorted(self.firsts, place))

    def marks(self) -> Cells:
        """The boundaries inside where the number of rows must be checked; at all others it follows."""
        late = self.lasts[self.lasts < np.uint64(self.size - 1)] + np.uint64(1)
        return np.union1d(late, self.firsts[self.firsts > 0])

    def width(self) -> int:
        """The largest number of counts that are possible at one boundary: just after one more row is allowed."""
        after = self.firsts[self.firsts < np.uint64(self.size - 1)] + np.uint64(1)
        apart = np.searchsorted(self.firsts, after) - np.searchsorted(self.lasts, after)
        return int(apart.max(initial=0)) + 1


# Counting and drawing the databases of a band, row multisets or row sequences of equal weight.


Layer = tuple[int, list[int]]
"""The fewest rows so far, and how many ways there are for that number and each above it."""


class Weights(Protocol):
    """How many ways there are to put rows into a run of cells."""

    def total(self, cells: int, rows: int) -> int:
        """All ways to put `rows` rows into `cells` cells."""
        ...

    def into(self, cells: int, rows: int, least: int, most: int) -> list[int]:
        """Ways to go from s to `rows` rows by a run of `cells` cells, for s = least .. most (<= rows)."""
        ...

    def places(self, cells: int, rows: int, uniform: Uniform) -> list[int]:
        """The cells of `rows` rows, each way equally likely; sorted."""
        ...


class Multisets:
    """Each multiset of rows counts once: the flat base of the theory."""

    def total(self, cells: int, rows: int) -> int:
        return math.comb(rows + cells - 1, rows)

    def into(self, cells: int, rows: int, least: int, most: int) -> list[int]:
        return _run(cells, rows - least)[rows - most :][::-1]

    def places(self, cells: int, rows: int, uniform: Uniform) -> list[int]:
        return uniform.multiset(rows, cells)


class Sequences:
    """Each sequence of rows counts once: rows drawn independently and uniformly."""

    def total(self, cells: int, rows: int) -> int:
        return cells**rows

    def into(self, cells: int, rows: int, least: int, most: int) -> list[int]:
        return [math.comb(rows, s) * cells ** (rows - s) for s in range(least, most + 1)]

    def places(self, cells: int, rows: int, uniform: Uniform) -> list[int]:
        return sorted(uniform.below(cells) for _ in range(rows))


FLAT: dict[Literal["flat", "sequence"], Weights] = {"flat": Multisets(), "sequence": Sequences()}


@dataclass(frozen=True, slots=True, eq=False)
class FlatPaths:
    """The databases of one band, run by run between the boundaries that must be checked."""

    band: Band
    weights: Weights
    borders: list[int]
    layers: list[Layer]

    @classmethod
    def of(cls, band: Band, weights: Weights) -> FlatPaths:
        """Count forwards: one layer per marked boundary.

        Cost: at most 2 m + 1 layers of at most m + 1 sums each, whatever the number of cells or records.
        """
        borders = [0, *band.marks().tolist(), band.size]
        layers: list[Layer] = [(0, [1])]
        for start, stop in pairwise(borders):
            layers.append(_step(layers[-1], stop - start, band.at(stop), weights))
        return cls(band, weights, borders, layers)

    @property
    def count(self) -> int:
        return self.layers[-1][1][0]

    def draw(self, uniform: Uniform) -> Places:
        """One of them, each equally likely, backwards through the layers."""
        return sorted(self._places(uniform))

    def _places(self, uniform: Uniform) -> Iterator[int]:
        rows = self.band.m
        for i in range(len(self.borders) - 2, -1, -1):
            least, ways = self.layers[i]
            cells = self.borders[i + 1] - self.borders[i]
            most = min(least + len(ways) - 1, rows)
            into = self.weights.into(cells, rows, least, most)
            before = least + uniform.pick(list(map(mul, ways, into)))
            yield from (self.borders[i] + c for c in self.weights.places(cells, rows - before, uniform))
            rows = before


def _step(layer: Layer, cells: int, bounds: tuple[int, int], weights: Weights) -> Layer:
    """From the masses at one boundary to those at the next, `cells` further: for every number of rows that the bounds
    allow there, the sum over the rows before of their mass times the ways to put the others into these cells."""
    least, ways = layer
    low, high = bounds
    sums: list[int] = []
    for rows in range(low, high + 1):
        most = min(least + len(ways) - 1, rows)
        sums.append(sum(map(mul, ways, weights.into(cells, rows, least, most))) if most >= least else 0)
    return low, sums


@lru_cache(maxsize=4096)
def _binomials(cells: int, block: int) -> list[int]:
    """C(d + cells - 1, d) for d = 0 .. block."""
    numbers = [1]
    for d in range(1, block + 1):
        numbers.append(numbers[-1] * (cells + d - 1) // d)
    return numbers


def _run(cells: int, rows: int) -> list[int]:
    """The same up to `rows`, computed for the next power of two and kept."""
    return _binomials(cells, 1 << rows.bit_length())[: rows + 1]
