"""How far a noisy number of records lies from the true one."""

from __future__ import annotations

import math

from maquette import _check
from maquette.theory import gaussian
from maquette.theory import laplace as laplace_draws


def laplace(*, epsilon: float, beta: float) -> float:
    """|released - n| for continuous Laplace noise at this epsilon, except with probability beta.

    Accuracy: ln(1/beta) / epsilon, exactly.
    Holds when: add/remove-one; the noise is continuous.
    """
    _check.positive(epsilon=epsilon)
    _check.fraction(beta=beta)
    return -math.log(beta) / epsilon


def geometric(*, scale: float, beta: float) -> float:
    """|released - n| for the two-sided geometric law of this scale, except with probability beta.

    Accuracy: max(0, ceil(scale ln(2/((1+a) beta))) - 1), a = e^(-1/scale): the exact quantile.
    Holds when: add/remove-one; P(z) = (1-a)/(1+a) a^|z|, which costs epsilon = 1/scale.
    """
    return laplace_draws.discrete(scale=scale, log_queries=0.0, beta=beta)


def discrete_gaussian(*, sigma: float, beta: float) -> float:
    """|released - n| for the discrete Gaussian of this sigma, except with probability beta.

    Accuracy: the exact quantile of the discrete Gaussian.
    Holds when: add/remove-one, where the number of records moves by one: it costs rho = 1/(2 sigma^2).
    """
    return gaussian.discrete(sigma=sigma, log_queries=0.0, beta=beta)
