"""A curator for questions that come one at a time, over restarts and from several processes.

Its envelope in the ledger holds numbered steps: an epoch is opened (paid, its secret stored with the payment), a guess
is tested inside it (free, stored before it is shown), a value is measured (paid, looked at, stored). A step's number
is its key, so that of two processes that go on from the same state one is told to catch up and try again; what the
other had looked at is forgotten, unseen. The state is read from the ledger and nowhere else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.accounting.budget import Budget, Cost
from maquette.accounting.events import Event, from_body
from maquette.accounting.ledger import Entry, Ledger, Record
from maquette.accounting.unit import UNITS, Unit
from maquette.errors import LedgerError, MechanismError, ParameterError
from maquette.gate import sparse
from maquette.gate.barrier import described, pack, unpack
from maquette.gate.curator import Curator
from maquette.gate.handle import Table
from maquette.queries import canonical_hash
from maquette.queries.base import Queries
from maquette.questions import bounds
from maquette.questions.measurement import Epoch, EpochTerms, GuessOutcome, Receipt

_EPOCH, _TEST, _NOTE = "epoch", "test", "note"


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the past, without its secrets."""

    number: int
    ask: str
    body: Mapping[str, Any]
    values: tuple[NDArray[np.int64], ...] | None
    """What was released; None for an epoch, whose threshold is secret, and for a step that was never answered."""
    units: int
    """What it took from the ledger."""
    created: str
    receipt: Receipt
    answered: bool


@dataclass(frozen=True, slots=True)
class Guess:
    """A guess of one query's answer, a whole number over its denominator, and what the ledger says about it."""

    queries: Queries
    guess: int
    about: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class _Open:
    """An epoch that still tests, with its secret."""

    epoch: Epoch
    shift: int
    far: int

    def __repr__(self) -> str:
        return f"an open epoch, {self.far} of {self.epoch.terms.cap} far"


