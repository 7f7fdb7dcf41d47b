"""What is computed over the rows, wherever they are, and which tables are counted and which are summed out of others.

*Tasks* are sums of whole numbers over batches of coded rows. A task is made of public things (a domain, margins,
queries) and, for a commitment, of keys that were derived from its salt. It can be sent to the machine that holds the
rows; only its sums come back.

*Tables* are counted or summed; the sums are exact either way. Counting a table costs the more the more rows there are;
summing costs the cells of the larger table. So margins that lie in larger ones of the same question are summed, and
with many rows also small margins that one slightly larger table holds: all 91 pairs of the 14 attributes of adult are
counted as 22 tables (`benchmarks/engines.py`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.core.answering import PartCounts
from maquette.core.binned import Binned, count_binned
from maquette.core.forms import Margin
from maquette.core.rows.commitment import LANES, add_records, pack
from maquette.core.tables import MAX_TABLE_CELLS, count_margins
from maquette.core.universe import Universe

Coded = dict[str, NDArray[Any]]
Integers = NDArray[np.int64]

MANY_ROWS = 2**20
"""From so many rows on, tables that nobody asked for are counted because several others are in them."""
COVER_CELLS = 2**17
"""Cells of such a table: it stays in the processor's cache."""
MAX_COVERED = 1_000
"""Margins that are looked through for it; with more the search would take longer than it saves."""
MAX_KEPT_CELLS = 2**25
"""Cells of tables that are kept for later questions: 134 MB."""
MAX_SUMMED_ORDER = 8
"""Attributes of a table that smaller ones are summed out of."""


def plan_tables(
    domain: Universe, margins: Sequence[Margin], *, rows: int | None, most: int
) -> dict[Margin, Margin]:
    """For every margin the table that it is summed out of: itself if it is counted as it is.

    `rows` are those of the table if that costs nothing to know, None for many; tables of more than `most` cells are not
    summed.
    """
    inside = supersets(domain, margins, most=most if rows is None else min(most, rows))
    largest = [margin for margin in margins if margin not in inside]
    many = rows is None or rows >= MANY_ROWS
    wide = covers(domain, largest) if many and 1 < len(largest) <= MAX_COVERED else {m: m for m in largest}
    return {margin: wide[inside.get(margin, margin)] for margin in margins}


def supersets(domain: Universe, margins: Sequence[Margin], *, most: int) -> dict[Margin, Margin]:
    """For a margin that lies in larger ones of at most so many cells, the smallest of them that does not itself."""
    around: dict[frozenset[str], Margin] = {}
    lengths = {len(margin) for margin in margins}
    for wide in sorted(margins, key=lambda margin: (-len(margin), domain.cells(margin))):
        if domain.cells(wide) > most or len(wide) > MAX_SUMMED_ORDER or frozenset(wide) in around:
            continue
        for length in (length for length in lengths if length < len(wide)):
            for names in combinations(wide, length):
                best = around.setdefault(frozenset(names), wide)
                if domain.cells(wide) < domain.cells(best):
                    around[frozenset(names)] = wide
    return {margin: around[frozenset(margin)] for margin in margins if frozenset(margin) in around}


def covers(domain: Universe, margins: Sequence[Margin]) -> dict[Margin, Margin]:
    """Tables of few cells that hold several margins each, chosen greedily: largest margins first."""
    left = {margin: frozenset(margin) for margin in margins}
    chosen: dict[Margin, Margin] = {}
    for start in sorted(margins, key=domain.cells, reverse=True):
        if start not in left:
            continue
        if domain.cells(start) > COVER_CELLS:
            chosen[start] = start
            del left[start]
            continue
        names = _extended(domain, left[start], list(left.values()))
        members = [margin for margin, part in left.items() if part <= names]
        alone = len(members) == 1
        wide = start if alone else tuple(name for name in domain.names if name in names)
        for margin in members:
            chosen[margin] = wide
            del left[margin]
    return chosen


def _extended(domain: Universe, start: frozenset[str], left: Sequence[frozenset[str]]) -> frozenset[str]:
    """A margin and the attributes that bring in the most others for their size."""
    names = start
    while True:
        missing = [part - names for part in left]
        gains = {
            name: sum(1 for rest in missing if rest == frozenset((name,))) / math.log2(domain[name].size + 1)
            for name in domain.names
            if name not in names and domain.cells(names | {name}) <= COVER_CELLS
        }
        best = max(gains, key=gains.__getitem__, default=None)
        if best is None or not gains[best]:
            return names
        names |= {best}


