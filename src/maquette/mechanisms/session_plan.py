"""How a session divides its budget, by the number of its questions and of its records; from public numbers only.

Before anything is paid the number of questions decides whether each is measured, and how much of the budget buys the
number of records. Once that is known, a session without alpha on a small table gives few answers rather than useless
ones: the usual plan pays for a hundred measured answers and an epoch of tests, and where its errors are too large the
budget is divided among fewer answers, each measured. It cannot pay for more than these, so the chance of failure is
shared among them and not among all questions that the session might take.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from maquette.core.budget import UNITS, Unit
from maquette.core.laws import NoiseRequest
from maquette.core.measurement import Size
from maquette.errors import MechanismError
from maquette.mechanisms.online import (
    PLANNED_ANSWERS,
    PublicNumbers,
    Settings,
    direct_settings,
    largest_error,
    measured_settings,
    pmw_settings,
    scale_of,
)
from maquette.theory import quantiles
from maquette.theory.adaptive import TYPICAL_SHARE, shared_gap
from maquette.theory.quantiles import law_at

USELESS = 0.5
"""An error that says nothing: "50 % ± 50 points" is true of every table."""
# The next four are a judgement of what is useful, not the result of an experiment.
FAIR = 0.25
"""Beyond this error the usual plan gives way to fewer answers."""
GOOD = 0.1
"""An error so small that it is not worth fewer answers."""
ENOUGH = 10
"""So many answers are given up for a fair error only, not for a good one."""
CLEARLY_SMALLER = 0.8
"""Measuring every question surely answers all of them. Another way, which may run out, has to state this part of its
error or less."""
MAX_FACTOR = 1024
"""The largest budget, in units of the present one, that a refusal recommends."""

SIZE_SHARE = Fraction(1, 20)
"""Of the budget, for the number of records where it is private and answers are tested."""
SIZE_SHARES = tuple(Fraction(percent, 100) for percent in (2, 5, 10, 20, 30))
"""The parts that are tried where every question is measured."""


# --- before the first payment ---------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def size_share(unit: Unit, price: Fraction, *, questions: int, beta: float) -> Fraction:
    """The part of a price for the number of records at which measured answers are expected to state least.

    n does not matter to it: both errors are counts of records.
    """

    def stated(share: Fraction) -> float:
        each = NoiseRequest.at((1 - share) * price / questions, unit)
        size = scale_of(law_at(share * price, unit=unit))
        gap = shared_gap(pure=unit.is_pure, scale=scale_of(each), size_scale=size, k=questions, beta=beta)
        return gap.at(TYPICAL_SHARE)

    return min(SIZE_SHARES, key=stated)


@dataclass(frozen=True, slots=True)
class ExpectedErrors:
    """What the ways of answering are expected to state on a table of `rows` records, as fractions."""

    mechanism: str
    """The one that is taken."""
    direct: float
    pmw: float
    rows: int
    unused_delta: float = 0.0
    """The delta that was asked for, where pure noise is expected to state less without it."""


def choose_mechanism(public: Callable[[str], PublicNumbers]) -> ExpectedErrors:
    """Measure every question, or test guesses: by the largest errors that both are expected to state.

    `public` are the public numbers under the name of a mechanism, whose price for the number of records is its own.
    """
    direct = direct_settings(public("direct")).error
    usual = public("pmw")
    try:
        pmw = largest_error(pmw_settings(usual))
    except MechanismError:  # a table so small that no epoch can be paid
        pmw = 1.0
    # beyond a fair error a session of the second kind gives few answers
    is_direct = direct <= FAIR if pmw > FAIR else CLEARLY_SMALLER * direct <= pmw
    return ExpectedErrors("direct" if is_direct else "pmw", direct, pmw, usual.n)


# --- once the number of records is known ----------------------------------------------------------------------------


def few_answers_settings(public: PublicNumbers) -> Settings:
    """As many measured answers as the budget pays for with a good error, or fewer with a fair one.

    Accuracy: every answer within `error`, except with probability beta, simultaneously and whatever is asked.
    """

    def most(error: float, *, at_most: int) -> int:
        """The most answers within this error; 0 where even one is not."""
        low, high = 0, min(PLANNED_ANSWERS, public.k, at_most) + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _few_answers(public, middle).error <= error else (low, middle)
        return low

    good = most(GOOD, at_most=public.k)
    if good >= min(ENOUGH, public.k):
        return _few_answers(public, good)
    few = most(FAIR, at_most=ENOUGH) or most(math.nextafter(USELESS, 0), at_most=ENOUGH) or 1
    return _few_answers(public, few)


def with_larger_budget(public: PublicNumbers, factor: int) -> PublicNumbers:
    """The same with a budget `factor` times as large, also for the number of records."""
    noise = public.size.noise
    size = public.size if noise is None else replace(public.size, noise=noise.sharper(factor))
    return replace(public, price=public.price * factor, size=size)


def _few_answers(public: PublicNumbers, answers: int) -> Settings:
    """So many measured answers; the number of records is bought again where they would state less for it."""

    def stated(price: Fraction) -> float:
        """About: with bounds on both draws by themselves."""
        after = _with_size_again(public, price)
        each, size = NoiseRequest.at(after.price / answers, public.unit), after.size.noise
        off = 0.0 if size is None else quantiles.reach(size, public.rest / 2)
        return quantiles.reach(each, public.rest / (2 * answers)) + TYPICAL_SHARE * off

    prices = [Fraction(0)]
    if public.size.noise is not None and not public.size_is_final:
        prices += [Fraction(math.floor(share * public.price * UNITS), UNITS) for share in SIZE_SHARES]
    size_price = min((price for price in prices if price < public.price), key=stated)
    after = _with_size_again(public, size_price)
    price = Fraction(max(math.floor(after.price * UNITS / answers), 1), UNITS)
    noise = NoiseRequest.at(price, public.unit)
    gap = after.together(noise, math.floor(after.price / price))
    settings = measured_settings(after, noise, gap, "few measured answers, by the size of the table")
    return replace(settings, size_price=size_price or None)


def _with_size_again(public: PublicNumbers, price: Fraction) -> PublicNumbers:
    """What is expected once the number of records was bought for this price, if for any."""
    if not price:
        return public
    again = Size(public.size.value, law_at(price, unit=public.unit), None)
    return replace(public, size=again, price=public.price - price)
