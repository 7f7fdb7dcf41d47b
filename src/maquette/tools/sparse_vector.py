"""`above_threshold`: which questions of a stream have a count above a threshold. AboveThreshold and NumericSparse."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction

from maquette.core import _check
from maquette.core._arguments import checks_arguments
from maquette.core.budget import Unit
from maquette.core.curator import OnlineCurator
from maquette.core.measurement import (
    EPOCH,
    TEST,
    EpochTerms,
    Step,
    Verdict,
    has_outcome,
    outcome_of,
    verdict_of,
)
from maquette.domain import Domain, Relation
from maquette.errors import BudgetExceeded, ParameterError
from maquette.owner import Table
from maquette.queries.base import Queries
from maquette.queries.predicates import where
from maquette.releasing.payment import Place
from maquette.requests import Payer, Privacy
from maquette.theory import epochs as widths
from maquette.theory import online
from maquette.tools.envelope import Paid, open_curator

VALUE_SHARE = Fraction(1, 3)
"""What the noisy values of questions above the threshold take of the budget, where they are asked for."""
_HAIR = Fraction(10**9 - 1, 10**9)
"""Prices are this much below the budget, so that their rounding up stays inside it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a test said."""

    above: bool
    value: float | None
    """The count with fresh noise, where values were asked for and the test said above."""
    question: str
    number: int
    """The how-manieth question of the stream, from 1."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """What may be relied on for all questions of the stream together, except with probability beta."""

    width: float
    """Above: the count is above the threshold less this. Not above: it is below the threshold plus this."""
    value_width: float | None
    """No noisy value is off by more."""
    questions: int
    beta: float

    def __str__(self) -> str:
        values = "" if self.value_width is None else f"; values are within {self.value_width:,.1f} records"
        return (
            f"for {self.questions:,} questions together, except with probability {self.beta:g}: 'above' means more "
            f"than the threshold minus {self.width:,.1f} records, 'not above' less than the threshold plus as many"
            f"{values}"
        )


class SparseVector:
    """A stream of questions against one threshold. Made by `above_threshold()`."""

    def __init__(self, paid: Paid[OnlineCurator], plan: _Plan, *, until: ExitStack) -> None:
        self._curator = paid.curator
        self._payment = paid.payment
        self._plan = plan
        self._until = until
        self._epochs = 0
        self._outcomes: list[bool] = []
        self._lost = 0
        """Tests that may have been above, and whose outcomes were lost with a process."""
        self._follow()

    @property
    def domain(self) -> Domain:
        return self._curator.domain

    @property
    def key(self) -> str:
        """Its name in the ledger: `above_threshold` with the same parameters, or this key, goes on with it."""
        return self._payment.key

    @property
    def positives_left(self) -> int:
        """How many more questions may be above the threshold."""
        return self._plan.positives - sum(self._outcomes) - self._lost

    @property
    def questions_left(self) -> int:
        return self._plan.questions - len(self._outcomes)

    @property
    def left(self) -> float:
        """What of the budget is not spent yet."""
        return float(self._curator.left)

    @property
    def accuracy(self) -> Accuracy:
        """The statement, from public numbers."""
        return self._plan.accuracy

    @checks_arguments
    def ask(self, question: Queries | str) -> Outcome:
        """Is the count of one query above the threshold?

        Guarantee: paid when the epoch opened; a question that is not above costs nothing more, however many there are.
        """
        query = where(self.domain, question) if isinstance(question, str) else question
        self._follow()
        if self.questions_left < 1:
            raise BudgetExceeded(
                f"the statement of this stream is for {self._plan.questions:,} questions, and all were asked; open "
                "another with more questions=",
                unit="questions",
                needed=1.0,
                left=0.0,
            )
        if self.positives_left < 1:
            raise BudgetExceeded(
                f"{self._plan.positives:,} questions were above the threshold, which is all that was paid for; open "
                "another stream with more positives=",
                unit="positives",
                needed=1.0,
                left=0.0,
            )
        if self._curator.epoch is None:
            self._curator.open_epoch(self._plan.terms)
        outcome = self._curator.test(query, guess=0)
        self._follow()
        value = None if outcome.value is None else outcome.value / query.denominator
        return Outcome(outcome.far, value, query.text(0), len(self._outcomes))

    def close(self) -> None:
        """End the stream: what was not spent goes back to the ledger."""
        self._payment.settle()
        self._until.close()

    def __repr__(self) -> str:
        return (
            f"SparseVector({len(self._outcomes):,} asked, {sum(self._outcomes):,} above; left: "
            f"{self.questions_left:,} questions, {self.positives_left:,} above)"
        )

    def __enter__(self) -> SparseVector:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _follow(self) -> None:
        for step in self._curator.catch_up():
            self._take(step)

    def _take(self, step: Step) -> None:
        if step.ask == EPOCH:
            self._epochs += 1
        elif step.ask == TEST and has_outcome(step):
            self._outcomes.append(outcome_of(step).far)
        elif step.ask == TEST and verdict_of(step) == Verdict.LOST:
            self._lost += 1


@checks_arguments
def above_threshold(
    table: Table,
    *,
    threshold: int,
    epsilon: float,
    delta: float = 0.0,
    positives: int = 1,
    values: bool = False,
    questions: int = 1000,
    beta: float = 0.05,
    relation: Relation | str = Relation.ADD_REMOVE,
    ledger: Place = None,
    total_epsilon: float | None = None,
    total_delta: float | None = None,
    key: str | None = None,
) -> SparseVector:
    """A stream of questions, each a linear query: is its count above `threshold` records?

    Guarantee: (epsilon, delta)-DP for the whole stream, whatever is asked, with up to `positives` answers above; pure
        if delta is 0. Without a delta one sparse vector with as many positives (Lyu, Su and Li 2017); with one an epoch
        of AboveThreshold after the other, composed by zCDP. `values` adds the count with fresh noise to every answer
        above (NumericSparse).
    Accuracy: `accuracy`: for all questions together, except with probability beta.
    """
    _check.whole(positives=positives, questions=questions)
    if positives > questions:
        raise ParameterError(
            f"expected positives of at most questions={questions:,}, got positives={positives:,}: the budget would be "
            "divided among answers that cannot come"
        )
    _check.fraction(beta=beta)
    privacy = Privacy(epsilon=epsilon, delta=delta, relation=relation)
    payer = Payer(ledger=ledger, total_epsilon=total_epsilon, total_delta=total_delta, key=key)
    about = {
        "threshold": threshold,
        "positives": positives,
        "values": values,
        "questions": questions,
        "beta": beta,
    }
    with ExitStack() as until:
        paid = open_curator(
            table, privacy, payer, about, tag="sparse vector", kind=OnlineCurator, until=until
        )
        plan = plan_stream(
            paid.price,
            paid.budget.unit,
            threshold=threshold,
            positives=positives,
            values=values,
            questions=questions,
            beta=beta,
        )
        return SparseVector(paid, plan, until=until.pop_all())


@dataclass(frozen=True, slots=True)
class _Plan:
    """What one epoch is asked for, and what the whole stream states."""

    terms: EpochTerms
    positives: int
    questions: int
    accuracy: Accuracy


def plan_stream(
    price: Fraction,
    unit: Unit,
    *,
    threshold: int,
    positives: int,
    values: bool,
    questions: int,
    beta: float,
) -> _Plan:
    """Shares of a price: one epoch with all positives (pure), or one epoch for each (rho). Public numbers only."""
    cap, epochs = (positives, 1) if unit.is_pure else (1, positives)
    each = price * _HAIR / epochs
    share = VALUE_SHARE if values else Fraction(0)
    tests = unit.pure_epsilon(each * (1 - share))
    first = Fraction(online.svt_split(cap)[0]).limit_denominator(10**6)
    terms = EpochTerms(threshold, cap, tests * first, tests * (1 - first), each * share if values else None)
    width = online.sparse_width(
        threshold_scale=float(1 / terms.threshold_price),
        test_scale=float(2 * cap / terms.test_price),
        epochs=epochs,
        k=questions,
        beta=beta * (2 / 3 if values else 1),
    )
    value_width = _value_width(terms, unit, positives, beta / 3) if values else None
    return _Plan(terms, positives, questions, Accuracy(width, value_width, questions, beta))


def _value_width(terms: EpochTerms, unit: Unit, positives: int, beta: float) -> float:
    """What no noisy value is off by: Laplace noise of scale cap / price, or Gaussian noise for the price in rho."""
    assert terms.answer_price is not None
    price = float(terms.answer_price)
    if unit.is_pure:
        return widths.laplace_reach(terms.cap / price, beta / positives)
    sigma = (terms.cap / (2 * price) + float(unit.smoothing)) ** 0.5
    return widths.gaussian_reach(sigma, beta / positives)
