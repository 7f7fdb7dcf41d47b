"""The compiled loops: drawing the values of synthetic rows, and swaps of blocks of columns between rows.

Compiled because every draw changes the counts that the next one depends on; numpy would need a call per row and
attribute. Arrays of tables are those of `targets.Layout` and `targets.PartialTables`, described there. Shapes below: m
rows, d attributes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette import _lazy_numba as numba
from maquette.sculpt.targets import (
    BINS,
    CELL,
    CELL_FIRST,
    CELL_OWN,
    CELL_SECOND,
    FIRST,
    FIRST_MAP,
    FIRST_SIZE,
    LEVEL,
    LINES,
    MAP,
    ORDER,
    OTHER,
    OTHER_STEP,
    OWN_STEP,
    SECOND,
    SECOND_MAP,
    SECOND_SIZE,
    SIZE,
    Layout,
    LevelMaps,
)

LANES = 4
"""Values that a processor adds at once; the length of a piece of a line."""
_LOG2_E, _LEAST_LOG2 = np.float32(np.log2(np.e)), np.float32(-126.0)
_P0, _P1, _P2, _P3, _P4, _P5 = map(
    np.float32, (1.0, 0.69315449, 0.24014182, 0.05586034, 0.00894959, 0.00189375)
)
"""2^x for x in [0, 1) within 10^-7: the polynomial that interpolates it in Chebyshev points."""


class Scratch(NamedTuple):
    """What `draw_values` needs of a layout besides its arrays, and what it works in."""

    widths: NDArray[np.int64]
    """(d, levels) Pieces of a line: bins by `LANES`, rounded up."""
    logs: NDArray[np.float32]
    """(levels, bins and some more) Logarithms of the weights of one attribute's values."""
    powers: NDArray[np.int32]
    """Powers of two by their bits."""
    factors: NDArray[np.float32]
    """The same memory as floating point."""
    group_ends: NDArray[np.int64]
    """(d, levels) Where the tables of each level end among those of an attribute."""
    orders: NDArray[np.int64]
    """(d) Attributes of the widest table that holds each one."""
    places: NDArray[np.int32]
    """(incidences, 4) Where the starts of lines stand in `line_at` for either other attribute, and which it is."""
    begins: NDArray[np.int32]
    """(tables) The line that a row has chosen."""
    line_at: NDArray[np.int32]
    """Where lines begin, by the codes of either other attribute; the two are added up."""
    lines: NDArray[np.float32]
    """(pieces, LANES) Potentials along one attribute, and their gains."""


