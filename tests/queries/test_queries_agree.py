"""Every class of queries, evaluated in every way, against its plain definition."""

from __future__ import annotations

import contextlib
import itertools
import json
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import maquette.queries as mq
from maquette.domain import Attribute, Domain, Kind
from maquette.errors import WorkloadError
from maquette.queries import condition
from maquette.queries.condition import table_mask
from support.query_cases import SCALE, any_queries, domains, plain_distinct, plain_matrix, queries

pytestmark = pytest.mark.law

predicates = sys.modules["maquette.queries.predicates"]  # the package exports a function of this name
quick = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
small_tables = st.lists(st.integers(0, 10**6), max_size=40)


def rows_of(domain, seeds):
    """Coded rows from a list of numbers, in the narrow types of the vault."""
    records = [np.unravel_index(seed % domain.size, domain.shape) for seed in seeds]
    return {name: np.array([r[i] for r in records], dtype=np.uint8) for i, name in enumerate(domain.names)}


def histogram_of(domain, rows, weights):
    table = np.zeros(domain.shape, dtype=weights.dtype)
    np.add.at(table, tuple(rows[name] for name in domain.names), weights)
    return table


@quick
@given(asked=any_queries(), seeds=small_tables)
def test_rows_histogram_and_definition_agree(asked, seeds):
    rows = rows_of(asked.domain, seeds)
    table = histogram_of(asked.domain, rows, np.ones(len(seeds), dtype=np.int64))
    expected = plain_matrix(asked) @ table.ravel()
    factor = SCALE // asked.denominator
    for answers in (asked.on_rows(rows), asked.on_histogram(table)):
        assert answers.dtype == np.int64
        assert answers.shape == (asked.count,)
        assert (answers * factor == expected).all()


@settings(quick, max_examples=60)
@given(asked=any_queries())
def test_what_every_class_inherits_agrees_with_its_own_shorter_way(asked):
    rows = rows_of(asked.domain, range(asked.domain.size))
    assert (mq.Queries.columns_of(asked, rows) == asked.columns_of(rows)).all()
    by_cells, own = list(mq.Queries.query_keys(asked)), list(asked.query_keys())
    assert [key is None for key in by_cells] == [key is None for key in own]
    assert len(set(by_cells)) == len(set(own))


