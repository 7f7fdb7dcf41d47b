"""The largest error over a class against every condition of the class, and its sensitivity over all neighbours."""

import itertools
from dataclasses import replace
from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maquette.core import class_errors
from maquette.core.class_errors import (
    WHOLE,
    ClassQuestion,
    ClassSets,
    Kind,
    ReleasedTables,
    TableSets,
    gaps,
    largest_error,
    largest_gap,
    weigh,
)
from maquette.domain import Relation
from maquette.errors import ParameterError
from maquette.queries.classes import CLASSES, ClassTable, Family, class_sets
from support.class_cases import FAMILY, MIXED, TINY, conditions, largest
from support.privacy_doubles import histograms, neighbours

pytestmark = pytest.mark.law

RELATIVE = class_sets(TINY, ["relative"], [TINY.names])
SMALL = {"anything on two attributes": TINY}
"""Domains small enough for all sets; the others are tried on the one with other values and nulls."""


def margin_of(table, domain, margin):
    axes = tuple(i for i, name in enumerate(domain.names) if name not in margin)
    return table.sum(axis=axes)


def statistic(name, domain, counts, shares, denominator):
    """As the gate computes it: the largest over the tables of the class."""
    found = []
    for table in CLASSES[name].tables(domain, [domain.names]):
        gap = gaps(
            margin_of(counts, domain, table.margin), margin_of(shares, domain, table.margin), denominator
        )
        found.append(largest_error(table.sets(), gap, denominator))
    return max(found)


def random_shares(rng, shape, denominator):
    shares = rng.multinomial(denominator, rng.dirichlet(np.full(int(np.prod(shape)), 0.5)))
    return shares.reshape(shape)


@pytest.mark.parametrize("name", FAMILY)
def test_the_largest_error_is_that_of_the_worst_condition(name):
    domain, rng = SMALL.get(name, MIXED), np.random.default_rng(7)
    if name == "three ranges":
        domain = TINY
    for denominator in (1, 7, 1000):
        counts = rng.poisson(rng.gamma(0.4, 5.0, domain.shape))
        shares = random_shares(rng, domain.shape, denominator)
        exact = np.vectorize(lambda k, d=denominator: Fraction(int(k), d), otypes=[object])(shares)
        worst = largest(name, domain, counts.astype(object), exact)
        assert statistic(name, domain, counts, shares, denominator) == ceil(worst)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("name", FAMILY)
def test_sensitivity_is_one_on_all_neighbours(name, relation):
    """Over every pair of neighbouring tables of up to two records, and several released distributions."""
    rng = np.random.default_rng(3)
    tables = histograms(TINY.size, most=2)
    moved = set()
    for denominator in (1, 2, 5):
        shares = random_shares(rng, TINY.shape, denominator)
        found = {
            t: statistic(name, TINY, np.array(t).reshape(TINY.shape), shares, denominator) for t in tables
        }
        for one, other in neighbours(tables, relation):
            moved.add(abs(found[one] - found[other]))
    assert {1} <= moved <= {0, 1}


