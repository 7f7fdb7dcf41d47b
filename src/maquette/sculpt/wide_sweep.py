"""Sweeps over wide layouts: the same draws as in `sampler`, one attribute after the other instead of row by row.

With hundreds of attributes the tables of all of them do not fit into the processor's cache, those of one do. Arrays are
those of `targets.Layout` and `targets.PartialTables`, described there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maquette import _lazy_numba as numba
from maquette.sculpt.targets import (
    BINS,
    CELL,
    CELL_FIRST,
    CELL_OWN,
    CELL_SECOND,
    FIRST,
    FIRST_MAP,
    LEVEL,
    LINES,
    ORDER,
    OTHER,
    OTHER_STEP,
    OWN_STEP,
    SECOND,
    SECOND_MAP,
    SIZE,
)

LANES = 8
"""Values that a processor adds at once."""


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz", "arcp"})
def sweep_by_attribute(
    rows: Any,
    attribute_order: Any,
    depths: Any,
    bins: Any,
    maps: Any,
    parents: Any,
    pointers: Any,
    members: Any,
    potentials: Any,
    gains: Any,
    scratch: Any,
    part_pointers: Any,
    part_members: Any,
    part_bins: Any,
    starts: Any,
    runs: Any,
    seed: Any,
) -> None:
    """Draw every value of every row once, attribute by attribute.

    `rows` (m, d) are row codes, changed in place; `attribute_order` (d) says in which order attributes are drawn.
    `depths` (d), `bins` (d, levels), `maps` (flat) and `parents` are those of `LevelMaps`; `pointers` and `members` the
    layout's, in order of level;
    `part_pointers`, `part_members`, `part_bins`, `starts` and `runs` those of `PartialTables`. `potentials`
    (cells) are log-potentials, kept up to date; `gains` (cells) is by how much one more row in a cell lowers its
    potential. `scratch` (levels, bins and some more) holds the logarithms of the weights of one attribute's values by
    level. `seed` starts a 64-bit xorshift generator.

    One attribute at a time, so that its tables stay in the processor's cache for all rows. They are copied into
    `lines`: a run of potentials along the attribute, padded to what is added at once, and their gains behind it.
    `line_at` holds where the line of a table begins for every code of another attribute.

    One step draws one value of one row: the lines of all tables that hold the attribute, at the row's other values,
    are added up level by level; coarse levels are passed down to finer ones; a bin of the finest level is drawn in
    proportion to the exponential. Where the value changes, the row leaves a cell and enters another in every such
    table.
    """
    state = seed
    most = 0
    for a in range(attribute_order.shape[0]):
        most = max(most, pointers[a + 1] - pointers[a])
    at, other, second_at, second = np.empty((4, most), np.int32)
    begins, first_sizes, second_sizes = np.empty((3, most), np.int32)
    for w in range(attribute_order.shape[0]):
        a = attribute_order[w]
        depth, size, count = depths[a], bins[a, 0], pointers[a + 1] - pointers[a]
        group_ends = np.zeros(depth, np.int64)
        cells = codes = triples = 0
        for q in range(count):
            t = members[pointers[a] + q]
            # the last code lies in the last bin; the dummy attribute has one
            first_sizes[q] = 1 + maps[t[FIRST_MAP] + bins[t[FIRST], 0] - 1]
            second_sizes[q] = 1 + maps[t[SECOND_MAP] + bins[t[SECOND], 0] - 1]
            cells += 2 * _width(t[SIZE]) * first_sizes[q] * second_sizes[q]
            codes += bins[t[FIRST], 0] + bins[t[SECOND], 0]
            triples += t[ORDER] > 2
            group_ends[t[LEVEL]] = q + 1
        for level in range(1, depth):
            group_ends[level] = max(group_ends[level], group_ends[level - 1])
        lines, line_at = np.zeros(cells, np.float32), np.empty(codes, np.int32)
        cells = codes = 0
        for q in range(count):
            t = members[pointers[a] + q]
            width = _width(t[SIZE])
            at[q], other[q] = codes, t[FIRST]
            for code in range(bins[t[FIRST], 0]):
                line_at[codes + code] = cells + 2 * width * np.int64(maps[t[FIRST_MAP] + code])
            codes += bins[t[FIRST], 0]
            second_at[q], second[q] = codes, t[SECOND]
            for code in range(bins[t[SECOND], 0]):
                line_at[codes + code] = 2 * width * first_sizes[q] * np.int64(maps[t[SECOND_MAP] + code])
            codes += bins[t[SECOND], 0]
            for j in range(second_sizes[q]):
                for i in range(first_sizes[q]):
                    cell = t[CELL] + t[CELL_FIRST] * i + t[CELL_SECOND] * j
                    for x in range(t[SIZE]):
                        lines[cells + x] = potentials[cell + t[CELL_OWN] * x]
                        lines[cells + width + x] = gains[cell + t[CELL_OWN] * x]
                    cells += 2 * width
        for v in range(rows.shape[0]):
            row = rows[v]
            for q in range(count):
                begins[q] = line_at[at[q] + row[other[q]]]
            if triples > 0:
                for q in range(count):
                    begins[q] += line_at[second_at[q] + row[second[q]]]
            first = 0
            for level in range(depth):
                last = group_ends[level]
                width = _width(bins[a, level])
                if width == 4:
                    s0 = s1 = s2 = s3 = np.float32(0.0)
                    for q in range(first, last):
                        p = begins[q]
                        s0 += lines[p]
                        s1 += lines[p + 1]
                        s2 += lines[p + 2]
                        s3 += lines[p + 3]
                    scratch[level, 0], scratch[level, 1], scratch[level, 2], scratch[level, 3] = (
                        s0,
                        s1,
                        s2,
                        s3,
                    )
                else:
                    for x in range(0, width, 8):
                        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = np.float32(0.0)
                        for q in range(first, last):
                            p = begins[q] + x
                            s0 += lines[p]
                            s1 += lines[p + 1]
                            s2 += lines[p + 2]
                            s3 += lines[p + 3]
                            s4 += lines[p + 4]
                            s5 += lines[p + 5]
                            s6 += lines[p + 6]
                            s7 += lines[p + 7]
                        scratch[level, x], scratch[level, x + 1] = s0, s1
                        scratch[level, x + 2], scratch[level, x + 3] = s2, s3
                        scratch[level, x + 4], scratch[level, x + 5] = s4, s5
                        scratch[level, x + 6], scratch[level, x + 7] = s6, s7
                first = last
            for q in range(part_pointers[a], part_pointers[a + 1]):
                t = part_members[q]
                line = t[LINES] + row[t[OTHER]]
                for r in range(starts[line], starts[line + 1]):
                    for x in range(runs[r, 0], runs[r, 1]):
                        scratch[0, x] += potentials[runs[r, 2]]
            for level in range(depth - 2, -1, -1):
                for x in range(bins[a, level]):
                    scratch[level, x] += scratch[level + 1, parents[a, level, x]]
            top = scratch[0, 0]
            for x in range(1, size):
                top = max(top, scratch[0, x])
            total = np.float32(0.0)
            for x in range(size):
                total += np.exp(scratch[0, x] - top)
                scratch[0, x] = total
            state ^= state << np.uint64(13)
            state ^= state >> np.uint64(7)
            state ^= state << np.uint64(17)
            point = np.float32((state >> np.uint64(40)) * (1.0 / (1 << 24))) * total
            new = 0
            while new < size - 1 and scratch[0, new] <= point:
                new += 1
            old = np.int64(row[a])
            if new == old:
                continue
            old_bin, new_bin = old, np.int64(new)
            first = 0
            for level in range(depth):
                if old_bin != new_bin:
                    width = _width(bins[a, level])
                    for q in range(first, group_ends[level]):
                        p = np.int64(begins[q])
                        lines[p + old_bin] += lines[p + width + old_bin]
                        lines[p + new_bin] -= lines[p + width + new_bin]
                first = group_ends[level]
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
        cells = 0
        for q in range(count):
            t = members[pointers[a] + q]
            for j in range(second_sizes[q]):
                for i in range(first_sizes[q]):
                    cell = t[CELL] + t[CELL_FIRST] * i + t[CELL_SECOND] * j
                    for x in range(t[SIZE]):
                        potentials[cell + t[CELL_OWN] * x] = lines[cells + x]
                    cells += 2 * _width(t[SIZE])


@numba.njit(cache=True, nogil=True)
def _width(bins: Any) -> Any:
    """Bins with padding: 4, or whole lanes of 8."""
    return 4 if bins <= 4 else (bins + 7) // 8 * 8
