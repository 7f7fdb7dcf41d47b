"""Projected integer noise on tiny tables, summed up directly: what `core/answers.py` bounds in closed form.

Integer Gaussian noise z on all cells, projected along some axes, is a lattice point y. Every y has one
representative table with zeros wherever an index of a removed axis is 0, and all tables over the same y differ by
kernel tables. Splitting |z|^2 into its parts along and across the kernel, P(y) is the lattice Gaussian
exp(-|y|^2 / 2s) times the ripple R = sum over kernel tables k of exp(-|c + k|^2 / 2s), c the part along the kernel.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

Point = tuple[int, ...]
Sizes = tuple[int, ...]


REACH = 7.5
"""In standard deviations: what lies farther out is below 10^-12."""
MOVED = 5.0
"""How far the largest order of a divergence moves the centre, times a change of length about 1."""


def _grid(radius: int, dimensions: int) -> np.ndarray:
    """All whole points of a cube, one per row."""
    axes = np.meshgrid(*[np.arange(-radius, radius + 1)] * dimensions, indexing="ij")
    return np.stack([a.ravel() for a in axes], axis=1) if dimensions else np.zeros((1, 0), dtype=np.int64)


def cells(sizes: Sequence[int]) -> list[Point]:
    return list(itertools.product(*(range(s) for s in sizes)))


def projected(table: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    """The table with the means over `axes` removed, times the product of their sizes (whole numbers)."""
    for axis in axes:
        table = table * table.shape[axis] - table.sum(axis=axis, keepdims=True)
    return table


def largest_shift(sizes: Sizes, axes: Sequence[int], *, replace: bool) -> Fraction:
    """By brute force over all cells or pairs of cells: the largest squared length of a projected change."""
    scale = math.prod(sizes[a] for a in axes)
    lengths = [int((s * s).sum()) for s in changes(sizes, axes, replace=replace)]
    return Fraction(max(lengths, default=0), scale**2)


def changes(sizes: Sizes, axes: Sequence[int], *, replace: bool) -> Iterator[np.ndarray]:
    units = []
    for cell in cells(sizes):
        table = np.zeros(sizes, dtype=np.int64)
        table[cell] = 1
        units.append(projected(table, axes))
    if not replace:
        yield from units
        return
    for u, v in itertools.permutations(units, 2):
        yield u - v


@dataclass(frozen=True)
class ProjectedNoise:
    """Integer noise of variance parameter `variance` on every cell, seen after the projection."""

    sizes: Sizes
    axes: tuple[int, ...]
    variance: float

    @cached_property
    def _free(self) -> list[Point]:
        """The cells that a representative fills; the others are zero."""
        return [c for c in cells(self.sizes) if all(c[a] > 0 for a in self.axes)]

    def _table(self, at: Sequence[Point], values: np.ndarray) -> np.ndarray:
        """Tables (one per row of values) with the given values at the given cells."""
        tables = np.zeros((len(values), *self.sizes), dtype=np.int64)
        for i, cell in enumerate(at):
            tables[(slice(None), *cell)] = values[:, i]
        return tables

    def _representative(self, tables: np.ndarray) -> np.ndarray:
        for axis in self.axes:
            tables = tables - tables.take([0], axis=axis + 1)
        return tables

    def _residue(self, tables: np.ndarray) -> np.ndarray:
        return projected(tables, [a + 1 for a in self.axes]) / math.prod(self.sizes[a] for a in self.axes)

    @cached_property
    def _kernel(self) -> np.ndarray:
        bound = [c for c in cells(self.sizes) if c not in self._free]
        radius = math.ceil(REACH * math.sqrt(self.variance)) + 1
        tables = self._table(bound, _grid(radius, len(bound)))
        tables = (tables - self._representative(tables)).reshape(len(tables), -1)
        return tables[(tables**2).sum(axis=1) <= 2 * REACH**2 * self.variance + 10]

    def _ripple(self, along: np.ndarray) -> float:
        squares = ((self._kernel + along.ravel()) ** 2).sum(axis=1)
        return math.fsum(np.exp(-squares / (2 * self.variance)))

    def _reduced(self, along: np.ndarray) -> np.ndarray:
        """The class of the part along the kernel, modulo the kernel: it decides the ripple."""
        scale = math.prod(self.sizes[a] for a in self.axes)
        return np.rint(along * scale).astype(np.int64) % scale

    @cached_property
    def law(self) -> dict[Point, tuple[float, float]]:
        """For every lattice point within reach (by its projected table, in whole numbers): log of the lattice
        Gaussian, log of the ripple, both normalised."""
        reach = REACH * math.sqrt(self.variance) + MOVED
        # removing means shortens a representative by at most the largest removed size
        longer = math.prod(self.sizes[a] for a in self.axes) ** 0.5
        tables = self._table(self._free, _grid(math.ceil(reach * longer), len(self._free)))
        across = self._residue(tables)
        squares = (across.reshape(len(tables), -1) ** 2).sum(axis=1)
        near = squares <= reach**2
        tables, across, squares = tables[near], across[near], squares[near]
        along = (tables - across).reshape(len(tables), -1)
        classes, which = np.unique(self._reduced(along), axis=0, return_inverse=True)
        first = [int(np.flatnonzero(which.ravel() == i)[0]) for i in range(len(classes))]
        ripples = [math.log(self._ripple(self._nearest(along[i].reshape(self.sizes)))) for i in first]
        logs = np.array(ripples)[which.ravel()]
        gaussian = -squares / (2 * self.variance)
        gaussian -= math.log(math.fsum(np.exp(np.sort(gaussian))))
        ripple = logs - math.log(math.fsum(np.exp(np.sort(gaussian + logs))))
        keys = projected(tables, [a + 1 for a in self.axes]).reshape(len(tables), -1)
        return {
            tuple(map(int, k)): (float(g), float(r)) for k, g, r in zip(keys, gaussian, ripple, strict=True)
        }

    def _nearest(self, along: np.ndarray) -> np.ndarray:
        """The same class modulo the kernel, close to zero, so that the kernel sum needs a small box only."""
        rounded = np.rint(along).astype(np.int64)[None]
        return along - (rounded - self._representative(rounded))[0]

    @property
    def largest_ripple(self) -> float:
        """Largest |log| of the true probability over the lattice Gaussian's."""
        return max(abs(r) for _, r in self.law.values())

    def renyi(self, shift: np.ndarray, orders: Sequence[float]) -> list[float]:
        """Divergences between the law moved by `shift` (projected, whole numbers) and the law."""
        moved = tuple(map(int, shift.ravel()))
        pairs: list[tuple[float, float]] = []
        for point, (gaussian, ripple) in self.law.items():
            other = self.law.get(tuple(p - m for p, m in zip(point, moved, strict=True)))
            if other is not None:
                pairs.append((sum(other), gaussian + ripple))
        there, here = np.array(pairs).T
        return [_log_sum(order * there + (1 - order) * here) / (order - 1) for order in orders]


def _log_sum(logs: np.ndarray) -> float:
    top = float(logs.max())
    return top + math.log(math.fsum(np.exp(np.sort(logs - top))))
