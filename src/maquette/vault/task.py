"""What is computed over the rows, wherever they are: sums of whole numbers over batches of coded rows.

A task is made of public things (a domain, margins, queries) and, for a commitment, of keys that were derived from its
salt. It can be sent to the machine that holds the rows; only its sums come back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain
from maquette.queries.base import Margin, Queries
from maquette.queries.counting import count_margins
from maquette.queries.marginals import Binned, count_binned
from maquette.vault.commitment import LANES, add_records, pack

Coded = dict[str, NDArray[Any]]
Integers = NDArray[np.int64]


class Task(ABC):
    """Flat arrays of 64-bit whole numbers, added up over all rows. Neither their order nor any cut can matter."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The columns that it reads, in domain order; at least one."""

    @abstractmethod
    def zeros(self) -> list[NDArray[Any]]:
        """The sums over no rows."""

    @abstractmethod
    def add(self, sums: Sequence[NDArray[Any]], batch: Coded) -> None:
        """Add a batch of coded rows, in place."""


@dataclass(frozen=True)
class CountTask(Task):
    """Tables over some margins, then the answers of classes of queries that are evaluated on rows."""

    domain: Domain
    margins: tuple[Margin, ...]
    classes: tuple[Queries, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        used = {name for margin in self.margins for name in margin}
        return in_order(self.domain, used.union(*(part.attributes for part in self.classes)))

    def zeros(self) -> list[NDArray[Any]]:
        nothing = {name: np.zeros(0, dtype=np.uint8) for name in self.domain.names}
        tables = count_margins(self.domain, nothing, self.margins)
        answers = [np.zeros(part.count, dtype=np.int64) for part in self.classes]
        return [*(tables[margin].reshape(-1) for margin in self.margins), *answers]

    def add(self, sums: Sequence[NDArray[Any]], batch: Coded) -> None:
        into = dict(zip(self.margins, sums, strict=False))
        count_margins(self.domain, batch, self.margins, into=into)
        for total, part in zip(sums[len(self.margins) :], self.classes, strict=True):
            total += whole(part.on_rows(batch))


@dataclass(frozen=True)
class BinnedTask(Task):
    """The counts of tables in bins."""

    domain: Domain
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
    """The multiset of whole records as keyed sums modulo 2^64, and their number (`vault/commitment.py`)."""

    domain: Domain
    keys: NDArray[np.uint64] = field(repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        return self.domain.names

    def zeros(self) -> list[NDArray[Any]]:
        return [np.zeros(LANES, dtype=np.uint64), np.zeros(1, dtype=np.int64)]

    def add(self, sums: Sequence[NDArray[Any]], batch: Coded) -> None:
        words = pack(self.domain, batch)
        add_records(words, self.keys, sums[0])
        sums[1][0] += words.shape[1]


def in_order(domain: Domain, names: set[str]) -> tuple[str, ...]:
    """Names in domain order; the first attribute if there are none, because rows have to be counted too."""
    return tuple(name for name in domain.names if name in names) or domain.names[:1]


def whole(answers: NDArray[Any]) -> Integers:
    """Exact answers are whole numbers by construction; anything else is a mistake in a query class."""
    assert answers.dtype.kind in "iu"
    return answers.astype(np.int64, copy=False)
