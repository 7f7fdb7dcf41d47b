"""Rounds of private selection without a delta: few tables, each chosen by what the rows so far get wrong.

With a delta the squares of noise add up, so that scoring and measuring every pair costs little
more than measuring the best ones. Without one the noise itself adds up: P tables have P times the noise of one, and P
scores too. Then it pays to choose: a round picks tables by permute-and-flip, whose noise goes by the number of
tables picked and not by the number of candidates, measures them, and fits rows again. What is not measured follows from
what is, through the rows. Tables of three attributes of few codes are candidates, too: they hold three pairs at the
price of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations

import numpy as np

from maquette.mechanisms.base import Curator
from maquette.questions.measurement import Size
from maquette.sculpt.allocation import TableNoise
from maquette.sculpt.measurements import Measurements
from maquette.sculpt.rows import MIN_GAINS, begin, sweep
from maquette.sculpt.stages import BudgetView, measure_worst
from maquette.sculpt.targets import predict

# Chosen on the tuning half of benchmarks/families (cells 2@1-pure and 2@10-pure):
_TABLES_PER_ATTRIBUTE = 1.5
"""Measured in all rounds, at least: a tree over the attributes takes one less than one each."""
_RESOLVED = 450.0
"""Records for every further table, in deviations of a table at the whole price."""
_NEARLY_ALL = 0.75
"""Of the pairs, from which on all of them are measured at once."""
_TABLES_PER_ROUND = 4
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


def plan_rounds(table_noise: TableNoise, size: Size, *, attributes: int, pairs: int, price: float) -> int:
    """How many rounds; 0 where all pairs are measured at once. From public numbers and the released size."""
    if not table_noise.unit.is_pure:
        return 0
    whole = math.sqrt(table_noise.variance(price))
    tables = max(_TABLES_PER_ATTRIBUTE * attributes, size.divisor / (_RESOLVED * whole))
    return 0 if tables >= _NEARLY_ALL * pairs else math.ceil(tables / _TABLES_PER_ROUND)


def measure_in_rounds(
    curator: Curator,
    budget: BudgetView,
    table_noise: TableNoise,
    measurements: Measurements,
    candidates: Sequence[tuple[int, ...]],
    *,
    rounds: int,
    rows: int,
    rng: np.random.Generator,
    progress: Callable[[float], None],
) -> None:
    """Choose and measure tables, round after round; every round gets an equal part of what is left."""
    for done in range(rounds):
        sampler = begin(measurements, m=min(rows, _MAX_ROWS), rng=rng)
        if done:
            sweep(sampler, min_gains=MIN_GAINS[:2], more=0, progress=_quiet)
        measure_worst(
            curator,
            table_noise,
            measurements,
            candidates,
            partial(predict, measurements, sampler.rows),
            price=budget.left / (rounds - done),
            count=_TABLES_PER_ROUND,
            selection=_SELECTION_SHARE,
        )
        measurements.reconcile()
        measurements.rounds += 1
        progress((done + 1) / rounds)


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


def _quiet(share: float) -> None:
    del share
