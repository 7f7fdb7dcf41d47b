"""What a question would take, told before it is asked; and what is said where it is refused. Public numbers only."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial

from maquette.errors import BudgetExceeded, MaquetteError, UselessAnswer
from maquette.mechanisms.online.few import LARGEST_FACTOR, USELESS, enlarged, worst
from maquette.mechanisms.online.settings import Public, Settings, price_of
from maquette.models.answers import GRID
from maquette.sessions.answer import Forecast
from maquette.sessions.belief import settle
from maquette.sessions.desk import Desk
from maquette.sessions.question import Question
from maquette.sessions.rules import Rules

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
