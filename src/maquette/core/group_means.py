"""The largest error of released rows over the means of all groups and all columns with numbers, in whole numbers.

A group has a value of each of some columns, and another column c has a number from 0 to R for each of its declared
cells. Let m_g be the mean number of the released rows of the group that have one, rounded down to a grid, R / 2 where
there is no such row: a public number between 0 and R. The error of the group is

    |sum over the records of the group that have a number v of (v - m_g)| / R,    rounded up to whole records,

and what is certified is the largest over all groups on at most so many columns, c among them. With n_g records that
have a number, the true mean is off from m_g by the error times R / n_g.

Sensitivity 1. A record adds (v - m_g) / R to the sum of each group that it is in, nothing to others, and nothing where
it has no number: adding one moves a sum by at most 1 and replacing one by the difference of two such weights, which all
lie in [-m_g / R, 1 - m_g / R], an interval of length 1 that contains 0. Neither absolute value, largest of many nor
rounding up moves by more. What is visited has no say in it: order and floor are public, and nothing stops by the work
done.

Search. The error of a group is at most its number of records, which shrinks as columns are added: depth first over
columns, a cell is divided further only while it has more records than the largest error found so far.

Numbers fit into 64 bits: with n <= 2^32 records, numbers up to 2^12 and means in steps of 2^-16, all sums are at most
2^60.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.core import _lazy_numba as numba
from maquette.core import any_order, bounds
from maquette.core.any_order import Axis, Codes, Folded, columns_first
from maquette.core.combinations import ReleasedRows
from maquette.core.errors import ParameterError
from maquette.core.universe import Universe

Integers = NDArray[np.int64]

MAX_NUMBER = 2**12
MAX_WORK = 2**32
"""Steps of a search that its number of columns is chosen for: some seconds."""
_BITS = 30
_ROWS = 2**_BITS - 1
_GRID = 16
"""Means are rounded to multiples of 2^-16."""


@dataclass(frozen=True, slots=True)
class GroupMeans:
    """The largest error of means over groups, on at most `order` columns together, and at least `floor` records."""

    numbers: tuple[tuple[int, ...], ...]
    """For every column of the rows the numbers of its declared cells; none where it has no mean."""
    order: int
    floor: int = 0

    def check(self, axes: Sequence[Axis]) -> None:
        """Refuses what the sensitivity does not hold for. Public arguments only."""
        bounds.check_list(self.numbers, tuple, "numbers in tuples")
        bounds.check_type(self.numbers, tuple, "numbers of every column in a tuple")
        for column in self.numbers:
            bounds.check_list(column, int, "whole numbers of cells")
        bounds.check_whole(self.order, least=1, most=any_order.MAX_COLUMNS, what="a number of columns")
        bounds.check_whole(self.floor, least=0, most=bounds.RECORDS, what="the least error that is stated")
        if len(self.numbers) != len(axes) or not any(self.numbers):
            raise ParameterError(
                "expected numbers for every column of the released rows, some of them not empty"
            )
        for column, axis in zip(self.numbers, axes, strict=True):
            is_whole = len(column) in (0, axis.declared) and min(column, default=0) >= 0
            if not is_whole or (column and not 1 <= max(column) <= MAX_NUMBER):
                raise ParameterError(
                    f"expected a number from 0 to {MAX_NUMBER:,} for every declared cell of a column, one above 0"
                )


@dataclass(frozen=True, slots=True, eq=False)
class GroupMeansQuestion:
    """The largest error of released rows over group means, checked."""

    released: ReleasedRows
    axes: tuple[Axis, ...]
    statistic: GroupMeans

    @classmethod
    def of(cls, domain: Universe, released: ReleasedRows, statistic: GroupMeans) -> GroupMeansQuestion:
        """Public arguments only."""
        bounds.check_type(released, ReleasedRows, "released rows with the names of their columns")
        axes = released.check(domain)
        bounds.check_type(statistic, GroupMeans, "the largest error of group means")
        statistic.check(axes)
        return cls(released, axes, statistic)

    def request(self) -> dict[str, Any]:
        """Everything that decides the number, for the ledger."""
        return {
            "ask": "group mean errors",
            "numbers": [list(column) for column in self.statistic.numbers],
            "order": self.statistic.order,
            "floor": self.statistic.floor,
        } | self.released.request()


def largest_error(
    axes: Sequence[Axis], records: Codes, rows: Codes, statistic: GroupMeans, *, times: Integers | None = None
) -> int:
    """The statistic in counts; `times` says how often each record is there."""
    folded = Folded.of(axes, records, rows, times=times)
    order = columns_first(axes, rows)
    best, _ = _run(axes, folded, statistic.numbers, order, depth=statistic.order, floor=statistic.floor)
    return best


def affordable_order(
    axes: Sequence[Axis], rows: Codes, numbers: Sequence[tuple[int, ...]], *, records: float, floor: int
) -> int:
    """The number of columns up to which a search over about so many records is affordable; 0 if none.

    From released rows alone, as for combinations: a search between a sample of them and itself finds no error, and so
    divides every cell above the floor.
    """
    d, m = len(axes), len(rows)
    sample = rows[:: max(1, m // any_order.SAMPLE)]
    same = Folded.of(axes, sample, sample)
    least = max(1, round(floor * len(sample) / max(records, 1.0)))
    limit = max(1, int(MAX_WORK * 2 * len(sample) / (d * (records + m))))
    order = columns_first(axes, rows)
    able = 0
    for depth in range(1, d + 1):
        _, work = _run(axes, same, numbers, order, depth=depth, floor=least, limit=limit)
        if work >= limit:
            break
        able = depth
    return able


def _run(
    axes: Sequence[Axis],
    folded: Folded,
    numbers: Sequence[tuple[int, ...]],
    order: Integers,
    *,
    depth: int,
    floor: int,
    limit: int = 2**62,
) -> tuple[int, int]:
    """The largest error and at least the floor, and how many records were looked at."""
    d, distinct, levels = len(axes), len(folded.codes), min(len(axes), depth)
    starts = np.cumsum([0, *(axis.size for axis in axes)]).astype(np.int64)
    total = int(starts[-1])
    flat, ranges = np.zeros(total, dtype=np.int64), np.zeros(d, dtype=np.int64)
    declared = np.array([len(column) for column in numbers], dtype=np.int64)
    for c, column in enumerate(numbers):
        flat[starts[c] : starts[c] + len(column)] = column
        ranges[c] = max(column, default=0)
    codes = np.empty((levels, distinct, d), dtype=np.uint16)
    counts = np.empty((levels, distinct), dtype=np.int64)
    codes[0], counts[0] = folded.codes, (folded.records << _BITS) + folded.rows
    ends = np.zeros((2, levels), dtype=np.int64)
    ends[1, 0] = distinct
    best = np.array([floor], dtype=np.int64)
    work = _search(
        codes,
        counts,
        starts,
        starts.astype(np.uint64),
        flat,
        ranges,
        declared,
        order,
        best,
        ends,
        np.zeros((3, levels), dtype=np.int64),
        np.zeros(d, dtype=np.int64),
        np.zeros((levels, total), dtype=np.int64),
        np.zeros((2, levels, total), dtype=np.int64),
        np.zeros(max(axis.size for axis in axes), dtype=np.int64),
        np.zeros(d, dtype=np.uint64),
        np.int64(limit),
    )
    return int(best[0]), int(work)


@numba.njit(cache=True, nogil=True, plain=True)
def _error(sums: Any, numbers: Any, first: Any, declared: Any, top: Any) -> Any:
    """The error of a group's mean on one column, rounded up to whole records."""
    n = m = of_records = of_rows = np.int64(0)
    for i in range(first, first + declared):
        records, rows = sums[i] >> _BITS, sums[i] & _ROWS
        n += records
        m += rows
        of_records += records * numbers[i]
        of_rows += rows * numbers[i]
    mean = (of_rows << _GRID) // m if m > 0 else top << (_GRID - 1)
    gap = (of_records << _GRID) - mean * n
    gap = -gap if gap < 0 else gap
    return -(-gap // (top << _GRID))


@numba.njit(cache=True, nogil=True, plain=True)
def _search(
    codes: Any,
    counts: Any,
    starts: Any,
    offsets: Any,
    numbers: Any,
    ranges: Any,
    declared: Any,
    order: Any,
    best: Any,
    ends: Any,
    places: Any,
    is_fixed: Any,
    cells: Any,
    lies: Any,
    place: Any,
    columns: Any,
    limit: Any,
) -> Any:
    """Depth first; a level holds the records of a group.

    By level: `ends`, where its records lie; `places`, the first place in the order of columns that it may be divided
    by, the place of the column that it is being divided by, and the value of that; `cells`, the counts of all values;
    `lies`, from where to where the records of a value lie at the next level.
    """
    d, levels = len(order), len(codes)
    level, work, is_new = np.int64(0), np.int64(0), True
    while level >= 0 and work < limit:
        here, times, sums = codes[level], counts[level], cells[level]
        low, high = ends[0, level], ends[1, level]
        if is_new:
            is_new = False
            count = np.int64(0)
            for p in range(d):
                c = order[p]
                if is_fixed[c] == 0 and (ranges[c] > 0 or p >= places[0, level]):
                    columns[count] = c
                    count += 1
                    for i in range(starts[c], starts[c + 1]):
                        sums[i] = 0
            for r in range(low, high):
                both = times[r]
                for j in range(count):
                    c = columns[j]
                    sums[offsets[c] + np.uint64(here[r, c])] += both
            work += high - low
            for j in range(count):
                c = np.int64(columns[j])
                if ranges[c] > 0:
                    error = _error(sums, numbers, starts[c], declared[c], ranges[c])
                    best[0] = error if error > best[0] else best[0]
            places[1, level], places[2, level] = places[0, level] - 1, d + starts[d]
        p = places[1, level]
        if p >= places[0, level]:
            c = order[p]
            places[2, level] += 1
            v = places[2, level]
            if v < starts[c + 1] - starts[c]:
                i = starts[c] + v
                if lies[0, level, i] >= 0 and (sums[i] >> _BITS) > best[0]:
                    ends[0, level + 1], ends[1, level + 1] = lies[0, level, i], lies[1, level, i]
                    places[0, level + 1] = p + 1
                    is_fixed[c] = 1
                    level += 1
                    is_new = True
                continue
        p += 1
        places[1, level] = p
        if level + 1 >= levels or p >= d:
            level -= 1
            if level >= 0:
                is_fixed[order[places[1, level]]] = 0
            continue
        c = order[p]
        is_any = False
        for i in range(starts[c], starts[c + 1]):
            is_divided = (sums[i] >> _BITS) > best[0]
            place[i - starts[c]] = 0 if is_divided else -1
            is_any = is_any or is_divided
        places[2, level] = -1 if is_any else starts[c + 1] - starts[c]
        if not is_any:
            continue
        for r in range(low, high):
            v = here[r, c]
            if place[v] >= 0:
                place[v] += 1
        room = np.int64(0)
        for i in range(starts[c], starts[c + 1]):
            v = i - starts[c]
            lies[0, level, i] = -1
            if place[v] >= 0:
                lies[0, level, i] = room
                room += place[v]
                lies[1, level, i] = room
                place[v] = lies[0, level, i]
        there, times_there = codes[level + 1], counts[level + 1]
        for r in range(low, high):
            v = here[r, c]
            to = place[v]
            if to >= 0:
                for k in range(d):
                    there[to, k] = here[r, k]
                times_there[to] = times[r]
                place[v] = to + 1
        work += high - low
    return work
