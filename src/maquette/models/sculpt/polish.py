"""The last touch: rows as even as the average of several sweeps.

A sweep draws every value at random, so the rows carry a sampling error of their own on top of what the measurements
left open. Averaged over sweeps it fades. So the average of the tables of interest, at full resolution, becomes the
target of one more sweep, and what is left of the sampling error is little more than rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maquette.models.sculpt.bins import Hierarchy
from maquette.models.sculpt.carve import Carving, Targets
from maquette.models.sculpt.layout import Layout, Shape

SWEEPS = 3
"""Sweeps more whose rows count in the average."""
_WORK = 1e9
"""Cells that the last sweep may visit."""
_MOST_POOLED = 2_000_000
_STEADY = 0.001
"""What tables of several attributes move in a sweep, in L1; below it there is no sampling error worth polishing."""
_FREE = 10.0
"""Prior deviation of the fine tables: the average is taken as it is."""


@dataclass(frozen=True, slots=True, eq=False)
class Polished:
    """Rows, and the rows of all sweeps together, which answer with less sampling error than any of them."""

    rows: NDArray[np.uint16]
    pool: NDArray[np.uint16]


def polish(
    carving: Carving,
    pairs: Iterable[tuple[int, ...]],
    *,
    grip: float,
    rng: np.random.Generator,
    tell: Callable[[float], None],
) -> Polished:
    """Sweep on and average, then once more towards the average; once is enough where the rows hardly move."""
    m, hierarchy = len(carving.rows), carving.layout.hierarchy
    shapes = _shapes(hierarchy, list(pairs), m)
    if not shapes:
        return Polished(carving.rows, carving.rows)
    fine = Layout.of(hierarchy, shapes)
    total = fine.count(carving.rows)
    kept = [carving.rows.copy()]
    for done in range(1, SWEEPS + 1):
        measured = carving.counts.copy()
        carving.sweep(grip=grip)
        counts = fine.count(carving.rows)
        if (done + 1) * m <= _MOST_POOLED:
            kept.append(carving.rows.copy())
        if done == 1:
            moved = _moved(fine, total - counts, m), _moved(carving.layout, measured - carving.counts, m)
            if max(moved) < _STEADY:
                tell(1.0)
                return Polished(carving.rows, np.concatenate(kept))
        total += counts
        tell(done / (SWEEPS + 1))
    last = _towards(carving, fine, total / (SWEEPS + 1), rng)
    last.sweep(grip=grip)
    tell(1.0)
    return Polished(last.rows, np.concatenate(kept))


def _moved(layout: Layout, change: NDArray[np.float64], m: int) -> float:
    """The mean L1 distance that tables of several attributes moved, as a fraction of the rows."""
    several = np.count_nonzero(layout.orders > 1)
    return float(np.abs(change[layout.offsets[len(layout.orders) - several] :]).sum()) / max(m * several, 1)


def _towards(
    carving: Carving, fine: Layout, average: NDArray[np.float64], rng: np.random.Generator
) -> Carving:
    """The same carving with the fine tables as further targets."""
    patches = carving.layout.patchwork.patches
    layout = Layout.of(fine.hierarchy, [*carving.layout.shapes, *fine.shapes], patches)
    targets = carving.targets
    return Carving(
        layout,
        Targets(
            np.concatenate([targets.counts, average]),
            np.concatenate([targets.deviations, np.ones(fine.cells)]),
            np.concatenate([targets.freedom, np.full(fine.cells, _FREE)]),
            np.concatenate([targets.base, np.zeros(fine.cells)]),
        ),
        carving.rows,
        rng=rng,
        slow=np.concatenate([carving.slow, np.zeros(fine.cells)]),
    )


def _shapes(hierarchy: Hierarchy, pairs: list[tuple[int, ...]], m: int) -> list[Shape]:
    """The pairs as finely as the work allows: a visit of one row costs the bins along both attributes."""
    most = (_WORK / (2 * m * max(len(pairs), 1))) ** 2
    return [Shape(pair, hierarchy.finest(pair, most)) for pair in pairs]
