"""The direct mechanisms in one table: guaranteed largest error as a fraction, from sizes alone.

Replace-one, n public, any k queries with weights in [0, 1] over N cells; continuous noise. These are the
figures of comparison of the planner's theory; what a release states uses the law it really draws with.
"""

from __future__ import annotations

import math

from maquette.theory import cube, gaussian, histogram
from maquette.theory import laplace as laplace_draws


def laplace(*, n: float, epsilon: float, log_queries: float, beta: float) -> float:
    """Laplace noise of scale k/epsilon: (k / (epsilon n)) t, t the exact quantile of the largest of k."""
    return laplace_draws.exact(scale=math.exp(log_queries) / epsilon, log_queries=log_queries, beta=beta) / n


def linf(*, n: float, epsilon: float, log_queries: float, beta: float) -> float:
    """L-infinity noise: the Gamma(k) quantile over epsilon n."""
    return cube.continuous(epsilon=epsilon, queries=math.exp(log_queries), beta=beta) / n


def histogram_laplace(*, n: float, epsilon: float, universe: float, log_queries: float, beta: float) -> float:
    """A histogram with Laplace noise of scale 2/epsilon, by Chernoff."""
    return histogram.laplace(scale=2 / epsilon, universe=universe, log_queries=log_queries, beta=beta) / n


def gaussian_one_shot(*, n: float, epsilon: float, delta: float, log_queries: float, beta: float) -> float:
    """Gaussian noise at the analytic sigma for L2 sensitivity sqrt(k), exact quantile of the largest of k."""
    sigma = gaussian.one_shot_sigma(epsilon=epsilon, delta=delta, l2=math.exp(log_queries / 2))
    return gaussian.exact(sigma=sigma, log_queries=log_queries, beta=beta) / n


def histogram_gaussian(
    *, n: float, epsilon: float, delta: float, universe: float, log_queries: float, beta: float
) -> float:
    """A histogram with Gaussian noise at the analytic sigma for L2 sensitivity sqrt(2)."""
    sigma = gaussian.one_shot_sigma(epsilon=epsilon, delta=delta, l2=math.sqrt(2))
    return histogram.gaussian_exact(sigma=sigma, universe=universe, log_queries=log_queries, beta=beta) / n
