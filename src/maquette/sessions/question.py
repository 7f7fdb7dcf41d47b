"""A question as a session sees it, by its meaning and not by its words; and the values that come back for it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from maquette import _html
from maquette.core._arguments import checks_arguments
from maquette.core.events import Receipt
from maquette.domain import Domain
from maquette.errors import ParameterError, WorkloadError
from maquette.models.answers import generator
from maquette.queries import Predicate, canonical_hash, where
from maquette.queries.base import Queries
from maquette.queries.rows import Columns
from maquette.results import statements

if TYPE_CHECKING:
    from maquette.sessions.state import StoredAnswer

_PROBES = 16
"""Records of the universe that tell a query from its complement."""


@dataclass(frozen=True, slots=True)
class Question:
    """A query with the name of its meaning: the same for its duplicates and its complement."""

    queries: Queries
    text: str
    meaning: str
    """Digest of the query, up to taking the complement; empty for a constant."""
    side: bool
    """Which of the two complements it is."""
    constant: float | None
    """Its value, if all records weigh the same."""
    notes: tuple[str, ...] = ()
    ends: tuple[Question, Question] | None = None
    """For a predicate that cuts cells: who surely satisfies it and who may. They are asked in its place."""

    def value_from(self, value: float, side: bool) -> float:
        """The answer to this question, from the answer to the same or to its complement."""
        return value if side == self.side else 1.0 - value


READ_TEXTS = 256
"""Texts that a reader remembers: a question is mostly forecast before it is asked."""


class QuestionReader:
    """Reads questions over one domain; about some of its attributes only, where a session takes no others."""

    def __init__(self, domain: Domain, attributes: tuple[str, ...] | None = None) -> None:
        self.domain = domain
        self._attributes = attributes
        self._probes = _probes(domain)
        self._read_text = lru_cache(maxsize=READ_TEXTS)(self._read)

    def read(self, query: str | Queries) -> Question:
        """A predicate in SQL, or a class of exactly one query."""
        return self._read_text(query) if isinstance(query, str) else self._read(query)

    def _read(self, query: str | Queries) -> Question:
        queries = where(self.domain, query) if isinstance(query, str) else query
        if not isinstance(queries, Queries):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ParameterError(f"expected a predicate or one query, got {type(query).__name__}")
        if queries.domain.fingerprint != self.domain.fingerprint:
            raise WorkloadError("expected a query over the table's own domain; build it from table.domain")
        if queries.count != 1:
            raise WorkloadError(f"expected one query at a time, got {queries.count}; ask them one by one")
        question = self._identify(queries)
        if self._attributes is not None:
            for end in question.ends or (question,):
                if not set(end.queries.attributes) <= set(self._attributes):
                    raise WorkloadError(
                        f"this session takes questions about {', '.join(self._attributes)}; open another for the rest"
                    )
        return question

    def _identify(self, queries: Queries) -> Question:
        if isinstance(queries, Predicate) and not queries.exact:
            low, high = (self._identify(end) for end in queries.ends())
            return Question(queries, queries.sql, "", True, None, queries.cuts, (low, high))
        text = queries.text(0)
        weights = np.asarray(queries.columns_of(self._probes))[0]
        key = next(iter(queries.query_keys()))
        if key is None:
            return Question(queries, text, "", True, float(weights[0]) / queries.denominator)
        # of a query and its complement, one weighs the first record above a half that does not weigh just a half
        decisive = weights[2 * weights != queries.denominator]
        if not len(decisive):
            return Question(queries, text, canonical_hash(queries), True, None)
        meaning = hashlib.sha256(repr(key).encode()).hexdigest()
        return Question(queries, text, meaning, bool(2 * decisive[0] > queries.denominator), None)


def _probes(domain: Domain) -> Columns:
    """A few records of the universe, the same for everybody."""
    rng = generator(f"probes {domain.fingerprint}")
    columns: dict[str, Any] = {a.name: rng.integers(0, a.size, size=_PROBES) for a in domain}
    return columns


# What a session hands out. Small frozen values, all public.

Kind = Literal["free", "cached", "paid"]
"""free: the hypothesis passed its test, or no data was needed; cached: asked before; paid: measured, or the epoch
in which it was tested had to be opened."""


@dataclass(frozen=True, slots=True, repr=False)
class SessionAnswer:
    """One answer. All answers of a session are within their errors together, except with probability `beta`."""

    query: str
    value: float
    """The share of the records, between 0 and 1."""
    error: float
    beta: float
    kind: Kind
    cost: float
    """What this question took, in `unit`; an epoch is paid by the question that opens it."""
    left: float
    """What the session still has, in `unit`."""
    unit: str
    receipt: Receipt | None
    """Where in the ledger it stands; None if no entry was needed."""
    notes: tuple[str, ...] = ()
    holds_for: str = "all answers of the session together"
    """What `beta` is the chance of failure of."""

    @property
    def low(self) -> float:
        return max(self.value - self.error, 0.0)

    @property
    def high(self) -> float:
        return min(self.value + self.error, 1.0)

    def __str__(self) -> str:
        return f"{100 * self.value:.2f} % ± {100 * self.error:.2f} points ({self.kind})"

    def __repr__(self) -> str:
        return f"SessionAnswer({self.query!r}: {self})"

    def _repr_html_(self) -> str:
        ends = f"{100 * self.low:.2f} % to {100 * self.high:.2f} %"
        lines = {
            "share": f"{100 * self.value:.2f} %",
            "error": f"± {100 * self.error:.2f} points: {ends}",
            "confidence": f"{100 * (1 - self.beta):.3g} %, for {self.holds_for}",
            "price": self.kind,
        }
        lines |= {"notes": "; ".join(self.notes)} if self.notes else {}
        return _html.facts("Answer.", lines, head=self.query)


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a question would cost at most and how good its answer would be, from public state only."""

    query: str
    kind: Literal["free", "cached", "size", "test", "measure"]
    """size: the number of records is bought first and decides the rest; test: answered from the hypothesis if it passes
    its test, measured otherwise."""
    cost: float
    """The most that it takes, in `unit`. Before the number of records is bought that may be all that is left;
    `Session.buy_size` buys the number alone, and `ask(at_most=)` sets a limit."""
    error: float | None
    """The largest error that its answer may state; None while the number of records is not known."""
    guess: float | None
    """The answer of the hypothesis, without any promise."""
    left: float
    unit: str
    size_cost: float = 0.0
    """The part of `cost` for the number of records, exactly."""
    refusal: str | None = None
    """Why it would be refused: questions, epochs or budget that are used up, an error that says nothing; or None."""

    @checks_arguments
    def times(self, factor: int) -> Self:
        """The same with amounts so many times as large: from looks at single records to what is charged."""
        cost, left, size_cost = (factor * amount for amount in (self.cost, self.left, self.size_cost))
        return replace(self, cost=cost, left=left, size_cost=size_cost)


