"""What has been released about a table so far, and what it makes one expect of further tables."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from maquette.models.measurement import NoisyTable, Size
from maquette.models.sculpt.bins import Hierarchy
from maquette.models.sculpt.layout import Shape


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
    shapes: list[Shape] = field(default_factory=list)
    tables: list[NoisyTable] = field(default_factory=list)
    expected: list[NDArray[np.float64]] = field(default_factory=list)
    """What was believed of each table before it was measured."""

    def add(self, shape: Shape, table: NoisyTable, expected: NDArray[np.float64]) -> None:
        self.shapes.append(shape)
        self.tables.append(table)
        self.expected.append(expected)

    def product(self, shape: Shape) -> NDArray[np.float64]:
        """A table as if its attributes had nothing to do with each other, flat."""
        table = np.ones(1)
        for a, level in zip(*shape, strict=True):
            single = self.hierarchy.spread(a, level, self.singles[a])
            table = np.multiply.outer(table, single / max(self.total, 1.0)).ravel()
        return table * self.total
