"""From a price to the noise that it buys. Rounding always goes to the private side: more noise, never less."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from maquette.accounting.budget import UNITS
from maquette.accounting.events import (
    CubeEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    SelectionEvent,
    SmoothedEvent,
)
from maquette.accounting.gaussian import SMOOTHING, log_ratio, rho_of
from maquette.errors import MechanismError, ParameterError
from maquette.queries.base import Sensitivity
from maquette.questions.bounds import WIDEST, check_price, check_width
from maquette.samplers.laws import exp_minus
from maquette.samplers.noise import float_up, sqrt_up

_BASE_BITS = 64
_LONGEST_RADIUS = 2**23
"""Radii of the L-infinity noise with their weights, held at once."""
_NARROWEST = Fraction(25, 4)
"""V / (V - 9/4) is below pi / 2 from here on."""


def on_grid(price: Fraction) -> Fraction:
    """A price rounded down to the ledger's grid, so that its cost rounded up is not above it."""
    check_price(price)
    units = math.floor(price * UNITS)
    if units < 1:
        raise ParameterError("expected a price of at least 1e-12, the ledger's unit")
    return Fraction(units, UNITS)


def _check_moved(sensitivity: Sensitivity) -> None:
    if not sensitivity.l1:
        raise ParameterError(
            "these answers are the same on all neighbouring tables; no noise can be planned for them"
        )


@dataclass(frozen=True, slots=True)
class LaplacePlan:
    """Discrete Laplace noise on numerators over `denominator`."""

    scale: Fraction
    """In counts."""
    drawn: Fraction
    """On the numerators."""
    event: LaplaceEvent


def laplace(sensitivity: Sensitivity, *, epsilon: Fraction, denominator: int) -> LaplacePlan:
    """The scale for pure epsilon: L1 / epsilon, rounded up to a double.

    Guarantee: epsilon-DP (Dwork, McSherry, Nissim and Smith 2006; discrete: Ghosh, Roughgarden and Sundararajan 2009).
    """
    _check_moved(sensitivity)
    drawn = Fraction(float_up(sensitivity.l1 * denominator / on_grid(epsilon)))
    check_width(drawn)
    scale = drawn / denominator
    return LaplacePlan(scale, drawn, LaplaceEvent(scale=scale, l1=sensitivity.l1))


@dataclass(frozen=True, slots=True)
class GaussianPlan:
    """Discrete Gaussian noise on numerators over `denominator`."""

    sigma_squared: Fraction
    """In counts."""
    drawn: float
    """Sigma on the numerators."""
    event: GaussianEvent | SmoothedEvent


def gaussian(sensitivity: Sensitivity, *, rho: Fraction, denominator: int) -> GaussianPlan:
    """Sigma for rho-zCDP: L2 / sqrt(2 rho), rounded up to a double.

    Guarantee: rho-zCDP (Bun and Steinke 2016; discrete: Canonne, Kamath and Steinke 2020).
    """
    _check_moved(sensitivity)
    drawn = sqrt_up(sensitivity.l2_squared * denominator**2 / (2 * on_grid(rho)))
    check_width(drawn)
    variance = Fraction(drawn) ** 2 / denominator**2
    return GaussianPlan(
        variance, drawn, GaussianEvent(sigma_squared=variance, l2_squared=sensitivity.l2_squared)
    )


def smoothed(
    sensitivity: Sensitivity, *, half_square: Fraction, denominator: int, coordinates: int
) -> GaussianPlan:
    """Sigma for a price in mu^2 / 2: the variance L2^2 / mu^2, wider by the smoothing, rounded up to a double.

    Guarantee: sqrt(2 half_square)-GDP within a ratio, for noise on `coordinates` whole numbers, those that one record
        moves and all others (`accounting/gaussian.py`).
    """
    _check_moved(sensitivity)
    drawn = sqrt_up(sensitivity.l2_squared * denominator**2 / (2 * on_grid(half_square)) + SMOOTHING)
    check_width(drawn)
    return _against_continuous(sensitivity, drawn, denominator, coordinates)


def charged(
    sensitivity: Sensitivity,
    *,
    price: Fraction,
    unit: str,
    ledger_unit: str,
    denominator: int,
    coordinates: int,
) -> GaussianPlan:
    """Gaussian noise for a price in `unit`, with an event that a ledger counting `ledger_unit` can charge.

    Guarantee: as `gaussian` or `smoothed`. Noise planned in rho for a ledger that counts mu^2 / 2 is drawn as planned
        and costs it at most pi / 2 times as much as rho; where it is too narrow for that, MechanismError.
    """
    if unit == "mu^2/2":
        return smoothed(sensitivity, half_square=price, denominator=denominator, coordinates=coordinates)
    plan = gaussian(sensitivity, rho=price, denominator=denominator)
    if ledger_unit != "mu^2/2":
        return plan
    check_wide([Fraction(plan.drawn) ** 2])
    return _against_continuous(sensitivity, plan.drawn, denominator, coordinates)


