"""K-norm noise: the bound of all answers from simulated points of the body."""

import math

import numpy as np
import pytest

from maquette.theory import draws

RATE = 0.01
SMALL = {"cell": 1e-6, "step": 1e-6}


def bound(reach, beta, *, largest=1.0):
    return draws.norm_answers(
        rate=RATE, dimension=1, reach=reach, largest=largest, shift=1e-6, beta=beta, **SMALL
    )


@pytest.mark.parametrize("beta", [0.2, 0.05, 1e-3])
def test_in_one_dimension_it_is_little_above_the_quantile_of_laplace_noise(beta):
    """R U with R ~ Gamma(2) and U uniform in [-1, 1] is Laplace noise: |R U| is exponential."""
    reach = np.abs(np.random.default_rng(1).uniform(-1, 1, 20_000))
    exact = -math.log(beta) / RATE
    assert exact <= bound(reach, beta) <= 1.25 * exact
    assert bound(reach / 2, beta) < exact  # points of a smaller body would say too little


def test_it_is_never_above_the_bound_by_the_norm_alone():
    alone = draws.norm_lattice(rate=RATE, dimension=1, beta=0.05, **SMALL)
    few = np.ones(3)  # so few points leave everything open
    assert bound(few, 0.05) <= alone * (1 + 1e-8)
    assert bound(few, 0.05, largest=2.0) <= 2 * alone * (1 + 1e-8)
