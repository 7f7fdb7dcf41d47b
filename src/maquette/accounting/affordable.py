"""What a budget can still pay for: does a cost fit, what percent of it is left, the largest further epsilon.

It charges nothing; the ledger itself does, when it is asked to pay.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from maquette.accounting.budget import SLACK_UNITS, Budget, Cost, accounting_of, share_of_slack
from maquette.accounting.events import PureEvent
from maquette.accounting.unit import UNITS, Unit
from maquette.errors import BudgetExceeded, ParameterError

DIGITS = 3
"""Significant digits of an affordable epsilon, rounded down."""
_PER_DECADE = 9 * 10 ** (DIGITS - 1)
_LOWEST, _HIGHEST = -9, 6
"""Powers of ten between which an epsilon is looked for."""


def spent_with(budget: Budget, spent: Cost, cost: Cost) -> Cost:
    """What is spent of a budget with one more cost; BudgetExceeded beyond it, whatever the ledger has left."""
    total = spent + cost
    if total.slack > budget.slack_units:
        raise BudgetExceeded(
            "this question's noise is exact only within a proven bound, and the release has too little of its "
            "promise set aside for that; give it a smaller epsilon or a larger delta",
            unit="slack",
            needed=cost.slack / SLACK_UNITS,
            left=(budget.slack_units - spent.slack) / SLACK_UNITS,
        )
    if total.units > budget.total_units:
        rest = budget.total_units - spent.units
        raise BudgetExceeded(
            f"this question needs {percent_of(cost.units, budget.total_units, up=True)} of the budget ({budget}), and "
            f"{percent_of(rest, budget.total_units)} is left; ask a smaller workload or give a larger budget",
            unit=budget.unit,
            needed=cost.units / UNITS,
            left=rest / UNITS,
        )
    return total


def release_cost(release: Budget, ledger: Budget) -> Cost:
    """What a release with this budget takes of a ledger; a part of the ledger's slack goes with its part of the total.

    Holds when: both have a delta and count it in the same way, or the release is pure.
    """
    units = release_units(release, ledger.unit)
    if release.pure:
        return Cost(units)
    return Cost(units, min(share_of_slack(ledger, units), release.slack_units))


def release_units(release: Budget, unit: Unit) -> int:
    """The whole budget of a release in what a ledger counts, rounded up."""
    if release.pure:
        return PureEvent(Fraction(release.total_units, UNITS), "release").cost(unit).units
    if release.unit != unit:
        raise ParameterError(f"a ledger that counts {unit} cannot pay for a budget in {release.unit}")
    return release.total_units


def affordable_epsilon(ledger: Budget, left: Cost, *, delta: float | None = None) -> float | None:
    """The largest epsilon, rounded down to three digits, of a release that fits into what a ledger has left.

    `delta` is that of the release, the ledger's own by default; 0 asks for a pure one. None where nothing fits.

    Accuracy: the epsilon costs at most `left` in whole units, and the next one of three digits costs more.
    """
    at_delta = ledger.delta if delta is None else delta

    def fits(epsilon: float) -> bool:
        cost = release_cost(Budget(epsilon, at_delta, ledger.accounting), ledger)
        return cost.units <= left.units and cost.slack <= left.slack

    return largest_epsilon(fits)


def epsilon_for_units(units: int, unit: Unit, *, delta: float) -> float | None:
    """The same where only the unit of a ledger is known, as in a stored release; its slack is not looked at."""
    way = accounting_of(unit)
    return largest_epsilon(lambda epsilon: release_units(Budget(epsilon, delta, way), unit) <= units)


def largest_epsilon(fits: Callable[[float], bool]) -> float | None:
    """The largest number of three digits that fits, if smaller ones do; None where none does.

    Where `fits` raises ParameterError the number is below what a ledger counts.
    """

    def holds(step: int, *, below: bool) -> bool:
        try:
            return fits(_epsilon(step))
        except ParameterError:
            return below

    low, high = -1, (_HIGHEST - _LOWEST) * _PER_DECADE
    while high - low > 1:  # `low` fits or is below all, `high` does not
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle, below=True) else (low, middle)
    return _epsilon(low) if low >= 0 and holds(low, below=False) else None


def _epsilon(step: int) -> float:
    """The numbers of three digits in order."""
    decade, place = divmod(step, _PER_DECADE)
    return float(f"{10 ** (DIGITS - 1) + place}e{_LOWEST + decade - DIGITS + 1}")


# The same in words, for refusals and for readers.


def what_fits(ledger: Budget, left: Cost, *, delta: float) -> str:
    """What a refusal offers instead: the epsilon that fits at this delta and, for a pure one, at the ledger's own."""
    offers: list[str] = []
    for one in dict.fromkeys((ledger.delta, delta)):
        epsilon = affordable_epsilon(ledger, left, delta=one)
        if epsilon is not None:
            offers.append(f"{Budget(epsilon, one)} fits" if one else f"a pure epsilon={epsilon:g} fits")
    if not offers:
        return "nothing more fits"
    if delta == 0 and not ledger.pure:
        offers.append(
            "a pure epsilon needs more of a ledger with a delta, because it holds without exception"
        )
    return "; ".join(offers)


def percent_of(units: int, total: int, *, up: bool = False) -> str:
    """A part of a ledger: 12.3 %; small ones keep two digits. With `up` never less than it is."""
    exact = Fraction(100 * units, total) if total else Fraction(0)
    share = float(exact)
    if up and share > 0:
        grid = Fraction(10) ** (1 if share >= 1 else 1 - math.floor(math.log10(share)))
        share = float(math.ceil(exact * grid) / grid)
    return f"{share:.1f} %" if share >= 1 or share == 0 else f"{share:.2g} %"
