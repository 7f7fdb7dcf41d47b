"""L-infinity noise (Steinke and Ullman 2016): the law of its largest coordinate, continuous and integer."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from maquette import _check

_TERMS = 200_000
_GUARD = 1e-6
"""Relative margin for the rounding of logarithms (at most k ln(2j+1) 2^-52) and for the cut of the far tail."""


def continuous(*, epsilon: float, queries: float, beta: float) -> float:
    """The exact (1-beta) quantile of the largest coordinate of continuous L-infinity noise.

    Accuracy: density proportional to exp(-epsilon max|z|) gives max|z| ~ Gamma(k, 1/epsilon) exactly.
    Holds when: continuous noise; the integer law exceeds this quantile more often.
    """
    _check.positive(epsilon=epsilon, queries=queries)
    _check.fraction(beta=beta)
    return _gamma_quantile(queries, -math.log(beta)) / epsilon


def integer(*, epsilon: float, queries: int, beta: float) -> float:
    """The (1-beta) quantile of the largest coordinate of the integer L-infinity law, P(z) ~ exp(-epsilon max|z|).

    Accuracy: the exact quantile of the shell law P(max|z| = j) ~ ((2j+1)^k - (2j-1)^k) e^(-epsilon j), summed
        in logarithms and rounded outward. Where that needs very many terms (small epsilon), the smallest j
        with e^epsilon P(Gamma(k) > epsilon (j + 1/2)) <= beta: a unit cube around each lattice point changes
        max|z| by at most 1/2, above and below.
    Holds when: base = e^-epsilon is what was drawn with, not a request.
    """
    _check.positive(epsilon=epsilon)
    _check.whole(queries=queries)
    _check.fraction(beta=beta)
    first = max(0, math.floor(_gamma_low(queries) / epsilon) - 1)
    last = _outer(epsilon, queries, beta * 1e-9)
    if last - first > _TERMS:
        return float(_outer(epsilon, queries, beta))
    radii = np.arange(first, last + 1, dtype=float)
    tails = _tails(log_shells(radii, epsilon=epsilon, queries=queries))
    return float(radii[int(np.argmax(tails * (1 + _GUARD) <= beta))])


def log_shells(radii: NDArray[np.float64], *, epsilon: float, queries: int) -> NDArray[np.float64]:
    """ln(((2j+1)^k - (2j-1)^k) e^(-epsilon j)); the inner point has weight 1."""
    outer = 2 * radii + 1
    with np.errstate(divide="ignore"):
        hollow = np.where(radii > 0, queries * np.log1p(-2 / np.maximum(outer, 3)), -np.inf)
    return queries * np.log(outer) + np.log(-np.expm1(hollow)) - epsilon * radii


def _tails(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """P(R > j) for each radius in the window; weights below the window are left out, which raises the tail."""
    weights = np.exp(logs - logs.max())
    from_here = np.cumsum(weights[::-1])[::-1]
    return np.append(from_here[1:], 0.0) / from_here[0]


def _outer(epsilon: float, queries: float, beta: float) -> int:
    """A radius that the integer law exceeds with probability at most beta, by comparison with the Gamma law."""
    quantile = _gamma_quantile(queries, epsilon - math.log(beta)) * (1 + 1e-9)
    return max(0, math.ceil(quantile / epsilon - 0.5))


def _gamma_quantile(queries: float, failure: float) -> float:
    """The t with P(Gamma(k) > t) = e^-failure; where the inverse is out of reach, a bound from above.

    P(G > k + sqrt(2kL) + L) <= e^-L (Laurent and Massart 2000).
    """
    from scipy.special import gammainccinv

    if queries < 1e12 and failure < 650:
        return float(gammainccinv(queries, math.exp(-failure)))
    return queries + math.sqrt(2 * queries * failure) + failure


def _gamma_low(queries: float) -> float:
    """A point that Gamma(k) stays above except with probability e^-60: Chernoff's k - sqrt(120 k)."""
    return max(0.0, queries - math.sqrt(120.0 * queries))
