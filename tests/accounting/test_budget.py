from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maquette.accounting import SLACK_UNITS, UNITS, Budget, Cost, split
from maquette.core.conversions import exp_up, rho_cks
from maquette.errors import ParameterError
from support.zcdp import delta_of_rho


@pytest.mark.parametrize("epsilon", [0, -1.0, math.nan, math.inf, -math.inf, "1", None, True, 1e7])
def test_a_budget_needs_a_finite_positive_epsilon(epsilon):
    with pytest.raises(ParameterError, match="expected epsilon"):
        Budget(epsilon)


@pytest.mark.parametrize("delta", [-1e-9, 1.0, 2, math.nan, math.inf, "0.1", None, True])
def test_a_budget_needs_a_delta_below_one(delta):
    with pytest.raises(ParameterError, match="expected 0 <= delta < 1"):
        Budget(1.0, delta)


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-13, 0.0), (1e-7, 1e-9)])
def test_a_budget_below_the_grid_is_refused_rather_than_empty(epsilon, delta):
    with pytest.raises(ParameterError, match="below the smallest amount"):
        Budget(epsilon, delta)


@pytest.mark.parametrize(("epsilon", "units"), [(0.1, UNITS // 10), (0.3, 3 * UNITS // 10), (3, 3 * UNITS)])
def test_a_float_means_its_shortest_decimal_form(epsilon, units):
    assert Budget(epsilon).total_units == units


def test_a_pure_budget_counts_epsilon_and_has_no_slack():
    budget = Budget(1.0)
    assert (budget.pure, budget.unit, budget.total_units, budget.slack_units) == (True, "epsilon", UNITS, 0)
    assert str(budget) == "epsilon=1"


def test_a_budget_with_delta_counts_rho_of_almost_all_of_delta():
    budget = Budget(1.0, 1e-9)
    assert budget.unit == "rho"
    kept = Fraction("1e-9") * (1 - Fraction(1, 1024))
    assert budget.total_units == math.floor(rho_cks(epsilon=1, delta=kept) * UNITS)
    assert budget.total_units / UNITS == pytest.approx(0.014973058, rel=1e-3)
    assert budget.total_units < 0.014973058 * UNITS


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-9), (5.0, 1e-5), (10.0, 1e-12)])
def test_units_and_slack_together_stay_within_the_promise(epsilon, delta):
    budget = Budget(epsilon, delta)
    spent = delta_of_rho(rho=Fraction(budget.total_units, UNITS), epsilon=epsilon)
    gap = (1 + exp_up(epsilon)) * Fraction(budget.slack_units, SLACK_UNITS)
    assert budget.slack_units > 0
    assert spent + gap <= Fraction(repr(delta))
    more = delta_of_rho(rho=Fraction(budget.total_units, UNITS) * Fraction(1001, 1000), epsilon=epsilon)
    assert more + gap > Fraction(repr(delta))


def test_slack_is_capped_to_what_a_database_integer_holds():
    assert Budget(0.01, 0.9).slack_units == 2**62


def test_costs_are_whole_and_add_up():
    assert Cost(1, 2) + Cost(3, 4) == Cost(4, 6)
    for wrong in ((-1, 0), (0, -1), (0.5, 0), (True, 0)):
        with pytest.raises(ParameterError, match="whole number"):
            Cost(*wrong)


@pytest.mark.slow
@given(st.integers(0, 10**14), st.lists(st.fractions(0, 1), min_size=1, max_size=8))
def test_parts_never_sum_above_the_whole(units, raw):
    total = sum(raw)
    shares = [s / total for s in raw] if total > 1 else raw
    parts = split(units, shares)
    assert sum(parts) <= units
    assert sum(parts) == math.floor(units * sum(shares))
    assert all(part >= 0 and abs(part - units * share) < 1 for part, share in zip(parts, shares, strict=True))


def test_shares_above_the_whole_or_below_zero_are_refused():
    for shares in ([Fraction(2, 3), Fraction(1, 2)], [Fraction(-1, 2), Fraction(1, 2)]):
        with pytest.raises(ParameterError, match="sum to at most 1"):
            split(10, shares)
    with pytest.raises(ParameterError):
        split(-1, [Fraction(1)])


def test_nothing_can_be_divided_and_a_part_may_be_nothing():
    assert split(0, [Fraction(1, 2), Fraction(1, 2)]) == [0, 0]
    assert split(10, [Fraction(0), Fraction(1)]) == [0, 10]
