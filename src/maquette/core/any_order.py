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

Leading values. Let nearly all of a cell have value v of column i, but for the gap of at most l of the others. A set of
this cell that does not name i is its part with z_i = v and a part of the others: no gap among these sets is more than l
above those with z_i = v. So the part with z_i = v is searched first, for gaps down to the largest known less l; where
it has none, the sets that do not name i need no search. (With i free, the set is that part, or lies in the others.)

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
SAMPLE = 2**12
"""Rows that the work of a search is estimated on."""
MAX_WORK = 2**34
"""Steps of a search that its number of columns is chosen for: about ten seconds."""
SPARE = 4
"""Leading values that are fixed beyond the number of columns."""
LOSES = 2
"""A value leads where so many times the gap that is left out is at most the largest gap that could be raised."""

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
    order = columns_first(axes, rows)
    deepest = max(one.order for one in statistics)
    gaps_of: dict[tuple[Family, int], int] = {}
    best: dict[Statistic, int] = {}
    for depth in sorted({min(2, deepest), *(one.order for one in statistics)}):
        # gaps of few columns leave fewer cells to divide when there are more
        own = [one for one in statistics if one.order == depth]
        families = sorted({one.family for one in own or statistics if one.order >= depth})
        narrower = [
            max([gap for (family, _), gap in gaps_of.items() if family <= one], default=0) for one in families
        ]
        floors = [
            min(one.floor for one in own or statistics if one.family == f and one.order >= depth) * m
            for f in families
        ]
        gaps = np.array([max(pair) for pair in zip(narrower, floors, strict=True)], dtype=np.int64)
        _run(axes, folded, families, order, gaps, depth=depth)
        gaps_of |= {
            (family, depth): int(gap)
            for family, gap, floor in zip(families, gaps, floors, strict=True)
            if gap > floor
        }
        for one in own:
            best[one] = max(one.floor * m, int(gaps[families.index(one.family)]))
    return [-(-best[one] // m) for one in statistics]


def columns_first(axes: Sequence[Axis], rows: Codes) -> Integers:
    """The order of the columns: those that divide the released rows most come first."""
    common = [
        float(((np.bincount(rows[:, i], minlength=axis.size) / max(len(rows), 1)) ** 2).sum())
        for i, axis in enumerate(axes)
    ]
    return np.argsort(np.array(common), kind="stable").astype(np.int64)


def megabytes(columns: int, records: float, order: int) -> float:
    """What a search takes at most, of so many records and rows together."""
    return _levels(columns, order) * records * (2 * columns + 8) / 1e6


def _levels(columns: int, order: int) -> int:
    """Columns that records are divided by one after the other; leading values come on top of the order."""
    return min(columns, order if order <= 2 else order + SPARE)


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
    as a search of the private records with the same floor will at most, about. It ends when it takes too long.
    """
    d, m = len(axes), len(rows)
    both = records + m
    sample = rows[:: max(1, m // SAMPLE)]
    same = Folded.of(axes, sample, sample)
    least = np.array([max(1, round(floor / max(records, 1.0) * len(sample) ** 2))], dtype=np.int64)
    order = columns_first(axes, rows)
    limit = max(1, int(work * 2 * len(sample) / (d * both)))

    def is_affordable(depth: int) -> bool:
        return (
            megabytes(d, both, depth) <= memory
            and _run(axes, same, [Family.LIST], order, least.copy(), depth=depth, limit=limit) < limit
        )

    low, high = 0, min(d, most) + 1  # affordable, not so; all columns are tried first
    depth = high - 1
    while high - low > 1:
        low, high = (depth, high) if is_affordable(depth) else (low, depth)
        depth = (low + high) // 2
    return low


_NO_LIMIT = 2**62


def _run(
    axes: Sequence[Axis],
    folded: Folded,
    families: Sequence[Family],
    order: Integers,
    best: Integers,
    *,
    depth: int,
    limit: int = _NO_LIMIT,
) -> int:
    """Raises `best` to the largest gaps on at most `depth` columns; returns how many records were looked at."""
    d, distinct, levels = len(axes), len(folded.codes), _levels(len(axes), depth)
    starts = np.cumsum([0, *(axis.size for axis in axes)]).astype(np.int64)
    total, kinds = int(starts[-1]), len(families)
    codes = np.empty((levels, distinct, d), dtype=np.uint16)
    counts = np.empty((levels, distinct), dtype=np.int64)
    codes[0], counts[0] = folded.codes, (folded.records << _BITS) + folded.rows
    frames = np.zeros((levels + 1, _FIELDS), dtype=np.int64)
    frames[0, _HIGH], frames[0, _LEFT] = distinct, depth
    return int(
        _search(
            codes,
            counts,
            starts,
            starts.astype(np.uint64),
            np.array([axis.declared if axis.ordered else 0 for axis in axes], dtype=np.int64),
            order,
            np.array(families, dtype=np.int64),
            np.int64(depth),
            best,
            frames,
            np.ones((levels + 1, kinds), dtype=np.int64),
            np.zeros((2, levels + 1, kinds), dtype=np.int64),
            np.ones((levels + 1, d), dtype=np.int64),
            np.zeros((2, levels, d), dtype=np.int64),
            np.zeros((levels, total), dtype=np.int64),
            np.zeros((2, levels, total), dtype=np.int64),
            np.zeros(max(axis.size for axis in axes), dtype=np.int64),
            np.zeros((2, d), dtype=np.uint64),
            np.zeros(3, dtype=np.int64),
            np.int64(folded.records.sum()),
            np.int64(folded.rows.sum()),
            np.int64(limit),
        )
    )


_LOW, _HIGH, _COLUMN, _VALUE, _FIXED, _LEFT, _LOST, _LEADER, _LOSES, _FIELDS = range(10)
"""Of a level: where the records of its cell lie; the column that it is being divided by and the value of that; how many
columns are fixed, and how many more there may be; what leading values left out on the way to it; the value of its
column that leads and what that leaves out, in gaps."""
_ROWS = 2**_BITS - 1


@numba.njit(cache=True, nogil=True, plain=True)
def _count(here: Any, times: Any, low: Any, high: Any, columns: Any, offsets: Any, sums: Any) -> None:
    """Adds the records and rows of a cell to those of every value of some columns."""
    for r in range(low, high):
        both = times[r]
        for j in range(len(columns)):
            c = columns[j]
            sums[offsets[c] + np.uint64(here[r, c])] += both


@numba.njit(cache=True, nogil=True, plain=True)
def _gaps(sums: Any, first: Any, last: Any, declared: Any, n: Any, m: Any, gaps: Any) -> Any:
    """The largest gap of each family on one column of a cell; returns its leading value and what that leaves out."""
    zero = np.int64(0)
    one = above = below = up = down = span = in_records = in_rows = zero
    leader, most = first, np.int64(-1)
    for i in range(first, last):
        both = sums[i]
        of_records, of_rows = (both >> _BITS) * m, (both & _ROWS) * n
        in_records += of_records
        in_rows += of_rows
        if of_records + of_rows > most:
            leader, most = i, of_records + of_rows
        gap = of_records - of_rows
        if gap > 0:
            above += gap
            one = gap if gap > one else one
        else:
            below -= gap
            one = -gap if -gap > one else one
        if i - first < declared:
            up = up + gap if up + gap > 0 else zero
            down = down + gap if down + gap < 0 else zero
            span = up if up > span else span
            span = -down if -down > span else span
    gaps[0] = one
    gaps[1] = span if span > one else one
    gaps[2] = above if above > below else below
    both = sums[leader]
    in_records -= (both >> _BITS) * m
    in_rows -= (both & _ROWS) * n
    return leader - first, in_records if in_records > in_rows else in_rows


@numba.njit(cache=True, nogil=True, plain=True)
def _divide(
    here: Any, times: Any, there: Any, times_there: Any, low: Any, high: Any, c: Any, place: Any
) -> None:
    """Copies the records of a cell to where those with the same value of a column lie; nowhere is -1."""
    c = np.uint64(c)
    for r in range(low, high):
        v = here[r, c]
        to = place[v]
        if to >= 0:
            for k in range(here.shape[1]):
                there[to, k] = here[r, k]
            times_there[to] = times[r]
            place[v] = to + 1


@numba.njit(cache=True, nogil=True, plain=True)
def _search(
    codes: Any,
    counts: Any,
    starts: Any,
    offsets: Any,
    declared: Any,
    order: Any,
    families: Any,
    depth: Any,
    best: Any,
    frames: Any,
    active: Any,
    peaks: Any,
    is_open: Any,
    leads: Any,
    cells: Any,
    lies: Any,
    place: Any,
    columns: Any,
    gaps: Any,
    n: Any,
    m: Any,
    limit: Any,
) -> Any:
    """Depth first; a level holds the records of a cell, and counts the cells that are a part of it by one more column.

    By level, and family or column: `active`, which families are searched; `peaks`, the largest gaps in what was
    searched, and in the part of it with the leading value; `is_open`, the columns that it is still to be divided by, 2
    where they are fixed; `leads`, the most frequent value of each column and what it leaves out; `cells`, the counts;
    `lies`, from where to where the records of a value lie at the next level, nowhere: -1.
    """
    d, zero, kinds = len(order), np.int64(0), len(families)
    work, level, is_new = zero, zero, True
    while level >= 0 and work < limit:
        here, times, sums, frame = codes[level], counts[level], cells[level], frames[level]
        low, high = frame[_LOW], frame[_HIGH]
        if is_new:
            is_new = False
            takes_free = False
            for f in range(kinds):
                peaks[0, level, f] = zero
                if active[level, f] and families[f] > 0:
                    takes_free = True
            count = zero
            for p in range(d):  # without a free column, those that are not open are counted elsewhere
                c = order[p]
                if is_open[level, c] == 1 or (takes_free and is_open[level, c] == 0):
                    columns[0, count] = c
                    count += 1
                    for i in range(starts[c], starts[c + 1]):
                        sums[i] = zero
            _count(here, times, low, high, columns[0, :count], offsets, sums)
            work += high - low
            for j in range(count):
                c = np.int64(columns[0, j])
                leads[0, level, c], leads[1, level, c] = _gaps(
                    sums, starts[c], starts[c + 1], declared[c], n, m, gaps
                )
                for f in range(kinds):
                    gap = gaps[families[f]]
                    peaks[0, level, f] = gap if gap > peaks[0, level, f] else peaks[0, level, f]
                    if frame[_FIXED] < depth:
                        best[f] = gap if gap > best[f] else best[f]
            frame[_COLUMN] = -1
        if frame[_COLUMN] >= 0:
            c, below = frame[_COLUMN], level + 1
            frame[_VALUE] += 1
            if frame[_VALUE] < starts[c + 1] - starts[c]:
                i, leads_here = starts[c] + frame[_VALUE], frame[_VALUE] == frame[_LEADER]
                if lies[0, level, i] < 0:
                    continue
                of_records, of_rows = (sums[i] >> _BITS) * m, (sums[i] & _ROWS) * n
                support = of_records if of_records > of_rows else of_rows
                lost = frame[_LOST] + (frame[_LOSES] if leads_here else zero)
                for f in range(kinds):
                    active[below, f] = active[level, f] == 1 and support > best[f] - lost
                    is_new = is_new or active[below, f] == 1
                if is_new:
                    frames[below, _LOW], frames[below, _HIGH] = lies[0, level, i], lies[1, level, i]
                    frames[below, _FIXED], frames[below, _LOST] = frame[_FIXED] + 1, lost
                    frames[below, _LEFT] = frame[_LEFT] - (zero if leads_here else 1)
                    for k in range(d):
                        is_open[below, k] = is_open[level, k]
                    is_open[below, c] = 2
                    level = below
                continue
            if (
                frame[_LEADER] >= 0
            ):  # other columns without this one: what its leader has, and what that leaves out
                for f in range(kinds):
                    if peaks[1, level, f] <= best[f] - frame[_LOST] - frame[_LOSES]:
                        active[level, f] = zero
            frame[_COLUMN] = -1
        least, takes_free = np.int64(-1), False
        for f in range(kinds):
            if active[level, f]:
                least = best[f] if least < 0 or best[f] < least else least
                takes_free = takes_free or families[f] > 0
        chosen = leading = np.int64(-1)
        count = zero
        if frame[_LEFT] > 1 and frame[_FIXED] + 1 < d and least >= 0:
            for p in range(d):
                c = order[p]
                if is_open[level, c] == 1:
                    count += 1
                    chosen = c if chosen < 0 else chosen
                    if leading < 0 or leads[1, level, c] < leads[1, level, leading]:
                        leading = c
        if chosen < 0 or (count == 1 and not takes_free):
            level -= 1
            if level >= 0:
                for f in range(kinds):
                    gap = peaks[0, level + 1, f]
                    peaks[0, level, f] = gap if gap > peaks[0, level, f] else peaks[0, level, f]
                    if frames[level, _VALUE] == frames[level, _LEADER]:
                        peaks[1, level, f] = gap
            continue
        further = frame[_LEFT] if frame[_LEFT] < count else count
        frame[_LEADER] = -1
        frame[_LOSES] = zero
        if (
            count > 1
            and level + further < len(codes)
            and LOSES * (frame[_LOST] + leads[1, level, leading]) <= least
        ):
            chosen = leading
            frame[_LEADER], frame[_LOSES] = leads[0, level, chosen], leads[1, level, chosen]
            for f in range(kinds):
                peaks[1, level, f] = zero
        c, bar = chosen, least - frame[_LOST]
        is_open[level, c] = zero
        is_any = False
        for i in range(starts[c], starts[c + 1]):
            v = i - starts[c]
            of_records, of_rows = (sums[i] >> _BITS) * m, (sums[i] & _ROWS) * n
            support = of_records if of_records > of_rows else of_rows
            is_divided = support > (bar - frame[_LOSES] if v == frame[_LEADER] else bar)
            place[v] = zero if is_divided else np.int64(-1)
            is_any = is_any or is_divided
        frame[_COLUMN], frame[_VALUE] = c, -1
        if not is_any:
            frame[_VALUE] = starts[c + 1] - starts[c]
            continue
        for r in range(low, high):
            v = here[r, np.uint64(c)]
            if place[v] >= 0:
                place[v] += 1
        room = zero
        for i in range(starts[c], starts[c + 1]):
            v = i - starts[c]
            lies[0, level, i] = -1
            if place[v] >= 0:
                lies[0, level, i] = room
                room += place[v]
                lies[1, level, i] = room
                place[v] = lies[0, level, i]
        _divide(here, times, codes[level + 1], counts[level + 1], low, high, c, place)
        work += high - low
    return work
