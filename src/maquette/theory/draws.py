"""The largest of many draws, continuous and discrete as they are really drawn: L-infinity, Laplace, Gaussian."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maquette.core import _check

# K-norm noise (Hardt and Talwar 2010) on whole numbers: the law of its norm, and of the largest of many answers.

_UNSEEN = 1e-6
"""Of the chance of failure, for a simulation that misleads."""
_BLOCKS = 512


def norm_lattice(*, rate: float, dimension: int, cell: float, step: float, beta: float) -> float:
    """What the norm of whole vectors, P(z) ~ exp(-rate |z|) with |z| rounded up to steps, exceeds with chance beta.

    Accuracy: continuous noise has |x| ~ Gamma(k, 1/rate) exactly. A unit cube around each whole vector changes the norm
        by at most `cell`, rounding up by at most `step`: P(|z| > t) <= e^(rate (2 cell + step)) P(|x| > t - cell).
    Holds when: `rate` is what was drawn with.
    """
    _check.positive(rate=rate, cell=cell, step=step)
    _check.whole(dimension=dimension)
    _check.fraction(beta=beta)
    failure = -math.log(beta) + rate * (2 * cell + step)
    return _gamma_quantile(dimension, failure) * (1 + 1e-9) / rate + cell


def norm_answers(
    *,
    rate: float,
    dimension: int,
    cell: float,
    step: float,
    reach: NDArray[np.float64],
    largest: float,
    shift: float,
    beta: float,
) -> float:
    """What no answer made of K-norm noise on whole vectors is off by, except with probability beta.

    `reach` are the largest answers made of uniform points of the body, one for each simulated point; no point of the
    body makes a larger one than `largest`; half a unit in every coordinate changes an answer by at most `shift`.

    Accuracy: continuous noise is R U with R ~ Gamma(k + 1, 1/rate) and U uniform in the body, independent. So the
        largest answer is R M, M made of U, and P(R M > x) is the mean of P(R > x / M): that over the simulated points,
        and what the law of M may be above theirs (Dvoretzky, Kiefer and Wolfowitz; Massart 1990), at most
        sqrt(ln(1/g) / (2N)) with chance 1 - g, g = 1e-6 of beta. Whole vectors as in `norm_lattice`. Never above the
        bound by the norm alone.
    Holds when: the simulated points are uniform in the body: drawn in doubles, by a generator with a fixed start.
    """
    from scipy.special import gammaincc

    _check.positive(largest=largest)
    alone = largest * norm_lattice(rate=rate, dimension=dimension, cell=cell, step=step, beta=beta)
    blocks = np.array_split(
        np.sort(reach), min(_BLOCKS, reach.size)
    )  # every point counts as the last of its block
    points = np.array([block[-1] for block in blocks])
    weights = np.array([block.size / reach.size for block in blocks])
    margin = math.sqrt(math.log(1 / (_UNSEEN * beta)) / (2 * reach.size))
    points, weights = np.append(points, largest), np.append(weights, margin)
    worse = math.exp(rate * (2 * cell + step)) / (1 - _UNSEEN)
    low, high = 0.0, max(alone, shift)
    for _ in range(40):
        middle = (low + high) / 2
        chance = worse * float(weights @ gammaincc(dimension + 1, rate * max(middle - shift, 0.0) / points))
        low, high = (low, middle) if chance <= beta else (middle, high)
    return high * (1 + 1e-9)


# L-infinity noise (Steinke and Ullman 2016): the law of its largest coordinate, continuous and integer.

_TERMS = 200_000
_GUARD = 1e-6
"""Relative margin for the rounding of logarithms (at most k ln(2j+1) 2^-52) and for the cut of the far tail."""


def cube_continuous(*, epsilon: float, queries: float, beta: float) -> float:
    """The exact (1-beta) quantile of the largest coordinate of continuous L-infinity noise.

    Accuracy: density proportional to exp(-epsilon max|z|) gives max|z| ~ Gamma(k, 1/epsilon) exactly.
    Holds when: continuous noise; the integer law exceeds this quantile more often.
    """
    _check.positive(epsilon=epsilon, queries=queries)
    _check.fraction(beta=beta)
    return _gamma_quantile(queries, -math.log(beta)) / epsilon


def cube_integer(*, epsilon: float, queries: int, beta: float) -> float:
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
    last = math.ceil(_gamma_bound(queries, epsilon - math.log(beta * 1e-9)) / epsilon)
    if last - first > _TERMS:
        last = _outer(epsilon, queries, beta * 1e-9)
    if last - first > _TERMS:
        return float(_outer(epsilon, queries, beta))
    radii = np.arange(first, last + 1, dtype=float)
    tails = _tails(cube_log_shells(radii, epsilon=epsilon, queries=queries))
    return float(radii[int(np.argmax(tails * (1 + _GUARD) <= beta))])


def cube_log_shells(radii: NDArray[np.float64], *, epsilon: float, queries: int) -> NDArray[np.float64]:
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
    """The t with P(Gamma(k) > t) = e^-failure; where the inverse is out of reach, a bound from above."""
    from scipy.special import gammainccinv

    if queries < 1e12 and failure < 650:
        return float(gammainccinv(queries, math.exp(-failure)))
    return _gamma_bound(queries, failure)


def _gamma_bound(queries: float, failure: float) -> float:
    """P(Gamma(k) > k + sqrt(2kL) + L) <= e^-L (Laurent and Massart 2000)."""
    return queries + math.sqrt(2 * queries * failure) + failure


def _gamma_low(queries: float) -> float:
    """A point that Gamma(k) stays above except with probability e^-60: Chernoff's k - sqrt(120 k)."""
    return max(0.0, queries - math.sqrt(120.0 * queries))