def check_wide(variances: Sequence[Fraction]) -> None:
    """Refuse noise planned in rho that a ledger in mu^2 / 2 would have to charge more than pi / 2 times as much."""
    if min(variances, default=_NARROWEST) < _NARROWEST:
        raise MechanismError(
            "this ledger counts Gaussian differential privacy and cannot charge noise of less than 2.5 counts that "
            "was planned in rho; ask for a smaller share, or use a ledger made with accounting 'zcdp'"
        )


def _against_continuous(
    sensitivity: Sensitivity, drawn: float, denominator: int, coordinates: int
) -> GaussianPlan:
    variance = Fraction(drawn) ** 2 / denominator**2
    event = SmoothedEvent(
        sigma_squared=variance,
        l2_squared=sensitivity.l2_squared,
        mu_squared=sensitivity.l2_squared / (variance - SMOOTHING / denominator**2),
        ripple=Fraction(0),
        log_ratio=log_ratio(coordinates),
    )
    return GaussianPlan(variance, drawn, event)


@dataclass(frozen=True, slots=True)
class CubePlan:
    """Integer L-infinity noise."""

    base: Fraction
    event: CubeEvent


def cube(*, epsilon: Fraction) -> CubePlan:
    """A rational base that is not below exp(-epsilon).

    Guarantee: epsilon-DP for whole-number answers of L-infinity sensitivity 1 (Steinke and Ullman 2016).
    """
    price = on_grid(epsilon)
    base = Fraction(exp_minus(price, _BASE_BITS)[1], 1 << _BASE_BITS)
    return CubePlan(base, CubeEvent(epsilon=price))


def check_radius(plan: CubePlan, coordinates: int) -> None:
    """Refuse L-infinity noise whose radius cannot be held: about k / epsilon, listed to both sides for 80 bits."""
    price = Fraction(plan.event.epsilon)
    if (60 + math.isqrt(110 * coordinates)) / price > _LONGEST_RADIUS or coordinates / price > WIDEST:
        raise MechanismError(
            f"the integer L-infinity mechanism cannot list its radius for {coordinates:,} answers at so small a price; "
            "use laplace"
        )


@dataclass(frozen=True, slots=True)
class SelectionPlan:
    """A private choice: scores of sensitivity 1 divided by `scale`."""

    scale: float
    event: SelectionEvent


def selection(*, price: Fraction, unit: str) -> SelectionPlan:
    """Permute-and-flip for a pure price, else the exponential mechanism (eps^2 / 8 of bounded range, in rho).

    Guarantee: epsilon-DP with epsilon = 2 / scale (McSherry and Talwar 2007; McKenna and Sheldon 2020; Cesar and
        Rogers 2021), for scores of sensitivity 1.
    """
    if unit == "epsilon":
        scale = float_up(2 / on_grid(price))
        return SelectionPlan(scale, SelectionEvent(epsilon=2 / Fraction(scale), method="permute-and-flip"))
    # eps = sqrt(8 rho), so scale = 2 / eps = sqrt(1 / (2 rho))
    scale = sqrt_up(1 / (2 * rho_of(on_grid(price), unit)))
    return SelectionPlan(scale, SelectionEvent(epsilon=2 / Fraction(scale), method="exponential"))


# From a price to the base of a draw. Rounding goes to the private side: a base nearer to 1, never farther.


_BITS = 64


@dataclass(frozen=True, slots=True)
class Pricing:
    """Weights base(y) * base**level(y), and the event that pays for them."""

    epsilon: Fraction
    base: Fraction
    event: Event


def pricing(
    *, price: Fraction, unit: str, resolution: int, what: str, ledger_unit: str = "epsilon"
) -> Pricing:
    """A rational base >= exp(-epsilon / (2 resolution)) with a power of two as denominator.

    Guarantee: epsilon-DP for levels that move by at most `resolution` between neighbours (the exponential mechanism,
        McSherry and Talwar 2007, with any public base measure); as it has epsilon-bounded range, a price in rho buys
        epsilon = sqrt(8 rho) (Cesar and Rogers 2021), and a ledger that counts rho is charged epsilon^2 / 8; one that
        counts mu^2 / 2 is charged pi / 2 times as much.
    """
    if unit == "epsilon":
        epsilon = on_grid(price)
    else:
        epsilon = Fraction(math.isqrt(math.floor(8 * rho_of(on_grid(price), unit) * UNITS**2)), UNITS)
    pure = unit == ledger_unit == "epsilon"
    event = PureEvent(epsilon, what) if pure else SelectionEvent(epsilon, "exponential")
    base = Fraction(exp_minus(epsilon / (2 * resolution), _BITS)[1], 1 << _BITS)
    return Pricing(epsilon, base, event)
