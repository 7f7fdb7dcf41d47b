"""How much privacy loss a ledger may spend, counted in whole units on a fixed grid.

Pure budgets count epsilon. Budgets with a delta count rho (zero-concentrated differential privacy) or mu^2 / 2
(Gaussian differential privacy). Amounts are integers, totals rounded down and costs rounded up, so that no sum of
rounded numbers passes the promise.

A price is a number in one of three units. Everything that depends on which one it is stands here: other modules ask the
unit. The noise that is drawn for a price is planned in `core/prices.py` and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import Literal, TypeVar

from maquette.core import _check
from maquette.core.conversions import (
    SMOOTHING,
    exact,
    exp_up,
    half_square,
    half_square_of_rho,
    rho_cks,
    rho_of_half_square,
    rho_of_pure,
)
from maquette.core.errors import BudgetExceeded, ParameterError

UNITS = 10**12
"""Units per 1.0 of epsilon, rho or mu^2 / 2."""

_Amount = TypeVar("_Amount", float, Fraction)


class Unit(StrEnum):
    """Pure epsilon, rho of zero-concentrated, or mu^2 / 2 of Gaussian differential privacy. The values are stored."""

    EPSILON = "epsilon"
    RHO = "rho"
    HALF_MU_SQUARED = "mu^2/2"

    is_pure: bool
    """Whether a price is a pure epsilon."""
    is_gaussian: bool
    """Whether Gaussian differential privacy is counted."""
    smoothing: Fraction
    """By how much the variance of integer noise exceeds that of the continuous noise that it is charged as."""

    def __init__(self, value: str) -> None:
        self.is_pure = value == "epsilon"
        self.is_gaussian = value == "mu^2/2"
        self.smoothing = SMOOTHING if self.is_gaussian else Fraction(0)

    def __repr__(self) -> str:
        return repr(self.value)

    def rho(self, price: Fraction) -> Fraction:
        """The rho whose pure events and choices a price buys: itself, or 2 / pi of mu^2 / 2, rounded down.

        Holds when: the price is not a pure epsilon.
        """
        return rho_of_half_square(price) if self.is_gaussian else price

    def cost_of_rho(self, rho: Fraction) -> Fraction:
        """What a pure event or a choice of this rho costs; the inverse of `rho`, rounded up.

        Holds when: the unit is not pure epsilon.
        """
        return half_square_of_rho(rho) if self.is_gaussian else rho

    def units_of_pure(self, epsilon: Fraction) -> int:
        """What a pure mechanism costs, in whole units, rounded up: epsilon, or the rho of epsilon-DP in this unit."""
        price = epsilon if self.is_pure else self.cost_of_rho(rho_of_pure(epsilon))
        return math.ceil(price * UNITS)

    def pure_epsilon(self, price: Fraction) -> Fraction:
        """The pure epsilon of noise that a price buys: itself, or sqrt(2 rho) rounded down to the ledger's grid.

        Any epsilon-DP mechanism is (epsilon^2 / 2)-zCDP.
        """
        return price if self.is_pure else _root_down(2 * self.rho(price))

    def selection_epsilon(self, price: Fraction) -> Fraction:
        """The epsilon of a choice or a draw that a price buys: itself, or sqrt(8 rho) rounded down to the same grid.

        The exponential mechanism has epsilon-bounded range, which is (epsilon^2 / 8)-zCDP: more than noise gets.
        """
        return price if self.is_pure else _root_down(8 * self.rho(price))

    def group_factor(self, rows: int) -> int:
        """How many times the price of a look at one record pays for the same look at a group of `rows` records.

        Sensitivities grow by `rows`, so epsilon does too; rho and mu^2 / 2 grow by its square.
        """
        return rows if self.is_pure else rows**2

    def variance(self, price: _Amount, *, shift: int) -> _Amount:
        """Of the noise on a table of counts, before smoothing: 2 (D / epsilon)^2, or D / (2 rho).

        D (`shift`) is how many counts a neighbour moves by one.
        """
        if self.is_pure:
            return 2 * (shift / price) ** 2
        return shift / (2 * price)

    def price(self, variance: float, *, shift: int) -> float:
        """What noise of this variance on a table of counts costs: the inverse of `variance`."""
        if self.is_pure:
            return shift * math.sqrt(2 / variance)
        return shift / (2 * variance)


def _root_down(square: Fraction) -> Fraction:
    return Fraction(math.isqrt(math.floor(square * UNITS**2)), UNITS)


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
    """What a request takes from the ledger: units of its budget, slack for inexact samplers, and of its pure part."""

    units: int
    slack: int = 0
    pure: int = 0
    """Units of epsilon, out of the pure part of a budget in two parts."""

    def __post_init__(self) -> None:
        _check.whole(least=0, units=self.units, slack=self.slack, pure=self.pure)

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.units + other.units, self.slack + other.slack, self.pure + other.pure)

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.units - other.units, self.slack - other.slack, self.pure - other.pure)

    def covers(self, other: Cost) -> bool:
        """Is each of the three amounts at least the other's?"""
        return other.units <= self.units and other.slack <= self.slack and other.pure <= self.pure

    def share_of(self, whole: Cost) -> Fraction | float:
        """The larger of the shares that it takes of the two parts of a whole; infinite of a part that is none."""
        return max(_share(self.units, whole.units), _share(self.pure, whole.pure))


