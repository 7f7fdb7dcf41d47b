"""How much privacy loss a ledger may spend, counted in whole units on a fixed grid.

Pure budgets count epsilon. Budgets with a delta count rho (zero-concentrated differential privacy) or mu^2 / 2
(Gaussian differential privacy). Amounts are integers, totals rounded down and costs rounded up, so that no sum of
rounded numbers passes the promise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from maquette import _check
from maquette.accounting.conversions import exact, exp_up, rho_cks
from maquette.accounting.gaussian import half_square
from maquette.accounting.unit import UNITS, Unit
from maquette.errors import ParameterError

Accounting = Literal["zcdp", "gaussian"]

SLACK_UNITS = 10**24
"""Slack units per 1.0 of total variation, or of a logarithm of probabilities."""
SLACK_SHARE = Fraction(1, 2**10)
"""The share of delta that is kept for the proven total-variation gaps of samplers."""

THRESHOLD_SHARE = Fraction(1, 2)
"""The same where values are found by thresholds, each of which costs a total variation of its own."""

RATIO_SHARE = Fraction(1, 2**15)
"""The share of epsilon that is kept, twice, for the proven ratios of samplers, where mu^2 / 2 is counted."""

WEAK_EPSILON = 10
"""Above this a budget is warned of."""
WEAK_DELTA = 1e-3
"""The same for delta."""

_LARGEST_EPSILON = 10**6
_LARGEST_SLACK = 2**62


@dataclass(frozen=True, slots=True)
class Cost:
    """What a request takes from the ledger: units of its budget, and slack for inexact samplers."""

    units: int
    slack: int = 0

    def __post_init__(self) -> None:
        _check.whole(least=0, units=self.units, slack=self.slack)

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.units + other.units, self.slack + other.slack)


@dataclass(frozen=True, slots=True)
class Budget:
    """The promise of a ledger: (epsilon, delta)-differential privacy of everything it ever pays for.

    Guarantee: spending at most `total_units` and `slack_units` is (epsilon, delta)-DP. Without delta the units add
        up to epsilon (basic composition). With delta they add up to rho, the rho of (epsilon, delta (1 - 2^-10))
        by Canonne, Kamath and Steinke 2020. Slack counts total variation eta between the sampler that ran and the
        exact one; replacing one by the other costs (1 + e^epsilon) eta of the remaining delta 2^-10.
        Gaussian accounting adds up mu^2 / 2, the largest of (epsilon - 2 K, delta e^-K), and its slack counts
        logarithms of ratios up to K, the smaller of 2^-15 epsilon and 2^62 slack units (`accounting/gaussian.py`).
    Holds when: a floating-point number means its shortest decimal form, 0.1 is one tenth.
    """

    epsilon: float
    delta: float = 0.0
    accounting: Accounting = "zcdp"
    """How a budget with a delta is counted; a pure one is counted in one way only."""
    thresholds: bool = False
    """Is half of delta kept for values that are found by thresholds, instead of a small share for samplers?"""

    def __post_init__(self) -> None:
        _check.one_of(("zcdp", "gaussian"), accounting=self.accounting)
        _check.positive(epsilon=self.epsilon)
        if self.epsilon > _LARGEST_EPSILON:
            raise ParameterError(f"expected epsilon <= {_LARGEST_EPSILON}, got epsilon={self.epsilon!r}")
        _check.fraction_or_zero(delta=self.delta)
        object.__setattr__(self, "epsilon", float(self.epsilon))
        object.__setattr__(self, "delta", float(self.delta))
        if self.pure:
            object.__setattr__(self, "accounting", "zcdp")
            object.__setattr__(self, "thresholds", False)
        if self.thresholds and self.accounting != "zcdp":
            raise ParameterError(
                "a budget for values found by thresholds is counted by accounting 'zcdp' only"
            )
        if self.total_units < 1:
            raise ParameterError(
                f"the budget {self} is below the smallest amount that a ledger counts, {self.unit}={1 / UNITS:g}"
            )

    @property
    def pure(self) -> bool:
        return self.delta == 0

    @property
    def unit(self) -> Unit:
        """What the units measure."""
        if self.pure:
            return Unit.EPSILON
        return Unit.HALF_MU_SQUARED if self.accounting == "gaussian" else Unit.RHO

    @property
    def total_units(self) -> int:
        """The whole budget in units, rounded down."""
        if self.accounting == "gaussian":
            return _gaussian_units(self.epsilon, self.delta)
        return _total_units(self.epsilon, self.delta, self._slack_share)

    def row_units(self, rows: int) -> int:
        """The whole budget as the price of looks at single records, in units, rounded down.

        Where a neighbour has `rows` records the gate charges a look `Unit.group_factor` times as much.
        """
        units = self.total_units // self.unit.group_factor(rows)
        if units < 1:
            raise ParameterError(f"the budget {self} is too small for {rows} records per person")
        return units

    @property
    def slack_units(self) -> int:
        """How far samplers may differ from the exact ones, in slack units, rounded down."""
        if self.accounting == "gaussian":
            return _ratio_units(self.epsilon)
        return _slack_units(self.epsilon, self.delta, self._slack_share)

    @property
    def _slack_share(self) -> Fraction:
        return THRESHOLD_SHARE if self.thresholds else SLACK_SHARE

    @property
    def weaknesses(self) -> tuple[str, ...]:
        """What one should know before relying on a budget as large as this; nothing for usual ones."""
        notes: list[str] = []
        if self.epsilon > WEAK_EPSILON:
            notes.append(
                f"epsilon={self.epsilon:g} protects hardly anybody: who sees the result may become "
                f"e^{self.epsilon:g} times surer about a person; take {WEAK_EPSILON} or less, 1 if nothing speaks "
                "against it"
            )
        if self.delta > WEAK_DELTA:
            notes.append(
                f"delta={self.delta:g} is the chance that the promise does not hold at all, and allows to publish "
                f"one record in {1 / self.delta:.0f} as it is; take far less than one over the number of records, "
                "such as 1e-9"
            )
        return tuple(notes)

    def __str__(self) -> str:
        return f"epsilon={self.epsilon:g}" + ("" if self.pure else f", delta={self.delta:g}")


def split(units: int, shares: Sequence[Fraction]) -> list[int]:
    """Divide units by shares that sum to at most 1; the parts never sum above the whole, or below its shares' floor.

    A part differs from its exact share by less than one unit.
    """
    _check.whole(least=0, units=units)
    if any(share < 0 for share in shares) or sum(shares, Fraction(0)) > 1:
        raise ParameterError(f"expected shares >= 0 that sum to at most 1, got {[str(s) for s in shares]}")
    parts: list[int] = []
    reached = Fraction(0)
    for share in shares:
        before = math.floor(units * reached)
        reached += share
        parts.append(math.floor(units * reached) - before)
    return parts


@lru_cache(maxsize=256)
def _total_units(epsilon: float, delta: float, share: Fraction) -> int:
    if delta == 0:
        return math.floor(exact(epsilon) * UNITS)
    return math.floor(rho_cks(epsilon=epsilon, delta=exact(delta) * (1 - share)) * UNITS)


@lru_cache(maxsize=256)
def _slack_units(epsilon: float, delta: float, share: Fraction) -> int:
    gap = exact(delta) * share / (1 + exp_up(epsilon)) if delta else Fraction(0)
    return min(_LARGEST_SLACK, math.floor(gap * SLACK_UNITS))


@lru_cache(maxsize=256)
def _gaussian_units(epsilon: float, delta: float) -> int:
    ratio = Fraction(_ratio_units(epsilon), SLACK_UNITS)
    # 1 - K <= e^-K
    largest = half_square(epsilon=exact(epsilon) - 2 * ratio, delta=exact(delta) * (1 - ratio))
    return math.floor(largest * UNITS)


def _ratio_units(epsilon: float) -> int:
    return min(_LARGEST_SLACK, math.floor(exact(epsilon) * RATIO_SHARE * SLACK_UNITS))


def share_of_slack(budget: Budget, units: int) -> int:
    """The part of a ledger's slack that goes with a part of its total."""
    return budget.slack_units * units // max(budget.total_units, units)


def accounting_of(unit: str) -> Accounting:
    """The way of counting that goes with a ledger's stored unit."""
    return "gaussian" if unit == Unit.HALF_MU_SQUARED else "zcdp"
