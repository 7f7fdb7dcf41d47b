"""What the gate hands out holds nothing private, however one digs."""

import copy
import gc
import pickle
import types
from fractions import Fraction

import numpy as np
import pytest

from maquette.core.budget import Budget
from maquette.core.curator import Curator
from maquette.core.laws import NoiseRequest
from maquette.core.rows.engine import MemoryEngine
from maquette.domain import Relation
from maquette.models.answers import Answers
from maquette.samplers.draw import EXACT_DRAWS
from support.privacy_cases import HALVES, mixed
from support.privacy_conformance import TINY
from support.privacy_doubles import ledger_for, set_aside, table_of

BUDGET = Budget(1.0, 1e-6)
QUERIES = mixed(TINY)
HISTOGRAM = (1009, 0, 2003, 0, 0, 1013, 0, 0, 4001, 0, 0, 2011)
"""Counts that are easily recognised."""


def _curator(histogram=HISTOGRAM, relation=Relation.ADD_REMOVE):
    ledger = ledger_for(TINY, budget=BUDGET, relation=relation)
    set_aside(ledger, "release", BUDGET)
    return Curator(
        table_of(TINY, histogram, engine=MemoryEngine),
        ledger,
        key="release",
        budget=BUDGET,
        draws=EXACT_DRAWS,
    )


def _ask_all(curator: Curator) -> list[object]:
    price = Fraction(1, 1000)
    guess = Answers.from_fractions(np.full(QUERIES.count, 0.25))
    return [
        curator.size(price=price),
        curator.measure(QUERIES, noise=NoiseRequest("gaussian", price)),
        *curator.measure_residuals([("a",), ("a", "b")], variances=[Fraction(900), Fraction(900)]),
        *curator.measure_binned_residuals([HALVES], variances=[Fraction(900)]),
        curator.select(QUERIES, guess, price=price),
        curator.largest_error(QUERIES, guess, price=price),
    ]


def _reachable(root: object) -> list[object]:
    """Every object that can be reached by following references, without going through modules and classes."""
    seen: dict[int, object] = {}
    todo = [root]
    while todo:
        item = todo.pop()
        if id(item) in seen or isinstance(item, (type, types.ModuleType, types.FunctionType, types.CodeType)):
            continue
        seen[id(item)] = item
        todo.extend(gc.get_referents(item))
    return list(seen.values())


def test_nothing_private_can_be_reached_from_what_is_returned():
    curator = _curator()
    exact = curator._engine.answer(QUERIES.to_forms())
    columns = list(curator._engine._columns.values())
    for released in _ask_all(curator):
        for item in _reachable(released):
            assert item is not curator
            assert item is not curator._engine
            if isinstance(item, np.ndarray):
                assert not any(np.shares_memory(item, column) for column in columns)
                assert item.shape != exact.shape or not np.array_equal(item, exact)
            assert type(item).__name__ not in ("Ledger", "Table", "SystemNoise")


def test_the_search_would_find_a_leak():
    curator = _curator()
    leaky = {"released": [1, 2], "by mistake": types.SimpleNamespace(engine=curator._engine)}
    assert any(item is curator._engine for item in _reachable(leaky))


def test_only_the_projected_residual_leaves():
    curator = _curator()
    (residual,) = curator.measure_residuals([("a", "b")], variances=[Fraction(900)])
    assert residual.axes == (0, 1)
    assert not residual.values.sum(axis=0).any()
    assert not residual.values.sum(axis=1).any()
    (in_bins,) = curator.measure_binned_residuals([HALVES], variances=[Fraction(900)])
    assert in_bins.axes == (0, 1)
    assert in_bins.values.shape == HALVES.shape
    assert not in_bins.values.sum(axis=0).any()
    assert not in_bins.values.sum(axis=1).any()


@pytest.mark.parametrize("what", ["curator", "table", "engine"])
def test_nothing_private_can_be_pickled_or_copied(what):
    curator = _curator()
    table = table_of(TINY, HISTOGRAM, engine=MemoryEngine)
    thing = {"curator": curator, "table": table, "engine": table._engine}[what]
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises((TypeError, Exception), match=r"pickled|copied") as caught:
            attempt(thing)
        assert not _holds_a_count(str(caught.value))


@pytest.mark.parametrize("name", ["domain", "relation", "unit", "left"])
def test_what_is_charged_follows_from_nothing_that_a_mechanism_could_set(name):
    curator = _curator()
    with pytest.raises(AttributeError):
        setattr(curator, name, getattr(_curator(relation=Relation.REPLACE_ONE), name))


def test_texts_show_nothing_private():
    curator = _curator()
    table = table_of(TINY, HISTOGRAM, engine=MemoryEngine)
    for thing in (curator, table, table._engine, curator._ledger, curator._noise):
        for text in (repr(thing), str(thing), f"{thing}"):
            assert not _holds_a_count(text), text
    assert not _holds_a_count(table._repr_html_())


def _holds_a_count(text: str) -> bool:
    secrets = {*map(str, filter(None, HISTOGRAM)), str(sum(HISTOGRAM)), f"{sum(HISTOGRAM):,}"}
    return any(secret in text for secret in secrets)


def test_a_table_has_no_length_and_no_rows():
    table = table_of(TINY, HISTOGRAM, engine=MemoryEngine)
    for attempt in (len, iter, lambda t: t[0], dict):
        with pytest.raises(TypeError):
            attempt(table)
    with pytest.raises(AttributeError):
        table.name = "other"


@pytest.mark.parametrize("relation", list(Relation))
def test_an_empty_table_is_a_table_like_any_other(relation):
    curator = _curator(histogram=(0,) * TINY.size, relation=relation)
    size, measured, *_ = _ask_all(curator)
    assert measured.values.shape == (QUERIES.count,)
    assert size.divisor >= 1


def test_an_exception_from_the_ledger_shows_no_answer():
    """The payload is bound to the statement; a database error must not quote it."""
    from maquette.errors import LedgerError

    curator = _curator()
    curator._ledger._store._engine.dispose()
    released = None
    try:
        released = curator.measure(QUERIES, noise=NoiseRequest("gaussian", Fraction(1, 1000)))
    except LedgerError as error:
        text = str(error) + repr(error.__context__) + repr(error.__cause__)
        assert not _holds_a_count(text)
    assert released is None or released.values.shape == (QUERIES.count,)
