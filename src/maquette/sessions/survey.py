"""The survey of one session: tables that are bought once, and the answers that follow from them at no cost."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from maquette.core.answers import GRID
from maquette.core.binned import Binned
from maquette.core.curator import OnlineCurator
from maquette.core.prices import Prices
from maquette.mechanisms.online import PublicNumbers, Settings
from maquette.mechanisms.strategies import pair_tables
from maquette.models.answers import SmallDatabase, database, largest_remainder
from maquette.models.survey import Survey
from maquette.sessions.question import Question
from maquette.sessions.state import State


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
        if not self._state.tables or not self.is_complete(settings):
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
