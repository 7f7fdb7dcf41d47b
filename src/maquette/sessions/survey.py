"""Answers that need no new look at the table: those of other sessions on the ledger, and those that a survey implies.

Both are made from released values, so that handing them on is post-processing and costs nobody anything.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from maquette.accounting.ledger import Ledger
from maquette.domain import Domain
from maquette.gate.curator import OnlineCurator
from maquette.gate.prices import Prices
from maquette.mechanisms.online import PublicNumbers, Settings
from maquette.mechanisms.strategies import pair_tables
from maquette.models.answers import SmallDatabase, database, largest_remainder
from maquette.models.survey import Survey
from maquette.queries.forms import from_spec
from maquette.queries.marginals import Binned
from maquette.questions.answers import GRID
from maquette.questions.measurement import Step, read_step
from maquette.sessions.question import Question
from maquette.sessions.state import Source, State, clip, is_near, read_answer


@dataclass(frozen=True, slots=True)
class SharedAnswer:
    """An answer of another session, with the statement that was made there."""

    value: float
    side: bool
    error: float
    source: Source
    sequence: int


class SessionSteps:
    """The steps of all sessions of a ledger, each read once for all sessions that share a ledger object."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._sequence = 0
        """The last entry of the ledger that was looked at."""
        self.betas: dict[str, float] = {}
        """The sessions, and the chance of failure that each states."""
        self._read: dict[str, int] = {}
        """By session: the last entry that was read."""
        self._behind: set[str] = set()
        """Sessions with entries that were not read so far."""
        self._steps: dict[str, list[tuple[str, Step]]] = {}
        """By meaning: the sessions that answered it, and how."""

    def catch_up(self, ledger: Ledger) -> None:
        """Read what is new in the ledger."""
        with self._mutex:
            for line in ledger.entry_heads(after=self._sequence):
                self._sequence = line.seq
                if line.tag == "session":
                    entry = ledger.find(line.key)
                    assert entry is not None
                    self.betas[line.key] = float(entry.body["beta"])
                elif line.parent in self.betas:
                    self._behind.add(line.parent)
            if self._behind:
                self._behind = {name for name in self._behind if not self._follow(ledger, name)}

    def of(self, meaning: str) -> list[tuple[str, Step]]:
        """Who answered a question, and how."""
        with self._mutex:
            return list(self._steps.get(meaning, ()))

    def _follow(self, ledger: Ledger, name: str) -> bool:
        """Read on in a session; False if it waits for an answer that may still come."""
        for entry in ledger.children(name, after=self._read.get(name, 0)):
            step = read_step(entry)
            if not step.answered:
                return False
            self._read[name] = entry.seq
            if step.ask in ("test", "measure") or step.body.get("follows"):
                self._steps.setdefault(step.body["meaning"], []).append((name, step))
        return True


_STEPS: WeakKeyDictionary[Ledger, SessionSteps] = WeakKeyDictionary()
_STEPS_MUTEX = threading.Lock()


def _steps_of(ledger: Ledger) -> SessionSteps:
    with _STEPS_MUTEX:
        return _STEPS.setdefault(ledger, SessionSteps())


class SharedAnswers:
    """Follows the other sessions of a ledger, and looks up their answers."""

    def __init__(self, ledger: Ledger, domain: Domain, *, own: str) -> None:
        self._ledger = ledger
        self._domain = domain
        self._own = own
        self._steps = _steps_of(ledger)

    def catch_up(self) -> None:
        """Read what is new in the ledger."""
        self._steps.catch_up(self._ledger)

    def find(self, meaning: str, *, within: float) -> SharedAnswer | None:
        """The answer with the smallest error, if that is at most `within`; of equals the earliest."""
        best = None
        for name, step in self._steps.of(meaning):
            if name == self._own:
                continue
            answer = self._read_answer(name, step)
            if answer.error <= within and (
                best is None or (answer.error, answer.sequence) < (best.error, best.sequence)
            ):
                best = answer
        return best

    def _read_answer(self, name: str, step: Step) -> SharedAnswer:
        if step.ask == "note":
            value, error = float(step.body["value"]), float(step.body["error"])
        else:
            denominator = 1 if is_near(step) else from_spec(self._domain, step.body["spec"]).denominator
            share, error = read_answer(step, denominator)
            value = clip(share)
        source = Source(name, self._steps.betas[name])
        return SharedAnswer(value, bool(step.body["side"]), error, source, step.receipt.sequence)


