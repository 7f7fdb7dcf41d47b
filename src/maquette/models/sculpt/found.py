"""What has been released about a table so far, and what it makes one expect of further tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from maquette.models.measurement import NoisyTable, Size
from maquette.models.sculpt.bins import Hierarchy
from maquette.models.sculpt.layout import Shape
from maquette.models.sculpt.mosaic import Mosaic
from maquette.models.sculpt.patches import Patch
from maquette.models.sculpt.shrink import shrunk
from maquette.queries.binned import Binned

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
