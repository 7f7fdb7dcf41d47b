"""Rounds of private selection: few tables, each chosen by what the rows so far get wrong.

With a delta the squares of noise add up, so that scoring and measuring every pair costs little more than measuring the
best ones, unless there are very many pairs. Without one the noise itself adds up: P tables have P times the noise of
one, and P scores too. Then it pays to choose: a round picks tables by permute-and-flip, whose noise goes by the
number of tables picked and not by the number of candidates, measures them, and fits rows again. What is not measured
follows from what is, through the rows. Tables of three attributes of few codes are candidates, too: they hold three
pairs at the price of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import NamedTuple

import numpy as np

from maquette.mechanisms.base import Curator
from maquette.questions.measurement import Size
from maquette.sculpt.allocation import AttributeSets, TableNoise
from maquette.sculpt.measurements import Measurements
from maquette.sculpt.rows import MIN_GAINS, begin, sweep
from maquette.sculpt.stages import BudgetView, measure_worst
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
            sweep(sampler, min_gains=MIN_GAINS[:2], more=0, progress=_quiet)
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


def _quiet(share: float) -> None:
    del share
