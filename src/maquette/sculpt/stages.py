"""The measurements, one stage after the other; each is planned from what the earlier ones released.

Pairs are scored first: how far two attributes are from independence, in few bins and in more, says what their table may
cost and how many bins it is worth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.core.binned import Binned, Cuts
from maquette.core.budget import UNITS
from maquette.core.laws import NoiseRequest
from maquette.core.measurement import Measurement, NoisyTable, Size
from maquette.mechanisms.base import Curator, Task
from maquette.models.fits import fit_tree, tree_widths
from maquette.queries.base import Queries
from maquette.queries.marginals import Marginals
from maquette.sculpt.allocation import (
    AttributeSets,
    RiskModel,
    SetWeights,
    TableNoise,
    are_few,
    divide_price,
)
from maquette.sculpt.bins import Hierarchy, Shape, smooth_one_way
from maquette.sculpt.measurements import SCORE_BINS, Measurements, TableMeasurement, total_of

# Chosen on the tables of benchmarks/sculpt.py (figures in benchmarks/results/sculpt.jsonl). Shares are of the whole
# price unless another is named:
SIZE_SHARE = 0.01
SCORE_SHARE = 0.03
_MAX_HIDDEN, _DOUBT = 2.5, 0.25
"""Deviations at an equal share of the price that a cell may lie off if its pair is not measured, and the dependence of
the median pair, in deviations of a score, at which half of the noise in a score counts as doubt (tuning half and
further tables of its kinds, four and six seeds, by 4 deviations and the whole noise: 12 cells of 2@0.1 .92 / 1.01, 18
of 2@1 .96 / 1.00; 3 deviations and the whole noise .93 / 1.02 and .96 / 1.00)."""
TABLES_PER_ROUND, LAST_TABLES = 4, 8
"""Tables of a round, and of the last. Its tables may share two attributes: what three or four columns have in common is
in all triples of them (tuning half of benchmarks/families, 3@1: the largest error on clique-2 falls to 0.27 times)."""
FIRST_ROUND = Fraction(3, 10)
"""Of what the rounds may spend; what it measures decides about the rest."""
_SELECTION_SHARE = 0.15
"""Of a round, for choosing its tables."""
_RESOLUTIONS = (0.1, 0.3, 1.0)
"""Cells of the tables among which a round chooses, by records per deviation."""
_SIZE_POWER = 2 / 3
"""Of an attribute's cells, for its price (tuning half of benchmarks/families)."""
BRANCHES = 16
"""Of the tree in which an ordered attribute is measured."""
_UNUSED_SHARE = 0.1
"""Of the usual price, for an attribute that no query looks at."""
DIRECT_SHARE = 0.2
"""For all parts that are measured directly."""
_MAX_DIRECT_NOISE = 2.0
"""How much noisier than a two-way table, in deviations, a direct answer may be."""
# Limits of time and memory:
_MAX_DIRECT = 100_000
"""Queries of a part that may be measured directly."""
_BATCH = 2_000
"""Tables that are predicted at a time."""

Predict = Callable[[list[Shape]], list[NDArray[np.float64]]]
"""What the synthetic rows so far say of tables, flat, in counts of records."""
_USUAL_SLOPE, _SLOPE_SPREAD, _MAX_SLOPE = 0.03, 0.05, 0.5
"""Of the dependence by the number of cells, both in logarithms: what most tables have, how far tables and their pairs
differ from it, and a limit (tuning half of benchmarks/families and its real tables, two-way at epsilon 1)."""
_FINER, _HIDDEN = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0), 1.5
"""Of a table's usual bins: what it may have where its dependence grows with them, and how much a record counts that
stays hidden (tuning half of the families, two-way at epsilon 1: twice as much is as good)."""
_HIDDEN_DEVIATIONS, _MAX_FINER, _FINER_BY_SLOPE = 2 / 3, 3.0, 20.0
"""How far, in deviations of the noise, a cell inside of bins may be expected to lie off, and how many times as many
cells a table may have for it: so many, or by the slope if that is more. Tuning half of the families and its real
tables, 42 cells at epsilon 0.1 to 3, four seeds, those of 2@1 and 2@3 of tables in bins: largest error 0.88 times, mean
L1 0.99; half as far again gains less, six times as many cells everywhere cost 15 % on Adult. By the slope (further
tables of large attributes): three at 2@1 .81 / .98, one of 8,000 records .48 / .95 at 2@10, .60 / .92 at 3@10."""


