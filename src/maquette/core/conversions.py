"""Conversions between the definitions of privacy loss, each rounded to the private side.

Numbers go in as int, float or Fraction and come out as Fraction.
A float means its shortest decimal form. Logarithms, exponentials and square roots are taken with 60 decimal
digits, each correctly rounded; no expression here has more than 20 operations or an intermediate value above 1e18,
so its error is below 1e-40, and every result is moved by that much to the private side.

The conversion of Canonne, Kamath and Steinke holds for every order alpha > 1: the order is searched for in
floating point, which can cost tightness, never validity, and the bound is then evaluated at it with all digits.

Gaussian differential privacy: what (epsilon, delta) pays for, and what other mechanisms cost in it.

A mechanism is mu-GDP if, for each pair of neighbours, telling its outputs apart is no easier than telling N(0, 1) from
N(mu, 1); by Blackwell's theorem its outputs can then be made from one draw of that Gaussian, without the table (Dong,
Roth and Su 2022). The ledger adds up mu^2 / 2, for a Gaussian the same number as its rho. docs/accounting.md has the
proofs in full; in short:

*Adding up.* Events that are mu_i-GDP given the past, mu_i chosen from the past, with sum mu_i^2 <= mu^2 always, are
mu-GDP together (Smith and Thakurta 2022). Pad with one last Gaussian up to mu^2. Event i is made from the increment of
one Brownian motion with drift 0 or 1 over [t_(i-1), t_i], t_i = mu_1^2 + .. + mu_i^2, which is known when the event
starts; and the path on [0, mu^2] tells the drifts apart by its end alone, N(0, mu^2) or N(mu^2, mu^2). An interactive
pure mechanism is made from one draw of randomised response when it starts (Lyu 2022), hence from an increment too.

*Whole numbers.* Let V = s^2 + t^2, and L the lattice Z^N or a projection of it; the dual of L has whole vectors only.
Draw y from N(x, s^2), then k in L with probability exp(-|k - y|^2 / 2 t^2) / theta(y). By Poisson summation theta(y)
lies within the factors 1 +- E of a constant, E the sum of exp(-2 pi^2 t^2 |xi|^2) over the non-zero points of the dual:
at most (1 + e)^N - 1 with e = 2 sum_j exp(-2 pi^2 t^2 j^2). So k has the density of N(x, V) on L within the factors
1 / (1 +- E), and the discrete Gaussian at x in L, of variance parameter V, has it up to 1 / (1 + E'), 0 <= E' <= E. The
logarithms of the two laws differ by at most ln((1 + E) / (1 - E)) <= 2.1 N e where N e <= 0.01. Up to that ratio the
discrete Gaussian is made from the continuous one of variance V - t^2.

*What a ratio costs.* If every law lies within exp(+-K) of one that is (epsilon_0, delta_0)-DP, it is
(epsilon_0 + 2 K, e^K delta_0)-DP. Ratios of events add up along every path, whatever was chosen when.

*Pure events* (`half_square_of_rho`). epsilon-DP is mu-GDP for mu = 2 Phi^-1(p), logit p = epsilon; bounded range
epsilon leaves two points whose logits differ by epsilon, so mu is the largest difference of Phi^-1 over such pairs.
Since phi(Phi^-1(p)) >= 4 phi(0) p (1 - p), Phi^-1 grows by at most sqrt(2 pi) / 4 per unit of logit: mu is at most
sqrt(2 pi) epsilon / 2 and sqrt(2 pi) epsilon / 4. The half squares pi epsilon^2 / 4 and pi epsilon^2 / 16 are both
pi / 2 times the rho of zCDP.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

from maquette.core import _check
from maquette.core.errors import ParameterError

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


def rho_simple(*, epsilon: Number, delta: Number) -> Fraction:
    """The rho that (epsilon, delta) pays for by the short formula, rounded down.

    Guarantee: rho-zCDP implies (rho + 2 sqrt(rho ln(1/delta)), delta)-DP (Bun and Steinke 2016); this is its inverse,
        (sqrt(ln(1/delta) + epsilon) - sqrt(ln(1/delta)))^2.
    """
    _check.positive(epsilon=float(epsilon))
    log = _DIGITS.minus(_log(_delta(delta)))
    larger = _DIGITS.sqrt(_DIGITS.add(log, _decimal(exact(epsilon))))
    # epsilon over the sum of the roots is their difference without cancellation
    root = _DIGITS.divide(_decimal(exact(epsilon)), _DIGITS.add(larger, _DIGITS.sqrt(log)))
    return _down(_DIGITS.multiply(root, root))


def rho_cks(*, epsilon: Number, delta: Number) -> Fraction:
    """The rho that (epsilon, delta) pays for, rounded down; never below `rho_simple`.

    Guarantee: rho-zCDP implies (epsilon, delta)-DP for the smallest epsilon over all alpha > 1 (Canonne, Kamath and
        Steinke 2020), and every alpha proves its own

        epsilon = alpha rho + (alpha ln(1 - 1/alpha) - ln(delta (alpha - 1))) / (alpha - 1)

    so that for every alpha it pays for

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


