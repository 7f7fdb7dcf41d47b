"""Exact answers over the coded rows, kept in memory or read anew on every pass. Only the gate may ask."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, NoReturn, TypeVar

import numpy as np
import psutil
from numpy.typing import NDArray

from maquette.domain import Domain
from maquette.errors import SourceError
from maquette.queries.base import Margin, Queries, TableQueries
from maquette.queries.marginals import Binned
from maquette.vault.coding import Coder, coders
from maquette.vault.commitment import in_order, is_in_order, lane_keys, seal
from maquette.vault.source import Source, changed
from maquette.vault.counting import MANY_ROWS, MAX_KEPT_CELLS, TableCache, plan_tables, summed
from maquette.vault.task import BinnedTask, Coded, CountTask, Integers, RecordsTask, Task, whole

T = TypeVar("T")

MAX_RECORDS = 2**32
"""Records of a table. Because of it exact counts times public factors fit into 64 bits (`questions/bounds.py`)."""
MIN_CELLS_PER_PASS = 2**24
"""Counts that a pass over a table that is not in memory is asked for at least: a pass costs more than they do."""
LEAST_CELLS_PER_PASS = 2**22
"""The same under a limit of memory that is smaller than that, 32 MB: all pairs of 14 columns in one pass."""
ROWS = 2**20
"""Rows that are looked at together: many enough that a large table is not fetched for a few of them."""
THREADS = 2
"""That count a large table in memory together: all pairs of 14 columns of 2 * 10^7 rows in .31 s instead of .55."""


class Engine(ABC):
    """What the gate may ask of a private table. Every result is exact, and private.

    A kind of table says how to `fold` (sum whole numbers over its rows) and how to count one column (`distinct`). Every
    question of the gate is written once over these two, here.
    """

    __slots__ = ("__weakref__", "_domain", "_tables")

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._tables: TableCache | None = None

    @property
    def domain(self) -> Domain:
        return self._domain

    @property
    @abstractmethod
    def cells_per_pass(self) -> int:
        """How many counts one pass over the rows should be asked for: few where another pass costs little."""

    @abstractmethod
    def fold(self, task: Task) -> list[NDArray[Any]]:
        """The sums of a task over all rows."""

    @abstractmethod
    def distinct(self, name: str) -> tuple[NDArray[np.uint64], Integers]:
        """The distinct codes of one attribute, increasing, and how many records have each."""

    @abstractmethod
    def in_order(self) -> Iterator[Coded]:
        """Whole coded records in the order of the table, for ledgers of the first scheme; refused if it has none."""

    def size(self) -> int:
        """n, the number of records."""
        return int(self.margins([()])[()])

    def answer(self, queries: Queries) -> Integers:
        """Numerators of all answers: one pass, however many classes of queries a union has."""
        parts = queries.classes
        margins = [m for part in parts if isinstance(part, TableQueries) for m in part.margins]
        on_rows = tuple(part for part in parts if not isinstance(part, TableQueries))
        tables, others = self._counts(margins, on_rows)
        rest = iter(others)
        answers = [
            whole(part.from_margins(tables)) if isinstance(part, TableQueries) else next(rest)
            for part in parts
        ]
        scales = [queries.denominator // part.denominator for part in parts]
        scaled = [a if scale == 1 else a * scale for a, scale in zip(answers, scales, strict=True)]
        return scaled[0] if len(scaled) == 1 else np.concatenate(scaled)

    def margins(self, margins: Sequence[Margin]) -> dict[Margin, Integers]:
        """Tables over a few attributes each."""
        return self._counts(margins, ())[0]

    def binned(self, tables: Sequence[Binned]) -> list[Integers]:
        """The counts of tables in bins, each flat."""
        counts: dict[Binned, Integers] = {}
        bins = list(dict.fromkeys(table.ungrouped for table in tables))
        for some in in_passes(bins, lambda table: table.bins, self.cells_per_pass):
            counts |= zip(some, self.fold(BinnedTask(self._domain, tuple(some))), strict=True)
        return [table.folded(counts[table.ungrouped]) for table in tables]

    def values(self, name: str) -> tuple[NDArray[np.uint64], Integers]:
        """The distinct codes of one attribute, increasing, and how many records have each."""
        return self.distinct(name)

    def commitment(self, salt: bytes, *, like: str | None = None) -> str:
        """A keyed digest of the multiset of coded records, or by the scheme of `like` if that is an older one."""
        if is_in_order(like):
            return in_order(self._domain, self.in_order(), salt)
        sums, n = self.fold(RecordsTask(self._domain, lane_keys(salt)))
        return seal(self._domain, salt, sums, int(n[0]))

    def _counts(
        self, margins: Sequence[Margin], classes: tuple[Queries, ...]
    ) -> tuple[dict[Margin, Integers], list[Integers]]:
        order = tuple(dict.fromkeys(tuple(margin) for margin in margins))
        cache = self._table_cache()
        cached = {m: t for m in order if cache and (t := cache.get(m)) is not None}
        missing = [margin for margin in order if margin not in cached]
        if order and not missing and not classes:
            return cached, []
        most = min(self.cells_per_pass, MIN_CELLS_PER_PASS)
        source = plan_tables(self._domain, missing, rows=self._rows(), most=most)
        counts: dict[Margin, Integers] = {}
        answers: list[Integers] = []
        wide = list(dict.fromkeys(source.values()))
        for i, some in enumerate(in_passes(wide, self._domain.cells, self.cells_per_pass) or [[]]):
            sums = self.fold(CountTask(self._domain, tuple(some), () if i else classes))
            tables = dict(zip(some, sums, strict=False))
            if not i:
                answers = sums[len(some) :]
            for margin in (m for m in missing if source[m] in tables):
                table = tables[source[margin]].reshape([self._domain[name].size for name in source[margin]])
                counts[margin] = summed(table, source[margin], margin)
        if cache:
            cache.add(counts)
        return cached | counts, answers

    def _table_cache(self) -> TableCache | None:
        """The tables of earlier passes, where a pass is dear and they are still those of the table."""
        return self._tables

    def _rows(self) -> int | None:
        """The number of records where it costs nothing to know; None elsewhere."""
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._domain!r})"

    def __reduce__(self) -> NoReturn:
        raise SourceError("a private table cannot be copied or pickled; open it again where it is needed")


class BatchEngine(Engine):
    """A table whose coded rows come in batches to this process."""

    __slots__ = ()

    @abstractmethod
    def _batches(self, names: Sequence[str]) -> Iterator[Coded]:
        """Coded columns of the rows, some at a time; at least one column."""

    def fold(self, task: Task) -> list[NDArray[Any]]:
        sums = task.zeros()
        for batch in self._batches(task.names):
            task.add(sums, batch)
        return sums

    def distinct(self, name: str) -> tuple[NDArray[np.uint64], Integers]:
        return merged(np.unique(batch[name], return_counts=True) for batch in self._batches([name]))

    def in_order(self) -> Iterator[Coded]:
        return self._batches(self._domain.names)


def in_passes(tables: Sequence[T], cells_of: Callable[[T], int], most: int) -> list[list[T]]:
    """Tables in lists of at most so many cells each, a larger one by itself: what is counted at once."""
    passes: list[list[T]] = []
    room = 0
    for table in tables:
        cells = cells_of(table)
        if not passes or cells > room:
            passes.append([])
            room = most
        passes[-1].append(table)
        room -= cells
    return passes


def merged(parts: Iterable[tuple[NDArray[Any], NDArray[Any]]]) -> tuple[NDArray[np.uint64], Integers]:
    """Codes and their counts of several parts as those of all of them, the codes increasing."""
    codes, counts = np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64)
    for some, times in parts:
        both = np.concatenate([counts, times.astype(np.int64)])
        codes, place = np.unique(np.concatenate([codes, some.astype(np.uint64)]), return_inverse=True)
        counts = np.zeros(len(codes), dtype=np.int64)
        np.add.at(counts, place, both)
    return codes, counts


class MemoryEngine(BatchEngine):
    """Coded columns in memory."""

    __slots__ = ("_columns", "_room")

    def __init__(self, domain: Domain, columns: Coded, *, room: int | None = None) -> None:
        """`room` is a limit on the bytes of tables: half of them are counted at once, half are kept."""
        super().__init__(domain)
        self._columns = {name: _frozen(columns[name]) for name in domain.names}
        self._room = room
        _check_records(self._rows())
        if self._rows() >= MANY_ROWS:
            self._tables = TableCache(domain, cells=_kept_cells(room))

    @property
    def cells_per_pass(self) -> int:
        most = MIN_CELLS_PER_PASS if self._tables else 2**21
        if self._room is None:
            return most
        return min(most, max(LEAST_CELLS_PER_PASS, self._room // (16 * THREADS)))

    def _rows(self) -> int:
        return len(self._columns[self._domain.names[0]])

    def fold(self, task: Task) -> list[NDArray[Any]]:
        """Each thread adds up the batches that it takes; whole numbers may be added in any order."""
        if self._rows() < THREADS * ROWS:
            return super().fold(task)
        batches, turn = self._batches(task.names), Lock()

        def part(sums: list[NDArray[Any]]) -> list[NDArray[Any]]:
            while True:
                with turn:
                    batch = next(batches, None)
                if batch is None:
                    return sums
                task.add(sums, batch)

        with ThreadPoolExecutor(THREADS) as pool:
            parts = [pool.submit(part, task.zeros()) for _ in range(THREADS)]
            try:
                first, *others = [one.result() for one in parts]
            except BaseException:
                with turn:
                    batches.close()  # so that no thread begins another one
                raise
        for sums in others:
            for total, more in zip(first, sums, strict=True):
                total += more
        return first

    def _batches(self, names: Sequence[str]) -> Generator[Coded]:
        for start in range(0, len(self._columns[names[0]]), ROWS):
            yield {name: self._columns[name][start : start + ROWS] for name in names}


class StreamEngine(BatchEngine):
    """A source that is read and coded again on every pass, a batch at a time; every pass sees the same records.

    A file notices by itself that it was changed. Of any other source (a database that others write to, a query that
    picks its rows at random, a data frame that is changed in place) every pass reads whole records and compares their
    multiset with that of the opening, by a digest under a key of this engine's own; a pass over others gives no result.
    """

    __slots__ = ("_cells", "_coders", "_keys", "_seal", "_source")

    def __init__(self, domain: Domain, source: Source, *, cells: int, room: int | None = None) -> None:
        """`cells` are counted at once; `room` is a limit on the bytes of tables, as in memory."""
        super().__init__(domain)
        self._source = source
        self._coders = coders(domain)
        self._cells = cells
        self._keys = lane_keys(secrets.token_bytes(32))
        self._seal: list[Any] | None = None
        tables = TableCache(domain, cells=_kept_cells(room))
        self._tables = tables if source.is_unchanged() else None
        if not source.notices_changes:
            for _ in self._same_records():
                pass

    @property
    def cells_per_pass(self) -> int:
        return self._cells

    def _table_cache(self) -> TableCache | None:
        return self._tables if self._tables and self._source.is_unchanged() else None

    def _batches(self, names: Sequence[str]) -> Iterator[Coded]:
        return self._coded(names) if self._source.notices_changes else self._same_records()

    def _same_records(self) -> Iterator[Coded]:
        """Whole records, and after the last of them the comparison with the first pass."""
        records = RecordsTask(self._domain, self._keys)
        sums = records.zeros()
        for batch in self._coded(self._domain.names):
            records.add(sums, batch)
            yield batch
        state = [array.tolist() for array in sums]
        if self._seal is None:
            self._seal = state
        if state != self._seal:
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
    failing cast) shows when it is opened, before anything is paid for. Of a limit that was set codes take half at most,
    and tables that are counted and kept an eighth, or half where no codes are kept; the rest is for what a release
    makes of them (`releasing/planning.py`).
    """
    limit = psutil.virtual_memory().available // 4 if memory_limit is None else memory_limit // 2
    coding = coders(domain)
    row_bytes = sum(coder.dtype.itemsize for coder in coding.values())
    rows = min(source.likely_rows, limit // row_bytes + 1)  # more would be streamed
    columns = {name: _Column(coder, rows) for name, coder in coding.items()}
    tell = Steps(progress)
    nbytes = 0
    for raw, share in source.batches(domain.names):
        if nbytes <= limit:
            for name, coder in coding.items():
                nbytes += columns[name].add(coder.code(raw[name]))
        if nbytes > limit:
            columns.clear()
        tell(share)
    tell(1.0)
    if nbytes > limit:
        least = MIN_CELLS_PER_PASS if memory_limit is None else LEAST_CELLS_PER_PASS
        return StreamEngine(
            domain, source, cells=max(least, limit // 16), room=None if memory_limit is None else limit
        )
    source.close()
    codes = {name: column.codes for name, column in columns.items()}
    return MemoryEngine(domain, codes, room=None if memory_limit is None else memory_limit // 8)


class Steps:
    """Tells the progress in steps of 5 %, so that the number of calls says nothing about the table."""

    def __init__(self, progress: Callable[[float], None] | None) -> None:
        self._progress = progress
        self._step = 0

    def __call__(self, share: float) -> None:
        while self._progress is not None and share * 20 >= self._step <= 20:
            self._progress(self._step / 20)
            self._step += 1


def _kept_cells(room: int | None) -> int:
    """Cells of four bytes that are kept for later questions, in half of the room for tables."""
    return MAX_KEPT_CELLS if room is None else min(MAX_KEPT_CELLS, max(LEAST_CELLS_PER_PASS, room // 8))


def _check_records(rows: int) -> None:
    """For the owner who opens a table: no question is answered before its rows were passed over once."""
    if rows > MAX_RECORDS:
        raise SourceError(f"expected a table of at most {MAX_RECORDS:,} records; split it or take a sample")


class _Column:
    """Codes that grow in place: room is doubled column by column, and room that is not used takes no memory."""

    def __init__(self, coder: Coder, rows: int) -> None:
        """`rows` are those that there seem to be: room for so many is made at once."""
        self._room = np.empty(rows, dtype=coder.dtype)
        self._rows = 0

    @property
    def codes(self) -> NDArray[Any]:
        return self._room[: self._rows]

    def add(self, codes: NDArray[Any]) -> int:
        """How many bytes they take."""
        end = self._rows + len(codes)
        if end > len(self._room):
            room = np.empty(max(end, 2 * self._rows), dtype=self._room.dtype)
            room[: self._rows] = self.codes
            self._room = room
        self._room[self._rows : end] = codes
        self._rows = end
        return codes.nbytes


def _stacked(batches: Sequence[Coded], names: Sequence[str]) -> Coded:
    if len(batches) == 1:
        return batches[0]
    return {name: np.concatenate([batch[name] for batch in batches]) for name in names}


def _frozen(column: NDArray[Any]) -> NDArray[Any]:
    view = column.view()
    view.flags.writeable = False
    return view
