"""Tables over a few attributes, each cut into contiguous bins: partitions of the universe at any resolution.

A record lies in exactly one bin of a table. So adding or removing one moves one count by 1, and replacing one moves
two counts by 1 at most, whatever the cuts are; that is the sensitivity the gate charges for. Bins may be counted
together in groups: a bin belongs to exactly one group, so the same holds for groups.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain, Relation
from maquette.errors import WorkloadError
from maquette.queries.base import Columns, Margin
from maquette.queries.counting import count_tables

Cuts = tuple[int, ...]
"""The first code of every bin of one attribute, increasing from 0."""


@dataclass(frozen=True, slots=True)
class Binned:
    """One table: attributes and, for each, where its bins begin; the group of every bin where some count together."""

    margin: Margin
    cuts: tuple[Cuts, ...]
    groups: tuple[int, ...] | None = None
    """By bin, the last attribute running fastest: numbers from 0, every one of them used."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Bins per attribute."""
        return tuple(len(cut) for cut in self.cuts)

    @property
    def bins(self) -> int:
        return math.prod(self.shape)

    @property
    def cells(self) -> int:
        """Counts that the table has: one per bin, or per group."""
        return self.bins if self.groups is None else max(self.groups) + 1

    @property
    def ungrouped(self) -> Binned:
        """The same bins, each counted by itself."""
        return self if self.groups is None else Binned(self.margin, self.cuts)

    def check(self, domain: Domain) -> None:
        """Refuse what is not a partition of this universe."""
        if len(self.margin) != len(self.cuts) or len(set(self.margin)) != len(self.margin):
            raise WorkloadError("a binned table has distinct attributes and one list of cuts for each")
        for name, cut in zip(self.margin, self.cuts, strict=True):
            rising = all(a < b for a, b in itertools.pairwise(cut))
            if not cut or cut[0] != 0 or not rising or cut[-1] >= domain[name].size:
                raise WorkloadError(
                    f"the cuts of '{name}' must rise from 0 and stay below its {domain[name].size} cells"
                )
        if self.groups is not None:
            used = set(self.groups)
            if len(self.groups) != self.bins or used != set(range(len(used))):
                raise WorkloadError(
                    "every bin needs a group, and the groups are numbered from 0 without gaps"
                )

    def folded(self, counts: NDArray[Any]) -> NDArray[Any]:
        """Counts of bins, flat, added up in the groups."""
        if self.groups is None:
            return counts
        found = np.zeros(self.cells, dtype=counts.dtype)
        np.add.at(found, np.asarray(self.groups), counts)
        return found

    def to_json(self) -> list[Any]:
        """What names this table in a request, and stores it; groups as runs of bins."""
        named: list[Any] = [list(self.margin), [list(cut) for cut in self.cuts]]
        if self.groups is None:
            return named
        runs = [[group, len(list(run))] for group, run in itertools.groupby(self.groups)]
        return [*named, runs]

    @classmethod
    def from_json(cls, named: Sequence[Any]) -> Binned:
        margin, cuts, *rest = named
        groups = tuple(group for group, times in rest[0] for _ in range(times)) if rest else None
        return cls(tuple(margin), tuple(tuple(cut) for cut in cuts), groups)


def full(domain: Domain, margin: Margin) -> Binned:
    """The table with every cell of its own."""
    return Binned(margin, tuple(tuple(range(domain[name].size)) for name in margin))


def labels(size: int, cut: Cuts) -> NDArray[Any]:
    """The bin of every code of an attribute."""
    starts = np.zeros(size, dtype=np.min_scalar_type(max(len(cut) - 1, 1)))
    starts[list(cut[1:])] = 1
    return np.cumsum(starts, dtype=starts.dtype)


def moved(relation: Relation) -> int:
    """The L1 (and squared L2) distance between one table's counts on neighbouring tables."""
    return 1 if relation is Relation.ADD_REMOVE else 2


def count_binned(
    domain: Domain,
    columns: Columns,
    tables: Sequence[Binned],
    *,
    into: Sequence[NDArray[Any]] | None = None,
) -> list[NDArray[np.int64]]:
    """The counts of all bins of every table, flat, in the order asked; `folded` adds them up in groups.

    The arrays of an earlier call go on counting as `into`.
    """
    names = {(name, cut) for table in tables for name, cut in zip(table.margin, table.cuts, strict=True)}
    keys = {pair: f"{i}" for i, pair in enumerate(sorted(names))}
    coarse = {keys[name, cut]: _coarse(domain, columns, name, cut) for name, cut in names}
    sizes = {key: len(cut) for (_, cut), key in keys.items()}
    asked = [tuple(keys[pair] for pair in zip(t.margin, t.cuts, strict=True)) for t in tables]
    distinct = list(dict.fromkeys(asked))
    if len(distinct) < len(asked):
        raise WorkloadError("the same binned table was asked for twice")
    rows = len(next(iter(columns.values())))
    held: Mapping[Margin, NDArray[Any]] | None = None
    if into is not None:
        held = dict(zip(asked, into, strict=True))
    counted = count_tables(sizes, coarse, asked, rows=rows, into=held)
    return [counted[key].reshape(-1) for key in asked]


def _coarse(domain: Domain, columns: Columns, name: str, cut: Cuts) -> NDArray[Any]:
    size = domain[name].size
    return columns[name] if len(cut) == size else labels(size, cut)[columns[name]]
