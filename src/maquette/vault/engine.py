"""Exact answers over the coded rows, kept in memory or read anew on every pass. Only the gate may ask."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, Protocol

import numpy as np
import psutil
from numpy.typing import NDArray

from maquette.domain import Domain
from maquette.errors import SourceError
from maquette.queries.base import Margin, Queries, TableQueries
from maquette.queries.counting import count_margins
from maquette.queries.marginals import Binned, count_binned
from maquette.vault.coding import Coder, coders
from maquette.vault.commitment import Records, commit
from maquette.vault.source import Source, changed

Coded = dict[str, NDArray[Any]]
Integers = NDArray[np.int64]

MAX_RECORDS = 2**32
"""Records of a table. Because of it exact counts times public factors fit into 64 bits (`questions/bounds.py`)."""
ROWS = 2**20
"""Rows that are looked at together: many enough that a large table is not fetched for a few of them."""


class Engine(Protocol):
    """What the gate may ask of a private table. Every result is exact, and private."""

    @property
    def domain(self) -> Domain: ...

    @property
    def in_memory(self) -> bool:
        """Whether the rows are held, so that several passes cost no more than one."""
        ...

    def size(self) -> int:
        """n, the number of records."""
        ...

    def answer(self, queries: Queries) -> Integers:
        """Numerators of all answers."""
        ...

    def margins(self, margins: Sequence[Margin]) -> dict[Margin, Integers]:
        """Tables over a few attributes each."""
        ...

    def binned(self, tables: Sequence[Binned]) -> list[Integers]:
        """The counts of tables in bins, each flat."""
        ...

    def values(self, name: str) -> tuple[NDArray[Any], Integers]:
        """The distinct codes of one attribute, increasing, and how many records have each."""
        ...

    def commitment(self, salt: bytes, *, like: str | None = None) -> str:
        """A keyed digest of the multiset of coded records, or by the scheme of `like` if that is an older one."""
        ...


class _BatchEngine(ABC):
    """Everything follows from batches of coded rows; the row order and the cuts cannot matter for a sum."""

    __slots__ = ("_domain",)

    def __init__(self, domain: Domain) -> None:
        self._domain = domain

    @property
    def domain(self) -> Domain:
        return self._domain

    @property
    def in_memory(self) -> bool:
        return False

    @abstractmethod
    def _batches(self, names: Sequence[str]) -> Iterator[Coded]:
        """Coded columns of the rows, some at a time; at least one column."""

    def size(self) -> int:
        first = self._domain.names[:1]
        return sum(len(batch[first[0]]) for batch in self._batches(first))

    def answer(self, queries: Queries) -> Integers:
        """One pass, however many classes of queries a union has."""
        if isinstance(queries, TableQueries):
            return _whole(queries.from_margins(self.margins(queries.margins)))
        parts = queries.classes
        margins = [m for part in parts if isinstance(part, TableQueries) for m in part.margins]
        tables = self._no_counts(margins)
        totals = {
            i: np.zeros(part.count, dtype=np.int64)
            for i, part in enumerate(parts)
            if not isinstance(part, TableQueries)
        }
        for batch in self._batches(queries.attributes or self._domain.names[:1]):
            count_margins(self._domain, batch, margins, into=tables)
            for i, total in totals.items():
                total += _whole(parts[i].on_rows(batch))
        answers = [
            _whole(part.from_margins(tables)) if isinstance(part, TableQueries) else totals[i]
            for i, part in enumerate(parts)
        ]
        scales = [queries.denominator // part.denominator for part in parts]
        scaled = [a if scale == 1 else a * scale for a, scale in zip(answers, scales, strict=True)]
        return scaled[0] if len(scaled) == 1 else np.concatenate(scaled)

    def margins(self, margins: Sequence[Margin]) -> dict[Margin, Integers]:
        used = {name for margin in margins for name in margin} or {self._domain.names[0]}
        tables = self._no_counts(margins)
        for batch in self._batches([name for name in self._domain.names if name in used]):
            count_margins(self._domain, batch, margins, into=tables)
        return tables

    def binned(self, tables: Sequence[Binned]) -> list[Integers]:
        used = {name for table in tables for name in table.margin} or {self._domain.names[0]}
        names = [name for name in self._domain.names if name in used]
        bins = list(dict.fromkeys(table.ungrouped for table in tables))
        counts = count_binned(self._domain, {name: np.zeros(0, dtype=np.uint8) for name in names}, bins)
        for batch in self._batches(names):
            count_binned(self._domain, batch, bins, into=counts)
        counts_of = dict(zip(bins, counts, strict=True))
        return [table.folded(counts_of[table.ungrouped]) for table in tables]

    def _no_counts(self, margins: Sequence[Margin]) -> dict[Margin, Integers]:
        return count_margins(
            self._domain, {n: np.zeros(0, dtype=np.uint8) for n in self._domain.names}, margins
        )

    def values(self, name: str) -> tuple[NDArray[Any], Integers]:
        codes, counts = np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64)
        for batch in self._batches([name]):
            distinct, times = np.unique(batch[name], return_counts=True)
            codes, place = np.unique(np.concatenate([codes, distinct.astype(np.uint64)]), return_inverse=True)
            both = np.concatenate([counts, times.astype(np.int64)])
            counts = np.zeros(len(codes), dtype=np.int64)
            np.add.at(counts, place, both)
        return codes, counts

    def commitment(self, salt: bytes, *, like: str | None = None) -> str:
        return commit(self._domain, self._batches(self._domain.names), salt, like=like)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._domain!r})"

    def __reduce__(self) -> NoReturn:
        raise SourceError("a private table cannot be copied or pickled; open it again where it is needed")


class MemoryEngine(_BatchEngine):
    """Coded columns in memory."""

    __slots__ = ("_columns",)

    def __init__(self, domain: Domain, columns: Coded) -> None:
        super().__init__(domain)
        self._columns = {name: _frozen(columns[name]) for name in domain.names}
        _check_records(len(self._columns[domain.names[0]]))

    @property
    def in_memory(self) -> bool:
        return True

    def margins(self, margins: Sequence[Margin]) -> dict[Margin, Integers]:
        return count_margins(self._domain, self._columns, margins)

    def _batches(self, names: Sequence[str]) -> Iterator[Coded]:
        for start in range(0, len(self._columns[names[0]]), ROWS):
            yield {name: self._columns[name][start : start + ROWS] for name in names}


class StreamEngine(_BatchEngine):
    """A source that is read and coded again on every pass, a batch at a time; every pass sees the same records.

    A file notices by itself that it was changed. Of any other source (a database that others write to, a query that
    picks its rows at random, a data frame that is changed in place) every pass reads whole records and compares their
    multiset with that of the opening, by a digest under a key of this engine's own; a pass over others gives no result.
    """

    __slots__ = ("_coders", "_key", "_seal", "_source")

    def __init__(self, domain: Domain, source: Source) -> None:
        super().__init__(domain)
        self._source = source
        self._coders = coders(domain)
        self._key = secrets.token_bytes(32)
        self._seal: str | None = None
        if not source.notices_changes:
            for _ in self._same_records():
                pass

    def _batches(self, names: Sequence[str]) -> Iterator[Coded]:
        return self._coded(names) if self._source.notices_changes else self._same_records()

    def _same_records(self) -> Iterator[Coded]:
        """Whole records, and after the last of them the comparison with the first pass."""
        records = Records(self._domain, self._key)
        for batch in self._coded(self._domain.names):
            records.add(batch)
            yield batch
        if self._seal is None:
            self._seal = records.seal()
        if records.seal() != self._seal:
            raise changed(self._source.description)

    def _coded(self, names: Sequence[str]) -> Iterator[Coded]:
        pending: list[Coded] = []
        rows = total = 0
        for raw, _ in self._source.batches(names):
            pending.append({name: self._coders[name].code(raw[name]) for name in names})
            rows += len(pending[-1][names[0]])
            total += len(pending[-1][names[0]])
            _check_records(total)
            if rows >= ROWS:
                yield _stacked(pending, names)
                pending, rows = [], 0
        if rows:
            yield _stacked(pending, names)


def load(
    source: Source, domain: Domain, *, memory_limit: int | None, progress: Callable[[float], None] | None
) -> Engine:
    """Code the whole source into memory, or fall back to streaming as soon as the codes outgrow the limit.

    A source that will be streamed is read to its end all the same: what is wrong with it (damage, another encoding, a
    failing cast) shows when it is opened, before anything is paid for.
    """
    limit = psutil.virtual_memory().available // 4 if memory_limit is None else memory_limit
    coding = coders(domain)
    chunks: dict[str, list[NDArray[Any]]] = {name: [] for name in domain.names}
    tell = _Steps(progress)
    nbytes = 0
    for raw, share in source.batches(domain.names):
        if nbytes <= limit:
            for name, coder in coding.items():
                chunks[name].append(coder.code(raw[name]))
                nbytes += chunks[name][-1].nbytes
        if nbytes > limit:
            chunks = {name: [] for name in domain.names}
        tell(share)
    tell(1.0)
    if nbytes > limit:
        return StreamEngine(domain, source)
    return MemoryEngine(domain, {name: _joined(coding[name], chunks.pop(name)) for name in domain.names})


class _Steps:
    """Tells the progress in steps of 5 %, so that the number of calls says nothing about the table."""

    def __init__(self, progress: Callable[[float], None] | None) -> None:
        self._progress = progress
        self._step = 0

    def __call__(self, share: float) -> None:
        while self._progress is not None and share * 20 >= self._step <= 20:
            self._progress(self._step / 20)
            self._step += 1


def _check_records(rows: int) -> None:
    """For the owner who opens a table: no question is answered before its rows were passed over once."""
    if rows > MAX_RECORDS:
        raise SourceError(f"expected a table of at most {MAX_RECORDS:,} records; split it or take a sample")


def _joined(coder: Coder, chunks: list[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(chunks) if chunks else np.zeros(0, dtype=coder.dtype)


def _stacked(batches: Sequence[Coded], names: Sequence[str]) -> Coded:
    return {name: np.concatenate([batch[name] for batch in batches]) for name in names}


def _frozen(column: NDArray[Any]) -> NDArray[Any]:
    view = column.view()
    view.flags.writeable = False
    return view


def _whole(answers: NDArray[Any]) -> Integers:
    """Exact answers are whole numbers by construction; anything else is a mistake in a query class."""
    assert answers.dtype.kind in "iu"
    return answers.astype(np.int64, copy=False)
