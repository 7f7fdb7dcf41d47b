"""Where a rising function crosses zero."""

from __future__ import annotations

from collections.abc import Callable


def rising_root(function: Callable[[float], float], low: float, high: float) -> float:
    """The root of a rising function between two points, by halving down to neighbouring doubles."""
    while True:
        middle = (low + high) / 2
        if not low < middle < high:
            return high
        low, high = (low, middle) if function(middle) >= 0 else (middle, high)
