"""Public borders by which bounds are found: the same for every table, whatever it holds.

Numbers: 0 and plus or minus 1, 2 and 5 times the powers of ten, each cell half open, [a, b). Days: the first of January
of every year. What lies beyond the ends has a cell of its own on either side.
"""

from __future__ import annotations

from decimal import Decimal

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
