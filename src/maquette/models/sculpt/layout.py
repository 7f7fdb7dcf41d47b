"""Tables of one, two or three attributes laid out in flat arrays for the compiled sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.models.sculpt.bins import Hierarchy, Levels, inside
from maquette.models.sculpt.patches import Patch, Patchwork
from maquette.queries.counting import count_tables

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
    """The bin of every code of the finest level, by attribute and used level; one attribute more, of a single bin."""
    parents: NDArray[np.uint16]
    """The bin one used level up, by attribute, used level and bin."""

    @classmethod
    def of(cls, hierarchy: Hierarchy, used: Sequence[Sequence[int]]) -> Levelled:
        count, depth = len(used), max(map(len, used))
        widest = max(len(levels[0]) for levels in hierarchy.cuts)
        depths = np.array([len(levels) for levels in used], dtype=np.int64)
        bins = np.ones((count, depth), dtype=np.int64)
        maps, parents = np.zeros((2, count + 1, depth, widest), dtype=np.uint16)
        for a, levels in enumerate(used):
            cuts = [hierarchy.cuts[a][level] for level in levels]
            for i, cut in enumerate(cuts):
                bins[a, i] = len(cut)
                maps[a, i, : len(cuts[0])] = inside(cuts[0], cut)
            for i, (fine, coarse) in enumerate(pairwise(cuts)):
                parents[a, i, : len(fine)] = inside(fine, coarse)
        return cls(depths, bins, maps, parents)

    def map_at(self, attribute: int, level: int) -> int:
        """Where the map of a level begins when all maps stand in one line."""
        _, depth, widest = self.maps.shape
        return (attribute * depth + level) * widest


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Many tables side by side in one flat run of cells, and again once per attribute for the weights.

    The cells of patches stand first, in both.
    """

    hierarchy: Hierarchy
    levelled: Levelled
    shapes: tuple[Shape, ...]
    orders: NDArray[np.int64]
    sizes: NDArray[np.int64]
    offsets: NDArray[np.int64]
    """Where each table's cells begin; one more at the end."""
    weights_at: NDArray[np.int64]
    """Where the weights of a table begin that run fastest along one of its attributes."""
    weights: int
    pointers: NDArray[np.int64]
    """By attribute: its run in `members`."""
    members: NDArray[np.int32]
    """What a visit of an attribute needs of every table that holds it, in columns (see `_member`)."""
    patchwork: Patchwork

    @classmethod
    def of(cls, hierarchy: Hierarchy, shapes: Sequence[Shape], patches: Sequence[Patch] = ()) -> Layout:
        count = len(shapes)
        used: list[set[int]] = [{0} for _ in hierarchy.cuts]
        for shape in shapes:
            for a, level in zip(*shape, strict=True):
                used[a].add(level)
        ordered = [sorted(levels) for levels in used]
        levelled = Levelled.of(hierarchy, ordered)
        sizes = np.ones((count, WIDEST), dtype=np.int64)
        weights_at = np.zeros((count, WIDEST), dtype=np.int64)
        patchwork = Patchwork.of(len(used), patches)
        end = patchwork.cells
        for i, shape in enumerate(shapes):
            for j, (a, level) in enumerate(zip(*shape, strict=True)):
                sizes[i, j] = hierarchy.bins(a, level)
            for j in range(len(shape.attributes)):
                weights_at[i, j] = end
                end += int(sizes[i].prod())
        offsets = patchwork.cells + np.concatenate([[0], np.cumsum(sizes.prod(axis=1))]).astype(np.int64)
        runs: list[list[list[int]]] = [[] for _ in used]
        for i, shape in enumerate(shapes):
            places = [(a, ordered[a].index(level)) for a, level in zip(*shape, strict=True)]
            for j, (a, _) in enumerate(places):
                runs[a].append(_member(levelled, places, j, sizes[i], int(offsets[i]), weights_at[i]))
        members = np.array([row for run in runs for row in run], dtype=np.int32).reshape(-1, COLUMNS)
        return cls(
            hierarchy=hierarchy,
            levelled=levelled,
            shapes=tuple(shapes),
            orders=np.array([len(shape.attributes) for shape in shapes], dtype=np.int64),
            sizes=sizes,
            offsets=offsets,
            weights_at=weights_at,
            weights=end,
            pointers=np.cumsum([0, *map(len, runs)]).astype(np.int64),
            members=members,
            patchwork=patchwork,
        )

    @property
    def cells(self) -> int:
        return int(self.offsets[-1])

    def place(self, table: int) -> slice:
        """Where one table's cells stand."""
        return slice(int(self.offsets[table]), int(self.offsets[table + 1]))

    def count(self, rows: NDArray[np.uint16]) -> NDArray[np.float64]:
        """How many rows lie in every cell."""
        tables = count_shapes(self.hierarchy, self.shapes, rows)
        return np.concatenate([self.patchwork.count(rows), *tables], dtype=np.float64)


