"""How far sums of random numbers stray from their means: the inequalities that the sampling argument rests on."""

from __future__ import annotations

import math

from maquette.core import _check
from maquette.errors import ParameterError


def hoeffding(*, rows: float, alpha: float) -> float:
    """The chance that the mean of m independent numbers in [0, 1] is off by alpha or more, on either side.

    Accuracy: 2 exp(-2 m alpha^2) (Hoeffding 1963; the additive Chernoff bound), at most 1.
    """
    _check.positive(rows=rows, alpha=alpha)
    return min(1.0, 2 * math.exp(-2 * rows * alpha**2))


def azuma(*, steps: int, deviation: float, width: float = 1.0) -> float:
    """The chance that a sum of dependent steps ends `deviation` or more away from where it began, on either side.

    Accuracy: 2 exp(-2 t^2 / (k w^2)) (Azuma 1967, McDiarmid 1989), at most 1. At t = k alpha it is `hoeffding`:
        independence
        is not needed.
    Holds when: every step has mean 0 given all earlier ones, and then lies in an interval of length w. Steps of which
        only |step| <= c is known have w = 2c.
    """
    _check.whole(steps=steps)
    _check.positive(deviation=deviation, width=width)
    return min(1.0, 2 * math.exp(-2 * deviation**2 / (steps * width**2)))


def chernoff_above(*, mean: float, alpha: float) -> float:
    """The chance that a sum of independent numbers in [0, 1] of this mean reaches (1 + alpha) times it.

    Accuracy: (e^alpha / (1 + alpha)^(1 + alpha))^mean: the multiplicative Chernoff bound before it is simplified.
    Holds when: any alpha > 0. A count of m rows has the mean m mu, for a share mu.
    """
    _check.positive(mean=mean, alpha=alpha)
    return math.exp(-mean * _rise(alpha))


def chernoff_below(*, mean: float, alpha: float) -> float:
    """The chance that such a sum is at most (1 - alpha) times its mean, alpha <= 1: exp(-alpha^2 mean / 2)."""
    _check.positive(mean=mean, alpha=alpha)
    if alpha > 1:
        raise ParameterError(f"expected alpha <= 1: no sum is below 0, got alpha={alpha:g}")
    return math.exp(-(alpha**2) * mean / 2)


def chernoff_printed(*, mean: float, alpha: float) -> float:
    """exp(-alpha^2 mean / 3), which a lecture prints as the upper tail "for all alpha > 0". It is none beyond 1.817.

    Accuracy: (1 + a) ln(1 + a) - a >= a^2 / 3 up to a = 1.8169 and not beyond (`chernoff_printed_limit`). At m = 1,
        mu = 0.1 and a = 8.9 it says 0.071; the row counts with probability 0.1.
    """
    _check.positive(mean=mean, alpha=alpha)
    return math.exp(-(alpha**2) * mean / 3)


def chernoff_printed_limit() -> float:
    """The alpha up to which the printed upper tail is proved: where (1 + a) ln(1 + a) - a = a^2 / 3, by bisection."""
    low, high = 1.0, 3.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (middle, high) if _rise(middle) >= middle**2 / 3 else (low, middle)
    return low


def _rise(alpha: float) -> float:
    """(1 + a) ln(1 + a) - a."""
    return (1 + alpha) * math.log1p(alpha) - alpha


# Randomised response: noise at its source, one coin a person.


def honest_share(*, epsilon: float) -> float:
    """The chance of a true answer in randomised response: e^epsilon / (1 + e^epsilon).

    Guarantee: each answer by itself is epsilon-DP, and nobody has to be trusted: the ratio of the chances of "yes" of a
        person who means it and of one who does not is e^epsilon, and so for "no" (Warner 1965).
    """
    _check.positive(epsilon=epsilon)
    return 1 / (1 + math.exp(-epsilon))


def randomised_response(*, n: float, epsilon: float, log_queries: float, beta: float) -> float:
    """Largest error of the shares of k bits that n people answer by randomised response, epsilon / k a bit.

    Accuracy: the share of "yes" less 1 - p, divided by 2p - 1 = tanh(epsilon / 2k), p the chance of a true answer, is
        without bias; by Hoeffding and the union bound no share is off by more than sqrt(ln(2k/beta) / (2n)) / (2p - 1).
        It falls like 1 / sqrt(n), a trusted curator's noise like 1 / n.
    Holds when: each person tosses coins of his own, k bits of each.
    """
    _check.positive(n=n, epsilon=epsilon)
    _check.fraction(beta=beta)
    shrunk = math.tanh(epsilon / 2 * math.exp(-log_queries))
    return math.sqrt((math.log(2 / beta) + log_queries) / (2 * n)) / shrunk if shrunk > 0 else math.inf
