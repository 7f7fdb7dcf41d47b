"""Tables beyond the measurement of all pairs: few tables chosen in rounds, and the third order.

With a delta the squares of noise add up, so that scoring and measuring every pair costs little more than measuring the
best ones, unless there are very many pairs. Without one the noise itself adds up: P tables have P times the noise of
one, and P scores too. Then it pays to choose: a round picks tables by permute-and-flip, whose noise goes by the
number of tables picked and not by the number of candidates, measures them, and fits rows again. What is not measured
follows from what is, through the rows. Tables of three attributes of few codes are candidates, too: they hold three
pairs at the price of one.

Where every triple can be scored, those that stand out of chance are measured: a table that rows fitted to the pairs
predict well has nothing to say, and would cost noise and time.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.core.budget import UNITS
from maquette.core.measurement import Size
from maquette.mechanisms.base import Curator
from maquette.sculpt.allocation import AttributeSets, RiskModel, SetWeights, TableNoise
from maquette.sculpt.bins import Shape
from maquette.sculpt.measurements import Measurements
from maquette.sculpt.rows import MIN_GAINS, begin, quiet, sweep
from maquette.sculpt.stages import (
    SCORE_SHARE,
    BudgetView,
    Predict,
    measure,
    measure_worst,
)
from maquette.sculpt.targets import predict

# Chosen on the tuning half of benchmarks/families (cells 2@1-pure and 2@10-pure):
_TABLES_PER_ATTRIBUTE = 1.5
"""Measured in all rounds, at least: a tree over the attributes takes one less than one each."""
_RESOLVED = 450.0
"""Records for every further table, in deviations of a table at the whole price."""
_NEARLY_ALL, _CLEAR = 0.75, 140.0
"""Of the pairs, and records for every pair in deviations of a table at the whole price, from which on all of them are
measured at once (the second on mixture-0, tails-2, tied-0 and spikes-0 of the tuning half, two to four seeds)."""
_TABLES_PER_ROUND = 4
"""At least."""
# With a delta, chosen among a dozen settings on `mixed` (50 columns among others) and `chess` of benchmarks/wide.py, on
# nist_acs and on nist_acs with each record beside the next (48 columns), one or two seeds:
_GAUSSIAN_PER_ATTRIBUTE = 3.0
"""Tables measured in all rounds where the records allow it."""
_GAUSSIAN_RESOLVED, _MAX_NOISE = 300.0, 12.0
"""Records for every further table, and for every table at all, in deviations of a table at the whole price."""
_FEW_OF_MANY = 6.0
"""Pairs for every table that is measured, from which on it pays to choose."""
_MIN_PER_ATTRIBUTE = 0.45
"""Tables that the noise must allow, or one-way tables alone are nearer in L1."""
_MAX_ROUNDS = 10
_SELECTION_SHARE = 0.3
"""Of a round, for choosing its tables."""
ONE_WAY_FACTOR = 1.6
"""More for one-way tables than where all pairs are measured, which would add up to them."""
_SMALL_CELLS = 64
"""Of a three-way table that is measured in place of its pairs."""
# Limits of time:
_MAX_SMALL = 1_000
"""Such tables that are compared."""
_MAX_ROWS = 20_000
"""Rows between rounds."""
# The third order, shares of the whole price. Chosen on the tuning half of benchmarks/families and on further tables of
# its kinds (3@1 and 3@10, four seeds):
_ALL_SIGNAL, _ALL_SHARE, _ALL_POWER = 50.0, 0.35, 0.25
"""Records, in variances of a cell, from which on all triples are measured whatever their scores; the share of all of
them there, and the power of the signal that it grows with (eight cells of 3@10: with a share of 0.35 everywhere, a
third of the bins and no triple at a higher price than a pair, the largest error was 1.16 times and the mean L1 1.03
times as large)."""
_MOST_OF_REST = 0.75
"""Of what one-way tables and scores leave, at most for triples."""
ROUNDS_SHARE = 0.2
"""Where a few tables are chosen in rounds, or all are measured because their scores are high."""
_SCORED_SIGNAL, _SURVEY_SHARE = 1.0, 0.015
"""Records, in variances of a cell, from which on triples are scored to decide between the two, and the share for it."""
_BROAD = 1.2
"""How far, in deviations of the noise, a cell of the median triple may be off for all of them to be measured (six cells
of 3@1 in which it is: largest error 0.75 times, mean L1 0.99 times that of rounds; at equal prices 0.89 and 1.00)."""
_TRIPLE_BINS, _TIMES_A_PAIR = 3.0, 3.0
"""How many times the bins, and at most how many times the price, of a two-way table with the same dependence."""
_SCORE_CELLS = 64
"""Cells of the tables in which the dependence of a triple is measured. Set by hand, on few tables."""
_MAX_HIDDEN = 4.0
"""Deviations of the noise that a cell may lie off if its triple is not measured."""
_STANDS_OUT = -2.0
"""Deviations of the noise of a score above chance. Set by hand: with 4 the mean error of twins-4 was 6 % larger."""
_WORTHWHILE = 0.05
"""Of what the third order may spend: less than this is not worth a further look at the pairs."""
# A limit of time:
_VISITS = 5e7
"""Pairs of a row and one of the attributes of a triple that a sweep visits. With 0.4 times as many the largest error of
rows on Adult at epsilon 10 is 1.4 times as large (two seeds)."""


class Rounds(NamedTuple):
    """How many rounds, and the tables of each."""

    number: int
    tables: int


def plan_rounds(table_noise: TableNoise, size: Size, sets: AttributeSets, *, price: float) -> Rounds | None:
    """None where all pairs are measured at once. From public numbers and the released size.

    With a delta no rounds are planned for workloads with triples, which have rounds of their own.
    """
    attributes, pairs = len(sets.attributes), len(sets.pairs)
    signal = size.divisor / math.sqrt(table_noise.variance(price))
    if table_noise.unit.is_pure:
        tables = max(_TABLES_PER_ATTRIBUTE * attributes, signal / _RESOLVED)
        pays, most = tables < _NEARLY_ALL * pairs and signal < _CLEAR * pairs, pairs
    else:
        useful = max(_GAUSSIAN_PER_ATTRIBUTE * attributes, signal / _GAUSSIAN_RESOLVED)
        tables = min(useful, signal / _MAX_NOISE)
        pays = tables >= _MIN_PER_ATTRIBUTE * attributes and pairs >= _FEW_OF_MANY * tables
        pays, most = pays and not sets.triples, _MAX_ROUNDS
    if not pays:
        return None
    each = max(_TABLES_PER_ROUND, math.ceil(tables / most))
    return Rounds(math.ceil(tables / each), each)


def measure_in_rounds(
    curator: Curator,
    budget: BudgetView,
    table_noise: TableNoise,
    measurements: Measurements,
    candidates: Sequence[tuple[int, ...]],
    *,
    rounds: Rounds,
    rows: int,
    rng: np.random.Generator,
    progress: Callable[[float], None],
) -> None:
    """Choose and measure tables, round after round; every round gets an equal part of what is left."""
    for done in range(rounds.number):
        sampler = begin(measurements, m=min(rows, _MAX_ROWS), rng=rng)
        if done:
            sweep(sampler, min_gains=MIN_GAINS[:2], more=0, progress=quiet)
        measure_worst(
            curator,
            table_noise,
            measurements,
            candidates,
            partial(predict, measurements, sampler.rows),
            price=budget.left / (rounds.number - done),
            count=rounds.tables,
            selection=_SELECTION_SHARE,
        )
        measurements.reconcile()
        measurements.rounds += 1
        progress((done + 1) / rounds.number)


def candidate_sets(
    pairs: Mapping[tuple[int, ...], float], triples: Sequence[tuple[int, ...]], cells: Sequence[int]
) -> list[tuple[int, ...]]:
    """Pairs and triples of the workload, and small triples where it has none; `cells` by attribute."""
    return [*pairs, *(triples or small_triples(pairs, cells))]


def small_triples(pairs: Mapping[tuple[int, ...], float], cells: Sequence[int]) -> list[tuple[int, ...]]:
    """Triples of few cells whose three pairs are all wanted, the smallest first, at most so many."""
    places = sorted({a for pair in pairs for a in pair})
    triples = [
        triple
        for triple in combinations(places, 3)
        if math.prod(cells[a] for a in triple) <= _SMALL_CELLS
        and all(pair in pairs for pair in combinations(triple, 2))
    ]
    return sorted(triples, key=lambda triple: math.prod(cells[a] for a in triple))[:_MAX_SMALL]


# The third order: which triples of attributes are looked at, what is spent on them, and their measurement.


@dataclass(frozen=True, slots=True)
class ThirdOrder:
    """How tables of three attributes are measured: all of them at once, or as their scores say."""

    share: float
    """Of the whole price."""
    all_tables: bool

    def price(self, budget: BudgetView) -> float:
        """What is kept for them while pairs are measured."""
        return min(self.share * budget.total, _MOST_OF_REST * float(budget.left))


def plan_third_order(table_noise: TableNoise, size: Size, count: int, *, price: float) -> ThirdOrder:
    """All triples where their cells stand out of the noise, the more for them the more they do. Public inputs only.

    `count` is the number of triples.
    """
    if not count:
        return ThirdOrder(0.0, False)
    signal = size.divisor / table_noise.variance(price * _ALL_SHARE / count)
    if signal < _ALL_SIGNAL:
        return ThirdOrder(ROUNDS_SHARE, False)
    return ThirdOrder(_ALL_SHARE * (signal / _ALL_SIGNAL) ** _ALL_POWER, True)


@dataclass(frozen=True, slots=True, eq=False)
class TripleScores:
    """How far each triple is from what the rows say of it."""

    values: NDArray[np.float64]
    """L1 distances in counts, less what chance alone would give."""
    noise: float
    """The deviation of the noise in each."""


def measure_triple_scores(
    curator: Curator,
    budget: BudgetView,
    measurements: Measurements,
    triples: Sequence[tuple[int, ...]],
    predict: Predict,
    *,
    sampling: float,
    share: float,
) -> TripleScores:
    """The distance of every triple from the rows' prediction, in a few bins.

    `sampling` is the variance of a predicted count by its mean, `share` is of the whole price. Chance: cells differ by
    their sampling, as far as that is not fixed by the pairs, which the rows have been fitted to already.
    """
    hierarchy = measurements.hierarchy
    shapes = [Shape(triple, hierarchy.finest_levels(triple, _SCORE_CELLS)) for triple in triples]
    predicted = predict(shapes)
    values, law = curator.distances(
        [hierarchy.table(*shape) for shape in shapes],
        [np.rint(table).astype(np.int64) for table in predicted],
        price=budget.part(share),
    )
    chance = [
        math.sqrt(math.prod(1 - 1 / hierarchy.bins(a, level) for a, level in zip(*shape, strict=True)))
        * float(np.minimum(np.sqrt(2 / math.pi * (1 + sampling) * table), 2 * table).sum())
        for shape, table in zip(shapes, predicted, strict=True)
    ]
    return TripleScores(np.asarray(values - np.array(chance), dtype=np.float64), law.deviation)


def _chances(measurements: Measurements, triples: Sequence[tuple[int, ...]]) -> NDArray[np.float64]:
    """For every triple, the deviation of the cell that chance moves most while the two-way tables stay as they are.

    Of n records in a cell of three independent events n prod p_i (1 - p_i) is the variance of the interaction.
    """
    largest = []
    for counts in measurements.one_way:
        shares = counts / max(measurements.total, 1.0)
        largest.append(float((shares * (1 - shares)).max(initial=0.0)))
    return np.array([math.sqrt(measurements.total * math.prod(largest[a] for a in t)) for t in triples])


def choose_triples(
    scores: TripleScores, chances: NDArray[np.float64], *, deviation: float, rows: int
) -> list[int]:
    """The triples, by number, that are not plainly as predicted, or could hide a cell that is off by more than noise.

    `chances` are deviations of what chance does to a cell, `deviation` is that of the noise if all triples were
    measured. A table of three attributes that is off by s in L1, with the right two-way tables, has no cell that is off
    by more than s / 8. Where time is short, those with the largest cells that are off are chosen.
    """
    values, noise = scores.values, scores.noise
    hidden = (np.maximum(values, 0.0) + 2 * noise) / 8
    chosen = (values > _STANDS_OUT * noise) | (hidden > _MAX_HIDDEN * deviation) | (chances > deviation)
    off = np.hypot(np.maximum(values, 0.0) / 8, chances)
    strongest = np.argsort(-off, kind="stable")[: max(1, int(_VISITS / (3 * rows)))]
    return np.intersect1d(np.flatnonzero(chosen), strongest).tolist()


def measure_triples(
    curator: Curator,
    budget: BudgetView,
    table_noise: TableNoise,
    measurements: Measurements,
    triples: Sequence[tuple[int, ...]],
    predict: Predict,
    *,
    rows: int,
    all_tables: bool,
) -> bool:
    """Score all triples and measure those that stand out; False where a few chosen in rounds would say more.

    What many attributes have in common (classes of records, say) is in all triples, and a few of them say little of the
    others. A table that is off by s in L1, with the right two-way tables, has no cell that is off by more than s / 8:
    unless `all_tables` are wanted anyway, that must stand out of the noise for half of the triples. Without a delta so
    many scores would be noise.
    """
    n, count = measurements.total, len(triples)
    score = partial(measure_triple_scores, curator, budget, measurements, triples, predict, sampling=n / rows)
    if all_tables:
        scores = score(share=SCORE_SHARE)
    else:
        if table_noise.unit.is_pure or n < _SCORED_SIGNAL * table_noise.variance(float(budget.left) / count):
            return False
        scores = score(share=_SURVEY_SHARE)
        deviation = math.sqrt(table_noise.variance(float(budget.left) / count))
        if float(np.median(scores.values)) / 8 <= _BROAD * deviation:
            return False
    left = float(budget.left)
    deviation = math.sqrt(table_noise.variance(left / count))
    chosen = choose_triples(scores, _chances(measurements, triples), deviation=deviation, rows=rows)
    paid = list(pair_prices(table_noise, measurements).values())
    price = min(left, _TIMES_A_PAIR * len(chosen) * sum(paid) / len(paid)) if paid else left
    if chosen:
        prices = triple_prices(scores, chosen, price=price, equal=all_tables)
        variances = [table_noise.exact(one) for one in prices]
        model = RiskModel(n, table_noise)
        shapes: list[Shape] = []
        for i, variance in zip(chosen, variances, strict=True):
            max_bins = _TRIPLE_BINS * model.max_bins(float(scores.values[i]), math.sqrt(variance))
            levels = measurements.hierarchy.finest_levels(triples[i], max(8.0, max_bins))
            shapes.append(Shape(triples[i], levels))
        measure(curator, measurements, shapes, predict(shapes), variances)
    rest = float(budget.left) - 1 / UNITS  # each payment is rounded up to the ledger's grid
    if paid and rest > _WORTHWHILE * left:
        measure_pairs_again(curator, table_noise, measurements, price=rest)
    return True


def triple_prices(scores: TripleScores, chosen: Sequence[int], *, price: float, equal: bool) -> list[float]:
    """A price divided over the chosen triples, equally or by the roots of their scores."""
    weights = np.maximum(scores.values[chosen], scores.noise) ** (0.0 if equal else 0.5)
    return (price * weights / weights.sum()).tolist()


# A further look at the pairs, with what the third order leaves.


def worth_of_pairs(table_noise: TableNoise, measurements: Measurements, *, price: float) -> float:
    """By how many counts a table of the workload would be closer, on average, if the pairs shared a further price."""
    model = RiskModel(measurements.total, table_noise)
    prices, gain = pair_prices(table_noise, measurements), 0.0
    more = 1 + price / sum(prices.values())
    for shape, paid in prices.items():
        score = measurements.scores[shape.attributes]
        cells = measurements.hierarchy.cells(shape.attributes, (0, 0))
        gain += model.risk(score, cells, paid) - model.risk(score, cells, paid * more)
    return gain / len(prices)


def measure_pairs_again(
    curator: Curator, table_noise: TableNoise, measurements: Measurements, *, price: float
) -> None:
    """All two-way tables once more, in the proportions of the time before."""
    prices = pair_prices(table_noise, measurements)
    scale = price / sum(prices.values())
    shapes = list(prices)
    variances = [table_noise.exact(paid * scale) for paid in prices.values()]
    priors = [measurements.product(shape) for shape in shapes]
    measure(curator, measurements, shapes, priors, variances)


def pair_prices(table_noise: TableNoise, measurements: Measurements) -> dict[Shape, float]:
    """What was paid for every two-way table."""
    prices: dict[Shape, float] = {}
    for shape, noisy, *_ in measurements.tables:
        if len(shape.attributes) == 2:
            prices[shape] = prices.get(shape, 0.0) + table_noise.price(float(noisy.variance))
    return prices


# Which triples of attributes are compared where there are more than can be. From public and released values.


def candidate_triples(
    weights: SetWeights,
    names: Sequence[str],
    *,
    limit: int,
    scores: Mapping[tuple[int, ...], float] | None = None,
) -> list[tuple[int, ...]]:
    """At most so many triples: those of the largest weight, and among equals no favourites of position.

    Half of the places go to triples whose pairs depend most on each other (`scores`). The other half goes to all
    attributes alike by a fixed hash of their names, since three attributes can depend on each other where no two of
    them do. Neither depends on the order in which attributes are declared.
    """
    triples = list(weights)
    if len(triples) <= limit:
        return triples
    values = np.array(list(weights.values()))
    values = np.round(values / values.max(), 9)
    border = np.partition(values, len(triples) - limit)[len(triples) - limit]
    above, equal = np.flatnonzero(values > border), np.flatnonzero(values == border)
    room = limit - len(above)
    hashes = hash_sets(names, [triples[i] for i in equal])
    strongest = equal[:0]
    if scores is not None:
        strength = [sum(scores[pair] for pair in combinations(triples[i], 2)) for i in equal]
        strongest = equal[np.lexsort((hashes, -np.array(strength)))[: room // 2]]
    others = equal[np.argsort(hashes)]
    others = others[~np.isin(others, strongest)][: room - len(strongest)]
    return [triples[i] for i in np.sort(np.concatenate([above, strongest, others]))]


def hash_sets(names: Sequence[str], sets: Sequence[tuple[int, ...]]) -> NDArray[np.uint64]:
    """A fixed number for every set of attributes that looks random, whatever their order; no key, no secret."""
    digests = [hashlib.sha256(name.encode()).digest()[:8] for name in names]
    numbers = np.array([int.from_bytes(digest, "big") for digest in digests], dtype=np.uint64)
    state = numbers[np.array(sets, dtype=np.int64)].sum(axis=1, dtype=np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
    return state ^ (state >> np.uint64(31))
