"""A session's survey: bought before the first question that needs it, and asked before anything else is paid for."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from maquette.gate.online import OnlineCurator
from maquette.gate.tables import plan_tables
from maquette.mechanisms.online.settings import Public, Settings
from maquette.mechanisms.online.survey import pair_tables
from maquette.models.answers import GRID
from maquette.models.measurement import Gaussian
from maquette.models.survey import Survey
from maquette.queries.binned import Binned
from maquette.sessions.question import Question
from maquette.sessions.state import State


class Following(NamedTuple):
    """An answer that follows from released tables."""

    value: float
    error: float


class Surveyor:
    """Buys the tables of one session and reads answers off them."""

    def __init__(self, curator: OnlineCurator, state: State) -> None:
        self._curator = curator
        self._state = state
        self._held: Survey | None = None

    def complete(self, settings: Settings) -> bool:
        """Is there nothing to buy?"""
        plan = settings.survey
        bought = len(self._state.tables)
        if plan is None or (self._state.questions and not bought):
            return True  # a session that began without one, by an earlier version, goes on without
        return bought > len(plan.ones) or (plan.two_variance is None and bought == len(plan.ones))

    def buy(self, settings: Settings, public: Public) -> bool:
        """Whatever is missing, in at most two payments; False where nothing was."""
        plan = settings.survey
        if plan is None or self.complete(settings):
            return False
        if not self._state.tables:
            self._measure(plan.ones, plan.one_variance)
        if plan.two_variance is not None:
            pairs = pair_tables(self._curator.domain, self._survey(settings, public), plan.ones)
            self._measure(pairs, plan.two_variance)
        return True

    def follows(self, question: Question, settings: Settings, public: Public) -> Following | None:
        """An answer within the error that a measurement would state, or None."""
        if settings.survey is None or not self._state.tables or not self.complete(settings):
            return None
        found = self._survey(settings, public).share(question.queries)
        if found is None:
            return None
        value = round((found.low + found.high) / 2 * GRID) / GRID
        error = max(found.high - value, value - found.low)
        return Following(value, error) if error <= settings.measure_error else None

    def _measure(self, tables: Sequence[Binned], variance: Fraction) -> None:
        each = [variance] * len(tables)
        curator = self._curator
        plan = plan_tables(
            curator.domain, tables, each, relation=curator.relation, unit=curator.unit
        )  # public: what the gate will draw with
        note = {
            "tables": [table.to_json() for table in tables],
            "asked": str(variance),
            "variances": [str(drawn) for drawn in plan.variances],
        }
        curator.measure_tables(tables, variances=each, note=note)
        for step in curator.catch_up():
            self._state.take(step)

    def _survey(self, settings: Settings, public: Public) -> Survey:
        assert settings.survey is not None
        tables = tuple(self._state.tables)
        if self._held is None or len(self._held.tables) != len(tables):
            noise = public.size.noise
            spread = noise.sigma_squared if isinstance(noise, Gaussian) else None
            self._held = Survey(
                self._curator.domain,
                tables,
                total=public.n,
                total_variance=float(spread or 0),
                reach=public.reach,
                failure=settings.survey.failure,
            )
        return self._held
