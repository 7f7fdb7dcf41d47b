"""Rounding to the private side: up, in exact arithmetic, so that noise is never narrower than what was paid for."""

from __future__ import annotations

import math
from fractions import Fraction

_GRID_BITS = 100


def float_up(value: Fraction) -> float:
    """The smallest double that is not below the value."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def sqrt_up(value: Fraction) -> float:
    """A double whose square is not below the value, and hardly above it."""
    root = math.sqrt(float_up(value))
    while Fraction(root) ** 2 < value:
        root = math.nextafter(root, math.inf)
    return root


def sigma_of(variance: Fraction) -> float:
    """The double that is the root of a variance, or one whose square is hardly above it where there is none."""
    root = Fraction(math.isqrt(variance.numerator), math.isqrt(variance.denominator))
    is_exact = root**2 == variance and Fraction(float(root)) == root
    return float(root) if is_exact else sqrt_up(variance)


def grid_up(value: Fraction) -> Fraction:
    """Up to a multiple of 2^-100, so that the numbers that an event stores stay short."""
    return Fraction(math.ceil(value * 2**_GRID_BITS), 2**_GRID_BITS)
