"""The public side of a session: what the ledger says so far, and what the next step for a question is.

A step is planned once, from public numbers only. Its plan is the forecast that a caller sees, the reason of a refusal,
and what is carried out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from maquette.accounting.ledger import Ledger
from maquette.core.answers import GRID
from maquette.core.budget import UNITS, percent_of
from maquette.core.curator import OnlineCurator
from maquette.core.measurement import Size, Step
from maquette.core.prices import Prices
from maquette.core.sparse import Guess
from maquette.domain import Relation
from maquette.errors import BudgetExceeded, KeyReused, MaquetteError, MechanismError, UselessAnswer
from maquette.mechanisms.online import PublicNumbers, Settings, largest_error, worth_testing
from maquette.mechanisms.session_plan import MAX_FACTOR, USELESS, with_larger_budget
from maquette.models.hypothesis import Prior
from maquette.queries.forms import from_spec
from maquette.sessions.borrowed import BorrowedAnswers
from maquette.sessions.question import Forecast, Kind, Question, SelectForecast
from maquette.sessions.rules import Rules
from maquette.sessions.state import (
    HypothesisCache,
    SharedAnswers,
    State,
    TakenOver,
    binned_of,
    noise_request,
    question_note,
)
from maquette.sessions.survey import SessionSurvey

MAX_BATCH = 64
"""Questions that share a commit."""
LEAST_BATCH = 8
"""Guesses that are begun together after a far one."""
FEW = 10
"""A number of questions to recommend where all questions together are too many."""


class Unplannable(MechanismError):
    """No question of the session can ever be answered on a table of this size."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The next step for a question."""

    forecast: Forecast
    note: dict[str, Any] | None = None
    """The answer, as the ledger notes it, where no look at the table is needed."""
    settings: Settings | None = None
    """None while the number of records is not known, and where no settings are needed."""
    guess: int = 0
    """The answer of the hypothesis, a whole number over 2^30."""