class OnlineCurator(Curator):
    """Tests guesses against one table, and measures where they fail."""

    def __init__(self, table: Table, ledger: Ledger, *, key: str, budget: Budget) -> None:
        super().__init__(table, ledger, key=key, budget=budget)
        self._seen = 0
        self._paid = Cost(0)
        self._open: _Open | None = None
        self._own: list[Step] = []

    @property
    def epoch(self) -> Epoch | None:
        """The open epoch, if there is one."""
        return None if self._open is None else self._open.epoch

    @property
    def tests_left(self) -> int:
        """How many more guesses may turn out far off before the epoch is closed."""
        return 0 if self._open is None else self._open.epoch.terms.cap - self._open.far

    def catch_up(self) -> list[Step]:
        """The steps since the last call: this curator's own, and those of other processes, read from the ledger."""
        steps, self._own = self._own, []
        for entry in self._ledger.children(self._key, after=self._seen):
            steps.append(self._take_in(entry))
            if entry.answered is None:
                break  # look at it again: its answer may come from another process
            self._seen = entry.seq
        self._spent = self._paid
        return steps

    def open_epoch(self, terms: EpochTerms) -> Epoch:
        """Pay for a noisy threshold and for the tests against it.

        Guarantee: see `gate/sparse.py`; the whole epoch is paid when it opens and nothing of it is refunded. Charge
            and threshold are stored in one transaction, so that no threshold is ever drawn twice for one payment.
        """
        if self._open is not None:
            raise MechanismError("an epoch is open already; test in it until it is closed")
        plan = sparse.plan(terms, unit=self.unit, ledger_unit=self._ledger.budget.unit)
        self._spent_with(
            plan.event.cost(self._budget.unit)
        )  # refuses what is too much; counted when it is stored
        shift = int(self._noise.laplace(np.zeros(1, dtype=np.int64), scale=plan.threshold_scale)[0])
        secret = sparse.seal(shift, self._noise.bits.words(sparse.BLIND_WORDS))
        entry = self._store(_EPOCH, secret, event=plan.event, more={"terms": sparse.terms_to_dict(terms)})
        self._follow(entry)
        if self._open is None:
            raise LedgerError("the ledger did not store the epoch; nothing was tested")
        return self._open.epoch

    def test(self, queries: Queries, *, guess: int, about: Mapping[str, Any] | None = None) -> GuessOutcome:
        """Is a guess of one query's answer far from the table? If so, also its value with fresh noise.

        `guess` is a whole number over the query's denominator. The outcome is stored before it is shown; the look was
        paid for when the epoch opened.
        """
        return self.test_all([Guess(queries, guess, {} if about is None else about)])[0]

    def test_all(self, guesses: Sequence[Guess]) -> list[GuessOutcome]:
        """The same for several guesses in order, up to and with the first that is far off, in one transaction.

        Guarantee: that of the same tests one by one: the guesses are public and fixed beforehand, and whoever would
            choose the next one after a near outcome may choose it before. None is shown before all are stored; if
            another process has taken one of the steps (KeyReused), what was looked at is forgotten, unseen.
        """
        held = self._open
        if held is None:
            raise MechanismError("no epoch is open; open one before testing")
        bounds.check_list(guesses, Guess, "a list of guesses")
        for one in guesses:
            self._check_guess(one, held.epoch)
        records: list[Record] = []
        for one in guesses:
            values = self._look(one.queries, one.guess, held)
            more = described({"query": canonical_hash(one.queries), "guess": one.guess}, one.about)
            records.append(self._record(_TEST, values, more, number=self._step + len(records)))
            if values[0][0]:  # at most one of them counts towards the cap, and the next guess may be another
                break
        return [tested(self._follow(entry)) for entry in self._ledger.record_all(records, parent=self._key)]

    def note(self, what: Mapping[str, Any]) -> Step:
        """Write down something public at no cost, as a step of its own."""
        return self.note_all([what])[0]

    def note_all(self, what: Sequence[Mapping[str, Any]]) -> list[Step]:
        """The same for several things in one transaction; KeyReused if another process has taken one of the steps."""
        bounds.check_list(what, Mapping, "a list of things to write down, each by name")
        for one in what:
            bounds.check_about(one)
        records = [self._record(_NOTE, [], one, number=self._step + i) for i, one in enumerate(what)]
        return [self._follow(entry) for entry in self._ledger.record_all(records, parent=self._key)]

    def _check_guess(self, one: Guess, epoch: Epoch) -> None:
        self._check_queries(one.queries)
        if one.queries.count != 1:
            raise ParameterError(f"expected one query to test, got {one.queries.count}")
        if one.queries.sensitivity(self.relation).linf > 1:
            raise ParameterError("expected a query with weights between 0 and 1")
        most = bounds.SUMMANDS
        bounds.check_whole(one.guess, least=-most, most=most, what="a guess")
        sparse.check_widths(epoch, one.queries.denominator)
        bounds.check_about(one.about)

    def _look(self, queries: Queries, guess: int, held: _Open) -> list[NDArray[np.int64]]:
        """Near or far, and a value: of the same form for both, so that what is stored takes the same room."""
        exact = int(self._engine.answer(queries)[0])
        far = self._far(sparse.score(exact, guess), held, queries.denominator)
        law = held.epoch.answer_noise
        value = 0
        if far and law is not None:
            value = sparse.add_noise(exact, law, denominator=queries.denominator, noise=self._noise)
        outcome = [np.array([far], dtype=np.int64)]
        return outcome if law is None else [*outcome, np.array([value], dtype=np.int64)]

    def _far(self, score: int, held: _Open, denominator: int) -> bool:
        """The one place where a score meets the secret threshold."""
        scale = held.epoch.test_scale * denominator
        noisy = int(self._noise.laplace(np.array([score], dtype=np.int64), scale=scale)[0])
        shift = sparse.within_reach(held.shift, denominator)
        return sparse.is_far(
            noisy, threshold=held.epoch.terms.threshold, shift=shift, denominator=denominator
        )

    def _store(
        self,
        ask: str,
        values: list[NDArray[np.int64]],
        *,
        more: Mapping[str, Any],
        event: Event,
    ) -> Entry:
        """Payment and value in one transaction; KeyReused if another process has taken this step."""
        made = self._record(ask, values, event.to_dict() | dict(more))
        return self._ledger.record(
            made.key,
            request=made.request,
            tag=event.tag,
            cost=event.cost(self._ledger.budget.unit),
            body=made.body,
            payload=made.payload,
            parent=self._key,
        )

    def _record(
        self, ask: str, values: list[NDArray[np.int64]], more: Mapping[str, Any], *, number: int | None = None
    ) -> Record:
        """What is stored of a step; this curator's next one if no number is given."""
        body = described({"ask": ask}, more)
        digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        step = self._step if number is None else number
        return Record(f"{self._key}/{step:04d}", digest, ask, body, pack(values))

    def _follow(self, entry: Entry) -> Step:
        step = self._take_in(entry)
        self._own.append(step)
        self._seen = entry.seq
        return step

    def _take_in(self, entry: Entry) -> Step:
        """Follow one step of the ledger, this curator's own or another's."""
        step = read_step(entry)
        if not step.answered:
            self._step = step.number  # the same question may be asked again, and is not charged again
            self._spent = self._paid
            return step
        self._step = step.number + 1
        if step.ask not in (_TEST, _NOTE):
            self._paid = self._paid + from_body(entry.body).cost(self._budget.unit)
        self._spent = self._paid
        if step.ask == _EPOCH:
            self._open = self._unseal(entry, step)
        elif step.ask == _TEST:
            self._count(tested(step))
        return step

    def _unseal(self, entry: Entry, step: Step) -> _Open:
        if entry.payload is None:
            raise LedgerError("the ledger has lost the threshold of an open epoch")
        terms = sparse.terms_from_dict(entry.body["terms"])
        plan = sparse.plan(terms, unit=self.unit, ledger_unit=self._ledger.budget.unit)
        epoch = Epoch(terms, plan.threshold_scale, plan.test_scale, plan.answer_noise, step.receipt)
        return _Open(epoch, sparse.unseal(unpack(entry.payload)), 0)

    def _count(self, outcome: GuessOutcome) -> None:
        held = self._open
        if held is None:
            raise LedgerError("the ledger holds a test outside of every epoch")
        if outcome.far:
            far = held.far + 1
            self._open = None if far >= held.epoch.terms.cap else _Open(held.epoch, held.shift, far)


def read_step(entry: Entry) -> Step:
    """A step of whatever session as the ledger holds it, without its secrets."""
    ask, place = str(entry.body.get("ask", "")), entry.answered
    return Step(
        int(entry.key.rpartition("/")[2]),
        ask,
        entry.body,
        None if entry.payload is None or ask == _EPOCH else tuple(unpack(entry.payload)),
        entry.units,
        entry.created,
        Receipt(entry.seq, entry.head) if place is None else place,
        place is not None,
    )


def tested(step: Step) -> GuessOutcome:
    """The outcome of a test that is stored."""
    if step.values is None:
        raise LedgerError(f"step {step.number} holds no outcome")
    far = bool(step.values[0][0])
    return GuessOutcome(far, int(step.values[1][0]) if far and len(step.values) > 1 else None, step.receipt)


def epoch_cost(terms: EpochTerms, *, unit: Unit, ledger_unit: Unit) -> tuple[Cost, Fraction]:
    """What opening an epoch takes from the ledger, and in the curator's own unit: for forecasts. Touches nothing."""
    event = sparse.plan(terms, unit=unit, ledger_unit=ledger_unit).event
    return event.cost(ledger_unit), Fraction(event.cost(unit).units, UNITS)
