"""From public numbers to the settings of a session: the terms of its epochs and the errors that it may state.

Stated errors hold however wrong the hypothesis is. With T the threshold, A a bound on the noise of a test, W one on
the noise of a measured value, and a table of n records whose number is estimated by n^ within t:

    a guess p that passed its test   |q(x)/n - p|    <= (T + A + p t + 1/2) / (n^ - t)
    a measured value v               |p n^ - v|      <= W + p t        for its true share p = q(x)/n

(the half record is the rounding of the guess). The first follows from |q(x) - n p| <= |q(x) - n^ p| + p t, the second
is Fieller's interval (`theory/ratios.py`). Where every answer is measured the two draws are bounded together, which is
less than both by themselves (`theory/adaptive.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from maquette.core.budget import UNITS, Unit
from maquette.core.laws import IndependentLaw, NoiseRequest
from maquette.core.measurement import EpochTerms, Size
from maquette.domain import Domain, Relation
from maquette.errors import MechanismError, ParameterError
from maquette.mechanisms import strategies
from maquette.queries.rows import Margin
from maquette.theory import draws, online, quantiles
from maquette.theory.adaptive import SharedGap, shared_gap
from maquette.theory.epochs import Epochs, spend_as_needed
from maquette.theory.existence import Facts

SIZE_FAILURES = 0.1
"""Of beta, for the number of records where it is private."""
PLANNED_ANSWERS = 100
"""Measured answers that a session without alpha plans to pay for, beside one epoch of tests; fewer where the universe
has fewer than half as many cells: two answers for each tell what there is to know."""
FRESH_FAILURES = 0.25
"""Of the rest of beta, for values that are measured without a test where a session also tests."""
# These were set by hand; `python -m benchmarks online` and `online_default` measure what sessions do with them.
_MARGIN = 1 - 1e-6
"""So that costs rounded up one by one stay within the budget."""
_ROUNDING = 0.5
"""Records by which a guess moves when it is rounded to a whole count."""


@dataclass(frozen=True, slots=True)
class PublicNumbers:
    """Everything that the settings of a session are made from."""

    unit: Unit
    price: Fraction
    """For everything but the number of records."""
    size: Size
    k: int
    beta: float
    alpha: float | None
    universe: int
    measuring: bool = True
    """May a question be measured without a test?"""
    domain: Domain | None = None
    attributes: Margin = ()
    """The attributes that may be asked about; for a survey."""
    log_start: float = 0.0
    """What a start from a release adds to ln|X| in bounds on what is paid for; 0 for a uniform start."""
    size_is_final: bool = False
    """Was the number of records bought a second time? It is not bought a third time."""
    facts: Facts | None = None
    """Of the class that the questions come from, where one was declared; for the median mechanism."""

    @property
    def n(self) -> int:
        return self.size.divisor

    @property
    def reach(self) -> float:
        """t: how far the number of records may be off, except with its share of beta."""
        if self.size.unpaid:
            raise ParameterError("the number of records was not measured")
        noise = self.size.noise
        return 0.0 if noise is None else quantiles.reach(noise, SIZE_FAILURES * self.beta)

    @property
    def rest(self) -> float:
        """The chance of failure that is left for tests and values."""
        return self.beta if self.size.noise is None else (1 - SIZE_FAILURES) * self.beta

    def guess_error(self, counts: float, share: float = 1.0) -> float:
        """The stated error of a guess of this share that is off by no more than `counts` if it passed its test."""
        least = self.n - self.reach
        return min(1.0, (counts + share * self.reach + _ROUNDING) / least) if least > 0 else 1.0

    def apart(self, counts: float) -> SharedGap:
        """What is stated of measured values that are off by no more than `counts`, beside the number of records."""
        return SharedGap(counts, self.reach)

    def together(self, noise: NoiseRequest, values: int) -> SharedGap:
        """What is stated of so many measured values where nothing else needs a share of the chance of failure."""
        return shared_gap(
            pure=self.unit.is_pure,
            scale=scale_of(noise),
            size_scale=0.0 if self.size.noise is None else scale_of(self.size.noise),
            k=values,
            beta=self.rest,
        )

    def guess_counts(self) -> float:
        """T + A, in records, such that the stated error of a guess is alpha."""
        if self.alpha is None:
            raise ParameterError("alpha is not given")
        counts = self.alpha * (self.n - self.reach) - self.reach - _ROUNDING
        if counts <= 0:
            raise ParameterError(
                f"the number of records and the rounding of a guess alone may be off by {self.reach + _ROUNDING:.3g} "
                "records, which is more than that"
            )
        return counts


def scale_of(noise: NoiseRequest | IndependentLaw) -> float:
    """Of Laplace noise its scale, of Gaussian noise its deviation."""
    return noise.deviation / math.sqrt(2) if noise.kind == "laplace" else noise.deviation


@dataclass(frozen=True, slots=True)
class Settings:
    """What a session runs with: decided once, the same in every process."""

    terms: EpochTerms | None
    """Of each epoch; None where every question is measured."""
    epochs: int
    """The most that are opened."""
    error: float
    """The largest that is stated for a guess that passed its test."""
    answer_error: float
    """The largest that is stated for the value of a guess that did not."""
    measure: NoiseRequest | None
    """Noise of a value that is measured without a test."""
    measure_error: float
    """The largest that is stated for it."""
    step: float
    """Of textbook multiplicative weights."""
    bound: str
    rows: int = 0
    """Of the small databases of the median mechanism."""
    survey: strategies.SurveyPlan | None = None
    """Tables to buy before the first question; None where there are none."""
    guess_reach: float = 0.0
    """T + A: how many records a guess that passed its test may be off."""
    answer_gap: SharedGap | None = None
    """What the value of a guess that did not pass states by its own share; None where nothing is tested."""
    measure_gap: SharedGap | None = None
    """The same for a value that is measured without a test."""
    size_price: Fraction | None = None
    """For the number of records a second time, before the first question; None where it is known well enough."""


def pmw_settings(public: PublicNumbers) -> Settings:
    """Private multiplicative weights that spend as needed, for a given alpha or the best that the budget allows.

    Accuracy: every answer within `error`, except with probability beta, simultaneously and however wrong the hypothesis
        is, as long as the budget lasts. Without alpha the error is the smallest at which the budget pays for a hundred
        measured answers and one epoch of tests, or in rho for a table over all attributes: a plan, not a promise.
    """
    return _as_needed(public if public.alpha is not None else replace(public, alpha=_best_alpha(public)))


def settings_for_all(public: PublicNumbers) -> Settings:
    """The smallest error at which k questions cannot exhaust the budget.

    Accuracy: every answer within `error`, except with probability beta. In the same event the budget lasts for all k
        questions where the hypothesis has a weight per cell, because it is refitted by width (`models/refit.py`).
    """
    run = _search(public, refit=True)
    return _from_run(public, run, "private multiplicative weights, refitted to all released answers")


def textbook_settings(public: PublicNumbers) -> Settings:
    """The textbook update, one step per released answer: the smallest error at which the budget lasts."""
    run = _search(public, refit=False)
    return _from_run(public, run, "private multiplicative weights, one step per released answer")


def median_settings(public: PublicNumbers) -> Settings:
    """The median mechanism: a far guess halves the small databases that are still possible.

    Accuracy: every answer within `error`, except with probability beta, however wrong the hypothesis is. The budget
        lasts for all k questions, of the class where one was declared, if the possible small databases are listed in
        full: a smaller number of rows is taken for that where the error stays good (`strategies.median_plan`).
    """
    median = strategies.median_plan(
        **_common(public), universe=public.universe, log_start=public.log_start, facts=public.facts
    )
    return replace(_from_run(public, median.run, "the median mechanism"), rows=median.rows)


def direct_settings(public: PublicNumbers) -> Settings:
    """Fresh noise for every question that was not asked before."""
    return _direct(public, public.rest, "fresh noise for every question")


def _price(settings: Settings) -> Fraction:
    return Fraction(0) if settings.measure is None else settings.measure.price


def _direct(public: PublicNumbers, rest: float, bound: str) -> Settings:
    noise, width = _fresh(public, rest)
    gap = public.apart(width) if public.alpha is not None else public.together(noise, public.k)
    return measured_settings(public, noise, gap, bound)


def measured_settings(public: PublicNumbers, noise: NoiseRequest, gap: SharedGap, bound: str) -> Settings:
    """Every question is measured with this noise."""
    error = gap.largest_error(public.n)
    return Settings(None, 0, error, error, noise, error, 0.0, bound, measure_gap=gap)


def _with_survey(public: PublicNumbers) -> Settings | None:
    """Tables first, then fresh noise for questions that they do not answer; None where something else is better.

    This is for a budget in rho that cannot pay for every question: an epoch costs as much as hundreds of measured
    answers, and no hypothesis is right so often. Over few cells one table of all of them answers every product of
    intervals; over more, tables over one and two attributes hem many in.
    """
    if public.unit.is_pure or public.domain is None or not public.measuring or public.alpha is None:
        return None
    failure = strategies.FAILURES * public.rest
    direct = _direct(public, public.rest - failure, "tables first, then fresh noise for what they leave open")
    affordable = public.price / _price(direct)
    if direct.error > public.alpha or affordable >= public.k:
        return None
    plan = _joint(public) or strategies.plan_survey(
        public.domain,
        public.attributes,
        price=public.price,
        reach=public.alpha * public.n,
        relation=Relation.REPLACE_ONE if public.size.public else Relation.ADD_REMOVE,
        failure=failure,
    )
    return None if plan is None else replace(direct, survey=plan)


def _joint(public: PublicNumbers) -> strategies.SurveyPlan | None:
    """One table over all attributes, where a part of the price buys products of intervals within alpha from it."""
    if public.unit.is_pure or public.domain is None or not public.measuring:
        return None
    try:
        reach = public.guess_counts()
    except ParameterError:
        return None
    noise = public.size.noise
    return strategies.plan_joint(
        public.domain,
        public.attributes,
        price=public.price,
        reach=reach,
        total_variance=0.0 if noise is None else float(noise.variance),
        relation=Relation.REPLACE_ONE if public.size.public else Relation.ADD_REMOVE,
        failure=strategies.FAILURES * public.rest,
    )


def _as_needed(public: PublicNumbers) -> Settings:
    with_survey = _with_survey(public)
    if with_survey is not None:
        return with_survey
    fresh, width = _fresh(public, FRESH_FAILURES * public.rest)
    try:
        epochs = _epochs(public)
    except ParameterError as error:
        direct = direct_settings(public)
        if public.measuring and direct.error <= (public.alpha or 0.0) and _price(direct) <= public.price:
            return direct  # no epoch can be paid, but a measurement can
        raise MechanismError(
            f"alpha={public.alpha:g} cannot be guaranteed on about {public.n:,} records: {error}"
        ) from None
    answer_gap, measure_gap = public.apart(epochs.answer_width), public.apart(width)
    return Settings(
        _terms(epochs),
        epochs.epochs,
        public.guess_error(epochs.threshold + epochs.width),
        answer_gap.largest_error(public.n),
        fresh,
        measure_gap.largest_error(public.n),
        4 * epochs.threshold / public.n,
        "epochs bought as needed for the given error",
        guess_reach=epochs.threshold + epochs.width,
        answer_gap=answer_gap,
        measure_gap=measure_gap,
    )


def _best_alpha(public: PublicNumbers) -> float:
    """The smallest error at which the budget pays for the plan, by bisection; 1 if there is none."""

    def pays(alpha: float) -> bool:
        target = replace(public, alpha=alpha)
        if _joint(target) is not None:
            return True
        try:
            epochs = _epochs(target)
        except ParameterError:
            return False
        fresh, _ = _fresh(target, FRESH_FAILURES * public.rest)
        needed = min(PLANNED_ANSWERS, 2 * public.universe) * float(fresh.price) + epochs.cost
        return needed <= float(public.price) * _MARGIN

    low, high = 1e-9, 1 - 1e-9
    for _ in range(30):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if pays(middle) else (middle, high)
    return high


def _epochs(public: PublicNumbers) -> Epochs:
    return spend_as_needed(
        unit=public.unit,
        budget=float(public.price) * _MARGIN,
        reach=public.guess_counts(),
        k=public.k,
        beta=(1 - FRESH_FAILURES) * public.rest,
    )


def _terms(epochs: Epochs) -> EpochTerms:
    first, second, answers = (_down(price) for price in (epochs.first, epochs.second, epochs.answers))
    return EpochTerms(epochs.threshold, epochs.cap, first, second, answers)


def _common(public: PublicNumbers) -> dict[str, Any]:
    return {
        "unit": "epsilon" if public.unit.is_pure else "rho",
        "price": float(public.price) * _MARGIN,
        "n": public.n,
        "k": public.k,
        "beta": public.rest,
        "size_error": public.reach / public.n,
        "grid": 1.0,
    }


def _search(public: PublicNumbers, *, refit: bool) -> online.Pmw:
    try:
        log_universe = math.log(public.universe) + public.log_start
        return online.pmw(**_common(public), log_universe=log_universe, refit=refit)
    except ParameterError as error:
        raise MechanismError(f"the session cannot be planned: {error}") from None


def _from_run(public: PublicNumbers, run: online.Pmw, bound: str) -> Settings:
    threshold = math.ceil(run.threshold * run.n)
    price = float(public.price) * _MARGIN
    if public.unit.is_pure:
        terms = EpochTerms(threshold, run.c, *(_down(f * price) for f in (run.f1, run.f2, run.f3)))
        epochs = 1
    else:
        first, second = (_down(f * run.epoch_epsilon) for f in (run.f1, run.f2))
        terms = EpochTerms(threshold, 1, first, second, _down(run.f3 * price / run.c))
        epochs = run.c
    reach, gap = threshold + run.width * run.n, public.apart(run.answer_width * run.n)
    return Settings(
        terms, epochs, public.guess_error(reach), gap.largest_error(public.n), None, 1.0, run.step, bound,
        guess_reach=reach, answer_gap=gap,
    )  # fmt: skip


def _fresh(public: PublicNumbers, failure: float) -> tuple[NoiseRequest, float]:
    """Noise of one measured question, for alpha or a k-th of the budget, and what none of them exceeds.

    Accuracy: no measured value is off by more, except with probability `failure`. The union bound is over the values
        that the budget can pay for at this price, where they are fewer than k: every draw is paid in full before it is
        made, so there are never more, whatever is asked and however it is decided which questions are measured.
    """
    if public.alpha is None:
        noise = NoiseRequest.at(_down(float(public.price) * _MARGIN / public.k), public.unit)
        return noise, quantiles.reach(noise, failure / public.k)
    low, high = (
        1,
        public.k,
    )  # the fewest values among which the failures are shared and that the budget cannot exceed
    while low < high:
        middle = (low + high) // 2
        affordable = public.price / _price_within_alpha(public, failure / middle)
        low, high = (low, middle) if affordable < middle + 1 else (middle + 1, high)
    noise = NoiseRequest.at(_price_within_alpha(public, failure / low), public.unit)
    return noise, quantiles.reach(noise, failure / low)


def _price_within_alpha(public: PublicNumbers, p: float) -> Fraction:
    """Of one value that is within alpha except with probability p."""
    assert public.alpha is not None
    if public.unit.is_pure:
        return _up(math.log(2 / p) / _at_least_one(public.alpha * public.n - public.reach))
    width = _at_least_one(public.alpha * public.n - public.reach - 1)
    sigma = width / draws.gaussian_two_sided(math.log(p))
    return _up(1 / (2 * sigma**2))


def _at_least_one(records: float) -> float:
    return max(records, 1.0)


def largest_error(settings: Settings) -> float:
    """The largest error that an answer may state."""
    if settings.terms is None:
        return settings.measure_error
    tested = max(settings.error, settings.answer_error)
    return tested if settings.measure is None else max(tested, settings.measure_error)


def _down(price: float) -> Fraction:
    return Fraction(max(math.floor(price * UNITS), 1), UNITS)


def _up(price: float) -> Fraction:
    return Fraction(math.ceil(price * UNITS), UNITS)


# Whether a question is worth a test, or is better measured at once: decided from released outcomes only.
#
# While a hypothesis knows little, most guesses are far off, and a far guess uses up a share of an epoch
# that costs a multiple of a plain measurement. So a session measures until most guesses are near: every
# measured value shows whether the guess would have passed (Turbo, Kostopoulou et al. 2023, measures until
# each cell of a query has been updated often enough; here the two prices decide).

WINDOW = 4
"""How many past outcomes count, in units of the price ratio. Set by hand; `python -m benchmarks online` compares
sessions that measure first with sessions that always test."""


def worth_testing(far: Sequence[bool], *, ratio: float) -> bool:
    """Is the expected price of a test, by the last outcomes, below that of a measurement?

    `far` are the outcomes so far, in order; `ratio` is the price of a far guess in units of a measurement.
    """
    recent = far[-(int(WINDOW * ratio) + 1) :]
    chance = (sum(recent) + 1) / (len(recent) + 2)
    return chance * ratio < 1
