"""A curator for questions that come one at a time, over restarts and from several processes.

Its envelope in the ledger holds numbered steps: an epoch is opened (paid, its secret stored with the payment), a guess
is tested inside it (free, stored before it is shown), a value is measured (paid, looked at, stored). A step's number
is its key, so that of two processes that go on from the same state one is told to catch up and try again; what the
other had looked at is forgotten, unseen. The state is read from the ledger and nowhere else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.accounting.budget import UNITS, Budget, Cost, unit_of
from maquette.accounting.events import Event, from_body
from maquette.accounting.ledger import Entry, Ledger
from maquette.errors import LedgerError, MechanismError, ParameterError
from maquette.gate import sparse
from maquette.gate.curator import Curator
from maquette.gate.owner import Table
from maquette.gate.payload import pack, unpack
from maquette.models.measurement import Receipt
from maquette.models.testing import Epoch, Terms, Tested
from maquette.queries import canonical_hash
from maquette.queries.base import Queries

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
        self._about: Mapping[str, Any] = {}
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

    def open_epoch(self, terms: Terms) -> Epoch:
        """Pay for a noisy threshold and for the tests against it.

        Guarantee: see `gate/sparse.py`; the whole epoch is paid when it opens and nothing of it is refunded. Charge
            and threshold are stored in one transaction, so that no threshold is ever drawn twice for one payment.
        """
        if self._open is not None:
            raise MechanismError("an epoch is open already; test in it until it is closed")
        plan = sparse.plan(terms, unit=self.unit, ledger_unit=self._ledger.budget.unit)
        self._take(plan.event.cost(self._budget.unit))
        shift = int(self._noise.laplace(np.zeros(1, dtype=np.int64), scale=plan.threshold_scale)[0])
        secret = sparse.seal(shift, self._noise.bits.words(sparse.BLIND_WORDS))
        entry = self._store(_EPOCH, secret, event=plan.event, more={"terms": sparse.terms_to_dict(terms)})
        self._follow(entry)
        if self._open is None:
            raise LedgerError("the ledger did not store the epoch; nothing was tested")
        return self._open.epoch

    def test(self, queries: Queries, *, guess: int, about: Mapping[str, Any] | None = None) -> Tested:
        """Is a guess of one query's answer far from the table? If so, also its value with fresh noise.

        `guess` is a whole number over the query's denominator. The outcome is stored before it is shown; the look was
        paid for when the epoch opened.
        """
        self._check_domain(queries)
        if queries.count != 1:
            raise ParameterError(f"expected one query to test, got {queries.count}")
        if queries.sensitivity(self.relation).linf > 1:
            raise ParameterError("expected a query with weights between 0 and 1")
        held = self._open
        if held is None:
            raise MechanismError("no epoch is open; open one before testing")
        values = self._look(queries, guess, held)
        more = {"query": canonical_hash(queries), "guess": guess} | dict(about or {})
        entry = self._store(_TEST, values, more=more)
        return tested(self._follow(entry))

    def note(self, what: Mapping[str, Any]) -> Step:
        """Write down something public at no cost, as a step of its own."""
        return self._follow(self._store(_NOTE, [], more=what))

    def telling(self, about: Mapping[str, Any]) -> None:
        """What the ledger's next paid question says about itself, beside its event."""
        self._about = about

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
        return sparse.is_far(
            noisy, threshold=held.epoch.terms.threshold, shift=held.shift, denominator=denominator
        )

    def _body(self, event: Event, request: dict[str, Any]) -> dict[str, Any]:
        told, self._about = self._about, {}
        return super()._body(event, request) | dict(told)

    def _store(
        self,
        ask: str,
        values: list[NDArray[np.int64]],
        *,
        more: Mapping[str, Any],
        event: Event | None = None,
    ) -> Entry:
        """Payment and value in one transaction; KeyReused if another process has taken this step."""
        body = ({} if event is None else event.to_dict()) | {"ask": ask} | dict(more)
        digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        return self._ledger.record(
            f"{self._key}/{self._step:04d}",
            request=digest,
            tag=ask if event is None else event.tag,
            cost=Cost(0) if event is None else event.cost(self._ledger.budget.unit),
            body=body,
            payload=pack(values),
            parent=self._key,
        )

    def _follow(self, entry: Entry) -> Step:
        step = self._take_in(entry)
        self._own.append(step)
        self._seen = entry.seq
        return step

    def _take_in(self, entry: Entry) -> Step:
        """Follow one step of the ledger, this curator's own or another's."""
        ask = str(entry.body.get("ask", ""))
        number = self._number(entry)
        place = entry.answered
        step = Step(
            number,
            ask,
            entry.body,
            None if entry.payload is None or ask == _EPOCH else tuple(unpack(entry.payload)),
            entry.units,
            entry.created,
            Receipt(entry.seq, entry.head) if place is None else Receipt(place.seq, place.head),
            place is not None,
        )
        if place is None:
            self._step = number  # the same question may be asked again, and is not charged again
            self._spent = self._paid
            return step
        self._step = number + 1
        if ask not in (_TEST, _NOTE):
            self._paid = self._paid + from_body(entry.body).cost(self._budget.unit)
        self._spent = self._paid
        if ask == _EPOCH:
            self._open = self._unseal(entry, step)
        elif ask == _TEST:
            self._count(tested(step))
        return step

    def _unseal(self, entry: Entry, step: Step) -> _Open:
        if entry.payload is None:
            raise LedgerError("the ledger has lost the threshold of an open epoch")
        terms = sparse.terms_from_dict(entry.body["terms"])
        plan = sparse.plan(terms, unit=self.unit, ledger_unit=self._ledger.budget.unit)
        epoch = Epoch(terms, plan.threshold_scale, plan.test_scale, plan.answer_noise, step.receipt)
        return _Open(epoch, sparse.unseal(unpack(entry.payload)), 0)

    def _count(self, outcome: Tested) -> None:
        held = self._open
        if held is None:
            raise LedgerError("the ledger holds a test outside of every epoch")
        if outcome.far:
            far = held.far + 1
            self._open = None if far >= held.epoch.terms.cap else _Open(held.epoch, held.shift, far)

    def _number(self, entry: Entry) -> int:
        return int(entry.key.rpartition("/")[2])


def tested(step: Step) -> Tested:
    """The outcome of a test that is stored."""
    if step.values is None:
        raise LedgerError(f"step {step.number} holds no outcome")
    far = bool(step.values[0][0])
    return Tested(far, int(step.values[1][0]) if far and len(step.values) > 1 else None, step.receipt)


def epoch_cost(terms: Terms, *, unit: str, ledger_unit: str) -> tuple[Cost, Fraction]:
    """What opening an epoch takes from the ledger, and in the curator's own unit: for forecasts. Touches nothing."""
    event = sparse.plan(terms, unit=unit, ledger_unit=ledger_unit).event
    return event.cost(unit_of(ledger_unit)), Fraction(event.cost(unit_of(unit)).units, UNITS)
