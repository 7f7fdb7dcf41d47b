"""Databases from a list: all of a tiny range, or public candidates."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.gate.bounds import EXACT
from maquette.gate.draw.scale import Scale
from maquette.gate.draw.uniform import Uniform
from maquette.gate.draw.wide import Wide

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
    def total(self) -> Wide:
        return self.mass(self.top, exact=True)

    def mass(self, level: int, *, exact: bool) -> Wide:
        held = self._held(level)
        return Wide.whole(held if self.borders is None else self.borders[held])

    def draw(self, level: int, uniform: Uniform) -> int:
        held = self._held(level)
        if self.borders is None:
            return int(self.order[uniform.below(held)])
        return int(self.order[bisect_right(self.borders, uniform.below(self.borders[held])) - 1])

    def draw_any(self, uniform: Uniform) -> int:
        return self.draw(self.top, uniform)

    def level(self, small: int) -> int:
        return int(self.levels[small])

    def _held(self, level: int) -> int:
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
        held = np.zeros((len(rows[start : start + _CHUNK]), len(weights)), dtype=np.int64)
        for column in rows[start : start + _CHUNK].T:
            held += weights[:, column].T
        gaps = np.abs(scale.m * exact.astype(whole) - n * held.astype(whole)).max(axis=1, initial=0)
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
