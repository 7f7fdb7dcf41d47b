"""Several questions of a session that are answered together or not at all: the cells of a SELECT, the two ends of a
question that cuts cells. What all of them may take is looked at before the first is paid.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Protocol

import numpy as np

from maquette.core.budget import UNITS, percent_of
from maquette.domain import Attribute
from maquette.errors import BudgetExceeded, KeyReused, UselessAnswer, WorkloadError
from maquette.mechanisms.online import worth_testing
from maquette.queries import condition
from maquette.queries.base import Queries
from maquette.queries.condition import Leaf
from maquette.queries.names import condition_text
from maquette.queries.predicates import Predicate, where
from maquette.results.columns import word_column
from maquette.results.figures import Figures
from maquette.results.groups import Groups
from maquette.results.select import Item, Selection, is_select, parse_select
from maquette.results.tables import ResultTable, arrange
from maquette.sessions.planning import SessionPlanner
from maquette.sessions.question import (
    Forecast,
    Question,
    QuestionReader,
    Refusal,
    SelectForecast,
    SessionAnswer,
    join_ends,
)
from maquette.sessions.sums import (
    Part,
    Search,
    Shares,
    border_query,
    border_text,
    figures_of,
    parts_of,
    quantile_figures,
    weighted_query,
)

MAX_CELLS = 1_000
"""Questions that one SELECT may ask."""
UPPER = " (upper end)"
"""What the key of a question that cuts cells carries at its second end."""
NEW = ("size", "test", "measure")
"""Kinds of forecasts that count as new questions."""


class AskBatch(Protocol):
    """Answers some of the next questions, at least one."""

    def __call__(
        self, questions: Sequence[Question], *, allow_useless: bool, at_most: float | None = None
    ) -> Sequence[SessionAnswer | Refusal]: ...


@dataclass(frozen=True, eq=False, repr=False)
class SessionTable(ResultTable):
    """The result of a SELECT in a session: the frame, the answers that it is made of, and what they took."""

    answers: tuple[SessionAnswer, ...] = ()
    cost: float = 0.0
    left: float = 0.0
    unit: str = ""


@dataclass(frozen=True, eq=False)
class GroupedQuestion:
    """A SELECT over the cells of some attributes, as the questions that answer it."""

    text: str
    selection: Selection
    groups: Groups
    questions: dict[Part, tuple[Question, ...]]
    """One for every group, by what is asked about it."""
    searches: dict[Item, list[Search]]
    """One for every group, by the quantile that is searched."""

    @property
    def every(self) -> list[Question]:
        """All questions that are known beforehand, each meaning once."""
        return _different(q for part in self.questions.values() for q in part)

    @property
    def every_search(self) -> list[Search]:
        return [search for one in self.searches.values() for search in one]


def _different(questions: Iterable[Question]) -> list[Question]:
    """Each meaning once."""
    return list({q.meaning or q.text: q for q in questions}.values())


def read_select(reader: QuestionReader, text: str) -> GroupedQuestion:
    """The questions that a SELECT asks; `WorkloadError` names what a session does not answer."""
    domain = reader.domain
    selection = parse_select(domain, text)
    if any(item.where is not None for item in selection.items):
        raise WorkloadError(
            "a figure with a condition of its own (FILTER, CASE, SHARE of a condition) is answered by a release; in a "
            "session put the condition after WHERE"
        )
    groups = Groups.over(domain, selection.by, selection.where)
    figures = [item for item in selection.items if item.figure not in (None, "quantile")]
    parts = dict.fromkeys(part for item in figures for part in parts_of(domain, item))
    searches = {
        item: _searches(reader, groups, item) for item in selection.items if item.figure == "quantile"
    }
    cells = len(groups.codes) * len(parts) + sum(
        search.most_questions for one in searches.values() for search in one
    )
    if cells > MAX_CELLS:
        raise WorkloadError(
            f"this SELECT asks {'up to ' if searches else ''}{cells:,} questions, one for each cell"
            f"{' and a search for each quantile' if searches else ''}, and a session takes {MAX_CELLS:,} at once; "
            "group by fewer attributes, or make a release"
        )
    questions = {part: tuple(_questions(reader, groups, part)) for part in parts}
    return GroupedQuestion(text, selection, groups, questions, searches)


def _searches(reader: QuestionReader, groups: Groups, item: Item) -> list[Search]:
    """The search for a quantile in every group."""
    assert item.level is not None
    attribute = groups.domain[item.attribute or ""]
    if attribute.cells < 2:
        raise WorkloadError(
            f"'{attribute.name}' has one cell, which holds every quantile of it; ask for a count"
        )
    codes: list[list[int]] = groups.codes.tolist()
    return [
        Search(attribute, item.level, partial(_border_question, reader, groups, group, attribute, item.level))
        for group in codes
    ]


def _border_question(
    reader: QuestionReader,
    groups: Groups,
    group: list[int],
    attribute: Attribute,
    level: Fraction,
    border: int,
) -> Question:
    """On which side of a border is the quantile? Where all records are in the group, a share of them below it."""
    leaves, name = groups.leaves_of(group), attribute.name
    below = _predicate(groups, [*leaves, Leaf(name, ((0, border - 1),))])
    whole = _predicate(groups, [*leaves, Leaf(name, condition.whole(attribute.cells))])
    if not whole.attributes:
        return reader.read(below)
    query = border_query(groups.domain, whole, below, attribute, level)
    return replace(reader.read(query), text=border_text(attribute, level, border, whole))


def _questions(reader: QuestionReader, groups: Groups, part: Part) -> list[Question]:
    """One for every group; about the records whose value of the part's attribute is declared, where it has one."""
    domain, name = groups.domain, part.attribute
    extra = [] if name is None else [Leaf(name, condition.whole(domain[name].cells))]
    codes: list[list[int]] = groups.codes.tolist()
    predicates = [_predicate(groups, [*groups.leaves_of(group), *extra]) for group in codes]
    if part.end is None:
        return [reader.read(predicate) for predicate in predicates]
    weighted = [weighted_query(domain, predicate, part) for predicate in predicates]
    return [replace(reader.read(query), text=text) for query, text in weighted]


