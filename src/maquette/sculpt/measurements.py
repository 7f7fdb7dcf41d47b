"""What has been released about a table so far, and what it makes one expect of further tables."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from maquette.queries.marginals import Binned
from maquette.questions.measurement import NoisyTable, Size
from maquette.sculpt.denoise import shrunk
from maquette.sculpt.targets import Hierarchy, Levels, Patch, Shape, inside

# Heavy cells of a two-way table cut into smaller ones: finer bins where the records are, not along whole
# attributes.
#
# Bins follow the one-way tables, so a cell holds many records where two attributes depend on each other, or
# where one value is so common that its bin cannot be cut. What lies inside such a cell is hidden. A
# released table tells which cells these are.

_MOST_BINS = 2**17
"""Bins of the grid on which the cells of a mosaic are drawn."""


@dataclass(frozen=True, slots=True, eq=False)
class Mosaic:
    """A two-way table whose heavy cells are cut; the others stay as they are."""

    shape: Shape
    """The table that was cut."""
    levels: Levels
    """The finest level that a cut needs, of either attribute."""
    groups: NDArray[np.int64]
    """The cell of every bin at these levels, flat."""
    parents: NDArray[np.int64]
    """The cell of the uncut table that holds each cell; it is cut where it holds several."""

    @property
    def pieces(self) -> NDArray[np.int64]:
        """In how many cells each cell of the uncut table lies."""
        return np.bincount(self.parents)

    def table(self, hierarchy: Hierarchy) -> Binned:
        """As the gate is asked for it."""
        whole = hierarchy.table(self.shape.attributes, self.levels)
        return Binned(whole.margin, whole.cuts, tuple(self.groups.tolist()))

    def drawn(self, hierarchy: Hierarchy) -> NDArray[np.int64]:
        """The cell of every pair of working codes."""
        down, across = (
            hierarchy.working(a, level) for a, level in zip(self.shape.attributes, self.levels, strict=True)
        )
        bins = hierarchy.bins(self.shape.attributes[1], self.levels[1])
        return self.groups[np.add.outer(down * bins, across)]

    def folded(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Counts of bins at these levels, flat, as counts of cells."""
        return np.bincount(self.groups, counts).astype(np.float64)


@dataclass(frozen=True, slots=True)
class _Box:
    """A bin of one attribute by a bin of the other, each at a level of its own."""

    levels: Levels
    spans: tuple[tuple[int, int], ...]
    """The codes from one on, up to another."""
    parent: int


def mosaic(
    hierarchy: Hierarchy,
    shape: Shape,
    masses: NDArray[np.float64],
    singles: Sequence[NDArray[np.float64]],
    *,
    most: float,
) -> Mosaic | None:
    """Cut every cell of more than `most` records, again and again; None where there is nothing to cut.

    `masses` are the records of each cell as far as they are known, `singles` the one-way counts of both attributes,
    by which it is told what a part may hold: the root of its share, since a cell that is heavy may be so by few of
    its values. The attribute whose bin is the heavier one is cut first. At most as many cells are added as there
    are, the heaviest are cut first.
    """
    below = [np.concatenate([[0.0], np.cumsum(single / single.sum())]) for single in singles]
    heap = [
        (-float(masses[cell]), cell, _whole(hierarchy, shape, cell))
        for cell in np.flatnonzero(masses > most).tolist()
    ]
    heapq.heapify(heap)
    done: list[_Box] = []
    serial, room = len(masses), len(masses)
    while heap and room > 0:
        mass, _, box = heapq.heappop(heap)
        parts = _parts(hierarchy, shape, box, below)
        room -= max(len(parts) - 1, 0)
        if not parts:
            done.append(box)
        for part, share in parts:
            suspect = mass * math.sqrt(share)
            heapq.heappush(heap, (suspect, serial, part)) if -suspect > most else done.append(part)
            serial += 1
    cut = [box for box in [*done, *(box for _, _, box in heap)] if box.levels != shape.levels]
    return _drawn(hierarchy, shape, len(masses), cut) if cut else None


def _whole(hierarchy: Hierarchy, shape: Shape, cell: int) -> _Box:
    across = hierarchy.bins(shape.attributes[1], shape.levels[1])
    spans: list[tuple[int, int]] = []
    for a, level, number in zip(*shape, divmod(cell, across), strict=True):
        cuts = (*hierarchy.cuts[a][level], hierarchy.domain.attributes[a].size)
        spans.append((cuts[number], cuts[number + 1]))
    return _Box(shape.levels, tuple(spans), cell)