@dataclass(frozen=True, slots=True)
class SelectForecast(Forecast):
    """The forecast of a SELECT: of all its cells together, the error that of the worst."""

    questions: int = 0
    """One for each cell."""
    new_questions: int = 0
    """Those of them that were not answered before."""

    @classmethod
    def of(cls, one: Forecast, *, questions: int, new_questions: int) -> SelectForecast:
        """With what the forecast of one cell says."""
        same = {field.name: getattr(one, field.name) for field in fields(Forecast)}
        return cls(**same, questions=questions, new_questions=new_questions)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A question among many that was not answered. Nothing was read and nothing was spent for it."""

    query: str
    why: str
    exit_code: int
    """3 where something is used up, 2 where the answer would say nothing."""

    def __str__(self) -> str:
        return f"refused: {self.why}"


@dataclass(frozen=True, slots=True)
class Past:
    """One line of a session's history."""

    sequence: int
    when: str
    what: str
    """The question, or what was paid for."""
    value: float | None
    error: float | None
    kind: str
    cost: float
    key: str | None = None
    """The caller's idempotency key."""


def with_stored(answer: SessionAnswer, question: Question, stored: StoredAnswer) -> SessionAnswer:
    """With the value, the error and the place of a stored answer; one of another session keeps that one's beta."""
    answer = replace(
        answer,
        value=question.value_from(stored.value, stored.side),
        error=stored.error,
        receipt=stored.receipt,
    )
    source = stored.source
    if source is None:
        return answer
    where = f"by release {source.name}" if source.is_release else f"in session {source.name}"
    note = f"answered {where}, whose beta is stated"
    return replace(answer, beta=source.beta, notes=(*answer.notes, note))


def join_ends(question: Question, low: SessionAnswer, high: SessionAnswer, *, cost: float) -> SessionAnswer:
    """The answer to a question that cuts cells, out of those to its two ends."""
    joint = statements.join(low.value, low.error, high.value, high.error)
    assert joint.error is not None
    kinds: list[Kind] = [end.kind for end in (low, high) if end.receipt is not None or end.kind == "paid"]
    # All answers of one session hold together; those of two, only if neither fails. A constant never does. The notes
    # name the other session.
    betas = {end.notes: end.beta for end in (low, high) if end.error > 0}
    return replace(
        high,
        query=question.text,
        value=joint.value,
        error=joint.error,
        beta=min(sum(betas.values()), 1.0) if betas else high.beta,
        kind=next((k for k in ("paid", "free") if k in kinds), "cached" if kinds else "free"),
        cost=cost,
        receipt=high.receipt or low.receipt,
        notes=tuple(dict.fromkeys((*question.notes, *low.notes, *high.notes, joint.note))),
    )
