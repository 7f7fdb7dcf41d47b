"""From a price in mu^2 / 2 to noise and back: never above the price, never too little noise, close to both."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maquette.accounting import UNITS
from maquette.core import prices
from maquette.core.budget import Unit
from maquette.core.forms import Sensitivity
from maquette.core.laws import NoiseRequest, sigma_of
from maquette.theory.quantiles import law_at
from support.priced import priced

pytestmark = pytest.mark.law

PRICES = st.fractions(min_value=Fraction(1, 10**9), max_value=50, max_denominator=10**10)
SQUARES = st.fractions(min_value=Fraction(1, 100), max_value=10**6, max_denominator=1000)


def floor_units(price: Fraction) -> int:
    return math.floor(price * UNITS)


@settings(deadline=None)
@given(price=PRICES, square=SQUARES, denominator=st.sampled_from([1, 7, 2**20]))
def test_gaussian_noise_costs_its_price_and_not_more(price, square, denominator):
    moved = Sensitivity(square, square, Fraction(1))
    request = NoiseRequest("gaussian", price)
    plan = priced(Unit.HALF_MU_SQUARED).noise(request, moved, coordinates=3, denominator=denominator)
    cost = plan.event.cost(Unit.HALF_MU_SQUARED)
    assert cost.units <= floor_units(price)
    assert cost.units >= floor_units(price) * (1 - 1e-9) - 1
    variance = plan.law.sigma_squared * denominator**2
    assert plan.event.mu_squared == square * denominator**2 / (variance - Fraction(9, 4))
    assert Fraction(sigma_of(variance)) ** 2 == variance
    assert plan.event.log_ratio == 3 * Fraction(22, 10**20)
    planned = law_at(price, moved, unit=Unit.HALF_MU_SQUARED, denominator=denominator)
    assert math.isclose(planned.sigma_squared, plan.law.sigma_squared, rel_tol=1e-2 if price < 1e-8 else 1e-3)


@settings(deadline=None)
@given(price=PRICES)
def test_choices_and_draws_cost_their_price_and_not_more(price):
    chosen = prices.selection(price=price, unit=Unit.HALF_MU_SQUARED).event
    drawn = priced(Unit.HALF_MU_SQUARED).draw(price, resolution=3, what="x").event
    for event in (chosen, drawn):
        units = event.cost(Unit.HALF_MU_SQUARED).units
        assert floor_units(price) * (1 - 1e-4) - 1 <= units <= floor_units(price)


@settings(deadline=None)
@given(price=PRICES)
def test_pure_noise_costs_its_price_and_not_more(price):
    epsilon = Unit.HALF_MU_SQUARED.pure_epsilon(Fraction(floor_units(price), UNITS))
    one = Sensitivity(Fraction(1), Fraction(1), Fraction(1))
    if epsilon * UNITS >= 1:
        event = prices.laplace(one, epsilon=epsilon, denominator=1).event
        assert event.cost(Unit.HALF_MU_SQUARED).units <= floor_units(price)
