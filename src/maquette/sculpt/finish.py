"""Rows after the sweeps: their average, more of them than records, the repair of tied columns; and the dense regime.

A sweep draws every value at random, so the rows carry a sampling error of their own on top of what the measurements
left open. Averaged over sweeps it fades: the average of the pairs of the workload, at full resolution, becomes the
target of one more sweep, and what is left of the sampling error is little more than rounding.

Rows of the number of records have an error of their own: a cell holds a whole number of rows, and a cell that no target
holds holds a random one. Where that can be seen beside the error that the planner expects, the rows are repeated after
the fit and swept once more, all together: then they add a fourth of the sampling variance.

Sweeps draw one value at a time. Where columns are tied (items that are missing together, copies, columns that follow
from others) no single value can change, so rows that began wrong stay wrong. A repair lets a row take the values of a
whole block of columns from another row if that brings the rows' counts nearer to their goals. Values of a block that
occur together in no row are never made. Every accepted swap lowers the weighted sum of squared residuals.

Sees released values only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from maquette.mechanisms import postprocess, shape
from maquette.mechanisms.base import Outcome, Task
from maquette.models.answers import Answers, SmallDatabase
from maquette.models.residual import ResidualModel
from maquette.queries.rows import Margin
from maquette.sculpt.allocation import AttributeSets
from maquette.sculpt.bins import Shape
from maquette.sculpt.measurements import Measurements, prior_variances
from maquette.sculpt.rows import MIN_GAINS, MORE_SWEEPS, begin, is_close, quiet, sweep
from maquette.sculpt.sampler import RowSampler, swap_pass
from maquette.sculpt.targets import Layout, Targets, blend
from maquette.theory import direct

# Chosen on the tables of benchmarks/sculpt.py (figures in benchmarks/results/sculpt.jsonl):
AVERAGED_SWEEPS = 3
"""Sweeps more whose rows count in the average."""
_STEADY = 0.001
"""What tables change in a sweep, in L1; below it there is no sampling error worth averaging."""
_FREE = 10.0
"""Prior deviation of averaged tables: the average is taken as it is."""
ASSOCIATIONS = (0.1, 0.3, 0.7)
"""Shares of the smaller column's entropy that another one explains: columns above each of them form blocks."""
MAX_GROWTH = 4
"""Times as many rows. Chosen on twelve tables of the tuning half of benchmarks/families, cells 2@1, 2@10 and 3@1, four
seeds each: largest error of the rows 0.96 and mean L1 0.97 times that without."""
_VISIBLE = 0.1
"""The least error of finite rows, by the expected mean L1, that is worth more of them: together they are half a percent
more than the expected error alone. On the same cells all that gain lie above it but one, none that loses 2 % in L1."""
_ROUNDED = 1 / 3
"""The mean L1 error of a count that is rounded at random: of 2 f (1 - f) for an even fraction f."""
# Limits of time and memory:
_AVERAGED_CELLS, _MIN_AVERAGED_CELLS = 1e9, 9.0
"""Cells that the sweep towards the average may visit; and of a pair, or there is no such sweep."""
_MAX_ALL_SWEEPS = 2_000_000
"""Rows of all sweeps together."""
_BRIEF, _THOROUGH = (0.985, 40, 4e8), (0.998, 150, 1e9)
"""A pass of a repair that leaves more than this of the squared residuals is the last; passes, and tables that may be
looked up in all of them. Thorough where whole marginals are measured: there rows can follow all of them."""
_LONG = 2.5e8
"""Pairs of a row and a table from which on a sweep of all rows, some 8 seconds, is one that is worth saving."""
_COPIES, _LAST_SWEEPS = 4, 2
"""Of every row, and sweeps of all of them: see `fit_many`."""


@dataclass(frozen=True, slots=True, eq=False)
class FittedRows:
    """Rows, and the rows of all last sweeps together, which answer with less sampling error than any of them."""

    rows: NDArray[np.uint16]
    all_sweeps: NDArray[np.uint16]