def _share(amount: int, whole: int) -> Fraction | float:
    return Fraction(amount, whole) if whole else math.inf if amount else Fraction(0)


def charged(costs: Sequence[Cost], *, whole: Cost, left: Cost) -> Cost:
    """Of the costs at which a request may be charged, the one that takes the smallest share of the whole.

    Where that is not left, the next one that is; the first where none is, to be refused.

    Guarantee: private whatever is chosen, by public numbers. The parts are fixed and add up to the promise; an event
        that is charged to the pure part is pure, and all others stay within the Gaussian one (`docs/accounting.md`).
    """
    ordered = sorted(costs, key=lambda cost: cost.share_of(whole))
    return next((cost for cost in ordered if left.covers(cost)), ordered[0])


@dataclass(frozen=True, slots=True)
class Budget:
    """The promise of a ledger: (epsilon, delta)-differential privacy of everything it ever pays for.

    Guarantee: spending at most `total_units` and `slack_units` is (epsilon, delta)-DP. Without delta the units add
        up to epsilon (basic composition). With delta they add up to rho, the rho of (epsilon, delta (1 - 2^-10))
        by Canonne, Kamath and Steinke 2020. Slack counts total variation eta between the sampler that ran and the
        exact one; replacing one by the other costs (1 + e^epsilon) eta of the remaining delta 2^-10.
        Gaussian accounting adds up mu^2 / 2, the largest of (epsilon - 2 K, delta e^-K), and its slack counts
        logarithms of ratios up to K, the smaller of 2^-15 epsilon and 2^62 slack units (`core/conversions.py`).
        In two parts, pure events that add up to `pure_epsilon` and a rest within (epsilon - pure_epsilon, delta) are
        (epsilon, delta)-DP together, in any order (`docs/accounting.md`).
    Holds when: a floating-point number means its shortest decimal form, 0.1 is one tenth. The parts are fixed before
        anything is paid.
    """

    epsilon: float
    delta: float = 0.0
    accounting: Accounting = "zcdp"
    """How a budget with a delta is counted; a pure one is counted in one way only."""
    thresholds: bool = False
    """Is half of delta kept for values that are found by thresholds, instead of a small share for samplers?"""
    pure_epsilon: float = 0.0
    """The part of epsilon that is kept for pure events, summed as they are, where there is a delta."""

    pure: bool = field(init=False, repr=False, compare=False)
    unit: Unit = field(init=False, repr=False, compare=False)
    """What the units measure."""
    total_units: int = field(init=False, repr=False, compare=False)
    """The whole budget in units, rounded down."""
    slack_units: int = field(init=False, repr=False, compare=False)
    """How far samplers may differ from the exact ones, in slack units, rounded down."""
    pure_units: int = field(init=False, repr=False, compare=False)
    """The pure part in units of epsilon, rounded down."""

    def __post_init__(self) -> None:
        _check.one_of(("zcdp", "gaussian"), accounting=self.accounting)
        _check.positive(epsilon=self.epsilon)
        if self.epsilon > _LARGEST_EPSILON:
            raise ParameterError(f"expected epsilon <= {_LARGEST_EPSILON}, got epsilon={self.epsilon!r}")
        _check.fraction_or_zero(delta=self.delta)
        object.__setattr__(self, "epsilon", float(self.epsilon))
        object.__setattr__(self, "delta", float(self.delta))
        object.__setattr__(self, "pure", self.delta == 0)
        if self.pure:
            object.__setattr__(self, "accounting", "zcdp")
            object.__setattr__(self, "thresholds", False)
        self._check_parts()
        if self.thresholds and self.accounting != "zcdp":
            raise ParameterError("a budget that finds values by thresholds needs the accounting 'zcdp'")
        rest = exact(self.epsilon) - exact(self.pure_epsilon)
        if self.accounting == "gaussian":
            unit = Unit.HALF_MU_SQUARED
            total, slack = _gaussian_units(rest, self.delta), _ratio_units(rest)
        else:
            unit = Unit.EPSILON if self.pure else Unit.RHO
            share = THRESHOLD_SHARE if self.thresholds else SLACK_SHARE
            total = _total_units(rest, self.delta, share)
            slack = _slack_units(self.epsilon, self.delta, share) if rest else 0
        pure = math.floor(exact(self.pure_epsilon) * UNITS)
        parts = {"unit": unit, "total_units": total, "slack_units": slack, "pure_units": pure}
        for name, value in parts.items():
            object.__setattr__(self, name, value)
        if (rest and self.total_units < 1) or (self.pure_epsilon and self.pure_units < 1):
            raise ParameterError(
                f"the budget {self} is below the smallest amount that a ledger counts, {self.unit}={1 / UNITS:g}"
            )

    def _check_parts(self) -> None:
        _check.not_negative(pure_epsilon=self.pure_epsilon)
        object.__setattr__(self, "pure_epsilon", float(self.pure_epsilon))
        if self.pure_epsilon and self.pure:
            raise ParameterError("a budget without a delta is pure as a whole; leave out its pure part")
        if self.pure_epsilon > self.epsilon:
            raise ParameterError(
                f"expected the pure part as at most epsilon={self.epsilon:g}, got {self.pure_epsilon:g}"
            )

    @property
    def whole(self) -> Cost:
        """Everything that it pays for."""
        return Cost(self.total_units, self.slack_units, self.pure_units)

    def row_units(self, rows: int) -> int:
        """The whole budget as the price of looks at single records, in units, rounded down.

        Where a neighbour has `rows` records the gate charges a look `Unit.group_factor` times as much.
        """
        units = self.total_units // self.unit.group_factor(rows)
        if units < 1:
            raise ParameterError(f"the budget {self} is too small for {rows} records per person")
        return units

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
        words = f"epsilon={self.epsilon:g}" + ("" if self.pure else f", delta={self.delta:g}")
        return f"{words}, of it {self.pure_epsilon:g} pure" if self.pure_epsilon else words


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
def _total_units(epsilon: Fraction, delta: float, share: Fraction) -> int:
    if delta == 0 or epsilon == 0:
        return math.floor(epsilon * UNITS)
    return math.floor(rho_cks(epsilon=epsilon, delta=exact(delta) * (1 - share)) * UNITS)


