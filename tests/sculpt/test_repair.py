"""Rows that begin wrong in tied columns are repaired: the start from tables of any order, and blocks moved together."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import maquette as mq
from maquette.core.binned import count_binned
from maquette.core.budget import Unit
from maquette.core.measurement import NoisyTable, Receipt, Size
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.mechanisms.base import Task
from maquette.models.answers import generator
from maquette.sculpt import finish
from maquette.sculpt.bins import Hierarchy, Shape
from maquette.sculpt.finish import FittedRows
from maquette.sculpt.measurements import Measurements, TableMeasurement
from maquette.sculpt.mechanism import SCULPT
from maquette.sculpt.rows import begin
from maquette.sculpt.sampler import RowSampler
from maquette.sculpt.targets import Layout, Targets, blend
from support.fake_curator import FakeCurator

SIZES = (3, 3, 3, 2)
DOMAIN = Domain(tuple(Attribute(f"x{i}", Kind.CATEGORICAL, codes=size) for i, size in enumerate(SIZES)))
PAIRS = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))


def tied_rows(count: int, seed: str = "tied") -> np.ndarray:
    """Three equal columns, and one that leans on them."""
    rng = generator(seed)
    first = rng.choice(3, count, p=[0.5, 0.3, 0.2])
    last = np.where(rng.random(count) < 0.6, first == 0, rng.integers(0, 2, count))
    return np.column_stack([first, first, first, last]).astype(np.uint16)


def found_of(rows: np.ndarray, keys: tuple[tuple[int, ...], ...]) -> Measurements:
    """Exact tables of some attributes as if they had been released with little noise."""
    columns = {f"x{i}": rows[:, i] for i in range(len(SIZES))}
    singles = [np.bincount(rows[:, i], minlength=size).astype(float) for i, size in enumerate(SIZES)]
    hierarchy = Hierarchy.from_counts(DOMAIN, singles)
    found = Measurements(
        Size(len(rows), None, None), hierarchy, float(len(rows)), singles, [1.0] * len(SIZES), []
    )
    for key in keys:
        shape = Shape(key, (0,) * len(key))
        asked = hierarchy.table(*shape)
        counts = count_binned(DOMAIN, columns, [asked])[0]
        found.tables.append(
            TableMeasurement(
                shape, NoisyTable(asked, counts, Fraction(1), Receipt(-1, "")), found.product(shape)
            )
        )
    return found


@pytest.mark.parametrize("keys", [((0, 1), (0, 2)), ((0, 1, 2),), ((0, 1, 3), (1, 2, 3))])
def test_rows_begin_tied_whatever_the_order_of_the_tables(keys):
    begun = begin(found_of(tied_rows(3000), keys), m=3000, rng=generator("begin")).rows
    assert (begun[:, 0] == begun[:, 1]).mean() > 0.98
    assert (begun[:, 0] == begun[:, 2]).mean() > 0.98


def test_a_table_summed_out_has_the_sums_of_all_its_parts():
    known = found_of(tied_rows(500), ((0, 1, 3),)).estimates()[Shape((0, 1, 3), (0, 0, 0))]
    summed = known.margin((0, 2), (3, 3, 2))
    rows = tied_rows(500)
    assert summed.shape == Shape((0, 3), (0, 0))
    assert summed.counts.tolist() == np.bincount(rows[:, 0] * 2 + rows[:, 3], minlength=6).tolist()
    assert summed.variances.tolist() == [3.0] * 6
    assert summed.prior.sum() == pytest.approx(500)


def scrambled(layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """Counts of tied rows, and rows whose tied columns stand beside the wrong values of the last one."""
    wanted = layout.count(tied_rows(2000))
    rows = tied_rows(2000, "other")
    rows[:, 3] = generator("last").permutation(rows[:, 3])
    return wanted, rows


def pairs_layout() -> Layout:
    found = found_of(tied_rows(2000), PAIRS)
    return Layout.of(found.hierarchy, [Shape(pair, (0, 0)) for pair in PAIRS])


@pytest.mark.slow
def test_tied_columns_move_together():
    layout = pairs_layout()
    wanted, rows = scrambled(layout)
    before = np.abs(wanted - layout.count(rows)).max()
    finish.swap_blocks(layout, rows, wanted, np.ones(layout.cells), rng=generator("table_noise"))
    assert (rows[:, 0] == rows[:, 1]).all()
    assert (rows[:, 0] == rows[:, 2]).all()
    assert np.abs(wanted - layout.count(rows)).max() < 0.1 * before


def test_columns_that_explain_each_other_form_a_block():
    layout = pairs_layout()
    found = finish.blocks_of(layout, layout.count(tied_rows(2000)))
    assert (0, 1, 2) in found
    assert (0, 1, 2, 3) in found
    assert (3,) in found
    assert not {(0,), (1,), (2,), (2, 3)} & set(found)


def test_blocks_are_found_in_tables_of_three_alone():
    hierarchy = found_of(tied_rows(2000), ()).hierarchy
    layout = Layout.of(hierarchy, [Shape((0, 1, 3), (0, 0, 0)), Shape((1, 2, 3), (0, 0, 0))])
    assert (0, 1, 2) in finish.blocks_of(layout, layout.count(tied_rows(2000)))


def test_every_move_lowers_the_gaps_that_are_counted_along(monkeypatch):
    """What the loop keeps count of is what a recount gives: tables of one to three attributes."""
    hierarchy = found_of(tied_rows(2000), ()).hierarchy
    shapes = [Shape((0,), (0,)), Shape((0, 3), (0, 0)), Shape((1, 2, 3), (0, 0, 0))]
    layout = Layout.of(hierarchy, shapes)
    wanted, rows = scrambled(layout)
    weights = generator("weights").random(layout.cells) + 0.5
    seen = []
    loop = finish.swap_pass

    def watched(*arrays):
        residual, before = arrays[8], rows.copy()
        squares = float(weights @ residual**2)
        loop(*arrays)
        assert np.array_equal(residual, wanted - layout.count(rows))
        changes = int((rows != before).any(axis=1).sum())
        seen.append((changes, squares, float(weights @ residual**2)))

    monkeypatch.setattr(finish, "swap_pass", watched)
    finish.swap_blocks(layout, rows, wanted, weights, rng=generator("watched"))
    assert seen[0][0] > 100
    assert all(after < before for changes, before, after in seen if changes)


def test_the_same_seed_makes_the_same_moves():
    layout = pairs_layout()
    found = []
    for _ in range(2):
        wanted, rows = scrambled(layout)
        finish.swap_blocks(layout, rows, wanted, np.ones(layout.cells), rng=generator("same"))
        found.append(rows)
    assert np.array_equal(*found)


def test_goals_stay_near_the_measurement_and_forbidden_cells_are_kept_empty():
    counts, deviations = np.array([100.0, 100.0, -4.0, 0.0]), np.array([10.0, 10.0, 10.0, 1.0])
    targets = Targets(counts, deviations, np.array([0.1, 0.1, 0.1, 0.0]), np.zeros(4))
    average = np.array([110.0, 160.0, 30.0, 0.0])
    # first within 2.5 deviations, then nearer by the sampling error of the rows
    assert targets.goals(average, np.array([0, 3, 4])) == pytest.approx(
        [109.785, 124.39, 20.895, 0.0], rel=1e-4
    )
    assert targets.precisions[:3].tolist() == [0.01] * 3
    assert targets.precisions[3] > 1e3


def test_rows_that_answer_are_repaired_with_the_released_ones():
    layout = pairs_layout()
    wanted, rows = scrambled(layout)
    pool = np.concatenate([scrambled(layout)[1] for _ in range(3)])
    targets = Targets(wanted, np.ones(layout.cells), np.ones(layout.cells), np.zeros(layout.cells))
    sampler = RowSampler(layout, targets, rows, rng=generator("sweep"), integral=np.zeros(layout.cells))
    before = np.abs(layout.count(pool) / 3 - wanted).sum()
    alone = FittedRows(rows.copy(), pool.copy())
    finish.repair(sampler, alone, answers=False, rng=generator("alone"))
    assert np.array_equal(alone.all_sweeps, pool)
    both = FittedRows(rows.copy(), pool.copy())
    finish.repair(sampler, both, answers=True, rng=generator("both"))
    assert np.abs(layout.count(both.rows) - wanted).sum() < 0.5 * before
    assert np.abs(layout.count(both.all_sweeps) / 3 - wanted).sum() < 0.5 * before


FEW = np.array([0, 3])
"""A table of so few cells that its distance from the rows cannot be distinguished from noise."""


def test_rows_count_less_in_tables_that_they_did_not_reach():
    """One table of two: rows that miss it by three deviations stay there with a ninth of that distance."""
    measured, deviation, nothing = np.full(12, 1_000.0), 50.0, np.zeros(12)
    average = measured + np.repeat([0.9, 3.0], 6) * deviation * np.tile([1, -1], 6)
    counts = blend(average, measured, deviation, nothing, np.array([0, 6, 12]))
    assert np.abs(counts[:6] - average[:6]).max() < 1  # by the rows' own sampling error alone
    assert np.abs(counts[6:] - measured[6:]) == pytest.approx(np.full(6, 3 * deviation / 9), abs=1)
    alone = blend(average[6:], measured[6:], deviation, nothing[6:], np.array([0, 3, 6]))
    assert np.abs(alone - measured[6:]) == pytest.approx(np.full(6, 2.5 * deviation), abs=2)


def test_counts_follow_a_measurement_that_is_better_known_than_rows_can_be():
    average, measured = np.array([10_000.0, 10_000.0, 3.0]), np.array([10_100.0, 10_100.0, -1.0])
    unknown = np.zeros(3)
    assert blend(average, measured, 100.0, unknown, FEW) == pytest.approx([10_002, 10_002, 2.998], rel=1e-3)
    assert blend(average, measured, 1.0, unknown, FEW) == pytest.approx([10_100, 10_100, 1.42], abs=0.1)


def test_counts_that_other_tables_cannot_help_are_answered_as_measured():
    """Rows of a table that is known to a few counts had a larger error of sampling than the noise."""
    average, measured = np.array([1_000.0, 1_000.0, 30.0]), np.array([1_008.0, 1_008.0, 38.0])
    counts = blend(average, measured, 10.0, np.array([1e6, 1e3, 0.0]), FEW)
    assert counts[0] == pytest.approx(1_008, abs=0.2)
    assert counts[1] == pytest.approx(1_001.3, abs=0.2)  # by the rows' own sampling error alone
    assert counts[2] == pytest.approx(30, abs=0.2)


def test_answers_of_the_dense_regime_are_nearer_than_what_was_measured():
    """They were not: cells that stand out of the noise were answered as measured, with all of it."""
    rng = generator("dense")
    domain = Domain(tuple(Attribute(f"x{i}", Kind.CATEGORICAL, codes=3) for i in range(9)))
    columns = rng.integers(0, 3, (9, 9000))
    columns[1] = np.where(rng.random(9000) < 0.6, columns[0], columns[1])
    histogram = np.zeros(domain.shape, dtype=np.int64)
    np.add.at(histogram, tuple(columns), 1)
    queries, price = mq.marginals(domain, k=2), Fraction(1, 50)
    task = Task(queries, Relation.ADD_REMOVE, Unit.RHO, price, 0.05)
    curator = FakeCurator(histogram, domain, relation=task.relation, unit=task.unit, price=price, seed=1)
    made = SCULPT.prepare(task).run(curator, rng=generator("rows"), progress=lambda *_: None)
    n = made.size.divisor
    measured = np.concatenate([made.model.table(margin).ravel() for margin in queries.margins]) / n
    truth = queries.on_histogram(histogram) / 9000
    errors = [np.abs(values - truth) for values in (made.answers.fractions, measured)]
    assert errors[0].mean() < 0.95 * errors[1].mean()
    # and the stated error covers how far they were moved
    assert errors[0].max() <= made.guarantee.alpha
