"""A consistent noisy tree of counts: how far any prefix is off.

Every level of a tree with a branches per node is measured once with the same noise, and least squares make the levels
agree (Hay et al. 2010). The fit is linear in the noise: a prefix is off by sum a_i z_i.

Sum a_i^2 <= D, because least squares have the smallest variance of all unbiased linear ways, and one way adds up D
measured nodes: at each level the j children before the border, or their parent less the other children.
|a_i| <= 1: raising one measured count by 1 raises its fitted subtree by at most 1, its ancestors by no more than that,
and lowers the subtrees beside it by the difference, so any set of leaves moves by at most 1.
"""

from __future__ import annotations

import math

import numpy as np

from maquette import _check
from maquette.theory.histogram import cumulant


def nodes(*, levels: int, branches: int, total_known: bool) -> int:
    """D: measured nodes that add up to any prefix.

    Accuracy: at most half of the branches (rounded up) per level, taking the complement inside the parent; at the top
        level the complement needs the total.
    Holds when: `levels` levels below a root whose total is public; else the top level takes all branches but one.
    """
    _check.whole(levels=levels, branches=branches)
    half = (branches + 1) // 2
    return levels * half if total_known else (levels - 1) * half + max(branches - 1, 1)


def laplace(*, scale: float, nodes: int, log_queries: float, beta: float) -> float:
    """The largest noise of k prefixes from a tree with discrete Laplace noise, except with probability beta.

    Accuracy: Chernoff and the union bound, min over s of (ln(2k/beta) + D psi(s)) / s. All cumulants of discrete
        Laplace noise are positive, so psi(a s) <= a^2 psi(s) for |a| <= 1 and the sum of psi(a_i s) is at most
        D psi(s).
    """
    _check.positive(scale=scale)
    _check.fraction(beta=beta)
    steps = np.exp(np.linspace(math.log(1e-6), math.log(1 - 1e-6), 600)) / scale
    failure = math.log(2 / beta) + log_queries
    return float(((failure + nodes * cumulant(steps, scale)) / steps).min())


def gaussian(*, sigma: float, nodes: int, log_queries: float, beta: float) -> float:
    """The same for discrete Gaussian noise, which is subgaussian with its own sigma: sigma sqrt(2 D ln(2k/beta))."""
    _check.positive(sigma=sigma)
    _check.fraction(beta=beta)
    return sigma * math.sqrt(2 * nodes * (math.log(2 / beta) + log_queries))
