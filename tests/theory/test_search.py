"""The smallest number that is enough: by bisection, the same as by trying all."""

import pytest

from maquette.theory.search import smallest


@pytest.mark.parametrize("least", [1, 2, 3, 7, 8, 9, 1000, 2**40 + 1])
def test_it_is_the_least_one_and_is_found_in_few_steps(least):
    asked = []

    def enough(n):
        asked.append(n)
        return n >= least

    assert smallest(enough) == least
    assert len(asked) <= 2 * least.bit_length() + 2


@pytest.mark.parametrize(
    ("least", "most", "found"), [(5, 5, 5), (5, 6, 5), (6, 5, None), (1, 1, 1), (2, 1, None)]
)
def test_nothing_beyond_the_most_is_asked(least, most, found):
    def enough(n):
        assert n <= most
        return n >= least

    assert smallest(enough, most=most) == found
