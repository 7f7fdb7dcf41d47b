"""Cutting bytes into records and fields: the inner loops of the CSV reader, total over all bytes."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from maquette.vault.arrow import ArrowArray, pa

LONGEST_QUOTED = 2**16
"""Bytes within which a quoted field must be closed, else its quote is an ordinary character."""
LONGEST_RECORD = 2**23
"""Bytes after which a record is cut; the rest of its line is ignored."""

_QUOTE, _LF, _CR, _SPACE = 34, 10, 13, 32
_NEED_MORE, _IMPROPER = -1, -2


def cut(
    buffer: bytes, *, final: bool, delimiter: int, slots: NDArray[np.int64], count: int
) -> tuple[list[ArrowArray], int, bool]:
    """The wanted fields of every whole record of a buffer that starts at the start of a record.

    `slots` says for each column of the file which of the `count` results it is, or -1. Also returned: how many
    bytes were used, and whether the last record was cut so that its line goes on after them.
    """
    data = np.frombuffer(buffer, dtype=np.uint8)
    rows = int(np.count_nonzero(data == _LF)) + 1
    starts = np.zeros((count, rows), dtype=np.int32)
    ends = np.zeros((count, rows), dtype=np.int32)
    doubled = np.zeros((count, rows), dtype=np.bool_)
    limits = (LONGEST_RECORD, LONGEST_QUOTED)
    found, used, going_on = _cut(data, final, delimiter, limits, slots, starts, ends, doubled)
    fields = [_gather(data, starts[i, :found], ends[i, :found], doubled[i, :found]) for i in range(count)]
    return fields, int(used), bool(going_on)


def _gather(data: Any, starts: Any, ends: Any, doubled: Any) -> ArrowArray:
    """One column of fields as Arrow bytes."""
    offsets = np.zeros(len(starts) + 1, dtype=np.int32)
    np.cumsum(ends - starts, out=offsets[1:])
    values = np.empty(int(offsets[-1]), dtype=np.uint8)
    _copy(data, starts, ends, doubled, offsets, values)
    return pa.Array.from_buffers(
        pa.binary(), len(starts), [None, pa.py_buffer(offsets), pa.py_buffer(values)]
    )


@numba.njit(cache=True, nogil=True)
def _copy(data: Any, starts: Any, ends: Any, doubled: Any, offsets: Any, values: Any) -> None:
    position = 0
    for row in range(starts.shape[0]):
        i = starts[row]
        while i < ends[row]:
            values[position] = data[i]
            position += 1
            i += 2 if doubled[row] and data[i] == _QUOTE else 1
        offsets[row + 1] = position


@numba.njit(cache=True, nogil=True)
def _cut(
    data: Any,
    final: bool,
    delimiter: int,
    limits: tuple[int, int],
    slots: Any,
    starts: Any,
    ends: Any,
    doubled: Any,
) -> tuple[int, int, bool]:
    size = data.shape[0]
    row = 0
    begin = 0
    while begin < size:
        blank = _blank(data, begin, final)
        if blank == _NEED_MORE:
            break
        if blank > 0:
            begin += blank
            continue
        stop = min(size, begin + limits[0])
        complete = final or stop == begin + limits[0]
        place = begin
        column = 0
        while True:
            start, end, place, twice = _field(data, place, stop, complete, delimiter, limits[1])
            if place == _NEED_MORE:
                return row, begin, False
            if column < slots.shape[0] and slots[column] >= 0:
                starts[slots[column], row] = start
                ends[slots[column], row] = end
                doubled[slots[column], row] = twice
            column += 1
            if place == stop or data[place] == _LF:
                break
            place += 1
        row += 1
        while place < size and data[place] != _LF:  # a record that was cut: the rest of its line is no record
            place += 1
        if place == size:
            return row, size, True
        begin = place + 1
    return row, begin, False


@numba.njit(cache=True, nogil=True)
def _blank(data: Any, place: int, final: bool) -> int:
    """How long the blank line at `place` is; 0 if there is none."""
    if data[place] == _LF:
        return 1
    if data[place] == _CR:
        if place + 1 == data.shape[0]:
            return 1 if final else _NEED_MORE
        if data[place + 1] == _LF:
            return 2
    return 0


@numba.njit(cache=True, nogil=True)
def _field(
    data: Any, begin: int, stop: int, complete: bool, delimiter: int, longest: int
) -> tuple[int, int, int, bool]:
    """Start and end of the field at `begin`, the place of the delimiter or line end after it, doubled quotes?"""
    first = begin
    while first < stop and data[first] == _SPACE:
        first += 1
    if first < stop and data[first] == _QUOTE:
        close, after, twice = _close(data, first, stop, complete, delimiter, longest)
        if close == _NEED_MORE:
            return 0, 0, _NEED_MORE, False
        if close != _IMPROPER:
            return first + 1, close, after, twice
    place = begin
    while place < stop and data[place] != delimiter and data[place] != _LF:
        place += 1
    if place == stop and not complete:
        return 0, 0, _NEED_MORE, False
    at_line_end = place == stop or data[place] == _LF
    end = place - 1 if at_line_end and place > begin and data[place - 1] == _CR else place
    return begin, end, place, False


@numba.njit(cache=True, nogil=True)
def _close(
    data: Any, opening: int, stop: int, complete: bool, delimiter: int, longest: int
) -> tuple[int, int, bool]:
    """The quote that properly closes the one at `opening`, the place after the field, doubled quotes inside?"""
    twice = False
    place = opening + 1
    while place < stop and place - opening <= longest:
        if data[place] != _QUOTE:
            place += 1
        elif place + 1 < stop and data[place + 1] == _QUOTE:
            twice = True
            place += 2
        else:
            after = place + 1
            while after < stop and data[after] == _SPACE:
                after += 1
            if after < stop and data[after] == _CR:
                after += 1
                if after < stop and data[after] != _LF:
                    return _IMPROPER, 0, False
            if after == stop:
                return (place, after, twice) if complete else (_NEED_MORE, 0, False)
            if data[after] == _LF or data[after] == delimiter:
                return place, after, twice
            return _IMPROPER, 0, False
    return (_NEED_MORE if place >= stop and not complete else _IMPROPER), 0, False