SMOOTHING = Fraction(9, 4)
"""t^2: the part of an integer noise's variance that pays for its being integer."""
_PI_UP = Fraction(355, 113)
_RATIO_PER_COORDINATE = Fraction(22, 10**20)
"""2.1 e at t^2 = 9/4, rounded up: 4.2 exp(-4.5 pi^2) < 2.17e-19, and the terms with j > 1 are below 1e-70."""
_MAX_COORDINATES = 10**16

_GAUSSIAN_DIGITS = decimal.Context(prec=80, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_TWO_PI = Decimal("6.2831853071795864769252867665590057683943387987502116419498891846156328125724")
_GAUSSIAN_MARGIN = Decimal("1e-45")
_ABOVE_ONE = _GAUSSIAN_DIGITS.add(Decimal(1), _GAUSSIAN_MARGIN)
_SERIES_REACH = 6
_STEPS = tuple(Decimal(10) ** (-power) for power in range(15, 0, -1))
"""By which parts a guess is moved down until it is proved to be within delta."""
_SMALLEST = Decimal("1e-9")
_FRACTION_DEPTH = 120


def log_ratio(coordinates: int) -> Fraction:
    """How far the logarithm of integer noise lies from one made from continuous noise: 2.1 N e, rounded up."""
    if coordinates > _MAX_COORDINATES:
        raise ParameterError(f"expected at most {_MAX_COORDINATES:g} noisy numbers, got {coordinates:g}")
    return coordinates * _RATIO_PER_COORDINATE


def half_square_of_rho(rho: Fraction) -> Fraction:
    """mu^2 / 2 of a pure event or a choice by bounded range, from its rho: pi / 2 times as much, rounded up.

    Holds when: the rho is epsilon^2 / 2 of pure epsilon, or epsilon^2 / 8 of bounded range; for no other zCDP claim.
    """
    return rho * _PI_UP / 2


def rho_of_half_square(half: Fraction) -> Fraction:
    """The inverse of `half_square_of_rho`, rounded down: 2 / pi of mu^2 / 2."""
    return half * 2 / _PI_UP


def half_square(*, epsilon: Number, delta: Number) -> Fraction:
    """The mu^2 / 2 that (epsilon, delta) pays for, rounded down: the largest found whose delta is within it.

    It is searched for in floating point, which can cost tightness, never validity, and then moved down until the delta,
    with all digits, is within the wanted one.
    """
    limit, size = _gaussian_decimal(exact(delta)), _gaussian_decimal(exact(epsilon))
    guess = Decimal(_guess(float(size), float(limit)))
    for less in _STEPS:
        mu = _GAUSSIAN_DIGITS.multiply(guess, _GAUSSIAN_DIGITS.subtract(Decimal(1), less))
        if mu > _SMALLEST and _delta_up(mu, size) <= limit:
            return Fraction(mu) ** 2 / 2
    return Fraction(0)


def _guess(epsilon: float, delta: float) -> float:
    low, high = 0.0, 1.0
    while _rough_delta(high, epsilon) <= delta:
        low, high = high, 2 * high
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _rough_delta(middle, epsilon) <= delta else (low, middle)
    return low


def _rough_delta(mu: float, epsilon: float) -> float:
    if mu < 1e-9:
        return 0.0
    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    density = math.exp(-a * a / 2) / math.sqrt(2 * math.pi)
    if a < 0:
        return 1 - density * (_rough_mills(-a) + _rough_mills(b))
    return density * (_rough_mills(a) - _rough_mills(b))


def _rough_mills(x: float) -> float:
    if x <= _SERIES_REACH:
        return math.erfc(x / math.sqrt(2)) * math.sqrt(math.pi / 2) * math.exp(x * x / 2)
    rest = x
    for depth in range(60, 0, -1):
        rest = x + depth / rest
    return 1 / rest


def _delta_up(mu: Decimal, epsilon: Decimal) -> Decimal:
    """Delta of mu-GDP at a given epsilon, rounded up.

    Guarantee: Phi(-epsilon / mu + mu / 2) - e^epsilon Phi(-epsilon / mu - mu / 2), as of N(0, 1) against N(mu, 1). With
        a, b = epsilon / mu -+ mu / 2 and the Mills ratio M = Phi(-.) / phi it is phi(a) (M(a) - M(b)): no exponential
        of epsilon, and few digits cancel.
    """
    drift, half = _GAUSSIAN_DIGITS.divide(epsilon, mu), _GAUSSIAN_DIGITS.divide(mu, Decimal(2))
    a, b = _GAUSSIAN_DIGITS.subtract(drift, half), _GAUSSIAN_DIGITS.add(drift, half)
    near, far = _mills(a.copy_abs()), _GAUSSIAN_DIGITS.subtract(_mills(b), _GAUSSIAN_MARGIN)
    if a >= 0:
        difference = _GAUSSIAN_DIGITS.subtract(_GAUSSIAN_DIGITS.add(near, _GAUSSIAN_MARGIN), far)
        return _GAUSSIAN_DIGITS.multiply(_GAUSSIAN_DIGITS.multiply(_density(a), difference), _ABOVE_ONE)
    # Phi(-a) = 1 - phi(a) M(-a)
    both = _GAUSSIAN_DIGITS.add(_GAUSSIAN_DIGITS.subtract(near, _GAUSSIAN_MARGIN), far)
    return _GAUSSIAN_DIGITS.subtract(_ABOVE_ONE, _GAUSSIAN_DIGITS.multiply(_density(a), both))


def _density(x: Decimal) -> Decimal:
    square = _GAUSSIAN_DIGITS.divide(_GAUSSIAN_DIGITS.multiply(x, x), Decimal(2))
    return _GAUSSIAN_DIGITS.divide(
        _GAUSSIAN_DIGITS.exp(_GAUSSIAN_DIGITS.minus(square)), _GAUSSIAN_DIGITS.sqrt(_TWO_PI)
    )


def _mills(x: Decimal) -> Decimal:
    """Phi(-x) / phi(x) for x >= 0, to 50 digits behind the point."""
    return _mills_series(x) if x <= _SERIES_REACH else _mills_fraction(x)


def _mills_series(x: Decimal) -> Decimal:
    """1 / (2 phi(x)) - (x + x^3 / 3 + x^5 / 15 + ..), x at most 6."""
    square = _GAUSSIAN_DIGITS.multiply(x, x)
    term = total = x
    odd = 1
    while term > Decimal("1e-70"):
        odd += 2
        term = _GAUSSIAN_DIGITS.divide(_GAUSSIAN_DIGITS.multiply(term, square), Decimal(odd))
        total = _GAUSSIAN_DIGITS.add(total, term)
    # all terms are positive, and at the end each is below a half of the one before: what is left out is below 2e-70
    return _GAUSSIAN_DIGITS.subtract(_GAUSSIAN_DIGITS.divide(Decimal("0.5"), _density(x)), total)


def _mills_fraction(x: Decimal) -> Decimal:
    """1 / (x + 1 / (x + 2 / (x + ..))): the true value lies between any two neighbouring depths."""
    rest = x
    for depth in range(_FRACTION_DEPTH, 0, -1):
        rest = _GAUSSIAN_DIGITS.add(x, _GAUSSIAN_DIGITS.divide(Decimal(depth), rest))
    return _GAUSSIAN_DIGITS.divide(Decimal(1), rest)


def _gaussian_decimal(value: Fraction) -> Decimal:
    return _GAUSSIAN_DIGITS.divide(Decimal(value.numerator), Decimal(value.denominator))
