"""The public side of a session: what the ledger says so far, and what comes next."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial

from maquette.accounting.budget import UNITS
from maquette.domain import Relation
from maquette.errors import BudgetExceeded, MaquetteError, MechanismError, UselessAnswer
from maquette.gate.online import OnlineCurator, epoch_cost
from maquette.mechanisms.online import (
    LARGEST_FACTOR,
    USELESS,
    Public,
    Settings,
    enlarged,
    price_of,
    worst,
    worth_testing,
)
from maquette.models.answers import GRID
from maquette.queries.forms import from_spec
from maquette.questions.measurement import Size
from maquette.results import statements
from maquette.sessions.question import Question
from maquette.sessions.rules import Rules
from maquette.sessions.shared import Belief, Following, Lent, Shelf, Surveyor, public_numbers, settle
from maquette.sessions.state import Forecast, Kind, SessionAnswer, State, binned_of, priced


class Unplannable(MechanismError):
    """No question of the session can ever be answered on a table of this size."""


class Desk:
    """Keeps the state in step with the ledger and decides, from public numbers, what comes next."""

    def __init__(self, curator: OnlineCurator, rules: Rules, shelf: Shelf, *, ledger_unit: str) -> None:
        self.curator = curator
        self._shelf = shelf
        self.rules = rules
        self.state = State(curator.domain, rules.budget.unit)
        self.belief = Belief(curator.domain, rules)
        self._surveyor = Surveyor(curator, self.state)
        self._ledger_unit = ledger_unit
        self._settings: Settings | None = None
        self._public_size = (
            curator.size(price=Fraction(0)) if rules.relation is Relation.REPLACE_ONE else None
        )

    @property
    def unit(self) -> str:
        return self.rules.budget.unit

    @property
    def total(self) -> float:
        return self.rules.budget.total_units / UNITS

    def sync(self, *, others: bool = True) -> None:
        """Take in what the ledger has; finish a step that was paid for and never answered.

        With `others`, also what other sessions were answered.
        """
        if others:
            self._shelf.catch_up()
        for step in self.curator.catch_up():
            self.state.take(step)
        while self.state.pending is not None:
            body = self.state.pending.body
            if self.state.pending.ask == "size":
                self.curator.size(price=Fraction(body["price"]))
            elif self.state.pending.ask == "tables":
                tables = binned_of(body)
                self.curator.measure_tables(tables, variances=[Fraction(body["asked"])] * len(tables))
            else:
                self.curator.measure(from_spec(self.curator.domain, body["spec"]), noise=priced(body))
            for step in self.curator.catch_up():
                self.state.take(step)

    def questions_left(self) -> int:
        """How many new questions are taken at most; where each is measured, no more than can be paid."""
        left = self.rules.questions - self.state.questions
        settings = self._settings
        if settings is None or settings.terms is not None or settings.survey is not None:
            return left
        assert settings.measure is not None
        return min(left, int(self.curator.left // price_of(settings.measure)))

    def lent(self, question: Question) -> Lent | None:
        """The answer of another session, if its error is one that this session may state."""
        if self.rules.alpha is not None:
            within = self.rules.alpha * (1 + 1e-9)  # stated errors meet alpha up to rounding
        else:
            within = math.nextafter(USELESS, 0) if self.size() is None else worst(self.settle())
        return self._shelf.find(question.meaning, within=within)

    def size(self) -> Size | None:
        return self._public_size or self.state.size

    def n(self) -> int:
        size = self.size()
        assert size is not None
        return size.divisor

    def settle(self) -> Settings:
        """The settings, once the size is known: a function of public numbers, the same in every process."""
        if self._settings is None:
            try:
                self._settings = settle(self.rules, self.public())
            except MechanismError as error:
                raise Unplannable(str(error)) from None
            self.belief.prepare(self._settings)
        return self._settings

    def public(self) -> Public:
        """Everything that settings are made from, once the size is known."""
        size = self.size()
        assert size is not None
        return public_numbers(self.rules, self.curator.domain, size)

    def survey(self, settings: Settings) -> bool:
        """Buy what is missing of the survey; False where nothing is."""
        return self._surveyor.buy(settings, self.public())

    def surveyed(self, settings: Settings) -> bool:
        """Is there nothing left to buy of the survey?"""
        return self._surveyor.complete(settings)

    def follows(self, question: Question, settings: Settings) -> Following | None:
        """An answer that follows from the survey, free; None where there is none."""
        return self._surveyor.follows(question, settings, self.public())

    def measures(self, settings: Settings) -> bool:
        """Measure at once, or test a guess first? Decided from public state."""
        if settings.terms is None:
            return True
        if settings.measure is None or not self.rules.bypass:
            return False
        measured, epoch = price_of(settings.measure), self.epoch_price(settings)
        if self.curator.epoch is not None:
            return False  # paid for already
        if not self._affords_epoch(settings):
            return True
        return not worth_testing(self.state.far, ratio=float(epoch / settings.terms.cap / measured))

    def epoch_price(self, settings: Settings) -> Fraction:
        """What opening an epoch takes of the session."""
        assert settings.terms is not None
        return epoch_cost(settings.terms, unit=self.unit, ledger_unit=self._ledger_unit)[1]

    def _affords_epoch(self, settings: Settings) -> bool:
        return self.state.epochs < settings.epochs and self.epoch_price(settings) <= self.curator.left


# What a question would take, told before it is asked; and what is said where it is refused. Public numbers
# only.


FEW = 10
"""A number of questions to recommend where all questions together are too many."""


def forecast(desk: Desk, question: Question, *, any_error: bool = False) -> Forecast:
    """What the next step for a question would be, what it takes at most and what it would state."""
    found = _free(desk, question)
    if found is not None:
        return found
    told = partial(Forecast, query=question.text, left=float(desk.curator.left), unit=desk.unit)
    if desk.state.questions >= desk.rules.questions:
        return told(kind="test", cost=0.0, error=None, guess=None, refusal="questions")
    if desk.size() is None:
        return told(
            kind="size",
            cost=float(desk.curator.left),
            size_cost=float(desk.rules.size_price),
            error=None,
            guess=desk.belief.first(question),
        )
    settings = desk.settle()
    following = desk.follows(question, settings)
    if following is not None:
        return told(kind="free", cost=0.0, error=following.error, guess=following.value)
    guess = desk.belief.guess(desk.state, question) / GRID
    if desk.measures(settings):
        cost, error = _measuring(desk, settings), settings.measure_error
        refusal = _short(desk, cost, error, any_error=any_error)
        return told(kind="measure", cost=float(cost), error=error, guess=guess, refusal=refusal)
    cost, error = _testing(desk, settings), max(settings.error, settings.answer_error)
    if desk.curator.epoch is None and desk.state.epochs >= settings.epochs:
        refusal = "epochs"
    else:
        refusal = _short(desk, cost, error, any_error=any_error)
    return told(kind="test", cost=float(cost), error=error, guess=guess, refusal=refusal)


def _free(desk: Desk, question: Question) -> Forecast | None:
    """An answer that is there already: a constant, one of this session or of another."""
    left = float(desk.curator.left)
    if question.constant is not None:
        return Forecast(question.text, "free", 0.0, 0.0, question.constant, left, desk.unit)
    found = desk.state.known.get(question.meaning) or desk.lent(question)
    if found is None:
        return None
    value = question.turned(found.value, found.side)
    return Forecast(question.text, "cached", 0.0, found.error, value, left, desk.unit)


def _measuring(desk: Desk, settings: Settings) -> Fraction:
    assert settings.measure is not None
    cost = price_of(settings.measure)
    if settings.survey is not None and not desk.surveyed(settings):
        cost += settings.survey.price
    return cost


def _testing(desk: Desk, settings: Settings) -> Fraction:
    return Fraction(0) if desk.curator.epoch is not None else desk.epoch_price(settings)


def _short(desk: Desk, cost: Fraction, error: float, *, any_error: bool) -> str | None:
    """What is missing for an answer at this cost with this error, or None."""
    if error >= USELESS and not any_error:
        return "error"
    return "budget" if cost > desk.curator.left else None


def refuse(desk: Desk, told: Forecast) -> None:
    """Say no before the table is touched."""
    if told.refusal is None:
        return
    if told.refusal == "questions":
        raise BudgetExceeded(
            f"this session takes {desk.rules.questions:,} questions, and all are asked; repeats stay free",
            unit="questions",
            needed=1,
            left=0,
        )
    if told.refusal == "error":
        assert told.error is not None
        raise UselessAnswer(_useless(desk, told.error), error=told.error)
    raise BudgetExceeded(
        f"this question may need {desk.unit}={told.cost:.6g}, but the session has {desk.unit}="
        f"{told.left:.6g} left for it; earlier questions stay free, new ones need another session",
        unit=desk.unit,
        needed=told.cost,
        left=told.left,
    )


def limit(told: Forecast, *, spent: Fraction, at_most: float) -> None:
    """Refuse what may take more than the caller allows, before it is paid."""
    needed = told.size_cost if told.kind == "size" else told.cost
    if float(spent) + needed <= at_most:
        return
    bought = f"; the number of records is bought, for {told.unit}={float(spent):.6g}" if spent else ""
    raise BudgetExceeded(
        f"this question may need {told.unit}={float(spent) + needed:.6g}, and at most {told.unit}={at_most:.6g} was "
        f"allowed{bought}; allow more, or ask for its forecast",
        unit=told.unit,
        needed=float(spent) + needed,
        left=at_most,
    )


def _useless(desk: Desk, error: float) -> str:
    """What is wrong with an error that says nothing, and what would help."""
    public = desk.public()
    helps = [f"more records than these, about {public.n:,}"]
    if (factor := _enough(desk.rules, public)) is not None:
        helps.append(f"a budget about {factor} times as large")
    if _says_something(desk.rules, replace(public, k=FEW)) and public.k > FEW:
        helps.append(f"fewer questions, such as {FEW}")
    first = desk.state.questions == 0 and not public.size.public
    paid = "only the number of records was paid for" if first else "nothing was charged for it"
    return (
        f"the answer would be stated within {100 * error:.0f} points, no better than a guess without data; {paid}. "
        f"What would help: {'; '.join(helps)}. To ask nevertheless, allow any error (any_error=True, --any-error)"
    )


def _enough(rules: Rules, public: Public) -> int | None:
    """How many times the budget would give answers that say something."""
    factor = 2
    while factor <= LARGEST_FACTOR:
        if _says_something(rules, enlarged(public, factor)):
            return factor
        factor *= 2
    return None


def _says_something(rules: Rules, public: Public) -> bool:
    try:
        return worst(settle(rules, public)) < USELESS
    except MaquetteError:
        return False


# A question that cuts cells: it is asked from both sides, and both answers make one.


def joined(question: Question, low: SessionAnswer, high: SessionAnswer) -> SessionAnswer:
    """The answer to a question out of those to its ends; `cost` is left to whoever asked."""
    found = statements.join(low.value, low.error, high.value, high.error)
    assert found.error is not None
    kinds: list[Kind] = [one.kind for one in (low, high) if one.receipt is not None or one.kind == "paid"]
    kind = next((k for k in ("paid", "free") if k in kinds), "cached" if kinds else "free")
    return replace(
        high,
        query=question.text,
        value=found.value,
        error=found.error,
        beta=_beta(low, high),
        kind=kind,
        receipt=high.receipt or low.receipt,
        notes=tuple(dict.fromkeys((*question.notes, *low.notes, *high.notes, found.note))),
    )


def _beta(low: SessionAnswer, high: SessionAnswer) -> float:
    """All answers of one session hold together; those of two, only if neither fails. A constant never does."""
    betas = {one.notes: one.beta for one in (low, high) if one.error > 0}  # the notes name another session
    return min(sum(betas.values()), 1.0) if betas else high.beta


def forecast_both(desk: Desk, question: Question, *, any_error: bool) -> Forecast:
    """What both ends take at most. What will be stated depends on the cells that are cut, so no error is forecast."""
    assert question.ends is not None
    told = [forecast(desk, end, any_error=any_error) for end in question.ends]
    low, high = told
    refused = next((one for one in told if one.refusal is not None), None)
    if refused is not None:
        return replace(refused, query=question.text)
    new = [one for one in told if one.kind in ("size", "test", "measure")]
    if any(one.kind == "size" for one in new):
        cost = low.left  # the number of records decides the rest
    else:
        cost = low.cost + high.cost + (_next(desk) if len(new) == 2 else 0.0)
    refusal = None
    if len(new) > desk.rules.questions - desk.state.questions:
        refusal = "questions"
    elif cost > low.left:
        refusal = "budget"
    guesses = [one.guess for one in told if one.guess is not None]
    return replace(
        new[0] if new else low,
        query=question.text,
        cost=cost,
        error=None,
        guess=sum(guesses) / 2 if len(guesses) == 2 else None,
        refusal=refusal,
    )


def _next(desk: Desk) -> float:
    """What the second end may take more than was forecast before the first: whose test may have ended the epoch."""
    settings = desk.settle()
    if desk.curator.epoch is None or desk.curator.tests_left > 1:
        return 0.0
    prices = [desk.epoch_price(settings)] if settings.terms is not None else []
    prices += [price_of(settings.measure)] if settings.measure is not None else []
    return float(max(prices))