@quick
@given(asked=any_queries())
def test_the_columns_are_the_answers_on_single_records(asked):
    rows = rows_of(asked.domain, range(asked.domain.size))
    columns = asked.columns_of(rows)
    assert columns.shape == (asked.count, asked.domain.size)
    assert (columns.astype(np.int64) * (SCALE // asked.denominator) == plain_matrix(asked)).all()
    single = {name: codes[-1:] for name, codes in rows.items()}
    assert (asked.on_rows(single) == columns[:, -1]).all()


@quick
@given(asked=any_queries(), data=st.data(), whole=st.booleans())
def test_weighted_rows_count_as_often_as_they_weigh(asked, data, whole):
    seeds = data.draw(small_tables)
    weight = st.integers(0, 1000) if whole else st.integers(0, 1000).map(lambda w: w / 8)
    weights = np.array(
        data.draw(st.lists(weight, min_size=len(seeds), max_size=len(seeds))),
        dtype=np.int64 if whole else float,
    )
    rows = rows_of(asked.domain, seeds)
    answers = asked.on_rows(rows, weights)
    table = histogram_of(asked.domain, rows, weights)
    assert answers.dtype == weights.dtype == asked.on_histogram(table).dtype
    factor = SCALE // asked.denominator
    np.testing.assert_allclose(answers * factor, plain_matrix(asked) @ table.ravel(), rtol=1e-12)
    np.testing.assert_allclose(asked.on_histogram(table), answers, rtol=1e-12)


@quick
@given(asked=any_queries(), seeds=small_tables, more=small_tables)
def test_answers_add_up_over_blocks_of_rows_in_any_order(asked, seeds, more):
    together = asked.on_rows(rows_of(asked.domain, [*more, *seeds]))
    apart = asked.on_rows(rows_of(asked.domain, seeds)) + asked.on_rows(rows_of(asked.domain, more))
    assert (together == apart).all()


@quick
@given(asked=any_queries(), seeds=st.lists(st.integers(0, 10**6), min_size=1, max_size=20))
def test_conditions_are_answered_alike_from_tables_and_from_masks(asked, seeds):
    rows = rows_of(asked.domain, seeds)
    expected = asked.on_rows(rows)
    for cells, corners in ((0, 6), (2**22, 0), (2**22, 6)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(predicates, "MAX_CONDITION_TABLE_CELLS", cells)
            patch.setattr(predicates, "MAX_BOX_ATTRIBUTES", corners)
            assert (asked.on_rows(rows) == expected).all()


@quick
@given(asked=any_queries())
def test_distinct_counts_what_is_left_after_merging(asked):
    assert asked.distinct() == plain_distinct(plain_matrix(asked))


@quick
@given(asked=any_queries())
def test_keys_are_equal_exactly_for_equal_or_complementary_queries(asked):
    matrix = plain_matrix(asked)
    keys = list(asked.query_keys())
    assert len(keys) == asked.count
    for row, key in zip(matrix, keys, strict=True):
        assert (key is None) == (len(set(row.tolist())) == 1)
    assume(asked.count <= 60)
    for (p, one), (q, other) in itertools.combinations(zip(matrix, keys, strict=True), 2):
        if one is not None and other is not None:
            assert (one == other) == ((p == q).all() or (p + q == SCALE).all())


@quick
@given(asked=any_queries())
def test_distinct_of_large_unions_is_never_too_small(asked):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(condition, "MAX_KEYS", 0)
        assert asked.distinct() >= plain_distinct(plain_matrix(asked))


@quick
@given(asked=any_queries(), data=st.data())
def test_the_text_of_a_query_means_the_query(asked, data):
    index = data.draw(st.integers(0, asked.count - 1))
    text = asked.text(index)
    said = True
    try:
        predicate = mq.where(asked.domain, text)
    except WorkloadError:
        said = False
    row = plain_matrix(asked)[index].reshape(asked.domain.shape)
    if said:
        mask = table_mask(asked.domain, predicate.condition, asked.domain.names)
        assert (mask * SCALE == row).all()
        assert predicate.notes == ()
    else:  # only these cannot be said in SQL
        assert "(other)" in text or "*" in text or text.startswith(("weights", "0 >="))


@quick
@given(asked=any_queries())
def test_the_json_form_comes_back_equal(asked):
    again = mq.from_json(asked.domain, mq.to_json(asked))
    assert again == asked
    assert hash(again) == hash(asked)
    assert mq.canonical_hash(again) == mq.canonical_hash(asked)


@quick
@given(asked=any_queries())
def test_groups_cover_all_queries_once(asked):
    groups = asked.groups()
    assert [g.start for g in groups] == [0, *(g.stop for g in groups[:-1])]
    assert groups[-1].stop == asked.count


@quick
@given(data=st.data())
def test_json_of_other_kinds_is_refused_in_words(data):
    domain = data.draw(domains())
    spec = data.draw(queries(domain)).spec()
    junk = st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=6,
    )
    field = data.draw(st.sampled_from([*spec, "more"]))
    spec[field] = data.draw(junk)
    text = json.dumps({"format": "maquette-queries", "version": 1, "queries": spec})
    with contextlib.suppress(WorkloadError):  # anything else fails the test
        again = mq.from_json(domain, text)
        assert mq.from_json(domain, mq.to_json(again)) == again


@settings(max_examples=40, deadline=None)
@given(seeds=st.lists(st.integers(0, 10**18), max_size=30), data=st.data())
def test_halfspaces_are_exact_where_64_bits_are_not_enough(seeds, data):
    domain = Domain(
        (
            Attribute("a", Kind.NUMERIC, edges=(0.0, 1e-17, 1.0, 1e17)),
            Attribute("b", Kind.NUMERIC, bounds=(0, 1e9), bins=3),
        )
    )
    normal = data.draw(st.tuples(st.integers(-(10**12), 10**12), st.sampled_from([0.1, 3, -1e-9])))
    asked = mq.halfspaces(domain, ["a", "b"], [normal], [data.draw(st.integers(-(10**20), 10**20))])
    rows = rows_of(domain, seeds)
    table = histogram_of(domain, rows, np.ones(len(seeds), dtype=np.int64))
    expected = plain_matrix(asked) @ table.ravel() // SCALE
    assert (asked.on_rows(rows) == expected).all()
    assert (asked.on_histogram(table) == expected).all()
