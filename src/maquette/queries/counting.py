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

import numba
import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain
from maquette.errors import WorkloadError
from maquette.queries.base import Columns, Margin

MOST_CELLS = 2**31
"""Cells that one table may have; flat codes stay inside 32 bits."""
BLOCK = 2**20
"""Rows that are counted at a time, so that their flat codes take 4 MB at most."""


def count_margins(
    domain: Domain,
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
    wanted = list(dict.fromkeys(tuple(margin) for margin in margins))
    sizes = {name: _size(domain, name) for name in dict.fromkeys(name for m in wanted for name in m)}
    return count_tables(sizes, columns, wanted, rows=_rows(columns, weights), weights=weights, into=into)


def count_tables(
    sizes: Mapping[str, int],
    columns: Columns,
    margins: Sequence[Margin],
    *,
    rows: int,
    weights: NDArray[Any] | None = None,
    into: Mapping[Margin, NDArray[Any]] | None = None,
) -> dict[Margin, NDArray[Any]]:
    """The same for columns with any number of codes each, such as attributes in bins."""
    wanted = list(margins)
    shapes = [_shape(sizes, margin) for margin in wanted]
    used = {name: _column(columns, name) for margin in wanted for name in margin}
    for name, column in used.items():
        _check_codes(sizes[name], name, column)
    weights = None if weights is None else _weights(weights)
    if into is None:
        tables = _tables(shapes, np.int64 if weights is None else weights.dtype)
    else:
        tables = [into[margin].reshape(-1) for margin in wanted]
    for start in range(0, rows, BLOCK):
        stop = min(start + BLOCK, rows)
        part = {name: column[start:stop] for name, column in used.items()}
        _count_block(
            wanted, shapes, tables, part, stop - start, None if weights is None else weights[start:stop]
        )
    return {margin: table.reshape(shape) for margin, table, shape in zip(wanted, tables, shapes, strict=True)}


def _size(domain: Domain, name: str) -> int:
    if name not in domain:
        raise WorkloadError(f"unknown attribute '{name}'; the domain has {', '.join(domain.names)}")
    return domain[name].size


def _shape(sizes: Mapping[str, int], margin: Margin) -> tuple[int, ...]:
    if len(set(margin)) < len(margin):
        raise WorkloadError(f"a margin names each attribute once, got ({', '.join(margin)})")
    shape = tuple(sizes[name] for name in margin)
    if math.prod(shape) > MOST_CELLS:
        raise WorkloadError(
            f"the table over ({', '.join(margin)}) has {math.prod(shape):,} cells, more than {MOST_CELLS:,}; "
            "ask a margin of fewer attributes or declare coarser cells"
        )
    return shape


def _column(columns: Columns, name: str) -> NDArray[Any]:
    if name not in columns:
        raise WorkloadError(f"the rows have no column for attribute '{name}'")
    column = np.ascontiguousarray(columns[name])
    if column.dtype.kind not in "ui" or column.ndim != 1:
        raise WorkloadError(f"the column of '{name}' must hold whole numbers, got {column.dtype}")
    if column.dtype in _CODE_TYPES:
        return column
    # an odd type (int64 of a small database): checked by its own values before it is narrowed
    if len(column) and (int(column.min()) < 0 or int(column.max()) >= 2**32):
        raise _outside(name)
    return column.astype(np.uint32)


_CODE_TYPES = (np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.uint32))


def _check_codes(size: int, name: str, column: NDArray[Any]) -> None:
    """One pass over each column, however many tables use it."""
    if size <= np.iinfo(column.dtype).max and len(column) and int(column.max()) >= size:
        raise _outside(name)


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


@numba.njit(cache=True, nogil=True)
def _extend(flat: Any, column: Any, size: Any) -> None:
    for i in range(flat.shape[0]):
        flat[i] = flat[i] * np.uint32(size) + np.uint32(column[i])


@numba.njit(cache=True, nogil=True)
def _tally(table: Any, flat: Any, column: Any, size: Any) -> None:
    stride = np.uint64(size)
    for i in range(flat.shape[0]):
        table[np.uint64(flat[i]) * stride + np.uint64(column[i])] += 1


@numba.njit(cache=True, nogil=True)
def _tally_weighted(table: Any, flat: Any, column: Any, size: Any, weights: Any) -> None:
    stride = np.uint64(size)
    for i in range(flat.shape[0]):
        table[np.uint64(flat[i]) * stride + np.uint64(column[i])] += weights[i]
