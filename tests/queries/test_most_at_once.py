"""How many conditions one record can satisfy at once: never stated too small, and exact where it says so."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.queries import sensitivity, union, where
from maquette.queries.condition import Every, Leaf, Some, runs_of, simplify
from maquette.queries.predicates import of_condition, predicates

predicates_module = sys.modules["maquette.queries.predicates"]
quick = settings(max_examples=80, deadline=None)


def _domain(sizes):
    return Domain(tuple(Attribute(f"x{i}", Kind.ORDINAL, codes=size) for i, size in enumerate(sizes)))


@st.composite
def leaf(draw, domain):
    attribute = draw(st.sampled_from(domain.attributes))
    codes = draw(st.sets(st.integers(0, attribute.size - 1), max_size=attribute.size))
    return Leaf(attribute.name, runs_of(codes))


@st.composite
def conditions(draw, *, products):
    domain = _domain(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    flat = st.lists(leaf(domain), min_size=1, max_size=3).map(lambda parts: Every(tuple(parts)))
    deep = st.recursive(
        leaf(domain),
        lambda part: st.tuples(st.sampled_from([Every, Some]), st.lists(part, max_size=3)).map(
            lambda pair: pair[0](tuple(pair[1]))
        ),
        max_leaves=6,
    )
    listed = draw(st.lists(flat if products else deep, min_size=1, max_size=12))
    return domain, tuple(simplify(domain, one) for one in listed)


def _true_most(domain, listed):
    records = np.array(list(itertools.product(*map(range, domain.shape))))
    rows = {name: records[:, i] for i, name in enumerate(domain.names)}
    masks = predicates_module.RowMasks(domain, rows, len(records))
    return int(np.sum([masks.of(one) for one in listed], axis=0).max())


def _stated(domain, listed):
    return sensitivity.most_at_once(domain, [predicates_module._Conditions(domain, listed)])


@pytest.mark.law
@quick
@given(asked=conditions(products=True))
def test_lists_of_products_are_exact(asked):
    found = _stated(*asked)
    if not any(True for one in asked[1] for _ in predicates_module.condition.leaves(one)):
        return  # conditions that look at nothing
    assert found.exact
    assert found.bound.l1 == found.bound.l2_squared == _true_most(*asked)


@pytest.mark.law
@quick
@given(asked=conditions(products=False))
def test_any_conditions_are_bounded(asked):
    found = _stated(*asked)
    true = _true_most(*asked)
    assert found.bound.l1 >= true
    if found.exact:
        assert found.bound.l1 == true


@pytest.mark.law
@quick
@given(asked=conditions(products=True), steps=st.sampled_from([-1, 0, 20, 200]))
def test_a_search_that_is_cut_short_is_still_a_bound(asked, steps):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sensitivity, "MAX_MEETING_STEPS", steps)
        found = _stated(*asked)
    true = _true_most(*asked)
    assert found.bound.l1 >= true
    assert not found.exact or found.bound.l1 == true


@pytest.mark.law
@quick
@given(asked=conditions(products=False), relation=st.sampled_from(Relation))
def test_lists_that_cannot_be_searched_state_it(asked, relation):
    domain, listed = asked
    records = list(itertools.product(*map(range, domain.shape)))
    columns = predicates_module._Conditions(domain, listed).columns_of(
        {name: np.array([r[i] for r in records]) for i, name in enumerate(domain.names)}
    )
    norms = columns.sum(axis=0) if relation is Relation.ADD_REMOVE else _distances(columns)
    predicates_module._bound.cache_clear()
    sensitivity._union_sensitivity.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sensitivity, "MAX_SEARCH_STEPS", 0)
        for queries in (
            predicates_module._Conditions(domain, listed),
            union(*(of_condition(domain, one) for one in listed)),
        ):
            assert queries.sensitivity(relation).l1 >= norms.max()
    predicates_module._bound.cache_clear()
    sensitivity._union_sensitivity.cache_clear()


def _distances(columns):
    return np.abs(columns[:, :, None].astype(int) - columns[:, None, :]).sum(axis=0)


def _random_list(count, seed=3):
    """Conjunctions of two values each over eight columns of twelve codes: too many records to search."""
    rng = np.random.default_rng(seed)
    domain = _domain([12] * 8)
    pairs = [rng.choice(8, 2, replace=False) for _ in range(count)]
    texts = [f"x{a} = {rng.integers(12)} AND x{b} = {rng.integers(12)}" for a, b in pairs]
    return domain, texts


@pytest.mark.law
def test_a_long_list_states_a_small_part_of_its_length():
    domain, texts = _random_list(150)
    listed = predicates(domain, texts)
    stated = listed.sensitivity(Relation.ADD_REMOVE)
    assert stated.l1 == stated.l2_squared <= 20
    assert listed.sensitivity(Relation.REPLACE_ONE).l1 == 2 * stated.l1
    assert stated.l1 >= _climbed(listed)


def test_a_union_of_single_conditions_is_a_list_too():
    domain, texts = _random_list(60)
    single = union(*(where(domain, text) for text in texts))
    assert (
        single.sensitivity(Relation.ADD_REMOVE).l1
        == predicates(domain, texts).sensitivity(Relation.ADD_REMOVE).l1
    )


def _climbed(listed):
    """A record that satisfies many: the bound must not be below it."""
    rng, best = np.random.default_rng(0), 0
    for _ in range(4):
        record = {name: np.full(12, rng.integers(12)) for name in listed.domain.names}
        for name in [*listed.domain.names] * 2:
            counts = listed.columns_of(record | {name: np.arange(12)}).sum(axis=0)
            record[name] = np.full(12, int(counts.argmax()))
            best = max(best, int(counts.max()))
    return best


def test_too_many_cells_state_the_length():
    domain, texts = _random_list(10)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sensitivity, "MAX_WEIGHTS_IN_MEMORY", 5)
        found = sensitivity.most_at_once(domain, [predicates(domain, texts)])
    assert (found.bound.l1, found.exact) == (10, False)


def test_a_share_that_is_lost_would_be_caught(monkeypatch):
    """A unit that is not divided whole makes the bound too small, and the comparison above sees it."""
    given_whole = sensitivity._add_equally
    monkeypatch.setattr(
        sensitivity, "_add_equally", lambda shares, to, amounts: given_whole(shares, to, amounts // 2)
    )
    domain, texts = _random_list(150)
    found = sensitivity.most_at_once(domain, [predicates(domain, texts)])
    assert found.bound.l1 < _climbed(predicates(domain, texts))
