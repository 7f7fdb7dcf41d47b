"""The largest of many Gaussian draws: continuous, discrete as they are really drawn, and linear mixtures."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from maquette import _check
from maquette.theory.draws import log_failure
from maquette.theory.roots import rising_root

_ENUMERATE = 10_000.0
"""Up to this many grid steps per sigma the discrete tail is summed term by term."""


def union(*, sigma: float, log_queries: float, beta: float) -> float:
    """Largest Gaussian noise over the queries, by the union bound.

    Accuracy: max |z| <= sigma sqrt(2 ln(2k / beta)), except with probability beta.
    Holds when: any joint law whose coordinates are sub-Gaussian with this sigma: Gaussian, discrete Gaussian
        (Canonne, Kamath and Steinke 2020) and linear mixtures of either, sigma^2 their variance parameter.
    """
    _check.positive(sigma=sigma)
    _check.fraction(beta=beta)
    return sigma * math.sqrt(2 * (math.log(2 / beta) + log_queries))


def exact(*, sigma: float, log_queries: float, beta: float) -> float:
    """The exact (1-beta) quantile of the largest of k independent Gaussian draws.

    Accuracy: sigma Phi^-1(1 - (1 - (1-beta)^(1/k)) / 2).
    Holds when: independent, continuous draws.
    """
    _check.positive(sigma=sigma)
    return sigma * two_sided(log_failure(log_draws=log_queries, beta=beta))


def discrete(*, sigma: float, log_queries: float, beta: float, grid: float = 1.0) -> float:
    """The (1-beta) quantile of the largest of k independent discrete Gaussian draws on a grid.

    Accuracy: the exact quantile, by summing the tail. For sigma above ten thousand steps the continuous one
        rounded up to the grid: for a whole j, P(|z| > j) <= 2(1 - Phi(j/sigma)), because the sum over the
        tail is below the integral from j and the normaliser is at least sigma sqrt(2 pi).
    Holds when: independent draws, P(j grid) proportional to exp(-(j grid)^2 / (2 sigma^2)).
    """
    _check.positive(sigma=sigma, grid=grid)
    return grid * _steps(sigma / grid, log_failure(log_draws=log_queries, beta=beta))


def discrete_one_sided(*, sigma: float, beta: float, grid: float = 1.0) -> float:
    """The smallest t on the grid that one discrete Gaussian draw exceeds with probability at most beta."""
    _check.positive(sigma=sigma, grid=grid)
    _check.fraction(beta=beta)
    return grid * _steps(sigma / grid, min(math.log(2 * beta), 0.0))


def mixture(*, variances: ArrayLike, log_counts: ArrayLike, beta: float) -> float:
    """One level that holds for linear mixtures of Gaussian draws of several variances at once.

    Accuracy: the smallest e with sum_g count_g 2 exp(-e^2 / (2 variance_g)) <= beta (Chernoff and union).
    Holds when: as `union`: continuous or discrete draws, any dependence between the mixtures.
    """
    _check.fraction(beta=beta)
    variance = np.asarray(variances, dtype=float)
    logs = np.asarray(log_counts, dtype=float)[variance > 0]
    variance = variance[variance > 0]
    if not len(variance):
        return 0.0
    # each group alone below, all groups as bad as the worst above
    low = max(math.sqrt(2 * v * (math.log(2 / beta) + c)) for v, c in zip(variance, logs, strict=True))
    high = math.sqrt(2 * float(variance.max()) * (math.log(2 / beta) + _log_sum(logs)))
    for _ in range(60):
        middle = (low + high) / 2
        if math.log(2) + _log_sum(logs - middle**2 / (2 * variance)) <= math.log(beta):
            high = middle
        else:
            low = middle
    return high


def one_shot_sigma(*, epsilon: float, delta: float, l2: float = 1.0) -> float:
    """The smallest sigma of the continuous Gaussian mechanism at (epsilon, delta): a figure for comparison.

    Accuracy: the sigma with Phi(D/(2s) - eps s/D) - e^eps Phi(-D/(2s) - eps s/D) = delta (Balle and Wang 2018).
    Holds when: continuous Gaussian noise, released once. The discrete Gaussian at this sigma exceeds delta, so
        no release is calibrated by it.
    """
    from scipy.special import log_ndtr

    _check.positive(epsilon=epsilon, l2=l2)
    _check.fraction(delta=delta)

    def spare(log_sigma: float) -> float:
        s = math.exp(log_sigma)
        first, second = log_ndtr(0.5 / s - epsilon * s), log_ndtr(-0.5 / s - epsilon * s)
        return delta - float(np.exp(first) - np.exp(epsilon + second))

    return l2 * math.exp(rising_root(spare, -20.0, 40.0))


def two_sided(log_p: float) -> float:
    """The t with P(|N(0,1)| > t) = p, from ln p."""
    from scipy.special import ndtri_exp

    return -float(ndtri_exp(log_p - math.log(2)))


def _steps(sigma: float, log_p: float) -> int:
    """The smallest whole j (bounded from above beyond `_ENUMERATE`) with P(|z| > j) <= p; log_p may be 0."""
    upper = max(0, math.ceil(two_sided(log_p) * (1 + 1e-12)))
    upper = max(upper, math.ceil(sigma * two_sided(log_p) * (1 + 1e-12)))
    if sigma > _ENUMERATE:
        return upper
    last = upper + math.ceil(40 * sigma) + 2
    logs = -(np.arange(last + 1, dtype=float) ** 2) / (2 * sigma**2)
    terms = np.exp(logs)
    total = 1 + 2 * terms[1:].sum()
    above = np.cumsum(terms[::-1])[::-1]  # above[j] = sum over i >= j
    tails = np.append(2 * above[1:], 0.0) / total
    with np.errstate(divide="ignore"):
        fits = np.log(tails) + 1e-9 <= log_p
    return int(np.argmax(fits))


def _log_sum(logs: np.ndarray) -> float:
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).sum()))
