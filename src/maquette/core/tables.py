"""Exact tables over a few attributes each, counted from coded rows: the hot loop of the package.

Every table is a run of cells in one flat buffer. Margins that share all attributes but the last share the
flat code of the rest, which is computed once per block of rows; the innermost loop adds one row to one cell.
Counts are 64-bit whole numbers throughout, so the order of the rows cannot matter.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.core import _lazy_numba as numba
from maquette.core.errors import WorkloadError
from maquette.core.forms import MAX_TABLE_CELLS, Columns, Margin, Sizes

BLOCK = 2**20
"""Rows that are counted at a time, so that their flat codes take 4 MB at most."""


def count_margins(
    sizes: Sizes,
    columns: Columns,
    margins: Iterable[Margin],
    weights: NDArray[Any] | None = None,
    *,
    into: Mapping[Margin, NDArray[Any]] | None = None,
) -> dict[Margin, NDArray[Any]]:
    """The table of every margin, shaped by its attributes' sizes, in the order asked.

    Tables are int64, or float64 if `weights` (one per row) are floating-point. A margin without attributes
    counts all rows. The tables of an earlier call go on counting if they are passed as `into`. Codes outside
    their attribute are refused with `WorkloadError`.

    Cost: time |margins| x rows, memory the tables plus 4 MB.
    """
    distinct = list(dict.fromkeys(tuple(margin) for margin in margins))
    unknown = next((name for margin in distinct for name in margin if name not in sizes), None)
    if unknown is not None:
        raise WorkloadError(f"unknown attribute '{unknown}'; the domain has {', '.join(sizes)}")
    return count_tables(sizes, columns, distinct, rows=_rows(columns, weights), weights=weights, into=into)


def count_tables(
    sizes: Mapping[str, int],
    columns: Columns,
    margins: Sequence[Margin],
    *,
    rows: int,
    weights: NDArray[Any] | None = None,
    into: Mapping[Margin, NDArray[Any]] | None = None,
) -> dict[Margin, NDArray[Any]]:
    """The same for different margins over columns with any number of codes each, such as attributes in bins."""
    shapes = [_shape(sizes, margin) for margin in margins]
    names = dict.fromkeys(name for margin in margins for name in margin)
    used = {name: _column(columns, name, sizes[name]) for name in names}
    weights = None if weights is None else _weights(weights)
    if into is None:
        tables = _tables(shapes, np.int64 if weights is None else weights.dtype)
    else:
        tables = [into[margin].reshape(-1) for margin in margins]
    for start in range(0, rows, BLOCK):
        stop = min(start + BLOCK, rows)
        part = {name: column[start:stop] for name, column in used.items()}
        for view in part.values():  # whatever they come from, so that loops are compiled for one type alone
            view.setflags(write=False)
        _count_block(
            margins, shapes, tables, part, stop - start, None if weights is None else weights[start:stop]
        )
    return {
        margin: table.reshape(shape) for margin, table, shape in zip(margins, tables, shapes, strict=True)
    }


def _shape(sizes: Mapping[str, int], margin: Margin) -> tuple[int, ...]:
    if len(set(margin)) < len(margin):
        raise WorkloadError(f"a margin names each attribute once, got ({', '.join(margin)})")
    shape = tuple(sizes[name] for name in margin)
    if math.prod(shape) > MAX_TABLE_CELLS:
        raise WorkloadError(
            f"the table over ({', '.join(margin)}) has {math.prod(shape):,} cells, more than {MAX_TABLE_CELLS:,}; "
            "ask a margin of fewer attributes or declare coarser cells"
        )
    return shape


def _column(columns: Columns, name: str, size: int) -> NDArray[Any]:
    """The codes of a column, checked in one pass, however many tables use it."""
    if name not in columns:
        raise WorkloadError(f"the rows have no column for attribute '{name}'")
    column = np.ascontiguousarray(columns[name])
    if column.dtype.kind not in "ui" or column.ndim != 1:
        raise WorkloadError(f"the column of '{name}' must hold whole numbers, got {column.dtype}")
    if column.dtype not in _CODE_TYPES:
        # an odd type (int64 of a small database): checked by its own values before it is narrowed
        if len(column) and (int(column.min()) < 0 or int(column.max()) >= 2**32):
            raise _outside(name)
        column = column.astype(np.uint32)
    if size <= np.iinfo(column.dtype).max and len(column) and int(column.max()) >= size:
        raise _outside(name)
    return column


_CODE_TYPES = (np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.uint32))


def _outside(name: str) -> WorkloadError:
    return WorkloadError(
        f"the column of '{name}' holds codes outside the attribute's cells; code it with this domain"
    )


def _rows(columns: Columns, weights: NDArray[Any] | None) -> int:
    lengths = {len(column) for column in columns.values()}
    if weights is not None:
        lengths.add(len(weights))
    if len(lengths) > 1:
        raise WorkloadError("columns and weights must have one length")
    return lengths.pop() if lengths else 0


def _weights(weights: NDArray[Any]) -> NDArray[Any]:
    if weights.dtype.kind in "uib":
        return np.ascontiguousarray(weights, dtype=np.int64)
    if weights.dtype.kind == "f":
        return np.ascontiguousarray(weights, dtype=np.float64)
    raise WorkloadError(f"weights must be numbers, got {weights.dtype}")


def _tables(shapes: Sequence[tuple[int, ...]], dtype: Any) -> list[NDArray[Any]]:
    """One flat buffer, cut up: large buffers get large pages, and untouched cells cost nothing."""
    ends = np.cumsum([0, *(math.prod(shape) for shape in shapes)])
    buffer = np.zeros(int(ends[-1]), dtype=dtype)
    return [buffer[start:end] for start, end in itertools.pairwise(ends)]


def _by_prefix(margins: Sequence[Margin]) -> list[tuple[Margin, list[int]]]:
    """Margins (by position) grouped by all attributes but the last."""
    groups: dict[Margin, list[int]] = {}
    for index, margin in enumerate(margins):
        groups.setdefault(margin[:-1], []).append(index)
    return list(groups.items())


def _count_block(
    margins: Sequence[Margin],
    shapes: Sequence[tuple[int, ...]],
    tables: Sequence[NDArray[Any]],
    columns: Columns,
    length: int,
    weights: NDArray[Any] | None,
) -> None:
    flat = np.empty(length, dtype=np.uint32)
    for prefix, members in _by_prefix(margins):
        flat[:] = 0
        for name, size in zip(prefix, shapes[members[0]], strict=False):
            _extend(flat, columns[name], size)
        for index in members:
            if not margins[index]:
                tables[index][:] += length if weights is None else weights.sum()
            elif weights is None:
                _tally(tables[index], flat, columns[margins[index][-1]], shapes[index][-1])
            else:
                _tally_weighted(tables[index], flat, columns[margins[index][-1]], shapes[index][-1], weights)


@numba.njit(cache=True, nogil=True, plain=True)
def _extend(flat: Any, column: Any, size: Any) -> None:
    for i in range(len(flat)):
        flat[i] = flat[i] * np.uint32(size) + np.uint32(column[i])


@numba.njit(cache=True, nogil=True, plain=True)
def _tally(table: Any, flat: Any, column: Any, size: Any) -> None:
    stride = np.uint64(size)
    for i in range(len(flat)):
        table[np.uint64(flat[i]) * stride + np.uint64(column[i])] += 1


@numba.njit(cache=True, nogil=True, plain=True)
def _tally_weighted(table: Any, flat: Any, column: Any, size: Any, weights: Any) -> None:
    stride = np.uint64(size)
    for i in range(len(flat)):
        table[np.uint64(flat[i]) * stride + np.uint64(column[i])] += weights[i]


def corner_sums(table: NDArray[Any], boxes: Sequence[Sequence[tuple[int, int]]]) -> NDArray[Any]:
    """Sums over boxes, each from 2^d entries of the cumulative table; of one box alone, whole numbers are just added.

    Sums of whole numbers do not depend on their order, so that both ways give the same number.
    """
    if len(boxes) == 1 and np.issubdtype(table.dtype, np.integer):
        inside = table[tuple(slice(low, high + 1) for low, high in boxes[0])]
        return np.array([inside.sum(dtype=table.dtype)], dtype=table.dtype)
    sums = table
    for axis in range(table.ndim):
        zero = np.zeros_like(sums.take([0], axis=axis))
        sums = np.concatenate([zero, np.cumsum(sums, axis=axis)], axis=axis)
    ends = np.array(boxes, dtype=np.int64)
    ends[:, :, 1] += 1
    answers = np.zeros(len(boxes), dtype=sums.dtype)
    for corner in itertools.product((0, 1), repeat=table.ndim):
        sign = math.prod(1 if side else -1 for side in corner)
        answers += sign * sums[tuple(ends[:, axis, side] for axis, side in enumerate(corner))]
    return answers
