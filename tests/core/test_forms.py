"""Forms of queries: exact answers, norms that are never too small, claims that hold whatever is claimed."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from maquette.core import answering, forms
from maquette.core.forms import ALWAYS, Conditions, Every, Leaf, QueryForms, Some
from maquette.domain import Relation
from maquette.errors import WorkloadError
from support.query_cases import KINDS, SCALE, any_queries, plain_matrix, queries_of

pytestmark = pytest.mark.law
quick = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SIZES = {"a": 3, "b": 2, "c": 4}
NAME = "0" * 64


def answers(asked: QueryForms, sizes, columns, times=None) -> np.ndarray:
    """Over all records in one piece, tables counted here."""
    length = len(next(iter(columns.values())))
    parts = answering.parts_of(asked, sizes)
    found = []
    for part in parts:
        tables = {}
        for margin in part.margins:
            table = np.zeros(forms.shape(sizes, margin), dtype=np.int64)
            own = 1 if times is None else times
            np.add.at(table, tuple(columns[name] for name in margin), own) if margin else None
            tables[margin] = table if margin else np.asarray(length if times is None else times.sum())
        sums = part.zeros()
        if part.names:
            for start in range(0, length, 3):  # cut anywhere
                some = {name: column[start : start + 3] for name, column in columns.items()}
                part.add(sums, some, None if times is None else times[start : start + 3])
        found.append(part.answers(tables, sums))
    return answering.joined(asked, found)


def every_record(sizes) -> dict[str, np.ndarray]:
    cells = np.array(list(itertools.product(*map(range, sizes.values())))).T
    return {name: column.astype(np.uint8) for name, column in zip(sizes, cells, strict=True)}


def contributions(asked: QueryForms, sizes) -> np.ndarray:
    """What each record of the universe alone adds to the answers (across)."""
    records = every_record(sizes)
    length = len(next(iter(records.values())))
    return np.stack(
        [answers(asked, sizes, {n: c[i : i + 1] for n, c in records.items()}) for i in range(length)], axis=1
    )


def measured(vectors: np.ndarray, relation: Relation, top: int) -> tuple[Fraction, Fraction, Fraction]:
    """The largest norms that a neighbour moves, by brute force."""
    if relation is Relation.ADD_REMOVE:
        moves = np.abs(vectors)
    else:
        moves = np.abs(vectors[:, :, None] - vectors[:, None, :]).reshape(len(vectors), -1)
    l1, l2 = int(moves.sum(axis=0).max(initial=0)), int((moves**2).sum(axis=0).max(initial=0))
    return Fraction(l1, top), Fraction(l2, top**2), Fraction(int(moves.max(initial=0)), top)


def charged(asked: QueryForms, sizes, relation: Relation) -> forms.Sensitivity:
    return asked.added(sizes) if relation is Relation.ADD_REMOVE else asked.replaced(sizes)


def holds(asked: QueryForms, sizes) -> bool:
    """Is what is charged never below what a record moves, under both relations?"""
    vectors = contributions(asked, sizes)
    for relation in Relation:
        l1, l2, linf = measured(vectors, relation, asked.top)
        bound = charged(asked, sizes, relation)
        if not (bound.l1 >= l1 and bound.l2_squared >= l2 and bound.linf >= linf):
            return False
    return True


@quick
@given(data=st.data())
def test_answers_of_forms_are_those_of_the_plain_definition(data):
    given_queries = data.draw(any_queries())
    sizes = given_queries.domain.sizes
    asked = given_queries.to_forms()
    asked.check(sizes)
    assert asked.count(sizes) == given_queries.count
    assert asked.top == given_queries.denominator
    cells = int(np.prod(list(sizes.values())))
    chosen = data.draw(st.lists(st.integers(0, cells - 1), min_size=1, max_size=12))
    columns = {name: column[chosen] for name, column in every_record(sizes).items()}
    expected = plain_matrix(given_queries)[:, chosen].sum(axis=1) // (SCALE // asked.top)
    assert answers(asked, sizes, columns).tolist() == expected.tolist()
    times = np.array(data.draw(st.lists(st.integers(0, 2**40), min_size=len(chosen), max_size=len(chosen))))
    weighed = (plain_matrix(given_queries)[:, chosen].astype(object) * times).sum(axis=1) // (
        SCALE // asked.top
    )
    assert answers(asked, sizes, columns, times).tolist() == weighed.tolist()


@quick
@given(asked=any_queries())
def test_norms_of_forms_are_never_below_what_a_record_moves(asked):
    assert holds(asked.to_forms(), asked.domain.sizes)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_one_class_over_few_cells_is_charged_what_a_record_moves_at_most(kind, data):
    """Nothing is lost by asking through forms: the noise is the same as from the exact sensitivity."""
    asked = data.draw(queries_of(kind))
    for relation in Relation:
        exact = asked.sensitivity(relation)
        stated = charged(asked.to_forms(), asked.domain.sizes, relation)
        assert (stated.l1, stated.l2_squared) == (exact.l1, exact.l2_squared)


@st.composite
def conditions(draw, depth: int = 2):
    if depth == 0 or draw(st.booleans()):
        name = draw(st.sampled_from(sorted(SIZES)))
        codes = draw(st.sets(st.integers(0, SIZES[name] - 1)))
        return Leaf(name, tuple((code, code) for code in sorted(codes)))
    kind = draw(st.sampled_from([Every, Some]))
    return kind(tuple(draw(st.lists(conditions(depth - 1), max_size=3))))


@pytest.mark.privacy
@quick
@given(data=st.data())
def test_a_record_that_meets_more_conditions_than_claimed_counts_for_none(data):
    listed = tuple(data.draw(st.lists(conditions(), min_size=1, max_size=6)))
    claim = data.draw(st.integers(0, len(listed)))
    asked = QueryForms((Conditions(listed, claim),), NAME)
    with pytest.MonkeyPatch.context() as patch:
        if data.draw(st.booleans()):
            patch.setattr(forms, "MAX_LISTED", 0)  # as over many cells: nothing can be read off them
        if data.draw(st.booleans()):
            patch.setattr(answering, "MAX_CONDITION_CELLS", 0)
        asked.check(SIZES)
        assert holds(asked, SIZES)
        honest = contributions(QueryForms((Conditions(listed, len(listed)),), NAME), SIZES)
        enforced = np.where(honest.sum(axis=0) <= claim, honest, 0)
        assert contributions(asked, SIZES).tolist() == enforced.tolist()


@pytest.mark.privacy
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_record_in_more_half_spaces_than_claimed_counts_for_none(data):
    form = data.draw(queries_of("halfspaces"))
    sizes, honest = form.domain.sizes, form.form()
    claim = data.draw(st.integers(0, form.count))
    lying = QueryForms((replace(honest, claim=claim),), NAME)
    with pytest.MonkeyPatch.context() as patch:
        if data.draw(st.booleans()):
            patch.setattr(forms, "MAX_LISTED", 0)
        assert holds(lying, sizes)
        true = contributions(QueryForms((replace(honest, claim=form.count),), NAME), sizes)
        assert contributions(lying, sizes).tolist() == np.where(true.sum(axis=0) <= claim, true, 0).tolist()


@pytest.mark.privacy
def test_an_unenforced_claim_would_be_noticed(monkeypatch):
    """The planted bug: a claim is believed."""
    monkeypatch.setattr(Conditions, "is_enforced", lambda self, sizes: False)
    monkeypatch.setattr(forms, "MAX_LISTED", 0)
    assert not holds(QueryForms((Conditions((ALWAYS, Leaf("a", ((0, 1),))), 1),), NAME), SIZES)


def test_replacing_a_record_is_not_charged_double_where_fewer_queries_can_move():
    one = QueryForms((Conditions((Leaf("a", ((0, 0),)),), 1),), NAME)
    assert one.replaced(SIZES).l1 == 1
    nested = tuple(Leaf("c", ((0, high),)) for high in range(3))
    assert QueryForms((Conditions(nested, 3),), NAME).replaced(SIZES).l1 == 3


whole = np.arange(2, dtype=np.int64)
HOSTILE = {
    "no form": QueryForms((), NAME),
    "a foreign object": QueryForms(("tables",), NAME),  # type: ignore[arg-type]
    "a table twice": QueryForms((forms.Tables((("a",), ("a",))),), NAME),
    "an attribute twice": QueryForms((forms.Tables((("a", "a"),)),), NAME),
    "an unknown attribute": QueryForms((forms.Tables((("z",),)),), NAME),
    "a cell twice": QueryForms((forms.Tables((("a",),), (np.array([1, 1]),)),), NAME),
    "a cell outside": QueryForms((forms.Tables((("a",),), (np.array([3]),)),), NAME),
    "cells of floats": QueryForms((forms.Tables((("a",),), (np.array([1.0]),)),), NAME),
    "cells for other tables": QueryForms((forms.Tables((("a",), ("b",)), (whole,)),), NAME),
    "too many prefixes": QueryForms((forms.Prefixes("a", 4),), NAME),
    "no prefixes": QueryForms((forms.Prefixes("a", 0),), NAME),
    "intervals of too many cells": QueryForms((forms.Intervals(("a",), (9,)),), NAME),
    "intervals of no attribute": QueryForms((forms.Intervals((), ()),), NAME),
    "weights below zero": QueryForms((forms.Weights(("b",), np.array([[-1, 0]]), 1),), NAME),
    "weights above the top": QueryForms((forms.Weights(("b",), np.array([[2, 0]]), 1),), NAME),
    "weights of another table": QueryForms((forms.Weights(("b",), np.array([[1, 0, 1]]), 1),), NAME),
    "weights that are no numbers": QueryForms((forms.Weights(("b",), np.array([[np.nan, 0]]), 1),), NAME),
    "a top of zero": QueryForms((forms.Weights(("b",), np.array([[0, 0]]), 0),), NAME),
    "a huge top": QueryForms((forms.Weights(("b",), np.array([[0, 0]]), 2**40),), NAME),
    "weights whose squares overflow": QueryForms(
        (forms.Weights(("b",), np.full((8, 2), 2**30), 2**30),), NAME
    ),
    "a claim below zero": QueryForms((Conditions((ALWAYS,), -1),), NAME),
    "a claim above all": QueryForms((Conditions((ALWAYS,), 2),), NAME),
    "a claim that is no number": QueryForms((Conditions((ALWAYS,), True),), NAME),
    "codes outside": QueryForms((Conditions((Leaf("a", ((0, 3),)),), 1),), NAME),
    "codes out of order": QueryForms((Conditions((Leaf("a", ((1, 1), (0, 0))),), 1),), NAME),
    "overlapping runs": QueryForms((Conditions((Leaf("a", ((0, 1), (1, 2))),), 1),), NAME),
    "a condition that is a call": QueryForms((Conditions((lambda r: True,), 1),), NAME),  # type: ignore[arg-type]
    "scores of too many cells": QueryForms(
        (forms.Scores(("b",), ((np.arange(3, dtype=np.int64),),), (whole,), whole, 2),), NAME
    ),
    "scores beyond 64 bits": QueryForms(
        (forms.Scores(("b",), ((np.full(2, 2**62, dtype=np.int64),),), (whole,), whole, 2),), NAME
    ),
    "half-spaces named twice": QueryForms((forms.Scores(("b",), ((whole,),), (whole,), whole * 0, 2),), NAME),
    "cells that are a number": QueryForms((forms.Tables((("a",),), (5,)),), NAME),  # type: ignore[arg-type]
    "margins that are a number": QueryForms((forms.Tables((5,)),), NAME),  # type: ignore[arg-type]
    "runs that are a text": QueryForms((Conditions((Leaf("a", "ab"),), 1),), NAME),  # type: ignore[arg-type]
    "scores without numbers": QueryForms((forms.Scores(("b",), ((),), (whole,), whole, 2),), NAME),
}


@pytest.mark.privacy
@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_a_hostile_form_is_refused_before_anything_is_paid(name):
    with pytest.raises(WorkloadError):
        HOSTILE[name].check(SIZES)


def test_a_condition_nested_without_end_is_refused():
    deep: forms.Condition = ALWAYS
    for _ in range(1000):
        deep = Every((deep,))
    with pytest.raises(WorkloadError, match="nested"):
        QueryForms((Conditions((deep,), 1),), NAME).check(SIZES)


def test_too_many_queries_and_tables_too_large_are_refused():
    large = {"a": 2**20, "b": 2**20}
    with pytest.raises(WorkloadError, match="too many"):
        QueryForms((forms.Prefixes("a", 2**20), forms.Intervals(("a",), (2**20,))), NAME).check(large)
    with pytest.raises(WorkloadError, match="cells"):
        QueryForms((forms.Tables((("a", "b"),)),), NAME).check(large)
