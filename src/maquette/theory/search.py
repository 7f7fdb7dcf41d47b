"""The whole number that is enough, and the one at which a falling error plus a growing price is least."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

from maquette.core import _check

Curve = Callable[[int], float]

_FAR = 10**18
"""No search goes beyond; reached only where more rows cost nothing."""


def smallest(enough: Callable[[int], bool], *, most: int | None = None) -> int | None:
    """The smallest whole number that is enough, or None if not even `most` is.

    Holds when: whatever is above a number that is enough is enough too.
    """
    high = 1
    while not enough(high):
        if most is not None and high >= most:
            return None
        high = 2 * high if most is None else min(2 * high, most)
    low = high // 2  # not enough, or 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def valley(fall: Curve, rise: Curve, *, most: int = _FAR) -> int:
    """The least m in 1..most with fall(m) + rise(m) smallest, for sums that fall, then rise.

    `rise` is given by its steps, rise(m) = R(m+1) - R(m). Bisection on the sign of the step of the sum.

    Holds when: the step changes its sign once. That is proved for R(m) = c ln C(N+m-1, m), whose step is
        c ln(1 + (N-1)/(m+1)), with fall(m) = A m^-1/2 or A/m (plus a constant): the ratio of the two steps rises.
        Proof. With u = (N-1)/(m+1), the logarithmic derivative of ln(1+u) in m is
        -(1/(m+1)) u/((1+u) ln(1+u)) >= -1/(m+1). The steps fall(m) - fall(m+1) are A times the integral of
        s t^(-s-1) over [m, m+1], s = 1/2 or 1, and their logarithmic derivative is at most -(s+1)/(m+1). So the
        ratio's is at least s/(m+1) > 0. A linear R (sequences) gives a convex sum.
    """

    def rising(m: int) -> bool:
        return rise(m) >= fall(m) - fall(m + 1)

    high = 1
    while high < most and not rising(high):
        high = min(2 * high, most)
    low = high // 2  # still falling, or 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if rising(middle) else (middle, high)
    return high


def lowest(fall: Curve, price: Curve, *, most: int = _FAR) -> int:
    """An m in 1..most with fall(m) + price(m) smallest, for any fall that never rises and price that never falls.

    Branch and bound: on a stretch [l, u] the sum is at least fall(u) + price(l), so stretches that cannot beat the
    best value seen are dropped and the others halved. Exact; about sqrt(m) evaluations near a smooth minimum.
    """
    best, at = min((fall(m) + price(m), m) for m in _powers(most))
    last = next((m for m in _powers(most) if price(m) >= best), most)
    heap = [(fall(last) + price(1), 1, last)]
    while heap:
        bound, low, high = heapq.heappop(heap)
        if bound >= best:
            break
        middle = (low + high) // 2
        value = fall(middle) + price(middle)
        best, at = min((best, at), (value, middle))
        for first, end in ((low, middle - 1), (middle + 1, high)):
            if first <= end:
                heapq.heappush(heap, (fall(end) + price(first), first, end))
    return at


def _powers(most: int) -> list[int]:
    return [m for m in (2**i for i in range(61)) if m <= most]


# The records or the privacy that a target error needs, from any bound that falls in them.


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