def finish(
    sampler: RowSampler,
    pairs: Iterable[tuple[int, ...]],
    *,
    min_gains: Sequence[float],
    times: int,
    rng: np.random.Generator,
    progress: Callable[[str, float], None] = quiet,
    dense: bool = False,
    answers: bool = True,
) -> FittedRows:
    """Sweep to everything measured, make so many times as many rows or average, and repair rows that still miss the
    tables.

    With `answers` the rows of all sweeps are repaired, too, if they are not close to the tables together. Answers of
    the dense regime are blended instead.
    """
    sweep(
        sampler,
        min_gains=min_gains,
        more=MORE_SWEEPS,
        progress=partial(progress, "fitting the synthetic rows"),
    )
    if times > 1:
        progress("making more synthetic rows", 0.0)
        sampler = sampler.grown(times)
        sampler.sweep(min_gain=MIN_GAINS[-1])
        result = FittedRows(sampler.rows, sampler.rows)
    else:
        averaging = partial(progress, "averaging the synthetic rows")
        result = average_sweeps(sampler, pairs, min_gain=MIN_GAINS[-1], rng=rng, progress=averaging)
    if dense or not is_close(sampler, result.rows):
        progress("repairing the synthetic rows", 0.0)
        answers = answers and not dense and not is_close(sampler, result.all_sweeps)
        repair(sampler, result, answers=answers, rng=rng, thorough=dense)
        progress("repairing the synthetic rows", 1.0)
    return result


# The average of several sweeps.


def average_sweeps(
    sampler: RowSampler,
    pairs: Iterable[tuple[int, ...]],
    *,
    min_gain: float,
    rng: np.random.Generator,
    progress: Callable[[float], None],
) -> FittedRows:
    """Sweep on and average, then once more towards the average, if pairs can have enough cells there; once is enough
    where the rows hardly change."""
    m, hierarchy, pairs = len(sampler.rows), sampler.layout.hierarchy, list(pairs)
    if not pairs:
        return FittedRows(sampler.rows, sampler.rows)
    # drawing one value costs the bins along both attributes of every pair
    max_cells = (_AVERAGED_CELLS / (2 * m * len(pairs))) ** 2
    fine = Layout.of(hierarchy, [Shape(pair, hierarchy.finest_levels(pair, max_cells)) for pair in pairs])
    total = fine.count(sampler.rows)
    sweeps = [sampler.rows.copy()]
    averaged = min(AVERAGED_SWEEPS, sampler.affordable_sweeps)
    for done in range(1, averaged + 1):
        before = sampler.counts.copy()
        sampler.sweep(min_gain=min_gain)
        counts = fine.count(sampler.rows)
        if (done + 1) * m <= _MAX_ALL_SWEEPS:
            sweeps.append(sampler.rows.copy())
        if done == 1:
            changes = (fine, total - counts), (sampler.layout, before - sampler.counts)
            if max(_mean_change(layout, change, m) for layout, change in changes) < _STEADY:
                progress(1.0)
                return FittedRows(sampler.rows, np.concatenate(sweeps))
        total += counts
        progress(done / (averaged + 1))
    if max_cells >= _MIN_AVERAGED_CELLS:
        sampler = _towards(sampler, fine, total / (averaged + 1), rng)
        sampler.sweep(min_gain=min_gain)
    progress(1.0)
    return FittedRows(sampler.rows, np.concatenate(sweeps))


def _mean_change(layout: Layout, change: NDArray[np.float64], m: int) -> float:
    """The mean L1 change of tables of several attributes, as a fraction of the rows."""
    tables = np.count_nonzero(layout.orders > 1)
    return float(np.abs(change[layout.offsets[len(layout.orders) - tables] :]).sum()) / max(m * tables, 1)


def _towards(
    sampler: RowSampler, fine: Layout, average: NDArray[np.float64], rng: np.random.Generator
) -> RowSampler:
    """The same rows with the average of the fine tables as further targets."""
    targets, layout = sampler.targets, sampler.layout
    return RowSampler(
        Layout.of(fine.hierarchy, [*layout.shapes, *fine.shapes]),
        Targets(
            np.concatenate([targets.counts, average]),
            np.concatenate([targets.deviations, np.ones(fine.cells)]),
            np.concatenate([targets.prior_deviations, np.full(fine.cells, _FREE)]),
            np.concatenate([targets.fixed, np.zeros(fine.cells)]),
        ),
        sampler.rows,
        rng=rng,
        integral=np.concatenate([sampler.integral, np.zeros(fine.cells)]),
    )


# More rows than records, where whole rows are too coarse for what the tables know.


