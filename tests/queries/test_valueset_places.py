"""Two short cuts of reading a condition and of adding up a box, against the long way."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maquette.core.tables import corner_sums
from maquette.queries.sql_compare import FIRST, LAST, _first, _first_whole

PLACES = st.tuples(st.fractions(min_value=-3, max_value=9, max_denominator=4), st.sampled_from([0, 1]))


@given(place=PLACES | st.sampled_from([FIRST, LAST]), count=st.integers(0, 7))
def test_the_first_code_at_or_after_a_place_is_the_one_that_a_search_finds(place, count):
    assert _first_whole(place, count) == _first(count, lambda i: (Fraction(i), 0) >= place)


@pytest.mark.parametrize("seed", range(5))
def test_one_box_of_whole_numbers_adds_up_to_the_same_as_among_others(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 5, size=4))
    table = rng.integers(-5, 2**40, size=shape)
    ends = [tuple(sorted(int(x) for x in rng.integers(0, size, size=2))) for size in shape]
    alone = corner_sums(table, [ends])
    assert alone.dtype == corner_sums(table, [ends, ends]).dtype
    assert alone.tolist() == corner_sums(table, [ends, ends]).tolist()[:1]
    assert alone[0] == table[tuple(np.ix_(*(range(low, high + 1) for low, high in ends)))].sum()
