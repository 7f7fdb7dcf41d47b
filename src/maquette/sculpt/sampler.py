"""The numeric kernels: sweeps that draw the values of synthetic rows, and swaps of blocks of columns between rows.

A sweep is a Gibbs sampler over the rows of the small database whose log-weights follow from the rows' own counts: for
a cell with target Y and current count E the log-potential is `fixed + integral + gain * (Y - E)`, a proportional and an
integral term as in a controller. `integral` changes between sweeps, E after every single draw. It is multiplicative
weights with the universe-sized weight vector replaced by rows in equilibrium with it, so its cost does not depend on
the universe. The fixed point is the maximum a posteriori of a log-linear model whose interactions have prior deviation
tau.

Compiled because every draw changes the counts that the next one depends on; numpy would need a call per row and
attribute. Arrays of tables are those of `targets.Layout` and `targets.PartialTables`, described there. Shapes below: m
rows, d attributes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette import _lazy_numba as numba
from maquette.sculpt.bins import Shape
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
    Targets,
    count_shapes,
)

# Chosen on the tables of benchmarks/sculpt.py (figures in benchmarks/results/sculpt.jsonl):
_GAIN = 20.0
"""The gain of a cell, by its binomial variance in counts."""
_MAX_TABLES = 30.0
"""Tables that may share an attribute at full gain; where more do they all push the same rows, so each pushes less."""
_INTEGRAL_STEP = 0.15
_MEMORY = 0.5
"""How fast the reference counts follow the current ones."""
# Limits of time, and of single precision:
_MAX_VISITS = 2.5e9
"""Pairs of a row and a table that sweeps beyond the first may visit, and as many those that are averaged: some 20
seconds."""
_MAX_LOG = 8.0
"""Of a potential without its fixed part."""
_LANES = 8
"""Values that a processor adds at once."""


class RowSampler:
    """Synthetic rows on their way to the targets; every call of `sweep` draws all their values once."""

    def __init__(
        self,
        layout: Layout,
        targets: Targets,
        rows: NDArray[np.uint16],
        *,
        rng: np.random.Generator,
        integral: NDArray[np.float64],
    ) -> None:
        self.layout = layout
        self.targets = targets
        self.rows = rows
        self.integral = integral
        self.counts = layout.count(rows)
        self._reference = self.counts.copy()
        depth, widest = layout.levels.maps.shape[1:]
        self._scratch = np.zeros((depth, widest + _LANES), dtype=np.float32)
        self._rng = rng
        self._damping = np.minimum(1.0, _MAX_TABLES / _tables_sharing(layout))

    def count(self, shapes: list[Shape]) -> list[NDArray[np.int64]]:
        """How many rows lie in the cells of further tables, flat."""
        return count_shapes(self.layout.hierarchy, shapes, self.rows)

    @property
    def affordable_sweeps(self) -> int:
        """How many sweeps of all rows over all tables the limit of time allows, one at least."""
        return max(1, int(_MAX_VISITS / max(len(self.rows) * len(self.layout.members), 1)))

    def sweep(self, *, min_gain: float = 0.0) -> None:
        """Draw every attribute of every row once.

        `min_gain` is the least gain per count: it holds heavy cells to their targets, and is safe only for rows that
        are near them already.
        """
        gain, potential = self._update_potentials(min_gain)
        layout, (m, d) = self.layout, self.rows.shape
        # rows are exchangeable: in a new order they are read one after the other, which memory is made for
        self.rows[:] = self.rows[self._rng.permutation(m)]
        _sweep(
            self.rows,
            self._rng.permutation(d),
            layout.levels.depths,
            layout.levels.bins,
            layout.levels.maps.ravel(),
            layout.levels.parents,
            layout.pointers,
            layout.members,
            potential.astype(np.float32),
            gain.astype(np.float32),
            self._scratch,
            layout.partial.pointers,
            layout.partial.members,
            layout.partial.bins,
            layout.partial.starts,
            layout.partial.runs,
            self._rng.integers(1, 2**63, dtype=np.uint64),
        )
        self.counts = layout.count(self.rows)

    def _update_potentials(self, min_gain: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """One step of the integral term; the gain and the log-potential of every cell."""
        targets, residual = self.targets, self.targets.counts - self.counts
        self._reference += _MEMORY * (self.counts - self._reference)
        mass = np.maximum(self._reference, 0.5)
        full_gain = targets.prior_deviations**2 * mass / targets.deviations**2
        variance = mass * np.maximum(1 - mass / max(len(self.rows), 1), 0.02)
        least = np.minimum(min_gain * self._damping, full_gain / 8)
        gain = np.minimum(full_gain, np.maximum(_GAIN * self._damping / (variance + 1), least))
        # a stronger gain would leave the cell's weight far below its potential once the residual has closed
        gain = np.minimum(gain, _MAX_LOG / (np.abs(residual) + 1))
        remaining = full_gain - gain
        step = (remaining * residual - self.integral) / (1 + remaining * variance)
        self.integral += _INTEGRAL_STEP * np.clip(step, -1, 1)
        np.clip(self.integral, -_MAX_LOG, _MAX_LOG, out=self.integral)
        potential = targets.fixed + np.clip(self.integral + gain * residual, -_MAX_LOG, _MAX_LOG)
        return gain, potential


def _tables_sharing(layout: Layout) -> NDArray[np.float64]:
    """For every cell, how many tables share the busiest attribute of its table."""
    busy = np.diff(layout.pointers).astype(np.float64)
    partial = [(table.attributes, table.count) for table in layout.partial.tables]
    attributes = [shape.attributes for shape in layout.shapes]
    tables = [*partial, *zip(attributes, np.diff(layout.offsets).tolist(), strict=True)]
    return np.concatenate([np.full(cells, max(busy[a] for a in names)) for names, cells in tables])


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz", "arcp"})
def _sweep(
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
    layout's; `part_pointers`, `part_members`, `part_bins`, `starts` and `runs` those of `PartialTables`. `potentials`
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
    begins = np.empty(most, np.int32)
    for w in range(attribute_order.shape[0]):
        a = attribute_order[w]
        depth, size, count = depths[a], bins[a, 0], pointers[a + 1] - pointers[a]
        group_ends = np.zeros(depth, np.int64)
        cells = codes = triples = 0
        for q in range(count):
            t = members[pointers[a] + q]
            cells += 2 * _width(t[SIZE]) * t[FIRST_SIZE] * t[SECOND_SIZE]
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
                line_at[codes + code] = 2 * width * t[FIRST_SIZE] * np.int64(maps[t[SECOND_MAP] + code])
            codes += bins[t[SECOND], 0]
            for j in range(t[SECOND_SIZE]):
                for i in range(t[FIRST_SIZE]):
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
            for j in range(t[SECOND_SIZE]):
                for i in range(t[FIRST_SIZE]):
                    cell = t[CELL] + t[CELL_FIRST] * i + t[CELL_SECOND] * j
                    for x in range(t[SIZE]):
                        potentials[cell + t[CELL_OWN] * x] = lines[cells + x]
                    cells += 2 * _width(t[SIZE])


@numba.njit(cache=True, nogil=True)
def _width(bins: Any) -> Any:
    """Bins with padding: 4, or whole lanes of 8."""
    return 4 if bins <= 4 else (bins + 7) // 8 * 8


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
    the block, each table once, and makes the change if that is negative.
    """
    changed = np.empty((members.shape[0] + part_members.shape[0], 2), dtype=np.int64)
    d = rows.shape[1]
    for v in range(receivers.shape[0]):
        row, other, block = rows[receivers[v]], rows[donors[v]], blocks[choices[v]]
        change, count = 0.0, 0
        for a in range(d):
            if not block[a]:
                continue
            for q in range(pointers[a], pointers[a + 1]):
                t = members[q]
                first, second, order = t[FIRST], t[SECOND], t[ORDER]
                with_first = order > 1 and block[first]
                with_second = order > 2 and block[second]
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
                if block[b] and b < a:
                    continue
                old = part_bins[t[BINS] + t[OWN_STEP] * row[a] + t[OTHER_STEP] * row[b]]
                new_other = other[b] if block[b] else row[b]
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
            if block[a]:
                row[a] = other[a]
