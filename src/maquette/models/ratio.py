"""The share c / n of a count among the records, where both are only known up to noise.

The share f = c / n is a fixed number, so count - f total is noise around 0 whatever f is: all f for which it is not
larger than noise can be are the interval (Fieller 1954). Dividing by a total that is itself off then needs no chance to
fail of its own, and what the noise of the count and of the total have in common cancels.
"""

from __future__ import annotations

import math

Ends = tuple[float, float]
"""The lowest and the highest share that the noise allows."""

_ROUNDS = 3
"""How often an interval is narrowed by what it says of its own ends."""


def ends_by_variance(
    count: float, total: float, *, of_count: float, of_total: float, common: float, beta: float
) -> Ends:
    """Ends between which a share lies, by the variances of Gaussian noise and what they have in `common`.

    Accuracy: except with probability beta. count - f total is a sum of independent sub-Gaussian draws of variance
        v = of_count - 2 f common + f^2 of_total, so that it lies within z sqrt(v), z^2 = 2 ln(2 / beta). The f with
        (count - f total)^2 <= z^2 v lie between the roots of a quadratic if total^2 > z^2 of_total; else f may be
        anything.
    """
    z_squared = 2 * math.log(2 / beta)
    square = total**2 - z_squared * of_total
    if total <= 0 or square <= 0:
        return 0.0, 1.0
    middle = (count * total - z_squared * common) / square
    rest = (count**2 - z_squared * of_count) / square
    reach = math.sqrt(max(middle**2 - rest, 0.0))
    return _inside(middle - reach), _inside(middle + reach)


def ends_by_bounds(count: float, total: float, *, noise: float, size_error: float, lean: float) -> Ends:
    """The same for noise that is only known to be small: count - f total is within noise + |lean - f| size_error.

    Accuracy: wherever that is true. `lean` is how much of the error of the total is in the count.
    """
    if total <= 0:
        return 0.0, 1.0
    low, high = 0.0, 1.0
    for _ in range(_ROUNDS):
        reach = noise + max(abs(lean - low), abs(high - lean)) * size_error
        low, high = max(low, (count - reach) / total), min(high, (count + reach) / total)
        if low > high:  # the noise was larger than its bound: the nearest share
            low = high = _inside(count / total)
    return low, high


def error_of(value: float, ends: Ends) -> float:
    """How far a stated share lies from the farther end."""
    return max(value - ends[0], ends[1] - value)


def _inside(share: float) -> float:
    return min(max(share, 0.0), 1.0)
