"""Rows fitted once more to released tables with further noise. Post-processing: it costs nothing.

The tables of a model are put back into the order in which they were measured, in the bins that they were measured in:
one-way tables, pairs, triples. What was released and is not stored is not used: scores of pairs that were not measured,
and the worse of two measurements of the same table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from maquette.core.binned import Binned, Cuts
from maquette.core.events import Receipt
from maquette.core.laws import law_of_variance
from maquette.core.measurement import NoisyTable, Size
from maquette.models.answers import SmallDatabase
from maquette.models.residual import ResidualModel, centre
from maquette.queries.rows import Margin
from maquette.sculpt.bins import MAX_ROW_CODES, Hierarchy, Shape, bin_index, nested_cuts, smooth_one_way
from maquette.sculpt.finish import finish
from maquette.sculpt.measurements import Measurements, TableMeasurement, from_residuals, total_of
from maquette.sculpt.model import MeasuredTable, SculptModel
from maquette.sculpt.rows import MIN_GAINS, begin, decode, extend, quiet, sweep
from maquette.sculpt.sampler import RowSampler
from maquette.sculpt.stages import leaves_of
from maquette.sculpt.targets import MAX_ORDER, predict

_NO_RECEIPT = Receipt(-1, "")
"""Of tables with further noise: what they were made from is in the ledger."""

Refittable = SculptModel | ResidualModel
"""Models that hold the tables which rows can be fitted to."""


def refit(model: Refittable, *, m: int, names: Iterable[str], rng: np.random.Generator) -> SmallDatabase:
    """m rows of these attributes, fitted to the model's tables with as much noise again.

    Every table gets further noise of the law that it has already, and is fitted as what it then is: a table of twice
    the variance. Where there are more rows than records, about as many rows as records are fitted, and more are made of
    them, as the release did.
    """
    times = max(1, round(m / model.size.divisor))
    few = math.ceil(m / times)
    if isinstance(model, ResidualModel):
        measurements = _from_residuals(model, rng)
        sampler = begin(measurements, m=few, rng=rng)
    else:
        noisy = [_with_noise(table, model.pure, rng) for table in model.tables]
        measurements, sampler = _in_stages(model, noisy, few, rng)
    sets = {table.shape.attributes for table in measurements.tables}
    pairs = sorted({pair for attributes in sets for pair in combinations(attributes, 2)})
    rows = finish(sampler, pairs, min_gains=MIN_GAINS, times=times, rng=rng, answers=False).rows[:m]
    return decode(measurements, rows, names, rng=rng)


def clear_pairs(model: Refittable) -> frozenset[Margin]:
    """The pairs of attributes measured code by code whose noise is no more than chance: v <= n / cells.

    What a fit shrinks away is then smaller than what the records in a cell vary by themselves, as a sample. Public.
    """
    n = model.size.divisor
    return frozenset(margin for margin, cells, variance in _pair_noise(model) if variance <= n / cells)


def _pair_noise(model: Refittable) -> Iterator[tuple[Margin, int, float]]:
    """Every two-way table that was measured code by code: its cells, and the variance of its noise."""
    if isinstance(model, ResidualModel):
        for margin, table in model.residuals.items():
            if len(margin) == 2:
                yield margin, table.size, model.variances[margin]
        return
    for table in model.tables:
        bins = table.bins
        sizes = [model.domain[name].size for name in bins.margin]
        if len(sizes) == 2 and table.groups is None and [len(cut) for cut in bins.cuts] == sizes:
            yield bins.margin, bins.cells, table.variance


def _with_noise(table: MeasuredTable, pure: bool, rng: np.random.Generator) -> NoisyTable:
    deviation = law_of_variance(table.variance, pure=pure).deviation
    size = len(table.counts)
    noise = (
        rng.laplace(scale=deviation / math.sqrt(2), size=size)
        if pure
        else rng.normal(scale=deviation, size=size)
    )
    values = np.rint(table.counts + noise).astype(np.int64)
    return NoisyTable(table.bins, values, Fraction(2 * table.variance), _NO_RECEIPT)


def _from_residuals(model: ResidualModel, rng: np.random.Generator) -> Measurements:
    """Tables of all measured sets that rows are fitted to, out of residuals with further noise."""
    residuals = {
        margin: table
        if not margin
        else table
        + centre(rng.normal(scale=math.sqrt(model.variances[margin]), size=table.shape), range(len(margin)))
        for margin, table in model.residuals.items()
    }
    variances = {margin: 2 * variance for margin, variance in model.variances.items()}
    sets = [
        tuple(model.domain.index(name) for name in margin)
        for margin in residuals
        if 2 <= len(margin) <= MAX_ORDER
    ]
    noisy = replace(model, residuals=residuals, variances=variances)
    return from_residuals(model.domain, noisy, model.size, sets)


def _in_stages(
    model: SculptModel, noisy: Sequence[NoisyTable], m: int, rng: np.random.Generator
) -> tuple[Measurements, RowSampler]:
    """One-way tables and pairs, and triples against what rows fitted to these predict of them."""
    by_order: dict[int, list[NoisyTable]] = {}
    for table in noisy:
        by_order.setdefault(len(table.binned.margin), []).append(table)
    measurements = _one_way(model, by_order.get(1, []), _hierarchy(model))
    groups = [table.groups for table in model.tables if len(table.bins.margin) == 2]
    _add_pairs(measurements, by_order.get(2, []), groups)
    measurements.reconcile()
    sampler = begin(measurements, m=m, rng=rng)
    triples = by_order.get(3, [])
    if triples:
        sweep(sampler, min_gains=MIN_GAINS[:2], more=0, progress=quiet)
        shapes = [_shape(measurements.hierarchy, table.binned) for table in triples]
        priors = predict(measurements, sampler.rows, shapes)
        measurements.tables += map(TableMeasurement, shapes, triples, priors)
        measurements.reconcile()
        sampler = extend(sampler, measurements, rng=rng)
    return measurements, sampler


def _hierarchy(model: SculptModel) -> Hierarchy:
    """The finest level of every attribute, and those that some table of several attributes was measured in."""
    levels: list[tuple[Cuts, ...]] = []
    for attribute in model.domain:
        used = {
            table.bins.cuts[table.bins.margin.index(attribute.name)]
            for table in model.tables
            if len(table.bins.margin) > 1 and attribute.name in table.bins.margin
        }
        finest: Cuts = tuple(range(attribute.size))
        if attribute.size > MAX_ROW_CODES:
            counts = next(t.counts for t in model.tables if t.bins.margin == (attribute.name,))
            finest = tuple(sorted(set(nested_cuts(np.maximum(counts, 0.0))[0]).union(*used)))
        levels.append((finest, *sorted(used - {finest}, key=len, reverse=True)))
    return Hierarchy(model.domain, tuple(levels))


def _one_way(model: SculptModel, tables: Sequence[NoisyTable], hierarchy: Hierarchy) -> Measurements:
    trees: dict[str, list[NoisyTable]] = {name: [] for name in model.domain.names}
    for table in sorted(tables, key=lambda table: -table.binned.cells):
        trees[table.binned.margin[0]].append(table)
    finest = [tree[0] for tree in trees.values()]
    # the answer about the size has its own noise alone, that of the tables was drawn a second time
    size = model.size if model.size.public else Size.unknown()
    total = total_of(size, tables)
    return Measurements(
        size=size,
        hierarchy=hierarchy,
        total=total,
        one_way=[
            smooth_one_way(leaves_of(tree, total), deviation=math.sqrt(tree[0].variance), total=total)
            for tree in trees.values()
        ],
        one_way_variances=[float(table.variance) for table in finest],
        one_way_tables=[table for tree in trees.values() for table in tree],
    )


def _add_pairs(
    measurements: Measurements, pairs: Sequence[NoisyTable], groups: Sequence[tuple[int, ...] | None]
) -> None:
    """Two-way tables; those in groups of bins, which earlier versions measured after a table of the same pair, as sums
    to the cells of that table."""
    whole: dict[tuple[int, ...], Shape] = {}
    in_order = sorted(zip(pairs, groups, strict=True), key=lambda pair: pair[1] is not None)
    for table, of_bins in in_order:
        fine = _shape(measurements.hierarchy, table.binned)
        shape, cells = fine, None
        if of_bins is not None:
            shape = whole[fine.attributes]
            cells = _cells_of_groups(measurements.hierarchy, shape, fine, np.asarray(of_bins))
        whole.setdefault(shape.attributes, shape)
        prior = measurements.product(shape)
        measurements.tables.append(TableMeasurement(shape, table, prior, cells))


def _cells_of_groups(
    hierarchy: Hierarchy, shape: Shape, fine: Shape, groups: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The cell of a table that holds each group of bins of a finer one of the same pair."""
    down, across = (
        bin_index(hierarchy.cuts[a][inner], hierarchy.cuts[a][outer])
        for a, inner, outer in zip(shape.attributes, fine.levels, shape.levels, strict=True)
    )
    cells = np.zeros(int(groups.max()) + 1, dtype=np.int64)
    cells[groups] = np.add.outer(down * hierarchy.bins(shape.attributes[1], shape.levels[1]), across).ravel()
    return cells


def _shape(hierarchy: Hierarchy, table: Binned) -> Shape:
    places = tuple(hierarchy.domain.index(name) for name in table.margin)
    levels = (hierarchy.cuts[a].index(cut) for a, cut in zip(places, table.cuts, strict=True))
    return Shape(places, tuple(levels))
