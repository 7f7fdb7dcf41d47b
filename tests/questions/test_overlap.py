"""Which tables a chosen one bars in a row of private choices."""

import pytest

from maquette.core.answers import without_overlap
from maquette.core.binned import Binned

NAMES = ("abc", "abd", "ade", "ab", "cd", "abc")
TABLES = [Binned(tuple(names), ((0, 1),) * len(names)) for names in NAMES]


@pytest.mark.parametrize(
    ("chosen", "related", "remaining"),
    [
        (0, False, [2, 4]),
        (0, True, [1, 2, 4]),
        (3, False, [2, 4]),
        (3, True, [2, 4]),
        (2, False, [0, 3, 4, 5]),
        (2, True, [0, 1, 3, 4, 5]),
    ],
)
def test_a_chosen_table_bars_what_shares_two_attributes_or_if_related_all_of_the_smaller(
    chosen, related, remaining
):
    left = [i for i in range(len(TABLES)) if i != chosen]
    assert without_overlap(TABLES, left, chosen, related=related) == remaining
