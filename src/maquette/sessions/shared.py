"""Answers that other sessions on the same ledger were given: released already, so they cost nobody anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

from maquette.accounting.ledger import Ledger
from maquette.domain import Domain
from maquette.errors import LedgerError, MechanismError, WorkloadError
from maquette.gate.online import OnlineCurator, Step, read_step
from maquette.gate.tables import plan_tables
from maquette.mechanisms.online import (
    FAIR,
    Public,
    Settings,
    settle_direct,
    settle_few,
    settle_lasting,
    settle_median,
    settle_pmw,
    settle_textbook,
    worst,
)
from maquette.mechanisms.strategies import pair_tables
from maquette.models.answers import GRID, SmallDatabase
from maquette.models.hypothesis import Hypothesis, Released, hypothesis_for
from maquette.models.survey import Survey
from maquette.queries.forms import from_spec
from maquette.queries.marginals import Binned
from maquette.questions.measurement import Gaussian, Size
from maquette.sessions.question import Question
from maquette.sessions.rules import Rules
from maquette.sessions.state import State, is_near, read_answer


@dataclass(frozen=True, slots=True)
class Lent:
    """An answer of another session, with what was promised there."""

    session: str
    value: float
    side: bool
    error: float
    beta: float
    """The chance that any answer of that session is off by more than its error."""
    sequence: int


class Shelf:
    """Follows the other sessions of a ledger, and finds what was answered there."""

    def __init__(self, ledger: Ledger, domain: Domain, *, own: str) -> None:
        self._ledger = ledger
        self._domain = domain
        self._own = own
        self._seen = 0
        self._betas: dict[str, float] = {}
        self._read: dict[str, int] = {}
        self._behind: set[str] = set()
        self._steps: dict[str, list[tuple[str, Step]]] = {}

    def catch_up(self) -> None:
        """Read what is new in the ledger."""
        for line in self._ledger.outline(after=self._seen):
            self._seen = line.seq
            if line.tag == "session" and line.key != self._own:
                entry = self._ledger.find(line.key)
                assert entry is not None
                self._betas[line.key] = float(entry.body["beta"])
            elif line.parent in self._betas:
                self._behind.add(line.parent)
        self._behind = {name for name in self._behind if not self._follow(name)}

    def find(self, meaning: str, *, within: float) -> Lent | None:
        """The answer with the smallest error, if that is at most `within`; of equals the earliest."""
        lent = [self._lend(name, step) for name, step in self._steps.get(meaning, [])]
        return min(
            (one for one in lent if one.error <= within),
            key=lambda one: (one.error, one.sequence),
            default=None,
        )

    def _follow(self, name: str) -> bool:
        """Read on in another session; False if it waits for an answer that may still come."""
        for entry in self._ledger.children(name, after=self._read.get(name, 0)):
            step = read_step(entry)
            if not step.answered:
                return False
            self._read[name] = entry.seq
            if step.ask in ("test", "measure") or step.body.get("follows"):
                self._steps.setdefault(step.body["meaning"], []).append((name, step))
        return True

    def _lend(self, name: str, step: Step) -> Lent:
        if step.ask == "note":
            value, error = float(step.body["value"]), float(step.body["error"])
        else:
            denominator = 1 if is_near(step) else from_spec(self._domain, step.body["spec"]).denominator
            value, error = read_answer(step, denominator)
        side, beta = bool(step.body["side"]), self._betas[name]
        return Lent(name, value, side, error, beta, step.receipt.sequence)


# A session's survey: bought before the first question that needs it, and asked before anything else is paid
# for.


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


# What a session believes: a hypothesis that follows from the released answers, built when it is needed.


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
