"""How far two attributes are from independence, in few bins and in more, and how many bins a table is worth for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from maquette.mechanisms.base import Curator
from maquette.sculpt.allocation import RiskModel
from maquette.sculpt.bins import Shape
from maquette.sculpt.measurements import SCORE_BINS, Measurements

_USUAL_SLOPE, _SLOPE_SPREAD, _MAX_SLOPE = 0.03, 0.05, 0.5
"""Of the dependence by the number of cells, both in logarithms: what most tables have, how far tables and their pairs
differ from it, and a limit (tuning half of benchmarks/families and its real tables, two-way at epsilon 1)."""
_FINER, _HIDDEN = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0), 1.5
"""Of a table's usual bins: what it may have where its dependence grows with them, and how much a record counts that
stays hidden (tuning half of the families, two-way at epsilon 1: twice as much is as good)."""


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
    score = max(float(scores.values[pair]), scores.noise / 2, 0.01 * model.total)

    def risk(cells: float) -> float:
        hidden = score * ((many / few) ** slope - (min(cells, many) / few) ** slope)
        noise = model.noise(score / (0.8 * model.total), model.total / cells, deviation)
        return _HIDDEN * hidden + cells * noise

    return min((factor * bins for factor in _FINER), key=risk)
