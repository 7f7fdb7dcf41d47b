"""The last touch of `sculpt`: less sampling error than any single sweep has, in as many rows as before."""

import itertools
from fractions import Fraction

import numpy as np

import maquette as mq
from maquette.core.measurement import NoisyTable, Receipt, Size
from maquette.domain import Attribute, Domain, Kind
from maquette.models.answers import generator
from maquette.sculpt.bins import Hierarchy, Shape
from maquette.sculpt.finish import AVERAGED_SWEEPS, average_sweeps
from maquette.sculpt.measurements import Measurements, TableMeasurement
from maquette.sculpt.rows import begin, sweep
from maquette.sculpt.targets import Layout

SIZES = (12, 9, 7, 5)
DOMAIN = Domain(tuple(Attribute(f"x{i}", Kind.ORDINAL, codes=size) for i, size in enumerate(SIZES)))
PAIRS = list(itertools.combinations(range(4), 2))


def coarse_sampler(count=3000):
    """Rows carved to exact pair tables in few bins: inside the bins only the one-way tables are known."""
    rng = generator("polish")
    first = rng.integers(0, 12, count)
    codes = [(first * (i + 1) + rng.integers(0, size, count)) % size for i, size in enumerate(SIZES)]
    rows = np.stack(codes, axis=1).astype(np.uint16)
    singles = [np.bincount(rows[:, a], minlength=size).astype(float) for a, size in enumerate(SIZES)]
    hierarchy = Hierarchy.from_counts(DOMAIN, singles)
    found = Measurements(Size(count, None, None), hierarchy, float(count), singles, [1.0] * 4, [])
    shapes = [Shape(pair, hierarchy.finest_levels(pair, 9)) for pair in PAIRS]
    counts = Layout.of(hierarchy, shapes)
    exact = counts.count(rows)
    for i, shape in enumerate(shapes):
        table = NoisyTable(
            hierarchy.table(*shape),
            exact[counts.place(i)].astype(np.int64),
            Fraction(1),
            Receipt(-1, ""),
        )
        found.tables.append(TableMeasurement(shape, table, found.product(shape)))
    sampler = begin(found, m=count, rng=generator("carve"))
    sweep(sampler, min_gains=(0.0, 0.05), more=0, progress=lambda share: None)
    return sampler


def fine_counts(sampler, rows):
    shapes = [Shape(pair, (0, 0)) for pair in PAIRS]
    return Layout.of(sampler.layout.hierarchy, shapes).count(rows) / len(rows)


def test_polished_rows_lie_closer_to_the_average_than_a_sweep_does():
    sampler = coarse_sampler()
    # the expectation, from many sweeps of a copy
    other = coarse_sampler()
    expectation = np.mean(
        [(other.sweep(min_gain=0.05), fine_counts(other, other.rows))[1] for _ in range(40)], axis=0
    )
    swept = np.abs(fine_counts(other, other.rows) - expectation).sum()
    told = []
    made = average_sweeps(sampler, PAIRS, min_gain=0.05, rng=generator("last"), progress=told.append)
    assert made.rows.shape == (3000, 4)
    assert made.all_sweeps.shape == (3000 * (AVERAGED_SWEEPS + 1), 4)
    assert np.abs(fine_counts(sampler, made.rows) - expectation).sum() < 0.8 * swept
    assert np.abs(fine_counts(sampler, made.all_sweeps) - expectation).sum() < 0.8 * swept
    assert told == sorted(told)
    assert told[-1] == 1.0


def test_without_pairs_rows_are_left_as_swept():
    sampler = coarse_sampler()
    made = average_sweeps(sampler, [], min_gain=0.05, rng=generator("last"), progress=lambda share: None)
    assert made.rows is sampler.rows
    assert made.all_sweeps is sampler.rows


def test_a_size_that_was_asked_for_answers_for_itself():
    rng = generator("table")
    columns = {f"x{i}": rng.integers(0, size, 4000) for i, size in enumerate(SIZES)}
    columns["x1"] = columns["x0"] % 9
    queries = mq.marginals(DOMAIN, k=2)
    asked = mq.release(
        mq.open(columns, domain=DOMAIN),
        queries,
        epsilon=1.0,
        delta=1e-9,
        mechanism="sculpt",
        rows=700,
        ledger="memory",
    )
    own = asked.database.answer(queries).fractions
    assert np.array_equal(np.asarray(asked.answers.fractions), own)
    free = mq.release(
        mq.open(columns, domain=DOMAIN), queries, epsilon=1.0, delta=1e-9, mechanism="sculpt", ledger="memory"
    )
    own = free.database.answer(queries).fractions
    assert not np.array_equal(np.asarray(free.answers.fractions), own)
    assert np.abs(np.asarray(free.answers.fractions) - own).max() < 0.02
