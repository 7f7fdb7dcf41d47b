"""From public numbers to what a session runs with: the terms of its epochs and the errors that it may state.

What is stated holds whatever the hypothesis believes. With T the threshold, A what the noise of a test can hide, W
what a measured value can be off, and a table of n records of which n^ is known within t:

    a guess p that passed its test   |q(x)/n - p|    <= (T + A + t + 1/2) / (n^ - t)
    a measured value v               |q(x)/n - v/n^| <= (W + t) / n^

(the half record is the rounding of the guess). The first follows from |q(x) - n p| <= |q(x) - n^ p| + t.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from maquette.accounting.unit import UNITS, Unit
from maquette.domain import Domain, Relation
from maquette.errors import MechanismError, ParameterError
from maquette.mechanisms import strategies
from maquette.queries.base import Margin
from maquette.questions.measurement import EpochTerms, Size
from maquette.questions.noise import NoiseRequest
from maquette.theory import draws, online
from maquette.theory.epochs import Epochs, spend_as_needed

SIZE_SHARE = Fraction(1, 20)
"""Of the budget, for the number of records where it is private."""
SIZE_FAILURES = 0.1
"""Of beta, for the number of records where it is private."""
EXPECTED_MEASURED, EXPECTED_FAR = 100, 16
"""What a session without a wanted error plans to pay for: measured answers, and guesses that turn out far off."""
FRESH_FAILURES = 0.25
"""Of the rest, for values that are measured without a test where a session also tests."""
_SHAVED = 1 - 1e-6
"""So that costs rounded up one by one stay inside the whole."""
_HALF = 0.5


@dataclass(frozen=True, slots=True)
class Public:
    """What a strategy is settled from."""

    unit: Unit
    price: Fraction
    """For everything but the size."""
    size: Size
    k: int
    beta: float
    alpha: float | None
    universe: int
    measuring: bool = True
    """May a question be measured without a test?"""
    domain: Domain | None = None
    attributes: Margin = ()
    """What may be asked about; for a survey."""

    @property
    def n(self) -> int:
        return self.size.divisor

    @property
    def reach(self) -> float:
        """t: how far the known size may be off, except with its share of beta."""
        if self.size.unpaid:
            raise ParameterError("the number of records was not measured")
        noise = self.size.noise
        return 0.0 if noise is None else noise.reach(SIZE_FAILURES * self.beta)

    @property
    def rest(self) -> float:
        """The chance of failure that is left for tests and values."""
        return self.beta if self.size.noise is None else (1 - SIZE_FAILURES) * self.beta

    def near(self, counts: float) -> float:
        """The stated error of a guess whose test hides no more than `counts`."""
        least = self.n - self.reach
        return min(1.0, (counts + self.reach + _HALF) / least) if least > 0 else 1.0

    def measured(self, counts: float) -> float:
        """The stated error of a value that is off by no more than `counts`."""
        return min(1.0, (counts + self.reach) / self.n)

    def wanted(self) -> float:
        """T + A such that the stated error of a guess is alpha."""
        if self.alpha is None:
            raise ParameterError("no error was asked for")
        wanted = self.alpha * (self.n - self.reach) - self.reach - _HALF
        if wanted <= 0:
            raise ParameterError(
                f"that is less than the {self.reach + _HALF:.3g} records by which their number and a guess may be off"
            )
        return wanted


@dataclass(frozen=True, slots=True)
class Settings:
    """What a session runs with."""

    terms: EpochTerms | None
    """Of each epoch; None where every question is measured."""
    epochs: int
    """The most that are opened."""
    error: float
    """Stated for a guess that passed its test."""
    answer_error: float
    """Stated for a measured value."""
    measure: NoiseRequest | None
    """Noise of a value that is measured without a test."""
    measure_error: float
    step: float
    """Of textbook multiplicative weights."""
    bound: str
    rows: int = 0
    """Of the small databases of the median mechanism."""
    survey: strategies.SurveyPlan | None = None
    """Tables to buy before the first question; None where there are none."""


def settle_pmw(public: Public) -> Settings:
    """Private multiplicative weights that spend as needed, for a wanted error or one that the budget suits.

    Accuracy: every answer within `error`, except with probability beta, simultaneously and whatever is believed, as
        long as the budget lasts. Without alpha the error is the smallest at which it pays for a hundred measured
        answers and sixteen guesses far off: a plan, not a promise.
    """
    return _as_needed(public if public.alpha is not None else replace(public, alpha=_suited(public)))


def settle_lasting(public: Public) -> Settings:
    """The smallest error at which k questions cannot exhaust the budget.

    Accuracy: every answer within `error`, except with probability beta. In the same event the budget lasts for all k
        questions where the hypothesis is held cell by cell, because it is refitted by width (`models/refit.py`).
    """
    run = _search(public, refit=True)
    return _from_run(public, run, "private multiplicative weights, refitted to all released answers")


def settle_textbook(public: Public) -> Settings:
    """The textbook update, one step per released answer: the smallest error at which the budget lasts."""
    run = _search(public, refit=False)
    return _from_run(public, run, "private multiplicative weights, one step per released answer")


def settle_median(public: Public) -> Settings:
    """The median mechanism: a far guess halves the small databases that are still possible.

    Accuracy: every answer within `error`, except with probability beta, whatever is believed. The budget lasts for all
        k questions where the possible small databases are listed in full.
    """
    found = online.median(**_common(public), universe=public.universe)
    return replace(_from_run(public, found.run, "the median mechanism"), rows=found.rows)


def settle_direct(public: Public) -> Settings:
    """Fresh noise for every question that was not asked before."""
    return _direct(public, public.rest, "fresh noise for every question")


def _price(settings: Settings) -> Fraction:
    return Fraction(0) if settings.measure is None else settings.measure.price


def _direct(public: Public, rest: float, bound: str) -> Settings:
    noise, width = _fresh(public, rest / public.k)
    error = public.measured(width)
    return Settings(None, 0, error, error, noise, error, 0.0, bound)


def _surveyed(public: Public) -> Settings | None:
    """Tables first, then fresh noise for what does not follow from them; None where that does not suit.

    It suits a budget in rho that cannot pay for every question, over a universe of more cells than it can pay
    answers for: an epoch there costs as much as hundreds of measured answers, and no hypothesis is right so often.
    """
    if public.unit.is_pure or public.domain is None or not public.measuring or public.alpha is None:
        return None
    failure = strategies.FAILURES * public.rest
    found = _direct(public, public.rest - failure, "tables first, then fresh noise for what they leave open")
    paid = public.price / _price(found)
    if found.error > public.alpha or paid >= public.k or public.universe <= paid:
        return None
    plan = strategies.plan_survey(
        public.domain,
        public.attributes,
        price=public.price,
        reach=public.alpha * public.n,
        relation=Relation.REPLACE_ONE if public.size.public else Relation.ADD_REMOVE,
        failure=failure,
    )
    return None if plan is None else replace(found, survey=plan)


def _as_needed(public: Public) -> Settings:
    surveyed = _surveyed(public)
    if surveyed is not None:
        return surveyed
    fresh, width = _fresh(public, FRESH_FAILURES * public.rest / public.k)
    try:
        found = _epochs(public)
    except ParameterError as error:
        direct = settle_direct(public)
        if public.measuring and direct.error <= (public.alpha or 0.0) and _price(direct) <= public.price:
            return direct  # no epoch can be paid, but a measurement can
        raise MechanismError(
            f"alpha={public.alpha:g} cannot be promised on about {public.n:,} records: {error}"
        ) from None
    return Settings(
        _terms(found),
        found.epochs,
        public.near(found.threshold + found.width),
        public.measured(found.answer_width),
        fresh,
        public.measured(width),
        4 * found.threshold / public.n,
        "epochs bought as needed for the wanted error",
    )


def _suited(public: Public) -> float:
    """The smallest error at which the budget pays for what is expected; 1 if there is none."""

    def pays(alpha: float) -> bool:
        asked = replace(public, alpha=alpha)
        try:
            found = _epochs(asked)
        except ParameterError:
            return False
        fresh, _ = _fresh(asked, FRESH_FAILURES * public.rest / public.k)
        needed = EXPECTED_MEASURED * float(fresh.price) + found.cost * EXPECTED_FAR / found.cap
        return needed <= float(public.price) * _SHAVED

    low, high = 1e-9, 1 - 1e-9
    for _ in range(30):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if pays(middle) else (middle, high)
    return high


def _epochs(public: Public) -> Epochs:
    return spend_as_needed(
        unit=public.unit,
        budget=float(public.price) * _SHAVED,
        reach=public.wanted(),
        k=public.k,
        beta=(1 - FRESH_FAILURES) * public.rest,
    )


def _terms(found: Epochs) -> EpochTerms:
    return EpochTerms(
        found.threshold, found.cap, _down(found.first), _down(found.second), _down(found.answers)
    )


def _common(public: Public) -> dict[str, Any]:
    return {
        "unit": "epsilon" if public.unit.is_pure else "rho",
        "price": float(public.price) * _SHAVED,
        "n": public.n,
        "k": public.k,
        "beta": public.rest,
        "size_error": public.reach / public.n,
        "grid": 1.0,
    }


def _search(public: Public, *, refit: bool) -> online.Pmw:
    try:
        return online.pmw(**_common(public), log_universe=math.log(public.universe), refit=refit)
    except ParameterError as error:
        raise MechanismError(f"the session cannot be planned: {error}") from None


def _from_run(public: Public, run: online.Pmw, bound: str) -> Settings:
    threshold = math.ceil(run.threshold * run.n)
    price = float(public.price) * _SHAVED
    if public.unit.is_pure:
        terms = EpochTerms(threshold, run.c, *(_down(f * price) for f in (run.f1, run.f2, run.f3)))
        epochs = 1
    else:
        first, second = (_down(f * run.epoch_epsilon) for f in (run.f1, run.f2))
        terms = EpochTerms(threshold, 1, first, second, _down(run.f3 * price / run.c))
        epochs = run.c
    error = public.near(threshold + run.width * run.n)
    answer_error = public.measured(run.answer_width * run.n)
    return Settings(terms, epochs, error, answer_error, None, 1.0, run.step, bound)


def _fresh(public: Public, p: float) -> tuple[NoiseRequest, float]:
    """Noise of one measured question, and what it exceeds with probability p: for alpha, or a k-th of the budget."""
    if public.alpha is None:
        price = _down(float(public.price) * _SHAVED / public.k)
    elif public.unit.is_pure:
        price = _up(math.log(2 / p) / _least_one(public.alpha * public.n - public.reach))
    else:
        width = _least_one(public.alpha * public.n - public.reach - 1)
        sigma = width / draws.gaussian_two_sided(math.log(p))
        price = _up(1 / (2 * sigma**2))
    noise = NoiseRequest.at(price, public.unit)
    return noise, noise.reach(p)


def _least_one(records: float) -> float:
    return max(records, 1.0)


def _down(price: float) -> Fraction:
    return Fraction(max(math.floor(price * UNITS), 1), UNITS)


def _up(price: float) -> Fraction:
    return Fraction(math.ceil(price * UNITS), UNITS)


# Few answers rather than useless ones: what a session without a wanted error runs with on a small table.
#
# The usual plan pays for a hundred measured answers and sixteen guesses far off. Where its errors say
# little, the budget is divided among fewer answers, each measured. No more than that many can be paid, so
# the chance of failure is shared among them and not among all questions that the session might take.


USELESS = 0.5
"""An error of which every table says the same: "50 % ± 50 points" answers everything without data."""
FAIR = 0.25
"""Beyond this error the usual plan gives way to fewer answers."""
GOOD = 0.1
"""An error that is not worth fewer answers."""
ENOUGH = 10
"""Answers that are not given up for a good error, only for a fair one."""
LARGEST_FACTOR = 1024


def worst(settings: Settings) -> float:
    """The largest error that an answer may state."""
    if settings.terms is None:
        return settings.measure_error
    tested = max(settings.error, settings.answer_error)
    return tested if settings.measure is None else max(tested, settings.measure_error)


def settle_few(public: Public) -> Settings:
    """As many measured answers as the budget pays for with a good error, or fewer with a fair one.

    Accuracy: every answer within `error`, except with probability beta, simultaneously and whatever is asked.
    """
    tries = range(min(EXPECTED_MEASURED, public.k), 0, -1)
    priced = {answers: _measured(public, answers) for answers in tries}

    def most(error: float, *, at_most: int) -> int:
        return next((m for m in tries if m <= at_most and priced[m].error <= error), 0)

    good = most(GOOD, at_most=public.k)
    if good >= min(ENOUGH, public.k):
        return priced[good]
    few = most(FAIR, at_most=ENOUGH) or most(math.nextafter(USELESS, 0), at_most=ENOUGH) or 1
    return priced[few]


def enlarged(public: Public, factor: int) -> Public:
    """The same question of planning with a budget `factor` times as large, size included."""
    noise = public.size.noise
    size = public.size if noise is None else replace(public.size, noise=noise.sharper(factor))
    return replace(public, price=public.price * factor, size=size)


def _measured(public: Public, answers: int) -> Settings:
    price = Fraction(max(math.floor(public.price * UNITS / answers), 1), UNITS)
    noise = NoiseRequest.at(price, public.unit)
    error = public.measured(noise.reach(public.rest / math.floor(public.price / price)))
    return Settings(
        None, 0, error, error, noise, error, 0.0, "few measured answers, by the size of the table"
    )


# Whether a question is worth a test, or is better measured at once: decided from released outcomes only.
#
# While a hypothesis knows little, most guesses are far off, and a far guess uses up a share of an epoch
# that costs several times what a plain measurement costs. So a session measures until guesses hold: every
# measured value shows whether the guess would have passed (Turbo, Kostopoulou et al. 2023, measures until
# each cell of a query has been updated often enough; here the two prices decide).

WINDOW = 4
"""How many outcomes are remembered, in units of the price ratio."""


def worth_testing(far: Sequence[bool], *, ratio: float) -> bool:
    """Is the expected price of a test, by the last outcomes, below that of a measurement?

    `far` are the outcomes so far, in order; `ratio` is the price of a far guess in units of a measurement.
    """
    recent = far[-(int(WINDOW * ratio) + 1) :]
    chance = (sum(recent) + 1) / (len(recent) + 2)
    return chance * ratio < 1
