"""Never too little noise for a price, in exact rationals; never a cost above the price."""

import math
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from maquette.core import prices as calibrate
from maquette.core.binned import Binned
from maquette.core.bounds import WIDEST
from maquette.core.budget import UNITS, Unit
from maquette.core.forms import Sensitivity
from maquette.core.inversion import exp_minus
from maquette.core.laws import float_up, sigma_of, sqrt_up
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import ParameterError

pytestmark = pytest.mark.law

positive = st.fractions(min_value=Fraction(1, 10**30), max_value=10**30)
prices = st.fractions(min_value=Fraction(1, UNITS), max_value=100)
denominators = st.sampled_from([1, 2, 3, 7, 2**20])
sizes = st.fractions(min_value=Fraction(1, 2**20), max_value=10**8)


def _sensitivity(l1: Fraction, l2_squared: Fraction) -> Sensitivity:
    return Sensitivity(l1, l2_squared, Fraction(1))


@given(value=positive)
@example(value=Fraction(1, 3))
@example(value=Fraction(5e-324) / 3)
def test_float_up_is_the_smallest_double_not_below(value):
    result = float_up(value)
    assert Fraction(result) >= value
    assert Fraction(math.nextafter(result, 0)) < value


@given(value=positive)
@example(value=Fraction(2))
@example(value=Fraction(4))
def test_sqrt_up_is_not_below_and_hardly_above(value):
    result = sqrt_up(value)
    assert Fraction(result) ** 2 >= value
    below = Fraction(math.nextafter(math.nextafter(result, 0), 0))
    assert below**2 < value


@settings(max_examples=300)
@given(l1=sizes, epsilon=prices, denominator=denominators)
@example(l1=Fraction(2**15), epsilon=Fraction(1, 10**12), denominator=2**20)
def test_laplace_noise_is_never_too_little(l1, epsilon, denominator):
    if l1 * denominator / calibrate.on_grid(epsilon) > WIDEST:
        with pytest.raises(ParameterError, match="more than any table has records"):
            calibrate.laplace(_sensitivity(l1, l1), epsilon=epsilon, denominator=denominator)
        return
    plan = calibrate.laplace(_sensitivity(l1, l1), epsilon=epsilon, denominator=denominator)
    assert l1 / plan.law.scale <= epsilon
    drawn = plan.law.scale * denominator
    assert Fraction(float(drawn)) == drawn
    assert plan.event.cost(Unit.EPSILON).units <= epsilon * UNITS
    assert plan.event.l1 == l1
    assert plan.event.scale == plan.law.scale
    # and not wasteful: at most one step of the ledger's grid and of the doubles above
    assert plan.law.scale <= l1 / calibrate.on_grid(epsilon) * (1 + Fraction(1, 2**51))


@settings(max_examples=300)
@given(l2_squared=sizes, rho=prices, denominator=denominators)
def test_gaussian_noise_is_never_too_little(l2_squared, rho, denominator):
    plan = calibrate.gaussian(_sensitivity(l2_squared, l2_squared), rho=rho, denominator=denominator)
    drawn = sigma_of(plan.law.sigma_squared * denominator**2)
    assert l2_squared * denominator**2 / (2 * Fraction(drawn) ** 2) <= rho
    assert plan.law.sigma_squared == Fraction(drawn) ** 2 / denominator**2
    assert plan.event.cost(Unit.RHO).units <= rho * UNITS
    assert plan.event.cost(Unit.RHO).slack == 0
    assert plan.law.sigma_squared <= l2_squared / (2 * calibrate.on_grid(rho)) * (1 + Fraction(1, 2**49))


@settings(max_examples=200)
@given(epsilon=prices)
def test_cube_base_is_never_below_the_exponential(epsilon):
    plan = calibrate.cube(epsilon=epsilon)
    precision = 256
    assert plan.law.base * 2**precision >= exp_minus(epsilon, precision)[0]
    assert plan.law.base < 1
    assert plan.event.cost(Unit.EPSILON).units <= epsilon * UNITS
    assert plan.event.epsilon <= epsilon


@settings(max_examples=300)
@given(price=prices)
def test_selection_is_never_too_sharp(price):
    pure = calibrate.selection(price=price, unit=Unit.EPSILON)
    assert 2 / Fraction(pure.scale) <= price
    assert pure.event.method == "permute-and-flip"
    assert pure.event.cost(Unit.EPSILON).units <= price * UNITS
    concentrated = calibrate.selection(price=price, unit=Unit.RHO)
    assert (2 / Fraction(concentrated.scale)) ** 2 / 8 <= price
    assert concentrated.event.method == "exponential"
    assert concentrated.event.cost(Unit.RHO).units <= price * UNITS


@given(price=prices)
def test_a_price_on_the_grid_is_kept(price):
    on_grid = calibrate.on_grid(price)
    assert on_grid <= price < on_grid + Fraction(1, UNITS)
    assert (on_grid * UNITS).denominator == 1


@pytest.mark.parametrize("price", [Fraction(0), Fraction(-1), Fraction(1, UNITS + 1)])
def test_a_price_below_one_unit_is_refused(price):
    with pytest.raises(ParameterError, match="at least 1e-12"):
        calibrate.on_grid(price)


TWO = Domain((Attribute("a", Kind.ORDINAL, codes=3), Attribute("b", Kind.ORDINAL, codes=4)))
ASKED = (Fraction(7), Fraction(400, 3))


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("unit", list(Unit))
def test_tables_state_the_variance_that_is_drawn_and_pay_for_it(unit, relation):
    tables = [Binned(("a",), ((0, 1, 2),)), Binned(("b",), ((0, 1, 2, 3),))]
    plan = calibrate.Prices(unit, unit, relation).tables(TWO, tables, ASKED)
    times = 2 if unit.is_pure else 1  # of Laplace noise the width is the scale, else the deviation
    assert plan.variances == tuple(times * Fraction(width) ** 2 for width in plan.widths)
    wanted = [variance + unit.smoothing for variance in ASKED]
    for variance, least in zip(plan.variances, wanted, strict=True):
        assert least <= variance <= least * (1 + Fraction(1, 2**50))
    moved = 1 if relation is Relation.ADD_REMOVE else 2
    if unit.is_pure:
        price = sum(moved / Fraction(width) for width in plan.widths)
    else:
        price = sum(moved / (2 * (variance - unit.smoothing)) for variance in plan.variances)
    assert price <= Fraction(plan.event.cost(unit).units, UNITS) <= price * (1 + Fraction(1, 10**6))


def test_a_pure_draw_costs_a_ledger_in_rho_what_its_bounded_range_is_worth():
    """epsilon^2 / 8, a quarter of what any pure mechanism costs, and that only where the ledger counts rho."""
    price = Fraction(1, 2)
    costs = {
        ledger: calibrate.Prices(Unit.EPSILON, ledger, Relation.ADD_REMOVE)
        .draw(price, resolution=3, what="a draw")
        .event.cost(ledger)
        .units
        for ledger in (Unit.EPSILON, Unit.RHO)
    }
    assert costs == {Unit.EPSILON: price * UNITS, Unit.RHO: price**2 / 8 * UNITS}
