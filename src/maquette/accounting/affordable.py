"""What a ledger can still pay for, in the numbers that people ask with: the largest epsilon of a further release.

It charges nothing and decides nothing; the ledger itself does, when it is asked to pay.
"""

from __future__ import annotations

from fractions import Fraction

from maquette.accounting.budget import Budget, Cost, share_of_slack
from maquette.accounting.events import PureEvent
from maquette.accounting.unit import UNITS
from maquette.errors import ParameterError

DIGITS = 3
"""Significant digits of an affordable epsilon, rounded down."""
_PER_DECADE = 9 * 10 ** (DIGITS - 1)
_LOWEST, _HIGHEST = -9, 6
"""Powers of ten between which an epsilon is looked for."""


def release_cost(release: Budget, ledger: Budget) -> Cost:
    """What a release with this budget takes of a ledger; a part of the ledger's slack goes with its part of the total.

    Holds when: both have a delta and count it in the same way, or the release is pure.
    """
    if release.pure:
        return PureEvent(Fraction(release.total_units, UNITS), "release").cost(ledger.unit)
    if release.unit != ledger.unit:
        raise ParameterError(f"a ledger that counts {ledger.unit} cannot pay for a budget in {release.unit}")
    units = release.total_units
    return Cost(units, min(share_of_slack(ledger, units), release.slack_units))


def affordable_epsilon(ledger: Budget, left: Cost, *, delta: float | None = None) -> float | None:
    """The largest epsilon, rounded down to three digits, of a release that fits into what a ledger has left.

    `delta` is that of the release, the ledger's own by default; 0 asks for a pure one. None where nothing fits.

    Accuracy: the epsilon costs at most `left` in whole units, and the next one of three digits costs more.
    """
    at_delta = ledger.delta if delta is None else delta

    def fits(step: int) -> bool:
        try:
            cost = release_cost(Budget(_epsilon(step), at_delta, ledger.accounting), ledger)
        except ParameterError:  # below the smallest amount that a ledger counts
            return True
        return cost.units <= left.units and cost.slack <= left.slack

    low, high = -1, (_HIGHEST - _LOWEST) * _PER_DECADE
    while high - low > 1:  # `low` fits or is below all, `high` does not
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return _epsilon(low) if low >= 0 and _is_counted(_epsilon(low), at_delta, ledger) else None


def next_epsilon(epsilon: float) -> float:
    """The next larger number of three digits."""
    mantissa, _, exponent = f"{epsilon:.{DIGITS - 1}e}".partition("e")
    return float(f"{int(mantissa.replace('.', '')) + 1}e{int(exponent) - DIGITS + 1}")


def _epsilon(step: int) -> float:
    """The numbers of three digits in order."""
    decade, place = divmod(step, _PER_DECADE)
    return float(f"{10 ** (DIGITS - 1) + place}e{_LOWEST + decade - DIGITS + 1}")


def _is_counted(epsilon: float, delta: float, ledger: Budget) -> bool:
    try:
        Budget(epsilon, delta, ledger.accounting)
    except ParameterError:
        return False
    return True