@lru_cache(maxsize=256)
def _slack_units(epsilon: float, delta: float, share: Fraction) -> int:
    gap = exact(delta) * share / (1 + exp_up(epsilon)) if delta else Fraction(0)
    return min(_LARGEST_SLACK, math.floor(gap * SLACK_UNITS))


@lru_cache(maxsize=256)
def _gaussian_units(epsilon: Fraction, delta: float) -> int:
    if epsilon == 0:
        return 0
    ratio = Fraction(_ratio_units(epsilon), SLACK_UNITS)
    # 1 - K <= e^-K
    largest = half_square(epsilon=epsilon - 2 * ratio, delta=exact(delta) * (1 - ratio))
    return math.floor(largest * UNITS)


@lru_cache(maxsize=256)
def _ratio_units(epsilon: Fraction) -> int:
    return min(_LARGEST_SLACK, math.floor(epsilon * RATIO_SHARE * SLACK_UNITS))


def accounting_of(unit: str) -> Accounting:
    """The way of counting that goes with a ledger's stored unit."""
    return "gaussian" if unit == Unit.HALF_MU_SQUARED else "zcdp"


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
            "the noise of this question follows its law only up to a small proven error, and too little of the budget "
            "is set aside for that error; give a smaller epsilon or a larger delta",
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
    if total.pure > budget.pure_units:
        rest = budget.pure_units - spent.pure
        raise BudgetExceeded(
            f"this question needs {percent_of(cost.pure, budget.pure_units, up=True)} of the pure part of the budget "
            f"({budget}), and {percent_of(rest, budget.pure_units)} is left; ask a smaller workload or give a larger "
            "budget",
            unit=Unit.EPSILON,
            needed=cost.pure / UNITS,
            left=rest / UNITS,
        )
    return total


def release_units(release: Budget, unit: Unit) -> int:
    """The whole budget of a release in what a ledger counts, rounded up."""
    if release.pure:
        return unit.units_of_pure(Fraction(release.total_units, UNITS))
    if release.unit != unit:
        raise ParameterError(f"a ledger that counts {unit} cannot pay for a budget in {release.unit}")
    return release.total_units


def epsilon_for_units(units: int, unit: Unit, *, delta: float) -> float | None:
    """The largest epsilon, rounded down to three digits, of a run that costs at most so many units; None for none."""
    accounting = accounting_of(unit)
    return largest_epsilon(lambda epsilon: release_units(Budget(epsilon, delta, accounting), unit) <= units)


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


def percent_of(units: int, total: int, *, up: bool = False) -> str:
    """A part of a ledger: 12.3 %; small ones keep two digits. With `up` never less than it is."""
    exact = Fraction(100 * units, total) if total else Fraction(0)
    share = float(exact)
    if up and share > 0:
        grid = Fraction(10) ** (1 if share >= 1 else 1 - math.floor(math.log10(share)))
        share = float(math.ceil(exact * grid) / grid)
    return f"{share:.1f} %" if share >= 1 or share == 0 else f"{share:.2g} %"
