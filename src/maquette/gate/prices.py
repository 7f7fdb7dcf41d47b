"""From a price to the noise that it buys. Rounding always goes to the private side: more noise, never less."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from maquette.accounting.events import (
    CubeEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    SelectionEvent,
    SmoothedEvent,
)
from maquette.accounting.gaussian import SMOOTHING, log_ratio
from maquette.accounting.unit import UNITS, Unit
from maquette.errors import MechanismError, ParameterError
from maquette.queries.base import Sensitivity
from maquette.questions.bounds import WIDEST, check_price, check_type, check_width
from maquette.questions.noise import Cube, Gaussian, Laplace, NoiseLaw, NoiseRequest
from maquette.samplers.laws import exp_minus
from maquette.samplers.noise import Noise, float_up, sqrt_up

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
class NoisePlan:
    """Noise that a price buys on numerators over `denominator`: its law in counts, and the event that is charged."""

    law: NoiseLaw
    event: Event
    denominator: int = 1

    def add(self, values: NDArray[np.int64], source: Noise) -> NDArray[np.int64]:
        """Exact numerators plus this noise."""
        return add_noise(values, self.law, denominator=self.denominator, source=source)


def add_noise(
    values: NDArray[np.int64], law: NoiseLaw, *, denominator: int = 1, source: Noise
) -> NDArray[np.int64]:
    """Exact numerators over `denominator` plus noise of a law in counts: the one place where noise is drawn."""
    match law:
        case Laplace(scale=scale):
            return source.laplace(values, scale=scale * denominator)
        case Gaussian(sigma_squared=variance):
            return source.gaussian(values, sigma=sigma_of(variance * denominator**2))
        case Cube(base=base):
            return source.cube(values, base=base)


def sigma_of(variance: Fraction) -> float:
    """The double that is the root of a variance, or one whose square is hardly above it where there is none."""
    root = Fraction(math.isqrt(variance.numerator), math.isqrt(variance.denominator))
    is_exact = root**2 == variance and Fraction(float(root)) == root
    return float(root) if is_exact else sqrt_up(variance)


def noise(
    request: NoiseRequest,
    sensitivity: Sensitivity,
    *,
    unit: Unit,
    ledger_unit: Unit,
    coordinates: int,
    denominator: int = 1,
) -> NoisePlan:
    """Noise of the kind and price that is asked for, on so many numbers: the one place where a price becomes noise.

    Guarantee: the price, in pure epsilon for Laplace and L-infinity noise, in `unit` for Gaussian noise.
    """
    check_type(request, NoiseRequest, "a request for noise, a kind with its price")
    match request.kind:
        case "laplace":
            return laplace(sensitivity, epsilon=request.price, denominator=denominator)
        case "gaussian":
            return charged(
                sensitivity,
                price=request.price,
                unit=unit,
                ledger_unit=ledger_unit,
                denominator=denominator,
                coordinates=coordinates,
            )
        case "cube":
            if denominator != 1 or sensitivity.linf > 1:
                raise MechanismError(
                    "the integer L-infinity mechanism needs counting queries, weights 0 or 1; "
                    "use laplace or gaussian for fractional weights"
                )
            check_radius(request.price, coordinates)
            return cube(epsilon=request.price)
        case _:  # a kind that no annotation allows
            raise ParameterError("expected noise of the kind laplace, gaussian or cube, with its price")


def laplace(sensitivity: Sensitivity, *, epsilon: Fraction, denominator: int) -> NoisePlan:
    """The scale for pure epsilon: L1 / epsilon, rounded up to a double on the numerators.

    Guarantee: epsilon-DP (Dwork, McSherry, Nissim and Smith 2006; discrete: Ghosh, Roughgarden and Sundararajan 2009).
    """
    _check_moved(sensitivity)
    width = Fraction(float_up(sensitivity.l1 * denominator / on_grid(epsilon)))
    check_width(width)
    law = Laplace(epsilon, width / denominator)
    return NoisePlan(law, LaplaceEvent(scale=law.scale, l1=sensitivity.l1), denominator)


def gaussian(sensitivity: Sensitivity, *, rho: Fraction, denominator: int) -> NoisePlan:
    """Sigma for rho-zCDP: L2 / sqrt(2 rho), rounded up to a double on the numerators.

    Guarantee: rho-zCDP (Bun and Steinke 2016; discrete: Canonne, Kamath and Steinke 2020).
    """
    law = _gaussian_law(sensitivity, price=rho, unit=Unit.RHO, denominator=denominator)
    event = GaussianEvent(sigma_squared=law.sigma_squared, l2_squared=sensitivity.l2_squared)
    return NoisePlan(law, event, denominator)


def smoothed(
    sensitivity: Sensitivity, *, half_square: Fraction, denominator: int, coordinates: int
) -> NoisePlan:
    """Sigma for a price in mu^2 / 2: the variance L2^2 / mu^2, wider by the smoothing, rounded up to a double.

    Guarantee: sqrt(2 half_square)-GDP within a ratio, for noise on `coordinates` whole numbers, those that one record
        moves and all others (`accounting/gaussian.py`).
    """
    unit = Unit.HALF_MU_SQUARED
    law = _gaussian_law(sensitivity, price=half_square, unit=unit, denominator=denominator)
    return _against_continuous(sensitivity, law, denominator, coordinates)


def charged(
    sensitivity: Sensitivity,
    *,
    price: Fraction,
    unit: Unit,
    ledger_unit: Unit,
    denominator: int,
    coordinates: int,
) -> NoisePlan:
    """Gaussian noise for a price in `unit`, with an event that a ledger counting `ledger_unit` can charge.

    Guarantee: as `gaussian` or `smoothed`. Noise planned in rho for a ledger that counts mu^2 / 2 is drawn as planned
        and costs it at most pi / 2 times as much as rho; where it is too narrow for that, MechanismError.
    """
    if unit.is_gaussian:
        return smoothed(sensitivity, half_square=price, denominator=denominator, coordinates=coordinates)
    if not ledger_unit.is_gaussian:
        return gaussian(sensitivity, rho=price, denominator=denominator)
    law = _gaussian_law(sensitivity, price=price, unit=Unit.RHO, denominator=denominator)
    check_wide([law.sigma_squared * denominator**2])
    return _against_continuous(sensitivity, law, denominator, coordinates)


def check_wide(variances: Sequence[Fraction]) -> None:
    """Refuse noise planned in rho that a ledger in mu^2 / 2 would have to charge more than pi / 2 times as much."""
    if min(variances, default=_NARROWEST) < _NARROWEST:
        raise MechanismError(
            "this ledger counts Gaussian differential privacy and cannot charge noise of less than 2.5 counts that "
            "was planned in rho; ask for a smaller share, or use a ledger made with accounting 'zcdp'"
        )


def _gaussian_law(sensitivity: Sensitivity, *, price: Fraction, unit: Unit, denominator: int) -> Gaussian:
    """Sigma on the numerators is a double, so that the sampler draws with exactly the variance that is stated."""
    _check_moved(sensitivity)
    width = sqrt_up(sensitivity.l2_squared * denominator**2 / (2 * on_grid(price)) + unit.smoothing)
    check_width(width)
    return Gaussian(price, Fraction(width) ** 2 / denominator**2)


def _against_continuous(
    sensitivity: Sensitivity, law: Gaussian, denominator: int, coordinates: int
) -> NoisePlan:
    event = SmoothedEvent(
        sigma_squared=law.sigma_squared,
        l2_squared=sensitivity.l2_squared,
        mu_squared=sensitivity.l2_squared / (law.sigma_squared - SMOOTHING / denominator**2),
        ripple=Fraction(0),
        log_ratio=log_ratio(coordinates),
    )
    return NoisePlan(law, event, denominator)


def cube(*, epsilon: Fraction) -> NoisePlan:
    """A rational base that is not below exp(-epsilon).

    Guarantee: epsilon-DP for whole-number answers of L-infinity sensitivity 1 (Steinke and Ullman 2016).
    """
    price = on_grid(epsilon)
    base = Fraction(exp_minus(price, _BASE_BITS)[1], 1 << _BASE_BITS)
    return NoisePlan(Cube(epsilon, base), CubeEvent(epsilon=price))


def check_radius(epsilon: Fraction, coordinates: int) -> None:
    """Refuse L-infinity noise whose radius cannot be held: about k / epsilon, listed to both sides for 80 bits."""
    price = on_grid(epsilon)
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


def selection(*, price: Fraction, unit: Unit) -> SelectionPlan:
    """Permute-and-flip for a pure price, else the exponential mechanism (eps^2 / 8 of bounded range, in rho).

    Guarantee: epsilon-DP with epsilon = 2 / scale (McSherry and Talwar 2007; McKenna and Sheldon 2020; Cesar and
        Rogers 2021), for scores of sensitivity 1.
    """
    if unit.is_pure:
        scale = float_up(2 / on_grid(price))
        return SelectionPlan(scale, SelectionEvent(epsilon=2 / Fraction(scale), method="permute-and-flip"))
    # eps = sqrt(8 rho), so scale = 2 / eps = sqrt(1 / (2 rho))
    scale = sqrt_up(1 / (2 * unit.rho(on_grid(price))))
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
    *, price: Fraction, unit: Unit, resolution: int, what: str, ledger_unit: Unit = Unit.EPSILON
) -> Pricing:
    """A rational base >= exp(-epsilon / (2 resolution)) with a power of two as denominator.

    Guarantee: epsilon-DP for levels that move by at most `resolution` between neighbours (the exponential mechanism,
        McSherry and Talwar 2007, with any public base measure); as it has epsilon-bounded range, a price in rho buys
        epsilon = sqrt(8 rho) (Cesar and Rogers 2021), and a ledger that counts rho is charged epsilon^2 / 8; one that
        counts mu^2 / 2 is charged pi / 2 times as much.
    """
    epsilon = unit.selection_epsilon(on_grid(price))
    pure = unit.is_pure and ledger_unit.is_pure
    event = PureEvent(epsilon, what) if pure else SelectionEvent(epsilon, "exponential")
    base = Fraction(exp_minus(epsilon / (2 * resolution), _BITS)[1], 1 << _BITS)
    return Pricing(epsilon, base, event)
