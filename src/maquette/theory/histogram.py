"""One noisy histogram answers every query: tails of its linear sums."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maquette import _check
from maquette.theory import gaussian
from maquette.theory.roots import rising_root

_FEW, _SAMPLE = 4096, 24


def laplace(*, scale: float, universe: float, log_queries: float, beta: float) -> float:
    """Largest error of all queries from a histogram with Laplace noise, when n is public.

    Accuracy: Chernoff: min over 0 < s < 1/c of (ln(2k/beta) - N ln(1 - c^2 s^2)) / s with c = scale/2; the
        answers are n/2 + sum_i (q_i - 1/2) h_i, whose coefficients are at most 1/2.
    Holds when: continuous Laplace noise of this scale in each of the N cells; any k queries with weights
        in [0, 1].
    """
    _check.positive(scale=scale, universe=universe)
    _check.fraction(beta=beta)
    c, failure = scale / 2, math.log(2 / beta) + log_queries

    def slope(log_u: float) -> float:  # the derivative's sign, in u = (c s)^2
        u = math.exp(log_u)
        return universe * (2 * u / (1 - u) + math.log1p(-u)) - failure

    u = math.exp(rising_root(slope, -80.0, math.log1p(-1e-15)))
    return c * (failure - universe * math.log1p(-u)) / math.sqrt(u)


def discrete_laplace(
    *, scale: float, universe: int, cells: ArrayLike, log_queries: float, beta: float
) -> float:
    """Largest noise of all queries from a discrete Laplace histogram whose total is set to the known size.

    `cells` are the total weights S_q of the queries (how many cells each counts; distinct values suffice).

    Accuracy: the answer of q is sum_i q_i h_i + (S_q/N)(n - sum_i h_i): coefficients q_i - S_q/N. Chernoff
        with the exact cumulant of discrete Laplace noise, psi(s) = -ln(1 - (sinh(s/2)/sinh(1/(2 scale)))^2),
        and the union bound over k; psi is even and convex, so 0/1 weights of the same S_q are the worst.
    Holds when: independent draws on the whole numbers; the known size is exact (else add its drift).
    """
    _check.positive(scale=scale)
    _check.whole(universe=universe)
    _check.fraction(beta=beta)
    share = np.unique(np.asarray(cells, dtype=float)) / universe
    share = np.unique(np.minimum(share, 1 - share))  # a query and its complement have the same noise
    failure = math.log(2 / beta) + log_queries
    steps = np.exp(np.linspace(math.log(1e-8), math.log(1 - 1e-6), 400)) / scale
    if len(share) > _FEW:  # any s is valid: those that are best for some of the shares will do for all
        some = share[np.linspace(0, len(share) - 1, _SAMPLE).astype(np.int64)]
        steps = steps[np.unique(_bounds(some, steps, scale, universe, failure).argmin(axis=1))]
    return max(_chernoff(part, steps, scale, universe, failure) for part in _chunks(share))


def gaussian_largest(
    *, sigma: float, universe: int, cells: ArrayLike, counts: ArrayLike, beta: float
) -> float:
    """Largest noise of all queries from a Gaussian histogram whose total is set to the known size.

    Accuracy: the variance of q's answer is sigma^2 S_q (1 - S_q/N) at most, never above sigma^2 N/4; `mixture`
        over the groups of equal S_q (`counts` queries each).
    Holds when: continuous or discrete Gaussian noise, any dependence; the known size is exact.
    """
    _check.positive(sigma=sigma)
    share = np.asarray(cells, dtype=float) / universe
    return gaussian.mixture(
        variances=sigma**2 * universe * share * (1 - share),
        log_counts=np.log(np.asarray(counts, dtype=float)),
        beta=beta,
    )


def gaussian_exact(*, sigma: float, universe: float, log_queries: float, beta: float) -> float:
    """Largest error of all queries from a histogram with continuous Gaussian noise, when n is public.

    Accuracy: sigma (sqrt(N)/2) Phi^-1(1 - beta/(2k)): each answer has standard deviation sigma ||q - 1/2||.
    Holds when: continuous Gaussian noise; any k queries with weights in [0, 1].
    """
    _check.positive(sigma=sigma, universe=universe)
    _check.fraction(beta=beta)
    return sigma * math.sqrt(universe) / 2 * gaussian.two_sided(math.log(beta) - log_queries)


def _chernoff(
    share: NDArray[np.float64], steps: NDArray[np.float64], scale: float, universe: int, failure: float
) -> float:
    """The best bound on the grid of s for each share, then the worst share. Any s gives a valid bound."""
    return float(_bounds(share, steps, scale, universe, failure).min(axis=1).max())


def _bounds(
    share: NDArray[np.float64], steps: NDArray[np.float64], scale: float, universe: int, failure: float
) -> NDArray[np.float64]:
    """For every share (down) and s (across)."""
    inside = universe * share[:, None] * cumulant(np.outer(1 - share, steps), scale)
    outside = universe * (1 - share)[:, None] * cumulant(np.outer(share, steps), scale)
    return (failure + inside + outside) / steps


def cumulant(s: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    """psi(s) = ln E exp(s z) of one discrete Laplace draw: -ln(1 - (sinh(s/2)/sinh(1/(2 scale)))^2)."""
    # sinh(x)/sinh(y) by exponentials that cannot overflow
    x, y = s / 2, 1 / (2 * scale)
    ratio = np.exp(x - y) * np.expm1(-2 * x) / math.expm1(-2 * y)
    return -np.log1p(-(ratio**2))


def _chunks(values: NDArray[np.float64], size: int = 4096) -> list[NDArray[np.float64]]:
    return [values[i : i + size] for i in range(0, len(values), size)]