# --- the survey of one session --------------------------------------------------------------------------------------


class DerivedAnswer(NamedTuple):
    """An answer that follows from released tables."""

    value: float
    error: float


class SessionSurvey:
    """Buys the tables of a session before the first question that needs them, and derives answers from them."""

    def __init__(self, curator: OnlineCurator, state: State) -> None:
        self._curator = curator
        self._state = state
        self._survey: Survey | None = None

    def is_complete(self, settings: Settings) -> bool:
        """Is there nothing to buy?"""
        plan = settings.survey
        bought = len(self._state.tables)
        if plan is None or (self._state.questions and not bought):
            return True  # a session that began without one, by an earlier version, goes on without
        return bought > len(plan.ones) or (plan.two_variance is None and bought == len(plan.ones))

    def buy(self, settings: Settings, public: PublicNumbers) -> bool:
        """Whatever is missing, in at most two payments; False where nothing was."""
        plan = settings.survey
        if plan is None or self.is_complete(settings):
            return False
        if not self._state.tables:
            self._measure(plan.ones, plan.one_variance)
        if plan.two_variance is not None:
            pairs = pair_tables(self._curator.domain, self._current(settings, public), plan.ones)
            self._measure(pairs, plan.two_variance)
        return True

    def derive(self, question: Question, settings: Settings, public: PublicNumbers) -> DerivedAnswer | None:
        """An answer within the error that a measurement would state, or None."""
        if settings.survey is None or not self._state.tables or not self.is_complete(settings):
            return None
        ends = self._current(settings, public).share(question.queries)
        if ends is None:
            return None
        value = round((ends.low + ends.high) / 2 * GRID) / GRID
        error = max(ends.high - value, value - ends.low)
        return DerivedAnswer(value, error) if error <= settings.measure_error else None

    def rows(self, m: int) -> SmallDatabase | None:
        """m rows by the counts of a table over all attributes, negative ones aside; None where it was not bought."""
        tables = self._state.tables
        if len(tables) != 1 or len(tables[0].binned.margin) < 2:
            return None
        cells = np.maximum(tables[0].values, 0).astype(np.float64)
        if not cells.any():
            return None
        return database(self._curator.domain, tables[0].binned.margin, largest_remainder(cells, m))

    def _measure(self, tables: Sequence[Binned], variance: Fraction) -> None:
        each = [variance] * len(tables)
        curator = self._curator
        # public: what the gate will draw with
        plan = Prices(curator.unit, curator.unit, curator.relation).tables(curator.domain, tables, each)
        note = {
            "tables": [table.to_json() for table in tables],
            "asked": str(variance),
            "variances": [str(drawn_variance) for drawn_variance in plan.variances],
        }
        curator.measure_tables(tables, variances=each, note=note)
        for step in curator.catch_up():
            self._state.take(step)

    def _current(self, settings: Settings, public: PublicNumbers) -> Survey:
        """The survey from all tables that were bought so far."""
        assert settings.survey is not None
        tables = tuple(self._state.tables)
        if self._survey is None or len(self._survey.tables) != len(tables):
            noise = public.size.noise
            self._survey = Survey(
                self._curator.domain,
                tables,
                total=public.n,
                total_variance=0.0 if noise is None else noise.variance,
                reach=public.reach,
                failure=settings.survey.failure,
            )
        return self._survey
