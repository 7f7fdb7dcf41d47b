"""The resolutions a table may have: nested bins of every attribute.

Everything here follows from released counts. A *code* is a value of the declared domain; a *row code* is a bin of the
finest level, which is what the synthetic rows hold until they are decoded.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain
from maquette.queries.base import Margin
from maquette.queries.marginals import Binned, Cuts

LEVEL_BINS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Bins of the coarser levels: two steps to each power of two."""
MAX_ROW_CODES = 512
"""Bins of the finest level; inside one of them, values follow the one-way table alone."""
MAX_DENSE_CODES = 4_096
"""The same where whole marginals are measured, in which every code of a large attribute says something of its own."""

Levels = tuple[int, ...]
"""One resolution per attribute of a table: 0 is the finest."""


class Shape(NamedTuple):
    """One table: which attributes (by place in the domain), at which levels."""

    attributes: tuple[int, ...]
    levels: Levels


def nested_cuts(counts: NDArray[np.float64], *, max_codes: int = MAX_ROW_CODES) -> tuple[Cuts, ...]:
    """Partitions of one attribute into fewer and fewer bins, each nested in the one before; the first is the finest.

    The heaviest bin is cut at its weighted median, again and again: heavy single values get a bin of their own.
    """
    size = len(counts)
    below = np.concatenate([[0.0], np.cumsum(counts)])
    steps = [step for step in LEVEL_BINS if step < min(size, max_codes)]
    if size > max_codes:
        steps.append(max_codes)
    heap = [(-float(below[-1]), 0, size)]
    starts = [0]
    levels: list[Cuts] = []
    for step in steps:
        while len(starts) < step:
            _, start, stop = heapq.heappop(heap)
            inner = below[start + 1 : stop]
            median = start + 1 + int(np.argmin(np.abs(2 * inner - below[start] - below[stop])))
            starts.append(median)
            for low, high in ((start, median), (median, stop)):
                if high - low > 1:
                    heapq.heappush(heap, (-float(below[high] - below[low]), low, high))
        levels.append(tuple(sorted(starts)))
    if size <= max_codes:
        levels.append(tuple(range(size)))
    return tuple(reversed(levels))


@dataclass(frozen=True, slots=True, eq=False)
class Hierarchy:
    """The levels of all attributes of a domain."""

    domain: Domain
    cuts: tuple[tuple[Cuts, ...], ...]
    """By attribute, then by level: the first code of every bin."""

    @classmethod
    def from_counts(
        cls, domain: Domain, counts: Sequence[NDArray[np.float64]], *, max_codes: int = MAX_ROW_CODES
    ) -> Hierarchy:
        """By released one-way counts, one table per attribute; at most so many row codes."""
        return cls(domain, tuple(nested_cuts(table, max_codes=max_codes) for table in counts))

    def bins(self, attribute: int, level: int) -> int:
        return len(self.cuts[attribute][level])

    def level_of(self, attribute: int, max_bins: int) -> int:
        """The finest level of at most so many bins (the coarsest if there is none)."""
        levels = self.cuts[attribute]
        return next((i for i, cut in enumerate(levels) if len(cut) <= max_bins), len(levels) - 1)

    def cells(self, attributes: Sequence[int], levels: Sequence[int]) -> int:
        return math.prod(self.bins(a, level) for a, level in zip(attributes, levels, strict=True))

    def table(self, attributes: Sequence[int], levels: Sequence[int]) -> Binned:
        """The question that the gate answers."""
        margin: Margin = tuple(self.domain.attributes[a].name for a in attributes)
        return Binned(margin, tuple(self.cuts[a][level] for a, level in zip(attributes, levels, strict=True)))

    def is_full(self, attributes: Sequence[int]) -> bool:
        """Is every code of these attributes a row code of its own?"""
        return all(self.bins(a, 0) == self.domain.attributes[a].size for a in attributes)

    def finest_levels(self, attributes: Sequence[int], max_cells: float) -> Levels:
        """The finest levels whose table has at most so many cells; the coarser attribute is refined first."""
        return _finest_levels(tuple(tuple(map(len, self.cuts[a])) for a in attributes), max_cells)

    def bin_of_row_codes(self, attribute: int, level: int) -> NDArray[np.int64]:
        """The bin of every row code."""
        return bin_index(self.cuts[attribute][0], self.cuts[attribute][level])

    def sum_in_bins(self, attribute: int, level: int, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Counts of codes, added up in the bins of a level."""
        return np.add.reduceat(counts, self.cuts[attribute][level])


def bin_index(fine: Sequence[int], coarse: Sequence[int]) -> NDArray[np.int64]:
    """The coarse bin that holds each fine one; both by the first codes of their bins."""
    return np.searchsorted(np.asarray(coarse), np.asarray(fine), side="right") - 1


@lru_cache(maxsize=2**13)
def _finest_levels(bins_by_level: tuple[tuple[int, ...], ...], max_cells: float) -> Levels:
    """`Hierarchy.finest_levels` by the bins of every level: thousands of tables share a few sizes."""
    levels = [len(sizes) - 1 for sizes in bins_by_level]
    while True:
        bins = [sizes[level] for sizes, level in zip(bins_by_level, levels, strict=True)]
        cells = math.prod(bins)
        candidates = [
            (bins[i], i)
            for i, level in enumerate(levels)
            if level > 0 and cells // bins[i] * bins_by_level[i][level - 1] <= max_cells
        ]
        if not candidates:
            return tuple(levels)
        levels[min(candidates)[1]] -= 1