# From the failure of a whole release to the failure of one of its independent draws.


def log_failure(*, log_draws: float, beta: float) -> float:
    """ln p such that independent draws that each fail with probability p all hold with probability 1 - beta.

    Accuracy: 1 - (1-p)^draws = beta, solved exactly: p = 1 - (1-beta)^(1/draws).
    Holds when: the draws are independent. `beta / draws` (the union bound) is smaller and needs no independence.
    """
    _check.fraction(beta=beta)
    share = -math.log1p(-beta)
    if log_draws > 600:  # the share of one draw is below the smallest double; p = share / draws to all digits
        return math.log(share) - log_draws
    return math.log(-math.expm1(-share * math.exp(-log_draws)))


# The largest of many Laplace draws: continuous, and discrete as they are really drawn.


def laplace_union(*, scale: float, log_queries: float, beta: float) -> float:
    """Largest Laplace noise over the queries, by the union bound.

    Accuracy: max |z| <= scale ln(k / beta), except with probability beta.
    Holds when: any joint law; each coordinate is Laplace of this scale.
    """
    _check.positive(scale=scale)
    _check.fraction(beta=beta)
    return scale * (log_queries - math.log(beta))


def laplace_exact(*, scale: float, log_queries: float, beta: float) -> float:
    """The exact (1-beta) quantile of the largest of k independent Laplace draws.

    Accuracy: scale t with t = -ln(1 - (1-beta)^(1/k)).
    Holds when: independent, continuous draws; a discrete draw of the same scale exceeds this more often.
    """
    _check.positive(scale=scale)
    return -scale * log_failure(log_draws=log_queries, beta=beta)


def laplace_discrete(*, scale: float, log_queries: float, beta: float, grid: float = 1.0) -> float:
    """The exact (1-beta) quantile of the largest of k independent discrete Laplace draws on a grid.

    Accuracy: P(|z| > j grid) = 2 a^(j+1) / (1+a) with a = exp(-grid/scale), so the smallest whole j with
        P <= p is max(0, ceil((scale/grid) ln(2/((1+a)p))) - 1), p the failure of one draw.
    Holds when: independent draws, P(j grid) proportional to a^|j|.
    """
    _check.positive(scale=scale, grid=grid)
    return grid * _laplace_steps(scale / grid, math.log(2) - log_failure(log_draws=log_queries, beta=beta))


def laplace_one_sided(*, scale: float, beta: float, grid: float = 1.0) -> float:
    """The smallest t on the grid that one discrete Laplace draw exceeds with probability at most beta.

    Accuracy: P(z > j grid) = a^(j+1) / (1+a), a = exp(-grid/scale); by symmetry the same below -t.
    """
    _check.positive(scale=scale, grid=grid)
    _check.fraction(beta=beta)
    return grid * _laplace_steps(scale / grid, -math.log(beta))