@pytest.mark.parametrize("relation", list(Relation))
def test_weights_of_at_most_one_keep_the_sensitivity(relation):
    """Over every pair of neighbouring tables of up to two records: weights on tables, from almost none to all."""
    rng = np.random.default_rng(5)
    tables = histograms(TINY.size, most=2)
    parts = CLASSES["relative"].tables(TINY, [TINY.names])
    moved = set()
    for denominator in (1, 2, 5):
        shares = random_shares(rng, TINY.shape, denominator)
        weights = {table: int(rng.choice([1, WHOLE // 3, WHOLE - 1, WHOLE])) for table in parts}
        found = {}
        for t in tables:
            counts = np.array(t).reshape(TINY.shape)
            found[t] = max(
                weigh(_one(table, counts, shares, denominator), weights[table], whole=WHOLE)
                for table in parts
            )
        moved |= {abs(found[one] - found[other]) for one, other in neighbours(tables, relation)}
    assert {1} <= moved <= {0, 1}


def _one(table, counts, shares, denominator):
    gap = gaps(margin_of(counts, TINY, table.margin), margin_of(shares, TINY, table.margin), denominator)
    return largest_error(table.sets(), gap, denominator)


@given(error=st.integers(0, 2**33), weight=st.integers(1, WHOLE))
def test_a_weighted_error_is_rounded_up(error, weight):
    assert weigh(error, weight, whole=WHOLE) == ceil(Fraction(error * weight, WHOLE))


@pytest.mark.parametrize(
    "weights",
    [
        {"relative": {("a",): WHOLE + 1}},
        {"relative": {("a",): 0}},
        {"relative": {("a",): 0.5}},
        {"relative": {("a",): True}},
        {"relative": [1]},
        {"two ranges": {("a", "b"): 1}},
        [],
    ],
)
def test_other_weights_are_refused(weights):
    tables = {
        margin: np.ones(TINY.cells(margin), dtype=np.int64)
        for length in (1, 2)
        for margin in itertools.combinations(TINY.names, length)
    }
    assert ClassQuestion.of(TINY, RELATIVE, ReleasedTables(tables, 100)).names
    with pytest.raises(ParameterError, match="weight"):
        ClassQuestion.of(TINY, RELATIVE, ReleasedTables(tables, 100, weights))


def test_the_ledger_knows_a_question_by_its_weights_and_one_without_as_before():
    tables = {
        margin: np.ones(TINY.cells(margin), dtype=np.int64)
        for length in (1, 2)
        for margin in itertools.combinations(TINY.names, length)
    }

    def request(weights):
        given = ReleasedTables(tables, 100, {"relative": weights} if weights else {})
        return ClassQuestion.of(TINY, RELATIVE, given).request()

    plain = request({})
    assert set(plain) == {"ask", "classes", "rules", "tables", "denominator"}
    assert request({("a",): WHOLE}) == plain
    one, other = request({("a",): 3}), request({("a",): 4})
    assert one["weights"] != other["weights"]


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_kernels_agree_with_sums_over_every_set(data):
    """Any families on up to three axes, any numbers: against the sets of the walks, one by one."""
    families = []
    for _ in range(data.draw(st.integers(1, 3))):
        kind, cells, extras = data.draw(
            st.tuples(st.sampled_from(list(Kind)), st.integers(1, 4), st.integers(0, 2))
        )
        families.append(Family(kind, cells + extras, 0) if kind is Kind.ANY else Family(kind, cells, extras))
    seed = data.draw(st.integers(0, 2**32))
    gap = np.random.default_rng(seed).integers(-20, 21, [family.size for family in families])
    table = ClassTable(tuple("abc"[: len(families)]), tuple(families))
    listed = gap
    for axis, family in enumerate(families):
        listed = np.moveaxis(np.tensordot(_sets(family), listed, axes=(1, axis)), 0, axis)
    assert largest_gap(table.sets(), gap) == np.abs(listed).max()


def _sets(family):
    rows, inside = [np.zeros(family.size, dtype=np.int64)], np.zeros(family.size, dtype=np.int64)
    for step in family.walk().tolist():
        inside[step if step >= 0 else ~step] ^= 1
        if step >= 0:
            rows.append(inside.copy())
    return np.array(rows)


def test_the_largest_numbers_stay_within_64_bits():
    n, denominator = 2**32, 2**30
    counts = np.zeros((3, 3), dtype=np.int64)
    counts[0, 0] = n
    shares = np.zeros((3, 3), dtype=np.int64)
    shares[2, 2] = denominator
    gap = gaps(counts, shares, denominator)
    assert gap[0, 0] == n * denominator == -gap[2, 2]
    side = Family(Kind.SIDE, 3, 0)
    for table in (ClassTable(("a", "b")), ClassTable(("a", "b"), (side, side))):
        assert largest_error(table.sets(), gap, denominator) == n


def test_shares_above_one_would_break_the_sensitivity():
    """Why they are refused: one record more moves the statistic by 2."""
    shares = np.array([3, 0])
    few, more = gaps(np.array([0, 1]), shares, 1), gaps(np.array([0, 2]), shares, 1)
    apart = largest_error(ClassTable(("a",)).sets(), more, 1) - largest_error(
        ClassTable(("a",)).sets(), few, 1
    )
    assert apart > 1
    released = ReleasedTables({("b",): shares}, 1)
    with pytest.raises(ParameterError, match="at most 1 together"):
        ClassQuestion.of(TINY, class_sets(TINY, ["one attribute"], [("b",)]), released)


WRONG = {
    "the number of records of another table": (
        "gaps",
        lambda counts, released, denominator: denominator * counts - (int(counts.sum()) // 2) * released,
    ),
    "a doubled weight": ("gaps", lambda c, r, d: d * c * 2 - 2 * int(c.sum()) * r),
    "counts without their total": ("gaps", lambda c, r, d: d * c - 3 * r),
}


@pytest.mark.parametrize("bug", WRONG)
def test_a_wrong_statistic_would_be_caught(bug, monkeypatch):
    name, wrong = WRONG[bug]
    monkeypatch.setattr(class_errors, name, wrong)
    monkeypatch.setitem(globals(), name, wrong)
    with pytest.raises(AssertionError):
        test_the_largest_error_is_that_of_the_worst_condition("one attribute")
    with pytest.raises(AssertionError):
        test_the_largest_error_is_that_of_the_worst_condition("two attributes")


def test_a_class_without_the_sum_over_all_values_would_be_caught():
    """A walk that never takes all values of an attribute misses questions about the other one."""
    families = CLASSES["two attributes"].tables(MIXED, [("a", "b")])[0].families
    rng = np.random.default_rng(2)
    gap = rng.integers(0, 9, [f.size for f in families])  # one sign: the sum over everything is the largest
    assert largest_gap(ClassTable(("a", "b"), families).sets(), gap) == gap.sum()


OUTSIDE = {
    "a step beyond the cells": {"walks": (np.array([0, 2]),)},
    "a step before the cells": {"walks": (np.array([0, -3]),)},
    "steps of 32 bits": {"walks": (np.array([0, 1], dtype=np.int32),)},
    "steps in a table": {"walks": (np.array([[0, 1]]),)},
    "no walk": {"walks": ()},
    "two walks for one axis": {"walks": (np.array([0]), np.array([0]))},
    "an axis too many": {"inner": 2},
    "a negative axis": {"inner": -1},
    "more cells than there are": {"cells": 4},
    "no cells": {"cells": 0, "extras": 3},
    "more cells behind than there are": {"extras": 1},
    "cells behind in negative number": {"cells": 3, "extras": -1},
    "a family without a name": {"kind": 3},
    "attributes out of order": {"margin": ("b", "a")},
    "an attribute twice": {"margin": ("a", "a")},
    "an attribute of another table": {"margin": ("a", "z")},
    "a single axis": {"margin": ("a",)},
}


@pytest.mark.parametrize("bug", OUTSIDE)
def test_sets_that_would_leave_their_table_are_refused(bug):
    good = TableSets(("a", "b"), 0, Kind.RANGE, 3, 0, (np.array([0, 1]),))
    tables = {("a", "b"): np.ones(6, dtype=np.int64)}
    ask = [ClassSets("mine", 1, (good,))]
    assert ClassQuestion.of(TINY, ask, ReleasedTables(tables, 6)).names == ("mine",)
    with pytest.raises(ParameterError):
        ClassQuestion.of(
            TINY, [ClassSets("mine", 1, (replace(good, **OUTSIDE[bug]),))], ReleasedTables(tables, 6)
        )


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_whatever_the_walks_are_a_record_moves_the_error_by_at_most_one(data):
    """Any steps inside the table, any family along the other axis: over all tables of up to two records."""
    kind = data.draw(st.sampled_from(list(Kind)))
    cells = 3 if kind is Kind.ANY else data.draw(st.integers(1, 3))
    walk = np.array(data.draw(st.lists(st.integers(-2, 1), min_size=1, max_size=9)))
    sets = TableSets(("a", "b"), 0, kind, cells, 3 - cells, (walk,))
    sets.check(TINY)
    denominator = data.draw(st.sampled_from([1, 2, 5]))
    shares = random_shares(np.random.default_rng(data.draw(st.integers(0, 99))), (3, 2), denominator)
    found = {
        counts: largest_error(sets, gaps(np.array(counts).reshape(3, 2), shares, denominator), denominator)
        for counts in histograms(6, most=2)
    }
    for relation in Relation:
        assert all(abs(found[one] - found[other]) <= 1 for one, other in neighbours(list(found), relation))


def test_every_condition_of_a_class_is_one_of_its_sets():
    """The words of the class, by enumeration, and the families of its tables hold the same conditions."""
    for name in ("two attributes", "two ranges"):
        (table,) = CLASSES[name].tables(MIXED, [("a", "c")])
        inside = sum(1 for _ in itertools.product(*(_unique(f) for f in table.families)))
        pair = MIXED.__class__((MIXED["a"], MIXED["c"]))
        assert inside == sum(1 for _ in conditions(name, pair))


def _unique(family):
    return {tuple(row) for row in _sets(family).tolist()}
