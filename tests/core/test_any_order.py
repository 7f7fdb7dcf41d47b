"""The largest error over combinations of values is that of brute force, and one record moves it by at most 1."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator
from dataclasses import replace
from types import FunctionType
from typing import Any

import numpy as np
import pytest

from maquette.core import any_order
from maquette.core.any_order import Axis, Family, Statistic, largest_errors
from maquette.errors import ParameterError

ALL = [Statistic(family, order) for family in Family for order in (1, 2, 3, 4)]


def universe(rng: np.random.Generator, most: int = 4) -> list[Axis]:
    """One to four columns, ordered or not, with or without a null and another value."""
    axes: list[Axis] = []
    for _ in range(rng.integers(1, most + 1)):
        declared = int(rng.integers(1, most + 1))
        axes.append(Axis(declared + int(rng.integers(0, 3)), declared, bool(rng.integers(2))))
    return axes


def codes(rng: np.random.Generator, axes: list[Axis], n: int) -> any_order.Codes:
    """Records that lean to some of the values, so that cells are uneven."""
    columns = [np.minimum(rng.integers(axis.size, size=n), rng.integers(axis.size, size=n)) for axis in axes]
    return np.stack(columns, axis=1).astype(np.uint16)


def free_sets(axis: Axis, family: Family) -> Iterator[tuple[int, ...]]:
    """What one column may have, by the words of the family."""
    values = range(axis.size)
    yield from ((v,) for v in values)
    if family is Family.RANGE and axis.ordered:
        yield from (tuple(range(a, b)) for a in range(axis.declared) for b in range(a + 1, axis.declared + 1))
    if family is Family.LIST:
        yield from itertools.chain(*(itertools.combinations(values, k) for k in range(axis.size + 1)))


def sets(axes: list[Axis], statistic: Statistic) -> Iterator[dict[int, tuple[int, ...]]]:
    """Every set of a family: the values that each restricted column may have."""
    for k in range(1, min(statistic.order, len(axes)) + 1):
        for columns in itertools.combinations(range(len(axes)), k):
            for free in columns:
                fixed = [c for c in columns if c != free]
                for values in itertools.product(*(range(axes[c].size) for c in fixed)):
                    for chosen in free_sets(axes[free], statistic.family):
                        yield {free: chosen} | {c: (v,) for c, v in zip(fixed, values, strict=True)}


def inside(records: any_order.Codes, chosen: dict[int, tuple[int, ...]]) -> int:
    return int(np.all([np.isin(records[:, c], values) for c, values in chosen.items()], axis=0).sum())


def brute(axes: list[Axis], records: Any, rows: Any, statistic: Statistic) -> int:
    n, m = len(records), len(rows)
    gap = max(abs(inside(records, s) * m - inside(rows, s) * n) for s in sets(axes, statistic))
    return max(statistic.floor, -(-gap // m))


@pytest.mark.parametrize("seed", range(200))
def test_the_search_equals_brute_force(seed):
    rng = np.random.default_rng(seed)
    axes = universe(rng)
    records, rows = codes(rng, axes, int(rng.integers(0, 40))), codes(rng, axes, int(rng.integers(1, 30)))
    places = sorted(rng.choice(len(ALL), size=3, replace=False))
    asked = [replace(ALL[i], floor=int(rng.integers(0, 4))) for i in places]
    found = largest_errors(axes, records, rows, asked)
    assert found == [brute(axes, records, rows, one) for one in asked]


@pytest.mark.parametrize("seed", range(20))
def test_records_with_their_number_count_as_often(seed):
    rng = np.random.default_rng(4000 + seed)
    axes = universe(rng)
    records, rows = codes(rng, axes, 20), codes(rng, axes, 30)
    times = rng.integers(0, 5, size=20)
    listed = largest_errors(axes, np.repeat(records, times, axis=0), rows, ALL)
    assert largest_errors(axes, records, rows, ALL, times=times) == listed


@pytest.mark.parametrize("seed", range(300))
def test_every_family_alone_and_together_finds_the_same(seed):
    """Each family prunes by its own largest gap; together by the smallest. No order is beyond all columns."""
    rng = np.random.default_rng(1000 + seed)
    axes = universe(rng)
    records, rows = codes(rng, axes, int(rng.integers(0, 200))), codes(rng, axes, int(rng.integers(1, 90)))
    together = largest_errors(axes, records, rows, ALL)
    assert [largest_errors(axes, records, rows, [one])[0] for one in ALL] == together
    by_family = [together[4 * f : 4 * f + 4] for f in range(3)]
    assert all(narrow <= wide for row in by_family for narrow, wide in itertools.pairwise(row))
    assert all(
        narrow <= wide for a, b in itertools.pairwise(by_family) for narrow, wide in zip(a, b, strict=True)
    )
    beyond = largest_errors(axes, records, rows, [Statistic(Family.LIST, 50)])
    assert beyond == [max(by_family[2])]


@pytest.mark.parametrize("seed", range(40))
def test_one_record_moves_every_statistic_by_at_most_one(seed):
    rng = np.random.default_rng(2000 + seed)
    axes = universe(rng)
    records, rows = codes(rng, axes, int(rng.integers(1, 30))), codes(rng, axes, int(rng.integers(1, 30)))
    floored = [replace(one, floor=seed % 3) for one in ALL]
    before = np.array(largest_errors(axes, records, rows, floored))
    for _ in range(6):
        more = np.concatenate([records, codes(rng, axes, 1)])
        other = records.copy()
        other[rng.integers(len(records))] = codes(rng, axes, 1)[0]
        for neighbour in (more, records[1:], other):
            after = np.array(largest_errors(axes, neighbour, rows, floored))
            assert np.abs(after - before).max() <= 1


def test_only_the_multiset_of_records_matters():
    rng = np.random.default_rng(5)
    axes = [Axis(5, 4, True), Axis(3, 3, False), Axis(4, 3, True)]
    records, rows = codes(rng, axes, 300), codes(rng, axes, 200)
    floored = [replace(one, floor=2) for one in ALL]
    expected = largest_errors(axes, records, rows, floored)
    assert largest_errors(axes, rng.permutation(records), rng.permutation(rows), floored) == expected


def test_columns_of_more_than_64_bits_are_told_apart():
    """Seven columns of 4,096 values have 2^84 records: equal ones are folded, others are not."""
    axes = [Axis(any_order.MAX_VALUES, any_order.MAX_VALUES, True)] * 7
    rng = np.random.default_rng(3)
    records = rng.integers(any_order.MAX_VALUES, size=(50, 7)).astype(np.uint16)
    twice = np.concatenate([records, records, records[:1]])
    folded = any_order.Folded.of(axes, twice, records[:20])
    assert len(folded.codes) == 50
    assert sorted(folded.records.tolist()) == [2] * 49 + [3]
    assert folded.rows.sum() == 20
    assert {tuple(r) for r in folded.codes.tolist()} == {tuple(r) for r in records.tolist()}


def test_an_empty_table_has_an_error_of_nothing():
    axes = [Axis(3, 3, True), Axis(2, 2, False)]
    rows = codes(np.random.default_rng(1), axes, 9)
    assert largest_errors(axes, rows[:0], rows, ALL) == [0] * len(ALL)


@pytest.mark.parametrize("sizes", [[], [2] * (any_order.MAX_COLUMNS + 1), [any_order.MAX_VALUES + 1]])
def test_columns_that_the_search_is_not_made_for_are_refused(sizes):
    with pytest.raises(ParameterError, match="columns of at most"):
        any_order.check_axes([Axis(size, size, False) for size in sizes])


def near_constant(bits: int, n: int, seed: int) -> any_order.Codes:
    return (np.random.default_rng(seed).random((n, bits)) < 0.02).astype(np.uint16)


def test_the_order_is_bounded_where_cells_are_too_many():
    """37 bits, nearly all of them 0: every combination of zeros is frequent, 2^37 cells."""
    axes = [Axis(2, 2, False)] * 37
    rows = near_constant(37, 2000, 1)
    order = any_order.affordable_order(axes, rows, records=2000, floor=40, memory=4000, work=2**28)
    assert 2 <= order < 10
    few = [Axis(4, 4, True)] * 6
    spread = codes(np.random.default_rng(2), few, 2000)
    assert any_order.affordable_order(few, spread, records=2000, floor=40, memory=4000) == 6
    memory = any_order.megabytes(6, 4000, 2)
    assert any_order.affordable_order(few, spread, records=2000, floor=40, memory=memory) == 2
    assert any_order.affordable_order(few, spread, records=2000, floor=40, memory=0) == 0


# Planted faults: the search with one line of it changed must be told from brute force.

FAULTS = {
    "prunes by the records alone": (
        "support = of_records if of_records > of_rows else of_rows\n            is_divided",
        "support = of_records\n            is_divided",
    ),
    "forgets the last value, the null": (
        "for i in range(first, last):",
        "for i in range(first, last - (1 if last > first + 1 else 0)):",
    ),
    "lets ranges reach into nulls": ("if i - first < declared:", "if declared > 0:"),
    "stops by the work done": (
        "while level >= 0 and work < limit:",
        "while level >= 0 and work < 60:",
    ),
    "tries no free column before the others": ("takes_free = True", "takes_free = False"),
    "divides one column too far": ("if frame[_FIXED] < depth:", "if frame[_FIXED] <= depth:"),
    "forgets what a leading value leaves out": (
        "if peaks[1, level, f] <= best[f] - frame[_LOST] - frame[_LOSES]:",
        "if peaks[1, level, f] <= best[f]:",
    ),
    "looks at a leading value as at any other": (
        "lost = frame[_LOST] + (frame[_LOSES] if leads_here else zero)",
        "lost = frame[_LOST]",
    ),
    "counts a leading value as a column": (
        "frame[_LEFT] - (zero if leads_here else 1)",
        "frame[_LEFT] - 1",
    ),
}


def faulty(real: str, wrong: str) -> FunctionType:
    """The search with one line of it, or of what it calls, changed; not compiled."""
    source = inspect.getsource(any_order)
    body = source[source.index("@numba.njit") :]
    assert body.count(real) == 1
    lines = [line for line in body.replace(real, wrong).splitlines() if not line.startswith("@numba")]
    names = dict(vars(any_order))
    exec(compile("\n".join(lines), "faulty", "exec"), names)
    search = names["_search"]
    assert isinstance(search, FunctionType)
    return search


def is_told(seed: int) -> bool:
    """Does the search differ from brute force on a small universe?"""
    rng = np.random.default_rng(3000 + seed)
    axes = universe(rng, most=3)
    records, rows = codes(rng, axes, int(rng.integers(0, 20))), codes(rng, axes, int(rng.integers(1, 20)))
    asked = [ALL[i] for i in sorted(rng.choice(len(ALL), size=2, replace=False))]
    return largest_errors(axes, records, rows, asked) != [brute(axes, records, rows, one) for one in asked]


def leaning(seed: int) -> tuple[list[Axis], any_order.Codes, any_order.Codes]:
    """Four to seven columns of which most records have the same value, so that values lead."""
    rng = np.random.default_rng(seed)
    d, size = int(rng.integers(4, 8)), int(rng.integers(2, 4))
    shares = rng.random((2, d)) * 0.25
    both = [
        np.where(rng.random((k, d)) < share, rng.integers(1, size, size=(k, d)), 0).astype(np.uint16)
        for k, share in zip(rng.integers(20, 80, size=2), shares, strict=True)
    ]
    return [Axis(size, size, True)] * d, both[0], both[1]


THREE = [Statistic(family, 3) for family in Family]


@pytest.mark.parametrize("seed", range(12))
def test_leading_values_leave_nothing_out(seed, monkeypatch):
    axes, records, rows = leaning(seed)
    expected = [brute(axes, records, rows, one) for one in THREE]
    for loses in (1, 2, 10**6):
        monkeypatch.setattr(any_order, "LOSES", loses)
        monkeypatch.setattr(any_order, "_search", faulty("work, level, is_new", "work, level, is_new"))
        assert largest_errors(axes, records, rows, THREE) == expected


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_search_would_be_noticed(fault, monkeypatch):
    real, wrong = any_order._search, faulty(*FAULTS[fault])
    monkeypatch.setattr(any_order, "_search", wrong)
    if any(is_told(seed) for seed in range(200)):
        return
    for seed in range(150):  # where values lead, beside the compiled search
        case = (*leaning(seed), THREE)
        monkeypatch.setattr(any_order, "_search", real)
        monkeypatch.setattr(any_order, "LOSES", 2)
        expected = largest_errors(*case)
        monkeypatch.setattr(any_order, "_search", wrong)
        monkeypatch.setattr(any_order, "LOSES", 1)
        if largest_errors(*case) != expected:
            return
    pytest.fail("the fault was not noticed")
