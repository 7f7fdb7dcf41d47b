"""Stated sensitivities against all records and all pairs of records of small universes."""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import maquette.queries as mq
from maquette.core import intervals
from maquette.core.forms import farthest
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.queries import Sensitivity, sensitivity
from support.query_cases import (
    KINDS,
    SCALE,
    any_queries,
    domains,
    plain_matrix,
    plain_sensitivity,
    queries,
    queries_of,
    unions,
)

pytestmark = pytest.mark.law

# The package exports functions of these names.
halfspaces_module = sys.modules["maquette.queries.halfspaces"]
predicates_module = sys.modules["maquette.queries.predicates"]
quick = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def is_right(stated: Sensitivity, true: Sensitivity, *, exact: bool) -> bool:
    """Never too small; equal where it is called exact."""
    pairs = [(stated.l1, true.l1), (stated.l2_squared, true.l2_squared), (stated.linf, true.linf)]
    return all(s == t for s, t in pairs) if exact else all(s >= t for s, t in pairs)


def forget() -> None:
    """No sensitivity that was found by search may answer where there is none."""
    for cached in (sensitivity._union_sensitivity, predicates_module._bound, halfspaces_module._bound):
        cached.cache_clear()


@pytest.mark.parametrize("kind", [*KINDS, "union"])
def test_sensitivities_are_attained_and_never_exceeded(kind):
    @settings(quick, max_examples=300 if kind == "union" else 60)
    @given(asked=unions() if kind == "union" else queries_of(kind))
    def check(asked):
        matrix = plain_matrix(asked)
        assert asked.exact_sensitivity  # small universes can always be searched
        for relation in Relation:
            assert is_right(asked.sensitivity(relation), plain_sensitivity(matrix, relation), exact=True)

    check()


def test_parts_whose_worst_pairs_do_not_meet():
    """Two cells that differ in both attributes are equal in the exclusive or; the marginals want them to differ."""
    bits = Domain(tuple(Attribute(name, Kind.BOOLEAN, codes=2) for name in "ab"))
    either = mq.where(bits, "a = 1 AND b = 0 OR a = 0 AND b = 1")
    singles = mq.marginals(bits, 1)
    asked = either + singles
    assert not either.spread
    assert asked.sensitivity(Relation.REPLACE_ONE).l1 == 4
    assert sum(part.sensitivity(Relation.REPLACE_ONE).l1 for part in (either, singles)) == 5
    assert asked.exact_sensitivity


@pytest.mark.parametrize(
    "cells", [*itertools.product(range(1, 7), repeat=2), (3, 3, 3), (1, 3, 5), (2, 2, 2, 3), (3, 2, 2, 3)]
)
def test_ranges_say_rightly_whether_a_farthest_pair_differs_everywhere(cells):
    for nulls in itertools.product((False, True), repeat=len(cells)):
        columns = zip(cells, nulls, strict=True)
        domain = Domain(
            tuple(Attribute(f"a{i}", Kind.ORDINAL, codes=m, nullable=n) for i, (m, n) in enumerate(columns))
        )
        asked = mq.ranges(domain, *domain.names)
        records = np.array(list(_records(domain)))
        apart_by = asked.distances(_rows(domain, records), _rows(domain, records)).l1
        wide = [i for i, size in enumerate(domain.shape) if size > 1]
        everywhere = np.all(records[:, None, wide] != records[None, :, wide], axis=2)
        assert asked.spread == bool((apart_by[everywhere] == apart_by.max()).any()), nulls


def test_one_cell_beside_a_null_cell_is_shared_by_the_farthest_pair():
    """They differ in the two other attributes; a marginal of the first wants a pair that differs there."""
    first = Attribute("a", Kind.ORDINAL, codes=1, nullable=True)
    domain = Domain((first, *(Attribute(name, Kind.ORDINAL, codes=2) for name in "bc")))
    boxes, single = mq.ranges(domain, "a", "b", "c"), mq.marginals(domain, attributes=[("a",)])
    assert boxes.sensitivity(Relation.REPLACE_ONE).l1 == 6
    assert not boxes.spread
    union = boxes + single
    assert union.sensitivity(Relation.REPLACE_ONE).l1 == 6  # not 6 + 2
    assert union.exact_sensitivity


