"""Coarse and fine effects of a measured table, each shrunk by a factor of its own.

A cell that noise drowns is shrunk to what is predicted of it. Were every cell shrunk alone, an effect that hundreds of
them share would be lost with them, though their sum is known well. So a two-way table is added up to coarser levels
first. Of every level, the coarsest first, tau^2 is the mean squared log-interaction against what the levels above it
say, noise subtracted, and what finer effects that have nothing to do with each other add up to subtracted as well: of
independent cells f with tau_f^2 in a coarse one, sum E_f^2 tau_f^2 / E^2. Few sums say little of their variance, so a
coarse level counts as far as it stands out of noise by a deviation. The prior of the next level is that of this one
times (shrunk sum) / (prior sum). Each sum is one more target for rows; where cells have the same noise and expectation
the fixed point is the maximum a posteriori of a log-linear model with a potential per level.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from maquette.sculpt.bins import Hierarchy, Levels, Shape, bin_index
from maquette.sculpt.measurements import TableEstimate, prior_variances, shrink

_CELLS = (4, 16, 64, 256)
"""Of the coarser levels; fewer levels cost 1 % of the mean L1 on Adult, more gain nothing."""
_RATIO = 2
"""A table has at least so many times as many cells."""
_ROUNDS = 2
"""In which coarse and fine variances are separated."""


@dataclass(frozen=True, slots=True, eq=False)
class Effects:
    """One level of a table; its prior is what the coarser levels say of it."""

    table: TableEstimate
    deviations: NDArray[np.float64]
    """Prior deviations of its log-interactions, given the coarser levels."""

    @property
    def posterior(self) -> NDArray[np.float64]:
        """The posterior mean of its counts."""
        table = self.table
        return shrink(table.counts, table.prior, self.deviations**2, variance=table.variances)


def effects_of(hierarchy: Hierarchy, estimate: TableEstimate) -> list[Effects]:
    """All levels of a table, the coarsest first; the last is the table itself."""
    levels = [*_coarser(hierarchy, estimate.shape), estimate.shape.levels]
    cells = [_coarse_cells(hierarchy, estimate.shape, level) for level in levels]
    tables = [_sums(hierarchy, estimate, *one) for one in zip(levels, cells, strict=True)]
    taus = np.zeros(len(tables))
    effects: list[Effects] = []
    for _ in range(_ROUNDS):
        prior, effects = estimate.prior, []
        for i, (table, cell) in enumerate(zip(tables, cells, strict=True)):
            expected = _added(cell, prior)
            finer = sum(taus[j] * _spread(cells[j], cell, estimate.prior) for j in range(i + 1, len(tables)))
            if table.shape != estimate.shape:
                finer += _chance(hierarchy, table, expected)
            variances = prior_variances(table.counts, expected, variance=table.variances, finer=finer)
            taus[i] = float(np.median(variances))
            effects.append(Effects(replace(table, prior=expected), np.sqrt(variances)))
            prior = prior * (effects[-1].posterior / np.maximum(expected, 1e-9))[cell]
    return effects


def _spread(fine: NDArray[np.int64], coarse: NDArray[np.int64], prior: NDArray[np.float64]) -> float:
    """sum E_f^2 / E^2 over the fine cells of a coarse one, in the mean over coarse ones by their E^2."""
    return float((_added(fine, prior) ** 2).sum() / max((_added(coarse, prior) ** 2).sum(), 1e-12))


def _chance(hierarchy: Hierarchy, table: TableEstimate, expected: NDArray[np.float64]) -> float:
    """The deviation of tau^2 by noise alone: an interaction of so few cells has prod (K - 1) degrees of freedom."""
    freedom = math.prod(hierarchy.bins(a, level) - 1 for a, level in zip(*table.shape, strict=True))
    expected = expected + 1.0
    weights = expected**2 / (0.25 * expected**2 + table.variances)
    noise = weights * table.variances / expected**2
    return math.sqrt(2 * float((noise**2).sum()) * len(noise) / max(freedom, 1)) / float(weights.sum())


def _coarser(hierarchy: Hierarchy, shape: Shape) -> Iterator[Levels]:
    """Levels of about so many cells, in no attribute finer than the table."""
    if len(shape.attributes) != 2:
        return
    before: Levels | None = None
    for cells in _CELLS:
        if hierarchy.cells(*shape) < _RATIO * cells:
            return
        finest = hierarchy.finest_levels(shape.attributes, cells)
        levels = tuple(max(pair) for pair in zip(finest, shape.levels, strict=True))
        if levels not in (before, shape.levels):
            yield levels
        before = levels


def _coarse_cells(hierarchy: Hierarchy, shape: Shape, levels: Levels) -> NDArray[np.int64]:
    """The cell of a coarser level that holds each cell of a table, flat."""
    cells = np.zeros(1, dtype=np.int64)
    for a, fine, coarse in zip(shape.attributes, shape.levels, levels, strict=True):
        cuts = hierarchy.cuts[a]
        cells = np.add.outer(cells * len(cuts[coarse]), bin_index(cuts[fine], cuts[coarse])).ravel()
    return cells


def _sums(
    hierarchy: Hierarchy, estimate: TableEstimate, levels: Levels, cells: NDArray[np.int64]
) -> TableEstimate:
    """A table added up. Its variances are those of the interaction, of which sums hold as much less as the product of
    1 - 1/K is smaller: more of the noise lies in their margins."""
    shape = Shape(estimate.shape.attributes, levels)
    counts, variances, prior = (
        _added(cells, values) for values in (estimate.counts, estimate.variances, estimate.prior)
    )
    if levels != estimate.shape.levels:
        variances = variances * _own_part(hierarchy, shape) / _own_part(hierarchy, estimate.shape)
    return TableEstimate(shape, counts, variances, prior)


def _added(cells: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.bincount(cells, values).astype(np.float64, copy=False)


def _own_part(hierarchy: Hierarchy, shape: Shape) -> float:
    return math.prod(1 - 1 / hierarchy.bins(a, level) for a, level in zip(*shape, strict=True))
