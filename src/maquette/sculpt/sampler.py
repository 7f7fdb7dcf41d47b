"""The sweeps: every row, every attribute, drawn anew from what the tables still lack.

A Gibbs sampler over the rows of the small database whose log-weights are fed back from the rows' own counts: for a
table with target Y and live count E the potential of a cell is I + kappa (Y - E), with a slow part I and a fast part
that is updated after every single move. It is multiplicative weights with the universe-sized weight vector replaced
by rows in equilibrium with it, so its cost does not depend on the universe. The fixed point is the maximum a
posteriori of a log-linear model whose interactions have prior deviation tau.

Compiled here because no library samples with feedback after every move; numpy would need one call per row and
attribute.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette import _lazy_numba as numba
from maquette.sculpt import targets as patches
from maquette.sculpt.targets import (
    ALONG,
    ALONG_FIRST,
    ALONG_SECOND,
    CELL,
    CELL_FIRST,
    CELL_OWN,
    CELL_SECOND,
    COPIES,
    FIRST,
    FIRST_MAP,
    LEVEL,
    MAP,
    ORDER,
    SECOND,
    SECOND_MAP,
    SIZE,
    Layout,
)

FEEDBACK = 20.0
_LARGEST_LOG = 8.0
_FEW = 30.0
"""Tables that may meet in one attribute at full feedback; where more meet they answer for the same rows together."""
_SLOW_STEP = 0.15
_MEMORY = 0.5
"""How fast the reference counts follow the live ones."""


@dataclass(slots=True, eq=False)
class Targets:
    """What the rows should look like, cell by cell of a layout, in counts of the rows."""

    counts: NDArray[np.float64]
    deviations: NDArray[np.float64]
    freedom: NDArray[np.float64]
    """The prior deviation tau of a cell's log-interaction."""
    base: NDArray[np.float64]
    """Fixed log-potentials."""


class Carving:
    """Rows being carved; every call of `sweep` visits all of them once."""

    def __init__(
        self,
        layout: Layout,
        targets: Targets,
        rows: NDArray[np.uint16],
        *,
        rng: np.random.Generator,
        slow: NDArray[np.float64] | None = None,
    ) -> None:
        self.layout = layout
        self.targets = targets
        self.rows = rows
        self.slow = np.zeros(layout.cells) if slow is None else slow
        self.counts = layout.count(rows)
        self._reference = self.counts.copy()
        self._weights = np.ones(layout.weights, dtype=np.float32)
        self._scratch = np.ones(layout.levelled.maps.shape[1:], dtype=np.float32)
        self._rng = rng
        self._crowding = np.minimum(1.0, _FEW / _neighbours(layout))

    @property
    def lacking(self) -> NDArray[np.float64]:
        """Targets minus live counts."""
        return self.targets.counts - self.counts

    def sweep(self, *, grip: float = 0.0) -> float:
        """Visit every attribute of every row once; returns the share of values that changed.

        `grip` is the least feedback per count: it holds heavy cells to their targets, and is safe only for rows
        that are near them already.
        """
        fast = self._feed(grip)
        layout, (m, d) = self.layout, self.rows.shape
        moved = _sweep(
            self.rows,
            self._rng.permutation(m),
            self._rng.permutation(d),
            layout.levelled.depths,
            layout.levelled.bins,
            layout.levelled.maps.ravel(),
            layout.levelled.parents,
            layout.pointers,
            layout.members,
            self._weights,
            np.exp(fast).astype(np.float32),
            self.counts,
            self._scratch,
            layout.patchwork.pointers,
            layout.patchwork.members,
            layout.patchwork.bins,
            layout.patchwork.starts,
            layout.patchwork.runs,
            self._rng.integers(1, 2**63, dtype=np.uint64),
        )
        return moved / max(m * d, 1)

    def _feed(self, grip: float) -> NDArray[np.float64]:
        """Update the slow potentials, set all weights, return the fast gain of every cell."""
        targets, lacking = self.targets, self.lacking
        self._reference += _MEMORY * (self.counts - self._reference)
        mass = np.maximum(self._reference, 0.5)
        pull = targets.freedom**2 * mass / targets.deviations**2
        spread = mass * np.maximum(1 - mass / max(len(self.rows), 1), 0.02)
        firm = np.minimum(grip * self._crowding, pull / 8)
        fast = np.minimum(pull, np.maximum(FEEDBACK * self._crowding / (spread + 1), firm))
        # a stronger gain would leave the cell's weight far below its potential once the gap has closed
        fast = np.minimum(fast, _LARGEST_LOG / (np.abs(lacking) + 1))
        rest = pull - fast
        step = (rest * lacking - self.slow) / (1 + rest * spread)
        self.slow += _SLOW_STEP * np.clip(step, -1, 1)
        np.clip(self.slow, -_LARGEST_LOG, _LARGEST_LOG, out=self.slow)
        potential = targets.base + np.clip(self.slow + fast * lacking, -_LARGEST_LOG, _LARGEST_LOG)
        layout = self.layout
        self._weights[: layout.patchwork.cells] = np.exp(potential[: layout.patchwork.cells])
        _set_weights(
            np.exp(potential), layout.orders, layout.sizes, layout.offsets, layout.weights_at, self._weights
        )
        return fast


