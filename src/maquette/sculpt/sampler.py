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
    ALONG,
    ALONG_FIRST,
    ALONG_SECOND,
    BINS,
    CELL,
    CELL_FIRST,
    CELL_OWN,
    CELL_SECOND,
    COPIES,
    FIRST,
    FIRST_MAP,
    LEVEL,
    LINES,
    MAP,
    ORDER,
    OTHER,
    OTHER_STEP,
    OWN,
    OWN_STEP,
    SECOND,
    SECOND_MAP,
    SIZE,
    Layout,
    Targets,
    count_shapes,
)
from maquette.sculpt.wide_sweep import LANES, sweep_by_attribute

# Chosen on the tables of benchmarks/sculpt.py (figures in benchmarks/results/sculpt.jsonl):
_GAIN = 20.0
"""The gain of a cell, by its binomial variance in counts."""
_MAX_TABLES = 30.0
"""Tables that may share an attribute at full gain; where more do they all push the same rows, so each pushes less."""
_INTEGRAL_STEP = 0.15
_MEMORY = 0.5
"""How fast the reference counts follow the current ones."""
# Limits of time, and of single precision:
WIDE = 1_000
"""Incidences of attributes and tables from which on a sweep goes attribute by attribute."""
_MAX_VISITS = 2.5e9
"""Pairs of a row and a table that sweeps beyond the first may visit, and as many those that are averaged: some 20
seconds."""
_MAX_LOG = 8.0
"""Of a potential without its fixed part."""


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
        self._is_wide = len(layout.members) >= WIDE
        depth, widest = layout.levels.maps.shape[1:]
        self._weights = np.ones(0 if self._is_wide else layout.weights, dtype=np.float32)
        self._scratch = np.ones((depth, widest + LANES), dtype=np.float32)
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
        if self._is_wide:
            self._sweep_wide(gain, potential)
            return
        layout, (m, d) = self.layout, self.rows.shape
        parts = layout.partial.cells
        self._weights[:parts] = np.exp(potential[:parts])
        _set_weights(
            np.exp(potential), layout.orders, layout.sizes, layout.offsets, layout.weights_at, self._weights
        )
        _sweep(
            self.rows,
            self._rng.permutation(m),
            self._rng.permutation(d),
            layout.levels.depths,
            layout.levels.bins,
            layout.levels.maps.ravel(),
            layout.levels.parents,
            layout.pointers,
            layout.members,
            self._weights,
            np.exp(gain).astype(np.float32),
            self.counts,
            self._scratch,
            layout.partial.pointers,
            layout.partial.members,
            layout.partial.bins,
            layout.partial.starts,
            layout.partial.runs,
            self._rng.integers(1, 2**63, dtype=np.uint64),
        )

    def _sweep_wide(self, gain: NDArray[np.float64], potential: NDArray[np.float64]) -> None:
        """The same attribute by attribute; counts are taken again afterwards."""
        layout, (m, d), partial = self.layout, self.rows.shape, self.layout.partial
        # rows are exchangeable: in a new order they are read one after the other, which memory is made for
        self.rows[:] = self.rows[self._rng.permutation(m)]
        by_level = np.lexsort((layout.members[:, LEVEL], layout.members[:, OWN]))
        sweep_by_attribute(
            self.rows,
            self._rng.permutation(d),
            layout.levels.depths,
            layout.levels.bins,
            layout.levels.maps.ravel(),
            layout.levels.parents,
            layout.pointers,
            layout.members[by_level],
            potential.astype(np.float32),
            gain.astype(np.float32),
            self._scratch,
            partial.pointers,
            partial.members,
            partial.bins,
            partial.starts,
            partial.runs,
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


@numba.njit(cache=True, nogil=True)
def _set_weights(cells: Any, orders: Any, sizes: Any, offsets: Any, weights_at: Any, weights: Any) -> None:
    """Write every table's weights once per attribute, with that attribute running fastest.

    `cells` (cells) are the weights in the layout's order of cells; `orders` (tables), `sizes` (tables, 3), `offsets`
    (tables + 1) and `weights_at` (tables, 3) are the layout's; `weights` (layout.weights, single precision) is
    written. One step writes one cell into each copy of its table.
    """
    for c in range(orders.shape[0]):
        k0, k1, k2 = sizes[c, 0], sizes[c, 1], sizes[c, 2]
        order = orders[c]
        for i in range(k0):
            for j in range(k1):
                for k in range(k2):
                    value = cells[offsets[c] + (i * k1 + j) * k2 + k]
                    weights[weights_at[c, 0] + (j * k2 + k) * k0 + i] = value
                    if order > 1:
                        weights[weights_at[c, 1] + (i * k2 + k) * k1 + j] = value
                    if order > 2:
                        weights[weights_at[c, 2] + (i * k1 + j) * k2 + k] = value


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz", "arcp"})
def _sweep(
    rows: Any,
    row_order: Any,
    attribute_order: Any,
    depths: Any,
    bins: Any,
    maps: Any,
    parents: Any,
    pointers: Any,
    members: Any,
    weights: Any,
    gains: Any,
    counts: Any,
    scratch: Any,
    part_pointers: Any,
    part_members: Any,
    part_bins: Any,
    starts: Any,
    runs: Any,
    seed: Any,
) -> None:
    """Draw every value of every row once.

    `rows` (m, d) are row codes, changed in place; `row_order` (m) and `attribute_order` (d) say in which order they
    are drawn. `depths` (d), `bins` (d, levels), `maps` (flat) and `parents` are those of `LevelMaps`; `pointers` and
    `members` the layout's; `part_pointers`, `part_members`, `part_bins`, `starts` and `runs` those of `PartialTables`.
    `weights` (layout.weights) are exponentials of potentials, once per table and attribute, kept up to date; `gains`
    (cells) is the factor by which a cell's weight changes when its count changes by one; `counts` (cells) are the
    rows' current counts, kept up to date. `scratch` (levels, bins) holds the weights of one attribute's values by
    level. `seed` starts a 64-bit xorshift generator.

    One step draws one value of one row: the weights of all tables that hold the attribute, at the row's other values,
    are multiplied up level by level; coarse levels are passed down to finer ones; a bin of the finest level is drawn
    in proportion. Where the value changes, the row leaves a cell and enters another in every such table, and all
    copies of the weights of these two cells follow.
    """
    state = seed
    for v in range(row_order.shape[0]):
        row = rows[row_order[v]]
        for w in range(attribute_order.shape[0]):
            a = attribute_order[w]
            depth = depths[a]
            for level in range(depth):
                for x in range(bins[a, level]):
                    scratch[level, x] = np.float32(1.0)
            for q in range(pointers[a], pointers[a + 1]):
                t = members[q]
                start = t[ALONG] + t[ALONG_FIRST] * maps[t[FIRST_MAP] + row[t[FIRST]]]
                if t[ORDER] > 2:
                    start += t[ALONG_SECOND] * maps[t[SECOND_MAP] + row[t[SECOND]]]
                level = t[LEVEL]
                for x in range(t[SIZE]):
                    scratch[level, x] *= weights[start + x]
            for q in range(part_pointers[a], part_pointers[a + 1]):
                t = part_members[q]
                line = t[LINES] + row[t[OTHER]]
                for r in range(starts[line], starts[line + 1]):
                    for x in range(runs[r, 0], runs[r, 1]):
                        scratch[0, x] *= weights[runs[r, 2]]
            for level in range(depth - 2, -1, -1):
                for x in range(bins[a, level]):
                    scratch[level, x] *= scratch[level + 1, parents[a, level, x]]
            total = np.float32(0.0)
            for x in range(bins[a, 0]):
                total += scratch[0, x]
            state ^= state << np.uint64(13)
            state ^= state >> np.uint64(7)
            state ^= state << np.uint64(17)
            point = np.float32((state >> np.uint64(40)) * (1.0 / (1 << 24))) * total
            new = bins[a, 0] - 1
            running = np.float32(0.0)
            for x in range(bins[a, 0]):
                running += scratch[0, x]
                if running > point:
                    new = x
                    break
            old = row[a]
            if new == old or not 0 < total < np.inf:  # out of single precision: leave it for the next sweep
                continue
            for q in range(pointers[a], pointers[a + 1]):
                t = members[q]
                old_bin, new_bin = np.int64(maps[t[MAP] + old]), np.int64(maps[t[MAP] + new])
                if old_bin == new_bin:
                    continue
                first = np.int64(maps[t[FIRST_MAP] + row[t[FIRST]]])
                second = np.int64(maps[t[SECOND_MAP] + row[t[SECOND]]])
                cell = t[CELL] + t[CELL_FIRST] * first + t[CELL_SECOND] * second
                old_cell, new_cell = cell + t[CELL_OWN] * old_bin, cell + t[CELL_OWN] * new_bin
                counts[old_cell] -= 1.0
                counts[new_cell] += 1.0
                up, down = gains[old_cell], np.float32(1.0) / gains[new_cell]
                for p in range(COPIES, COPIES + 4 * t[ORDER], 4):
                    place = t[p] + t[p + 2] * first + t[p + 3] * second
                    weights[place + t[p + 1] * old_bin] *= up
                    weights[place + t[p + 1] * new_bin] *= down
            for q in range(part_pointers[a], part_pointers[a + 1]):
                t = part_members[q]
                line = t[BINS] + t[OTHER_STEP] * row[t[OTHER]]
                old_cell = part_bins[line + t[OWN_STEP] * old]
                new_cell = part_bins[line + t[OWN_STEP] * new]
                if old_cell == new_cell:
                    continue
                if old_cell >= 0:
                    counts[old_cell] -= 1.0
                    weights[old_cell] *= gains[old_cell]
                if new_cell >= 0:
                    counts[new_cell] += 1.0
                    weights[new_cell] /= gains[new_cell]
            row[a] = new


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
