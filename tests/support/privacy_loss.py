"""The privacy loss between two recorded draws, exactly: rationals, or decimals rounded up.

Each function takes the inputs of the same draw on two neighbouring tables and returns the loss of its output law:
the largest log-ratio (pure), the rho of zero-concentrated or the mu^2 / 2 of Gaussian differential privacy.
"""

from __future__ import annotations

import itertools
import math
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from support.privacy_doubles import Call

DIGITS = 60
_ROUNDING = Fraction(1, 10**45)


def pure(one: Call, other: Call) -> Fraction:
    """The largest log-ratio over all outputs; an upper bound where logarithms enter."""
    parameters = dict(one.parameters)
    apart = np.abs(one.exact - other.exact)
    match one.method:
        case "laplace":
            return Fraction(int(apart.sum())) / parameters["scale"]
        case "cube":
            return int(apart.max(initial=0)) * minus_log(parameters["base"])
        case "norm":
            # the norm and its rounding to levels are subadditive: no level moves by more than that of the difference
            levels = math.ceil(parameters["resolution"] * parameters["body"].norm(one.exact - other.exact))
            return levels * minus_log(parameters["decay"])
        case "draw":
            return _spread(one.exact - other.exact) * minus_log(parameters["base"])
        case "select" if parameters["method"] == "exponential":
            return _exponential_ratio(one.exact, other.exact, parameters["scale"])
        case "select":
            return _permute_and_flip_ratio(one.exact, other.exact, parameters["scale"])
        case _:
            raise AssertionError(f"{one.method} has no pure loss")


def rho(one: Call, other: Call) -> Fraction:
    """The zCDP loss: exact for Gaussian noise, by bounded range for the exponential mechanism, else epsilon^2 / 2."""
    parameters = dict(one.parameters)
    apart = one.exact - other.exact
    if one.method == "gaussian":
        return gaussian_rho(apart, Fraction(parameters["sigma"]) ** 2)
    if one.method == "select" and parameters["method"] == "exponential":
        return (_spread(apart) / Fraction(parameters["scale"])) ** 2 / 8
    if one.method == "draw":
        return pure(one, other) ** 2 / 8
    return pure(one, other) ** 2 / 2


def half_square(one: Call, other: Call) -> Fraction:
    """mu^2 / 2 of Gaussian differential privacy, by other formulas than the account's: exact values, not its bounds.

    Pure events and choices at their extremes, two points whose logits are apart by the whole range.
    """
    parameters = dict(one.parameters)
    apart = one.exact - other.exact
    if one.method == "gaussian":
        return gaussian_half_square(apart, Fraction(parameters["sigma"]) ** 2)
    if one.method == "select" and parameters["method"] == "exponential":
        return _two_points(_spread(apart) / Fraction(parameters["scale"]) / 2)
    if one.method == "draw":
        return _two_points(pure(one, other) / 2)
    return _two_points(pure(one, other))


def gaussian_half_square(apart: np.ndarray, variance: Fraction, denominator: int = 1) -> Fraction:
    """Of the continuous Gaussian that integer noise is set against: 9/4 of its variance are lost."""
    return gaussian_rho(apart, variance - Fraction(9, 4), denominator)


def _two_points(logit: Fraction) -> Fraction:
    """mu = 2 Phi^-1(p) for two points with chances p and 1 - p; a hair less for the rounding of the quantile."""
    mu = 2 * NormalDist().inv_cdf(1 / (1 + math.exp(-float(logit)))) if logit else 0.0
    return Fraction(max(mu * (1 - 1e-9) - 1e-12, 0.0)) ** 2 / 2


def _spread(apart: np.ndarray) -> Fraction:
    """How much more one candidate's score moved than another's: it bounds the range of the log-ratio."""
    return Fraction(int(apart.max() - apart.min()))


def gaussian_rho(apart: np.ndarray, variance: Fraction, denominator: int = 1) -> Fraction:
    """Of the discrete Gaussian on a lattice; `apart` are whole numbers over `denominator`."""
    squares = sum(v * v for v in apart.ravel().tolist())
    return Fraction(squares, denominator**2) / (2 * variance)


@lru_cache
def minus_log(base: Fraction) -> Fraction:
    """-ln(base), rounded up."""
    with localcontext() as context:
        context.prec = DIGITS
        return -Fraction((Decimal(base.numerator) / Decimal(base.denominator)).ln()) + _ROUNDING


def _exponential_ratio(one: np.ndarray, other: np.ndarray, scale: float) -> Fraction:
    return _largest_ratio(_exponential(one, scale), _exponential(other, scale))


def _permute_and_flip_ratio(one: np.ndarray, other: np.ndarray, scale: float) -> Fraction:
    return _largest_ratio(permute_and_flip(one, scale), permute_and_flip(other, scale))


def _largest_ratio(one: list[Decimal], other: list[Decimal]) -> Fraction:
    with localcontext() as context:
        context.prec = DIGITS
        context.rounding = ROUND_CEILING
        return max(abs(Fraction((a / b).ln())) for a, b in zip(one, other, strict=True)) + _ROUNDING


def _exponential(scores: np.ndarray, scale: float) -> list[Decimal]:
    with localcontext() as context:
        context.prec = DIGITS
        weights = [(Decimal(int(s)) / Decimal(scale)).exp() for s in scores]
        total = sum(weights, Decimal(0))
        return [w / total for w in weights]


def exponential(scores: np.ndarray, scale: float) -> list[Decimal]:
    """P of every candidate under the exponential mechanism, weights exp(score / scale)."""
    return _exponential(scores, scale)


def permute_and_flip(scores: np.ndarray, scale: float) -> list[Decimal]:
    """P of every candidate: it wins if it accepts and all that were visited before it declined."""
    return _permute_and_flip(tuple(map(int, scores)), scale)


@lru_cache(maxsize=4096)
def _permute_and_flip(scores: tuple[int, ...], scale: float) -> list[Decimal]:
    with localcontext() as context:
        context.prec = DIGITS
        accept = [(Decimal(s - max(scores)) / Decimal(scale)).exp() for s in scores]
        count = len(accept)
        chances: list[Decimal] = []
        for i, chance in enumerate(accept):
            others = [1 - a for j, a in enumerate(accept) if j != i]
            total = Decimal(0)
            for before in range(count):
                orders = math.factorial(before) * math.factorial(count - 1 - before)
                declined = sum(
                    (
                        math.prod(chosen, start=Decimal(1))
                        for chosen in itertools.combinations(others, before)
                    ),
                    Decimal(0),
                )
                total += declined * orders / math.factorial(count)
            chances.append(chance * total)
        return chances