def scratch_of(layout: Layout) -> Scratch:
    """For one layout, its working memory as large as the widest attribute needs."""
    levels, members, tables = layout.levels, layout.members.astype(np.int64), np.diff(layout.pointers)
    (d, depth), widest = levels.bins.shape, levels.maps.shape[2]
    widths = -(-levels.bins // LANES)
    owner = np.repeat(np.arange(d), tables)
    width = 2 * widths[owner, members[:, LEVEL]]
    pieces = width * members[:, FIRST_SIZE] * members[:, SECOND_SIZE]
    starts = np.cumsum(pieces) - pieces
    starts -= starts[layout.pointers[owner]]
    none = np.zeros_like(starts)
    first_at, by_first = _line_starts(levels, members[:, (FIRST, FIRST_MAP)], starts, width)
    second_at, by_second = _line_starts(
        levels, members[:, (SECOND, SECOND_MAP)], none, width * members[:, FIRST_SIZE]
    )
    group_ends = np.zeros((d, depth), dtype=np.int64)
    np.add.at(group_ends, (owner, members[:, LEVEL]), 1)
    orders = np.zeros(d, dtype=np.int64)
    np.maximum.at(orders, owner, members[:, ORDER])
    powers = np.empty(widest + LANES, dtype=np.int32)
    return Scratch(
        widths=widths,
        logs=np.empty((depth, widest + LANES), dtype=np.float32),
        powers=powers,
        factors=powers.view(np.float32),
        group_ends=group_ends.cumsum(axis=1),
        orders=orders,
        places=np.column_stack(
            [first_at, members[:, FIRST], second_at + len(by_first), members[:, SECOND]]
        ).astype(np.int32),
        begins=np.empty(int(tables.max(initial=0)), dtype=np.int32),
        line_at=np.concatenate([by_first, by_second]).astype(np.int32),
        lines=np.zeros((int(np.bincount(owner, pieces).max(initial=0)), LANES), dtype=np.float32),
    )


def _line_starts(
    levels: LevelMaps, others: NDArray[np.int64], starts: NDArray[np.int64], steps: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For every incidence and code of another attribute: its start, and so many steps more as its bin is.

    `others` are these attributes and where their maps begin. Also returns, first, where each incidence begins.
    """
    codes = levels.bins[others[:, 0], 0]
    at = np.cumsum(codes) - codes
    owner = np.repeat(np.arange(len(codes)), codes)
    bins = levels.maps.ravel()[others[owner, 1] + np.arange(len(owner)) - at[owner]]
    return at, starts[owner] + steps[owner] * bins


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz", "arcp"})
def draw_values(
    rows: Any,
    attribute_order: Any,
    depths: Any,
    bins: Any,
    parents: Any,
    pointers: Any,
    members: Any,
    potentials: Any,
    gains: Any,
    widths: Any,
    logs: Any,
    powers: Any,
    factors: Any,
    group_ends: Any,
    orders: Any,
    places: Any,
    begins: Any,
    line_at: Any,
    lines: Any,
    part_pointers: Any,
    part_members: Any,
    part_bins: Any,
    starts: Any,
    runs: Any,
    seed: Any,
) -> None:
    """Draw every value of every row once, attribute by attribute.

    `rows` (m, d) are row codes, changed in place; `attribute_order` (d) says in which order attributes are drawn.
    `depths` (d), `bins` (d, levels) and `parents` are those of `LevelMaps`; `pointers` and `members` the layout's;
    `part_pointers`, `part_members`, `part_bins`, `starts` and `runs` those of `PartialTables`. `potentials`
    (cells) are log-potentials, kept up to date; `gains` (cells) is by how much one more row in a cell lowers its
    potential. `widths` to `lines` are those of `Scratch`. `seed` starts a 64-bit xorshift generator.

    One attribute at a time, so that its tables stay in the processor's cache for all rows. They are copied into
    `lines`: a run of potentials along the attribute in pieces of what is added at once, and their gains behind it.
    `line_at` holds where the line of a table begins for every code of another attribute.

    One step draws one value of one row: the lines of all tables that hold the attribute, at the row's other values,
    are added up level by level; coarse levels are passed down to finer ones; a bin of the finest level is drawn in
    proportion to the exponential. Where the value changes, the row leaves a cell and enters another in every such
    table.
    """
    state = seed
    for w in range(attribute_order.shape[0]):
        a = attribute_order[w]
        depth, size, count = depths[a], bins[a, 0], pointers[a + 1] - pointers[a]
        pieces, start = 0, pointers[a]
        for q in range(start, start + count):
            t = members[q]
            width = widths[a, t[LEVEL]]
            for j in range(t[SECOND_SIZE]):
                for i in range(t[FIRST_SIZE]):
                    cell = t[CELL] + t[CELL_FIRST] * i + t[CELL_SECOND] * j
                    for x in range(t[SIZE]):
                        lines[pieces + (x >> 2), x & 3] = potentials[cell + t[CELL_OWN] * x]
                        lines[pieces + width + (x >> 2), x & 3] = gains[cell + t[CELL_OWN] * x]
                    pieces += 2 * width
        for v in range(rows.shape[0]):
            row = rows[v]
            for q in range(count):
                begins[q] = line_at[places[start + q, 0] + row[places[start + q, 1]]]
            if orders[a] > 2:
                for q in range(count):
                    begins[q] += line_at[places[start + q, 2] + row[places[start + q, 3]]]
            first = 0
            for level in range(depth):
                last = group_ends[a, level]
                width = widths[a, level]
                for piece in range(width):
                    s0 = s1 = s2 = s3 = np.float32(0.0)
                    for q in range(first, last):
                        p = begins[q] + piece
                        s0 += lines[p, 0]
                        s1 += lines[p, 1]
                        s2 += lines[p, 2]
                        s3 += lines[p, 3]
                    x = LANES * piece
                    logs[level, x], logs[level, x + 1], logs[level, x + 2], logs[level, x + 3] = (
                        s0,
                        s1,
                        s2,
                        s3,
                    )
                first = last
            for q in range(part_pointers[a], part_pointers[a + 1]):
                t = part_members[q]
                line = t[LINES] + row[t[OTHER]]
                for r in range(starts[line], starts[line + 1]):
                    for x in range(runs[r, 0], runs[r, 1]):
                        logs[0, x] += potentials[runs[r, 2]]
            for level in range(depth - 2, -1, -1):
                for x in range(bins[a, level]):
                    logs[level, x] += logs[level + 1, parents[a, level, x]]
            top = logs[0, 0]
            for x in range(1, size):
                top = logs[0, x] if logs[0, x] > top else top
            for x in range(size):  # exp as a power of two by its bits and a polynomial, many at once
                log = (logs[0, x] - top) * _LOG2_E
                log = log if log > _LEAST_LOG2 else _LEAST_LOG2
                whole = np.floor(log)
                part = log - whole
                powers[x] = (np.int32(whole) + np.int32(127)) << np.int32(23)
                logs[0, x] = _P0 + part * (_P1 + part * (_P2 + part * (_P3 + part * (_P4 + part * _P5))))
            total = np.float32(0.0)
            for x in range(size):
                total += logs[0, x] * factors[x]
                logs[0, x] = total
            state ^= state << np.uint64(13)
            state ^= state >> np.uint64(7)
            state ^= state << np.uint64(17)
            point = np.float32((state >> np.uint64(40)) * (1.0 / (1 << 24))) * total
            new = 0
            while new < size - 1 and logs[0, new] <= point:
                new += 1
            old = np.int64(row[a])
            if new == old:
                continue
            old_bin, new_bin = old, np.int64(new)
            first = 0
            for level in range(depth):
                if old_bin != new_bin:
                    width = widths[a, level]
                    for q in range(first, group_ends[a, level]):
                        p = np.int64(begins[q])
                        lines[p + (old_bin >> 2), old_bin & 3] += lines[
                            p + width + (old_bin >> 2), old_bin & 3
                        ]
                        lines[p + (new_bin >> 2), new_bin & 3] -= lines[
                            p + width + (new_bin >> 2), new_bin & 3
                        ]
                first = group_ends[a, level]
                old_bin, new_bin = np.int64(parents[a, level, old_bin]), np.int64(parents[a, level, new_bin])
            for q in range(part_pointers[a], part_pointers[a + 1]):
                t = part_members[q]
                line = t[BINS] + t[OTHER_STEP] * row[t[OTHER]]
                old_cell = part_bins[line + t[OWN_STEP] * old]
                new_cell = part_bins[line + t[OWN_STEP] * new]
                if old_cell == new_cell:
                    continue
                if old_cell >= 0:
                    potentials[old_cell] += gains[old_cell]
                if new_cell >= 0:
                    potentials[new_cell] -= gains[new_cell]
            row[a] = new
        pieces = 0
        for q in range(count):
            t = members[pointers[a] + q]
            for j in range(t[SECOND_SIZE]):
                for i in range(t[FIRST_SIZE]):
                    cell = t[CELL] + t[CELL_FIRST] * i + t[CELL_SECOND] * j
                    for x in range(t[SIZE]):
                        potentials[cell + t[CELL_OWN] * x] = lines[pieces + (x >> 2), x & 3]
                    pieces += 2 * widths[a, t[LEVEL]]


@numba.njit(cache=True, nogil=True)
def swap_pass(
    rows: Any,
    receivers: Any,
    donors: Any,
    choices: Any,
    blocks: Any,
    maps: Any,
    pointers: Any,
    members: Any,
    part_pointers: Any,
    part_members: Any,
    part_bins: Any,
    residual: Any,
    precisions: Any,
) -> None:
    """One proposal for every row: take the values of a block of columns from another row.

    `rows` (m, d) are row codes, changed in place; proposal i gives row `receivers[i]` the block `choices[i]` of row
    `donors[i]` (m each). `blocks` (blocks, d) says which attributes a block holds. `maps`, `pointers`, `members` are
    the layout's, `part_pointers`, `part_members`, `part_bins` those of its partial tables. `residual` (cells) is the
    wanted minus the current count, kept up to date; `precisions` (cells) is the weight of each squared residual.

    One step adds up how the weighted sum of squared residuals would change over all tables that hold an attribute of
    the block in which the two rows differ, each table once, and makes the change if that is negative.
    """
    differs = np.empty(rows.shape[1], dtype=np.bool_)
    changed = np.empty((members.shape[0] + part_members.shape[0], 2), dtype=np.int64)
    d = rows.shape[1]
    for v in range(receivers.shape[0]):
        row, other, block = rows[receivers[v]], rows[donors[v]], blocks[choices[v]]
        for a in range(d):
            differs[a] = block[a] and row[a] != other[a]
        change, count = 0.0, 0
        for a in range(d):
            if not differs[a]:
                continue
            for q in range(pointers[a], pointers[a + 1]):
                t = members[q]
                first, second, order = t[FIRST], t[SECOND], t[ORDER]
                with_first = order > 1 and differs[first]
                with_second = order > 2 and differs[second]
                if (with_first and first < a) or (with_second and second < a):
                    continue  # this table was counted from an earlier attribute of the block
                stride = np.int64(t[CELL_OWN])
                old = t[CELL] + stride * maps[t[MAP] + row[a]]
                new = t[CELL] + stride * maps[t[MAP] + other[a]]
                if order > 1:
                    stride = np.int64(t[CELL_FIRST])
                    old += stride * maps[t[FIRST_MAP] + row[first]]
                    new += stride * maps[t[FIRST_MAP] + (other[first] if with_first else row[first])]
                if order > 2:
                    stride = np.int64(t[CELL_SECOND])
                    old += stride * maps[t[SECOND_MAP] + row[second]]
                    new += stride * maps[t[SECOND_MAP] + (other[second] if with_second else row[second])]
                if old == new:
                    continue
                change += precisions[old] * (1 + 2 * residual[old]) + precisions[new] * (
                    1 - 2 * residual[new]
                )
                changed[count, 0], changed[count, 1] = old, new
                count += 1
            for q in range(part_pointers[a], part_pointers[a + 1]):
                t = part_members[q]
                b = t[OTHER]
                if differs[b] and b < a:
                    continue
                old = part_bins[t[BINS] + t[OWN_STEP] * row[a] + t[OTHER_STEP] * row[b]]
                new_other = other[b] if differs[b] else row[b]
                new = part_bins[t[BINS] + t[OWN_STEP] * other[a] + t[OTHER_STEP] * new_other]
                if old == new:
                    continue
                if old >= 0:
                    change += precisions[old] * (1 + 2 * residual[old])
                if new >= 0:
                    change += precisions[new] * (1 - 2 * residual[new])
                changed[count, 0], changed[count, 1] = old, new
                count += 1
        if count == 0 or change >= 0:
            continue
        for i in range(count):
            if changed[i, 0] >= 0:  # a partial table leaves most of its cells open
                residual[changed[i, 0]] += 1.0
            if changed[i, 1] >= 0:
                residual[changed[i, 1]] -= 1.0
        for a in range(d):
            if differs[a]:
                row[a] = other[a]
