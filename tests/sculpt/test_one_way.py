"""One-way tables out of everything measured: least squares on nested bins, and what wider tables keep of their own."""

from fractions import Fraction

import numpy as np
import pytest

import maquette as mq
from maquette.core.budget import Unit
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.mechanisms.base import Task
from maquette.models.answers import generator
from maquette.sculpt import mechanism
from maquette.sculpt.bins import BinSums, bin_index, combine_levels, smooth_one_way
from support.fake_curator import FakeCurator

FINE, MIDDLE, COARSE = tuple(range(7)), (0, 2, 3, 6), (0, 3)
SIZES = (5, 3, 40)
DOMAIN = Domain(tuple(Attribute(f"x{i}", Kind.ORDINAL, codes=size) for i, size in enumerate(SIZES)))


def sums_of(seed=0):
    """Measurements of one attribute of seven codes: two tables in the middle, one coarse, one fine."""
    rng = generator(f"sums {seed}")
    return [
        BinSums(cut, 50 * rng.random(len(cut)), 1 + 9 * rng.random(len(cut)))
        for cut in (MIDDLE, COARSE, MIDDLE, FINE)
    ]


def by_algebra(counts, variance, sums, total):
    """The same least squares by one system of equations, the total as a condition; and the covariance."""
    rows, values, variances = [np.eye(7)], [counts], [np.full(7, variance)]
    for cut, measured, noise in sums:
        rows.append((bin_index(FINE, cut) == np.arange(len(cut))[:, None]).astype(float))
        values.append(measured)
        variances.append(noise)
    design, weights = np.concatenate(rows), 1 / np.concatenate(variances)
    inverse = np.linalg.inv((design.T * weights) @ design)
    free = inverse @ (design.T * weights) @ np.concatenate(values)
    lift = inverse.sum(axis=1) / inverse.sum()
    return free + lift * (total - free.sum()), np.diag(inverse - np.outer(lift, lift) * inverse.sum())


@pytest.mark.parametrize("tables", [[], [0], [1, 0], [0, 1, 2, 3]])
def test_a_pass_up_and_down_is_the_least_squares_solution(tables):
    counts = 20 * generator("codes").random(7)
    sums = [sums_of()[i] for i in tables]
    found, variances = combine_levels(counts, 4.0, sums, total=180.0)
    expected, exact = by_algebra(counts, 4.0, sums, 180.0)
    assert found == pytest.approx(expected)
    assert variances == pytest.approx(exact)
    assert found.sum() == pytest.approx(180.0)


def test_each_measurement_makes_all_codes_better_known():
    counts = np.zeros(7)
    before = np.full(7, np.inf)
    for used in range(5):
        _, now = combine_levels(counts, 4.0, sums_of()[:used], total=0.0)
        assert (now < before).all()
        before = now


def measured(monkeypatch, queries=None):
    """What a run of sculpt knows in the end, and the truth."""
    rng = generator("reconciled")
    first = rng.integers(0, 5, 4000)
    columns = [first, np.where(rng.random(4000) < 0.6, first % 3, rng.integers(0, 3, 4000))]
    last = columns[0] * 6 + rng.integers(0, 16, 4000)
    histogram = np.zeros(SIZES, dtype=np.int64)
    np.add.at(histogram, (*columns, last), 1)
    kept = []
    plain = mechanism._parameters
    monkeypatch.setattr(mechanism, "_parameters", lambda m, *more: kept.append(m) or plain(m, *more))
    price = Fraction(1, 200)
    curator = FakeCurator(histogram, DOMAIN, relation=Relation.ADD_REMOVE, unit=Unit.RHO, price=price, seed=3)
    queries = queries or mq.marginals(DOMAIN, k=2)
    task = Task(queries, Relation.ADD_REMOVE, Unit.RHO, price, 0.05, rows=500)
    mechanism.SCULPT.prepare(task).run(curator, rng=generator("rows"), progress=lambda *_: None)
    return kept[-1], histogram


def margins_of(measurements, estimate):
    sizes = [measurements.hierarchy.bins(a, level) for a, level in zip(*estimate.shape, strict=True)]
    for axis, (a, level) in enumerate(zip(*estimate.shape, strict=True)):
        yield a, level, estimate.margin((axis,), sizes).counts


def test_wider_tables_have_the_one_way_tables_as_margins(monkeypatch):
    known, _ = measured(monkeypatch)
    assert len(known.estimates()) > 1
    for estimate in known.estimates().values():
        for a, level, counts in margins_of(known, estimate):
            assert counts == pytest.approx(known.hierarchy.sum_in_bins(a, level, known.margins[a]))


