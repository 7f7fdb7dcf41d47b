"""What has been released about a table so far, and what it makes one expect of further tables."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from maquette.models.measurement import NoisyTable, Size
from maquette.models.sculpt.bins import Hierarchy
from maquette.models.sculpt.layout import Shape


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """One table by all its measurements, each weighted by its precision."""

    shape: Shape
    counts: NDArray[np.float64]
    variance: float
    expected: NDArray[np.float64]
    """What was believed before the first of them."""

    def with_more(self, table: NoisyTable) -> Known:
        """The same table measured once more."""
        precision, further = 1 / self.variance, 1 / float(table.variance)
        counts = (precision * self.counts + further * table.values) / (precision + further)
        return Known(self.shape, counts, 1 / (precision + further), self.expected)


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

    def add(self, shape: Shape, table: NoisyTable, expected: NDArray[np.float64]) -> None:
        self.shapes.append(shape)
        self.tables.append(table)
        self.expected.append(expected)

    def known(self) -> list[Known]:
        """Every shape once, in the order of the first measurements."""
        once: dict[Shape, Known] = {}
        for shape, table, expected in zip(self.shapes, self.tables, self.expected, strict=True):
            if shape in once:
                once[shape] = once[shape].with_more(table)
            else:
                once[shape] = Known(shape, table.values.astype(np.float64), float(table.variance), expected)
        return list(once.values())

    def product(self, shape: Shape) -> NDArray[np.float64]:
        """A table as if its attributes had nothing to do with each other, flat."""
        table = np.ones(1)
        for a, level in zip(*shape, strict=True):
            single = self.hierarchy.spread(a, level, self.singles[a])
            table = np.multiply.outer(table, single / max(self.total, 1.0)).ravel()
        return table * self.total
