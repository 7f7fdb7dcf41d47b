"""How a curator for questions that come one at a time follows its steps, over restarts and from several processes.

Its envelope in the ledger holds numbered steps: an epoch is opened (paid, its secret stored with the payment), a guess
is tested inside it (free, stored before it is shown), a value is measured (paid, looked at, stored). A step's number
is its key, so that of two processes that go on from the same state one is told to catch up and try again; what the
other had looked at is forgotten, unseen. The state is read from the ledger and nowhere else. The questions
themselves are methods of `OnlineCurator` in `gate/curator.py`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maquette.accounting.budget import Budget, Cost
from maquette.accounting.events import Event, from_body
from maquette.accounting.ledger import Entry, Ledger, Record
from maquette.errors import LedgerError
from maquette.gate.barrier import Barrier
from maquette.gate.handle import Table
from maquette.gate.prices import Counts
from maquette.queries.base import Queries
from maquette.questions import bounds, sparse
from maquette.questions.answers import pack, unpack
from maquette.questions.measurement import Epoch, GuessOutcome
from maquette.questions.noise import IndependentLaw, Laplace
from maquette.questions.sparse import EPOCH, NOTE, TEST, Step, outcome_of, read_step
from maquette.samplers.noise import add_noise


@dataclass(frozen=True, slots=True)
class OpenEpoch:
    """An epoch that still tests, with its secret."""

    epoch: Epoch
    shift: int
    far: int

    def __repr__(self) -> str:
        return f"an open epoch, {self.far} of {self.epoch.terms.cap} far"


class SteppedBarrier(Barrier):
    """One table and one allowance, spent in numbered steps of the ledger."""

    def __init__(self, table: Table, ledger: Ledger, *, key: str, budget: Budget) -> None:
        super().__init__(table, ledger, key=key, budget=budget)
        self._last_seq = 0
        self._paid = Cost(0)
        self._open: OpenEpoch | None = None
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
        for entry in self._ledger.children(self._key, after=self._last_seq):
            steps.append(self._take_in(entry))
            if entry.answered is None:
                break  # look at it again: its answer may come from another process
            self._last_seq = entry.seq
        self._spent = self._paid
        return steps

    def note(self, what: Mapping[str, Any]) -> Step:
        """Write down something public at no cost, as a step of its own."""
        return self.note_all([what])[0]

    def note_all(self, what: Sequence[Mapping[str, Any]]) -> list[Step]:
        """The same for several things in one transaction; KeyReused if another process has taken one of the steps."""
        bounds.check_list(what, Mapping, "a list of things to write down, each by name")
        for one in what:
            bounds.check_about(one)
        return self._follow_all(
            [self._record(NOTE, [], one, number=self._step + i) for i, one in enumerate(what)]
        )

    def _store(self, ask: str, values: list[Counts], *, more: Mapping[str, Any], event: Event) -> Entry:
        """Payment and value in one transaction; KeyReused if another process has taken this step."""
        event = self._charged(event)
        record = self._record(ask, values, event.to_dict() | dict(more))
        return self._ledger.record(
            record.key,
            request=record.request,
            tag=event.tag,
            cost=event.cost(self._ledger.budget.unit),
            body=record.body,
            payload=record.payload,
            parent=self._key,
        )

    def _record(
        self, ask: str, values: list[Counts], more: Mapping[str, Any], *, number: int | None = None
    ) -> Record:
        """What is stored of a step; this curator's next one if no number is given."""
        body = bounds.described({"ask": ask}, more)
        digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        step = self._step if number is None else number
        return Record(f"{self._key}/{step:04d}", digest, ask, body, pack(values))

    def _follow_all(self, records: Sequence[Record]) -> list[Step]:
        """Store several steps in one transaction, then follow them."""
        return [self._follow(entry) for entry in self._ledger.record_all(records, parent=self._key)]

    def _follow(self, entry: Entry) -> Step:
        step = self._take_in(entry)
        self._own.append(step)
        self._last_seq = entry.seq
        return step

    def _take_in(self, entry: Entry) -> Step:
        """Follow one step of the ledger, this curator's own or another's."""
        step = read_step(entry)
        if not step.answered:
            self._step = step.number  # the same question may be asked again, and is not charged again
            self._spent = self._paid
            return step
        self._step = step.number + 1
        if step.ask not in (TEST, NOTE):
            self._paid = self._paid + from_body(entry.body).cost(self._budget.unit)
        self._spent = self._paid
        if step.ask == EPOCH:
            self._open = self._unseal(entry, step)
        elif step.ask == TEST:
            self._count(outcome_of(step))
        return step

    def _unseal(self, entry: Entry, step: Step) -> OpenEpoch:
        if entry.payload is None:
            raise LedgerError("the ledger has lost the threshold of an open epoch")
        terms = sparse.terms_from_dict(entry.body["terms"])
        plan = self._prices.epoch(terms)
        epoch = Epoch(terms, plan.threshold_scale, plan.test_scale, plan.answer_noise, step.receipt)
        return OpenEpoch(epoch, sparse.unseal(unpack(entry.payload)), 0)

    def _count(self, outcome: GuessOutcome) -> None:
        current = self._open
        if current is None:
            raise LedgerError("the ledger holds a test outside of every epoch")
        if outcome.far:
            far = current.far + 1
            self._open = replace(current, far=far) if far < current.epoch.terms.cap else None

    def _look(self, queries: Queries, guess: int, current: OpenEpoch) -> list[Counts]:
        """Near or far, and a value: of the same form for both, so that what is stored takes the same room."""
        exact = int(self._engine.answer(queries)[0])
        far = self._far(sparse.score(exact, guess), current, queries.denominator)
        law = current.epoch.answer_noise
        value = self._plus_noise(exact, law, queries.denominator) if far and law is not None else 0
        outcome = [np.array([far], dtype=np.int64)]
        return outcome if law is None else [*outcome, np.array([value], dtype=np.int64)]

    def _far(self, score: int, current: OpenEpoch, denominator: int) -> bool:
        """The one place where a score meets the secret threshold."""
        terms = current.epoch.terms
        noisy = self._plus_noise(score, Laplace(terms.test_price, current.epoch.test_scale), denominator)
        shift = sparse.within_reach(current.shift, denominator)
        return sparse.is_far(noisy, threshold=terms.threshold, shift=shift, denominator=denominator)

    def _plus_noise(self, exact: int, law: IndependentLaw, denominator: int = 1) -> int:
        values = np.array([exact], dtype=np.int64)
        return int(add_noise(values, law, denominator=denominator, source=self._noise)[0])