def count_shapes(
    hierarchy: Hierarchy, shapes: Sequence[Shape], rows: NDArray[np.uint16]
) -> list[NDArray[np.int64]]:
    """How many rows lie in the cells of every table, flat."""
    asked = [tuple(f"{a}/{level}" for a, level in zip(*shape, strict=True)) for shape in shapes]
    columns: dict[str, NDArray[np.uint16]] = {}
    sizes: dict[str, int] = {}
    for a, level in {place for shape in shapes for place in zip(*shape, strict=True)}:
        columns[f"{a}/{level}"] = hierarchy.working(a, level).astype(np.uint16)[rows[:, a]]
        sizes[f"{a}/{level}"] = hierarchy.bins(a, level)
    counted = count_tables(sizes, columns, list(dict.fromkeys(asked)), rows=len(rows))
    return [counted[margin].reshape(-1) for margin in asked]


LEVEL, SIZE, MAP, OWN = range(4)
FIRST, FIRST_MAP, SECOND, SECOND_MAP = range(4, 8)
ALONG, ALONG_FIRST, ALONG_SECOND = range(8, 11)
CELL, CELL_OWN, CELL_FIRST, CELL_SECOND = range(11, 15)
ORDER, COPIES = 15, 16
COLUMNS = COPIES + 4 * WIDEST
"""Columns of a member: the attribute's own level, bins, map and number; the other attributes and their maps (a single
bin where there is none); the weights along the attribute; cells; copies of the weights, each as a constant and three
strides."""


def _member(
    levelled: Levelled,
    places: Sequence[tuple[int, int]],
    own: int,
    sizes: NDArray[np.int64],
    offset: int,
    weights_at: NDArray[np.int64],
) -> list[int]:
    """One table as its attribute number `own` sees it."""
    a, level = places[own]
    others = [t for t in range(len(places)) if t != own]
    nothing = (0, levelled.map_at(len(levelled.depths), 0))
    seen = [(places[t][0], levelled.map_at(*places[t])) for t in others] + [nothing] * (2 - len(others))

    def strides(order: Sequence[int]) -> list[int]:
        """Of the own and the two other attributes in a table whose attributes run in this order, slowest first."""
        step, found = 1, dict.fromkeys(range(-2, WIDEST), 0)
        for t in reversed(order):
            found[t], step = step, step * int(sizes[t])
        return [found[t] for t in (own, *others, -1, -2)[:3]]

    copies: list[int] = []
    for t in range(WIDEST):
        if t < len(places):
            order = [s for s in range(len(places)) if s != t] + [t]
            copies += [int(weights_at[t]), *strides(order)]
        else:
            copies += [0, 0, 0, 0]
    cell_strides = strides(range(len(places)))
    along = copies[4 * own : 4 * own + 4]
    return [
        *(level, int(sizes[own]), levelled.map_at(a, level), a),
        *(seen[0] + seen[1]),
        *(along[0], along[2], along[3]),
        *(offset, *cell_strides),
        *(len(places), *copies),
    ]