def _parts(
    hierarchy: Hierarchy, shape: Shape, box: _Box, below: Sequence[NDArray[np.float64]]
) -> list[tuple[_Box, float]]:
    """A box cut once, each part with its share of the records; none if it cannot be cut."""
    heavy = [float(b[stop] - b[start]) for b, (start, stop) in zip(below, box.spans, strict=True)]
    for side in sorted((0, 1), key=lambda side: -heavy[side]):
        smaller = _cut(hierarchy, shape.attributes[side], box.levels[side], *box.spans[side])
        if smaller is None:
            continue
        level, spans = smaller
        shares = np.array([below[side][stop] - below[side][start] for start, stop in spans]) + 1e-12
        return [
            (
                _Box(
                    tuple(level if s == side else box.levels[s] for s in (0, 1)),
                    tuple(span if s == side else box.spans[s] for s in (0, 1)),
                    box.parent,
                ),
                share,
            )
            for span, share in zip(spans, (shares / shares.sum()).tolist(), strict=True)
        ]
    return []


def _cut(
    hierarchy: Hierarchy, attribute: int, level: int, start: int, stop: int
) -> tuple[int, list[tuple[int, int]]] | None:
    """The coarsest finer level that cuts a bin, and the bins inside."""
    for finer in range(level - 1, -1, -1):
        cuts = hierarchy.cuts[attribute][finer]
        inner = cuts[bisect_left(cuts, start + 1) : bisect_left(cuts, stop)]
        if inner:
            return finer, list(zip((start, *inner), (*inner, stop), strict=True))
    return None


def _drawn(hierarchy: Hierarchy, shape: Shape, cells: int, cut: Sequence[_Box]) -> Mosaic | None:
    """The whole cells, then the parts, drawn on the grid of the finest levels; None where that has too many bins."""
    levels = tuple(min(box.levels[side] for box in cut) for side in (0, 1))
    if hierarchy.cells(shape.attributes, levels) > _MOST_BINS:
        return None
    parts = np.array([box.parent for box in cut], dtype=np.int64)
    whole = np.setdiff1d(np.arange(cells), parts)
    numbers = np.zeros(cells, dtype=np.int64)
    numbers[whole] = np.arange(len(whole))
    fine = [hierarchy.cuts[a][level] for a, level in zip(shape.attributes, levels, strict=True)]
    coarse = [hierarchy.cuts[a][level] for a, level in zip(*shape, strict=True)]
    down, across = (inside(f, c) for f, c in zip(fine, coarse, strict=True))
    groups = numbers[np.add.outer(down * len(coarse[1]), across)]
    for number, box in enumerate(cut, start=len(whole)):
        rows, columns = (
            slice(bisect_left(f, start), bisect_left(f, stop))
            for f, (start, stop) in zip(fine, box.spans, strict=True)
        )
        groups[rows, columns] = number
    return Mosaic(shape, levels, groups.ravel(), np.concatenate([whole, parts]))


_CHANCE = 2.0
"""Deviations by which the parts of a cell have to miss what was expected, all together, to be looked at apart."""
_NOTHING = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """One table by all its measurements, each weighted by its precision."""

    shape: Shape
    counts: NDArray[np.float64]
    variances: NDArray[np.float64]
    expected: NDArray[np.float64]
    """What was believed before the first of them."""

    def with_more(self, other: Known) -> Known:
        """The same table measured once more."""
        precision, further = 1 / self.variances, 1 / other.variances
        counts = (precision * self.counts + further * other.counts) / (precision + further)
        return Known(self.shape, counts, 1 / (precision + further), self.expected)

    def summed(self, axes: Sequence[int], sizes: Sequence[int]) -> Known:
        """The table of some of its attributes, summed over the others; `sizes` are the bins of each."""
        others = tuple(set(range(len(sizes))) - set(axes))
        shape = Shape(
            tuple(self.shape.attributes[i] for i in axes), tuple(self.shape.levels[i] for i in axes)
        )
        parts = (self.counts, self.variances, self.expected)
        return Known(shape, *(part.reshape(sizes).sum(axis=others).ravel() for part in parts))


@dataclass(frozen=True, slots=True, eq=False)
class Inner:
    """The parts of heavy cells of a table."""

    patch: Patch
    counts: NDArray[np.float64]
    variances: NDArray[np.float64]
    expected: NDArray[np.float64]
    """What the whole cells and the one-way tables make of them."""


