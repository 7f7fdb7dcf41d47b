"""From the failure of a whole release to the failure of one of its independent draws."""

from __future__ import annotations

import math

from maquette import _check


def log_failure(*, log_draws: float, beta: float) -> float:
    """ln p such that independent draws that each fail with probability p all hold with probability 1 - beta.

    Accuracy: 1 - (1-p)^draws = beta, solved exactly: p = 1 - (1-beta)^(1/draws).
    Holds when: the draws are independent. `beta / draws` (the union bound) is smaller and needs no independence.
    """
    _check.fraction(beta=beta)
    share = -math.log1p(-beta)
    if log_draws > 600:  # the share of one draw is below the smallest double; p = share / draws to all digits
        return math.log(share) - log_draws
    return math.log(-math.expm1(-share * math.exp(-log_draws)))