@quick
@given(data=st.data(), relation=st.sampled_from(Relation))
def test_a_wrong_sensitivity_would_be_caught(data, relation):
    asked = data.draw(any_queries())
    true = plain_sensitivity(plain_matrix(asked), relation)
    norm = data.draw(st.sampled_from(["l1", "l2_squared", "linf"]))
    wrong = replace(true, **{norm: getattr(true, norm) - Fraction(1, 2**20)})
    assert not is_right(wrong, true, exact=False)
    assert not is_right(wrong, true, exact=True)
    generous = replace(true, **{norm: getattr(true, norm) + 1})
    assert is_right(generous, true, exact=False)
    assert not is_right(generous, true, exact=True)


def test_the_marginal_of_replace_one_is_not_that_of_add_remove():
    domain = Domain((Attribute("a", Kind.CATEGORICAL, codes=3),))
    matrix = plain_matrix(mq.points(domain))
    stated = mq.points(domain).sensitivity(Relation.ADD_REMOVE)
    assert not is_right(stated, plain_sensitivity(matrix, Relation.REPLACE_ONE), exact=False)


class ForgetsTheNullCell(mq.Prefixes):
    """The last prefix holds every declared cell, but not the null cell."""

    def sensitivity(self, relation):
        moved = Fraction(self.count - (relation is Relation.REPLACE_ONE))
        return Sensitivity(moved, moved, Fraction(1))


class AddsTheMiddles(mq.Ranges):
    """The middle cell is in the most intervals, but two records far from it can lie farther apart."""

    def sensitivity(self, relation):
        return mq.Ranges.sensitivity(self, Relation.ADD_REMOVE)


class CountsOneSide(mq.Conjunctions):
    """A replaced record leaves conjunctions and enters others."""

    def sensitivity(self, relation):
        return mq.Conjunctions.sensitivity(self, Relation.ADD_REMOVE)


def test_broken_classes_are_caught():
    numbers = [Attribute(name, Kind.ORDINAL, codes=5) for name in "ab"]
    plane = Domain(tuple(numbers))
    half_known = Domain((Attribute("a", Kind.ORDINAL, codes=3, nullable=True),))
    bits = Domain(tuple(Attribute(name, Kind.BOOLEAN, codes=2) for name in "abc"))
    broken = [
        ForgetsTheNullCell(half_known, "a"),
        AddsTheMiddles(plane, ("a", "b")),
        CountsOneSide(bits, 2, True, ("a", "b", "c")),
    ]
    for asked in broken:
        true = plain_sensitivity(plain_matrix(asked), Relation.REPLACE_ONE)
        assert not is_right(asked.sensitivity(Relation.REPLACE_ONE), true, exact=False)


@quick
@given(asked=any_queries(), relation=st.sampled_from(Relation))
def test_bounds_without_search_are_never_too_small(asked, relation):
    """What is stated for universes that are too large to search, tried on small ones."""
    true = plain_sensitivity(plain_matrix(asked), relation)
    parts = asked.classes
    forget()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sensitivity, "MAX_SEARCHED_RECORDS", 0)
        stated = sensitivity.union_sensitivity(asked.domain, parts, relation)
    forget()
    assert is_right(stated.bound, true, exact=stated.exact)


