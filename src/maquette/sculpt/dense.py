"""Rows that are fitted otherwise than by sweeps and their average: whole marginals, and more rows than records.

In the dense regime whole marginals are measured in the residual basis, and rows are fitted to them.

Rows of the number of records have an error of their own: a cell holds a whole number of rows, and a cell that no target
holds holds a random one. Where that can be seen beside the error that the planner expects, the rows are repeated after
the fit and swept once more, all together: then they add a fourth of the sampling variance. Sees released values only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from maquette.mechanisms import postprocess, shape
from maquette.mechanisms.base import Outcome, Task
from maquette.models.answers import Answers, SmallDatabase
from maquette.models.residual import ResidualModel
from maquette.queries.base import Margin
from maquette.sculpt.allocation import AttributeSets
from maquette.sculpt.measurements import Measurements, prior_variances
from maquette.sculpt.rows import MIN_GAINS, MORE_SWEEPS, FittedRows, begin, repair, sweep
from maquette.sculpt.targets import blend
from maquette.theory import direct

_LONG = 2.5e8
"""Pairs of a row and a table from which on a sweep of all rows, some 8 seconds, is one that is worth saving."""
_COPIES, _LAST_SWEEPS = 4, 2
"""Of every row, and sweeps of all of them: see `fit_many`."""
MAX_GROWTH = 4
"""Times as many rows. Chosen on twelve tables of the tuning half of benchmarks/families, cells 2@1, 2@10 and 3@1, four
seeds each: largest error of the rows 0.96 and mean L1 0.97 times that without."""
_VISIBLE = 0.1
"""The least error of finite rows, by the expected mean L1, that is worth more of them: together they are half a percent
more than the expected error alone. On the same cells all that gain lie above it but one, none that loses 2 % in L1."""
_ROUNDED = 1 / 3
"""The mean L1 error of a count that is rounded at random: of 2 f (1 - f) for an even fraction f."""


def is_long(measurements: Measurements, *, m: int) -> bool:
    """Does a sweep of m rows take so long that they are better fitted as few first? By released tables alone."""
    members = sum(len(table.shape.attributes) for table in measurements.tables)
    return m * members >= _LONG and not m % _COPIES


def fit_many(
    measurements: Measurements, *, m: int, rng: np.random.Generator, progress: Callable[[float], None]
) -> FittedRows:
    """m rows by a quarter of them: the few are swept until they are near the tables, each is taken four times, and all
    are swept twice and repaired.

    Potentials do not depend on how many rows there are, so the copies begin where the few came to; two sweeps draw them
    apart. An average over more sweeps, which takes away sampling error, gains little before a repair. Of all triples of
    adult with 2 * 10^7 records and 250,000 rows this takes 64 processor seconds instead of 117, with the same mean L1
    (.0276 and .0279) and largest error (.028 points). Of fewer tables, where it is not used, time falls by a quarter
    and errors of rows grow by 2 to 4 %; with eight copies the largest error grows by a tenth.
    """
    few = begin(measurements, m=m // _COPIES, rng=rng)
    sweep(few, min_gains=MIN_GAINS, more=MORE_SWEEPS, progress=lambda share: progress(share / 3))
    sampler = few.grown(_COPIES)
    sweeps: list[NDArray[np.uint16]] = []
    for done in range(_LAST_SWEEPS):
        sampler.sweep(min_gain=MIN_GAINS[-1])
        sweeps.append(sampler.rows.copy())
        progress((1 + (done + 1) / _LAST_SWEEPS) / 3)
    result = FittedRows(sampler.rows, np.concatenate(sweeps))
    repair(sampler, result, answers=False, rng=rng, thorough=True)
    progress(1.0)
    return result


def dense_outcome(
    task: Task,
    outcome: Outcome,
    measurements: Measurements,
    database: SmallDatabase,
    answering: SmallDatabase,
) -> Outcome:
    """The rows, and answers: what the rows of all sweeps say, near the measured cells.

    Accuracy: rows know which cells are empty and what all marginals say together, so their answers are nearer the truth
        than the measured cells. All stay within the noise level plus how far they lie from what was measured.
    """
    model = outcome.model
    assert isinstance(model, ResidualModel)
    n = outcome.size.divisor
    fractions = answering.answer(task.queries).fractions
    shift = 0.0
    for margin, place, _ in shape.margins_of(task.queries) or ():
        noisy = model.table(margin).ravel()
        deviation = model.deviation(margin)
        product = independent(measurements, margin)
        taus = prior_variances(noisy, product, variance=deviation**2)
        counts = blend(n * fractions[place], noisy, deviation, taus * (product + 1) ** 2)
        np.minimum(counts / n, 1.0, out=fractions[place])
        possible = np.clip(noisy / n, 0.0, 1.0)  # the truth lies there too
        shift = max(shift, float(np.abs(fractions[place] - possible).max()) * n)
    level, size_error = (outcome.parameters[key] for key in ("noise_level_counts", "size_drift_counts"))
    text = (
        "discrete Gaussian noise in the residual basis; answers of the synthetic rows, near the measured ones"
    )
    error = direct.shifted_error(noise=level, shift=shift, size_error=size_error)
    return replace(
        outcome,
        answers=Answers.from_fractions(fractions),
        database=database,
        guarantee=postprocess.guarantee(error, outcome.size, task.beta, text),
        notes=(),
        parameters=outcome.parameters | {"rows": database.m, "post": "rows", "moved_counts": shift},
    )


def independent(measurements: Measurements, margin: Margin) -> NDArray[np.float64]:
    """A marginal as if its attributes were independent, code by code, flat, in counts."""
    table = np.full(1, measurements.total)
    for name in margin:
        counts = measurements.one_way[measurements.hierarchy.domain.index(name)]
        table = np.multiply.outer(table, counts / max(measurements.total, 1.0)).ravel()
    return table


# More rows than records, where whole rows are too coarse for what the tables know.


def growth(
    measurements: Measurements, sets: AttributeSets, *, m: int, max_rows: int, expected: float | None
) -> int:
    """How many times m rows to make; `expected` is the mean L1 error of the marginals, if it is known."""
    times = min(MAX_GROWTH, max_rows // max(m, 1))
    if times < 2 or expected is None or not sets.pairs:
        return 1
    return times if _finite_error(measurements, sets, m) > _VISIBLE * expected else 1


def _finite_error(measurements: Measurements, sets: AttributeSets, m: int) -> float:
    """The mean L1 error of the widest tables by the number of rows alone, attributes taken as independent.

    Pairs are averaged over sweeps and led to the average, so that rounding is left; triples are as random as a sample.
    """
    total = max(measurements.total, 1.0)
    shares = [np.sort(np.maximum(counts, 0.0)) / total for counts in measurements.one_way]
    if sets.triples:
        roots = [float(np.sqrt(share).sum()) for share in shares]
        scale = math.sqrt(2 / (math.pi * m))
        errors = [min(2.0, scale * math.prod(roots[a] for a in triple)) for triple in sets.triples]
    else:
        errors = [_rounding(shares[a], shares[b], m) for a, b in sets.pairs]
    return float(np.mean(errors))


def _rounding(down: NDArray[np.float64], across: NDArray[np.float64], m: int) -> float:
    """The sum of min(2 x, 1/3) / m over the cells of a product of ascending shares, x the rows of a cell."""
    borders = _ROUNDED / np.maximum(2 * m * down, 1e-12)
    light = np.searchsorted(across, borders)
    sums = np.concatenate([[0.0], np.cumsum(across)])
    return float(2 * (down * sums[light]).sum() + _ROUNDED * (len(across) - light).sum() / m)
