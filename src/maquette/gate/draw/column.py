"""One ordered column of the private table, and which small databases follow it closely.

Cells 0 .. size-1, of which the first `cells` are declared; threshold j counts the cells 0 .. j. At the boundary b
(between the cells b-1 and b) lie F_b records and k_b of the m rows of a small database, and the deviation there,
in units of 1 / (n m), is D_b = m F_b - n k_b. Thresholds are the boundaries 1 .. cells.

D stays between two bounds iff k_b rises neither too late nor too early: iff the v-th smallest row lies between a
first and a last cell, for v = 1 .. m. So m pairs of cells hold everything that a draw needs to know, however many
records or cells there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
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
        held = 0 if cell < 0 else int(np.searchsorted(self.codes, np.uint64(cell), side="right"))
        return int(self.below[held - 1]) if held else 0

    def deviations(self, places: Places, m: int) -> tuple[int, int]:
        """The smallest and the largest D, boundary 0 (where D = 0) included."""
        rows = np.array([p for p in places if p < self.cells], dtype=np.uint64)
        held = np.searchsorted(self.codes, rows, side="right")
        at_rows = (
            m * np.where(held > 0, self.below[held - 1], 0) if len(self.codes) else np.zeros(len(rows), int)
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
        found = np.append(self.codes, np.uint64(never))[at]
        return np.where(records <= 0, np.uint64(0), found)


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
