"""What has been released about a table so far, what it says of each table, and what it predicts of further ones.

Estimates are empirical Bayes: one-way tables are smoothed along their codes, tables of several attributes are shrunk
towards a prior, which is what was predicted of them before they were measured. What a table says of its attributes one
by one is left to the one-way tables (`Measurements.reconcile`), so that only the interaction is its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.core.measurement import NoisyTable, Receipt, Size
from maquette.domain import Domain
from maquette.models.fits import project_simplex
from maquette.models.residual import ResidualModel
from maquette.sculpt.bins import MAX_DENSE_CODES, BinSums, Hierarchy, Shape, combine_levels, smooth_one_way

# Chosen on the tables of benchmarks/sculpt.py (figures in benchmarks/results/sculpt.jsonl):
_MIN_PRIOR_VARIANCE, _MAX_PRIOR_VARIANCE = 1e-3, 25.0
"""Limits of tau^2, the variance of a table's log-interactions."""
_OUTLIER, _MAX_OUTLIER_VARIANCE = 4.0, 1e4
"""Deviations from the prior that are no chance, and the largest tau^2 of such a cell."""
_GUESS = 0.25
"""The tau^2 that weighs the cells while tau^2 is estimated."""
SCORE_BINS = 8
"""Bins per attribute in which a pair's dependence is measured."""
# Limits:
_MIN_DEVIATION = 0.5
"""Of a count, in place of none: what a single code or bin holds is known but for the total."""
_UNKNOWN_DEVIATION = 1e6
"""In place of the deviation of a table that was not measured."""
MAX_FITTED_CELLS = 2**21
"""Cells of all tables put together from residuals that rows are fitted to; with more the largest are added up in bins.
So the tables stay near the processor's cache, and memory and time of a fit do not grow with the workload's cells."""
_UNPAID = Receipt(-1, "")
"""Of tables put together from residuals, which are in the ledger themselves."""

Variance = float | NDArray[np.float64]
"""Of the noise, the same in all cells or by cell."""


def table_prior_variance(
    noisy: NDArray[Any], prior: NDArray[np.float64], *, variance: Variance, finer: float = 0.0
) -> float:
    """tau^2: the mean squared log-interaction of a table against its prior, less noise and what finer effects add.

    A weighted mean of ((Y - E)^2 - variance) / E^2; cells that the noise drowns count little.
    """
    prior = prior + 1.0
    weights = prior**2 / (_GUESS * prior**2 + variance)
    surplus = ((noisy - prior) ** 2 - variance) / prior**2
    mean = float((weights * surplus).sum() / weights.sum())
    return float(np.clip(mean - finer, _MIN_PRIOR_VARIANCE, _MAX_PRIOR_VARIANCE))


def prior_variances(
    noisy: NDArray[Any], prior: NDArray[np.float64], *, variance: Variance, finer: float = 0.0
) -> NDArray[np.float64]:
    """tau^2 of every cell: that of the table, and more where a cell by itself is plainly not as predicted.

    Most tables have a few cells that stand far out of the rest (hardly anybody is both); what holds for the rest would
    pull them back.
    """
    common = table_prior_variance(noisy, prior, variance=variance, finer=finer)
    prior, deviation = prior + 1.0, np.sqrt(variance)
    gaps = np.abs(noisy - prior)
    own = ((gaps - deviation) / prior) ** 2
    return np.where(
        gaps > _OUTLIER * deviation, np.maximum(common, np.minimum(own, _MAX_OUTLIER_VARIANCE)), common
    )


def shrink(
    noisy: NDArray[Any], prior: NDArray[np.float64], taus: NDArray[np.float64], *, variance: Variance
) -> NDArray[np.float64]:
    """The posterior mean of a table's counts, not negative; `taus` are tau^2 of every cell."""
    prior = prior + 1.0
    signal = taus * prior**2
    return np.maximum(prior + signal / (signal + variance) * (noisy - prior), 0.0)


