"""A session: one question at a time. The ledger says what is known, the hypothesis guesses, the gate does the rest."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NoReturn

from maquette import _check
from maquette.accounting.budget import UNITS
from maquette.accounting.ledger import Ledger, Receipt
from maquette.errors import (
    BudgetExceeded,
    KeyReused,
    LedgerError,
    MechanismError,
    ParameterError,
    UselessAnswer,
)
from maquette.gate.online import OnlineCurator
from maquette.mechanisms.online import Settings, price_of
from maquette.models.answers import only
from maquette.queries.base import Queries
from maquette.questions.measurement import Gaussian, Laplace
from maquette.sessions.batch import MOST, collect, following_note, guess_of, lent_note
from maquette.sessions.planning import Desk, Unplannable, forecast, forecast_both, joined, limit, refuse
from maquette.sessions.question import Question, Reader
from maquette.sessions.rules import Rules
from maquette.sessions.shared import Shelf, check_covered
from maquette.sessions.state import Forecast, Kind, Lender, Past, Refusal, SessionAnswer, about

if TYPE_CHECKING:
    import pyarrow

UPPER = " (upper end)"
"""What the key of a question that cuts cells carries at its second end."""
_ATTEMPTS = 200
"""How often a question gives way to other processes that ask in the same session."""


class Session:
    """Answers questions about one table on a part of one ledger. Made by `session()`.

    Guarantee: all answers of all sessions, analysts and releases on the ledger together keep its (epsilon, delta).
    Accuracy: all answers of this session are within their stated errors, except with probability beta.
    """

    def __init__(self, curator: OnlineCurator, book: Ledger, rules: Rules, *, key: str) -> None:
        shelf = Shelf(book, curator.domain, own=key)
        self._desk = Desk(curator, rules, shelf, ledger_unit=book.budget.unit)
        self._book = book
        self._key = key
        self._lock = threading.RLock()
        self._reader = Reader(curator.domain)
        with self._lock:
            self._desk.sync()
            if self._desk.state.belief is not None:
                self._desk.settle()
                self._desk.belief.check(self._desk.state)

    @property
    def key(self) -> str:
        """The session's name in the ledger; give it to `session()` to go on later."""
        return self._key

    @property
    def rules(self) -> Rules:
        return self._desk.rules

    @property
    def unit(self) -> str:
        return self._desk.rules.budget.unit

    @property
    def total(self) -> float:
        return self._desk.rules.budget.total_units / UNITS

    @property
    def left(self) -> float:
        """What the session may still spend, in `unit`."""
        with self._lock:
            self._desk.sync()
            return float(self._desk.curator.left)

    @property
    def questions_left(self) -> int:
        """How many new questions it still takes at most; repeats are not counted."""
        with self._lock:
            self._desk.sync()
            return self._desk.questions_left()

    @property
    def watermark(self) -> str | None:
        return self._desk.curator.watermark

    @property
    def receipt(self) -> Receipt:
        """The end of the ledger's chain: keep it to find out later whether the ledger was cut back."""
        return self._book.receipt()

    def ask(
        self,
        query: str | Queries,
        *,
        key: str | None = None,
        any_error: bool = False,
        at_most: float | None = None,
    ) -> SessionAnswer:
        """Answer one question: an SQL predicate, or a class of one query.

        `at_most` is the most that it may take, in `unit`: beyond that it is refused (BudgetExceeded) before it is paid.

        Guarantee: a question that was asked before, in whatever words or as its complement, is free and gets the same
            answer; so does a `key` that was used before. A refusal (BudgetExceeded) is decided from public state,
            before the table is touched. So is that of an answer whose error would say nothing, 50 points or more
            (UselessAnswer), unless `any_error` allows it.
        Accuracy: within `error`, together with all other answers of the session, except with probability beta.
        Cost: a predicate that cuts cells is asked from both sides, as two questions; its error includes what the cut
            cells hold, and its notes say which they are.
        """
        question = self._read(query)
        if key is not None and not (0 < len(key) <= 200 and key.isprintable()):
            raise ParameterError("expected a key of 1 to 200 printable characters")
        if at_most is not None:
            _check.not_negative(at_most=at_most)
        with self._lock, self._ended_if_unplannable():
            return self._ask(question, key, any_error=any_error, at_most=at_most)

    def ask_many(
        self, queries: Iterable[str | Queries], *, any_error: bool = False
    ) -> list[SessionAnswer | Refusal]:
        """Answer many questions in order; the same answers, costs and refusals as one by one, in less time.

        Guarantee: that of `ask`. Answers that need no payment share a commit, up to the first that needs one; all are
            stored before any of them is returned. A question that is refused is told so in its place, and the others go
            on. All of them are read first: one that cannot be read raises before anything is asked.
        """
        questions = [self._read(query) for query in queries]
        told: list[SessionAnswer | Refusal] = []
        while len(told) < len(questions):
            with self._lock, self._ended_if_unplannable():
                told += self._ask_some(questions[len(told) :], any_error=any_error)
        return told

    def _ask_some(
        self, questions: Sequence[Question], *, any_error: bool
    ) -> Sequence[SessionAnswer | Refusal]:
        """As many of the next questions as one commit answers; at least one."""
        questions = list(takewhile(lambda question: question.ends is None, questions)) or questions[:1]
        if questions[0].ends is not None:
            return [self._ask_or_refuse(questions[0], any_error=any_error)]
        self._desk.sync()
        batch = collect(self._desk, questions, any_error=any_error)
        try:
            kinds = batch.store(self._desk)
        except KeyReused:  # another process was quicker
            kinds = {}
        self._desk.sync(others=False)
        told: list[SessionAnswer] = []
        for question in questions[:MOST]:
            kind = kinds.pop(question.meaning, None)
            found = self._given(question, None) if kind is None else self._reply(question, kind, Fraction(0))
            if found is None:
                break
            told.append(found)
        return told or [self._ask_or_refuse(questions[0], any_error=any_error)]

    def _ask_or_refuse(self, question: Question, *, any_error: bool) -> SessionAnswer | Refusal:
        try:
            return self._ask(question, None, any_error=any_error)
        except (BudgetExceeded, UselessAnswer) as error:
            return Refusal(question.text, str(error), error.exit_code)

    def _ask(
        self, question: Question, key: str | None, *, any_error: bool, at_most: float | None = None
    ) -> SessionAnswer:
        if question.ends is not None:
            return self._ask_both(question, question.ends, key, any_error=any_error, at_most=at_most)
        for _ in range(_ATTEMPTS):
            self._desk.sync()
            given = self._given(question, key)
            if given is not None:
                return given
            before = self._desk.curator.left
            try:
                kind = self._step(question, key, any_error=any_error, at_most=at_most)
            except KeyReused:  # another process took this step: see what it did, and try again
                continue
            self._desk.sync(others=False)
            return self._reply(question, kind, before - self._desk.curator.left)
        raise LedgerError("other processes keep asking in this session; try again, or open one of your own")

    def _ask_both(
        self,
        question: Question,
        ends: tuple[Question, Question],
        key: str | None,
        *,
        any_error: bool,
        at_most: float | None,
    ) -> SessionAnswer:
        """Both ends of a question that cuts cells, or neither: what both may take is looked at first."""
        self._desk.sync()
        start = self._desk.curator.left
        told = self._refuse(question, start, any_error=any_error, at_most=at_most)
        if told.kind == "size":
            try:
                self._buy_size()
            except KeyReused:  # another process was quicker
                self._desk.sync()
            self._refuse(question, start, any_error=any_error, at_most=at_most)
        low = self._ask(ends[0], key, any_error=any_error)
        high = self._ask(ends[1], None if key is None else f"{key}{UPPER}", any_error=any_error)
        return replace(joined(question, low, high), cost=float(start - self._desk.curator.left))

    def forecast(self, query: str | Queries, *, any_error: bool = False) -> Forecast:
        """What a question would cost at most and what its answer would state. Spends and looks at nothing."""
        question = self._read(query)
        with self._lock:
            self._desk.sync()
            return self._forecast(question, any_error=any_error)

    def buy_size(self) -> bool:
        """Buy the number of records, which the first question needs, by itself; False where it is known already."""
        with self._lock:
            self._desk.sync()
            return self._buy_size()

    def synthetic(self, m: int = 1000) -> pyarrow.Table:
        """m rows drawn from the hypothesis: a free by-product, as good as what was asked so far made it.

        They hold the attributes of questions that were tested or measured; of the others the hypothesis knows nothing.
        """
        from maquette.results.release import decode

        _check.whole(m=m)
        with self._lock:
            self._desk.sync()
            state = self._desk.state
            rows = only(self._desk.belief.synthetic(state, m, key=self._key), state.known_attributes())
            if rows is None:
                raise MechanismError(
                    "no question of this session was tested or measured so far, so that rows would be made up; ask "
                    "about the attributes that they should hold first"
                )
            return decode(self._desk.curator.domain, rows)

    def history(self) -> list[Past]:
        """Everything that was asked and paid in this session, in order, from whatever process."""
        with self._lock:
            self._desk.sync()
            return list(self._desk.state.history)

    def settle(self) -> float:
        """End the session for good: what it has not spent goes back to the ledger. Returns how much, in `unit`."""
        with self._lock:
            rest = self.left
            self._book.settle(self._key)
            return rest

    @contextmanager
    def _ended_if_unplannable(self) -> Generator[None]:
        """A session that can answer nothing on a table of this size keeps no budget."""
        try:
            yield
        except Unplannable as error:
            rest = self.settle()
            raise MechanismError(
                f"{error}; no question can be answered, so the session is ended and {self.unit}={rest:.6g} went back "
                "to the ledger: open another with a larger alpha or a larger epsilon"
            ) from None

    def _read(self, query: str | Queries) -> Question:
        question = self._reader.read(query)
        for end in question.ends or (question,):
            check_covered(self._desk.rules, end)
        return question

    def _given(self, question: Question, key: str | None) -> SessionAnswer | None:
        """An answer that needs no new step: a key of before, or a meaning of before without a new key."""
        if key is not None and key in self._desk.state.clients:
            client = self._desk.state.clients[key]
            if client.meaning != question.meaning or (
                not client.meaning and client.value != question.constant
            ):
                raise KeyReused(f"key '{key}' was used before for another question; give each its own key")
            value = question.turned(client.value, client.side)
            return self._answer(
                question, value, client.error, "cached", Fraction(0), client.receipt, client.lender
            )
        if key is not None:
            return None
        if question.constant is not None:
            return self._answer(question, question.constant, 0.0, "free", Fraction(0), None)
        known = self._desk.state.known.get(question.meaning)
        if known is None:
            return None
        value = question.turned(known.value, known.side)
        return self._answer(question, value, known.error, "cached", Fraction(0), known.receipt, known.lender)

    def _step(self, question: Question, key: str | None, *, any_error: bool, at_most: float | None) -> Kind:
        """One new step (or several) of the ledger for a question; what it was, for its reader."""
        known = self._desk.state.known.get(question.meaning)
        if question.constant is not None or known is not None:
            value = question.constant if known is None else question.turned(known.value, known.side)
            error = 0.0 if known is None else known.error
            told = about(question, key) | {"value": value, "error": error}
            if known is not None and known.lender is not None:
                told |= {"lender": [known.lender.session, known.lender.beta]}
            self._desk.curator.note(told)
            return "free" if known is None else "cached"
        if (lent := self._desk.lent(question)) is not None:
            self._desk.curator.note(lent_note(question, key, lent))
            return "cached"
        start = self._desk.curator.left
        self._refuse(question, start, any_error=any_error, at_most=at_most)
        opened = self._buy_size()
        settings = self._desk.settle()
        if opened:  # price and error depend on the size, so look again
            self._refuse(question, start, any_error=any_error, at_most=at_most)
        opened = self._desk.survey(settings) or opened
        following = self._desk.follows(question, settings)
        if following is not None:
            self._desk.curator.note(following_note(question, key, following))
            return "paid" if opened else "free"
        if self._desk.measures(settings):
            self._measure(question, key, settings)
            return "paid"
        if self._desk.curator.epoch is None:
            assert settings.terms is not None
            self._desk.curator.open_epoch(settings.terms)
            opened = True
        return "paid" if self._test(question, key, settings) or opened else "free"

    def _forecast(self, question: Question, *, any_error: bool) -> Forecast:
        look = forecast if question.ends is None else forecast_both
        return look(self._desk, question, any_error=any_error)

    def _refuse(
        self, question: Question, start: Fraction, *, any_error: bool, at_most: float | None
    ) -> Forecast:
        """Say no, from public state, to what cannot be paid or may not: `start` was left when the question came."""
        told = self._forecast(question, any_error=any_error)
        refuse(self._desk, told)
        if at_most is not None:
            limit(told, spent=start - self._desk.curator.left, at_most=at_most)
        return told

    def _test(self, question: Question, key: str | None, settings: Settings) -> bool:
        return self._desk.curator.test_all([guess_of(self._desk, question, key, settings)])[0].far

    def _measure(self, question: Question, key: str | None, settings: Settings) -> None:
        assert settings.measure is not None
        law = _law(settings.measure)
        note = about(question, key) | {
            "answer": self._desk.belief.guess(self._desk.state, question),
            "size": self._desk.n(),
            "errors": [settings.error, settings.measure_error],
            "deviation": law,
            "threshold": None if settings.terms is None else settings.terms.threshold,
            "belief": self._desk.belief.named(self._desk.state),
            "price": str(price_of(settings.measure)),
        }
        self._desk.curator.measure(question.queries, noise=settings.measure, note=note)

    def _buy_size(self) -> bool:
        if self._desk.size() is not None:
            return False
        price = self._desk.rules.size_price
        self._desk.curator.size(price=price, note={"price": str(price)})
        for step in self._desk.curator.catch_up():
            self._desk.state.take(step)
        return True

    def _reply(self, question: Question, kind: Kind, cost: Fraction) -> SessionAnswer:
        known = self._desk.state.known.get(question.meaning)
        if known is None:
            assert question.constant is not None
            return self._answer(question, question.constant, 0.0, kind, cost, self._book.receipt())
        value = question.turned(known.value, known.side)
        return self._answer(question, value, known.error, kind, cost, known.receipt, known.lender)

    def _answer(
        self,
        question: Question,
        value: float,
        error: float,
        kind: Kind,
        cost: Fraction,
        receipt: Receipt | None,
        lender: Lender | None = None,
    ) -> SessionAnswer:
        notes = question.notes
        if lender is not None:
            notes = (*notes, f"answered in session {lender.session}, whose beta is stated")
        return SessionAnswer(
            query=question.text,
            value=value,
            error=error,
            beta=self._desk.rules.beta if lender is None else lender.beta,
            kind=kind,
            cost=float(cost),
            left=float(self._desk.curator.left),
            unit=self.unit,
            receipt=receipt,
            notes=notes,
        )

    def __repr__(self) -> str:
        return f"Session({self._key!r}, {self._desk.rules.mechanism}, {self._desk.rules.budget}, left {self.left:g})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a session holds the private table and cannot be pickled; open it again by its key")


def _law(noise: Any) -> float:
    """Standard deviation in records of a value that is measured alone."""
    match noise:
        case Laplace(epsilon=epsilon):
            return float(2**0.5 / epsilon)
        case Gaussian(rho=rho):
            return float((1 / (2 * rho)) ** 0.5)
        case _:
            raise ParameterError(f"no session measures with {noise!r}")
