"""Tables of one, two or three attributes laid out in flat arrays for the compiled sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from maquette.models.sculpt.bins import Hierarchy, Levels, inside

WIDEST = 3
"""Attributes of the widest table that rows are carved to."""


class Shape(NamedTuple):
    """One table: which attributes, at which levels."""

    attributes: tuple[int, ...]
    levels: Levels


@dataclass(frozen=True, slots=True, eq=False)
class Levelled:
    """The levels that some table uses, as arrays. Rows hold codes of the finest level of each attribute."""

    depths: NDArray[np.int64]
    """Used levels per attribute; the finest is always among them."""
    bins: NDArray[np.int64]
    """Bins by attribute and used level."""
    maps: NDArray[np.uint16]
    """The bin of every code of the finest level, by attribute and used level."""
    parents: NDArray[np.uint16]
    """The bin one used level up, by attribute, used level and bin."""

    @classmethod
    def of(cls, hierarchy: Hierarchy, used: Sequence[Sequence[int]]) -> Levelled:
        count, depth = len(used), max(map(len, used))
        widest = max(len(levels[0]) for levels in hierarchy.cuts)
        depths = np.array([len(levels) for levels in used], dtype=np.int64)
        bins = np.ones((count, depth), dtype=np.int64)
        maps, parents = np.zeros((2, count, depth, widest), dtype=np.uint16)
        for a, levels in enumerate(used):
            cuts = [hierarchy.cuts[a][level] for level in levels]
            for i, cut in enumerate(cuts):
                bins[a, i] = len(cut)
                maps[a, i, : len(cuts[0])] = inside(cuts[0], cut)
            for i, (fine, coarse) in enumerate(pairwise(cuts)):
                parents[a, i, : len(fine)] = inside(fine, coarse)
        return cls(depths, bins, maps, parents)


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Many tables side by side in one flat run of cells, and again once per attribute for the weights."""

    hierarchy: Hierarchy
    levelled: Levelled
    shapes: tuple[Shape, ...]
    orders: NDArray[np.int64]
    attributes: NDArray[np.int64]
    levels: NDArray[np.int64]
    """Places among the used levels."""
    sizes: NDArray[np.int64]
    offsets: NDArray[np.int64]
    """Where each table's cells begin; one more at the end."""
    weights_at: NDArray[np.int64]
    """Where the weights of a table begin that run fastest along one of its attributes."""
    weights: int
    pointers: NDArray[np.int64]
    """By attribute: its run in `members`."""
    members: NDArray[np.int64]
    """Pairs (table, place of the attribute in it)."""

    @classmethod
    def of(cls, hierarchy: Hierarchy, shapes: Sequence[Shape]) -> Layout:
        count = len(shapes)
        used: list[set[int]] = [{0} for _ in hierarchy.cuts]
        for shape in shapes:
            for a, level in zip(*shape, strict=True):
                used[a].add(level)
        ordered = [sorted(levels) for levels in used]
        levelled = Levelled.of(hierarchy, ordered)
        attributes, levels = np.zeros((2, count, WIDEST), dtype=np.int64)
        sizes = np.ones((count, WIDEST), dtype=np.int64)
        weights_at = np.zeros((count, WIDEST), dtype=np.int64)
        members: list[list[tuple[int, int]]] = [[] for _ in used]
        end = 0
        for i, shape in enumerate(shapes):
            for j, (a, level) in enumerate(zip(*shape, strict=True)):
                attributes[i, j], levels[i, j] = a, ordered[a].index(level)
                sizes[i, j] = hierarchy.bins(a, level)
                members[a].append((i, j))
            for j in range(len(shape.attributes)):
                weights_at[i, j] = end
                end += int(sizes[i].prod())
        return cls(
            hierarchy=hierarchy,
            levelled=levelled,
            shapes=tuple(shapes),
            orders=np.array([len(shape.attributes) for shape in shapes], dtype=np.int64),
            attributes=attributes,
            levels=levels,
            sizes=sizes,
            offsets=np.concatenate([[0], np.cumsum(sizes.prod(axis=1))]).astype(np.int64),
            weights_at=weights_at,
            weights=end,
            pointers=np.cumsum([0, *map(len, members)]).astype(np.int64),
            members=np.array([pair for run in members for pair in run], dtype=np.int64).reshape(-1, 2),
        )

    @property
    def cells(self) -> int:
        return int(self.offsets[-1])

    def place(self, table: int) -> slice:
        """Where one table's cells stand."""
        return slice(int(self.offsets[table]), int(self.offsets[table + 1]))

    def count(self, rows: NDArray[np.uint16]) -> NDArray[np.float64]:
        """How many rows lie in every cell."""
        counts = np.zeros(self.cells)
        _count(
            rows,
            self.levelled.maps,
            self.orders,
            self.attributes,
            self.levels,
            self.sizes,
            self.offsets,
            counts,
        )
        return counts


@numba.njit(cache=True, nogil=True)
def _count(
    rows: Any, maps: Any, orders: Any, attributes: Any, levels: Any, sizes: Any, offsets: Any, counts: Any
) -> None:
    for c in range(orders.shape[0]):
        base = offsets[c]
        for r in range(rows.shape[0]):
            cell = 0
            for t in range(orders[c]):
                a = attributes[c, t]
                cell = cell * sizes[c, t] + maps[a, levels[c, t], rows[r, a]]
            counts[base + cell] += 1.0
