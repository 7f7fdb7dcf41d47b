"""The largest error of group means is that of brute force, and one record moves it by at most 1."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from maquette.core import group_means
from maquette.core.any_order import Axis
from maquette.core.group_means import GroupMeans, affordable_order, largest_error
from maquette.errors import ParameterError


def universe(rng, most=3):
    """One to four columns, with numbers or without, with or without a null and another value."""
    axes, numbers = [], []
    for _ in range(rng.integers(1, most + 2)):
        declared = int(rng.integers(1, most + 1))
        axes.append(Axis(declared + int(rng.integers(0, 3)), declared, bool(rng.integers(2))))
        given = rng.integers(0, 6, declared)
        numbers.append(tuple(int(v) for v in given) if given.max() and rng.integers(3) else ())
    if not any(numbers):
        numbers[0] = tuple(range(1, axes[0].declared + 1))
    return axes, tuple(numbers)


def codes(rng, axes, n):
    columns = [np.minimum(*rng.integers(axis.size, size=(2, n))) for axis in axes]
    return np.stack(columns, axis=1).astype(np.uint16)


def error(records, rows, column, numbers):
    """Of one group, in fractions; the mean of its rows is rounded down to the grid."""
    of_records, of_rows = (
        [numbers[v] for v in some[:, column].tolist() if v < len(numbers)] for some in (records, rows)
    )
    top = max(numbers)
    mean = Fraction(sum(of_rows) * 2**16 // len(of_rows), 2**16) if of_rows else Fraction(top, 2)
    return -(-abs(sum(of_records) - mean * len(of_records)) / top // 1)


def brute(axes, records, rows, statistic):
    worst = statistic.floor
    for column, numbers in enumerate(statistic.numbers):
        others = [c for c in range(len(axes)) if c != column]
        for k in range(min(statistic.order, len(axes))) if numbers else ():
            for chosen in itertools.combinations(others, k):
                for values in itertools.product(*(range(axes[c].size) for c in chosen)):
                    groups = [
                        some[np.all([some[:, c] == v for c, v in zip(chosen, values, strict=True)], axis=0)]
                        if chosen
                        else some
                        for some in (records, rows)
                    ]
                    worst = max(worst, error(*groups, column, numbers))
    return worst


@pytest.mark.parametrize("seed", range(120))
def test_the_search_equals_brute_force(seed):
    rng = np.random.default_rng(seed)
    axes, numbers = universe(rng)
    records, rows = codes(rng, axes, int(rng.integers(0, 30))), codes(rng, axes, int(rng.integers(1, 20)))
    asked = GroupMeans(numbers, int(rng.integers(1, 5)), floor=int(rng.integers(0, 2)))
    asked.check(axes)
    assert largest_error(axes, records, rows, asked) == brute(axes, records, rows, asked)


def farthest(seed, measure=largest_error):
    """How far any one record that comes or is exchanged moves the statistic."""
    rng = np.random.default_rng(seed)
    axes, numbers = universe(rng, most=2)
    records, rows = codes(rng, axes, 5), codes(rng, axes, 4)
    asked = GroupMeans(numbers, len(axes))
    base, moved = measure(axes, records, rows, asked), 0
    for cell in itertools.product(*(range(axis.size) for axis in axes)):
        one = np.array([cell], dtype=np.uint16)
        for neighbour in (np.concatenate([records, one]), np.concatenate([records[1:], one])):
            moved = max(moved, abs(measure(axes, neighbour, rows, asked) - base))
    return moved


def test_one_record_moves_it_by_at_most_one():
    moved = [farthest(seed) for seed in range(25)]
    assert max(moved) == 1


def not_scaled(axes, records, rows, asked):
    """Planted: the sum of the numbers themselves, which a record moves by up to the largest of them."""
    scale = max(max(column, default=0) for column in asked.numbers)
    return scale * largest_error(axes, records, rows, asked)


def by_records_mean(axes, records, rows, asked):
    """Planted: the rows that the means are of are the records themselves, the first of them left out."""
    return 2 * largest_error(axes, records[1:], records, asked) + largest_error(axes, records, rows, asked)


@pytest.mark.parametrize("fault", [not_scaled, by_records_mean])
def test_planted_faults_are_noticed(fault):
    assert max(farthest(seed, fault) for seed in range(8)) > 1


def test_records_with_their_number_count_as_often():
    rng = np.random.default_rng(3)
    axes, numbers = universe(rng)
    records, rows = codes(rng, axes, 12), codes(rng, axes, 9)
    times = rng.integers(1, 5, 12)
    asked = GroupMeans(numbers, 3)
    assert largest_error(axes, records, rows, asked, times=times) == largest_error(
        axes, np.repeat(records, times, axis=0), rows, asked
    )


def test_the_largest_numbers_stay_within_64_bits():
    """2^32 records of one value beside 2^30 - 1 rows of another: whole numbers of Python say the same."""
    top, n, m = group_means.MAX_NUMBER, 2**32, 2**30 - 1
    sums = np.array([(n << 30) + 0, 0 + m], dtype=np.int64)
    found = group_means._error.py_func if hasattr(group_means._error, "py_func") else group_means._error
    result = int(found(sums, np.array([top, 0], dtype=np.int64), np.int64(0), np.int64(2), np.int64(top)))
    assert result == n


@pytest.mark.parametrize(
    "bad",
    [
        GroupMeans((), 2),
        GroupMeans(((), ()), 2),
        GroupMeans(((0, 1), ()), 0),
        GroupMeans(((0, 1, 2), ()), 2),
        GroupMeans(((0, 0), ()), 2),
        GroupMeans(((-1, 1), ()), 2),
        GroupMeans(((0, group_means.MAX_NUMBER + 1), ()), 2),
        GroupMeans(((0, 1.5), ()), 2),
        GroupMeans([(0, 1), ()], 2),
        GroupMeans(((0, 1), ()), 2, floor=-1),
    ],
)
def test_others_are_refused(bad):
    with pytest.raises(ParameterError):
        bad.check([Axis(3, 2, True), Axis(2, 2, False)])


def test_as_many_columns_are_searched_as_time_allows(monkeypatch):
    rng = np.random.default_rng(1)
    axes = [Axis(2, 2, True)] * 8
    rows = codes(rng, axes, 3_000)
    numbers = ((0, 1),) * 8
    every = affordable_order(axes, rows, numbers, records=3_000, floor=5)
    monkeypatch.setattr(group_means, "MAX_WORK", 2**17)
    few = affordable_order(axes, rows, numbers, records=3_000, floor=5)
    assert 1 <= few < every == 8
