"""A session: one question at a time. The ledger holds the past, the hypothesis guesses, the gate does the rest."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, NoReturn

from maquette import _html
from maquette.accounting.ledger import Ledger, Receipt
from maquette.core import _check
from maquette.core._arguments import checks_arguments
from maquette.core.budget import UNITS, Budget, percent_of
from maquette.core.curator import OnlineCurator
from maquette.core.measurement import Size
from maquette.domain import Domain
from maquette.errors import (
    BudgetExceeded,
    KeyReused,
    LedgerError,
    MechanismError,
    ParameterError,
    UselessAnswer,
)
from maquette.mechanisms.session_plan import ExpectedErrors
from maquette.models.answers import only
from maquette.models.hypothesis import Prior
from maquette.queries.base import Queries
from maquette.results.statements import Population
from maquette.sessions.borrowed import BorrowedAnswers
from maquette.sessions.grouped import SessionTable, answer_both, answer_select, forecast_any, read_select
from maquette.sessions.planning import MAX_BATCH, SessionPlanner, Unplannable
from maquette.sessions.question import (
    Forecast,
    Kind,
    Past,
    Question,
    QuestionReader,
    Refusal,
    SessionAnswer,
    with_stored,
)
from maquette.sessions.rules import Rules, how_answered
from maquette.sessions.state import StoredAnswer

if TYPE_CHECKING:
    import pyarrow

    from maquette.results.release import Release

SHOWN_ANSWERS = 5
"""The last answers that a notebook shows."""
_ATTEMPTS = 200
"""How often a question gives way to other processes that ask in the same session."""


class Session:
    """Answers questions about one table on a part of one ledger. Made by `session()`.

    Guarantee: all answers of all sessions, analysts and releases on the ledger together keep its (epsilon, delta).
    Accuracy: all answers of this session are within their stated errors, except with probability beta.
    """

    def __init__(
        self,
        curator: OnlineCurator,
        ledger: Ledger,
        rules: Rules,
        *,
        key: str,
        prior: Prior | None = None,
        borrowed: BorrowedAnswers | None = None,
        expected_errors: ExpectedErrors | None = None,
    ) -> None:
        self._expected_errors = expected_errors
        self._planner = SessionPlanner(curator, ledger, rules, key=key, prior=prior, borrowed=borrowed)
        self._ledger = ledger
        self._key = key
        self._lock = threading.RLock()
        self._reader = QuestionReader(curator.domain, rules.attributes)
        with self._lock:
            self._planner.sync(finish=False)
            if self._planner.state.last_hypothesis is not None:
                self._planner.settings()
                self._planner.hypothesis.check(self._planner.state)

    @property
    def key(self) -> str:
        """The session's name in the ledger; give it to `session()` to go on later."""
        return self._key

    @property
    def rules(self) -> Rules:
        return self._planner.rules

    @property
    def plan(self) -> str:
        """How questions are answered, and why; decided before anything is paid."""
        return how_answered(self._planner.rules, self._expected_errors)

    @property
    def unit(self) -> str:
        return self._planner.rules.budget.unit

    @property
    def domain(self) -> Domain:
        return self._planner.curator.domain

    @property
    def budget(self) -> Budget:
        """What the whole session may spend."""
        return self._planner.rules.budget

    @property
    def total(self) -> float:
        return self._planner.rules.budget.total_units / UNITS

    @property
    def left(self) -> float:
        """What the session may still spend, in `unit`."""
        with self._lock:
            self._planner.sync(finish=False)
            return self._planner.charged(self._planner.curator.left)

    @property
    def questions_left(self) -> int:
        """How many new questions it still takes at most; repeats are not counted."""
        with self._lock:
            self._planner.sync(finish=False)
            return self._planner.questions_left()

    @property
    def size(self) -> Size | None:
        """The number of records: public, bought or published; None before it is any of these."""
        return self._planner.size

    @property
    def watermark(self) -> str | None:
        return self._planner.curator.watermark

    @property
    def receipt(self) -> Receipt:
        """The end of the ledger's chain: keep it to find out later whether the ledger was cut back."""
        return self._ledger.receipt()

    @checks_arguments
    def ask(
        self,
        query: str | Queries,
        *,
        key: str | None = None,
        allow_useless: bool = False,
        at_most: float | None = None,
    ) -> SessionAnswer:
        """Answer one question: an SQL predicate, or a class of one query.

        `at_most` is the most that it may take, in `unit`: beyond that it is refused (BudgetExceeded) before it is paid.

        Guarantee: a question that was asked before, in whatever words or as its complement, is free and gets the same
            answer; so does a `key` that was used before. A refusal (BudgetExceeded) is decided from public state,
            before the table is touched. So is that of an answer whose error would say nothing, 50 points or more
            (UselessAnswer), unless `allow_useless` allows it.
        Accuracy: within `error`, together with all other answers of the session, except with probability beta.
        Cost: a predicate that cuts cells is asked from both sides, as two questions; its error includes what the cut
            cells hold, and its notes say which they are.
        """
        question = self._reader.read(query)
        if key is not None and not (0 < len(key) <= 200 and key.isprintable()):
            raise ParameterError("expected a key of 1 to 200 printable characters")
        if at_most is not None:
            _check.not_negative(at_most=at_most)
        with self._lock, self._ended_if_unplannable():
            limit = None if at_most is None else at_most / self._planner.group_factor
            return self._ask(question, key, allow_useless=allow_useless, at_most=limit)

    @checks_arguments
    def ask_many(
        self, queries: Iterable[str | Queries], *, allow_useless: bool = False
    ) -> list[SessionAnswer | Refusal]:
        """Answer many questions in order; the same answers, costs and refusals as one by one, in less time.

        Guarantee: that of `ask`. Answers that need no payment share a commit, up to the first that needs one; all are
            stored before any of them is returned. A question that is refused is a `Refusal` in its place, and the
            others go on. All of them are read first: one that cannot be read raises before anything is asked.
        """
        questions = [self._reader.read(query) for query in queries]
        answers: list[SessionAnswer | Refusal] = []
        while len(answers) < len(questions):
            with self._lock, self._ended_if_unplannable():
                rest = questions[len(answers) :]
                answers += self._ask_batch(rest, allow_useless=allow_useless)
        return answers

    @checks_arguments
    def sql(
        self, statement: str, *, allow_useless: bool = False, at_most: float | None = None
    ) -> SessionTable:
        """Counts, shares, sums, means and quantiles by groups, from one SELECT: a cell is a question, or up to three.

        A quantile is a search of up to 2 log2(cells) questions (`sessions/sums.py`). The columns are those of
        `Release.sql`; `forecast(statement)` says first what all cells take at most.

        Guarantee: that of `ask`, and all cells or none: what they may take together is looked at before any is paid.
            The mean of a group that may have no record, by its count, is refused before its sum is paid.
        """
        grouped = read_select(self._reader, statement)
        if at_most is not None:
            _check.not_negative(at_most=at_most)
        with self._lock, self._ended_if_unplannable():
            return answer_select(
                self._planner,
                grouped,
                self._ask_batch,
                allow_useless=allow_useless,
                at_most=None if at_most is None else at_most / self._planner.group_factor,
            )

    def _ask_batch(
        self, questions: Sequence[Question], *, allow_useless: bool, at_most: float | None = None
    ) -> Sequence[SessionAnswer | Refusal]:
        """As many of the next questions as one commit answers; at least one."""
        planner = self._planner
        answers: list[SessionAnswer] = []
        whole = list(takewhile(lambda question: question.ends is None, questions))
        if whole:
            planner.sync()
            batch = planner.batch(whole, allow_useless=allow_useless)
            try:
                kinds = batch.store(planner.curator)
            except KeyReused:  # another process was quicker
                kinds = {}
            planner.sync(others=False)
            for question in whole[:MAX_BATCH]:
                kind = kinds.pop(question.meaning, None)
                if kind is None:
                    answer = self._stored_answer(question, None)
                else:
                    answer = self._answer(question, planner.state.answers[question.meaning], kind)
                if answer is None:
                    break
                answers.append(answer)
        if answers:
            return answers
        try:
            return [self._ask(questions[0], None, allow_useless=allow_useless, at_most=at_most)]
        except (BudgetExceeded, UselessAnswer) as error:
            return [Refusal(questions[0].text, str(error), error.exit_code)]

    def _ask(
        self, question: Question, key: str | None, *, allow_useless: bool, at_most: float | None = None
    ) -> SessionAnswer:
        if question.ends is not None:
            ask = partial(self._ask, allow_useless=allow_useless)
            return answer_both(
                self._planner, question, key, ask, allow_useless=allow_useless, at_most=at_most
            )
        planner = self._planner
        for _ in range(_ATTEMPTS):
            planner.sync()
            answer = self._stored_answer(question, key)
            if answer is not None:
                return answer
            before = planner.curator.left
            try:
                kind = planner.step(question, key, allow_useless=allow_useless, at_most=at_most)
            except KeyReused:  # another process took this step: see what it did, and try again
                continue
            planner.sync(others=False)
            stored = planner.state.answers.get(question.meaning)
            receipt = self._ledger.receipt() if stored is None else None
            return self._answer(question, stored, kind, before - planner.curator.left, receipt)
        raise LedgerError("other processes keep asking in this session; try again, or open one of your own")

    @checks_arguments
    def forecast(self, query: str | Queries, *, allow_useless: bool = False) -> Forecast:
        """What a question or a SELECT would cost at most and would state. Spends and looks at nothing."""
        with self._lock:
            forecast = forecast_any(self._planner, self._reader, query, allow_useless=allow_useless)
        return forecast.times(self._planner.group_factor)

    def buy_size(self) -> bool:
        """Buy the number of records, which the first question needs, by itself; False where it is known already."""
        with self._lock:
            self._planner.sync()
            return self._planner.buy_size()

    @checks_arguments
    def use_size(self, release: Release) -> bool:
        """Use the number of records that a release states, which costs nothing, instead of buying it.

        False where one is known already, or the release states none. Only a release that this session's ledger paid for
        and that is unchanged is believed; any other is refused.
        """
        if BorrowedAnswers.of(release, self._ledger) is None:
            raise ParameterError(
                "this session's ledger did not pay for the release, or the release was changed"
            )
        with self._lock:
            self._planner.sync(finish=False)
            if self.size is not None or release.size.unpaid:
                return False
            self._planner.take_published(release.size)
            return True

    @checks_arguments
    def population(self, answer: SessionAnswer, *, chance: float = 0.05) -> Population:
        """What an answer says about the population that the records of the table were drawn from.

        Accuracy: the smaller of two statements at `chance`. By sampling, for a question that was fixed before any
            answer was seen; or by the transfer theorem (`theory.population.adaptive_error`), for all questions whatever
            made one ask them, which needs a small epsilon and a small beta.
        Holds when: the records are independent draws from the population, and the table has about as many as bought.
        """
        from maquette.results.statements import of_session_answer

        size = self._planner.public()
        return of_session_answer(
            error=answer.error, beta=answer.beta, n=max(size.n - size.reach, 1.0), budget=self.budget,
            relation=self.rules.relation, chance=chance,
        )  # fmt: skip

    @checks_arguments
    def synthetic(self, m: int = 1000) -> pyarrow.Table:
        """m rows drawn from the hypothesis: a free by-product, as good as the questions so far made it.

        They hold the attributes of questions that were tested or measured; of the others the hypothesis knows nothing.
        Where the session bought a table over all attributes, they are drawn from that.
        """
        from maquette.models.answers import decode

        _check.whole(most=_check.MAX_ROWS, m=m)
        planner = self._planner
        with self._lock:
            planner.sync(finish=False)
            rows = planner.survey.rows(m)
            if rows is None:
                rows = planner.hypothesis.synthetic(planner.state, m, key=self._key)
                rows = only(rows, planner.state.known_attributes())
            if rows is None:
                raise MechanismError(
                    "no question of this session has been tested or measured yet, so nothing is known to make rows "
                    "from; first ask about the attributes that they should have"
                )
            return decode(planner.curator.domain, rows)

    def history(self) -> list[Past]:
        """Everything that was asked and paid in this session, in order, from whatever process."""
        with self._lock:
            self._planner.sync(finish=False)
            return list(self._planner.state.history)

    def settle(self) -> float:
        """End the session for good: what it has not spent goes back to the ledger. Returns how much, in `unit`."""
        with self._lock:
            rest = self.left
            self._ledger.settle(self._key)
            return rest

    @contextmanager
    def _ended_if_unplannable(self) -> Generator[None]:
        """A session that can answer nothing on a table of this size keeps no budget."""
        try:
            yield
        except Unplannable as error:
            rest = percent_of(round(self.settle() * UNITS), self.budget.total_units)
            raise MechanismError(
                f"{error}; no question can be answered, so the session is ended and {rest} of its budget went back "
                "to the ledger: open another with a larger alpha or a larger epsilon"
            ) from None

    def _stored_answer(self, question: Question, key: str | None) -> SessionAnswer | None:
        """An answer that needs no new step: a key of before, or a meaning of before without a new key."""
        state = self._planner.state
        if key is not None:
            stored = state.answers_by_key.get(key)
            if stored is None:
                return None
            if stored.meaning != question.meaning or (
                not stored.meaning and stored.value != question.constant
            ):
                raise KeyReused(f"key '{key}' was used before for another question; give each its own key")
            return self._answer(question, stored, "cached")
        if question.constant is not None:
            return self._answer(question, None, "free")
        stored = state.answers.get(question.meaning)
        return None if stored is None else self._answer(question, stored, "cached")

    def _answer(
        self,
        question: Question,
        stored: StoredAnswer | None,
        kind: Kind,
        cost: Fraction = Fraction(0),
        receipt: Receipt | None = None,
    ) -> SessionAnswer:
        """A stored answer, or a constant with a receipt of its own, as a caller gets it."""
        planner = self._planner
        constant = SessionAnswer(
            query=question.text,
            value=question.constant or 0.0,
            error=0.0,
            beta=planner.rules.beta,
            kind=kind,
            cost=planner.charged(cost),
            left=planner.charged(planner.curator.left),
            unit=planner.rules.budget.unit,
            receipt=receipt,
            notes=question.notes,
        )
        return constant if stored is None else with_stored(constant, question, stored)

    def __repr__(self) -> str:
        rules = self._planner.rules
        return f"Session({self._key!r}, {rules.mechanism}, {rules.budget}, {self._left_in_words()} left)"

    def _left_in_words(self) -> str:
        return percent_of(round(self.left * UNITS), self.budget.total_units)

    def _repr_html_(self) -> str:
        past = [one for one in self.history() if one.value is not None and one.kind != "size"]
        lines = {
            "budget": f"{self.budget}, {self._left_in_words()} left",
            "questions": f"{len(past):,} answered, {self.questions_left:,} more at most",
            "columns": ", ".join(self.rules.attributes or self.domain.names),
        }
        lines |= {
            one.what: f"{100 * (one.value or 0.0):.2f} % ± {100 * (one.error or 0.0):.2f} points"
            for one in past[-SHOWN_ANSWERS:]
        }
        return _html.facts("Session", lines, head=self._key)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a session holds the private table and cannot be pickled; open it again by its key")
