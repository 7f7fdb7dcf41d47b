"""Bounds of the theory against simulated noise of the laws that they speak about."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from maquette.domain import Attribute, Domain, Kind
from maquette.models.fits import fit_squares, histogram_map
from maquette.queries import ranges
from maquette.theory import direct
from maquette.theory import draws as cube
from maquette.theory import draws as gaussian
from maquette.theory import draws as laplace
from support.fake_curator import discrete_cube, discrete_gaussian

pytestmark = pytest.mark.accuracy

RUNS = 4000
BETA = 0.05


def plausible(failures: int, runs: int, beta: float) -> bool:
    return bool(binom.sf(failures - 1, runs, beta) >= 1e-6)


def two_sided_geometric(rng: np.random.Generator, scale: float, shape) -> np.ndarray:
    p = -math.expm1(-1 / scale)
    return rng.geometric(p, shape) - rng.geometric(p, shape)


@pytest.mark.parametrize("scale", [0.5, 3.0, 40.0])
def test_largest_of_many_laplace_draws(scale):
    draws = np.abs(two_sided_geometric(np.random.default_rng(1), scale, (RUNS, 20))).max(axis=1)
    bound = laplace.laplace_discrete(scale=scale, log_queries=math.log(20), beta=BETA)
    assert plausible(int((draws > bound).sum()), RUNS, BETA)
    assert not plausible(int((draws > bound - max(1, 0.3 * bound)).sum()), RUNS, BETA)


@pytest.mark.parametrize("sigma", [0.7, 4.0, 45.0])
def test_largest_of_many_gaussian_draws(sigma):
    draws = (
        np.abs(discrete_gaussian(np.random.default_rng(2), sigma, RUNS * 20)).reshape(RUNS, 20).max(axis=1)
    )
    bound = gaussian.gaussian_discrete(sigma=sigma, log_queries=math.log(20), beta=BETA)
    assert plausible(int((draws > bound).sum()), RUNS, BETA)
    assert not plausible(int((draws > bound - max(1, 0.2 * bound)).sum()), RUNS, BETA)


@pytest.mark.parametrize(("k", "epsilon"), [(1, 0.5), (10, 2.0), (30, 0.4)])
def test_largest_coordinate_of_cube_noise(k, epsilon):
    rng = np.random.default_rng(3)
    draws = np.array([np.abs(discrete_cube(rng, math.exp(-epsilon), k)).max() for _ in range(RUNS)])
    bound = cube.cube_integer(epsilon=epsilon, queries=k, beta=BETA)
    assert plausible(int((draws > bound).sum()), RUNS, BETA)
    assert not plausible(int((draws > 0.8 * bound - 1).sum()), RUNS, BETA)


def test_size_bounds():
    rng = np.random.default_rng(4)
    geometric = np.abs(two_sided_geometric(rng, 1 / 0.3, RUNS))
    assert plausible(int((geometric > direct.size_geometric(scale=1 / 0.3, beta=BETA)).sum()), RUNS, BETA)
    normal = np.abs(discrete_gaussian(rng, math.sqrt(1 / 0.04), RUNS))
    assert plausible(
        int((normal > direct.size_gaussian(sigma=math.sqrt(1 / (2 * 0.02)), beta=BETA)).sum()), RUNS, BETA
    )


def test_projected_gaussian_answers_keep_their_mean_square():
    """Expected mean square at most sqrt(ln N / rho) / (2n), in fractions, however many queries are asked."""
    domain = Domain((Attribute("a", Kind.ORDINAL, codes=32),))
    mapped = histogram_map(ranges(domain, "a"))
    rng = np.random.default_rng(5)
    n, rho = 400, 0.05
    bound = direct.projection_rmse(n=n, rho=rho, queries=mapped.count, log_universe=math.log(32))
    plain = math.sqrt(mapped.count / (2 * rho)) / n
    assert bound < 0.6 * plain  # the term that does not depend on the number of queries is the active one
    squares = []
    for _ in range(20):
        truth = rng.multinomial(n, rng.dirichlet(np.full(32, 0.2))).astype(float)
        noisy = mapped.forward(truth) + rng.normal(0, plain * n, mapped.count)
        fitted = fit_squares(mapped, noisy, total=float(n), rounds=2000)
        squares.append(np.square((mapped.forward(fitted) - mapped.forward(truth)) / n).mean())
    assert math.sqrt(np.mean(squares)) <= bound
