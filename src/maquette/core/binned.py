"""Tables over a few attributes, each cut into contiguous bins: partitions of the universe at any resolution.

A record lies in exactly one bin of a table. So adding or removing one moves one count by 1, and replacing
one moves two counts by 1 at most, whatever the cuts are; that is the sensitivity the gate charges for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.core.errors import WorkloadError
from maquette.core.forms import Columns, Margin
from maquette.core.neighbours import Relation
from maquette.core.tables import count_tables
from maquette.core.universe import Universe

MAX_LABELLED_CELLS = 2**22
"""Cells of an attribute whose bins are listed cell by cell."""

Cuts = tuple[int, ...]
"""The first code of every bin of one attribute, increasing from 0."""


@dataclass(frozen=True, slots=True)
class Binned:
    """One table: attributes and, for each, where its bins begin; the last attribute runs fastest."""

    margin: Margin
    cuts: tuple[Cuts, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Bins per attribute."""
        return tuple(len(cut) for cut in self.cuts)

    @property
    def cells(self) -> int:
        """Counts that the table has: one per bin."""
        return math.prod(self.shape)

    def check(self, domain: Universe) -> None:
        """Refuse what is not a partition of this universe."""
        if len(self.margin) != len(self.cuts) or len(set(self.margin)) != len(self.margin):
            raise WorkloadError("a binned table has distinct attributes and one list of cuts for each")
        for name, cut in zip(self.margin, self.cuts, strict=True):
            rising = all(a < b for a, b in pairwise(cut))
            if not cut or cut[0] != 0 or not rising or cut[-1] >= domain[name].size:
                raise WorkloadError(
                    f"the cuts of '{name}' must rise from 0 and stay below its {domain[name].size} cells"
                )

    def to_json(self) -> list[Any]:
        """What names this table in a request, and stores it."""
        return [list(self.margin), [list(cut) for cut in self.cuts]]

    @classmethod
    def from_json(cls, named: Sequence[Any]) -> Binned:
        margin, cuts = named
        return cls(tuple(margin), tuple(tuple(cut) for cut in cuts))


def labels(size: int, cut: Cuts) -> NDArray[Any]:
    """The bin of every code of an attribute."""
    starts = np.zeros(size, dtype=_label_type(cut))
    starts[list(cut[1:])] = 1
    return np.cumsum(starts, dtype=starts.dtype)


def _label_type(cut: Cuts) -> np.dtype[Any]:
    return np.min_scalar_type(max(len(cut) - 1, 1))


def table_sensitivity(relation: Relation) -> int:
    """The L1 (and squared L2) distance between one table's counts on neighbouring tables."""
    return 1 if relation is Relation.ADD_REMOVE else 2


def count_binned(
    domain: Universe,
    columns: Columns,
    tables: Sequence[Binned],
    *,
    into: Sequence[NDArray[Any]] | None = None,
) -> list[NDArray[np.int64]]:
    """The counts of all bins of every table, flat, in the order asked.

    The arrays of an earlier call go on counting as `into`.
    """
    names = {(name, cut) for table in tables for name, cut in zip(table.margin, table.cuts, strict=True)}
    keys = {pair: f"{i}" for i, pair in enumerate(sorted(names))}
    coarse = {keys[name, cut]: _coarse(domain, columns, name, cut) for name, cut in names}
    sizes = {key: len(cut) for (_, cut), key in keys.items()}
    margins = [tuple(keys[pair] for pair in zip(t.margin, t.cuts, strict=True)) for t in tables]
    distinct = list(dict.fromkeys(margins))
    if len(distinct) < len(margins):
        raise WorkloadError("the same binned table was asked for twice")
    rows = len(next(iter(columns.values())))
    totals: Mapping[Margin, NDArray[Any]] | None = None
    if into is not None:
        totals = dict(zip(margins, into, strict=True))
    counts = count_tables(sizes, coarse, margins, rows=rows, into=totals)
    return [counts[key].reshape(-1) for key in margins]


def _coarse(domain: Universe, columns: Columns, name: str, cut: Cuts) -> NDArray[Any]:
    """The bin of every record: looked up in a list of all cells, or searched among the cuts if that would be long."""
    size, codes = domain[name].size, columns[name]
    if len(cut) == size:
        return codes
    if size <= MAX_LABELLED_CELLS:
        return labels(size, cut)[codes]
    bins = np.searchsorted(np.array(cut, dtype=np.uint64), codes.astype(np.uint64), side="right") - 1
    return bins.astype(_label_type(cut))
