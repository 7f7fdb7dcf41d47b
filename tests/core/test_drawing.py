"""Whatever a sampler of databases returns, it has the public shape, and nothing of it is refused after the look."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maquette.accounting import Budget
from maquette.core.curator import Curator
from maquette.core.drawing import Draws, Shape, check_values, in_counts, in_shape, join_words, split_words
from maquette.core.errors import MechanismError, ParameterError
from maquette.core.neighbours import Relation
from support.privacy_conformance import TINY
from support.privacy_doubles import ledger_for, set_aside, table_of

SHAPE = Shape(3, (2, 2**64))
ODD = {
    "nothing": [],
    "no list": 7,
    "none": None,
    "a column too few": [np.zeros(3, dtype=np.uint64)],
    "a column too many": [np.zeros(3, dtype=np.uint64)] * 3,
    "rows too few": [np.ones(1, dtype=np.uint64)] * 2,
    "rows too many": [np.ones(9, dtype=np.uint64)] * 2,
    "codes that are too large": [np.full(3, 2**63, dtype=np.uint64)] * 2,
    "negative codes": [np.full(3, -1)] * 2,
    "fractions": [np.full(3, 0.5)] * 2,
    "no numbers": [np.array(["a", "b", "c"])] * 2,
    "a table": [np.ones((3, 3), dtype=np.uint64)] * 2,
    "texts": "ab",
}


@pytest.mark.parametrize("returned", ODD.values(), ids=ODD)
def test_what_is_stored_has_the_public_shape(returned):
    values = in_shape(returned, SHAPE)
    assert [(v.dtype, v.shape) for v in values] == [(np.uint64, (3,))] * 2
    assert int(values[0].max()) < 2
    check_values(join_words(split_words(values)), SHAPE)


@given(
    st.lists(st.integers(0, 1), min_size=3, max_size=3),
    st.lists(st.integers(0, 2**64 - 1), min_size=3, max_size=3),
)
def test_a_database_of_the_right_shape_is_stored_as_it_is(first, second):
    given = [np.array(first, dtype=np.uint64), np.array(second, dtype=np.uint64)]
    assert all(np.array_equal(a, b) for a, b in zip(given, in_shape(given, SHAPE), strict=True))


@pytest.mark.parametrize("limits", [(), (0,), (2**64 + 1,), (1.0,), (True,)])
def test_shapes_that_are_none_are_refused(limits):
    with pytest.raises(ParameterError):
        Shape(1, limits)


def test_errors_are_whole_numbers_within_64_bits():
    assert [int(in_counts(error)[0]) for error in (-5, 3, 2**80)] == [0, 3, 2**62]


class Hostile(Draws):
    """A sampler that returns whatever it was made with."""

    def __init__(self, returned):
        self._returned = returned

    def check(self, domain, question):
        return SHAPE

    def run(self, question, counts, *, decay, bits, report):
        return self._returned

    def error(self, question, values, counts):
        return 2**90


QUESTION = SimpleNamespace(
    resolution=1, to_dict=lambda: {"any": 1}, describe=lambda: "any", columns=lambda values, rng: {}
)


def _curator(draws, key="release"):
    budget = Budget(4.0)
    ledger = ledger_for(TINY, budget=budget, relation=Relation.ADD_REMOVE)
    set_aside(ledger, key, budget)
    return Curator(table_of(TINY, [1] * TINY.size), ledger, key=key, budget=budget, draws=draws)


@pytest.mark.parametrize("returned", ODD.values(), ids=ODD)
def test_a_draw_is_answered_whatever_the_sampler_returns(returned):
    drawn = _curator(Hostile(returned)).draw(QUESTION, price=Fraction(1, 2))
    check_values(drawn.values, SHAPE)


def test_a_curator_without_a_sampler_draws_nothing_and_charges_nothing():
    curator = _curator(None)
    with pytest.raises(MechanismError, match="give it a sampler"):
        curator.draw(QUESTION, price=Fraction(1, 2))
    assert curator.left == 4