def total_of(size: Size, tables: Iterable[NoisyTable]) -> float:
    """The number of records by the question about it and by the sums of all tables, each weighted by its precision.

    Every cell is a share of it in the end: an error of 1 % here moves a cell that holds most records by nearly that.
    """
    if size.public:
        return float(size.divisor)
    sums = [(float(t.values.sum()), t.binned.cells * float(t.variance)) for t in tables]
    if size.noise is not None:
        sums.append((float(size.value), size.noise.variance))
    values, variances = np.array(sums).T
    return max(float(np.average(values, weights=1 / variances)), 1.0)


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
    """One noisy table."""

    shape: Shape
    noisy: NoisyTable
    prior: NDArray[np.float64]
    """What was predicted of the table before it was measured, flat, in counts."""
    cells: NDArray[np.int64] | None = None
    """The cell that holds every value, where a release of an earlier version measured heavy cells in parts."""


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
    score_noise: float = 0.0
    """Of a score, before it was raised."""
    tables: list[TableMeasurement] = field(default_factory=list)
    rounds: int = 0
    """Of private selection, each decided by what the earlier ones released (see `rounds`)."""
    margins: list[NDArray[np.float64]] = field(default_factory=list)
    """One-way counts by least squares from all tables, not smoothed; none before there are wider tables."""
    _estimates: tuple[int, dict[Shape, TableEstimate]] | None = None
    """What `estimates` found when there were so many tables."""

    def reconcile(self) -> None:
        """Estimate the one-way tables from everything measured so far, and let them be the margins of wider tables.

        From the measurements themselves, however often: never from estimates that were made of them before. An
        attribute that was measured in a tree keeps its own tables: its sums are known better than codes are.
        """
        tables = self._combined().values()
        self.total = total_of(self.size, [*self.one_way_tables, *(table.noisy for table in self.tables)])
        own: dict[str, list[NoisyTable]] = {}
        for table in self.one_way_tables:
            own.setdefault(table.binned.margin[0], []).append(table)
        margins: list[NDArray[np.float64]] = []
        for a, attribute in enumerate(self.hierarchy.domain):
            finest, *wider = own[attribute.name]
            if wider:
                margins.append(self.one_way[a])
                continue
            counts, variances = combine_levels(
                finest.values.astype(np.float64),
                float(finest.variance),
                [self._sums(table, a) for table in tables if a in table.shape.attributes],
                total=self.total,
            )
            margins.append(counts)
            deviation = max(math.sqrt(variances.mean()), _MIN_DEVIATION)
            self.one_way_variances[a] = deviation**2
            self.one_way[a] = smooth_one_way(counts, deviation=deviation, total=self.total)
        self.margins = margins
        self._estimates = None

    def estimates(self) -> dict[Shape, TableEstimate]:
        """Every shape once, in the order of the first measurements; once reconciled, their margins are the one-way
        tables."""
        if self._estimates is None or self._estimates[0] != len(self.tables):
            tables = self._combined()
            if self.margins:
                tables = {shape: self._with_margins(one) for shape, one in tables.items()}
            self._estimates = len(self.tables), tables
        return self._estimates[1]

    def _combined(self) -> dict[Shape, TableEstimate]:
        """Every shape by all its measurements, as they are."""
        estimates: dict[Shape, TableEstimate] = {}
        for shape, noisy, prior, cells in self.tables:
            counts, variances = noisy.values.astype(np.float64), np.full(len(prior), float(noisy.variance))
            if cells is not None:
                counts = np.bincount(cells, counts, minlength=len(prior)).astype(np.float64)
                variances *= np.bincount(cells, minlength=len(prior))
            estimate = TableEstimate(shape, counts, variances, prior)
            estimates[shape] = estimates[shape].combine(estimate) if shape in estimates else estimate
        return estimates

    def unmeasured_pairs(self) -> dict[Shape, TableEstimate]:
        """Pairs that were scored and not measured, as tables about as far from independence as their scores allow.

        Without them nothing would hold such a pair where it is while rows follow the tables that share its attributes.
        """
        pairs = {table.shape.attributes for table in self.tables}
        estimates: dict[Shape, TableEstimate] = {}
        for pair, score in self.scores.items():
            if pair in pairs:
                continue
            shape = Shape(pair, tuple(self.hierarchy.level_of(a, SCORE_BINS) for a in pair))
            product = self.product(shape)
            # an L1 distance of K cells with normal gaps has sqrt(2 / pi) deviations in each; chance is not in a score
            deviation = math.hypot(score, self.score_noise) / (math.sqrt(2 / math.pi) * len(product))
            estimates[shape] = TableEstimate(shape, product, deviation**2 + product, product)
        return estimates

    def product(self, shape: Shape) -> NDArray[np.float64]:
        """A table as if its attributes were independent, flat."""
        table = np.ones(1)
        for a, level in zip(*shape, strict=True):
            counts = self.hierarchy.sum_in_bins(a, level, self.one_way[a])
            table = np.multiply.outer(table, counts / max(self.total, 1.0)).ravel()
        return table * self.total

    def _sums(self, table: TableEstimate, attribute: int) -> BinSums:
        """A table added up to one of its attributes."""
        axis = table.shape.attributes.index(attribute)
        sizes = [self.hierarchy.bins(a, level) for a, level in zip(*table.shape, strict=True)]
        margin = table.margin((axis,), sizes)
        cut = self.hierarchy.cuts[attribute][table.shape.levels[axis]]
        return BinSums(cut, margin.counts, margin.variances)

    def _with_margins(self, estimate: TableEstimate) -> TableEstimate:
        """The same interaction with the one-way tables as margins; its variance is that of the interaction.

        Gaps to the margins are spread evenly, which is the projection in least squares where all cells have the same
        noise; of the noise (1 + sum (K_i - 1)) / prod K_i lay in the margins.
        """
        shape = estimate.shape
        sizes = [self.hierarchy.bins(a, level) for a, level in zip(*shape, strict=True)]
        table = estimate.counts.reshape(sizes)
        table = table + (self.total - table.sum()) / table.size
        for axis, (a, level) in enumerate(zip(*shape, strict=True)):
            others = tuple(i for i in range(len(sizes)) if i != axis)
            gap = self.hierarchy.sum_in_bins(a, level, self.margins[a]) - table.sum(axis=others)
            table = table + np.expand_dims((gap - gap.mean()) / (table.size / sizes[axis]), others)
        own = 1 - (1 + sum(size - 1 for size in sizes)) / table.size
        prior = self.product(shape) if len(sizes) == 2 else estimate.prior
        variances = np.maximum(estimate.variances * own, _MIN_DEVIATION**2)
        return TableEstimate(shape, table.ravel(), variances, prior)


