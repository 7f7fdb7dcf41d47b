"""From a price to the base of a draw. Rounding goes to the private side: a base nearer to 1, never farther."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from maquette.accounting.budget import UNITS
from maquette.accounting.events import Event, PureEvent, SelectionEvent
from maquette.accounting.gaussian import rho_of
from maquette.gate.calibrate import on_grid
from maquette.gate.noise.laws import exp_minus

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
