"""Nested contiguous bins of every attribute, from released one-way counts: the resolutions a table may have."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain
from maquette.queries.base import Margin
from maquette.queries.binned import Binned, Cuts, labels

STEPS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Bins of the coarser resolutions."""
FINEST = 512
"""Bins of the finest resolution that rows are carved at; inside a bin, values follow the one-way table alone."""

Levels = tuple[int, ...]
"""One resolution per attribute of a margin: 0 is the finest."""


def nested_cuts(counts: NDArray[np.float64]) -> tuple[Cuts, ...]:
    """Partitions into fewer and fewer bins, each nested in the one before; the first is the finest.

    The heaviest bin is cut at its weighted median, again and again: heavy single values get a bin of their own.
    """
    size = len(counts)
    below = np.concatenate([[0.0], np.cumsum(counts)])
    wanted = [step for step in STEPS if step < min(size, FINEST)]
    if size > FINEST:
        wanted.append(FINEST)
    heap = [(-float(below[-1]), 0, size)]
    starts = [0]
    found: list[Cuts] = []
    for step in wanted:
        while len(starts) < step:
            _, start, stop = heapq.heappop(heap)
            cut = _median(below, start, stop)
            starts.append(cut)
            for low, high in ((start, cut), (cut, stop)):
                if high - low > 1:
                    heapq.heappush(heap, (-float(below[high] - below[low]), low, high))
        found.append(tuple(sorted(starts)))
    if size <= FINEST:
        found.append(tuple(range(size)))
    return tuple(reversed(found))


def _median(below: NDArray[np.float64], start: int, stop: int) -> int:
    inner = below[start + 1 : stop]
    return start + 1 + int(np.argmin(np.abs(2 * inner - below[start] - below[stop])))


@dataclass(frozen=True, slots=True, eq=False)
class Hierarchy:
    """The resolutions of all attributes of a domain."""

    domain: Domain
    cuts: tuple[tuple[Cuts, ...], ...]
    """By attribute, then by level."""

    @classmethod
    def from_counts(cls, domain: Domain, counts: Sequence[NDArray[np.float64]]) -> Hierarchy:
        """Public: it follows from released one-way counts."""
        return cls(domain, tuple(nested_cuts(table) for table in counts))

    def bins(self, attribute: int, level: int) -> int:
        return len(self.cuts[attribute][level])

    def level_of(self, attribute: int, most: int) -> int:
        """The finest level of at most so many bins (the coarsest if there is none)."""
        levels = self.cuts[attribute]
        return next((i for i, cut in enumerate(levels) if len(cut) <= most), len(levels) - 1)

    def labels(self, attribute: int, level: int) -> NDArray[np.int64]:
        """The bin of every code."""
        size = self.domain.attributes[attribute].size
        return labels(size, self.cuts[attribute][level]).astype(np.int64)

    def cells(self, attributes: Sequence[int], levels: Sequence[int]) -> int:
        return math.prod(self.bins(a, level) for a, level in zip(attributes, levels, strict=True))

    def table(self, attributes: Sequence[int], levels: Sequence[int]) -> Binned:
        """As the gate is asked for it."""
        margin: Margin = tuple(self.domain.attributes[a].name for a in attributes)
        return Binned(margin, tuple(self.cuts[a][level] for a, level in zip(attributes, levels, strict=True)))

    def finest(self, attributes: Sequence[int], most: float) -> Levels:
        """The finest levels whose table has at most `most` bins; the coarser attribute is refined first."""
        return _finest(tuple(tuple(map(len, self.cuts[a])) for a in attributes), most)

    def working(self, attribute: int, level: int) -> NDArray[np.int64]:
        """The bin of every code of the finest level."""
        return inside(self.cuts[attribute][0], self.cuts[attribute][level])

    def spread(self, attribute: int, level: int, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Counts of codes summed up in the bins of a level."""
        return np.add.reduceat(counts, self.cuts[attribute][level])


def inside(fine: Sequence[int], coarse: Sequence[int]) -> NDArray[np.int64]:
    """The coarse bin that holds each fine one."""
    return np.searchsorted(np.asarray(coarse), np.asarray(fine), side="right") - 1


@lru_cache(maxsize=2**13)
def _finest(ladders: tuple[tuple[int, ...], ...], most: float) -> Levels:
    """`Hierarchy.finest` by the bins of every level: thousands of tables share a few sizes."""
    levels = [len(ladder) - 1 for ladder in ladders]
    while True:
        bins = [ladder[level] for ladder, level in zip(ladders, levels, strict=True)]
        cells = math.prod(bins)
        able = [
            (bins[i], i)
            for i, level in enumerate(levels)
            if level > 0 and cells // bins[i] * ladders[i][level - 1] <= most
        ]
        if not able:
            return tuple(levels)
        levels[min(able)[1]] -= 1
