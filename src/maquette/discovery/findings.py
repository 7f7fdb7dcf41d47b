"""What a look at a column without a declaration gives back: noisy counts, and values that enough people share."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.core.events import Receipt
from maquette.core.laws import Gaussian
from maquette.errors import MechanismError

MAX_BORDERS = 1001
"""Borders that the numbers of a column are counted between: about a thousand counts of one look."""


@dataclass(frozen=True, slots=True, eq=False)
class FoundValues:
    """The values of a column whose noisy number of records reached the threshold, in the order of their texts."""

    texts: tuple[str, ...]
    counts: NDArray[np.int64]
    """Records of each, plus noise, as compared with the threshold."""
    threshold: int
    noise: Gaussian
    delta: Fraction
    """The most that the values of one person that nobody else has may come out with."""
    receipt: Receipt


def numbers_request(borders: tuple[float, ...] | None) -> tuple[str, int, dict[str, Any]]:
    """What is asked about the numbers of a column, the number of its cells, and what a request says of it beside.

    By the public ladder (None): below, between each two borders, above. Between other borders: the same, and a cell for
    what is no number. Cells are disjoint only if the borders increase; the law of the noise takes that for granted.
    """
    if borders is None:
        return "numbers by ladder", len(NUMBERS) + 1, {}
    finite = all(isinstance(border, float) and math.isfinite(border) for border in borders)
    if not (
        finite and 2 <= len(borders) <= MAX_BORDERS and all(a < b for a, b in itertools.pairwise(borders))
    ):
        raise MechanismError(
            f"expected 2 to {MAX_BORDERS} finite, increasing borders to count numbers between"
        )
    return "numbers between borders", len(borders) + 2, {"borders": list(borders)}


def threshold_for(variance: Fraction, delta: Fraction, *, rows: int) -> int:
    """The smallest count that hides a person's own values: with noise of this variance it is reached with chance delta.

    A person with k records has at most k values that nobody else has, of at most k records each. Discrete Gaussian
    noise Z has E exp(s Z) <= exp(s^2 variance / 2) (Canonne, Kamath and Steinke 2020), hence P(Z >= t) <= exp(-t^2 / (2
    variance)), and t = sqrt(2 variance ln(k / delta)) serves. The logarithm is rounded up.

    Guarantee: k P(k + Z >= threshold) <= delta.
    """
    numerator, denominator = (Fraction(rows) / delta).as_integer_ratio()
    # ln(a / b) in floating point is off by far less than this
    logarithm = Fraction(math.log(numerator) - math.log(denominator)) + Fraction(1, 10**9)
    square = 2 * variance * logarithm
    root = math.isqrt(math.ceil(square))
    return rows + root + (root * root < square)


def to_bytes(texts: tuple[str, ...]) -> NDArray[np.int64]:
    """Texts as whole numbers, one per byte, which is what a ledger stores."""
    return np.frombuffer(json.dumps(texts).encode("ascii"), dtype=np.uint8).astype(np.int64)


def from_bytes(numbers: NDArray[np.int64]) -> tuple[str, ...]:
    return tuple(json.loads(numbers.astype(np.uint8).tobytes().decode("ascii")))


# Public borders by which bounds are found: the same for every table, whatever it holds.
#
# Numbers: 0 and plus or minus 1, 2 and 5 times the powers of ten, each cell half open, [a, b). Days: the first of
# January of every year. What lies beyond the ends has a cell of its own on either side.

FIRST_POWER, LAST_POWER = -9, 18
NUMBERS: tuple[float, ...] = tuple(
    sorted(
        {
            float(sign * step * Decimal(10) ** power)
            for power in range(FIRST_POWER, LAST_POWER + 1)
            for step in (1, 2, 5)
            for sign in (-1, 1)
        }
        | {0.0}
    )
)
FIRST_YEAR, LAST_YEAR = 1800, 2200
YEARS: tuple[int, ...] = tuple(range(FIRST_YEAR, LAST_YEAR + 1))
KINDS = ("whole number", "number with a fraction", "day or moment", "other text", "missing")
"""What the value of a column that nobody declared looks like; every value is one of them."""