class BudgetView:
    """The task's price: in floating point for planning, on the ledger's grid for paying."""

    def __init__(self, curator: Curator, task: Task) -> None:
        self._curator = curator
        self._start = curator.left
        self._price = task.price

    @property
    def total(self) -> float:
        return float(self._price)

    @property
    def left(self) -> Fraction:
        """What is left of the price."""
        return self._price - (self._start - self._curator.left)

    def part(self, share: float) -> Fraction:
        """A share of the whole price, on the grid, never more than is left."""
        return min(part_of(self._price, share), self.left)


def part_of(price: Fraction, share: float) -> Fraction:
    """A share of a price, on the ledger's grid."""
    return Fraction(math.floor(float(price) * share * UNITS), UNITS)


def measure_one_way(
    curator: Curator,
    budget: BudgetView,
    table_noise: TableNoise,
    size: Size,
    sets: AttributeSets,
    *,
    share: float,
) -> Measurements:
    """Every one-way table of the domain; the price of each goes with a power of its cells.

    More than the root, which is best without wider tables: these, added up, say more of small attributes. Where there
    are few records for each cell, small tables have the largest errors and cost as much as the others.

    An attribute that ranges or prefixes are asked of is measured in a tree of wider and wider bins, since a sum over
    many cells would carry the noise of each.
    """
    domain = curator.domain
    trees: list[list[Cuts]] = []
    for i, attribute in enumerate(domain):
        widths = tree_widths(attribute.size, BRANCHES) if i in sets.ordered else [1]
        trees.append([tuple(range(0, attribute.size, width)) for width in widths])
    few = are_few(size.divisor, budget.total, sum(domain.shape), table_noise)
    weights = np.array([float(a.size) for a in domain]) ** (0.0 if few else _SIZE_POWER)
    weights *= [1.0 if i in sets.attributes else _UNUSED_SHARE for i in range(len(domain))]
    prices = float(budget.part(share)) * weights / weights.sum()
    tables = [Binned((name,), (cut,)) for name, tree in zip(domain.names, trees, strict=True) for cut in tree]
    variances = [table_noise.exact(p / len(t)) for p, t in zip(prices, trees, strict=True) for _ in t]
    answers = iter(curator.measure_tables(tables, variances=variances))
    noisy = [[next(answers) for _ in tree] for tree in trees]
    total = total_of(size, [table for tree in noisy for table in tree])
    one_way = [
        smooth_one_way(leaves_of(tree, total), deviation=math.sqrt(tree[0].variance), total=total)
        for tree in noisy
    ]
    return Measurements(
        size=size,
        hierarchy=Hierarchy.from_counts(domain, one_way),
        total=total,
        one_way=one_way,
        one_way_variances=[float(tree[0].variance) for tree in noisy],
        one_way_tables=[table for tree in noisy for table in tree],
    )


def leaves_of(tree: Sequence[NoisyTable], total: float) -> NDArray[np.float64]:
    """One attribute's counts out of all levels of its tree, the finest first, by least squares."""
    counts = [table.values.astype(np.float64) for table in tree]
    if len(counts) == 1:
        return counts[0]
    variances = [float(table.variance) for table in tree]
    return fit_tree(counts, variances, branches=BRANCHES, total=total, total_variance=0.0)


