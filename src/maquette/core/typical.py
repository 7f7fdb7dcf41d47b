"""How far released rows are off typically: quantiles of the errors of listed questions, and means over whole tables.

For a table of n records and m released rows, c records and r rows meet a question, which is off by |c - n r / m|. A
table over some columns is off by half of the sum of that over its cells, the total variation in counts.

    QUANTILE   of some conjunctions of intervals, the k-th smallest of their errors
    DISTANCE   the mean over some tables of their total variation

Sensitivity 1. Adding a record moves c - n r / m by [in] - r / m, replacing one by [in] - [in], both in [-1, 1]. So the
errors of all questions move by at most 1 each, and the k-th smallest of numbers that move by at most 1 moves by at
most 1. In a table a further record moves its own cell by 1 - r / m and all others by as much together, an exchanged one
moves two cells by 1: half of the sum moves by at most 1. A mean of such numbers moves by no more, and neither does what
is rounded up to whole counts. Which questions and tables these are has no say in it, as long as they are public or
follow from released values.

Numbers fit into 64 bits: with n <= 2^32 records and m < 2^30 rows, c m, r n and their sums over a table are below 2^63.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from maquette.core import bounds
from maquette.core.any_order import Axis, Codes
from maquette.core.combinations import ReleasedRows
from maquette.core.errors import ParameterError
from maquette.core.forms import Margin
from maquette.core.tables import count_margins
from maquette.core.universe import Universe

Integers = NDArray[np.int64]

MAX_QUESTIONS = 2**16
MAX_CELLS = 2**26
"""Of all tables of a question together."""


@dataclass(frozen=True, slots=True, eq=False)
class Conjunctions:
    """Questions: of each, some columns by their places among those of the rows, and an interval of codes on each."""

    columns: Codes
    """Questions by places."""
    low: Codes
    high: Codes
    """The last code of the interval."""

    def __len__(self) -> int:
        return len(self.columns)

    def counts(self, codes: Codes, times: Integers) -> Integers:
        """How many of some records meet each question; `times` says how often each record is there."""
        meeting = np.zeros(len(self), dtype=np.int64)
        by_column = np.asfortranarray(codes)
        for q in range(len(self)):
            inside = np.ones(len(codes), dtype=bool)
            for column, low, high in zip(self.columns[q], self.low[q], self.high[q], strict=True):
                values = by_column[:, column]
                inside &= values >= low
                inside &= values <= high
            meeting[q] = times[inside].sum()
        return meeting

    def check(self, axes: Sequence[Axis]) -> None:
        """Refuses what is no list of questions about these columns. Public arguments only."""
        for array in (self.columns, self.low, self.high):
            bounds.check_type(array, np.ndarray, "questions in arrays")
            if array.dtype != np.uint16 or array.ndim != 2 or array.shape != self.columns.shape:
                raise ParameterError("expected questions as arrays of 16-bit codes, all of one shape")
        number, places = self.columns.shape
        if not 1 <= number <= MAX_QUESTIONS or not 1 <= places <= len(axes):
            raise ParameterError(
                f"expected 1 to {MAX_QUESTIONS:,} questions on at most as many columns as there are"
            )
        if int(self.columns.max()) >= len(axes):
            raise ParameterError("expected places of columns that the released rows have")


@dataclass(frozen=True, slots=True, eq=False)
class Quantile:
    """The `rank`-th smallest error of some questions, from 1 on."""

    questions: Conjunctions
    rank: int


@dataclass(frozen=True, slots=True)
class Distance:
    """The mean total variation of some tables."""

    margins: tuple[Margin, ...]


TypicalError = Quantile | Distance


@dataclass(frozen=True, slots=True, eq=False)
class TypicalQuestion:
    """How far released rows are off typically, checked."""

    released: ReleasedRows
    statistics: tuple[TypicalError, ...]

    @classmethod
    def of(
        cls, domain: Universe, released: ReleasedRows, statistics: Sequence[TypicalError]
    ) -> TypicalQuestion:
        """Refuses what the sensitivity does not hold for. Public arguments only."""
        bounds.check_type(released, ReleasedRows, "released rows with the names of their columns")
        axes = released.check(domain)
        bounds.check_type(statistics, (list, tuple), "a list of typical errors")
        if not statistics:
            raise ParameterError("expected some typical errors")
        for one in statistics:
            if isinstance(one, Quantile):
                bounds.check_type(one.questions, Conjunctions, "questions as conjunctions of intervals")
                one.questions.check(axes)
                bounds.check_whole(one.rank, least=1, most=len(one.questions), what="the rank of an error")
            else:
                bounds.check_type(one, Distance, "a quantile of errors or a mean over tables")
                _check_margins(domain, released.names, one.margins)
        return cls(released, tuple(statistics))

    def request(self) -> dict[str, Any]:
        """Everything that decides the numbers, for the ledger."""
        return {
            "ask": "typical errors",
            "statistics": [_described(one) for one in self.statistics],
        } | self.released.request()

    def errors(
        self,
        domain: Universe,
        *,
        records: Callable[[], tuple[Codes, Integers]],
        tables: Callable[[Sequence[Margin]], Iterable[tuple[Margin, Integers]]],
    ) -> Integers:
        """Every statistic in counts, rounded up, of records and tables that are fetched where they are needed."""
        has_questions = any(isinstance(one, Quantile) for one in self.statistics)
        codes, times = records() if has_questions else (self.released.codes[:0], np.zeros(0, dtype=np.int64))
        return np.array(
            [
                _quantile(one, self.released.codes, codes, times)
                if isinstance(one, Quantile)
                else _mean_distance(self.released, one.margins, tables(one.margins), domain)
                for one in self.statistics
            ],
            dtype=np.int64,
        )


def _quantile(one: Quantile, rows: Codes, records: Codes, times: Integers) -> int:
    m, n = len(rows), int(times.sum())
    of_rows = one.questions.counts(rows, np.ones(m, dtype=np.int64))
    gaps = np.abs(one.questions.counts(records, times) * m - of_rows * n)
    gaps.partition(one.rank - 1)
    return -(-int(gaps[one.rank - 1]) // m)


def _mean_distance(
    released: ReleasedRows,
    margins: Sequence[Margin],
    tables: Iterable[tuple[Margin, Integers]],
    domain: Universe,
) -> int:
    m, total = len(released.codes), 0
    columns = {name: released.codes[:, i] for i, name in enumerate(released.names)}
    for margin, counts in tables:
        of_rows = count_margins(domain.sizes, columns, [margin])[margin].reshape(counts.shape)
        total += int(np.abs(counts * m - of_rows * int(counts.sum())).sum())
    return -(-total // (2 * m * len(margins)))


def _check_margins(domain: Universe, names: Margin, margins: object) -> None:
    """Some tables over columns of the rows, each once, not too large."""
    bounds.check_type(margins, tuple, "tables in a tuple")
    margins = cast("tuple[Margin, ...]", margins)
    bounds.check_margins(domain, margins)
    if not margins or len(set(margins)) < len(margins):
        raise ParameterError("expected some tables, each once")
    if any(not margin or not set(margin) <= set(names) for margin in margins):
        raise ParameterError("expected tables over columns of the released rows")
    if sum(domain.cells(margin) for margin in margins) > MAX_CELLS:
        raise ParameterError(f"expected tables of at most {MAX_CELLS:,} cells together")


def _described(one: TypicalError) -> dict[str, Any]:
    if isinstance(one, Distance):
        return {"tables": [list(margin) for margin in one.margins]}
    hasher = hashlib.sha256()
    for array in (one.questions.columns, one.questions.low, one.questions.high):
        hasher.update(np.ascontiguousarray(array, dtype="<u2").data)
    return {"questions": hasher.hexdigest(), "shape": list(one.questions.columns.shape), "rank": one.rank}
