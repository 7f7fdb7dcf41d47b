"""Conversions between the definitions of privacy loss, each rounded to the private side.

Numbers go in as int, float or Fraction and come out as Fraction.
A float means its shortest decimal form. Logarithms, exponentials and square roots are taken with 60 decimal
digits, each correctly rounded; no expression here has more than 20 operations or an intermediate value above 1e18,
so its error is below 1e-40, and every result is moved by that much to the private side.

The conversion of Canonne, Kamath and Steinke holds for every order alpha > 1: the order is searched for in
floating point, which can cost tightness, never validity, and the bound is then evaluated at it with all digits.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

from maquette import _check

Number = int | float | Fraction

_DIGITS = decimal.Context(prec=60, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_MARGIN = Fraction(1, 10**40)


def exact(value: Number) -> Fraction:
    """The rational number that was meant: a float stands for its shortest decimal form, 0.1 is one tenth."""
    return Fraction(repr(float(value))) if isinstance(value, float) else Fraction(value)


def rho_of_pure(epsilon: Number) -> Fraction:
    """The rho of a pure mechanism.

    Guarantee: epsilon-DP implies (epsilon^2 / 2)-zCDP (Bun and Steinke 2016).
    """
    return exact(epsilon) ** 2 / 2


def rho_of_bounded_range(epsilon: Number) -> Fraction:
    """The rho of the exponential mechanism. It does not hold for permute-and-flip or noisy maxima with Laplace noise.

    Guarantee: epsilon-bounded range implies (epsilon^2 / 8)-zCDP (Cesar and Rogers 2021).
    """
    return exact(epsilon) ** 2 / 8


def rho_of_gaussian(*, sigma_squared: Number, l2_squared: Number) -> Fraction:
    """The rho of Gaussian noise, continuous or discrete.

    Guarantee: variance sigma^2 on answers with L2 sensitivity D is (D^2 / (2 sigma^2))-zCDP.
    """
    return exact(l2_squared) / (2 * exact(sigma_squared))


def epsilon_simple(*, rho: Number, delta: Number) -> Fraction:
    """Epsilon of rho-zCDP by the short formula, rounded up.

    Guarantee: rho-zCDP implies (rho + 2 sqrt(rho ln(1/delta)), delta)-DP (Bun and Steinke 2016).
    """
    if rho == 0:
        return Fraction(0)
    _check.positive(rho=float(rho))
    log = _DIGITS.minus(_log(_delta(delta)))
    root = _DIGITS.sqrt(_DIGITS.multiply(_decimal(exact(rho)), log))
    return _up(_DIGITS.add(_decimal(exact(rho)), _DIGITS.multiply(Decimal(2), root)))


def rho_simple(*, epsilon: Number, delta: Number) -> Fraction:
    """The inverse of `epsilon_simple`, rounded down: (sqrt(ln(1/delta) + epsilon) - sqrt(ln(1/delta)))^2."""
    _check.positive(epsilon=float(epsilon))
    log = _DIGITS.minus(_log(_delta(delta)))
    larger = _DIGITS.sqrt(_DIGITS.add(log, _decimal(exact(epsilon))))
    # epsilon over the sum of the roots is their difference without cancellation
    root = _DIGITS.divide(_decimal(exact(epsilon)), _DIGITS.add(larger, _DIGITS.sqrt(log)))
    return _down(_DIGITS.multiply(root, root))


def epsilon_cks(*, rho: Number, delta: Number) -> Fraction:
    """Epsilon of rho-zCDP, rounded up; never above `epsilon_simple`.

    Guarantee: rho-zCDP implies (epsilon, delta)-DP for the smallest epsilon over all alpha > 1 (Canonne, Kamath and
        Steinke 2020).

        epsilon = alpha rho + (alpha ln(1 - 1/alpha) - ln(delta (alpha - 1))) / (alpha - 1)
    """
    if rho == 0:
        return Fraction(0)
    _check.positive(rho=float(rho))
    size, log_delta = float(rho), float(_log(_delta(delta)))

    def bound(a: float) -> float:
        return a * size + (_order_term(a) - log_delta) / (a - 1)

    a, term = _order(_best_order(bound))
    tail = _DIGITS.divide(_DIGITS.subtract(term, _log(_delta(delta))), _DIGITS.subtract(a, Decimal(1)))
    value = _up(_DIGITS.add(_DIGITS.multiply(a, _decimal(exact(rho))), tail))
    return max(Fraction(0), min(value, epsilon_simple(rho=rho, delta=delta)))


def rho_cks(*, epsilon: Number, delta: Number) -> Fraction:
    """The rho that (epsilon, delta) pays for, the inverse of `epsilon_cks`, rounded down.

    rho = epsilon / alpha - (alpha ln(1 - 1/alpha) - ln(delta (alpha - 1))) / (alpha (alpha - 1))
    """
    _check.positive(epsilon=float(epsilon))
    size, log_delta = float(epsilon), float(_log(_delta(delta)))

    def bound(a: float) -> float:
        return -(size + (log_delta - _order_term(a)) / (a - 1)) / a

    a, term = _order(_best_order(bound))
    tail = _DIGITS.divide(_DIGITS.subtract(_log(_delta(delta)), term), _DIGITS.subtract(a, Decimal(1)))
    value = _down(_DIGITS.divide(_DIGITS.add(_decimal(exact(epsilon)), tail), a))
    return max(value, rho_simple(epsilon=epsilon, delta=delta))


def delta_cks(*, rho: Number, epsilon: Number) -> Fraction:
    """Delta of rho-zCDP at a given epsilon, rounded up.

    delta = exp((alpha - 1) (alpha rho - epsilon)) (1 - 1/alpha)^alpha / (alpha - 1)
    """
    _check.positive(rho=float(rho))
    size, limit = float(rho), float(epsilon)

    def bound(a: float) -> float:
        return (a - 1) * (a * size - limit) + _order_term(a)

    a, term = _order(_best_order(bound))
    moment = _DIGITS.subtract(_DIGITS.multiply(a, _decimal(exact(rho))), _decimal(exact(epsilon)))
    logarithm = _DIGITS.add(_DIGITS.multiply(_DIGITS.subtract(a, Decimal(1)), moment), term)
    if logarithm >= 0:
        return Fraction(1)
    return min(Fraction(1), Fraction(_DIGITS.exp(logarithm)) * (1 + _MARGIN))


def advanced_epsilon(*, step: Number, k: int, delta: Number) -> Fraction:
    """Epsilon of k pure steps, rounded up: advanced composition, or the plain sum where that is smaller.

    Guarantee: k adaptive step-DP mechanisms are (sqrt(2 k ln(1/delta)) step + k step (e^step - 1), delta)-DP (Dwork,
        Rothblum and Vadhan 2010). Composition through zCDP is almost always better.
    """
    _check.whole(k=k)
    size = _decimal(exact(step))
    spread = _DIGITS.sqrt(_DIGITS.multiply(Decimal(2 * k), _DIGITS.minus(_log(_delta(delta)))))
    drift = _DIGITS.multiply(Decimal(k), _DIGITS.subtract(_DIGITS.exp(size), Decimal(1)))
    advanced = _up(_DIGITS.multiply(size, _DIGITS.add(spread, drift)))
    return min(advanced, k * exact(step))


def advanced_step(*, epsilon: Number, k: int, delta: Number) -> Fraction:
    """The largest step whose `advanced_epsilon` stays within epsilon, rounded down."""
    _check.positive(epsilon=float(epsilon))
    low, high = exact(epsilon) / k, exact(epsilon)
    for _ in range(80):
        middle = Fraction(_decimal((low + high) / 2))
        if advanced_epsilon(step=middle, k=k, delta=delta) <= exact(epsilon):
            low = middle
        else:
            high = middle
    return low


def exp_up(value: Number) -> Fraction:
    """e to a power, rounded up."""
    return Fraction(_DIGITS.exp(_decimal(exact(value)))) * (1 + _MARGIN)


def float_down(value: Fraction) -> float:
    """The largest float that does not mean (in its shortest decimal form) more than the value."""
    near = float(value)
    return math.nextafter(near, -math.inf) if exact(near) > value else near


def float_up(value: Fraction) -> float:
    """The smallest float that does not mean less than the value."""
    return -float_down(-value)


def _order_term(a: float) -> float:
    return a * math.log1p(-1 / a) - math.log(a - 1)


def _order(order: float) -> tuple[Decimal, Decimal]:
    """alpha with all digits, and alpha ln(1 - 1/alpha) - ln(alpha - 1)."""
    a = Decimal(order)
    less = _DIGITS.subtract(a, Decimal(1))
    shrink = _DIGITS.multiply(a, _DIGITS.ln(_DIGITS.divide(less, a)))
    return a, _DIGITS.subtract(shrink, _DIGITS.ln(less))


def _best_order(bound: Callable[[float], float]) -> float:
    """An order that makes the bound small: a coarse scan of ln(alpha - 1), then golden sections."""
    grid = [t / 4 for t in range(-60, 157)]
    centre = min(grid, key=lambda t: bound(1 + math.exp(t)))
    low, high = centre - 0.25, centre + 0.25
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(60):
        left, right = high - golden * (high - low), low + golden * (high - low)
        if bound(1 + math.exp(left)) <= bound(1 + math.exp(right)):
            high = right
        else:
            low = left
    return 1 + math.exp((low + high) / 2)


def _delta(delta: Number) -> Fraction:
    _check.fraction(delta=float(delta))
    return exact(delta)


def _decimal(value: Fraction) -> Decimal:
    return _DIGITS.divide(Decimal(value.numerator), Decimal(value.denominator))


def _log(value: Fraction) -> Decimal:
    return _DIGITS.ln(_decimal(value))


def _up(value: Decimal) -> Fraction:
    number = Fraction(value)
    return number + _MARGIN * max(1, abs(number))


def _down(value: Decimal) -> Fraction:
    number = Fraction(value)
    return max(Fraction(0), number - _MARGIN * max(1, abs(number)))