def measure_pairs(
    curator: Curator,
    table_noise: TableNoise,
    measurements: Measurements,
    pairs: SetWeights,
    scores: PairScores,
    *,
    price: float,
) -> None:
    """Two-way tables at the resolution that their noise can bear, the price by the predicted risk.

    Finer where a cell inside of bins may be off by more than noise. Each is seen once: a first look that says where
    records are, in part of the price, costs more than it gains (tuning half of benchmarks/families, 2@0.1, 2@1 and
    3@1: with one look the largest error is 0.96 times, the mean L1 0.99).
    """
    hierarchy, model = measurements.hierarchy, RiskModel(measurements.total, table_noise)
    keys = list(pairs)
    raised = np.maximum(scores.values, scores.noise / 2)
    measurements.scores = dict(zip(keys, raised.tolist(), strict=True))
    measurements.score_noise = scores.noise
    cells = [hierarchy.cells(pair, (0, 0)) for pair in keys]
    # a table that is off by s in L1, with the right margins, has no cell that is off by more than s / 4
    hidden = (np.maximum(scores.values, 0) + 2 * scores.doubt) / 4
    required = hidden > _MAX_HIDDEN * math.sqrt(table_noise.variance(price / len(keys)))
    prices = divide_price(model, list(raised), cells, list(pairs.values()), price=price, required=required)
    heaviest = [hierarchy.heaviest_codes(a, counts) for a, counts in enumerate(measurements.one_way)]
    shapes: list[Shape] = []
    variances: list[Fraction] = []
    for i in np.flatnonzero(prices > 0).tolist():
        deviation = math.sqrt(table_noise.variance(prices[i]))
        max_bins = model.max_bins(float(scores.values[i]), deviation)
        bins = finer_bins(model, scores, i, deviation=deviation, bins=max_bins)
        shape = Shape(keys[i], hierarchy.finest_levels(keys[i], bins))
        in_bins = hierarchy.cells(*shape)
        off = model.total * hidden_strength(model, scores, i, in_bins=in_bins, cells=cells[i])
        limit = _HIDDEN_DEVIATIONS * deviation / max(off, 1e-9)
        max_cells = max(_MAX_FINER, _FINER_BY_SLOPE * float(scores.slopes[i])) * in_bins
        levels = hierarchy.resolving_levels(shape, heaviest, limit=limit, max_cells=max_cells)
        shapes.append(Shape(keys[i], levels))
        variances.append(table_noise.exact(prices[i]))
    measure(curator, measurements, shapes, [measurements.product(shape) for shape in shapes], variances)


def measure_worst(
    curator: Curator,
    table_noise: TableNoise,
    measurements: Measurements,
    candidates: Sequence[tuple[int, ...]],
    predict: Predict,
    *,
    price: Fraction,
    count: int = TABLES_PER_ROUND,
    selection: float = _SELECTION_SHARE,
    last: bool = False,
) -> float:
    """One round: choose the tables that the rows get most wrong, at several resolutions, and measure them.

    As many as `count`, or `LAST_TABLES` if it is the `last` round, in which tables of some common attributes may be
    chosen. Returns by how many counts the rows were off in them, summed up, less what noise and chance give.
    """
    count = LAST_TABLES if last else count
    selection_price = Fraction(math.floor(price * selection * UNITS), UNITS)
    rest = float(price - selection_price)
    deviation = math.sqrt(table_noise.variance(rest / count))
    hierarchy, n = measurements.hierarchy, measurements.total
    shapes = list(
        dict.fromkeys(
            Shape(key, hierarchy.finest_levels(key, max(2.0 ** len(key), scale * n / deviation)))
            for key in candidates
            for scale in _RESOLUTIONS
        )
    )
    references, penalties = _references(shapes, predict, deviation, n)
    chosen = curator.select_tables(
        [hierarchy.table(*shape) for shape in shapes],
        references,
        penalties,
        count=count,
        price=selection_price,
        related=last,
    )
    variance = table_noise.exact(rest / len(chosen))
    worst = [shapes[i] for i in chosen]
    measure(curator, measurements, worst, predict(worst), [variance] * len(worst))
    surplus = 0.0
    for _, noisy, prior, _ in measurements.tables[-len(worst) :]:
        chance = np.sqrt(2 / math.pi * (float(noisy.variance) + 2 * prior)).sum()
        surplus += float(np.abs(noisy.values - prior).sum() - chance)
    return surplus