class TableCache:
    """Tables that were counted already, up to a number of cells; the oldest go first. As private as the rows."""

    def __init__(self, domain: Universe, *, cells: int = MAX_KEPT_CELLS) -> None:
        self._domain = domain
        self._cells = cells
        self._tables: dict[Margin, NDArray[Any]] = {}

    def get(self, margin: Margin) -> NDArray[np.int64] | None:
        """A table that is there, or lies in one that is."""
        if margin in self._tables:
            return self._tables[margin].astype(np.int64)
        around = [wide for wide in self._tables if set(margin) <= set(wide)]
        if not around:
            return None
        wide = min(around, key=self._domain.cells)
        return summed(self._tables[wide], wide, margin)

    def add(self, tables: Mapping[Margin, NDArray[np.int64]]) -> None:
        """Keep those that do not lie in another one, in half of the bytes: counts are below 2^32, or hardly above."""
        inside = supersets(self._domain, list(tables), most=MAX_TABLE_CELLS)
        for margin, table in tables.items():
            if margin not in inside:
                small = int(table.max(initial=0)) < 2**32
                self._tables[margin] = table.astype(np.uint32) if small else table.copy()
        cells = sum(table.size for table in self._tables.values())
        for margin in list(self._tables):
            if cells <= self._cells:
                return
            cells -= self._tables.pop(margin).size


def summed(table: NDArray[Any], wide: Margin, margin: Margin) -> NDArray[np.int64]:
    """The table over some of its attributes, in their order."""
    if wide == margin:
        return table.astype(np.int64, copy=False)
    left = [name for name in wide if name in margin]
    small = table.sum(axis=tuple(i for i, name in enumerate(wide) if name not in margin), dtype=np.int64)
    return np.array(np.asarray(small).transpose([left.index(name) for name in margin]), order="C")


class Task(ABC):
    """Flat arrays of 64-bit whole numbers, added up over all rows. Neither their order nor any cut can matter."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The columns of `Universe.columns` that it reads, in their order; at least one."""

    @abstractmethod
    def zeros(self) -> list[NDArray[Any]]:
        """The sums over no rows."""

    @abstractmethod
    def add(self, sums: Sequence[NDArray[Any]], batch: Coded) -> None:
        """Add a batch of coded rows, in place."""


@dataclass(frozen=True)
class CountTask(Task):
    """Tables over some margins, then the sums of forms that are looked at record by record."""

    domain: Universe
    margins: tuple[Margin, ...]
    parts: tuple[PartCounts, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        used = {name for margin in self.margins for name in margin}
        return in_order(self.domain, used.union(*(part.names for part in self.parts)))

    def zeros(self) -> list[NDArray[Any]]:
        nothing = {name: np.zeros(0, dtype=np.uint8) for name in self.domain.names}
        tables = count_margins(self.domain.sizes, nothing, self.margins)
        sums = [total for part in self.parts for total in part.zeros()]
        return [*(tables[margin].reshape(-1) for margin in self.margins), *sums]

    def add(self, sums: Sequence[NDArray[Any]], batch: Coded) -> None:
        into = dict(zip(self.margins, sums, strict=False))
        count_margins(self.domain.sizes, batch, self.margins, into=into)
        for part, own in zip(self.parts, self.sums_of_parts(sums), strict=True):
            part.add(own, batch)

    def sums_of_parts(self, sums: Sequence[NDArray[Any]]) -> list[Sequence[NDArray[Any]]]:
        """The sums of each part."""
        rest = iter(sums[len(self.margins) :])
        return [list(islice(rest, len(part.zeros()))) for part in self.parts]


@dataclass(frozen=True)
class BinnedTask(Task):
    """The counts of tables in bins."""

    domain: Universe
    tables: tuple[Binned, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return in_order(self.domain, {name for table in self.tables for name in table.margin})

    def zeros(self) -> list[NDArray[Any]]:
        nothing = {name: np.zeros(0, dtype=np.uint8) for name in self.names}
        return list(count_binned(self.domain, nothing, self.tables))

    def add(self, sums: Sequence[NDArray[Any]], batch: Coded) -> None:
        count_binned(self.domain, batch, self.tables, into=sums)


@dataclass(frozen=True)
class RecordsTask(Task):
    """The multiset of whole records as keyed sums modulo 2^64, and their number (`core/rows/commitment.py`)."""

    domain: Universe
    keys: NDArray[np.uint64] = field(repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.domain.columns)

    def zeros(self) -> list[NDArray[Any]]:
        return [np.zeros(LANES, dtype=np.uint64), np.zeros(1, dtype=np.int64)]

    def add(self, sums: Sequence[NDArray[Any]], batch: Coded) -> None:
        words = pack(self.domain, batch)
        add_records(words, self.keys, sums[0])
        sums[1][0] += words.shape[1]


def in_order(domain: Universe, names: set[str]) -> tuple[str, ...]:
    """Names in domain order; the first attribute if there are none, because rows have to be counted too."""
    return tuple(name for name in domain.names if name in names) or domain.names[:1]
