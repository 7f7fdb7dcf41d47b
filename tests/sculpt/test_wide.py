# type: ignore  (annotations of tests are not checked)
"""Wide tables: rows for two hundred columns, what the fit may cost, and never more error than independence."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from benchmarks import tables
from benchmarks.families import cells
from benchmarks.families.double import engine_of

import maquette as mq
from maquette import api
from maquette.domain import Attribute, Domain, Kind
from maquette.mechanisms.residual import RESIDUAL_FOR_ROWS
from maquette.queries.marginals import Marginals
from maquette.releasing.plan import decided
from maquette.sculpt import allocation, rows, sampler
from maquette.sculpt.bins import Hierarchy, Shape
from maquette.sculpt.mechanism import SCULPT
from maquette.sculpt.sampler import RowSampler
from maquette.sculpt.targets import Layout, Targets


@pytest.mark.slow
def test_two_hundred_columns_are_not_refused_and_fit_into_memory():
    wide = Domain(tuple(Attribute(f"x{i}", Kind.ORDINAL, codes=9) for i in range(200)))
    queries = mq.marginals(wide, k=2)
    (forecast,) = api.plan(queries, n=50_000, epsilon=1.0, delta=1e-9, mechanisms=["sculpt"]).forecasts
    assert forecast.refusal is None
    assert allocation.estimated_megabytes(queries, tables=19_900, rows=50_000) < 2_000


def test_the_memory_estimate_grows_with_all_sizes():
    queries = mq.marginals(Domain(tuple(Attribute(f"x{i}", Kind.ORDINAL, codes=4) for i in range(5))), k=2)
    least = allocation.estimated_megabytes(queries, tables=10, rows=100)
    assert least < allocation.estimated_megabytes(queries, tables=1_000, rows=100)
    assert least < allocation.estimated_megabytes(queries, tables=10, rows=100_000)


@pytest.mark.slow
def test_two_hundred_columns_get_rows():
    rng = np.random.default_rng(3)
    first = rng.integers(0, 2, 400)
    columns = {f"x{i}": np.where(rng.random(400) < 0.5, first, rng.integers(0, 2, 400)) for i in range(200)}
    made = tables.coded(columns, dict.fromkeys(columns, 2))
    table = cells.Loaded("wide", engine_of(made.open()))
    outcome, _ = cells.release(table, cells.Workload(2, 10.0), "sculpt", 0)
    assert outcome.database is not None
    assert set(outcome.database.columns) == set(columns)


def small_bits(n: int, d: int) -> cells.Loaded:
    """Yes-or-no columns of which most are rare, and some exclude each other."""
    rng = np.random.default_rng(11)
    hidden = rng.normal(size=n)
    bits = [(rng.uniform(0, 1) * hidden + rng.normal(size=n) > rng.uniform(0, 2.5)) for _ in range(d)]
    columns = {f"x{i}": bit.astype(np.int64) for i, bit in enumerate(bits)}
    return cells.Loaded("bits", engine_of(tables.coded(columns, dict.fromkeys(columns, 2)).open()))


def independence(table: cells.Loaded, workload: cells.Workload, seed: int) -> float:
    """Mean L1 of the product of one-way tables that the whole budget has measured."""
    outcome, _ = cells.release(table, cells.Workload(1, workload.epsilon), "sculpt", seed)
    (singles, _, _), (queries, _, exact) = table.workload(1), table.workload(2)
    shares = {m[0]: outcome.answers.fractions[place] for m, place in singles.slices.items()}
    gaps = [
        np.abs(np.outer(shares[a], shares[b]).ravel() - exact[place] / table.n).sum()
        for (a, b), place in queries.slices.items()
    ]
    return float(np.mean(gaps))


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_many_columns_of_few_records_are_no_worse_than_independence(epsilon):
    table, workload, seeds = small_bits(1_500, 24), cells.Workload(2, epsilon), range(4)
    ours = [cells.errors(table, workload, cells.release(table, workload, "sculpt", s)[0]) for s in seeds]
    reference = np.mean([independence(table, workload, s) for s in seeds])
    # the certificate of a release takes its part of the price
    assert np.mean([one["rows L1"] for one in ours]) < 1.15 * reference
    assert np.mean([one["answers L1"] for one in ours]) < 1.15 * reference


def task_of(queries: Marginals, epsilon: float) -> tuple[allocation.AttributeSets, object]:
    request = cells.Request(
        queries=queries, epsilon=epsilon, delta=1e-9, mechanism="sculpt", beta=0.05, post="auto",
        typical_rows=10_000,
    )  # fmt: skip
    plan = decided(cells.planning.plan_of(request), n=10_000)
    return allocation.attribute_sets(queries), plan.prepared.task


def test_slack_is_enough_for_one_way_tables_alone():
    """By the noise of each either of the two takes more: one-way tables at epsilon 7, whole marginals at 8 and 12."""
    domain = Domain(tuple(Attribute(f"x{i}", Kind.CATEGORICAL, codes=3) for i in range(7)))
    takes_more: dict[float, bool] = {}
    for epsilon in (3.0, 7.0, 8.0, 12.0):
        sets, task = task_of(mq.marginals(domain, k=2), epsilon)
        prepared = SCULPT.prepare(task)
        left = task.price - prepared.size_price
        alone, whole = (
            RESIDUAL_FOR_ROWS.prepare(one).slack_units(planned=True)
            for one in (allocation.one_way_task(task, sets, left), allocation.residual_task(task, left))
        )
        assert prepared.slack_units(planned=True) == max(alone, whole)
        if alone != whole:
            takes_more[epsilon] = alone > whole
    assert takes_more == {7.0: True, 8.0: False, 12.0: False}


def test_pairs_are_measured_once_the_strongest_dependence_stands_out():
    domain = Domain(tuple(Attribute(f"x{i}", Kind.BOOLEAN, codes=2) for i in range(37)))
    sets, task = task_of(mq.marginals(domain, k=2), 0.1)
    price = Fraction(task.price)
    assert not allocation.pairs_can_stand_out(task, sets, n=3_196, price=price)
    assert allocation.pairs_can_stand_out(task, sets, n=319_600, price=price)
    assert allocation.pairs_can_stand_out(task, sets, n=3_196, price=1_000 * price)


def sampler_of(m: int) -> RowSampler:
    """Rows of three attributes, all pairs as targets that are a copy of one and of independence."""
    domain = Domain(tuple(Attribute(f"x{i}", Kind.ORDINAL, codes=size) for i, size in enumerate((3, 3, 11))))
    hierarchy = Hierarchy.from_counts(domain, [np.full(a.size, m / a.size) for a in domain])
    layout = Layout.of(hierarchy, [Shape((0,), (0,)), Shape((0, 1), (0, 0)), Shape((1, 2), (0, 1))])
    counts = np.concatenate([np.full(3, m / 3), (np.eye(3) * m / 3).ravel(), np.full(3 * 8, m / 24)])
    ones = np.ones(layout.cells)
    targets = Targets(counts, ones, 3 * ones, 0 * ones)
    rng = np.random.default_rng(2)
    drawn = np.column_stack([rng.integers(0, a.size, m) for a in domain]).astype(np.uint16)
    return RowSampler(layout, targets, drawn, rng=rng, integral=0 * ones)


@pytest.mark.parametrize("block", [700, 10_000])
def test_sweeps_in_blocks_reach_tables_of_several_levels(block, monkeypatch):
    monkeypatch.setattr(sampler, "_BLOCK", block)
    fitted = sampler_of(3_000)
    for _ in range(12):
        fitted.sweep(min_gain=0.02)
    assert np.array_equal(fitted.counts, fitted.layout.count(fitted.rows))
    assert np.abs(fitted.counts - fitted.targets.counts).max() < 40
    assert (fitted.rows[:, 0] == fitted.rows[:, 1]).mean() > 0.97


def test_very_wide_layouts_get_fewer_sweeps(monkeypatch):
    fitted = sampler_of(300)
    assert fitted.affordable_sweeps > rows.MORE_SWEEPS
    monkeypatch.setattr(sampler, "_MAX_VISITS", 2.0 * 300 * len(fitted.layout.members))
    assert fitted.affordable_sweeps == 2
    monkeypatch.setattr(sampler, "_MAX_VISITS", 1.0)
    assert fitted.affordable_sweeps == 1
    progress: list[float] = []
    rows.sweep(fitted, min_gains=rows.MIN_GAINS, more=rows.MORE_SWEEPS, progress=progress.append)
    assert len(progress) <= len(rows.MIN_GAINS) + 1
