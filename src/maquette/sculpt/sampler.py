"""Synthetic rows on their way to the targets: sweeps that draw every value again, and the compiled loops.

A sweep is a Gibbs sampler over the rows of the small database whose log-weights follow from the rows' own counts: for
a cell with target Y and current count E the log-potential is `fixed + integral + gain * (Y - E)`, a proportional and an
integral term as in a controller. `integral` changes between sweeps, E after every single draw. It is multiplicative
weights with the universe-sized weight vector replaced by rows in equilibrium with it, so its cost does not depend on
the universe. The fixed point is the maximum a posteriori of a log-linear model whose interactions have prior deviation
tau.

Loops are compiled because every draw changes the counts that the next one depends on; numpy would need a call per row
and attribute. Arrays of tables are those of `targets.Layout`, described there. Shapes below: m rows, d attributes.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.core import _lazy_numba as numba
from maquette.sculpt.targets import (
    CELL,
    CELL_FIRST,
    CELL_OWN,
    CELL_SECOND,
    FIRST,
    FIRST_MAP,
    FIRST_SIZE,
    LEVEL,
    MAP,
    ORDER,
    SECOND,
    SECOND_MAP,
    SECOND_SIZE,
    SIZE,
    Layout,
    LevelMaps,
    Targets,
)

# Chosen on the tables of benchmarks/sculpt.py (figures in benchmarks/results/sculpt.jsonl):
_GAIN = 20.0
"""The gain of a cell, by its binomial variance in counts."""
_MAX_TABLES = 30.0
"""Tables that may share an attribute at full gain; where more do they all push the same rows, so each pushes less."""
_INTEGRAL_STEP = 0.15
_MEMORY = 0.5
"""How fast the reference counts follow the current ones."""
_BLOCK = 10_000
"""Rows that are drawn attribute by attribute before the next ones."""
# Limits of time, and of single precision:
_MAX_VISITS = 2.5e9
"""Pairs of a row and a table that sweeps beyond the first may visit, and as many those that are averaged: some 20
seconds."""
_MAX_LOG = 8.0
"""Of a potential without its fixed part."""
LANES = 4
"""Values that a processor adds at once; the length of a piece of a line."""
_LOG2_E, _LEAST_LOG2 = np.float32(np.log2(np.e)), np.float32(-126.0)
_P0, _P1, _P2, _P3, _P4, _P5 = map(
    np.float32, (1.0, 0.69315449, 0.24014182, 0.05586034, 0.00894959, 0.00189375)
)
"""2^x for x in [0, 1) within 10^-7: the polynomial that interpolates it in Chebyshev points."""
_BIAS, _MANTISSA = np.int32(127), np.int32(23)
_NOTHING, _UNIT = np.float32(0.0), 1.0 / (1 << 24)
_SHIFT_1, _SHIFT_2, _SHIFT_3, _DROPPED = map(np.uint64, (13, 7, 17, 40))


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
        self._scratch = scratch_of(layout)
        self._rng = rng
        self._damping = np.minimum(1.0, _MAX_TABLES / _tables_sharing(layout))

    def grown(self, times: int) -> RowSampler:
        """So many times as many rows, each repeated, with targets in proportion and the same potentials."""
        targets = self.targets
        grown = RowSampler(
            self.layout,
            Targets(
                targets.counts * times,
                targets.deviations * times,
                targets.prior_deviations,
                targets.fixed,
            ),
            np.tile(self.rows, (times, 1)),
            rng=self._rng,
            integral=self.integral,
        )
        grown._reference = self._reference * times
        return grown

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
        potential, gain = potential.astype(np.float32), gain.astype(np.float32)
        # rows are exchangeable: in a new order they are read one after the other, which memory is made for
        self.rows[:] = self.rows[self._rng.permutation(m)]
        for block in np.array_split(self.rows, math.ceil(m / _BLOCK)):
            draw_values(
                block,
                self._rng.permutation(d),
                layout.levels.depths,
                layout.levels.bins,
                layout.levels.parents,
                layout.pointers,
                layout.members,
                potential,
                gain,
                *self._scratch,
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
    busiest = [max(busy[a] for a in shape.attributes) for shape in layout.shapes]
    return np.repeat(busiest, np.diff(layout.offsets))


# The compiled loops.


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
    values: NDArray[np.float32]
    """The same memory, flat."""


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
    lines = np.zeros((int(np.bincount(owner, pieces).max(initial=0)), LANES), dtype=np.float32)
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
        lines=lines,
        values=lines.reshape(-1),
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


@numba.njit(cache=True, nogil=True, plain=True, fastmath={"reassoc", "contract", "nsz", "arcp"})
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
    values: Any,
    seed: Any,
) -> None:
    """Draw every value of every row once, attribute by attribute.

    `rows` (m, d) are row codes, changed in place; `attribute_order` (d) says in which order attributes are drawn.
    `depths` (d), `bins` (d, levels) and `parents` are those of `LevelMaps`; `pointers` and `members` the layout's.
    `potentials` (cells) are log-potentials, kept up to date; `gains` (cells) is by how much one more row in a cell
    lowers its potential. `widths` to `values` are those of `Scratch`. `seed` starts a 64-bit xorshift generator.

    One attribute at a time, so that its tables stay in the processor's cache for all rows. They are copied into
    `lines`: a run of potentials along the attribute in pieces of what is added at once, and their gains behind it.
    `line_at` holds where the line of a table begins for every code of another attribute.

    One step draws one value of one row: the lines of all tables that hold the attribute, at the row's other values,
    are added up level by level; coarse levels are passed down to finer ones; a bin of the finest level is drawn in
    proportion to the exponential. Where the value changes, the row leaves a cell and enters another in every such
    table.
    """
    zero, state, finest = np.int64(0), seed, logs[0]
    for turn in range(
        2 * len(attribute_order)
    ):  # each attribute twice: its lines are copied, and copied back
        a, is_end = attribute_order[turn >> 1], turn & 1
        start, count, size = pointers[a], pointers[a + 1] - pointers[a], bins[a, 0]
        at = zero
        for q in range(start, start + count):
            t = members[q]
            step = LANES * widths[a, t[LEVEL]]
            own, length = t[CELL_OWN], t[SIZE]
            for j in range(t[SECOND_SIZE]):
                for i in range(t[FIRST_SIZE]):
                    cell = t[CELL] + t[CELL_FIRST] * i + t[CELL_SECOND] * j
                    for x in range(at, at + length):
                        if is_end:
                            potentials[cell] = values[x]
                        else:
                            values[x] = potentials[cell]
                            values[x + step] = gains[cell]
                        cell += own
                    at += 2 * step
        if is_end:
            continue
        depth = depths[a]
        for v in range(len(rows)):
            row = rows[v]
            for q in range(count):
                begins[q] = line_at[places[start + q, 0] + row[places[start + q, 1]]]
            if orders[a] > 2:
                for q in range(count):
                    begins[q] += line_at[places[start + q, 2] + row[places[start + q, 3]]]
            first = zero
            for level in range(depth):
                last, sums = group_ends[a, level], logs[level]
                for piece in range(widths[a, level]):
                    s0 = s1 = s2 = s3 = _NOTHING
                    for q in range(first, last):
                        p = begins[q] + piece
                        s0 += lines[p, 0]
                        s1 += lines[p, 1]
                        s2 += lines[p, 2]
                        s3 += lines[p, 3]
                    x = LANES * piece
                    sums[x] = s0
                    sums[x + 1] = s1
                    sums[x + 2] = s2
                    sums[x + 3] = s3
                first = last
            for level in range(depth - 2, -1, -1):
                for x in range(bins[a, level]):
                    logs[level, x] += logs[level + 1, parents[a, level, x]]
            top = finest[0]
            for x in range(1, size):
                top = finest[x] if finest[x] > top else top
            for x in range(size):  # exp as a power of two by its bits and a polynomial, many at once
                log = (finest[x] - top) * _LOG2_E
                log = log if log > _LEAST_LOG2 else _LEAST_LOG2
                whole = np.floor(log)
                part = log - whole
                powers[x] = (np.int32(whole) + _BIAS) << _MANTISSA
                finest[x] = _P0 + part * (_P1 + part * (_P2 + part * (_P3 + part * (_P4 + part * _P5))))
            total = _NOTHING
            for x in range(size):
                total += finest[x] * factors[x]
                finest[x] = total
            state ^= state << _SHIFT_1
            state ^= state >> _SHIFT_2
            state ^= state << _SHIFT_3
            point = np.float32((state >> _DROPPED) * _UNIT) * total
            new, old = zero, zero + row[a]
            while new < size - 1 and finest[new] <= point:
                new += 1
            if new == old:
                continue
            old_bin, new_bin = old, new
            first = zero
            for level in range(depth):
                last, step = group_ends[a, level], LANES * widths[a, level]
                if old_bin != new_bin:
                    for q in range(first, last):
                        p = LANES * begins[q]
                        values[p + old_bin] += values[p + step + old_bin]
                        values[p + new_bin] -= values[p + step + new_bin]
                first = last
                old_bin, new_bin = zero + parents[a, level, old_bin], zero + parents[a, level, new_bin]
            row[a] = new


@numba.njit(cache=True, nogil=True, plain=True)
def swap_pass(
    rows: Any,
    receivers: Any,
    donors: Any,
    choices: Any,
    blocks: Any,
    maps: Any,
    pointers: Any,
    members: Any,
    residual: Any,
    precisions: Any,
    differs: Any,
    proposal: Any,
    left: Any,
    entered: Any,
) -> None:
    """One proposal for every row: take the values of a block of columns from another row.

    `rows` (m, d) are row codes, changed in place; proposal i gives row `receivers[i]` the block `choices[i]` of row
    `donors[i]` (m each). `blocks` (blocks, d) says which attributes a block holds. `maps`, `pointers`, `members` are
    the layout's. `residual` (cells) is the wanted minus the current count, kept up to date; `precisions` (cells) is the
    weight of each squared residual. The last four are working memory: in which attributes (d) the row would change,
    the row as it would be (d), and the cells (tables) that it would leave and enter.

    One step adds up how the weighted sum of squared residuals would change over all tables that hold an attribute of
    the block in which the two rows differ, each table once, and makes the change if that is negative.
    """
    zero, d = np.int64(0), len(differs)
    for v in range(len(receivers)):
        row, other, block = rows[receivers[v]], rows[donors[v]], blocks[choices[v]]
        for a in range(d):
            differs[a] = block[a] and row[a] != other[a]
            proposal[a] = other[a] if block[a] else row[a]
        change, count = 0.0, zero
        for a in range(d):
            if not differs[a]:
                continue
            for q in range(pointers[a], pointers[a + 1]):
                t = members[q]
                first, second, order = t[FIRST], t[SECOND], t[ORDER]
                if order > 1 and first < a and differs[first]:
                    continue  # this table was counted from an earlier attribute of the block
                if order > 2 and second < a and differs[second]:
                    continue
                at, step = t[MAP], t[CELL_OWN]
                old = t[CELL] + step * maps[at + row[a]]
                new = t[CELL] + step * maps[at + proposal[a]]
                if order > 1:
                    at, step = t[FIRST_MAP], t[CELL_FIRST]
                    old += step * maps[at + row[first]]
                    new += step * maps[at + proposal[first]]
                if order > 2:
                    at, step = t[SECOND_MAP], t[CELL_SECOND]
                    old += step * maps[at + row[second]]
                    new += step * maps[at + proposal[second]]
                if old == new:
                    continue
                change += precisions[old] * (1 + 2 * residual[old]) + precisions[new] * (
                    1 - 2 * residual[new]
                )
                left[count] = old
                entered[count] = new
                count += 1
        if count == 0 or change >= 0:
            continue
        for i in range(count):
            residual[left[i]] += 1.0
            residual[entered[i]] -= 1.0
        for a in range(d):
            row[a] = proposal[a]
