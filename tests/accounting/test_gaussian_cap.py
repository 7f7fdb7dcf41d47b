"""What (epsilon, delta) pays for by Gaussian differential privacy, against 60 digits of another library."""

from decimal import Decimal
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maquette.accounting import SLACK_UNITS, UNITS, Budget
from maquette.core import budget, conversions
from maquette.core.conversions import half_square
from maquette.errors import ParameterError

mpmath.mp.dps = 60


def number(value) -> mpmath.mpf:
    """The same rational number."""
    value = Fraction(repr(value)) if isinstance(value, float) else Fraction(value)
    return mpmath.mpf(value.numerator) / value.denominator


def true_delta(mu, epsilon) -> mpmath.mpf:
    """Phi(-e/mu + mu/2) - exp(e) Phi(-e/mu - mu/2), as it is written."""
    mu, epsilon = number(mu), number(epsilon)
    with mpmath.workdps(80 + int(epsilon / 2)):
        upper = mpmath.erfc((epsilon / mu - mu / 2) / mpmath.sqrt(2)) / 2
        lower = mpmath.erfc((epsilon / mu + mu / 2) / mpmath.sqrt(2)) / 2
        return upper - mpmath.exp(epsilon) * lower


def keeps_its_promise(epsilon: float, delta: float, units: int, slack: int) -> bool:
    """Is everything within this total, and within this ratio of it, (epsilon, delta)-DP?"""
    ratio = Fraction(slack, SLACK_UNITS)
    mu = mpmath.sqrt(2 * number(Fraction(units, UNITS)))
    left = number(epsilon) - 2 * number(ratio)
    upper = mpmath.erfc((left / mu - mu / 2) / mpmath.sqrt(2)) / 2
    lower = mpmath.erfc((left / mu + mu / 2) / mpmath.sqrt(2)) / 2
    return mpmath.exp(number(ratio)) * (upper - mpmath.exp(left) * lower) <= number(delta)


def stated_delta(mu, epsilon):
    """What the search for the largest mu compares with the wanted delta."""
    size, limit = (conversions._gaussian_decimal(conversions.exact(value)) for value in (mu, epsilon))
    return number(Fraction(max(Decimal("1e-320"), conversions._delta_up(size, limit))))  # a short fraction


@pytest.mark.parametrize(("epsilon", "mu"), [(0.1, 0.0199164), (1.0, 0.1819748), (10.0, 1.5378773)])
def test_known_values_at_a_billionth(epsilon, mu):
    found = half_square(epsilon=epsilon, delta=1e-9)
    assert float(2 * found) ** 0.5 == pytest.approx(mu, abs=5e-8)


@settings(max_examples=60, deadline=None)
@given(
    epsilon=st.floats(0.01, 60),
    exponent=st.floats(-30, -0.1),
)
def test_the_cap_is_below_the_truth_and_close_to_it(epsilon, exponent):
    delta = 10.0**exponent
    found = half_square(epsilon=epsilon, delta=delta)
    mu = mpmath.sqrt(2 * number(found))

    def at(m):
        return true_delta(Fraction(str(m)), epsilon)

    assert at(mu) <= number(delta)
    assert at(mu * (1 + mpmath.mpf(10) ** -9)) > number(delta)


@settings(max_examples=60, deadline=None)
@given(mu=st.floats(0.05, 12), epsilon=st.floats(0.001, 60))
def test_delta_is_rounded_up_by_a_hair(mu, epsilon):
    truth = true_delta(mu, epsilon)
    found = stated_delta(mu, epsilon)
    assert truth <= found <= truth + mpmath.mpf(10) ** -30


def test_both_ways_of_reckoning_the_tail_agree_where_they_meet():
    for mu in (0.5, 1.0, 2.0):
        for a in ("5.999", "6.001", "0.001", "-0.001", "-3"):
            epsilon = Fraction(str(mu)) * (Fraction(a) + Fraction(str(mu)) / 2)
            if epsilon > 0:
                truth = true_delta(mu, epsilon)
                assert abs(stated_delta(mu, epsilon) - truth) < mpmath.mpf(10) ** -35


def test_what_is_too_small_pays_for_nothing():
    assert half_square(epsilon=1e-12, delta=1e-300) == 0
    with pytest.raises(ParameterError, match="below the smallest amount"):
        Budget(1e-9, 1e-12, "gaussian")


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9, 1e-30])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 3.0, 10.0, 60.0])
def test_a_budget_keeps_its_promise(epsilon, delta):
    held = Budget(epsilon, delta, "gaussian")
    assert held.unit == "mu^2/2"
    assert keeps_its_promise(epsilon, delta, held.total_units, held.slack_units)
    assert not keeps_its_promise(
        epsilon, delta, held.total_units + held.total_units // 1000, held.slack_units
    )
    # what is kept for ratios costs less than a part in ten thousand
    assert held.total_units > 0.9998 * float(half_square(epsilon=epsilon, delta=delta)) * UNITS - 1


def test_planted_a_cap_that_forgets_the_ratios_is_caught(monkeypatch):
    monkeypatch.setattr(budget, "_gaussian_units", lambda e, d: int(half_square(epsilon=e, delta=d) * UNITS))
    held = Budget(1.0, 1e-9, "gaussian")
    assert not keeps_its_promise(1.0, 1e-9, held.total_units, held.slack_units)


def test_planted_the_cap_of_zcdp_turned_the_wrong_way_is_caught(monkeypatch):
    monkeypatch.setattr(
        budget, "half_square", lambda epsilon, delta: 2 * half_square(epsilon=epsilon, delta=delta)
    )
    budget._gaussian_units.cache_clear()
    held = Budget(1.0, 1e-9, "gaussian")
    assert not keeps_its_promise(1.0, 1e-9, held.total_units, held.slack_units)
    budget._gaussian_units.cache_clear()


@pytest.mark.parametrize("delta", [1e-6, 1e-9])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_it_pays_for_more_than_zcdp(epsilon, delta):
    gain = Budget(epsilon, delta, "gaussian").total_units / Budget(epsilon, delta).total_units
    assert 1.05 < gain < 1.2


def test_a_pure_budget_is_counted_in_one_way_only():
    assert Budget(1.0, accounting="gaussian") == Budget(1.0)
    assert Budget(1.0, accounting="gaussian").unit == "epsilon"
    assert Budget(1.0, 1e-9, "gaussian") != Budget(1.0, 1e-9)
    with pytest.raises(ParameterError, match="accounting"):
        Budget(1.0, 1e-9, "renyi")  # pyright: ignore[reportArgumentType]
