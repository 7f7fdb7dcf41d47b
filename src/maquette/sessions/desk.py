"""The public side of a session: what the ledger says so far, and what a question would take."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from maquette.accounting.budget import UNITS
from maquette.domain import Relation
from maquette.errors import BudgetExceeded, MaquetteError, UselessAnswer
from maquette.gate.online import OnlineCurator, epoch_cost
from maquette.mechanisms.online.bypass import worth_testing
from maquette.mechanisms.online.few import LARGEST_FACTOR, USELESS, enlarged, worst
from maquette.mechanisms.online.settings import Public, Settings, price_of
from maquette.models.answers import GRID
from maquette.models.measurement import Size
from maquette.queries.form import from_spec
from maquette.sessions.answer import Forecast
from maquette.sessions.belief import Belief, settle
from maquette.sessions.question import Question
from maquette.sessions.rules import Rules
from maquette.sessions.shelf import Lent, Shelf
from maquette.sessions.state import State, binned_of, priced
from maquette.sessions.surveying import Following, Surveyor

FEW = 10
"""A number of questions to recommend where all questions together are too many."""


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
            size = self.size()
            assert size is not None
            self._settings = settle(self.rules, self._public(size))
            self.belief.prepare(self._settings)
        return self._settings

    def _public(self, size: Size) -> Public:
        return Public(
            unit=self.unit,
            price=self.rules.price,
            size=size,
            k=self.rules.questions,
            beta=self.rules.beta,
            alpha=self.rules.alpha,
            universe=self.belief.universe,
            measuring=self.rules.bypass,
            domain=self.curator.domain,
            attributes=self.rules.attributes or self.curator.domain.names,
        )

    def survey(self, settings: Settings) -> bool:
        """Buy what is missing of the survey; False where nothing is."""
        return self._surveyor.buy(settings, self._now())

    def follows(self, question: Question, settings: Settings) -> Following | None:
        """An answer that follows from the survey, free; None where there is none."""
        return self._surveyor.follows(question, settings, self._now())

    def _now(self) -> Public:
        size = self.size()
        assert size is not None
        return self._public(size)

    def measures(self, settings: Settings) -> bool:
        """Measure at once, or test a guess first? Decided from public state."""
        if settings.terms is None:
            return True
        if settings.measure is None or not self.rules.bypass:
            return False
        measured, epoch = price_of(settings.measure), self._epoch_price(settings)
        if self.curator.epoch is not None:
            return False  # paid for already
        if not self._affords_epoch(settings):
            return True
        return not worth_testing(self.state.far, ratio=float(epoch / settings.terms.cap / measured))

    def _epoch_price(self, settings: Settings) -> Fraction:
        assert settings.terms is not None
        return epoch_cost(settings.terms, unit=self.unit, ledger_unit=self._ledger_unit)[1]

    def _affords_epoch(self, settings: Settings) -> bool:
        return self.state.epochs < settings.epochs and self._epoch_price(settings) <= self.curator.left

    def forecast(self, question: Question, *, any_error: bool = False) -> Forecast:
        known = self.state.known.get(question.meaning)
        left, unit = float(self.curator.left), self.unit
        if question.constant is not None:
            return Forecast(question.text, "free", 0.0, 0.0, question.constant, left, unit)
        if known is not None:
            value = question.turned(known.value, known.side)
            return Forecast(question.text, "cached", 0.0, known.error, value, left, unit)
        if (lent := self.lent(question)) is not None:
            value = question.turned(lent.value, lent.side)
            return Forecast(question.text, "cached", 0.0, lent.error, value, left, unit)
        if self.state.questions >= self.rules.questions:
            return Forecast(question.text, "test", 0.0, None, None, left, unit, "questions")
        if self.size() is None:
            price = float(self.rules.size_price)
            return Forecast(question.text, "test", price, None, self.belief.first(question), left, unit)
        settings = self.settle()
        following = self.follows(question, settings)
        if following is not None:
            return Forecast(question.text, "free", 0.0, following.error, following.value, left, unit)
        guess = self.belief.guess(self.state, question) / GRID
        if self.measures(settings):
            assert settings.measure is not None
            cost = price_of(settings.measure)
            if settings.survey is not None and not self._surveyor.complete(settings):
                cost += settings.survey.price
            kind, error = "measure", settings.measure_error
        else:
            cost = Fraction(0) if self.curator.epoch is not None else self._epoch_price(settings)
            kind, error = "test", max(settings.error, settings.answer_error)
            if self.curator.epoch is None and self.state.epochs >= settings.epochs:
                return Forecast(question.text, kind, float(cost), error, guess, left, unit, "epochs")
        refusal = "budget" if cost > self.curator.left else None
        if error >= USELESS and not any_error:
            refusal = "error"
        return Forecast(question.text, kind, float(cost), error, guess, left, unit, refusal)

    def refuse(self, forecast: Forecast) -> None:
        """Say no before the table is touched."""
        if forecast.refusal is None:
            return
        if forecast.refusal == "questions":
            raise BudgetExceeded(
                f"this session takes {self.rules.questions:,} questions, and all are asked; repeats stay free",
                unit="questions",
                needed=1,
                left=0,
            )
        if forecast.refusal == "error":
            assert forecast.error is not None
            raise UselessAnswer(self._useless(forecast.error), error=forecast.error)
        raise BudgetExceeded(
            f"this question may need {self.unit}={forecast.cost:.6g}, but the session has {self.unit}="
            f"{forecast.left:.6g} left for it; earlier questions stay free, new ones need another session",
            unit=self.unit,
            needed=forecast.cost,
            left=forecast.left,
        )

    def _useless(self, error: float) -> str:
        """What is wrong with an error that says nothing, and what would help: from public numbers."""
        size = self.size()
        assert size is not None
        public = self._public(size)
        helps = [f"more records than these, about {public.n:,}"]
        if (factor := self._enough(public)) is not None:
            helps.append(f"a budget about {factor} times as large")
        if self._says_something(replace(public, k=FEW)) and public.k > FEW:
            helps.append(f"fewer questions, such as {FEW}")
        first = self.state.questions == 0 and not size.public
        paid = "only the number of records was paid for" if first else "nothing was charged for it"
        return (
            f"the answer would be stated within {100 * error:.0f} points, no better than a guess without data; {paid}. "
            f"What would help: {'; '.join(helps)}. To ask nevertheless, allow any error (any_error=True, --any-error)"
        )

    def _enough(self, public: Public) -> int | None:
        """How many times the budget would give answers that say something."""
        factor = 2
        while factor <= LARGEST_FACTOR:
            if self._says_something(enlarged(public, factor)):
                return factor
            factor *= 2
        return None

    def _says_something(self, public: Public) -> bool:
        try:
            return worst(settle(self.rules, public)) < USELESS
        except MaquetteError:
            return False
