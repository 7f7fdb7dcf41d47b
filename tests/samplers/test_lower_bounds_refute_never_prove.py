"""Black box: a lower bound on epsilon from samples. It can refute a claim, it can never prove one.

An event is chosen on one half of the samples; on the other half its probabilities are bounded by Clopper and Pearson
at 99.99 % each. What the bound says is below the claim for the real samplers and above it for one that draws with 0.8
times the scale, so the test has power.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from maquette.core import prices
from maquette.core.forms import Sensitivity
from maquette.core.noise import SystemNoise
from support.zcdp import delta_of_rho

pytestmark = pytest.mark.privacy

SAMPLES = 100_000
CONFIDENCE = 0.9999
"""Of each of two bounds; both must fail together for a false alarm, which happens less than once in 10^6."""
ONE = Sensitivity(Fraction(1), Fraction(1), Fraction(1))


def _low(hits: int, of: int) -> float:
    return float(stats.beta.ppf(1 - CONFIDENCE, hits, of - hits + 1)) if hits else 0.0


def _high(hits: int, of: int) -> float:
    return float(stats.beta.ppf(CONFIDENCE, hits + 1, of - hits)) if hits < of else 1.0


def _bound(here: np.ndarray, there: np.ndarray, t: int, delta: float) -> float:
    p, q = _low(int((here >= t).sum()), len(here)), _high(int((there >= t).sum()), len(there))
    return math.log((p - delta) / q) if p > delta else -math.inf


def epsilon_below(here: np.ndarray, there: np.ndarray, *, delta: float = 0.0) -> float:
    """A lower bound on epsilon at this delta, from samples on two neighbours; the event is z >= t."""
    half = len(here) // 2
    thresholds = np.unique(np.quantile(here[:half], np.linspace(0, 0.99, 60), method="lower")).astype(int)
    best = max(thresholds.tolist(), key=lambda t: _bound(here[:half], there[:half], t, delta))
    return _bound(here[half:], there[half:], best, delta)


def mu_below(here: np.ndarray, there: np.ndarray) -> float:
    """A lower bound on the distance of two Gaussians, in standard deviations, at the best of a few thresholds."""
    half = len(here) // 2
    t = int(np.round((here[:half].mean() + there[:half].mean()) / 2))
    p = _low(int((here[half:] >= t).sum()), len(here) - half)
    q = _high(int((there[half:] >= t).sum()), len(there) - half)
    return float(stats.norm.ppf(p) - stats.norm.ppf(q))


def _laplace(epsilon: float, *, factor: Fraction = Fraction(1)) -> tuple[np.ndarray, np.ndarray]:
    plan = prices.laplace(ONE, epsilon=Fraction(epsilon), denominator=1)
    noise = SystemNoise()
    return tuple(noise.laplace(np.full(SAMPLES, exact), scale=plan.law.scale * factor) for exact in (1, 0))


def _gaussian(rho: Fraction, *, factor: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    plan = prices.gaussian(ONE, rho=rho, denominator=1)
    noise = SystemNoise()
    return tuple(
        noise.gaussian(np.full(SAMPLES, exact), sigma=plan.law.deviation * factor) for exact in (1, 0)
    )


@pytest.mark.parametrize("epsilon", [0.25, 1.0, 3.0])
def test_samples_refute_no_claim_of_laplace_noise_but_never_prove_it(epsilon):
    seen = epsilon_below(*_laplace(epsilon))
    assert seen <= epsilon
    assert seen >= 0.85 * epsilon - 0.05, "the test has lost its power"


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_samples_refute_laplace_noise_of_a_smaller_scale(epsilon):
    assert epsilon_below(*_laplace(epsilon, factor=Fraction(4, 5))) > epsilon


@pytest.mark.parametrize("rho", [Fraction(1, 8), Fraction(1, 4), Fraction(1, 2)])
def test_samples_refute_no_claim_of_gaussian_noise_but_never_prove_it(rho):
    here, there = _gaussian(rho)
    for epsilon in (0.1, 0.3, 1.0):
        delta = float(delta_of_rho(rho=rho, epsilon=epsilon))
        if delta < 0.4:
            assert epsilon_below(here, there, delta=delta) <= epsilon
    # a fine grid of thresholds would see the steps of the integers, hence the small allowance
    claimed = math.sqrt(2 * rho)
    assert 0.85 * claimed - 0.02 <= mu_below(here, there) <= claimed * 1.02


@pytest.mark.parametrize("rho", [Fraction(1, 8), Fraction(1, 4), Fraction(1, 2)])
def test_samples_refute_gaussian_noise_of_a_smaller_sigma(rho):
    assert mu_below(*_gaussian(rho, factor=0.8)) > math.sqrt(2 * rho) * 1.02
