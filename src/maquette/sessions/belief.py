"""What a session believes: a hypothesis that follows from the released answers, built when it is needed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from maquette.domain import Domain
from maquette.errors import LedgerError, MechanismError, WorkloadError
from maquette.mechanisms.online.few import FAIR, settle_few, worst
from maquette.mechanisms.online.settings import (
    Public,
    Settings,
    settle_direct,
    settle_lasting,
    settle_median,
    settle_pmw,
    settle_textbook,
)
from maquette.models.answers import GRID, SmallDatabase
from maquette.models.hypothesis import Hypothesis, Released, hypothesis_for
from maquette.models.measurement import Size
from maquette.sessions.question import Question
from maquette.sessions.rules import Rules
from maquette.sessions.state import State


def settle(rules: Rules, public: Public) -> Settings:
    """What this kind of session runs with."""
    if rules.mechanism == "direct":
        return settle_direct(public)
    if rules.mechanism == "median":
        return settle_median(public)
    if rules.update == "step" and rules.alpha is None:
        return settle_textbook(public)
    if rules.lasting:
        return settle_lasting(public)
    return _usual_or_few(public) if rules.alpha is None and rules.bypass else settle_pmw(public)


def public_numbers(rules: Rules, domain: Domain, size: Size) -> Public:
    """Everything that settings are made from, once the size is known."""
    names = rules.attributes
    return Public(
        unit=rules.budget.unit,
        price=rules.price,
        size=size,
        k=rules.questions,
        beta=rules.beta,
        alpha=rules.alpha,
        universe=domain.size if names is None else domain.cells(names),
        measuring=rules.bypass,
        domain=domain,
        attributes=names or domain.names,
    )


def _usual_or_few(public: Public) -> Settings:
    try:
        usual = settle_pmw(public)
    except MechanismError:  # a table so small that no epoch can be paid
        return settle_few(public)
    return settle_few(public) if worst(usual) > FAIR else usual


class Belief:
    """Keeps the hypothesis in step with the released answers."""

    def __init__(self, domain: Domain, rules: Rules) -> None:
        self._domain = domain
        self._rules = rules
        self._hypothesis: Hypothesis | None = None
        self._learned = 0
        self._rows, self._step = 0, 0.0
        self._width: float | None = None
        self._lessons: list[Released] = []

    def prepare(self, settings: Settings) -> None:
        """What the hypothesis needs to know of the settings."""
        self._rows, self._step = settings.rows, settings.step
        if self._rules.lasting and self._rules.mechanism == "pmw" and self._rules.update == "refit":
            self._width = settings.answer_error

    def guess(self, state: State, question: Question) -> int:
        """The believed share on the grid of released answers: a whole number over 2^30."""
        if self._rules.mechanism == "direct":
            return 0
        share = float(self._now(state).answer(question.queries)[0])
        return min(max(round(share * GRID), 0), GRID)

    def first(self, question: Question) -> float | None:
        """The belief before anything was released."""
        if self._rules.mechanism != "pmw":
            return None
        return float(self._start().answer(question.queries)[0])

    def named(self, state: State) -> list[Any]:
        """How many released answers the hypothesis knows, and its digest: stored with every guess."""
        return [self._learned, "" if self._hypothesis is None else self._hypothesis.digest()]

    def check(self, state: State) -> None:
        """After a restart: the rebuilt hypothesis is the one that guessed last."""
        if state.belief is None or self._rules.mechanism == "direct" or self._rules.update == "step":
            return
        knew, digest = state.belief
        rebuilt = self._start() if not knew else self._start().refit(self._known(state, knew))
        if rebuilt.digest() != digest:
            raise LedgerError(
                "the hypothesis that follows from the ledger is not the one that its last answer names; "
                "run maquette ledger verify"
            )
        self._hypothesis, self._learned = rebuilt, knew

    def synthetic(self, state: State, m: int, *, key: str) -> SmallDatabase:
        if self._rules.mechanism == "direct":
            return (
                hypothesis_for(self._domain, attributes=self._rules.attributes)
                .refit(state.released)
                .synthetic(m, key=key)
            )
        return self._now(state).synthetic(m, key=key)

    def _known(self, state: State, count: int) -> list[Released]:
        """The first released answers; with their widths in a session that counts on them to last."""
        if self._width is None:
            return state.released[:count]
        for answer in state.released[len(self._lessons) : count]:
            self._lessons.append(replace(answer, width=self._width))
        return self._lessons[:count]

    def _now(self, state: State) -> Hypothesis:
        found = self._hypothesis or self._start()
        if self._learned < state.lessons:
            if self._rules.update == "refit":
                found = found.refit(self._known(state, state.lessons))
            else:
                for answer in state.released[self._learned : state.lessons]:
                    found = found.step(answer.queries, answer.value, step=self._step)
            self._learned = state.lessons
        self._hypothesis = found
        return found

    def _start(self) -> Hypothesis:
        if self._rules.mechanism == "median" and self._rows:
            from maquette.models.version_space import version_space_for

            return version_space_for(self._domain, rows=self._rows, attributes=self._rules.attributes)
        return hypothesis_for(self._domain, attributes=self._rules.attributes)


def check_covered(rules: Rules, question: Question) -> None:
    """A session over some attributes takes questions about these."""
    if rules.attributes is not None and not set(question.queries.attributes) <= set(rules.attributes):
        raise WorkloadError(
            f"this session takes questions about {', '.join(rules.attributes)}; open another for the rest"
        )