def _predicate(groups: Groups, leaves: Sequence[Leaf]) -> Predicate:
    """One cell in words, as the gate reads and the ledger stores them."""
    target = groups.joined(leaves)
    text = condition_text(groups.domain, target)
    predicate = None if text is None else where(groups.domain, text)
    if predicate is None or not predicate.exact or predicate.condition != target:
        raise WorkloadError(
            "a cell of this SELECT is too long to write as a condition; group by fewer values"
        )
    return predicate


# --- what all cells take at most ------------------------------------------------------------------------------------


def forecast_any(
    planner: SessionPlanner, reader: QuestionReader, query: str | Queries, *, allow_useless: bool
) -> Forecast:
    """The forecast of a question or of a SELECT."""
    if isinstance(query, str) and is_select(query):
        grouped = read_select(reader, query)
        planner.sync(finish=False)
        return forecast_select(planner, grouped, allow_useless=allow_useless)
    question = reader.read(query)
    planner.sync(finish=False)
    return planner.forecast(question, allow_useless=allow_useless)


def forecast_select(
    planner: SessionPlanner, grouped: GroupedQuestion, *, allow_useless: bool
) -> SelectForecast:
    """What a SELECT takes at most and the largest error that a cell may state, from public state only."""
    searches = [_advance(planner, search) for search in grouped.every_search]
    pending = [(search, question) for search in searches if (question := search.pending) is not None]
    further = sum(search.most_questions - len(search.gaps) - 1 for search, _ in pending)
    begun = [search.first for search in searches]
    questions = _different([*grouped.every, *begun, *(question for _, question in pending)])
    forecasts = [planner.plan(one, allow_useless=allow_useless).forecast for one in questions]
    new = [one for one in forecasts if one.kind in NEW]
    errors = [one.error for one in forecasts if one.error is not None]
    first = replace((new or forecasts)[0], query=grouped.text, guess=None, error=max(errors, default=None))
    whole = SelectForecast.of(first, questions=len(forecasts) + further, new_questions=len(new) + further)
    refused = next((one for one in new if one.refusal not in (None, "budget")), None)
    if refused is not None:
        return replace(whole, refusal=refused.refusal, cost=refused.cost)
    if not allow_useless and _without_mean(planner, grouped) is not None:
        return replace(whole, refusal="error", error=1.0)
    if len(new) + further > planner.rules.questions - planner.state.questions:
        return replace(whole, refusal="questions", cost=0.0)
    if not new:
        return whole
    if whole.kind == "size":
        return replace(whole, error=None)  # the number of records decides the rest
    cost = most_for(planner, len(new) + further)
    return replace(whole, cost=float(cost), refusal="budget" if cost > planner.curator.left else None)


