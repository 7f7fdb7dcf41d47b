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


def geometric(*, epsilon: float, beta: float) -> int:
    """|released - n| for the two-sided geometric law at this epsilon, except with probability beta.

    Accuracy: max(0, ceil(ln(2/((1+a) beta)) / epsilon) - 1), a = e^-epsilon: the exact quantile.
    Holds when: add/remove-one; P(z) = (1-a)/(1+a) a^|z|.
    """
    _check.positive(epsilon=epsilon)
    return int(laplace_draws.discrete(scale=1 / epsilon, log_queries=0.0, beta=beta))


def discrete_gaussian(*, rho: float, beta: float) -> int:
    """|released - n| for the discrete Gaussian at this rho, except with probability beta.

    Accuracy: the exact quantile of the discrete Gaussian with sigma^2 = 1/(2 rho).
    Holds when: add/remove-one, where the number of records moves by one.
    """
    _check.positive(rho=rho)
    return int(gaussian.discrete(sigma=math.sqrt(1 / (2 * rho)), log_queries=0.0, beta=beta))
