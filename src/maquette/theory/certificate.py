"""The certified error of a finished release, from its privately measured largest error."""

from __future__ import annotations

import math


def alpha(*, largest: float, margin: float, size: float, drift: float) -> float:
    """The fraction that every query of the workload is within.

    `largest` is the noisy largest error in counts, `margin` a bound on how far its noise can have lowered it,
    `size` the released number of records, `drift` a bound on how far that lies above the true one (0 if public).

    Accuracy: max_q |q(x) - n f_q(y)| <= largest + margin and n >= size - drift give
        max_q |f_q(x) - f_q(y)| <= (largest + margin) / (size - drift), except with the sum of the two failures.
    Holds when: n >= 1. Returns 1 where nothing better is known.
    """
    least = size - drift
    if least <= 0 or math.isnan(largest):
        return 1.0
    return min(1.0, max(0.0, largest + margin) / least)
