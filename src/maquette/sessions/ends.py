"""A question that cuts cells: it is asked from both sides, and both answers make one."""

from __future__ import annotations

from dataclasses import replace

from maquette.mechanisms.online.settings import price_of
from maquette.release import ends
from maquette.sessions.answer import Forecast, Kind, SessionAnswer
from maquette.sessions.desk import Desk
from maquette.sessions.foretelling import forecast
from maquette.sessions.question import Question


def joined(question: Question, low: SessionAnswer, high: SessionAnswer) -> SessionAnswer:
    """The answer to a question out of those to its ends; `cost` is left to whoever asked."""
    found = ends.join(low.value, low.error, high.value, high.error)
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