class SessionPlanner:
    """Keeps the state in step with the ledger, decides from public numbers what comes next, and has it done."""

    def __init__(
        self,
        curator: OnlineCurator,
        ledger: Ledger,
        rules: Rules,
        *,
        key: str,
        prior: Prior | None = None,
        borrowed: BorrowedAnswers | None = None,
    ) -> None:
        self.curator = curator
        self.rules = rules
        self.state = State(curator.domain, rules.budget.unit)
        self.hypothesis = HypothesisCache(curator.domain, rules, prior)
        self.survey = SessionSurvey(curator, self.state)
        self.shared = SharedAnswers(ledger, curator.domain, own=key)
        self._borrowed = borrowed
        self._ledger_unit = ledger.budget.unit
        self.group_factor = rules.group_factor
        self._settings: Settings | None = None
        self._largest_error = math.nextafter(USELESS, 0)
        """That an answer may state; before there are settings, any that says something."""
        self._public: PublicNumbers | None = None
        self._published: Size | None = None
        """The number of records that a release of this ledger states; written down with the first question."""
        if rules.relation is Relation.REPLACE_ONE:
            self.state.size = curator.size(price=Fraction(0))

    def sync(self, *, others: bool = True, finish: bool = True) -> None:
        """Take in what the ledger has; with `others`, also the answers of other sessions.

        With `finish`, a question that was paid for and never answered is asked again, which is charged to the ledger's
        total; where that does not cover it the session goes on without its answer.
        """
        if others:
            self.shared.catch_up()
        give_up = False
        while True:
            for step in self.curator.catch_up(give_up=give_up):
                self.state.take(step)
                if step.ask == "size" or (
                    step.ask == "note" and "size" in step.body
                ):  # settings follow from the last one
                    self._public = self._settings = None
            if not finish:
                return
            try:
                if self.state.pending is not None:
                    self._ask_again(self.state.pending)
                elif self.state.size is None and self._published is not None:
                    self._note_published(self._published)
                else:
                    return
            except BudgetExceeded:
                give_up = True
            except KeyReused:  # another process took this step
                continue

    def take_published(self, size: Size) -> None:
        """Use a number of records that was paid for on this ledger, instead of buying one."""
        if self.size is None:
            self._published = size

    @property
    def size(self) -> Size | None:
        """The number of records: public, bought or published; None before it is any of these."""
        return self.state.size or self._published

    def _note_published(self, size: Size) -> None:
        noise = None if size.noise is None else size.noise.to_dict()
        self.curator.note({"size": {"value": size.value, "noise": noise}})

    def _ask_again(self, pending: Step) -> None:
        body = pending.body
        if pending.ask == "size":
            self.curator.size(price=Fraction(body["price"]))
        elif pending.ask == "tables":
            tables = binned_of(body)
            self.curator.measure_tables(tables, variances=[Fraction(body["asked"])] * len(tables))
        else:
            self.curator.measure(from_spec(self.curator.domain, body["spec"]), noise=noise_request(body))

    def questions_left(self) -> int:
        """How many new questions are taken at most; where each is measured, no more than can be paid."""
        left = self.rules.questions - self.state.questions
        settings = self._settings
        if settings is None or settings.terms is not None or settings.survey is not None:
            return left
        assert settings.measure is not None
        return min(left, int((self.curator.left - self.first_price(settings)) // settings.measure.price))

    def settings(self) -> Settings:
        """What the session runs with: a function of public numbers, the same in every process."""
        if self._settings is None:
            try:
                self._settings = self.rules.settings(self.public())
                self._largest_error = largest_error(self._settings)
            except MechanismError as error:
                raise Unplannable(str(error)) from None
            self.hypothesis.prepare(self._settings)
        return self._settings

    def public(self) -> PublicNumbers:
        """Everything that settings are made from, once the number of records is known."""
        if self._public is None:
            size = self.size
            assert size is not None
            paid = self.state.size_prices
            if self.state.size is None:  # published, which takes nothing
                paid = [Fraction(0)]
            self._public = self.rules.public(
                self.curator.domain, size, paid=paid, is_begun=self.state.questions > 0
            )
        return self._public

    def charged(self, price: Fraction) -> float:
        """What looks at single records of this price are charged: more where a person has several."""
        return float(price * self.group_factor)

    # --- the plan of a question -------------------------------------------------------------------------------------

    def forecast(self, question: Question, *, allow_useless: bool) -> Forecast:
        """What a question takes at most and what it would state."""
        if question.ends is None:
            return self.plan(question, allow_useless=allow_useless).forecast
        return self._forecast_both(question, question.ends, allow_useless=allow_useless)

    def plan(self, question: Question, *, allow_useless: bool, ahead: int = 0) -> Plan:
        """The next step for a question; `ahead` new questions are answered before it."""
        left = float(self.curator.left)
        plain = Forecast(question.text, "free", 0.0, None, None, left, self.rules.budget.unit)
        note = self._stored_note(question)
        if note is not None:
            kind = "free" if question.constant is not None else "cached"
            return Plan(replace(plain, kind=kind, error=note["error"], guess=note["value"]), note)
        if self.state.questions + ahead >= self.rules.questions:
            return Plan(replace(plain, kind="test", refusal="questions"))
        if self.size is None:
            first, price = self.hypothesis.first_guess(question), float(self.rules.size_price)
            return Plan(replace(plain, kind="size", cost=left, size_cost=price, guess=first))
        settings = self.settings()
        if settings.survey is not None:
            derived = self.survey.derive(question, settings, self.public())
            if derived is not None:
                note = {"value": derived.value, "error": derived.error, "follows": True}
                return Plan(replace(plain, error=derived.error, guess=derived.value), note)
        refusal = None
        if self._measures(settings):
            assert settings.measure is not None
            kind, error = "measure", settings.measure_error
            cost = settings.measure.price + self.first_price(settings)
        else:
            kind, error = "test", max(settings.error, settings.answer_error)
            cost = Fraction(0) if self.curator.epoch is not None else self.epoch_price(settings)
            if self.curator.epoch is None and self.state.epochs >= settings.epochs:
                refusal = "epochs"
        if refusal is None and error >= USELESS and not allow_useless:
            refusal = "error"
        elif refusal is None and cost > self.curator.left:
            refusal = "budget"
        guess = self.hypothesis.guess(self.state, question)
        forecast = replace(
            plain, kind=kind, cost=float(cost), error=error, guess=guess / GRID, refusal=refusal
        )
        return Plan(forecast, None, settings, guess)

    def _stored_note(self, question: Question) -> dict[str, Any] | None:
        """An answer that is there already: a constant, one of this session or of another."""
        if question.constant is not None:
            return {"value": question.constant, "error": 0.0}
        stored = self.state.answers.get(question.meaning)
        if stored is None:
            stored = self._taken_over(question)
        if stored is None:
            return None
        note: dict[str, Any] = {
            "value": question.value_from(stored.value, stored.side),
            "error": stored.error,
        }
        source = stored.source
        return note if source is None else note | {"lender": source.to_json()}

    def _taken_over(self, question: Question) -> TakenOver | None:
        """The better answer of another session and of the release that this one starts from.

        Only with an error that this session may state (stated errors meet alpha up to rounding). Before it knows what
        it may state, because the number of records is not bought, a release is not asked.
        """
        if self.rules.alpha is not None:
            within = self.rules.alpha * (1 + 1e-9)
        else:
            if self.size is not None:
                self.settings()
            within = self._largest_error
        shared = self.shared.find(question.meaning, within=within)
        if self._borrowed is None or (self.rules.alpha is None and self._settings is None):
            return shared
        borrowed = self._borrowed.find(question, within=within)
        if shared is None or borrowed is None:
            return shared or borrowed
        return borrowed if borrowed.error < shared.error else shared

    def _measures(self, settings: Settings) -> bool:
        """Measure at once, or test a guess first? Decided from public state."""
        if settings.terms is None:
            return True
        if settings.measure is None or not self.rules.measure_first or self.curator.epoch is not None:
            return False  # an open epoch is paid for already
        price = self.epoch_price(settings)
        if self.state.epochs >= settings.epochs or price > self.curator.left:
            return True
        ratio = float(price / settings.terms.cap / settings.measure.price)
        return not worth_testing(self.state.far, ratio=ratio)

    def first_price(self, settings: Settings) -> Fraction:
        """What is bought once before the next question is measured: tables, or the number of records again."""
        if settings.survey is not None and not self.survey.is_complete(settings):
            return settings.survey.price
        return settings.size_price or Fraction(0)

    def epoch_price(self, settings: Settings) -> Fraction:
        """What opening an epoch takes of the session."""
        assert settings.terms is not None
        prices = Prices(self.rules.budget.unit, self._ledger_unit, self.curator.relation)
        return prices.epoch_cost(settings.terms)[1]

    def _forecast_both(
        self, question: Question, ends: tuple[Question, Question], *, allow_useless: bool
    ) -> Forecast:
        """What both ends of a question that cuts cells take. The error depends on the cut cells and is not forecast."""
        both = [self.plan(end, allow_useless=allow_useless).forecast for end in ends]
        for end in both:
            if end.refusal is not None:
                return replace(end, query=question.text)
        low, high = both
        new = [end for end in both if end.kind in ("size", "test", "measure")]
        if any(end.kind == "size" for end in new):
            cost = low.left  # the number of records decides the rest
        else:
            cost = low.cost + high.cost
            if len(new) == 2:
                cost += self._next_price() - float(self.first_price(self.settings()))
        refusal = None
        if len(new) > self.rules.questions - self.state.questions:
            refusal = "questions"
        elif cost > low.left:
            refusal = "budget"
        guess = None if low.guess is None or high.guess is None else (low.guess + high.guess) / 2
        first = new[0] if new else low
        return replace(first, query=question.text, cost=cost, error=None, guess=guess, refusal=refusal)

    def _next_price(self) -> float:
        """What the second end may take beyond its forecast: the test of the first may have ended the epoch."""
        settings = self.settings()
        if self.curator.epoch is None or self.curator.tests_left > 1:
            return 0.0
        prices = [self.epoch_price(settings)] if settings.terms is not None else []
        prices += [settings.measure.price] if settings.measure is not None else []
        return float(max(prices))

    # --- refusals ---------------------------------------------------------------------------------------------------

    def check(self, forecast: Forecast, *, spent: Fraction, at_most: float | None) -> None:
        """Refuse, before the table is touched, what cannot be paid or takes more than the caller allows.

        `spent` is what the question took so far.
        """
        unit, times = forecast.unit, self.group_factor
        what, needs = "this question", 1
        if isinstance(forecast, SelectForecast):
            what, needs = f"these {forecast.questions:,} questions together", forecast.new_questions
        if forecast.refusal == "questions":
            left = self.rules.questions - self.state.questions
            rest = "all are asked" if not left else f"{left:,} are left, of {needs:,} that it needs"
            raise BudgetExceeded(
                f"this session takes {self.rules.questions:,} questions, and {rest}; repeats stay free",
                unit="questions",
                needed=needs,
                left=left,
            )
        if forecast.refusal == "error":
            assert forecast.error is not None
            raise UselessAnswer(self._why_useless(forecast.error), error=forecast.error)
        if forecast.refusal is not None:
            raise BudgetExceeded(
                f"{what} may take {self._share(forecast.cost, up=True)} of the session's budget, and "
                f"{self._share(forecast.left)} is left; earlier questions stay free, new ones need another session",
                unit=unit,
                needed=forecast.cost * times,
                left=forecast.left * times,
            )
        needed = float(spent) + (forecast.size_cost if forecast.kind == "size" else forecast.cost)
        if at_most is not None and needed > at_most:
            bought = f"; the number of records is bought, for {self._share(float(spent))}" if spent else ""
            raise BudgetExceeded(
                f"{what} may take {self._share(needed, up=True)} of the session's budget, and at most "
                f"{self._share(at_most)} was allowed{bought}; allow more, or ask for its forecast",
                unit=unit,
                needed=needed * times,
                left=at_most * times,
            )

    def _share(self, amount: float, *, up: bool = False) -> str:
        return percent_of(round(amount * UNITS), self.rules.row_units, up=up)

    def _why_useless(self, error: float) -> str:
        """What is wrong with an error that says nothing, and what would help."""
        public = self.public()
        helps = [f"more records than these, about {public.n:,}"]
        factor = 2
        while factor <= MAX_FACTOR and not self._is_useful(with_larger_budget(public, factor)):
            factor *= 2
        if factor <= MAX_FACTOR:
            helps.append(f"a budget about {factor} times as large")
        if public.k > FEW and self._is_useful(replace(public, k=FEW)):
            helps.append(f"fewer questions, such as {FEW}")
        is_first = self.state.questions == 0 and sum(self.state.size_prices) > 0
        paid = "only the number of records was paid for" if is_first else "nothing was charged for it"
        return (
            f"the answer would be stated within {100 * error:.0f} points, no better than a guess without data; {paid}. "
            f"What would help: {'; '.join(helps)}. To ask it all the same, allow answers that say nothing "
            "(allow_useless=True, --allow-useless)"
        )

    def _is_useful(self, public: PublicNumbers) -> bool:
        """Would answers say something, with other public numbers?"""
        try:
            return largest_error(self.rules.settings(public)) < USELESS
        except MaquetteError:
            return False

    # --- the step itself --------------------------------------------------------------------------------------------

    def step(
        self, question: Question, key: str | None, *, allow_useless: bool, at_most: float | None
    ) -> Kind:
        """Carry out plans for a question until it is answered: buy what is missing, then note, test or measure."""
        curator = self.curator
        start, bought = curator.left, False
        self.state.current = question.queries
        while True:
            plan = self.plan(question, allow_useless=allow_useless)
            forecast, settings = plan.forecast, plan.settings
            if plan.note is not None:
                curator.note(question_note(question, key) | plan.note)
                return "paid" if bought else "cached" if forecast.kind == "cached" else "free"
            self.check(forecast, spent=start - curator.left, at_most=at_most)
            if settings is None:
                self.buy_size()  # price and error depend on it, so plan again
            elif settings.size_price is not None:
                self._buy_size(settings.size_price)
            elif forecast.kind == "test":
                if curator.epoch is None:
                    assert settings.terms is not None
                    curator.open_epoch(settings.terms)
                    bought = True
                outcome = curator.test_all([self._guess(question, plan, key)])[0]
                return "paid" if outcome.far or bought else "free"
            elif settings.survey is None or not self.survey.buy(settings, self.public()):
                self._measure(question, plan, key)
                return "paid"
            bought = True

    def buy_size(self) -> bool:
        """Buy the number of records; False where it is known already."""
        if self.size is not None:
            return False
        self._buy_size(self.rules.size_price)
        return True

    def _buy_size(self, price: Fraction) -> None:
        self.curator.size(price=price, note={"price": str(price)})
        self.sync(others=False)

    def _measure(self, question: Question, plan: Plan, key: str | None) -> None:
        settings = plan.settings
        assert settings is not None
        assert settings.measure is not None
        note = question_note(question, key) | {
            "answer": plan.guess,
            "size": self.public().size.divisor,
            "errors": [settings.error, settings.measure_error],
            "gap": None if settings.measure_gap is None else settings.measure_gap.to_json(),
            "deviation": settings.measure.deviation,
            "threshold": None if settings.terms is None else settings.terms.threshold,
            "belief": self.hypothesis.identity,
            "price": str(settings.measure.price),
        }
        self.curator.measure(question.queries, noise=settings.measure, note=note)

    def _guess(self, question: Question, plan: Plan, key: str | None) -> Guess:
        """The answer of the hypothesis in the form that the gate tests."""
        epoch, settings = self.curator.epoch, plan.settings
        assert epoch is not None
        assert settings is not None
        n, denominator = self.public().size.divisor, question.queries.denominator
        note = question_note(question, key) | {
            "answer": plan.guess,
            "size": n,
            "errors": [
                self.public().guess_error(settings.guess_reach, plan.guess / GRID),
                settings.answer_error,
            ],
            "gap": None if settings.answer_gap is None else settings.answer_gap.to_json(),
            "deviation": 0.0 if epoch.answer_noise is None else epoch.answer_noise.deviation,
            "belief": self.hypothesis.identity,
        }
        counts = (2 * plan.guess * n * denominator + GRID) // (2 * GRID)  # rounded to the nearest
        return Guess(question.queries, counts, note)

    def batch(self, questions: Sequence[Question], *, allow_useless: bool) -> Batch:
        """The next questions that cost nothing, by public state; repeats and constants are passed over."""
        batch, most = Batch(), self._most_guesses()
        for question in questions[:MAX_BATCH]:
            is_repeat = question.meaning in self.state.answers or question.meaning in batch.kinds
            if is_repeat or question.constant is not None:
                continue
            plan = self.plan(question, allow_useless=allow_useless, ahead=len(batch.kinds))
            is_tested = plan.forecast.kind == "test" and plan.forecast.refusal is None
            if plan.note is not None and not batch.guesses:
                batch.notes.append(question_note(question, None) | plan.note)
                batch.kinds[question.meaning] = "cached" if plan.forecast.kind == "cached" else "free"
            elif (
                is_tested and self.curator.epoch is not None and not batch.notes and len(batch.guesses) < most
            ):
                batch.guesses.append(self._guess(question, plan, None))
                batch.kinds[question.meaning] = "free"
            else:
                break
        return batch

    def _most_guesses(self) -> int:
        """Guesses that are begun together: those after a far one are in vain, so few where far ones are frequent."""
        near = next((i for i, far in enumerate(reversed(self.state.far)) if far), len(self.state.far))
        return min(max(2 * near, LEAST_BATCH), MAX_BATCH)


@dataclass(slots=True)
class Batch:
    """New questions in order that are stored together: either guesses to be tested, or notes."""

    kinds: dict[str, Kind] = field(default_factory=dict[str, Kind])
    """By meaning."""
    guesses: list[Guess] = field(default_factory=list[Guess])
    notes: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def store(self, curator: OnlineCurator) -> dict[str, Kind]:
        """One commit; says by meaning what kind of answers came of it."""
        if self.guesses:
            outcomes = curator.test_all(self.guesses)
            meanings = list(self.kinds)[: len(outcomes)]
            return {m: "paid" if o.far else "free" for m, o in zip(meanings, outcomes, strict=True)}
        if self.notes:
            curator.note_all(self.notes)
        return self.kinds