def _references(
    shapes: Sequence[Shape], predict: Predict, deviation: float, total: float
) -> tuple[list[NDArray[np.signedinteger[Any]]], NDArray[np.int64]]:
    """What the rows say of every table, in whole counts, and the distance to it that chance and noise would give.

    Some tables at a time, and in short numbers: there may be tens of thousands.
    """
    short = np.int32 if total < 2**30 else np.int64
    references: list[NDArray[np.signedinteger[Any]]] = []
    penalties: list[float] = []
    for start in range(0, len(shapes), _BATCH):
        for table in predict(list(shapes[start : start + _BATCH])):
            references.append(np.rint(table).astype(short))
            chance = np.sqrt(2 * table).sum() + 0.5 * deviation * len(table)
            penalties.append(math.sqrt(2 / math.pi) * chance)
    return references, np.rint(penalties).astype(np.int64)


def measure(
    curator: Curator,
    measurements: Measurements,
    shapes: Sequence[Shape],
    priors: Sequence[NDArray[np.float64]],
    variances: Sequence[Fraction],
) -> None:
    """Measure tables, in one payment."""
    tables = [measurements.hierarchy.table(*shape) for shape in shapes]
    noisy = curator.measure_tables(tables, variances=variances)
    measurements.tables += map(TableMeasurement, shapes, noisy, priors)


# Queries that are no marginals, measured in their own terms where that is no worse than reading them off rows. Rows are
# not fitted to the noisy answers; both answers are combined, see `mechanism`.


@dataclass(frozen=True, slots=True, eq=False)
class DirectPart:
    """Noisy answers to one part of the workload, and where it stands."""

    place: slice
    measurement: Measurement


def measure_direct_parts(
    curator: Curator, budget: BudgetView, table_noise: TableNoise, sets: AttributeSets, queries: Queries
) -> list[DirectPart]:
    """Measure those parts that look at several attributes in another way than a marginal, if the noise allows."""
    starts = np.cumsum([0, *(part.count for part in queries.classes)]).tolist()
    eligible = [
        (part, slice(start, start + part.count))
        for part, start in zip(queries.classes, starts[:-1], strict=True)
        if not isinstance(part, Marginals) and len(part.attributes) > 1 and part.count <= _MAX_DIRECT
    ]
    typical = table_noise.variance(budget.total * (1 - DIRECT_SHARE) / max(len(sets.pairs), 1))
    parts: list[DirectPart] = []
    for part, place in eligible:
        price = budget.part(DIRECT_SHARE / len(eligible))
        if _variance(part, curator, price) <= _MAX_DIRECT_NOISE**2 * typical:
            noise = NoiseRequest.at(price, curator.unit)
            parts.append(DirectPart(place, curator.measure(part, noise=noise)))
    return parts


def _variance(part: Queries, curator: Curator, price: Fraction) -> float:
    """Of the noise that this price buys for a part."""
    sensitivity = part.sensitivity(curator.relation)
    if curator.unit.is_pure:
        return 2 * float(sensitivity.l1 / price) ** 2
    return float(sensitivity.l2_squared / (2 * price))


# How far two attributes are from independence, in few bins and in more, and how many bins a table is worth for it.


@dataclass(frozen=True, slots=True, eq=False)
class PairScores:
    """How far pairs are from independence, in counts, and how much more of that is seen in finer bins."""

    values: NDArray[np.float64]
    """In `SCORE_BINS` bins of each attribute, less what chance alone would give."""
    noise: float
    """The deviation of the noise in each."""
    slopes: NDArray[np.float64]
    """The power of the number of cells with which a dependence grows from these bins to twice as many."""
    few: NDArray[np.int64]
    """Cells of each pair in these bins."""
    many: NDArray[np.int64]
    """Cells in twice as many bins of each attribute."""

    @property
    def doubt(self) -> float:
        """How much dependence the noise may have hidden from a score: little where most pairs show none at all."""
        typical = max(float(np.median(self.values)), 0.0)
        return self.noise * typical / (typical + _DOUBT * self.noise)


