"""Exact answers over the coded rows, kept in memory or read anew on every pass. Only the gate may ask."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from maquette.core import any_order, group_means
from maquette.core.answering import PartCounts, joined, parts_of
from maquette.core.answers import Answers, count_errors, signed_errors
from maquette.core.binned import Binned
from maquette.core.class_errors import WHOLE, ClassQuestion, TableSets, gaps, largest_error, weigh
from maquette.core.combinations import CombinationQuestion, axes_of
from maquette.core.errors import SourceError
from maquette.core.forms import Margin, QueryForms
from maquette.core.group_means import GroupMeansQuestion
from maquette.core.rows.commitment import in_order, is_in_order, lane_keys, seal
from maquette.core.rows.counting import (
    MANY_ROWS,
    MAX_KEPT_CELLS,
    BinnedTask,
    Coded,
    CountTask,
    Integers,
    RecordsTask,
    TableCache,
    Task,
    plan_tables,
    summed,
)
from maquette.core.typical import TypicalQuestion
from maquette.core.universe import Universe

T = TypeVar("T")

MAX_RECORDS = 2**32
"""Records of a table. Because of it exact counts times public factors fit into 64 bits (`core/bounds.py`)."""
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

    __slots__ = ("__weakref__", "_tables", "domain")

    lists_records = False
    """Can whole records be had on this machine, for `distinct_records`? Public: it goes by the kind of table."""

    def __init__(self, domain: Universe) -> None:
        self.domain = domain
        self._tables: TableCache | None = None

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

    def distinct_records(self, names: Sequence[str]) -> tuple[any_order.Codes, Integers]:
        """The distinct records over some attributes, and how many of each there are."""
        raise SourceError("the records of this table are not collected on this machine")

    def size(self) -> int:
        """n, the number of records."""
        return int(self.margins([()])[()])

    def answer(self, query_forms: QueryForms) -> Integers:
        """Numerators of all answers: one pass, however many forms are asked."""
        parts = parts_of(query_forms, self.domain.sizes)
        on_rows = tuple(part for part in parts if part.names)
        tables, sums = self._counts([m for part in parts for m in part.margins], on_rows)
        of_rows = iter(sums)
        return joined(
            query_forms,
            [part.answers(tables, next(of_rows) if part.names else part.zeros()) for part in parts],
        )

    def margins(self, margins: Sequence[Margin]) -> dict[Margin, Integers]:
        """Tables over a few attributes each."""
        return self._counts(margins, ())[0]

    def binned(self, tables: Sequence[Binned]) -> list[Integers]:
        """The counts of tables in bins, each flat."""
        counts: dict[Binned, Integers] = {}
        distinct = list(dict.fromkeys(tables))
        for some in in_passes(distinct, lambda table: table.cells, self.cells_per_pass):
            counts |= zip(some, self.fold(BinnedTask(self.domain, tuple(some))), strict=True)
        return [counts[table] for table in tables]

    def commitment(self, salt: bytes, *, like: str | None = None) -> str:
        """A keyed digest of the multiset of coded records, or by the scheme of `like` if that is an older one."""
        if is_in_order(like):
            return in_order(self.domain, self.in_order(), salt)
        sums, n = self.fold(RecordsTask(self.domain, lane_keys(salt)))
        return seal(self.domain, salt, sums, int(n[0]))

    def _counts(
        self, margins: Sequence[Margin], parts: tuple[PartCounts, ...]
    ) -> tuple[dict[Margin, Integers], list[Sequence[Integers]]]:
        """Tables, and the sums of forms that are looked at record by record."""
        order = tuple(dict.fromkeys(tuple(margin) for margin in margins))
        cache = self._table_cache()
        cached = {m: t for m in order if cache and (t := cache.get(m)) is not None}
        missing = [margin for margin in order if margin not in cached]
        if order and not missing and not parts:
            return cached, []
        most = min(self.cells_per_pass, MIN_CELLS_PER_PASS)
        source = plan_tables(self.domain, missing, rows=self._rows(), most=most)
        counts: dict[Margin, Integers] = {}
        of_parts: list[Sequence[Integers]] = []
        wide = list(dict.fromkeys(source.values()))
        for i, some in enumerate(in_passes(wide, self.domain.cells, self.cells_per_pass) or [[]]):
            task = CountTask(self.domain, tuple(some), () if i else parts)
            sums = self.fold(task)
            tables = dict(zip(some, sums, strict=False))
            if not i:
                of_parts = task.sums_of_parts(sums)
            for margin in (m for m in missing if source[m] in tables):
                table = tables[source[margin]].reshape([self.domain[name].size for name in source[margin]])
                counts[margin] = summed(table, source[margin], margin)
        if cache:
            cache.add(counts)
        return cached | counts, of_parts

    def _table_cache(self) -> TableCache | None:
        """The tables of earlier passes, where a pass is dear and they are still those of the table."""
        return self._tables

    def _rows(self) -> int | None:
        """The number of records where it costs nothing to know; None elsewhere."""
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.domain!r})"

    def __reduce__(self) -> NoReturn:
        raise SourceError("a private table cannot be copied or pickled; open it again where it is needed")


class BatchEngine(Engine):
    """A table whose coded rows come in batches to this process."""

    __slots__ = ()

    lists_records = True

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

    def distinct_records(self, names: Sequence[str]) -> tuple[any_order.Codes, Integers]:
        """Equal records are brought together whenever there are twice as many as were left before."""
        axes = axes_of(self.domain, names)
        codes, times = np.zeros((0, len(names)), dtype=np.uint16), np.zeros((0, 1), dtype=np.int64)
        waiting: list[any_order.Codes] = []
        rows = 0
        for batch in self._batches(names):
            waiting.append(np.stack([batch[name] for name in names], axis=1).astype(np.uint16))
            rows += len(waiting[-1])
            if rows >= max(ROWS, len(codes)):
                codes, times = _brought_together(axes, codes, times, waiting)
                waiting, rows = [], 0
        codes, times = _brought_together(axes, codes, times, waiting)
        return codes, times[:, 0]

    def in_order(self) -> Iterator[Coded]:
        return self._batches(self.domain.names)


def _brought_together(
    axes: Sequence[any_order.Axis], codes: any_order.Codes, times: Integers, more: Sequence[any_order.Codes]
) -> tuple[any_order.Codes, Integers]:
    """Distinct records with their numbers, and further records, as distinct records."""
    single = [np.ones((len(part), 1), dtype=np.int64) for part in more]
    return any_order.fold(axes, np.concatenate([codes, *more]), np.concatenate([times, *single]))


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

    def __init__(self, domain: Universe, columns: Coded, *, room: int | None = None) -> None:
        """`room` is a limit on the bytes of tables: half of them are counted at once, half are kept."""
        super().__init__(domain)
        self._columns = {name: _frozen(columns[name]) for name in domain.columns}
        self._room = room
        check_records(self._rows())
        if self._rows() >= MANY_ROWS:
            self._tables = TableCache(domain, cells=kept_cells(room))

    @property
    def cells_per_pass(self) -> int:
        most = MIN_CELLS_PER_PASS if self._tables else 2**21
        if self._room is None:
            return most
        return min(most, max(LEAST_CELLS_PER_PASS, self._room // (16 * THREADS)))

    def _rows(self) -> int:
        return len(self._columns[self.domain.names[0]])

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


def kept_cells(room: int | None) -> int:
    """Cells of four bytes that are kept for later questions, in half of the room for tables."""
    return MAX_KEPT_CELLS if room is None else min(MAX_KEPT_CELLS, max(LEAST_CELLS_PER_PASS, room // 8))


def check_records(rows: int) -> None:
    """For the owner who opens a table: no question is answered before its rows were passed over once."""
    if rows > MAX_RECORDS:
        raise SourceError(f"expected a table of at most {MAX_RECORDS:,} records; split it or take a sample")


def _frozen(column: NDArray[Any]) -> NDArray[Any]:
    view = column.view()
    view.flags.writeable = False
    return view


def errors_of(
    engine: Engine, query_forms: QueryForms, answers: Answers, *, signed: bool = False
) -> NDArray[np.int64]:
    """The error of every released answer in whole counts (`core/answers.py`)."""
    score = signed_errors if signed else count_errors
    return score(engine.answer(query_forms), query_forms.top, answers, engine.size())


def largest_by_part(
    engine: Engine, query_forms: QueryForms, answers: Answers, parts: Sequence[tuple[int, int]]
) -> NDArray[np.int64]:
    """The largest error in each part; a long class is counted piece by piece."""
    largest = np.zeros(len(parts), dtype=np.int64)
    for begin, piece in query_forms.pieces(engine.domain.sizes, most=engine.cells_per_pass):
        end = begin + piece.count(engine.domain.sizes)
        errors = errors_of(engine, piece, Answers(answers.numerators[begin:end], answers.denominator))
        for i, (start, stop) in enumerate(parts):
            inside = errors[max(start - begin, 0) : max(stop - begin, 0)]
            largest[i] = max(largest[i], inside.max(initial=0))
    return largest


def largest_errors(engine: Engine, question: ClassQuestion) -> NDArray[np.int64]:
    """The largest weighted |count - n share| of every class, rounded up: see `core/class_errors.py` for why one
    record moves each of them by at most 1."""
    largest = [0] * len(question.names)
    for margins in in_passes(list(question.by_margin), engine.domain.cells, engine.cells_per_pass):
        for margin, counts in engine.margins(margins).items():
            shares = question.shares[margin].astype(np.int64, copy=False).reshape(counts.shape)
            gap = gaps(counts, shares, question.denominator)
            errors: dict[TableSets, int] = {}  # classes have tables in common
            for place, table, weight in question.by_margin[margin]:
                if table not in errors:
                    errors[table] = largest_error(table, gap, question.denominator)
                largest[place] = max(largest[place], weigh(errors[table], weight, whole=WHOLE))
    return np.array(largest, dtype=np.int64)


def combination_errors(engine: Engine, question: CombinationQuestion) -> NDArray[np.int64]:
    """The largest |count - n share| over every family of combinations, rounded up: `core/any_order.py`."""
    records, times = engine.distinct_records(question.released.names)
    released = question.released.codes
    errors = any_order.largest_errors(question.axes, records, released, question.statistics, times=times)
    return np.array(errors, dtype=np.int64)


def group_mean_errors(engine: Engine, question: GroupMeansQuestion) -> NDArray[np.int64]:
    """The largest error over the means of all groups, rounded up: `core/group_means.py`."""
    records, times = engine.distinct_records(question.released.names)
    rows, statistic = question.released.codes, question.statistic
    error = group_means.largest_error(question.axes, records, rows, statistic, times=times)
    return np.array([error], dtype=np.int64)


def typical_errors(engine: Engine, question: TypicalQuestion) -> NDArray[np.int64]:
    """Quantiles of errors and mean distances of tables, rounded up: `core/typical.py`."""

    def tables(margins: Sequence[Margin]) -> Iterator[tuple[Margin, Integers]]:
        for some in in_passes(margins, engine.domain.cells, engine.cells_per_pass):
            yield from engine.margins(some).items()

    names = question.released.names
    return question.errors(engine.domain, records=lambda: engine.distinct_records(names), tables=tables)


def distances(
    engine: Engine, binned: Sequence[Binned], references: Sequence[NDArray[np.int64]]
) -> NDArray[np.int64]:
    """The L1 distance in counts of every table to its public reference."""
    passes = in_passes(binned, lambda table: table.cells, engine.cells_per_pass)
    exact = (counts for batch in passes for counts in engine.binned(batch))
    pairs = zip(exact, references, strict=True)
    return np.array([np.abs(counts - public).sum() for counts, public in pairs], dtype=np.int64)
