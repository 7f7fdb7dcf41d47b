"""Synthetic rows on their way to the targets: potentials of all cells, and sweeps that draw every value again.

A sweep is a Gibbs sampler over the rows of the small database whose log-weights follow from the rows' own counts: for
a cell with target Y and current count E the log-potential is `fixed + integral + gain * (Y - E)`, a proportional and an
integral term as in a controller. `integral` changes between sweeps, E after every single draw. It is multiplicative
weights with the universe-sized weight vector replaced by rows in equilibrium with it, so its cost does not depend on
the universe. The fixed point is the maximum a posteriori of a log-linear model whose interactions have prior deviation
tau.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from maquette.sculpt.bins import Shape
from maquette.sculpt.kernels import draw_values, scratch_of
from maquette.sculpt.targets import Layout, Targets, count_shapes

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

    def count(self, shapes: list[Shape]) -> list[NDArray[np.int64]]:
        """How many rows lie in the cells of further tables, flat."""
        return count_shapes(self.layout.hierarchy, shapes, self.rows)

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