def growth(
    measurements: Measurements, sets: AttributeSets, *, m: int, max_rows: int, expected: float | None
) -> int:
    """How many times m rows to make; `expected` is the mean L1 error of the marginals, if it is known.

    In all no more than `max_rows`, or than there are records, if a sweep of these is not long: three tables of 10^6
    records of the tuning half, 2@10, two seeds: largest error 0.65 to 0.44 times, mean L1 0.80 to 0.63, time 1.1 to 2.5
    times.
    """
    as_many_as_records = min(measurements.total, _LONG / max(_members(measurements), 1))
    times = min(MAX_GROWTH, int(max(max_rows, as_many_as_records)) // max(m, 1))
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


# The repair of tied columns.


def repair(
    sampler: RowSampler,
    fitted_rows: FittedRows,
    *,
    answers: bool,
    rng: np.random.Generator,
    thorough: bool = False,
) -> None:
    """Let rows take blocks of columns from each other, in place, where sweeps did not reach the tables.

    With `answers` the rows of all sweeps, too, or they would answer worse than the released ones.
    """
    layout, rows, pool = sampler.layout, fitted_rows.rows, fitted_rows.all_sweeps
    goals = sampler.targets.goals(layout.count(pool) * (len(rows) / len(pool)), layout.offsets)
    swap_blocks(layout, rows, goals, sampler.targets.precisions, rng=rng, thorough=thorough)
    if answers and pool is not rows:
        swap_blocks(layout, pool, goals * (len(pool) / len(rows)), sampler.targets.precisions, rng=rng)


def blocks_of(layout: Layout, counts: NDArray[np.float64]) -> list[tuple[int, ...]]:
    """Sets of attributes to swap together: those that explain each other, loosely or firmly, and all of them."""
    d = len(layout.hierarchy.cuts)
    associations = _associations(layout, counts)
    blocks = {tuple(range(d))}
    for least in ASSOCIATIONS:
        group = list(range(d))
        for (a, b), association in associations.items():
            if association >= least:
                group = [group[a] if g == group[b] else g for g in group]
        blocks |= {tuple(a for a in range(d) if group[a] == g) for g in set(group)}
    return sorted(blocks)


def _associations(layout: Layout, counts: NDArray[np.float64]) -> dict[tuple[int, ...], float]:
    """For every pair of attributes in some table, the mutual information by the smaller entropy."""
    associations: dict[tuple[int, ...], float] = {}
    for number in np.argsort(layout.orders, kind="stable").tolist():  # a pair's own table comes first
        attributes, order = layout.shapes[number].attributes, int(layout.orders[number])
        table = counts[layout.place(number)].reshape(layout.sizes[number, :order])
        for axes in combinations(range(order), 2):
            pair = attributes[axes[0]], attributes[axes[1]]
            if pair in associations:
                continue
            joint = np.maximum(table.sum(axis=tuple(set(range(order)) - set(axes))), 0.0)
            joint = joint / max(joint.sum(), 1e-12)
            down, across, both = map(_entropy, (joint.sum(axis=1), joint.sum(axis=0), joint))
            associations[pair] = (down + across - both) / max(min(down, across), 1e-3)
    return associations


def _entropy(shares: NDArray[np.float64]) -> float:
    positive = shares[shares > 0]
    return float(-(positive * np.log(positive)).sum())


def swap_blocks(
    layout: Layout,
    rows: NDArray[np.uint16],
    goals: NDArray[np.float64],
    precisions: NDArray[np.float64],
    *,
    rng: np.random.Generator,
    thorough: bool = False,
) -> None:
    """Passes over all rows, in place, while the squared residuals are falling.

    `goals` (cells of the layout) are wanted counts, `precisions` (cells) the weights of the squared residuals.
    """
    m, d = rows.shape
    blocks = blocks_of(layout, goals)
    in_block = np.array([[a in block for a in range(d)] for block in blocks])
    looked_up = in_block @ np.diff(layout.pointers)
    residual = goals - layout.count(rows)
    squares = float(precisions @ residual**2)
    tables = layout.levels.maps.ravel(), layout.pointers, layout.members
    cells = np.empty((2, len(layout.members)), dtype=np.int64)
    memory = np.empty(d, dtype=np.bool_), np.empty(d, dtype=rows.dtype), *cells
    falling, max_passes, max_looked_up = _THOROUGH if thorough else _BRIEF
    for _ in range(int(np.clip(max_looked_up / (m * looked_up.mean()), 1, max_passes))):
        draws = rng.permutation(m), rng.integers(0, m, m), rng.integers(0, len(blocks), m)
        swap_pass(rows, *draws, in_block, *tables, residual, precisions, *memory)
        before, squares = squares, float(precisions @ residual**2)
        if squares > falling * before:
            return


# The dense regime: whole marginals are measured in the residual basis, and rows are fitted to them.


def is_long(measurements: Measurements, *, m: int) -> bool:
    """Does a sweep of m rows take so long that they are better fitted as few first? By released tables alone."""
    return m * _members(measurements) >= _LONG and not m % _COPIES


def _members(measurements: Measurements) -> int:
    """Tables that a sweep visits with every row, each once for every attribute of it."""
    return sum(len(table.shape.attributes) for table in measurements.tables)


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
        signals, borders = taus * (product + 1) ** 2, np.array([0, len(noisy)])
        counts = blend(n * fractions[place], noisy, deviation, signals, borders)
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
