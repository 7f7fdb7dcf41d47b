"""Our closed forms beside an independent accountant (dp-accounting): never below its numerical composition."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.rdp import RdpAccountant

from maquette.accounting import UNITS, ComposedEvent, GaussianEvent, LaplaceEvent
from maquette.core.budget import Unit
from maquette.core.conversions import rho_cks

pytestmark = pytest.mark.slow  # loading the accountant alone takes seconds

STEP = 1e-3
GRID_ERROR = 5e-3
"""The accountant rounds losses up to its grid; over few steps that lifts its epsilon by less than this."""


def _random_composition(number: int):
    rng = np.random.default_rng(number)
    gaussians = [Fraction(int(s), 8) for s in rng.integers(16, 200, size=rng.integers(0, 4))]
    laplaces = [Fraction(int(s), 8) for s in rng.integers(24, 200, size=rng.integers(0, 4))]
    delta = float(10.0 ** -rng.integers(4, 9))
    if not gaussians and not laplaces:
        gaussians = [Fraction(4)]
    return gaussians, laplaces, delta


def _accountant_epsilon(gaussians, laplaces, delta: float) -> float:
    parts = [pld.from_gaussian_mechanism(float(s), value_discretization_interval=STEP) for s in gaussians] + [
        pld.from_laplace_mechanism(float(s), value_discretization_interval=STEP) for s in laplaces
    ]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.compose(part)
    return float(whole.get_epsilon_for_delta(delta))


@pytest.mark.parametrize("number", range(100))
def test_composition_in_rho_is_never_below_the_accountant(number):
    gaussians, laplaces, delta = _random_composition(number)
    event = ComposedEvent(
        tuple(GaussianEvent(sigma_squared=s**2, l2_squared=1) for s in gaussians)
        + tuple(LaplaceEvent(scale=s, l1=1) for s in laplaces)
    )
    cost = Fraction(event.cost(Unit.RHO).units, UNITS)
    theirs = _accountant_epsilon(gaussians, laplaces, delta)
    assert rho_cks(epsilon=theirs - GRID_ERROR, delta=delta) <= cost
    if gaussians and not laplaces:  # zCDP describes Gaussian noise well, other noise loosely
        assert rho_cks(epsilon=theirs * 1.15 + GRID_ERROR, delta=delta) >= cost


@pytest.mark.parametrize("number", range(20))
def test_pure_composition_is_never_below_the_accountant(number):
    rng = np.random.default_rng(1000 + number)
    scales = [Fraction(int(s), 8) for s in rng.integers(4, 100, size=1 + number % 4)]
    event = ComposedEvent(tuple(LaplaceEvent(scale=s, l1=1) for s in scales))
    ours = event.cost(Unit.EPSILON).units / UNITS
    theirs = _accountant_epsilon([], scales, 1e-12)
    assert ours >= theirs - GRID_ERROR
    assert ours <= theirs * 1.02 + GRID_ERROR


@pytest.mark.parametrize(("count", "sigma"), [(1, 4), (10, 12), (100, 40), (400, 100)])
@pytest.mark.parametrize("delta", [1e-5, 1e-9])
def test_the_rho_conversion_is_as_tight_as_the_renyi_accountant(count, sigma, delta):
    accountant = RdpAccountant(list(np.linspace(1.05, 200, 4000)))
    accountant.compose(dp_event.GaussianDpEvent(sigma), count)
    event = ComposedEvent(tuple(GaussianEvent(sigma_squared=sigma**2, l2_squared=1) for _ in range(count)))
    cost, theirs = Fraction(event.cost(Unit.RHO).units, UNITS), float(accountant.get_epsilon(delta))
    assert (
        rho_cks(epsilon=theirs * 0.999, delta=delta) <= cost <= rho_cks(epsilon=theirs * 1.001, delta=delta)
    )


def test_the_comparison_would_notice_a_cost_that_is_too_small():
    half = GaussianEvent(sigma_squared=Fraction(32), l2_squared=1)
    theirs = _accountant_epsilon([Fraction(4)], [], 1e-6)
    assert rho_cks(epsilon=theirs - GRID_ERROR, delta=1e-6) > Fraction(half.cost(Unit.RHO).units, UNITS)
