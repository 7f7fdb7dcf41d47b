"""Delta of rho-zCDP at a given epsilon, with the digits of another library than the one under test."""

from __future__ import annotations

from fractions import Fraction

from mpmath import mp


def delta_of_rho(*, rho: Fraction | float, epsilon: float) -> Fraction:
    """The smallest exp((alpha - 1) (alpha rho - epsilon)) (1 - 1/alpha)^alpha / (alpha - 1) that golden sections find.

    Each order alpha > 1 proves its delta (Canonne, Kamath and Steinke 2020), so a search that ends beside the best one
    states too much and never too little.
    """
    with mp.workdps(50):
        size, limit = _number(rho), _number(epsilon)

        def logarithm(t: mp.mpf) -> mp.mpf:
            alpha = 1 + mp.exp(t)
            return (alpha - 1) * (alpha * size - limit) + alpha * mp.log(1 - 1 / alpha) - mp.log(alpha - 1)

        centre = min((mp.mpf(step) / 4 for step in range(-60, 157)), key=logarithm)
        low, high = centre - mp.mpf(1) / 4, centre + mp.mpf(1) / 4
        golden = (mp.sqrt(5) - 1) / 2
        for _ in range(80):
            left, right = high - golden * (high - low), low + golden * (high - low)
            low, high = (low, right) if logarithm(left) <= logarithm(right) else (left, high)
        return min(Fraction(1), Fraction(str(mp.exp(logarithm((low + high) / 2)))))


def _number(value: Fraction | float) -> mp.mpf:
    exact = Fraction(repr(value)) if isinstance(value, float) else Fraction(value)
    return mp.mpf(exact.numerator) / exact.denominator