def from_residuals(
    domain: Domain, model: ResidualModel, size: Size, sets: Iterable[tuple[int, ...]], *, smooth: bool = False
) -> Measurements:
    """Tables of these sets of attributes, put together from measured residuals.

    At full resolution, or the largest in bins where all of them have more than `MAX_FITTED_CELLS`. One-way tables are
    smoothed where asked for, else projected. One that was not measured is uniform; a table of an attribute with too
    many codes is left out.
    """
    total = float(size.divisor)
    covered = [model.covers((name,)) for name in domain.names]
    deviations = [
        max(model.deviation((name,)), _MIN_DEVIATION) if c else _UNKNOWN_DEVIATION
        for name, c in zip(domain.names, covered, strict=True)
    ]

    def estimate(name: str, deviation: float) -> NDArray[np.float64]:
        noisy = model.table((name,)).ravel()
        if smooth:
            return smooth_one_way(noisy, deviation=deviation, total=total)
        return project_simplex(noisy, total=total)

    one_way = [
        estimate(a.name, deviation) if c else np.full(a.size, total / a.size)
        for a, c, deviation in zip(domain, covered, deviations, strict=True)
    ]
    measurements = Measurements(
        size=size,
        hierarchy=Hierarchy.from_counts(domain, one_way, max_codes=MAX_DENSE_CODES),
        total=total,
        one_way=one_way,
        one_way_variances=[deviation**2 for deviation in deviations],
        one_way_tables=[],
    )
    full = [attributes for attributes in sets if measurements.hierarchy.is_full(attributes)]
    for shape in _affordable_shapes(measurements.hierarchy, full):
        table = measurements.hierarchy.table(*shape)
        counts = model.table(table.margin)
        merged = counts.size / table.cells  # codes of a cell, in the mean
        for axis, cut in enumerate(table.cuts):
            counts = np.add.reduceat(counts, cut, axis=axis)
        variance = Fraction(max(model.deviation(table.margin), _MIN_DEVIATION) ** 2 * merged)
        noisy = NoisyTable(table, np.rint(counts).astype(np.int64).ravel(), variance, _UNPAID)
        measurements.tables.append(TableMeasurement(shape, noisy, measurements.product(shape)))
    return measurements


def _affordable_shapes(hierarchy: Hierarchy, sets: Sequence[tuple[int, ...]]) -> list[Shape]:
    """All tables as fine as they can be with `MAX_FITTED_CELLS` together; none has more cells than a common limit."""
    cells = [hierarchy.cells(attributes, (0,) * len(attributes)) for attributes in sets]
    limit = float(max(cells, default=0))
    while True:
        shapes = [Shape(attributes, hierarchy.finest_levels(attributes, limit)) for attributes in sets]
        if limit < 2 or sum(hierarchy.cells(*shape) for shape in shapes) <= MAX_FITTED_CELLS:
            return shapes
        limit /= 1.5
