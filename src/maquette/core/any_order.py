"""The largest error of released rows over every combination of values of any number of columns, in exact whole numbers.

For a table of n records and m released rows, the gap of a set of cells is c m - r n: c records and r rows are in it.
The largest absolute gap over a family of sets, divided by m and rounded up, is the statistic that is certified. Three
families, each inside the next; nulls and other values are values:

    CELL    z_i = v_i for every column i of some set of columns
    RANGE   the same, and on one of the columns an interval of declared cells instead of a value
    LIST    the same, and on one of the columns any set of values

Each by the number of columns, at most so many.

Search. The gap of a set lies within max(c m, r n) of the cell that it is a part of, and both shrink as columns are
added. Depth first over columns: records and rows are divided together by the next column, the largest gaps are kept,
and a cell is divided further only while max(c m, r n) exceeds the smallest of them that it could raise.

Sensitivity 1, by the lemma for any family (adding a record moves c - n r / m by [in] - r / m, replacing one by
[in] - [in], both in [-1, 1]; neither the largest of such numbers, nor its rounding up, nor a floor below it moves by
more). What is visited has no say in the result: floor, number of columns and their order are public, and nothing stops
by the work done.

Numbers fit into 64 bits: with n <= 2^32 records and m < 2^30 rows all gaps are at most n m in absolute value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.core import _lazy_numba as numba
from maquette.core.errors import ParameterError

Integers = NDArray[np.int64]
Codes = NDArray[np.uint16]
"""Records by columns."""

MAX_VALUES = 2**12
"""Values of a column, nulls and others among them: every visited cell looks at all of them."""
MAX_COLUMNS = 64
SAMPLE = 2**10
"""Rows that the work of a search is estimated on."""
MAX_WORK = 2**36
"""Steps of a search that its number of columns is chosen for: about a minute."""


_BITS = 30
"""Records and rows are counted in one number, the rows in so many bits of it: there are fewer of them."""
MAX_ROWS = 2**_BITS - 1


class Family(IntEnum):
    """What one of the columns may have instead of a value."""

    CELL = 0
    RANGE = 1
    LIST = 2


@dataclass(frozen=True, slots=True)
class Axis:
    """One column: its values, how many of them are declared cells, and whether these have an order."""

    size: int
    declared: int
    ordered: bool


@dataclass(frozen=True, slots=True)
class Statistic:
    """The largest gap over a family, on at most `order` columns, and at least that of `floor` records."""

    family: Family
    order: int
    floor: int = 0


@dataclass(frozen=True, slots=True)
class Folded:
    """Distinct records and rows, each with how many of them there are."""

    codes: Codes
    records: Integers
    rows: Integers

    @classmethod
    def of(
        cls, axes: Sequence[Axis], records: Codes, rows: Codes, *, times: Integers | None = None
    ) -> Folded:
        """Records and rows together; `times` says how often each record is there, once where it is None."""
        counts = np.zeros((len(records) + len(rows), 2), dtype=np.int64)
        counts[: len(records), 0] = 1 if times is None else times
        counts[len(records) :, 1] = 1
        codes, sums = fold(axes, np.concatenate([records, rows]), counts)
        return cls(codes, sums[:, 0], sums[:, 1])


def fold(axes: Sequence[Axis], codes: Codes, counts: Integers) -> tuple[Codes, Integers]:
    """Distinct records, each with the sum of the counts (records by kinds of counts) that equal ones have."""
    if not len(codes):
        return codes, counts
    order, starts = _runs(axes, codes)
    return codes[order[starts]], np.add.reduceat(counts[order], starts, axis=0)


def _runs(axes: Sequence[Axis], codes: Codes) -> tuple[Integers, Integers]:
    """An order in which equal records follow each other, and where each of them begins."""
    words: list[NDArray[np.uint64]] = []
    room = 0
    for i, axis in enumerate(axes):
        if not words or room < axis.size:
            words.append(np.zeros(len(codes), dtype=np.uint64))
            room = 2**64
        words[-1] = words[-1] * np.uint64(axis.size) + codes[:, i]
        room //= axis.size
    order = np.argsort(words[0], kind="stable") if len(words) == 1 else np.lexsort(words)
    new = np.ones(len(codes), dtype=bool)
    new[1:] = np.any([word[order][1:] != word[order][:-1] for word in words], axis=0)
    return order.astype(np.int64), np.flatnonzero(new)


def check_axes(axes: Sequence[Axis]) -> None:
    """Refuses columns that the search is not made for."""
    if not 1 <= len(axes) <= MAX_COLUMNS or any(not 1 <= axis.size <= MAX_VALUES for axis in axes):
        raise ParameterError(
            f"expected 1 to {MAX_COLUMNS} columns of at most {MAX_VALUES:,} values each for combinations of values"
        )


def largest_errors(
    axes: Sequence[Axis],
    records: Codes,
    rows: Codes,
    statistics: Sequence[Statistic],
    *,
    times: Integers | None = None,
) -> list[int]:
    """Every statistic in counts, rounded up; `times` says how often each record is there."""
    m = len(rows)
    folded = Folded.of(axes, records, rows, times=times)
    best = np.array([one.floor * m for one in statistics], dtype=np.int64)
    order = columns_first(axes, rows)
    deepest = max(one.order for one in statistics)
    for depth in dict.fromkeys((min(2, deepest), deepest)):  # gaps of few columns leave fewer cells to divide
        _run(axes, folded, statistics, order, best, depth=depth)
    return [-(-int(gap) // m) for gap in best]


def columns_first(axes: Sequence[Axis], rows: Codes) -> Integers:
    """The order of the columns: those that divide the released rows most come first."""
    common = [
        float(((np.bincount(rows[:, i], minlength=axis.size) / max(len(rows), 1)) ** 2).sum())
        for i, axis in enumerate(axes)
    ]
    return np.argsort(np.array(common), kind="stable").astype(np.int64)


def megabytes(columns: int, records: float, order: int) -> float:
    """What a search takes at most, of so many records and rows together."""
    return min(order, columns) * records * (2 * columns + 8) / 1e6


def affordable_order(
    axes: Sequence[Axis],
    rows: Codes,
    *,
    records: float,
    floor: int,
    memory: float,
    work: float = MAX_WORK,
    most: int = MAX_COLUMNS,
) -> int:
    """The number of columns, `most` at most, up to which a search over about so many records is affordable; 0 if none.

    From released rows alone: a search between a sample of them and itself divides every cell above the floor, as often
    as a search of the private records with the same floor will at most, about.
    """
    d, m = len(axes), len(rows)
    deepest = min(d, most)
    both = records + m
    step = max(1, m // SAMPLE)
    sample = rows[::step]
    same = Folded.of(axes, sample, sample)
    least = np.array([max(1, round(floor / max(records, 1.0) * len(sample) ** 2))], dtype=np.int64)
    order, done, before = columns_first(axes, rows), 0, 0.0
    for depth in _depths(deepest):
        if megabytes(d, both, depth) > memory:
            break
        statistic = [Statistic(Family.LIST, depth)]
        steps = _run(axes, same, statistic, order, least.copy(), depth=depth)
        steps *= d * both / max(2 * len(sample), 1)
        if steps > work:
            break
        done = depth
        if before and steps == before:  # nothing is divided that far
            return max(k for k in range(depth, deepest + 1) if megabytes(d, both, k) <= memory)
        if before and steps * (steps / before) > 2 * work:
            break
        before = steps
    return done


def _depths(deepest: int) -> list[int]:
    """Numbers of columns that are tried, half as many again each time: the largest takes most of the work."""
    depths = [1]
    while depths[-1] < deepest:
        depths.append(min(deepest, max(depths[-1] + 1, depths[-1] * 3 // 2)))
    return depths


def _run(
    axes: Sequence[Axis],
    folded: Folded,
    statistics: Sequence[Statistic],
    order: Integers,
    best: Integers,
    *,
    depth: int,
) -> float:
    """Raises `best` to the largest gaps on at most `depth` columns; returns how many records were looked at."""
    d, distinct = folded.codes.shape[1], len(folded.codes)
    levels = min(depth, d)
    starts = np.cumsum([0, *(axis.size for axis in axes)]).astype(np.int64)
    codes = np.empty((levels, distinct, d), dtype=np.uint16)
    counts = np.empty((levels, distinct), dtype=np.int64)
    codes[0], counts[0] = folded.codes, (folded.records << _BITS) + folded.rows
    work = _search(
        codes,
        counts,
        starts,
        np.array([axis.declared if axis.ordered else 0 for axis in axes], dtype=np.int64),
        order,
        np.array([one.family for one in statistics], dtype=np.int64),
        np.array([one.order for one in statistics], dtype=np.int64),
        best,
        np.zeros((levels, int(starts[-1]), 3), dtype=np.int64),
        np.zeros((levels, 5), dtype=np.int64),
        np.zeros(max(axis.size for axis in axes), dtype=np.int64),
        np.zeros(d, dtype=np.int64),
        np.zeros(d, dtype=np.int64),
        np.int64(folded.records.sum()),
        np.int64(folded.rows.sum()),
    )
    return float(work)


_LOW, _HIGH, _FIRST, _PLACE, _VALUE = range(5)
"""Of a level: where the records of its cell lie, the first column that it may be divided by, the one that it is being
divided by, by its place in the order, and the next value of that."""
_COUNTS, _BEGIN, _END = range(3)
"""Of a value of a column at a level: its records and rows, and where they lie at the next level (nowhere: -1)."""
_NO_VALUE = 2**40
_ROWS = 2**_BITS - 1


@numba.njit(cache=True, nogil=True, plain=True)
def _search(
    codes: Any,
    counts: Any,
    starts: Any,
    ranges: Any,
    order: Any,
    families: Any,
    orders: Any,
    best: Any,
    cells: Any,
    levels: Any,
    place: Any,
    used: Any,
    open_columns: Any,
    n: Any,
    m: Any,
) -> Any:
    """Depth first; level L holds the records of a cell of L columns, and counts cells of L + 1."""
    d, depth, zero = len(order), len(levels), np.int64(0)
    work = zero
    takes_free = False
    for s in range(len(families)):
        if families[s] > 0:
            takes_free = True
    levels[0, _HIGH] = codes.shape[1]
    level, is_new = zero, True
    while level >= 0:
        low, high = levels[level, _LOW], levels[level, _HIGH]
        here, times, sums = codes[level], counts[level], cells[level]
        if is_new:
            is_new = False
            count = zero
            for p in range(d):  # without a free column, those before the first are counted elsewhere
                c = order[p]
                if used[c] == 0 and (takes_free or p >= levels[level, _FIRST]):
                    open_columns[count] = c
                    count += 1
                    for i in range(starts[c], starts[c + 1]):
                        sums[i, _COUNTS] = zero
            for r in range(low, high):
                for j in range(count):
                    c = open_columns[j]
                    sums[starts[c] + here[r, c], _COUNTS] += times[r]
            work += high - low
            for j in range(count):
                c = open_columns[j]
                one = above = below = up = down = span = zero
                for i in range(starts[c], starts[c + 1]):
                    both = sums[i, _COUNTS]
                    gap = (both >> _BITS) * m - (both & _ROWS) * n
                    if gap > 0:
                        above += gap
                        one = gap if gap > one else one
                    else:
                        below -= gap
                        one = -gap if -gap > one else one
                    if i - starts[c] < ranges[c]:
                        up = up + gap if up + gap > 0 else zero
                        down = down + gap if down + gap < 0 else zero
                        span = up if up > span else span
                        span = -down if -down > span else span
                span = one if one > span else span
                above = above if above > below else below
                for s in range(len(families)):
                    if orders[s] > level:
                        gap = one if families[s] == 0 else span if families[s] == 1 else above
                        best[s] = gap if gap > best[s] else best[s]
            levels[level, _PLACE] = levels[level, _FIRST] - 1
            levels[level, _VALUE] = _NO_VALUE
        bar = np.int64(-1)
        for s in range(len(families)):
            if orders[s] > level + 1 and (bar < 0 or best[s] < bar):
                bar = best[s]
        p = levels[level, _PLACE]
        if p < levels[level, _FIRST] or levels[level, _VALUE] >= starts[order[p] + 1] - starts[order[p]]:
            p += 1
            levels[level, _PLACE] = p
            if p >= d or level + 1 >= depth or bar < 0:
                level -= 1
                if level >= 0:
                    used[order[levels[level, _PLACE]]] = zero
                continue
            c = order[p]
            levels[level, _VALUE] = _NO_VALUE
            if p == d - 1 and not takes_free:
                continue
            some = False
            for i in range(starts[c], starts[c + 1]):
                both = sums[i, _COUNTS]
                is_divided = (both >> _BITS) * m > bar or (both & _ROWS) * n > bar
                place[i - starts[c]] = zero if is_divided else -1
                some = some or is_divided
            if not some:
                continue
            for r in range(low, high):
                v = here[r, c]
                if place[v] >= 0:
                    place[v] += 1
            room = zero
            for i in range(starts[c], starts[c + 1]):
                sums[i, _BEGIN] = -1
                if place[i - starts[c]] >= 0:
                    sums[i, _BEGIN] = room
                    room += place[i - starts[c]]
                    sums[i, _END] = room
                    place[i - starts[c]] = sums[i, _BEGIN]
            levels[level, _VALUE] = zero
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
            continue
        c = order[p]
        i = starts[c] + levels[level, _VALUE]
        levels[level, _VALUE] += 1
        both = sums[i, _COUNTS]
        if sums[i, _BEGIN] >= 0 and ((both >> _BITS) * m > bar or (both & _ROWS) * n > bar):
            levels[level + 1, _LOW] = sums[i, _BEGIN]
            levels[level + 1, _HIGH] = sums[i, _END]
            levels[level + 1, _FIRST] = p + 1
            used[c] = 1
            level += 1
            is_new = True
    return work
