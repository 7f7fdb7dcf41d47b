"""The public side of a session: what the ledger says so far, and what comes next."""

from __future__ import annotations

import math
from fractions import Fraction

from maquette.accounting.budget import UNITS
from maquette.domain import Relation
from maquette.errors import MechanismError
from maquette.gate.online import OnlineCurator, epoch_cost
from maquette.mechanisms.online.bypass import worth_testing
from maquette.mechanisms.online.few import USELESS, worst
from maquette.mechanisms.online.settings import Public, Settings, price_of
from maquette.models.measurement import Size
from maquette.queries.form import from_spec
from maquette.sessions.belief import Belief, public_numbers, settle
from maquette.sessions.question import Question
from maquette.sessions.rules import Rules
from maquette.sessions.shelf import Lent, Shelf
from maquette.sessions.state import State, binned_of, priced
from maquette.sessions.surveying import Following, Surveyor


class Unplannable(MechanismError):
    """No question of the session can ever be answered on a table of this size."""


class Desk:
    """Keeps the state in step with the ledger and decides, from public numbers, what comes next."""

    def __init__(self, curator: OnlineCurator, rules: Rules, shelf: Shelf, *, ledger_unit: str) -> None:
        self.curator = curator
        self._shelf = shelf
        self.rules = rules
        self.state = State(curator.domain, rules.budget.unit)
        self.belief = Belief(curator.domain, rules)
        self._surveyor = Surveyor(curator, self.state)
        self._ledger_unit = ledger_unit
        self._settings: Settings | None = None
        self._public_size = (
            curator.size(price=Fraction(0)) if rules.relation is Relation.REPLACE_ONE else None
        )

    @property
    def unit(self) -> str:
        return self.rules.budget.unit

    @property
    def total(self) -> float:
        return self.rules.budget.total_units / UNITS

    def sync(self, *, others: bool = True) -> None:
        """Take in what the ledger has; finish a step that was paid for and never answered.

        With `others`, also what other sessions were answered.
        """
        if others:
            self._shelf.catch_up()
        for step in self.curator.catch_up():
            self.state.take(step)
        while self.state.pending is not None:
            body = self.state.pending.body
            if self.state.pending.ask == "size":
                self.curator.size(price=Fraction(body["price"]))
            elif self.state.pending.ask == "tables":
                tables = binned_of(body)
                self.curator.measure_tables(tables, variances=[Fraction(body["asked"])] * len(tables))
            else:
                self.curator.measure(from_spec(self.curator.domain, body["spec"]), noise=priced(body))
            for step in self.curator.catch_up():
                self.state.take(step)

    def questions_left(self) -> int:
        """How many new questions are taken at most; where each is measured, no more than can be paid."""
        left = self.rules.questions - self.state.questions
        settings = self._settings
        if settings is None or settings.terms is not None or settings.survey is not None:
            return left
        assert settings.measure is not None
        return min(left, int(self.curator.left // price_of(settings.measure)))

    def lent(self, question: Question) -> Lent | None:
        """The answer of another session, if its error is one that this session may state."""
        if self.rules.alpha is not None:
            within = self.rules.alpha * (1 + 1e-9)  # stated errors meet alpha up to rounding
        else:
            within = math.nextafter(USELESS, 0) if self.size() is None else worst(self.settle())
        return self._shelf.find(question.meaning, within=within)

    def size(self) -> Size | None:
        return self._public_size or self.state.size

    def n(self) -> int:
        size = self.size()
        assert size is not None
        return size.divisor

    def settle(self) -> Settings:
        """The settings, once the size is known: a function of public numbers, the same in every process."""
        if self._settings is None:
            try:
                self._settings = settle(self.rules, self.public())
            except MechanismError as error:
                raise Unplannable(str(error)) from None
            self.belief.prepare(self._settings)
        return self._settings

    def public(self) -> Public:
        """Everything that settings are made from, once the size is known."""
        size = self.size()
        assert size is not None
        return public_numbers(self.rules, self.curator.domain, size)

    def survey(self, settings: Settings) -> bool:
        """Buy what is missing of the survey; False where nothing is."""
        return self._surveyor.buy(settings, self.public())

    def surveyed(self, settings: Settings) -> bool:
        """Is there nothing left to buy of the survey?"""
        return self._surveyor.complete(settings)

    def follows(self, question: Question, settings: Settings) -> Following | None:
        """An answer that follows from the survey, free; None where there is none."""
        return self._surveyor.follows(question, settings, self.public())

    def measures(self, settings: Settings) -> bool:
        """Measure at once, or test a guess first? Decided from public state."""
        if settings.terms is None:
            return True
        if settings.measure is None or not self.rules.bypass:
            return False
        measured, epoch = price_of(settings.measure), self.epoch_price(settings)
        if self.curator.epoch is not None:
            return False  # paid for already
        if not self._affords_epoch(settings):
            return True
        return not worth_testing(self.state.far, ratio=float(epoch / settings.terms.cap / measured))

    def epoch_price(self, settings: Settings) -> Fraction:
        """What opening an epoch takes of the session."""
        assert settings.terms is not None
        return epoch_cost(settings.terms, unit=self.unit, ledger_unit=self._ledger_unit)[1]

    def _affords_epoch(self, settings: Settings) -> bool:
        return self.state.epochs < settings.epochs and self.epoch_price(settings) <= self.curator.left
