from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

from maquette.core import conversions as c
from maquette.errors import ParameterError


@pytest.mark.parametrize(
    ("epsilon", "delta", "simple", "cks"),
    [
        (1, 1e-6, 0.017468905, 0.024355970),
        (1, 1e-9, 0.011781160, 0.014973058),
        (0.1, 1e-6, 0.000180304, 0.000321048),
    ],
)
def test_rho_of_epsilon_and_delta(epsilon, delta, simple, cks):
    assert float(c.rho_simple(epsilon=epsilon, delta=delta)) == pytest.approx(simple, abs=5e-10)
    assert float(c.rho_cks(epsilon=epsilon, delta=delta)) == pytest.approx(cks, abs=5e-10)


def test_sigma_of_the_discrete_gaussian_by_zcdp():
    rho = c.rho_cks(epsilon=1, delta=1e-6)
    assert math.sqrt(1 / (2 * rho)) == pytest.approx(4.530877, abs=5e-7)
    assert c.rho_of_gaussian(sigma_squared=1 / (2 * rho), l2_squared=1) == rho


def test_advanced_composition_step():
    step = c.advanced_step(epsilon=1, k=100, delta=1e-6)
    assert float(step) == pytest.approx(0.01837567, abs=5e-9)
    assert c.advanced_epsilon(step=step, k=100, delta=1e-6) <= 1
    assert c.advanced_epsilon(step=step * Fraction(10001, 10000), k=100, delta=1e-6) > 1


def test_few_steps_compose_by_their_plain_sum():
    assert c.advanced_epsilon(step=0.5, k=2, delta=1e-6) == 1
    assert c.advanced_step(epsilon=1, k=2, delta=1e-6) == Fraction(1, 2)


def test_rho_of_pure_and_of_bounded_range():
    assert c.rho_of_pure(0.5) == Fraction(1, 8)
    assert c.rho_of_bounded_range(0.5) == Fraction(1, 32)
    for epsilon in (0.01, 0.5, 1.0, 4.0):  # the tight value of a pure mechanism is smaller
        assert epsilon * math.tanh(epsilon / 2) <= c.rho_of_pure(epsilon)


budgets = st.tuples(st.floats(1e-3, 20), st.floats(1e-15, 0.5))


@settings(max_examples=60, deadline=None)
@given(budgets)
def test_rho_is_rounded_down_and_epsilon_up(budget):
    """Each result, put back through the other direction with 50 digits, is on the private side."""
    epsilon, delta = budget
    with mp.workdps(50):
        rho = c.rho_simple(epsilon=epsilon, delta=delta)
        log = -mp.log(_mp(delta))
        size = mp.mpf(rho.numerator) / rho.denominator
        back = size + 2 * mp.sqrt(size * log)
        assert back <= _mp(epsilon)
        assert back > _mp(epsilon) * (1 - mp.mpf(10) ** -30)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(budgets)
def test_the_sharper_conversion_is_valid_and_never_worse(budget):
    """Some order alpha certifies the result with 50 digits, and it is at least as good as the short formula."""
    epsilon, delta = budget
    rho = c.rho_cks(epsilon=epsilon, delta=delta)
    assert rho >= c.rho_simple(epsilon=epsilon, delta=delta)
    with mp.workdps(50):
        size, wanted = mp.mpf(rho.numerator) / rho.denominator, _mp(epsilon)

        def delta_at(t):
            a = 1 + mp.exp(t)
            return mp.exp((a - 1) * (a * size - wanted) + a * mp.log(1 - 1 / a) - mp.log(a - 1))

        best = delta_at(_minimiser(delta_at))
        assert best <= _mp(delta)
        assert best > _mp(delta) * (1 - mp.mpf(10) ** -6)


def test_an_order_off_the_best_one_only_costs_tightness(monkeypatch):
    best = c.rho_cks(epsilon=1, delta=1e-6)
    monkeypatch.setattr(c, "_best_order", lambda _bound: 20.0)
    assert c.rho_simple(epsilon=1, delta=1e-6) <= c.rho_cks(epsilon=1, delta=1e-6) < best
    monkeypatch.setattr(c, "_best_order", lambda _bound: 2.0)
    assert c.rho_cks(epsilon=1, delta=1e-6) == c.rho_simple(epsilon=1, delta=1e-6)


@pytest.mark.parametrize("wrong", [0, 1, -0.1, 1.5, math.nan])
def test_delta_must_lie_between_zero_and_one(wrong):
    for call in (
        lambda: c.rho_simple(epsilon=1, delta=wrong),
        lambda: c.rho_cks(epsilon=1, delta=wrong),
        lambda: c.advanced_epsilon(step=1, k=2, delta=wrong),
    ):
        with pytest.raises(ParameterError, match="delta"):
            call()


@pytest.mark.parametrize("wrong", [-1.0, math.nan, math.inf])
def test_amounts_must_be_finite_and_not_negative(wrong):
    for call in (
        lambda: c.rho_cks(epsilon=wrong, delta=1e-6),
        lambda: c.rho_simple(epsilon=wrong, delta=1e-6),
    ):
        with pytest.raises(ParameterError, match="expected"):
            call()


@given(st.fractions(-10, 10))
def test_floats_are_rounded_to_the_side_they_are_asked_for(value):
    low, high = c.float_down(value), c.float_up(value)
    assert c.exact(low) <= value <= c.exact(high)
    assert high <= math.nextafter(low, math.inf)
    assert c.float_down(Fraction(7, 10)) == c.float_up(Fraction(7, 10)) == 0.7


def _mp(value):
    return mp.mpf(repr(value))


def _minimiser(function):
    centre = min(range(-200, 400), key=lambda t: function(mp.mpf(t) / 20))
    low, high = mp.mpf(centre - 1) / 20, mp.mpf(centre + 1) / 20
    for _ in range(60):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if function(left) <= function(right) else (left, high)
    return (low + high) / 2