def _neighbours(layout: Layout) -> NDArray[np.float64]:
    """For every cell, how many tables meet in the busiest attribute of its table."""
    busy = np.diff(layout.pointers).astype(np.float64)
    small = [(patch.attributes, patch.count) for patch in layout.patchwork.patches]
    attributes = [shape.attributes for shape in layout.shapes]
    tables = [*small, *zip(attributes, np.diff(layout.offsets).tolist(), strict=True)]
    return np.concatenate([np.full(cells, max(busy[a] for a in held)) for held, cells in tables])


@numba.njit(cache=True, nogil=True)
def _set_weights(cells: Any, orders: Any, sizes: Any, offsets: Any, weights_at: Any, weights: Any) -> None:
    """Write every table's weights once per attribute, with that attribute running fastest.

    `cells` are the weights cell by cell as the layout has them; `orders`, `sizes` (tables x 3), `offsets` and
    `weights_at` (tables x 3) are the layout's; `weights` is written.
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
    visit: Any,
    turn: Any,
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
    patch_pointers: Any,
    patch_members: Any,
    patch_bins: Any,
    starts: Any,
    runs: Any,
    seed: Any,
) -> int:
    """Draw every value of every row anew, in the given order; returns how many changed.

    `rows` (m x d) are working codes, changed in place; `visit` orders the rows, `turn` the attributes. `depths`,
    `bins` (attributes x levels), `maps` (flat), `parents`, `pointers` and `members` are the layout's. `weights` are
    the exponentials of the potentials, once per table and attribute; `gains` the factor per count by which a cell's
    weight changes when a row comes or goes; `counts` the live counts of all cells; all three by cell, the first and
    last kept up to date. `scratch` (levels x bins) holds the weights of one attribute's values. The `patch_` arrays,
    `starts` and `runs` are the patchwork's. `seed` starts a 64-bit xorshift generator.
    """
    state = seed
    moved = 0
    for v in range(visit.shape[0]):
        row = rows[visit[v]]
        for w in range(turn.shape[0]):
            a = turn[w]
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
            for q in range(patch_pointers[a], patch_pointers[a + 1]):
                t = patch_members[q]
                line = t[patches.LINES] + row[t[patches.OTHER]]
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
            reached = np.float32(0.0)
            for x in range(bins[a, 0]):
                reached += scratch[0, x]
                if reached > point:
                    new = x
                    break
            old = row[a]
            if new == old or not 0 < total < np.inf:  # out of single precision: leave it for the next sweep
                continue
            moved += 1
            for q in range(pointers[a], pointers[a + 1]):
                t = members[q]
                left, came = np.int64(maps[t[MAP] + old]), np.int64(maps[t[MAP] + new])
                if left == came:
                    continue
                first = np.int64(maps[t[FIRST_MAP] + row[t[FIRST]]])
                second = np.int64(maps[t[SECOND_MAP] + row[t[SECOND]]])
                cell = t[CELL] + t[CELL_FIRST] * first + t[CELL_SECOND] * second
                cell_left, cell_came = cell + t[CELL_OWN] * left, cell + t[CELL_OWN] * came
                counts[cell_left] -= 1.0
                counts[cell_came] += 1.0
                up, down = gains[cell_left], np.float32(1.0) / gains[cell_came]
                for p in range(COPIES, COPIES + 4 * t[ORDER], 4):
                    place = t[p] + t[p + 2] * first + t[p + 3] * second
                    weights[place + t[p + 1] * left] *= up
                    weights[place + t[p + 1] * came] *= down
            for q in range(patch_pointers[a], patch_pointers[a + 1]):
                t = patch_members[q]
                base = t[patches.BINS] + t[patches.OTHER_STEP] * row[t[patches.OTHER]]
                gone = patch_bins[base + t[patches.OWN_STEP] * old]
                here = patch_bins[base + t[patches.OWN_STEP] * new]
                if gone == here:
                    continue
                if gone >= 0:
                    counts[gone] -= 1.0
                    weights[gone] *= gains[gone]
                if here >= 0:
                    counts[here] += 1.0
                    weights[here] /= gains[here]
            row[a] = new
    return moved
