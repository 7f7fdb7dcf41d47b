"""Laws on made-up tables: the vectors of the specification, and which variants of the sparse vector are private."""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOperatorIssue=false
# pyright: reportOptionalMemberAccess=false, reportPossiblyUnboundVariable=false

from __future__ import annotations

import math

import pytest

from maquette import lessons
from maquette.errors import ParameterError
from maquette.lessons.laws import VARIANTS

SCORES = [0, -1, -2, -2]


def test_the_exponential_mechanism_and_permute_and_flip_of_the_specification():
    plain = lessons.exponential(SCORES, SCORES, epsilon=1.0)
    assert plain.here == pytest.approx((0.42693270, 0.25894777, 0.15705976, 0.15705976))
    flip = lessons.exponential(SCORES, SCORES, epsilon=1.0, method="permute-and-flip")
    assert flip.here == pytest.approx((0.50219918, 0.23572903, 0.13103590, 0.13103590))
    assert plain.worst == 0.0


def test_smalldb_of_the_specification():
    law = lessons.smalldb([3, 1, 0], [2, 1, 1], [[1, 0, 0], [1, 1, 0]], rows=2, epsilon=1.0)
    expected = (0.2804718893, 0.2804718893, 0.1701148000, 0.1031798419, 0.1031798419, 0.0625817376)
    assert law.here == pytest.approx(expected)
    replaced = [
        lessons.smalldb([3, 1, 0], other, [[1, 0, 0], [1, 1, 0]], rows=2, epsilon=1.0).worst
        for other in ([2, 2, 0], [2, 1, 1], [4, 0, 0], [3, 0, 1])
    ]
    assert max(replaced) == pytest.approx(0.6868619896)


@pytest.mark.slow
def test_the_right_sparse_vector_is_private_and_the_others_are_not():
    scores, other = [0] * 6, [1] * 3 + [-1] * 3
    losses = {v: lessons.sparse_vector(scores, other, cap=3, variant=v).worst for v in VARIANTS[:4]}
    assert losses["right"] <= 1.0
    assert all(loss > 1.0 for variant, loss in losses.items() if variant != "right")
    assert losses["no noise on the tests"] == math.inf
    for variant in VARIANTS[4:]:
        shown = [
            lessons.sparse_vector([0] * (k - 1) + [1], [1] * (k - 1) + [0], variant=variant).worst
            for k in (3, 6, 12)
        ]
        assert shown == sorted(shown)
        assert shown[0] < 1 < shown[2]
    right = [lessons.sparse_vector([0] * (k - 1) + [1], [1] * (k - 1) + [0]).worst for k in (3, 6, 10)]
    assert max(right) <= 1.0


def test_every_law_adds_up_to_one():
    for variant in VARIANTS[:5]:
        law = lessons.sparse_vector([0, 1, -1, 2], [1, 0, 0, 1], cap=2, variant=variant)
        assert sum(law.here) == pytest.approx(1.0)
        assert sum(law.there) == pytest.approx(1.0)
    assert {len(line) for line in law.table()} == {4}


def test_unknown_variants_are_refused():
    with pytest.raises(ParameterError, match=r"expected variant to be one of .*right"):
        lessons.sparse_vector([0], [1], variant="mine")
