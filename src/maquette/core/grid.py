"""The fine cells of a numeric column: the multiples of its unit between its bounds.

The code of a number is a function of that number alone: the nearest multiple of the unit (of two that are equally near
the even one), counted from the first one, and the first or the last for a number beyond them. One more code stands for
a value that is not declared, where the attribute has a cell for such values; it adds nothing to a sum.

Arithmetic: a bound is at most 2^51 units, so that the quotient of a number within the bounds and the unit is off by
less than half a unit, and a number written as a multiple of the unit (12.29 in units of 0.01) is counted as that one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.core.errors import DomainError

MAX_STEPS = 2**28
"""Units between the bounds. With 2^32 records a sum over them stays within 2^60 (`core/bounds.py`)."""
_MAX_UNITS = 2**51
_DEFAULT_STEPS = 2**20
"""Fine cells where no unit is declared, about."""
_COARSE_CELLS = 32
"""Cells for tables of several attributes where none are declared, about."""

Codes = NDArray[np.int64]


def column_of(name: str) -> str:
    """The name of an attribute's column of fine codes; no attribute has it, since none has space around its name."""
    return f"{name} (fine) "


@dataclass(frozen=True, slots=True)
class Grid:
    """The multiples first, ..., last of a unit."""

    unit: Fraction
    first: int
    last: int
    has_undeclared: bool
    """Is there a code for values that are missing or undeclared? Elsewhere they count as the first one."""

    @classmethod
    def over(cls, low: float, high: float, unit: float, *, has_undeclared: bool) -> Grid:
        """Between two finite bounds; refused where it would have too many cells, or one alone."""
        step = Fraction(str(unit))
        first, last = math.ceil(exact(low) / step), math.floor(exact(high) / step)
        if not 1 <= last - first <= MAX_STEPS:
            raise DomainError(
                f"expected 1 to {MAX_STEPS:,} units of {unit:g} between {low:g} and {high:g}; declare another unit"
            )
        if max(-first, last) > _MAX_UNITS:
            raise DomainError(
                f"{low:g} to {high:g} is too far from zero for a unit of {unit:g}; declare a larger one"
            )
        return cls(step, first, last, has_undeclared)

    @property
    def steps(self) -> int:
        """Units between the first and the last multiple."""
        return self.last - self.first

    @property
    def size(self) -> int:
        """Codes: one for each multiple, and one for what is not declared."""
        return self.steps + 1 + self.has_undeclared

    @property
    def undeclared_code(self) -> int:
        return self.steps + 1 if self.has_undeclared else 0

    @property
    def low(self) -> Fraction:
        """The smallest value."""
        return self.first * self.unit

    @property
    def middle(self) -> Fraction:
        """Half way between the smallest and the largest value: a public number."""
        return Fraction(self.first + self.last, 2) * self.unit

    @property
    def width(self) -> Fraction:
        """From the smallest value to the largest."""
        return self.steps * self.unit

    def codes(self, values: NDArray[np.float64]) -> Codes:
        """The code of every number, total: beyond the bounds the nearest one, NaN that of a missing value."""
        missing = np.isnan(values)
        with np.errstate(over="ignore"):
            nearest = np.rint(np.where(missing, 0.0, values) / float(self.unit))
        codes = np.clip(nearest, self.first, self.last).astype(np.int64) - self.first
        return np.where(missing, self.undeclared_code, codes)

    def values(self, codes: NDArray[Any]) -> NDArray[np.float64]:
        """The number that each code below the last stands for."""
        wholes = (np.asarray(codes, dtype=np.int64) + self.first).astype(np.float64)
        return wholes * self.unit.numerator / self.unit.denominator

    def borders(self) -> tuple[float, ...]:
        """Borders of about 32 cells of equal width, half way between two multiples; zero has a cell of its own.

        A public coarsening for tables of several attributes, where none is declared.
        """
        wide = -(-(self.steps + 1) // _COARSE_CELLS)
        starts = {*range(self.first, self.last + 1, wide)}
        if wide > 1:  # zero is where a value that most records share is known without a look
            starts |= {whole for whole in (0, 1) if self.first < whole <= self.last}
        ends = [*sorted(starts), self.last + 1]
        return tuple(float((whole - Fraction(1, 2)) * self.unit) for whole in ends)


def default_unit(low: float, high: float, *, integer: bool) -> float:
    """One for whole numbers, else the power of two by which the bounds are about 2^20 apart."""
    return 1.0 if integer else 2.0 ** (math.ceil(math.log2(high - low)) - int(math.log2(_DEFAULT_STEPS)))


def check_unit(unit: object) -> None:
    """A finite number above zero."""
    if isinstance(unit, bool) or not isinstance(unit, (int, float)) or not 0 < unit < math.inf:
        raise DomainError(f"a unit is a number above zero, got {unit!r}")


def exact(number: float) -> Fraction:
    """A declared number as it is written: 0.1 is a tenth."""
    return Fraction(str(number))
