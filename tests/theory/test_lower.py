"""The lower bound of section 6: vectors, and that no mechanism of ours is stated to beat it."""

import math
from fractions import Fraction

import pytest

from maquette.domain import Relation
from maquette.errors import ParameterError
from maquette.theory import lower, smalldb
from maquette.theory.existence import Facts
from maquette.theory.lower import Window

STEPS = {1: Relation.REPLACE_ONE, 2: Relation.ADD_REMOVE}


@pytest.mark.parametrize(
    ("gap", "points", "epsilon", "steps", "beta", "printed"),
    [
        (1, 10, 0.1, 2, 0.05, 1.05306843),
        (1, 10, 0.1, 2, 0, 1.12541501),
        (1, 10, 1, 2, 0.05, 0.18211295),
        (1, 10, 1, 1, 0.05, 0.57616164),
        (0.25, 20, 0.5, 2, 0.01, 0.32694624),
        (1, 2, 0, 2, 0, 0.25),
    ],
)
def test_vectors(gap, points, epsilon, steps, beta, printed):
    found = lower.counts(Window(points, gap), epsilon=epsilon, beta=beta, relation=STEPS[steps])
    assert found == pytest.approx(printed, abs=5e-9)


def test_nothing_follows_where_failure_is_too_likely():
    edge = 1 / (1 + math.exp(2))
    window = Window(10, 1.0)
    assert lower.counts(window, epsilon=1, beta=edge * 1.001, relation=Relation.ADD_REMOVE) == 0
    assert lower.counts(window, epsilon=1, beta=edge * 0.999, relation=Relation.ADD_REMOVE) > 0
    assert lower.counts(window, epsilon=800, beta=0, relation=Relation.ADD_REMOVE) == 0


def test_windows():
    assert lower.from_vc(7) == Window(6, 1.0)
    assert lower.from_vc(0) == Window(0, 1.0)
    quarter, eighth = Fraction(1, 4), Fraction(1, 8)
    assert lower.from_levels([Fraction(1, 2), Fraction(3, 8), Fraction(1, 2)], quarter) == Window(2, 0.375)
    with pytest.raises(ParameterError, match="window"):
        lower.from_levels([quarter, 3 * quarter], quarter)
    assert lower.from_fat_shattering(20, eighth) == Window(4, 0.125)  # ceil(20/6) = 4
    assert lower.from_fat_shattering(5, Fraction(1, 2)) == Window(4, 0.5)
    with pytest.raises(ParameterError, match="gamma"):
        lower.from_fat_shattering(5, Fraction(2, 3))


def test_the_upper_bound_lies_above_the_lower_bound():
    """All subsets of 10 cells: VC dimension 10. SmallDB's counts can never be stated below the lower bound."""
    cells, n, epsilon, beta = 10, 5, 0.5, 0.05
    known = Facts(universe=cells, log_queries=cells * math.log(2), vc=cells)
    ours = smalldb.best(known, n=n, epsilon=epsilon, beta=beta).alpha
    floor = lower.fraction(
        lower.from_vc(cells), n=n, epsilon=epsilon, beta=beta, relation=Relation.REPLACE_ONE
    )
    assert 0 < floor < ours
    with pytest.raises(ParameterError, match="n >= d/2"):
        lower.fraction(lower.from_vc(cells), n=4, epsilon=epsilon, beta=beta, relation=Relation.REPLACE_ONE)


def test_the_limit_of_reconstruction():
    assert lower.recovered(epsilon=0) == 0.5
    assert lower.recovered(epsilon=1) == pytest.approx(math.e / (1 + math.e))
    assert lower.recovered(epsilon=1, steps=2) == pytest.approx(lower.recovered(epsilon=2))
    assert lower.recovered(epsilon=1, delta=0.01) == pytest.approx((math.e + 0.01) / (1 + math.e))
    two = 0.01 * (1 + math.e)
    assert lower.recovered(epsilon=1, delta=0.01, steps=2) == pytest.approx(
        (math.exp(2) + two) / (1 + math.exp(2))
    )
    assert lower.recovered(epsilon=1000) == 1.0


def test_the_limit_knows_what_is_common():
    assert lower.recovered(epsilon=0, prior=0.8) == 0.8
    assert lower.recovered(epsilon=1, prior=0.6) == lower.recovered(epsilon=1)
    assert lower.recovered(epsilon=0, delta=0.1, prior=0.8) == pytest.approx(0.82)
    assert lower.recovered(epsilon=800, delta=0.1, prior=0.8) == 1.0


def test_the_limit_is_attained_by_randomized_response():
    """Telling the bit with probability e/(1+e) is 1-private and recovers exactly this share."""
    told = math.e / (1 + math.e)
    assert told / (1 - told) == pytest.approx(math.e)
    assert lower.recovered(epsilon=1) == pytest.approx(told)


@pytest.mark.parametrize("wrong", [{"epsilon": -1}, {"epsilon": math.inf}, {"beta": 1}, {"beta": -0.1}])
def test_parameters_are_checked(wrong):
    terms = {"epsilon": 1, "beta": 0.05, "relation": Relation.ADD_REMOVE} | wrong
    with pytest.raises(ParameterError):
        lower.counts(Window(2, 1.0), **terms)


@pytest.mark.parametrize("wrong", [{"epsilon": -1}, {"delta": 1.0}, {"steps": 0}, {"prior": 0.4}])
def test_parameters_of_the_limit_are_checked(wrong):
    with pytest.raises(ParameterError):
        lower.recovered(**({"epsilon": 1} | wrong))