def measure_scores(
    curator: Curator, measurements: Measurements, pairs: Sequence[tuple[int, ...]], *, price: Fraction
) -> PairScores:
    """Score every pair, once in a few bins and once in twice as many of each attribute that has more."""
    hierarchy = measurements.hierarchy
    coarse, fine = (
        [Shape(pair, tuple(hierarchy.level_of(a, bins) for a in pair)) for pair in pairs]
        for bins in (SCORE_BINS, 2 * SCORE_BINS)
    )
    finer = [i for i, (few, many) in enumerate(zip(coarse, fine, strict=True)) if few != many]
    shapes = [*coarse, *(fine[i] for i in finer)]
    products = [measurements.product(shape) for shape in shapes]
    values, law = curator.distances(
        [hierarchy.table(*shape) for shape in shapes],
        [np.rint(table).astype(np.int64) for table in products],
        price=price,
    )
    # the mean distance of a Poisson count from its mean is at most this
    chance = np.array(
        [np.minimum(math.sqrt(2 / math.pi) * np.sqrt(table), 2 * table).sum() for table in products]
    )
    # where chance moves the cells less than the dependence does, both add up in squares
    strengths = np.sqrt(np.maximum(np.maximum(values, 0.0) ** 2 - chance**2, 0.0))
    in_many = strengths[: len(pairs)].copy()
    in_many[finer] = strengths[len(pairs) :]
    few, many = (np.array([hierarchy.cells(*shape) for shape in part]) for part in (coarse, fine))
    slopes = estimate_slopes(strengths[: len(pairs)], in_many, np.log(many / few), noise=law.deviation)
    scores = np.asarray(values - chance, dtype=np.float64)[: len(pairs)]
    return PairScores(scores, law.deviation, slopes, few, many)


def estimate_slopes(
    few: NDArray[np.float64],
    many: NDArray[np.float64],
    steps: NDArray[np.float64],
    *,
    noise: float,
) -> NDArray[np.float64]:
    """The slope of every pair, shrunk to what the pairs have in common: one pair's is mostly noise.

    Smooth relations of ordered attributes show in few bins as well as in many. If codes have no order, every step to
    finer bins shows as much as the one before. `few` and `many` are the strengths in fewer and in more cells, `steps`
    the logarithms of how many times as many, 0 of a pair that has no more.
    """
    clear = (few > 2 * noise) & (steps > 0)
    few, many, steps = few[clear], np.maximum(many[clear], noise), steps[clear]
    slopes, variances = np.log(many / few) / steps, 2 * (noise / (few * steps)) ** 2
    weights = 1 / (variances + _SLOPE_SPREAD**2)
    common = (_USUAL_SLOPE / _SLOPE_SPREAD**2 + weights @ slopes) / (1 / _SLOPE_SPREAD**2 + weights.sum())
    estimates = np.full(len(clear), common)
    estimates[clear] += weights * _SLOPE_SPREAD**2 * (slopes - common)
    return np.clip(estimates, 0.0, _MAX_SLOPE)


def finer_bins(model: RiskModel, scores: PairScores, pair: int, *, deviation: float, bins: float) -> float:
    """At least `bins`: how many cells the table of a pair is worth, by how its dependence grows with them.

    That was seen up to twice the bins of a score, and is expected to end there.
    """
    few, many, slope = int(scores.few[pair]), int(scores.many[pair]), float(scores.slopes[pair])
    score = _least_score(model, scores, pair)

    def risk(cells: float) -> float:
        hidden = score * ((many / few) ** slope - (min(cells, many) / few) ** slope)
        noise = model.noise(score / (0.8 * model.total), model.total / cells, deviation)
        return _HIDDEN * hidden + cells * noise

    return min((factor * bins for factor in _FINER), key=risk)


def hidden_strength(model: RiskModel, scores: PairScores, pair: int, *, in_bins: int, cells: int) -> float:
    """How far cells lie from what the bins around them say, by their counts.

    The squared dependence that a table of all `cells` would show, less what one of so many bins (`in_bins`) shows.
    """
    few, power = int(scores.few[pair]), 2 * float(scores.slopes[pair])
    inside = (max(cells, few) / few) ** power - (max(in_bins, few) / few) ** power
    return _least_score(model, scores, pair) / (0.8 * model.total) * math.sqrt(max(inside, 0.0))


def _least_score(model: RiskModel, scores: PairScores, pair: int) -> float:
    """A pair's score, in counts; no less than noise may have hidden."""
    return max(float(scores.values[pair]), scores.noise / 2, 0.01 * model.total)