@dataclass(slots=True, eq=False)
class Found:
    """What has been released so far."""

    size: Size
    hierarchy: Hierarchy
    total: float
    singles: list[NDArray[np.float64]]
    """Denoised one-way counts, code by code."""
    single_variances: list[float]
    single_tables: list[NoisyTable]
    barred: list[tuple[Shape, NDArray[np.bool_]]] = field(default_factory=list)
    """Declared tables of allowed cells, flat."""
    scores: dict[tuple[int, ...], float] = field(default_factory=dict)
    """How far each pair is from independence, in counts; at least half of the noise in it."""
    shapes: list[Shape] = field(default_factory=list)
    tables: list[NoisyTable] = field(default_factory=list)
    expected: list[NDArray[np.float64]] = field(default_factory=list)
    """What was believed of each table before it was measured."""
    mosaics: dict[Shape, Mosaic] = field(default_factory=dict)
    """Tables whose heavy cells are cut; a measurement may be of the cut or of the uncut one."""

    def add(self, shape: Shape, table: NoisyTable, expected: NDArray[np.float64]) -> None:
        self.shapes.append(shape)
        self.tables.append(table)
        self.expected.append(expected)

    def known(self) -> list[Known]:
        """Every shape once, in the order of the first measurements."""
        once: dict[Shape, Known] = {}
        for shape, table, expected in zip(self.shapes, self.tables, self.expected, strict=True):
            known = self._uncut(shape, table, expected)
            once[shape] = once[shape].with_more(known) if shape in once else known
        return list(once.values())

    def inner(self) -> list[Inner]:
        """The parts of all cells that were cut, moved alike so that they add up to what is known of the cell."""
        known = {one.shape: one for one in self.known()} if self.mosaics else {}
        found = [self._inner(mosaic, known[shape]) for shape, mosaic in self.mosaics.items()]
        return [inner for inner in found if len(inner.counts)]

    def cut(self, shape: Shape) -> Binned:
        """A table as the gate is asked for it, with the heavy cells cut if there are any."""
        if shape in self.mosaics:
            return self.mosaics[shape].table(self.hierarchy)
        return self.hierarchy.table(*shape)

    def _uncut(self, shape: Shape, table: NoisyTable, expected: NDArray[np.float64]) -> Known:
        counts, variance = table.values.astype(np.float64), float(table.variance)
        if table.asked.groups is None:
            return Known(shape, counts, np.full(len(counts), variance), expected)
        mosaic = self.mosaics[shape]
        sums = np.bincount(mosaic.parents, counts).astype(np.float64)
        return Known(shape, sums, variance * mosaic.pieces.astype(np.float64), expected)

    def _inner(self, mosaic: Mosaic, known: Known) -> Inner:
        """The parts of those cells that are plainly not divided as the one-way tables are."""
        counts, variance = self._measured(mosaic)
        parents, pieces = mosaic.parents, mosaic.pieces
        counts += ((known.counts - np.bincount(parents, counts)) / pieces)[parents]
        product = mosaic.folded(self.product(Shape(mosaic.shape.attributes, mosaic.levels))) + _NOTHING
        whole = shrunk(known.counts, known.expected, variance=known.variances)
        expected = (whole / np.bincount(parents, product))[parents] * product
        free = pieces - 1
        surplus = np.bincount(parents, (counts - expected) ** 2) / variance - free
        kept = np.flatnonzero((surplus > _CHANCE * np.sqrt(2 * free))[parents] & (free > 0)[parents])
        cells = np.full(len(parents), -1)
        cells[kept] = np.arange(len(kept))
        patch = Patch(mosaic.shape.attributes, cells[mosaic.drawn(self.hierarchy)])
        return Inner(patch, counts[kept], np.full(len(kept), variance), expected[kept])

    def _measured(self, mosaic: Mosaic) -> tuple[NDArray[np.float64], float]:
        """The counts of a mosaic by all its measurements, and their variance."""
        looks = [
            table
            for shape, table in zip(self.shapes, self.tables, strict=True)
            if shape == mosaic.shape and table.asked.groups is not None
        ]
        precisions = [1 / float(table.variance) for table in looks]
        counts = np.average([table.values for table in looks], axis=0, weights=precisions)
        return counts, 1 / sum(precisions)

    def product(self, shape: Shape) -> NDArray[np.float64]:
        """A table as if its attributes had nothing to do with each other, flat."""
        table = np.ones(1)
        for a, level in zip(*shape, strict=True):
            single = self.hierarchy.spread(a, level, self.singles[a])
            table = np.multiply.outer(table, single / max(self.total, 1.0)).ravel()
        return table * self.total
