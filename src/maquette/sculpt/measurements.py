"""What has been released about a table so far, what it says of each table, and what it predicts of further ones.

Estimates are empirical Bayes: one-way tables are smoothed along their codes, tables of several attributes are shrunk
towards a prior, which is what was predicted of them before they were measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette import _lazy_numba as numba
from maquette.domain import Domain
from maquette.models.fits import project_simplex
from maquette.models.residual import ResidualModel
from maquette.queries.marginals import Binned
from maquette.questions.measurement import NoisyTable, Receipt, Size
from maquette.sculpt.bins import Hierarchy, PartialTable, RefinedTable, Shape

# Chosen on the tables of benchmarks/sculpt.py (figures in benchmarks/results/sculpt.jsonl):
_MIN_SMOOTHED = 10
"""One-way tables of so few cells are projected and not smoothed."""
_SHIFTS = 16
"""Shifts over which the wavelet estimate is averaged."""
_MIN_PRIOR_VARIANCE, _MAX_PRIOR_VARIANCE = 1e-3, 25.0
"""Limits of tau^2, the variance of a table's log-interactions."""
_OUTLIER, _MAX_OUTLIER_VARIANCE = 4.0, 1e4
"""Deviations from the prior that are no chance, and the largest tau^2 of such a cell."""
_GUESS = 0.25
"""The tau^2 that weighs the cells while tau^2 is estimated."""
_SIGNIFICANT = 2.0
"""Deviations of chi-square by which the parts of a cell must miss their prior, together, to be targets of their own."""
# Limits:
_MAX_QUADRATIC = 2048
"""Cells up to which the piecewise-constant fit is run, whose time is quadratic."""
_UNKNOWN_DEVIATION = 1e6
"""In place of the deviation of a table that was not measured."""
_UNPAID = Receipt(-1, "")
"""Of tables put together from residuals, which are in the ledger themselves."""

Variance = float | NDArray[np.float64]
"""Of the noise, the same in all cells or by cell."""


def smooth_one_way(noisy: NDArray[Any], *, deviation: float, total: float) -> NDArray[np.float64]:
    """Non-negative counts of the given total near a noisy table of one attribute.

    The average of two estimates with opposite weaknesses: the best piecewise-constant fit (dynamic programming, each
    piece shrunk towards its mean after James and Stein), and translation-invariant Haar wavelets with the universal
    hard threshold (Coifman and Donoho 1995). Both use that neighbouring codes tend to have similar counts; where that
    is not so they keep what stands out of the noise.
    """
    values = np.asarray(noisy, dtype=np.float64)
    if len(values) > _MIN_SMOOTHED:
        smooth = _wavelet_fit(values, deviation)
        values = (smooth + _piecewise_fit(values, deviation)) / 2 if len(values) <= _MAX_QUADRATIC else smooth
    return project_simplex(values, total=total)


def _piecewise_fit(values: NDArray[np.float64], deviation: float) -> NDArray[np.float64]:
    """The best piecewise-constant fit at a penalty of log K + 1 per piece, each piece shrunk towards its mean."""
    starts = _piece_starts(values / deviation, math.log(len(values)) + 1)
    estimate = np.empty_like(values)
    stop = len(values)
    while stop > 0:
        start = int(starts[stop])
        piece = values[start:stop]
        mean = piece.mean()
        estimate[start:stop] = mean + _signal_share(piece - mean, deviation) * (piece - mean)
        stop = start
    return estimate


def _signal_share(centred: NDArray[np.float64], deviation: float) -> float:
    """The share of a piece's variation that is signal, after James and Stein; fixed for pieces of up to three cells."""
    if len(centred) <= 3:
        return 1.0 if len(centred) == 1 else 0.5
    squares = float((centred**2).sum())
    return max(0.0, 1 - (len(centred) - 1) * deviation**2 / squares) if squares > 0 else 0.0


