"""Weights: what is refused, how they are rounded, and what they own."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import maquette.queries as mq
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import WorkloadError
from maquette.queries import Sensitivity

SURVEY = Domain(
    (
        Attribute("age", Kind.NUMERIC, bounds=(0, 100), bins=10, integer=True),
        Attribute("sex", Kind.BOOLEAN, categories=("Female", "Male")),
    )
)
ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0.5, math.nan]], r"weights in \[0, 1\]"),
        ([[0.5, math.inf]], r"weights in \[0, 1\]"),
        ([[0.5, -math.inf]], r"weights in \[0, 1\]"),
        ([[0.5, 1.0000001]], r"weights in \[0, 1\]"),
        ([[0.5, -5e-324]], r"weights in \[0, 1\]"),
        ([[2, 0]], r"weights in \[0, 1\]"),
        ([[-1, 0]], r"weights in \[0, 1\]"),
        ([[0.5]], r"shape \(queries, 2\), got \(1, 1\)"),
        ([[0.5, 0.5, 0.5]], r"shape \(queries, 2\), got \(1, 3\)"),
        ([0.5, 0.5], r"shape \(queries, 2\), got \(2,\)"),
        ([], r"shape \(queries, 2\)"),
        (np.zeros((0, 2)), r"shape \(queries, 2\), got \(0, 2\)"),
        ([[0.5, 0.5], [0.5]], "rows of equal length"),
        ([["a", "b"]], "expected numbers"),
        ([[None, 1]], "expected numbers"),
        ([[1j, 0]], "expected numbers"),
        (np.zeros((1, 10**8), dtype=np.int8), r"shape \(queries, 2\), got \(1, 100000000\)"),
        (0.5, r"shape \(queries, 2\), got \(\)"),
        ("ab", r"shape \(queries, 2\)"),
    ],
)
def test_hostile_weights_are_refused(matrix, message):
    with pytest.raises(WorkloadError, match=message):
        mq.weights(SURVEY, matrix, attributes=["sex"])


def test_weights_go_to_the_nearest_point_of_the_grid():
    asked = mq.weights(SURVEY, [[1 / 3, 5e-324], [2 / 3, 1]], attributes=["sex"])
    assert asked.denominator == 2**20
    assert asked.numerators.tolist() == [[349525, 0], [699051, 2**20]]
    assert abs(Fraction(699051, 2**20) - Fraction(2, 3)) <= Fraction(1, 2**21)
    exact = mq.weights(SURVEY, [[1.0, 0.0], [True, False]], attributes=["sex"])
    assert exact.denominator == 1
    assert mq.weights(SURVEY, [[0.5, 1]], attributes=["sex"]).sensitivity(REPLACE) == Sensitivity(
        Fraction(1, 2), Fraction(1, 4), Fraction(1, 2)
    )


def test_weights_follow_the_order_of_the_attributes_given():
    matrix = np.arange(20).reshape(1, 20) / 32
    one = mq.weights(SURVEY, matrix, attributes=["sex", "age"])
    other = mq.weights(SURVEY, matrix.reshape(2, 10).T.reshape(1, 20), attributes=["age", "sex"])
    assert one == other
    assert one.over == ("age", "sex")
    assert one != mq.weights(SURVEY, matrix, attributes=["age", "sex"])
    assert len({one, other}) == 1


def test_weights_own_what_they_were_given():
    given = np.array([[0, 1]], dtype=np.int32)
    asked = mq.Weights(SURVEY, ("sex",), given, 1)
    given[0, 0] = 1
    assert asked.numerators.tolist() == [[0, 1]]
    with pytest.raises(ValueError, match="read-only"):
        asked.numerators[0, 0] = 1
    for numerators, grid in (([[0, 2]], 1), ([[0, -1]], 1), ([[0, 1]], 7), ([[0, 2**21]], 2**20)):
        with pytest.raises(WorkloadError, match="expected numerators from 0 to the denominator"):
            mq.Weights(SURVEY, ("sex",), np.array(numerators, dtype=np.int32), grid)
    with pytest.raises(WorkloadError, match="whole numerators"):
        mq.Weights(SURVEY, ("sex",), np.array([[0.5, 0.5]]), 1)
    with pytest.raises(WorkloadError, match="order of the domain"):
        mq.Weights(SURVEY, ("sex", "age"), np.zeros((1, 20), dtype=np.int32), 1)
    with pytest.raises(WorkloadError, match="shape"):
        mq.Weights(SURVEY, ("sex",), np.zeros((1, 3), dtype=np.int32), 1)


def test_fractional_weights_are_so_few_that_their_squares_fit_64_bits():
    few = np.full((2**20, 2), [0.0, 0.999], dtype=np.float32)
    asked = mq.weights(SURVEY, few, attributes=["sex"])
    numerator = int(asked.numerators[0, 1])
    exact = Sensitivity(Fraction(numerator), Fraction(numerator**2, 2**20), Fraction(numerator, 2**20))
    assert asked.sensitivity(ADD) == asked.sensitivity(REPLACE) == exact
    with pytest.raises(WorkloadError, match="1,048,576 queries of fractional weights, got 1,048,577"):
        mq.weights(SURVEY, np.full((2**20 + 1, 2), 0.5, dtype=np.float32), attributes=["sex"])
