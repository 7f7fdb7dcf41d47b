"""Counting and drawing the databases of a band, row multisets or row sequences of equal weight."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from operator import mul
from typing import Literal, Protocol

from maquette.gate.draw.column import Band, Places
from maquette.gate.draw.uniform import Uniform

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
    found = [1]
    for d in range(1, block + 1):
        found.append(found[-1] * (cells + d - 1) // d)
    return found


def _run(cells: int, rows: int) -> list[int]:
    """The same up to `rows`, computed for the next power of two and kept."""
    return _binomials(cells, 1 << rows.bit_length())[: rows + 1]