@numba.njit(cache=True, nogil=True)
def _piece_starts(values: Any, penalty: float) -> Any:
    """For every stop (0..K) the start of the last piece of the cheapest partition; quadratic time.

    `values` (K) are noisy counts in deviations of their noise. A piece costs its squared distance to its own mean plus
    `penalty`. One step finds the best start for one stop, given the best costs of all earlier stops.
    """
    m = values.shape[0]
    sums = np.zeros(m + 1)
    squares = np.zeros(m + 1)
    for i in range(m):
        sums[i + 1] = sums[i] + values[i]
        squares[i + 1] = squares[i] + values[i] * values[i]
    best = np.full(m + 1, np.inf)
    best[0] = 0.0
    starts = np.zeros(m + 1, np.int64)
    for stop in range(1, m + 1):
        for start in range(stop):
            inside = sums[stop] - sums[start]
            cost = best[start] + squares[stop] - squares[start] - inside * inside / (stop - start) + penalty
            if cost < best[stop]:
                best[stop] = cost
                starts[stop] = start
    return starts


def _wavelet_fit(values: NDArray[np.float64], deviation: float) -> NDArray[np.float64]:
    """Hard-thresholded Haar wavelets, averaged over shifts of the mirrored table."""
    length = len(values)
    period = 2 ** math.ceil(math.log2(2 * length))
    mirrored = np.resize(np.concatenate([values, values[::-1]]), period)
    threshold = deviation * math.sqrt(2 * math.log(length))
    shifts = range(min(_SHIFTS, period // 2))
    total = np.zeros(period)
    for shift in shifts:
        total += np.roll(_threshold_haar(np.roll(mirrored, shift), threshold), -shift)
    return total[:length] / len(shifts)


def _threshold_haar(values: NDArray[np.float64], threshold: float) -> NDArray[np.float64]:
    """Haar transform, details below the threshold set to zero, and back."""
    details: list[NDArray[np.float64]] = []
    root = math.sqrt(2)
    while len(values) > 4:
        detail = (values[0::2] - values[1::2]) / root
        details.append(np.where(np.abs(detail) > threshold, detail, 0.0))
        values = (values[0::2] + values[1::2]) / root
    for detail in reversed(details):
        finer = np.empty(2 * len(values))
        finer[0::2], finer[1::2] = (values + detail) / root, (values - detail) / root
        values = finer
    return values


def table_prior_variance(noisy: NDArray[Any], prior: NDArray[np.float64], *, variance: Variance) -> float:
    """tau^2: the mean squared log-interaction of a table against its prior, noise subtracted.

    A weighted mean of ((Y - E)^2 - variance) / E^2; cells that the noise drowns count little.
    """
    prior = prior + 1.0
    weights = prior**2 / (_GUESS * prior**2 + variance)
    surplus = ((noisy - prior) ** 2 - variance) / prior**2
    return float(np.clip((weights * surplus).sum() / weights.sum(), _MIN_PRIOR_VARIANCE, _MAX_PRIOR_VARIANCE))


def prior_variances(
    noisy: NDArray[Any], prior: NDArray[np.float64], *, variance: Variance
) -> NDArray[np.float64]:
    """tau^2 of every cell: that of the table, and more where a cell by itself is plainly not as predicted.

    Most tables have a few cells that stand far out of the rest (hardly anybody is both); what holds for the rest would
    pull them back.
    """
    common = table_prior_variance(noisy, prior, variance=variance)
    prior, deviation = prior + 1.0, np.sqrt(variance)
    gaps = np.abs(noisy - prior)
    own = ((gaps - deviation) / prior) ** 2
    return np.where(
        gaps > _OUTLIER * deviation, np.maximum(common, np.minimum(own, _MAX_OUTLIER_VARIANCE)), common
    )


def shrink(noisy: NDArray[Any], prior: NDArray[np.float64], *, variance: Variance) -> NDArray[np.float64]:
    """The posterior mean of a table's counts, not negative."""
    signal = prior_variances(noisy, prior, variance=variance) * (prior + 1.0) ** 2
    prior = prior + 1.0
    return np.maximum(prior + signal / (signal + variance) * (noisy - prior), 0.0)


def iterative_fit(
    table: NDArray[np.float64], down: NDArray[Any], across: NDArray[Any]
) -> NDArray[np.float64]:
    """A two-way table scaled to given one-way counts by 30 rounds of iterative proportional fitting."""
    table = np.maximum(table, 0.0) + 1e-9
    for _ in range(30):
        table *= (down / np.maximum(table.sum(axis=1), 1e-12))[:, None]
        table *= across / np.maximum(table.sum(axis=0), 1e-12)
    return table


class TableMeasurement(NamedTuple):
    """One noisy table, of its shape or of that shape refined."""

    shape: Shape
    noisy: NoisyTable
    prior: NDArray[np.float64]
    """What was predicted of the table (not refined) before it was measured, flat, in counts."""


@dataclass(frozen=True, slots=True, eq=False)
class TableEstimate:
    """One table by all its measurements, each weighted by its precision; arrays are flat, in counts."""

    shape: Shape
    counts: NDArray[np.float64]
    variances: NDArray[np.float64]
    prior: NDArray[np.float64]
    """What was predicted before the first of them."""

    def combine(self, other: TableEstimate) -> TableEstimate:
        """The same table with a further measurement."""
        precision, further = 1 / self.variances, 1 / other.variances
        counts = (precision * self.counts + further * other.counts) / (precision + further)
        return TableEstimate(self.shape, counts, 1 / (precision + further), self.prior)

    def margin(self, axes: Sequence[int], sizes: Sequence[int]) -> TableEstimate:
        """The table of some of its attributes, summed over the others; `sizes` are the bins of each."""
        others = tuple(set(range(len(sizes))) - set(axes))
        shape = Shape(
            tuple(self.shape.attributes[i] for i in axes), tuple(self.shape.levels[i] for i in axes)
        )
        arrays = (self.counts, self.variances, self.prior)
        return TableEstimate(shape, *(array.reshape(sizes).sum(axis=others).ravel() for array in arrays))

    @property
    def smooth(self) -> NDArray[np.float64]:
        """Its posterior mean."""
        return shrink(self.counts, self.prior, variance=self.variances)


@dataclass(frozen=True, slots=True, eq=False)
class CellParts:
    """The parts of heavy cells of a refined table."""

    table: PartialTable
    counts: NDArray[np.float64]
    variances: NDArray[np.float64]
    prior: NDArray[np.float64]
    """What the whole cells and the one-way tables predict of them."""


@dataclass(slots=True, eq=False)
class Measurements:
    """Everything that has been released so far."""

    size: Size
    hierarchy: Hierarchy
    total: float
    """Records, as far as is known."""
    one_way: list[NDArray[np.float64]]
    """Smoothed one-way counts, code by code."""
    one_way_variances: list[float]
    one_way_tables: list[NoisyTable]
    structural_zeros: list[tuple[Shape, NDArray[np.bool_]]] = field(default_factory=list)
    """Declared tables of allowed cells, flat."""
    scores: dict[tuple[int, ...], float] = field(default_factory=dict)
    """How far each pair is from independence, in counts; at least half of the noise in it."""
    tables: list[TableMeasurement] = field(default_factory=list)
    refined: dict[Shape, RefinedTable] = field(default_factory=dict)
    """A measurement of such a shape may be of the refined or of the coarse table."""

    def estimates(self) -> dict[Shape, TableEstimate]:
        """Every shape once, in the order of the first measurements; refined tables summed to their coarse cells."""
        estimates: dict[Shape, TableEstimate] = {}
        for shape, noisy, prior in self.tables:
            counts, variance = noisy.values.astype(np.float64), float(noisy.variance)
            if noisy.binned.groups is None:
                estimate = TableEstimate(shape, counts, np.full(len(counts), variance), prior)
            else:
                refined = self.refined[shape]
                sums = np.bincount(refined.parents, counts).astype(np.float64)
                estimate = TableEstimate(shape, sums, variance * refined.parts.astype(np.float64), prior)
            estimates[shape] = estimates[shape].combine(estimate) if shape in estimates else estimate
        return estimates

    def cell_parts(self) -> list[CellParts]:
        """The parts of refined cells that are plainly not divided as the one-way tables are."""
        estimates = self.estimates() if self.refined else {}
        parts = [self._cell_parts(refined, estimates[shape]) for shape, refined in self.refined.items()]
        return [part for part in parts if len(part.counts)]

    def question(self, shape: Shape) -> Binned:
        """What the gate is asked for a table: refined, if it is."""
        if shape in self.refined:
            return self.refined[shape].table(self.hierarchy)
        return self.hierarchy.table(*shape)

    def product(self, shape: Shape) -> NDArray[np.float64]:
        """A table as if its attributes were independent, flat."""
        table = np.ones(1)
        for a, level in zip(*shape, strict=True):
            counts = self.hierarchy.sum_in_bins(a, level, self.one_way[a])
            table = np.multiply.outer(table, counts / max(self.total, 1.0)).ravel()
        return table * self.total

    def _cell_parts(self, refined: RefinedTable, estimate: TableEstimate) -> CellParts:
        """Parts by all measurements of the refined table, shifted alike to add up to the estimate of their cell."""
        noisy = [
            t.noisy for t in self.tables if t.shape == refined.shape and t.noisy.binned.groups is not None
        ]
        precisions = [1 / float(table.variance) for table in noisy]
        counts = np.average([table.values for table in noisy], axis=0, weights=precisions)
        variance = 1 / sum(precisions)
        parents, parts = refined.parents, refined.parts
        counts += ((estimate.counts - np.bincount(parents, counts)) / parts)[parents]
        grid = self.product(Shape(refined.shape.attributes, refined.levels))
        product = np.bincount(refined.groups, grid).astype(np.float64) + 1e-9
        prior = (estimate.smooth / np.bincount(parents, product))[parents] * product
        freedom = parts - 1
        surplus = np.bincount(parents, (counts - prior) ** 2) / variance - freedom
        chosen = np.flatnonzero(((surplus > _SIGNIFICANT * np.sqrt(2 * freedom)) & (freedom > 0))[parents])
        cells = np.full(len(parents), -1)
        cells[chosen] = np.arange(len(chosen))
        table = PartialTable(refined.shape.attributes, cells[refined.cell_of_row_codes(self.hierarchy)])
        return CellParts(table, counts[chosen], np.full(len(chosen), variance), prior[chosen])


def from_residuals(
    domain: Domain, model: ResidualModel, size: Size, sets: Iterable[tuple[int, ...]]
) -> Measurements:
    """Tables of these sets of attributes, at full resolution, put together from measured residuals.

    A one-way table that was not measured is uniform; a table of an attribute with too many codes is left out.
    """
    total = float(size.divisor)
    covered = [model.covers((name,)) for name in domain.names]
    one_way = [
        project_simplex(model.table((a.name,)).ravel(), total=total) if c else np.full(a.size, total / a.size)
        for a, c in zip(domain, covered, strict=True)
    ]
    deviations = [
        max(model.deviation((name,)), 0.5) if c else _UNKNOWN_DEVIATION
        for name, c in zip(domain.names, covered, strict=True)
    ]
    measurements = Measurements(
        size=size,
        hierarchy=Hierarchy.from_counts(domain, one_way),
        total=total,
        one_way=one_way,
        one_way_variances=[deviation**2 for deviation in deviations],
        one_way_tables=[],
    )
    for attributes in sets:
        if not measurements.hierarchy.is_full(attributes):
            continue
        shape = Shape(attributes, (0,) * len(attributes))
        table = measurements.hierarchy.table(*shape)
        values = np.rint(model.table(table.margin)).astype(np.int64).ravel()
        variance = Fraction(max(model.deviation(table.margin), 0.5) ** 2)
        noisy = NoisyTable(table, values, variance, _UNPAID)
        measurements.tables.append(TableMeasurement(shape, noisy, measurements.product(shape)))
    return measurements
