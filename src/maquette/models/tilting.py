"""One query on a dense table of weights: its sum, and its multiplicative update, each in one pass over memory.

The table is seen as blocks (leading attributes) of cells (trailing attributes). A query is the same on all blocks
of one pattern, so that it is stored as a few patterns: runs of cells for 0/1 weights, numbers for fractional ones.
Blocks without a counted cell are not touched.

The compiled loops share their arrays: `table` (blocks, cells) are the weights; `pattern` (blocks) is the pattern of a
block, or -1; the runs of pattern p are `ends[p]` .. `ends[p + 1]` of `low` and `high` (first cell, one past the last);
`weights` (patterns, cells) are the query's weights, `factors` (patterns, cells) the exponentials of step times weight,
`factor` that of a counted cell. One step takes one block. Measured by benchmarks/weights.py (results/weights.jsonl).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.core import _lazy_numba as numba
from maquette.domain import Domain
from maquette.models.fits import cell_weights
from maquette.queries.base import Queries
from maquette.queries.condition import mask as set_mask
from maquette.queries.condition import product, table_mask
from maquette.queries.predicates import SetQueries
from maquette.queries.rows import Margin

Floats = NDArray[np.float64]

MIN_BLOCK = 2**8
"""Trailing cells that a block should have at least."""
_SHORT_RUN = 512
"""Mean length below which runs are stored as weights; chosen by benchmarks/weights.py."""
_REORDERED = {"reassoc", "nsz", "contract"}
"""Sums may be taken in any order; nothing else is loosened."""


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """How a table over some attributes is cut into blocks."""

    domain: Domain
    attributes: Margin
    cut: int
    """Attributes before this place lead."""

    @classmethod
    def of(cls, domain: Domain, attributes: Margin) -> BlockLayout:
        cut, cells = len(attributes), 1
        while cut > 0 and cells < MIN_BLOCK:
            cut -= 1
            cells *= domain[attributes[cut]].size
        return cls(domain, attributes, cut)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.domain[name].size for name in self.attributes)

    @property
    def blocks(self) -> int:
        return math.prod(self.shape[: self.cut])

    @property
    def cells(self) -> int:
        """Of one block."""
        return math.prod(self.shape[self.cut :])


@dataclass(frozen=True, slots=True, eq=False)
class Counting:
    """A 0/1 query: `pattern` of every block (-1 for none), and the runs of counted cells of every pattern.

    Runs too short to be worth a loop each are stored as weights instead.
    """

    pattern: NDArray[np.int32]
    ends: NDArray[np.int64]
    """Where the runs of each pattern begin in `low` and `high`, one more than there are patterns."""
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    """One past the last cell."""
    weights: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Weighing:
    """A query with fractional weights: the pattern of every block, and the weights of every pattern."""

    pattern: NDArray[np.int32]
    weights: Floats


Compiled = Counting | Weighing


def compile_query(layout: BlockLayout, queries: Queries) -> Compiled:
    """One query over the attributes of a layout, ready for passes over the table."""
    names = queries.attributes
    leading = tuple(name for name in names if name in layout.attributes[: layout.cut])
    trailing = tuple(name for name in names if name not in leading)
    if isinstance(queries, SetQueries):
        factors = product(queries.conditions[0])
        if factors is not None:
            sets = {
                leaf.attribute: set_mask(leaf.runs, layout.domain[leaf.attribute].size) for leaf in factors
            }
            first, second = _outer(sets, leading), _outer(sets, trailing)
            blocks = np.where(_spread(layout, leading, first, lead=True), 0, -1).astype(np.int32)
            return _runs(blocks, _spread(layout, trailing, second, lead=False)[None, :])
        table = table_mask(layout.domain, queries.conditions[0], names).astype(np.float64)
    else:
        table = cell_weights(queries)[0].reshape([layout.domain[name].size for name in names])
    axes = [names.index(name) for name in (*leading, *trailing)]
    flat = table.transpose(axes).reshape(layout.domain.cells(leading), -1)
    patterns, which = np.unique(flat, axis=0, return_inverse=True)
    blocks = _spread(layout, leading, which.ravel(), lead=True).astype(np.int32)
    spread = np.stack([_spread(layout, trailing, row, lead=False) for row in patterns])
    if np.isin(patterns, (0.0, 1.0)).all():
        return _runs(blocks, spread != 0)
    return Weighing(blocks, np.ascontiguousarray(spread))


def total_of(table: Floats, query: Compiled) -> float:
    """The sum of weight times cell."""
    if query.weights is None:
        return _sum_runs(table, query.pattern, query.ends, query.low, query.high)
    return _sum_weights(table, query.pattern, query.weights)


def tilt(table: Floats, query: Compiled, step: float, out: Floats | None = None) -> tuple[float, float]:
    """Multiply every cell by exp(step times its weight), in place or into another table, in one pass.

    Returns the new sum of weight times cell, and by how much the sum of all cells grew.
    """
    if query.weights is None:
        factor = math.exp(step)
        if out is None:
            before = _tilt_runs(table, query.pattern, query.ends, query.low, query.high, factor)
        else:
            before = _tilt_runs_into(out, table, query.pattern, query.ends, query.low, query.high, factor)
        return before * factor, before * (factor - 1)
    factors = np.exp(step * query.weights)
    if isinstance(query, Counting):
        factor = math.exp(step)
        if out is None:
            before = _tilt_masks(table, query.pattern, query.weights, factors)
        else:
            before = _tilt_masks_into(out, table, query.pattern, query.weights, factors)
        return before * factor, before * (factor - 1)
    if out is None:
        return _tilt_weights(table, query.pattern, query.weights, factors)
    np.copyto(out, table)
    return _tilt_weights(out, query.pattern, query.weights, factors)


def _outer(sets: dict[str, NDArray[np.bool_]], names: Margin) -> NDArray[np.bool_]:
    """The product of some sets, as a mask over their attributes, flat."""
    mask = np.ones((), dtype=bool)
    for name in names:
        mask = np.logical_and.outer(mask, sets[name])
    return mask.ravel()


def _spread(layout: BlockLayout, names: Margin, values: NDArray[Any], *, lead: bool) -> NDArray[Any]:
    """Values over some of the leading (or trailing) attributes, repeated over the others."""
    over = layout.attributes[: layout.cut] if lead else layout.attributes[layout.cut :]
    sizes = [layout.domain[name].size if name in names else 1 for name in over]
    shape = [layout.domain[name].size for name in over]
    return np.broadcast_to(values.reshape(sizes), shape).ravel()


def _runs(blocks: NDArray[np.int32], masks: NDArray[np.bool_]) -> Counting:
    """Patterns as runs; blocks of an empty pattern are marked -1."""
    lows, highs, ends = [], [], [0]
    for mask in masks:
        edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]])))
        lows.append(edges[::2])
        highs.append(edges[1::2])
        ends.append(ends[-1] + len(edges) // 2)
    empty = np.diff(ends) == 0
    if empty.any() and len(blocks):
        blocks = np.where((blocks >= 0) & ~empty[blocks], blocks, -1).astype(np.int32)
    low, high = np.concatenate(lows).astype(np.int64), np.concatenate(highs).astype(np.int64)
    short = len(low) > 0 and float((high - low).mean()) < min(_SHORT_RUN, masks.shape[1])
    return Counting(
        blocks, np.array(ends, dtype=np.int64), low, high, masks.astype(np.float64) if short else None
    )


@numba.njit(cache=True, nogil=True, fastmath=_REORDERED)
def _sum_runs(table: Any, pattern: Any, ends: Any, low: Any, high: Any) -> float:
    """The sum of all counted cells."""
    total = 0.0
    for block in range(table.shape[0]):
        p = pattern[block]
        if p < 0:
            continue
        row = table[block]
        for run in range(ends[p], ends[p + 1]):
            part = 0.0
            for i in range(low[run], high[run]):
                part += row[i]
            total += part
    return total


@numba.njit(cache=True, nogil=True, fastmath=_REORDERED)
def _tilt_runs(table: Any, pattern: Any, ends: Any, low: Any, high: Any, factor: float) -> float:
    """Multiply the counted cells by `factor`, in place; returns their sum before."""
    total = 0.0
    for block in range(table.shape[0]):
        p = pattern[block]
        if p < 0:
            continue
        row = table[block]
        for run in range(ends[p], ends[p + 1]):
            part = 0.0
            for i in range(low[run], high[run]):
                value = row[i]
                part += value
                row[i] = value * factor
            total += part
    return total


@numba.njit(cache=True, nogil=True, fastmath=_REORDERED)
def _tilt_runs_into(
    out: Any, table: Any, pattern: Any, ends: Any, low: Any, high: Any, factor: float
) -> float:
    """The same into `out`, with all other cells copied."""
    total = 0.0
    for block in range(table.shape[0]):
        p = pattern[block]
        row, new = table[block], out[block]
        place = 0
        if p >= 0:
            for run in range(ends[p], ends[p + 1]):
                for i in range(place, low[run]):
                    new[i] = row[i]
                part = 0.0
                for i in range(low[run], high[run]):
                    value = row[i]
                    part += value
                    new[i] = value * factor
                total += part
                place = high[run]
        for i in range(place, table.shape[1]):
            new[i] = row[i]
    return total


@numba.njit(cache=True, nogil=True, fastmath=_REORDERED)
def _sum_weights(table: Any, pattern: Any, weights: Any) -> float:
    """The sum of weight times cell."""
    total = 0.0
    for block in range(table.shape[0]):
        p = pattern[block]
        if p < 0:
            continue
        row, weight = table[block], weights[p]
        part = 0.0
        for i in range(table.shape[1]):
            part += row[i] * weight[i]
        total += part
    return total


@numba.njit(cache=True, nogil=True, fastmath=_REORDERED)
def _tilt_weights(table: Any, pattern: Any, weights: Any, factors: Any) -> tuple[float, float]:
    """Multiply every cell by its factor, in place; returns the new sum of weight times cell, and the growth of all."""
    total, grown = 0.0, 0.0
    for block in range(table.shape[0]):
        p = pattern[block]
        if p < 0:
            continue
        row, weight, factor = table[block], weights[p], factors[p]
        part, more = 0.0, 0.0
        for i in range(table.shape[1]):
            old = row[i]
            new = old * factor[i]
            row[i] = new
            part += new * weight[i]
            more += new - old
        total += part
        grown += more
    return total, grown


@numba.njit(cache=True, nogil=True, fastmath=_REORDERED)
def _tilt_masks(table: Any, pattern: Any, weights: Any, factors: Any) -> float:
    """The same for weights of 0 and 1; returns the sum of the counted cells before."""
    total = 0.0
    for block in range(table.shape[0]):
        p = pattern[block]
        if p < 0:
            continue
        row, weight, factor = table[block], weights[p], factors[p]
        part = 0.0
        for i in range(table.shape[1]):
            old = row[i]
            row[i] = old * factor[i]
            part += old * weight[i]
        total += part
    return total


@numba.njit(cache=True, nogil=True, fastmath=_REORDERED)
def _tilt_masks_into(out: Any, table: Any, pattern: Any, weights: Any, factors: Any) -> float:
    """The same into `out`. A loop of its own: one that may or may not work in place is not vectorised."""
    total = 0.0
    for block in range(table.shape[0]):
        p = pattern[block]
        row, changed = table[block], out[block]
        if p < 0:
            changed[:] = row
            continue
        weight, factor = weights[p], factors[p]
        part = 0.0
        for i in range(table.shape[1]):
            old = row[i]
            changed[i] = old * factor[i]
            part += old * weight[i]
        total += part
    return total