def test_what_was_measured_stays_and_the_estimate_does_not_feed_on_itself(monkeypatch):
    known, _ = measured(monkeypatch)
    noisy = [table.noisy.values.copy() for table in known.tables]
    before = [counts.copy() for counts in known.margins]
    known.reconcile()
    known.reconcile()
    assert all(
        np.array_equal(table.noisy.values, values) for table, values in zip(known.tables, noisy, strict=True)
    )
    assert all(now == pytest.approx(then) for now, then in zip(known.margins, before, strict=True))


def test_an_interaction_has_less_noise_than_its_table(monkeypatch):
    known, _ = measured(monkeypatch)
    reconciled = known.estimates()
    for shape, estimate in known._combined().items():
        down, across = (known.hierarchy.bins(a, level) for a, level in zip(*shape, strict=True))
        own = (1 - 1 / down) * (1 - 1 / across)
        assert reconciled[shape].variances == pytest.approx(own * estimate.variances)


def test_wider_tables_help_the_one_way_tables(monkeypatch):
    known, histogram = measured(monkeypatch)
    truth = [histogram.sum(axis=tuple(set(range(3)) - {a})) for a in range(3)]
    first = {table.binned.margin[0]: table.values for table in known.one_way_tables}
    alone = sum(((first[f"x{a}"] - truth[a]) ** 2).sum() for a in range(3))
    together = sum(((known.margins[a] - truth[a]) ** 2).sum() for a in range(3))
    assert together < 0.8 * alone


def test_an_attribute_in_a_tree_keeps_its_own_tables(monkeypatch):
    known, _ = measured(monkeypatch, mq.union(mq.marginals(DOMAIN, k=2), mq.prefixes(DOMAIN, "x2")))
    assert len([table for table in known.one_way_tables if table.binned.margin == ("x2",)]) > 1
    before = known.one_way[2].copy()
    known.reconcile()
    assert np.array_equal(known.margins[2], before)
    plain, _ = measured(monkeypatch)
    assert not np.array_equal(plain.margins[2], plain.one_way[2])


def test_an_attribute_of_one_code_has_no_noise_to_divide_by():
    domain = Domain(tuple(Attribute(f"x{i}", Kind.ORDINAL, codes=size) for i, size in enumerate((1, 3, 2))))
    columns = {"x0": np.zeros(300, int), "x1": np.arange(300) % 3, "x2": np.arange(300) % 2}
    table = mq.open(columns, domain=domain)
    made = mq.release(
        table, mq.marginals(domain, k=2), epsilon=0.3, delta=1e-6, mechanism="sculpt", ledger="memory"
    )
    assert set(made.database.columns) == {"x0", "x1", "x2"}


def errors_of(truth, *, deviation, runs=20):
    """Mean L1 errors of the smoothed and of the noisy counts."""
    rng, smooth, raw = generator("smoothed"), 0.0, 0.0
    for _ in range(runs):
        noisy = truth + rng.normal(0, deviation, len(truth))
        smooth += np.abs(smooth_one_way(noisy, deviation=deviation, total=truth.sum()) - truth).sum() / runs
        raw += np.abs(noisy - truth).sum() / runs
    return smooth, raw


def test_a_smooth_table_loses_most_of_its_noise_and_a_spike_stays():
    codes = np.arange(60.0)
    curve = 3_000 * np.exp(-0.5 * ((codes - 20) / 8) ** 2)
    smooth, raw = errors_of(curve, deviation=100, runs=8)
    assert smooth < 0.54 * raw  # without the process 0.75
    curve[45] += 9_000
    noisy = curve + generator("spike").normal(0, 100, 60)
    assert abs(smooth_one_way(noisy, deviation=100, total=curve.sum())[45] - curve[45]) < 400


def test_small_tables_are_shrunk_where_noise_drowns_them_and_left_alone_where_not():
    even = np.full(8, 500.0)
    smooth, raw = errors_of(even, deviation=300)
    assert smooth < 0.6 * raw
    skewed = np.array([60_000, 30_000, 10_000, 5_000.0, 900])
    smooth, raw = errors_of(skewed, deviation=100)
    assert smooth < 1.05 * raw
    pair = np.array([700.0, 310.0])
    assert smooth_one_way(pair, deviation=1e4, total=1010.0) == pytest.approx(pair)
