"""More rows than records where whole rows are too coarse: when, how many, and that they fit."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import maquette as mq
from maquette.core.measurement import Size
from maquette.domain import Attribute, Domain, Kind
from maquette.models.answers import generator
from maquette.sculpt.allocation import AttributeSets
from maquette.sculpt.bins import Hierarchy, Shape
from maquette.sculpt.finish import MAX_GROWTH, growth
from maquette.sculpt.measurements import Measurements, TableMeasurement
from maquette.sculpt.rows import begin


def measured(sizes, *, n):
    """One-way tables with a few heavy codes, and no others."""
    domain = Domain(tuple(Attribute(f"x{i}", Kind.ORDINAL, codes=size) for i, size in enumerate(sizes)))
    singles = [n * (w := 1 / np.arange(1, size + 1)) / w.sum() for size in sizes]
    return Measurements(
        size=Size(n, None, None),
        hierarchy=Hierarchy.from_counts(domain, singles),
        total=float(n),
        one_way=singles,
        one_way_variances=[1.0] * len(sizes),
        one_way_tables=[],
    )


def sets_of(count, *, order):
    pairs = dict.fromkeys(itertools.combinations(range(count), 2), 1.0)
    triples = dict.fromkeys(itertools.combinations(range(count), 3), 1.0) if order == 3 else {}
    return AttributeSets(tuple(range(count)), frozenset(), pairs, triples)


def rounding(found, m):
    """The error by the number of rows, cell by cell."""
    errors = []
    for a, b in itertools.combinations(range(len(found.one_way)), 2):
        rows = np.outer(found.one_way[a], found.one_way[b]) / found.total**2 * m
        errors.append(np.minimum(2 * rows, 1 / 3).sum() / m)
    return np.mean(errors)


def sampling(found, m):
    errors = []
    for triple in itertools.combinations([one / found.total for one in found.one_way], 3):
        errors.append(np.sqrt(2 / np.pi * np.einsum("i,j,k->ijk", *triple) / m).sum())
    return np.mean(errors)


@pytest.mark.parametrize(("order", "error"), [(2, rounding), (3, sampling)])
def test_rows_grow_where_their_number_is_seen_beside_the_expected_error(order, error):
    found, sets = measured((30, 20, 7, 2), n=2000), sets_of(4, order=order)
    border = error(found, 2000) / 0.1
    rule = {"m": 2000, "max_rows": 250_000}
    assert growth(found, sets, expected=0.99 * border, **rule) == MAX_GROWTH
    assert growth(found, sets, expected=1.01 * border, **rule) == 1


@pytest.mark.parametrize(("max_rows", "times"), [(8_000, 4), (7_999, 3), (4_000, 2), (3_999, 1), (100, 1)])
def test_rows_grow_within_their_limit(max_rows, times):
    found = measured((30, 20, 7, 2), n=2000)
    assert growth(found, sets_of(4, order=3), m=2000, max_rows=max_rows, expected=0.01) == times


def test_rows_grow_to_the_number_of_records_where_a_sweep_of_them_is_short():
    """Beyond the limit: each would stand for several records."""
    found, sets = measured((30, 20, 7, 2), n=8_000), sets_of(4, order=3)
    assert growth(found, sets, m=2_000, max_rows=2_000, expected=0.001) == 4
    assert growth(replace(found, total=7_999.0), sets, m=2_000, max_rows=2_000, expected=0.001) == 3
    assert growth(found, sets, m=1_000, max_rows=1_000, expected=0.001) == MAX_GROWTH
    table = TableMeasurement(Shape((0, 1), (0, 0)), None, None)
    many = replace(found, tables=[table] * 40_000)
    assert growth(many, sets, m=2_000, max_rows=2_000, expected=0.001) == 1


def test_rows_stay_where_nothing_is_expected_or_asked():
    found = measured((30, 20), n=100)
    assert growth(found, sets_of(2, order=2), m=100, max_rows=1000, expected=None) == 1
    alone = AttributeSets((0,), frozenset(), {}, {})
    assert growth(found, alone, m=100, max_rows=1000, expected=1e-9) == 1


def test_grown_rows_are_the_same_rows_with_targets_in_proportion():
    sampler = begin(measured((6, 5, 2), n=500), m=500, rng=generator("begin"))
    before = sampler.rows.copy()
    grown = sampler.grown(3)
    assert np.array_equal(grown.rows, np.tile(before, (3, 1)))
    assert np.array_equal(grown.counts, 3 * sampler.counts)
    assert np.array_equal(grown.targets.counts, 3 * sampler.targets.counts)
    assert np.array_equal(grown.targets.deviations, 3 * sampler.targets.deviations)
    grown.sweep(min_gain=0.1)
    assert np.array_equal(sampler.rows, before)  # they share no memory
    assert np.abs(grown.counts - grown.targets.counts).sum() < 0.1 * grown.targets.counts.sum()


def table(n):
    rng = generator("table")
    first = rng.integers(0, 20, n)
    columns = {"a": first, "b": (first + rng.integers(0, 4, n)) % 15, "c": rng.integers(0, 6, n)}
    domain = Domain(tuple(Attribute(name, Kind.ORDINAL, codes=20) for name in columns))
    return mq.open(columns, domain=domain), mq.marginals(domain, k=3)


@pytest.mark.slow
def test_a_release_has_more_rows_than_records_unless_a_number_is_asked_for():
    opened, queries = table(1500)
    options = {"epsilon": 1.0, "delta": 1e-9, "mechanism": "sculpt", "ledger": "memory"}
    release = mq.release(opened, queries, **options)
    assert release.database.m % MAX_GROWTH == 0
    assert 2.5 * 1500 < release.database.m < 6 * 1500  # the number of records has noise
    own = release.database.answer(queries).fractions
    assert np.array_equal(np.asarray(release.answers.fractions), own)
    replicate = release.replicates(2).databases[0]
    assert replicate.m == release.database.m
    opened, queries = table(1500)
    assert mq.release(opened, queries, rows=1500, **options).database.m == 1500