def _advance(planner: SessionPlanner, search: Search) -> Search:
    """A search as far as answers lead that are there already."""
    own = replace(search, gaps={})
    while (question := own.pending) is not None:
        note = planner.plan(question, allow_useless=True).note
        if note is None:
            break
        own.take(note["value"], note["error"])
    return own


def most_for(planner: SessionPlanner, new: int) -> Fraction:
    """What so many new questions may take, whatever the tests say.

    An open epoch tests until its far guesses are used up, at most one for each question. After that, questions are
    measured or open epochs.
    """
    settings, curator = planner.settings(), planner.curator
    each = None if settings.measure is None else settings.measure.price
    if settings.terms is None:
        assert each is not None
        return planner.first_price(settings) + new * each
    rest = max(new - curator.tests_left, 0) if curator.epoch is not None else new
    price = planner.epoch_price(settings)
    epochs = max(settings.epochs - planner.state.epochs, 0)
    if each is None or not planner.rules.measure_first:
        return min(-(-rest // settings.terms.cap), epochs) * price
    if price > curator.left or not epochs:
        return rest * each
    ratio = float(price / settings.terms.cap / each)
    first = 0 if rest < new else _first_test(planner.state.far, rest, ratio=ratio)
    return mixed_price(rest, first=first, epochs=epochs, cap=settings.terms.cap, price=price, each=each)


def _first_test(far: Sequence[bool], new: int, *, ratio: float) -> int:
    """How many questions are measured before a test can be worth it: as if every measured value came near its guess."""
    return next((i for i in range(new) if worth_testing([*far, *[False] * i], ratio=ratio)), new)


def mixed_price(new: int, *, first: int, epochs: int, cap: int, price: Fraction, each: Fraction) -> Fraction:
    """The most that questions take which are measured, or tested in epochs from number `first` on.

    j epochs take (j - 1) caps of questions at least and one more; the others are measured. That is linear in j, so
    that the most is taken at one of its ends.
    """
    tested = new - first
    if tested <= 0:
        return new * each
    ends = {1, min(epochs, -(-tested // cap))}
    mixed = [j * price + (new - (j - 1) * cap - 1) * each for j in ends]
    return max(new * each, *mixed)


# --- the answers ----------------------------------------------------------------------------------------------------


def answer_select(
    planner: SessionPlanner,
    grouped: GroupedQuestion,
    ask_batch: AskBatch,
    *,
    allow_useless: bool,
    at_most: float | None,
) -> SessionTable:
    """All cells or none: what they may take together is looked at first, from public state."""
    planner.sync()
    start = planner.curator.left
    _check_means(planner, grouped, allow_useless=allow_useless)
    forecast = partial(forecast_select, planner, grouped, allow_useless=allow_useless)
    _check_first(planner, forecast, start=start, at_most=at_most)
    ask = partial(ask_batch, allow_useless=allow_useless)
    ask_all = partial(_ask_all, planner, ask=ask, start=start, at_most=at_most)
    counts = _different(q for part, own in grouped.questions.items() if part.end is None for q in own)
    answers = ask_all(counts)
    _check_means(planner, grouped, allow_useless=allow_useless)
    answers |= ask_all(grouped.every)
    searches = {item: [replace(search, gaps={}) for search in one] for item, one in grouped.searches.items()}
    every = [search for one in searches.values() for search in one]
    while pending := [(search, question) for search in every if (question := search.pending) is not None]:
        answers |= ask_all(_different(question for _, question in pending))
        for search, question in pending:
            answer = _own(question, answers)
            search.take(answer.value, answer.error)
            search.kinds.append(_kind_of(answer))
    return _table(planner, grouped, answers, searches, start - planner.curator.left)


def _check_means(planner: SessionPlanner, grouped: GroupedQuestion, *, allow_useless: bool) -> None:
    """Refuse, before its sum is paid, a mean that would state no error: by its counts, as far as they are answered."""
    group = None if allow_useless else _without_mean(planner, grouped)
    if group is not None:
        raise UselessAnswer(
            f"the mean of the group {group.text} would state no error: by its count, which is answered and stays free, "
            "the group may have no record. Nothing was charged for the mean; leave the group out with WHERE, or join "
            "groups. To ask it all the same, allow answers that say nothing (allow_useless=True, --allow-useless)",
            error=1.0,
        )


def _without_mean(planner: SessionPlanner, grouped: GroupedQuestion) -> Question | None:
    """The count of a group that may have no record, and whose sum is not answered yet; None where there is none."""
    for item in grouped.selection.items:
        if item.figure != "mean":
            continue
        count, *sums = parts_of(planner.curator.domain, item)
        for place, question in enumerate(grouped.questions[count]):
            note = planner.plan(question, allow_useless=True).note
            is_empty = note is not None and note["value"] <= note["error"]
            if is_empty and any(
                planner.plan(grouped.questions[part][place], allow_useless=True).note is None for part in sums
            ):
                return question
    return None


def answer_both(
    planner: SessionPlanner,
    question: Question,
    key: str | None,
    ask: partial[SessionAnswer],
    *,
    allow_useless: bool,
    at_most: float | None,
) -> SessionAnswer:
    """Both ends of a question that cuts cells, or neither."""
    assert question.ends is not None
    planner.sync()
    start = planner.curator.left
    forecast = partial(planner.forecast, question, allow_useless=allow_useless)
    _check_first(planner, forecast, start=start, at_most=at_most)
    low = ask(question.ends[0], key)
    high = ask(question.ends[1], None if key is None else f"{key}{UPPER}")
    return join_ends(question, low, high, cost=planner.charged(start - planner.curator.left))


def _check_first(
    planner: SessionPlanner,
    forecast: partial[Forecast] | partial[SelectForecast],
    *,
    start: Fraction,
    at_most: float | None,
) -> None:
    """Refuse what cannot be paid in whole; the number of records, which decides the price, is bought on the way."""
    first = forecast()
    planner.check(first, spent=Fraction(0), at_most=at_most)
    if first.kind == "size":
        try:
            planner.buy_size()
        except KeyReused:  # another process was quicker
            planner.sync()
        planner.check(forecast(), spent=start - planner.curator.left, at_most=at_most)


def _ask_all(
    planner: SessionPlanner,
    questions: Sequence[Question],
    *,
    ask: partial[Sequence[SessionAnswer | Refusal]],
    start: Fraction,
    at_most: float | None,
) -> dict[str, tuple[Question, SessionAnswer]]:
    """By meaning, or by text for a constant. A refusal on the way, by what others asked meanwhile, ends it."""
    answers: list[SessionAnswer] = []
    allowed = None if at_most is None else Fraction(round(Fraction(at_most) * UNITS), UNITS)
    while len(answers) < len(questions):
        rest = None if allowed is None else max(float(allowed - (start - planner.curator.left)), 0.0)
        for answer in ask(questions[len(answers) :], at_most=rest):
            if isinstance(answer, Refusal):
                why = f"{answer.why}. {len(answers):,} of {len(questions):,} cells are answered and stay free"
                if answer.exit_code == UselessAnswer.exit_code:
                    raise UselessAnswer(why, error=1.0)
                raise BudgetExceeded(why, unit=planner.rules.budget.unit, needed=0.0, left=rest or 0.0)
            answers.append(answer)
    return {q.meaning or q.text: (q, answer) for q, answer in zip(questions, answers, strict=True)}


def _table(
    planner: SessionPlanner,
    grouped: GroupedQuestion,
    by_meaning: dict[str, tuple[Question, SessionAnswer]],
    searches: dict[Item, list[Search]],
    spent: Fraction,
) -> SessionTable:
    answers = [answer for _, answer in by_meaning.values()]
    parts = {
        name: [_own(question, by_meaning) for question in part] for name, part in grouped.questions.items()
    }
    figures = {
        item: quantile_figures(searches[item]) if item in searches else _figures(planner, item, parts)
        for item in grouped.selection.items
        if item.figure is not None
    }
    kinds = [[[_kind_of(one)] for one in part] for part in parts.values()]
    kinds += [[search.kinds for search in one] for one in searches.values()]
    said = ["; ".join(dict.fromkeys(itertools.chain(*cells))) for cells in zip(*kinds, strict=True)]
    words = list(dict.fromkeys(said))
    known_by = word_column(np.array([words.index(text) for text in said], dtype=np.int32), words)
    curator, budget, beta = planner.curator, planner.rules.budget, planner.rules.beta
    share, left = (percent_of(int(x * UNITS), planner.rules.row_units) for x in (spent, curator.left))
    new = sum(answer.kind == "paid" or answer.cost > 0 for answer in answers)
    took = f"{new:,} of them paid: {share} of the session's budget" if spent else "all of them free"
    notes = [
        f"{len(answers):,} {'question' if len(answers) == 1 else 'questions'}, {took}, {left} is left",
        f"errors hold for all answers of the session together, except with probability {100 * beta:.3g} %",
        *dict.fromkeys(note for answer in answers for note in answer.notes),
    ]
    if curator.watermark is not None:
        notes.insert(0, f"NOT PRIVATE: {curator.watermark}")
    return SessionTable(
        arrow=arrange(grouped.groups, grouped.selection, figures, known_by),
        notes=tuple(notes),
        answers=tuple(answers),
        cost=planner.charged(spent),
        left=planner.charged(curator.left),
        unit=budget.unit,
    )


def _own(question: Question, answers: dict[str, tuple[Question, SessionAnswer]]) -> SessionAnswer:
    """The answer of a cell; of two cells that mean the same, or each other's complement, one was asked."""
    other, answer = answers[question.meaning or question.text]
    return replace(answer, query=question.text, value=question.value_from(answer.value, other.side))


def _figures(planner: SessionPlanner, item: Item, parts: dict[Part, list[SessionAnswer]]) -> Figures:
    """Shares as they are; counts and sums times the number of records, whose own error the session reckons with."""
    shares = Shares.of(parts[parts_of(planner.curator.domain, item)[0]])
    if item.figure == "share":
        return Figures(*shares)
    if planner.size is None:  # every cell is a constant
        raise WorkloadError("every cell of this SELECT is known without the table; nothing was asked")
    public = planner.public()
    n, off = float(public.n), public.reach
    if item.figure in ("sum", "mean"):
        return figures_of(planner.curator.domain, item, parts, n=n, off=off)
    return Figures(shares.value * n, shares.lower * max(n - off, 0.0), shares.upper * (n + off))


def _kind_of(answer: SessionAnswer) -> str:
    """How an answer is known: measured, answered before, or without a further look."""
    kinds = {
        "paid": "paid for in this session",
        "cached": "answered before",
        "free": "from the session's model",
    }
    return "known without data" if not answer.error else kinds[answer.kind]