def _laplace_steps(steps: float, log_inverse_tail: float) -> int:
    """The smallest whole j >= 0 with a^(j+1)/(1+a) <= exp(-log_inverse_tail), a = exp(-1/steps)."""
    real = steps * (log_inverse_tail - math.log1p(math.exp(-1 / steps)))
    # a hair outward, so that the rounding of the logarithms cannot turn an equality into one step too few
    return max(0, math.ceil(real + 1e-9 * max(1.0, abs(real))) - 1)


# Where a rising function crosses zero.


def rising_root(function: Callable[[float], float], low: float, high: float) -> float:
    """The root of a rising function between two points, by halving down to neighbouring doubles."""
    while True:
        middle = (low + high) / 2
        if not low < middle < high:
            return high
        low, high = (low, middle) if function(middle) >= 0 else (middle, high)


_ENUMERATE = 10_000.0
"""Up to this many grid steps per sigma the discrete tail is summed term by term."""


def gaussian_union(*, sigma: float, log_queries: float, beta: float) -> float:
    """Largest Gaussian noise over the queries, by the union bound.

    Accuracy: max |z| <= sigma sqrt(2 ln(2k / beta)), except with probability beta.
    Holds when: any joint law whose coordinates are sub-Gaussian with this sigma: Gaussian, discrete Gaussian
        (Canonne, Kamath and Steinke 2020) and linear mixtures of either, sigma^2 their variance parameter.
    """
    _check.positive(sigma=sigma)
    _check.fraction(beta=beta)
    return sigma * math.sqrt(2 * (math.log(2 / beta) + log_queries))


def gaussian_exact(*, sigma: float, log_queries: float, beta: float) -> float:
    """The exact (1-beta) quantile of the largest of k independent Gaussian draws.

    Accuracy: sigma Phi^-1(1 - (1 - (1-beta)^(1/k)) / 2).
    Holds when: independent, continuous draws.
    """
    _check.positive(sigma=sigma)
    return sigma * gaussian_two_sided(log_failure(log_draws=log_queries, beta=beta))


def gaussian_discrete(*, sigma: float, log_queries: float, beta: float, grid: float = 1.0) -> float:
    """The (1-beta) quantile of the largest of k independent discrete Gaussian draws on a grid.

    Accuracy: the exact quantile, by summing the tail. For sigma above ten thousand steps the continuous one
        rounded up to the grid: for a whole j, P(|z| > j) <= 2(1 - Phi(j/sigma)), because the sum over the
        tail is below the integral from j and the normaliser is at least sigma sqrt(2 pi).
    Holds when: independent draws, P(j grid) proportional to exp(-(j grid)^2 / (2 sigma^2)).
    """
    _check.positive(sigma=sigma, grid=grid)
    return grid * _gaussian_steps(sigma / grid, log_failure(log_draws=log_queries, beta=beta))


def gaussian_one_sided(*, sigma: float, beta: float, grid: float = 1.0) -> float:
    """The smallest t on the grid that one discrete Gaussian draw exceeds with probability at most beta."""
    _check.positive(sigma=sigma, grid=grid)
    _check.fraction(beta=beta)
    return grid * _gaussian_steps(sigma / grid, min(math.log(2 * beta), 0.0))


def gaussian_mixture(*, variances: ArrayLike, log_counts: ArrayLike, beta: float) -> float:
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


def gaussian_two_sided(log_p: float) -> float:
    """The t with P(|N(0,1)| > t) = p, from ln p."""
    from scipy.special import ndtri_exp

    return -float(ndtri_exp(log_p - math.log(2)))


def _gaussian_steps(sigma: float, log_p: float) -> int:
    """The smallest whole j (bounded from above beyond `_ENUMERATE`) with P(|z| > j) <= p; log_p may be 0."""
    if sigma > _ENUMERATE:
        return max(0, math.ceil(sigma * gaussian_two_sided(log_p) * (1 + 1e-12)))
    # no smaller than j: P(|N(0,1)| > t) <= exp(-t^2 / 2), and the discrete tail is below the continuous one
    upper = math.ceil(max(sigma, 1.0) * math.sqrt(-2 * log_p))
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
