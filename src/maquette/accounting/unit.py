"""What privacy loss is counted in, and what a price in it buys.

A price is a number in one of three units. Everything that depends on which one it is stands here: other modules ask the
unit. The noise that is drawn for a price is planned in `gate/prices.py` and nowhere else.
"""

from __future__ import annotations

import math
from enum import StrEnum
from fractions import Fraction
from typing import TypeVar

from maquette.accounting.gaussian import SMOOTHING, half_square_of_rho, rho_of_half_square

UNITS = 10**12
"""Units per 1.0 of epsilon, rho or mu^2 / 2."""

_Amount = TypeVar("_Amount", float, Fraction)


class Unit(StrEnum):
    """Pure epsilon, rho of zero-concentrated, or mu^2 / 2 of Gaussian differential privacy. The values are stored."""

    EPSILON = "epsilon"
    RHO = "rho"
    HALF_MU_SQUARED = "mu^2/2"

    def __repr__(self) -> str:
        return repr(self.value)

    @property
    def is_pure(self) -> bool:
        """Whether a price is a pure epsilon."""
        return self is Unit.EPSILON

    @property
    def is_gaussian(self) -> bool:
        """Whether Gaussian differential privacy is counted."""
        return self is Unit.HALF_MU_SQUARED

    @property
    def smoothing(self) -> Fraction:
        """By how much the variance of integer noise exceeds that of the continuous noise that it is charged as."""
        return SMOOTHING if self.is_gaussian else Fraction(0)

    def rho(self, price: Fraction) -> Fraction:
        """The rho whose pure events and choices a price buys: itself, or 2 / pi of mu^2 / 2, rounded down.

        Holds when: the price is not a pure epsilon.
        """
        return rho_of_half_square(price) if self.is_gaussian else price

    def cost_of_rho(self, rho: Fraction) -> Fraction:
        """What a pure event or a choice of this rho costs; the inverse of `rho`, rounded up.

        Holds when: the unit is not pure epsilon.
        """
        return half_square_of_rho(rho) if self.is_gaussian else rho

    def pure_epsilon(self, price: Fraction) -> Fraction:
        """The pure epsilon of noise that a price buys: itself, or sqrt(2 rho) rounded down to the ledger's grid.

        Any epsilon-DP mechanism is (epsilon^2 / 2)-zCDP.
        """
        return price if self.is_pure else _root_down(2 * self.rho(price))

    def selection_epsilon(self, price: Fraction) -> Fraction:
        """The epsilon of a choice or a draw that a price buys: itself, or sqrt(8 rho) rounded down to the same grid.

        The exponential mechanism has epsilon-bounded range, which is (epsilon^2 / 8)-zCDP: more than noise gets.
        """
        return price if self.is_pure else _root_down(8 * self.rho(price))

    def group_factor(self, rows: int) -> int:
        """How many times the price of a look at one record pays for the same look at a group of `rows` records.

        Sensitivities grow by `rows`, so epsilon does too; rho and mu^2 / 2 grow by its square.
        """
        return rows if self.is_pure else rows**2

    def variance(self, price: _Amount, *, shift: int) -> _Amount:
        """Of the noise on a table of counts, before smoothing: 2 (D / epsilon)^2, or D / (2 rho).

        D (`shift`) is how many counts a neighbour moves by one.
        """
        if self.is_pure:
            return 2 * (shift / price) ** 2
        return shift / (2 * price)

    def price(self, variance: float, *, shift: int) -> float:
        """What noise of this variance on a table of counts costs: the inverse of `variance`."""
        if self.is_pure:
            return shift * math.sqrt(2 / variance)
        return shift / (2 * variance)


def _root_down(square: Fraction) -> Fraction:
    return Fraction(math.isqrt(math.floor(square * UNITS**2)), UNITS)
