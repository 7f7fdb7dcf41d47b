"""What a run takes of a ledger, and what the ledger still pays for: advice, since the ledger decides by itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from maquette.core.budget import (
    UNITS,
    Budget,
    Cost,
    charged,
    largest_epsilon,
    percent_of,
    release_units,
)


def release_cost(release: Budget, ledger: Budget, left: Cost | None = None) -> Cost:
    """What a release with this budget takes of a ledger, or of what is left of it; see `release_costs`."""
    whole = ledger.whole
    return charged(release_costs(release, ledger), whole=whole, left=whole if left is None else left)


def release_costs(release: Budget, ledger: Budget) -> tuple[Cost, ...]:
    """How a release with this budget may be charged; a part of the ledger's slack goes with its part of the total.

    Holds when: both have a delta and count it in the same way, or the release is pure.
    """
    units = release_units(release, ledger.unit)
    if release.pure:
        return pure_costs(Fraction(release.total_units, UNITS), ledger)
    slack = min(share_of_slack(ledger, units), release.slack_units)
    return (Cost(units, slack, release.pure_units),)


def pure_costs(epsilon: Fraction, ledger: Budget) -> tuple[Cost, ...]:
    """How something pure may be charged: to the total, and to the pure part of a ledger that has one."""
    gaussian = Cost(ledger.unit.units_of_pure(epsilon))
    return (gaussian, Cost(0, pure=math.ceil(epsilon * UNITS))) if ledger.pure_units else (gaussian,)


def share_of_slack(budget: Budget, units: int) -> int:
    """The part of a ledger's slack that goes with a part of its total."""
    return budget.slack_units * units // max(budget.total_units, units, 1)


def affordable_epsilon(
    ledger: Budget, left: Cost, *, delta: float | None = None, cost_of: Callable[[Budget], Cost] | None = None
) -> float | None:
    """The largest epsilon, rounded down to three digits, of a run that fits into what a ledger has left.

    `delta` is that of the run, the ledger's own by default; 0 asks for a pure one. `cost_of` is what it costs, as a
    release by default. None where nothing fits.

    Accuracy: the epsilon costs at most `left` in whole units, and the next one of three digits costs more.
    """
    at_delta = ledger.delta if delta is None else delta

    def fits(epsilon: float) -> bool:
        budget = Budget(epsilon, at_delta, ledger.accounting)
        return left.covers(release_cost(budget, ledger, left) if cost_of is None else cost_of(budget))

    return largest_epsilon(fits)


# In words, for refusals and for readers.


def what_fits(
    ledger: Budget, left: Cost, *, delta: float, cost_of: Callable[[Budget], Cost] | None = None
) -> str:
    """What a refusal offers instead: the epsilon that fits at this delta and, for a pure one, at the ledger's own."""
    offers: list[str] = []
    deltas = [ledger.delta, delta, *([0.0] if ledger.pure_units else [])]
    for offered in dict.fromkeys(deltas):
        epsilon = affordable_epsilon(ledger, left, delta=offered, cost_of=cost_of)
        if epsilon is not None:
            offers.append(
                f"{Budget(epsilon, offered)} fits" if offered else f"a pure epsilon={epsilon:g} fits"
            )
    if not offers:
        return "nothing more fits"
    if delta == 0 and not (ledger.pure or ledger.pure_units):
        offers.append(
            "a pure epsilon needs more of a ledger with a delta, because it holds without exception"
        )
    return "; ".join(offers)


def pure_in_words(ledger: Budget, budget: Budget, cost_of: Callable[[Budget], Cost]) -> str | None:
    """What a pure budget takes of a ledger with a delta, beside what it takes with that delta; None for others."""
    if not budget.pure or ledger.pure or cost_of(budget).pure:
        return None
    other = replace(budget, delta=ledger.delta, accounting=ledger.accounting)
    share, less = (percent_of(cost_of(one).units, ledger.total_units) for one in (budget, other))
    return (
        f"a pure epsilon={budget.epsilon:g} takes up to {share} of a total of {ledger}, because it holds without "
        f"exception; with delta={ledger.delta:g} the same epsilon takes up to {less}"
    )


def shares_in_words(cost: Cost, whole: Cost, *, up: bool = False) -> str:
    """A part of a ledger in percent: of its total, of its pure part, or of both where it has both."""
    gaussian, pure = (
        percent_of(part, of, up=up) for part, of in ((cost.units, whole.units), (cost.pure, whole.pure))
    )
    if not (whole.units and whole.pure):
        return pure if whole.pure else gaussian
    if bool(cost.units) != bool(cost.pure):
        return f"{gaussian} of the Gaussian part" if cost.units else f"{pure} of the pure part"
    return f"{gaussian} of the Gaussian and {pure} of the pure part"
