"""The largest of many Laplace draws: continuous, and discrete as they are really drawn."""

from __future__ import annotations

import math

from maquette import _check
from maquette.theory.draws import log_failure


def union(*, scale: float, log_queries: float, beta: float) -> float:
    """Largest Laplace noise over the queries, by the union bound.

    Accuracy: max |z| <= scale ln(k / beta), except with probability beta.
    Holds when: any joint law; each coordinate is Laplace of this scale.
    """
    _check.positive(scale=scale)
    _check.fraction(beta=beta)
    return scale * (log_queries - math.log(beta))


def exact(*, scale: float, log_queries: float, beta: float) -> float:
    """The exact (1-beta) quantile of the largest of k independent Laplace draws.

    Accuracy: scale t with t = -ln(1 - (1-beta)^(1/k)).
    Holds when: independent, continuous draws; a discrete draw of the same scale exceeds this more often.
    """
    _check.positive(scale=scale)
    return -scale * log_failure(log_draws=log_queries, beta=beta)


def discrete(*, scale: float, log_queries: float, beta: float, grid: float = 1.0) -> float:
    """The exact (1-beta) quantile of the largest of k independent discrete Laplace draws on a grid.

    Accuracy: P(|z| > j grid) = 2 a^(j+1) / (1+a) with a = exp(-grid/scale), so the smallest whole j with
        P <= p is max(0, ceil((scale/grid) ln(2/((1+a)p))) - 1), p the failure of one draw.
    Holds when: independent draws, P(j grid) proportional to a^|j|.
    """
    _check.positive(scale=scale, grid=grid)
    return grid * _steps(scale / grid, math.log(2) - log_failure(log_draws=log_queries, beta=beta))


def discrete_one_sided(*, scale: float, beta: float, grid: float = 1.0) -> float:
    """The smallest t on the grid that one discrete Laplace draw exceeds with probability at most beta.

    Accuracy: P(z > j grid) = a^(j+1) / (1+a), a = exp(-grid/scale); by symmetry the same below -t.
    """
    _check.positive(scale=scale, grid=grid)
    _check.fraction(beta=beta)
    return grid * _steps(scale / grid, -math.log(beta))


def _steps(steps: float, log_inverse_tail: float) -> int:
    """The smallest whole j >= 0 with a^(j+1)/(1+a) <= exp(-log_inverse_tail), a = exp(-1/steps)."""
    real = steps * (log_inverse_tail - math.log1p(math.exp(-1 / steps)))
    # a hair outward, so that the rounding of the logarithms cannot turn an equality into one step too few
    return max(0, math.ceil(real + 1e-9 * max(1.0, abs(real))) - 1)
