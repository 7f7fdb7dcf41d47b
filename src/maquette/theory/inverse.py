"""The records or the privacy that a target error needs, from any bound that falls in them."""

from __future__ import annotations

import math
from collections.abc import Callable

from maquette import _check
from maquette.theory.search import smallest


def records(bound: Callable[[int], float], *, alpha: float, most: int = 10**18) -> int | None:
    """The smallest n with bound(n) <= alpha, or None if `most` do not suffice.

    Holds when: the bound does not rise in n; it is asked at whole numbers only.
    """
    _check.positive(alpha=alpha)
    return smallest(lambda n: bound(n) <= alpha, most=most)


def epsilon(bound: Callable[[float], float], *, alpha: float, most: float = 1e4) -> float | None:
    """The smallest epsilon with bound(epsilon) <= alpha, to a relative 1e-9 from above, or None.

    Holds when: the bound does not rise in epsilon.
    """
    _check.positive(alpha=alpha)
    if bound(most) > alpha:
        return None
    high, low = most, most
    while bound(low) <= alpha:
        high, low = low, low / 16
        if low < 1e-12:
            return high
    while high / low > 1 + 1e-9:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if bound(middle) <= alpha else (middle, high)
    return high