@quick
@given(asked=any_queries())
def test_spread_and_flat_are_what_they_say(asked):
    """Spread: some farthest pair differs everywhere. Flat: every such pair is farthest, every record alike."""
    domain, matrix = asked.domain, plain_matrix(asked)
    records = np.array(list(_records(domain)))
    looked_at = [domain.index(n) for n in asked.attributes if domain[n].size > 1]
    everywhere = np.all(records[:, None, looked_at] != records[None, :, looked_at], axis=2)
    gaps = np.abs(matrix[:, :, None] - matrix[:, None, :])
    for apart_by in (gaps.sum(axis=0), (gaps**2).sum(axis=0)):
        if asked.spread:
            assert (apart_by[everywhere] == apart_by.max()).any()
        if asked.flat:
            assert (apart_by[everywhere] == apart_by.max()).all()
    if asked.flat:
        assert len(set(matrix.sum(axis=0).tolist())) == 1


@quick
@given(data=st.data())
def test_norms_and_distances_are_those_of_the_columns(data):
    asked = data.draw(any_queries())
    matrix = plain_matrix(asked)
    records = list(_records(asked.domain))
    chosen = data.draw(st.lists(st.integers(0, len(records) - 1), min_size=1, max_size=6))
    rows = _rows(asked.domain, [records[i] for i in chosen])
    columns, factor = matrix[:, chosen], SCALE // asked.denominator
    norms, apart_by = asked.norms(rows), asked.distances(rows, rows)
    assert (norms.l1 * factor == columns.sum(axis=0)).all()
    assert (norms.l2_squared * factor**2 == (columns**2).sum(axis=0)).all()
    gaps = np.abs(columns[:, :, None] - columns[:, None, :])
    assert (apart_by.l1 * factor == gaps.sum(axis=0)).all()
    assert (apart_by.l2_squared * factor**2 == (gaps**2).sum(axis=0)).all()


@settings(max_examples=60, deadline=None)
@given(cells=st.lists(st.integers(1, 7), min_size=1, max_size=3), closed=st.booleans())
def test_the_farthest_pair_for_products_of_intervals(cells, closed):
    domain = Domain(
        tuple(
            Attribute(f"a{i}", Kind.ORDINAL, codes=m, nullable=not closed and i == 0)
            for i, m in enumerate(cells)
        )
    )
    asked = mq.ranges(domain, *domain.names)
    records = _rows(domain, list(_records(domain)))
    assert intervals.range_sensitivity(cells, closed=closed).distance == int(
        asked.distances(records, records).l1.max()
    )


def test_where_there_is_one_record_only_it_differs_from_itself_in_no_attribute_of_two_cells():
    """`Ranges` leaves attributes of one cell out; the function is right without that, too."""
    assert intervals.range_sensitivity((1, 1), closed=True) == intervals.RangeSensitivity(
        0, exact=True, spread=True
    )


@settings(max_examples=200, deadline=None)
@given(data=st.data(), power=st.sampled_from([1, 2]), steps=st.sampled_from([0, 10, 10**6]))
def test_the_search_for_the_farthest_columns_is_right_or_says_that_it_is_a_bound(data, power, steps):
    rows = data.draw(st.integers(1, 4))
    column = st.lists(st.integers(0, 9), min_size=rows, max_size=rows)
    columns = np.array(data.draw(st.lists(column, min_size=1, max_size=12))).T
    true = max(
        int((np.abs(columns[:, i] - columns[:, j]) ** power).sum())
        for i in range(columns.shape[1])
        for j in range(columns.shape[1])
    )
    found, exact = farthest(columns, power=power, most_steps=steps)
    assert found == true if exact else found >= true
    assert exact or steps < 10**6


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_twins_are_never_told_apart(data):
    domain = data.draw(domains())
    asked = data.draw(queries(domain))
    name = data.draw(st.sampled_from(domain.names))
    if name not in asked.attributes:
        return
    labels = asked.twins(name)
    columns = dict(zip(_records(domain), plain_matrix(asked).T.tolist(), strict=True))
    place = domain.index(name)
    for record, column in columns.items():
        for other in range(domain[name].size):
            if labels[other] == labels[record[place]]:
                assert columns[(*record[:place], other, *record[place + 1 :])] == column


def _records(domain):
    return itertools.product(*map(range, domain.shape))


def _rows(domain, records):
    return {name: np.array([r[i] for r in records]) for i, name in enumerate(domain.names)}
