"""The barrier. It holds the private table: it pays, then looks, then returns a noisy value.

Every question is answered in three parts, *begin, look, store*. The ledger begins it: rate, key, envelope and price are
decided by public numbers, and the charge is durable. Only then is the table looked at. What was seen is stored before
it is returned, and in between nothing can refuse: its bytes are kept until the ledger holds them. A question that was
asked before under the same key gets the stored value and looks at nothing. A crash after the payment stays paid, and a
look that was lost is charged again when it is repeated: whether a machine fails may depend on the rows. The kinds of
question (measuring, choosing, testing a threshold, drawing a database) are methods of `core/curator.py`.

*Steps.* A curator for questions that come one at a time follows them over restarts and from several processes. Its
envelope in the ledger holds numbered steps: an epoch is opened (paid, then its secret is drawn), guesses are tested
inside it (begun by their number), a value is measured. A step's number is its key, so that of two processes that go on
from the same state one is told to catch up, before it looks. The state is read from the ledger and nowhere else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from maquette.core import bounds, prices, sparse
from maquette.core.answers import one_each
from maquette.core.budget import UNITS, Budget, Cost, Unit, spent_with
from maquette.core.errors import LedgerError
from maquette.core.events import Event, Receipt, charges, from_body
from maquette.core.forms import QueryForms, Sensitivity
from maquette.core.laws import IndependentLaw, Laplace, NoiseLaw, NoiseRequest, independent
from maquette.core.ledger.entry import Entry, Record, step_key
from maquette.core.ledger.ledger import Ledger
from maquette.core.measurement import (
    EPOCH,
    NOTE,
    TEST,
    Epoch,
    EpochTerms,
    NoisyCounts,
    Step,
    Verdict,
    pack,
    pack_outcomes,
    read_step,
    unpack,
    verdict_of,
)
from maquette.core.neighbours import Persons, Relation, rows_of
from maquette.core.noise import Noise, SystemNoise, add_noise
from maquette.core.prices import Counts, Prices, SelectionPlan
from maquette.core.sparse import OpenEpoch
from maquette.core.table import (
    PrivateTable,
    check_payer,
    commitment_of,
    engine_of,
    raw_commitment,
    remember_payer,
)

Exact = Callable[[], Counts]
"""A look at the table, before noise."""
Body = Mapping[str, Any]
Note = Body | None
"""What the ledger says about a question beside its event: public."""


class Barrier:
    """One table, and one allowance reserved under one key of the ledger."""

    def __init__(self, table: PrivateTable, ledger: Ledger, *, key: str, budget: Budget) -> None:
        """`key` names an envelope of the ledger; `budget` is the promise that this curator's answers keep together."""
        _check_owner(table, ledger)
        self._engine = engine_of(table)
        self._begin(ledger, key=key, budget=budget, persons=table.persons)

    def _begin(self, ledger: Ledger, *, key: str, budget: Budget, persons: Persons | None) -> None:
        """`persons` are whom the ledger protects, with as many records as each has in this table."""
        self._ledger = ledger
        self._key = key
        self._budget = budget
        self._prices = Prices(budget.unit, ledger.budget.unit, ledger.relation)
        self._persons = persons
        self._group_factor = budget.unit.group_factor(rows_of(persons))
        self._step = 0
        self._spent = Cost(0)
        self._begun: list[Entry] = []  # and not stored
        self._noise: Noise = self._source()

    def _source(self) -> Noise:
        return SystemNoise()

    @property
    def watermark(self) -> str | None:
        """None in production; what is wrong with the noise in a test double."""
        return self._noise.watermark

    # Read only: what is charged follows from these, and a mechanism holds the curator.

    @property
    def domain(self) -> Any:
        """The declared universe, with whatever its owner has declared beside it."""
        return self._engine.domain

    @property
    def relation(self) -> Relation:
        return self._ledger.relation

    @property
    def unit(self) -> Unit:
        """What this curator's budget is counted in; its ledger may count otherwise where the budget is pure."""
        return self._budget.unit

    @property
    def left(self) -> Fraction:
        """What is left of the budget in `unit`, as prices of looks at single records, in which questions are asked."""
        left = self._budget.total_units - self._spent.units
        return Fraction(left // self._group_factor, UNITS)

    def _noisy(
        self,
        request: dict[str, Any],
        sensitivity: Sensitivity,
        noise: NoiseRequest,
        exact: Exact,
        *,
        coordinates: int,
        denominator: int = 1,
        note: Note = None,
    ) -> tuple[Counts, NoiseLaw, Receipt]:
        """Pay for noise on so many numbers, look, add it. Returns numerators, the law really drawn, the receipt."""
        plan = self._prices.noise(noise, sensitivity, coordinates=coordinates, denominator=denominator)

        def look() -> list[Counts]:
            return [add_noise(exact(), plan.law, denominator=denominator, source=self._noise)]

        ((values,), receipt) = self._ask(plan.event, request, look, note=note)
        return values, plan.law, receipt

    def _noisy_at(
        self,
        request: dict[str, Any],
        sensitivity: Sensitivity,
        price: Fraction,
        exact: Exact,
        *,
        coordinates: int,
        note: Note = None,
    ) -> NoisyCounts:
        """The same for independent noise at a price in this curator's unit, on whole numbers."""
        noise = NoiseRequest.at(price, self.unit)
        values, law, receipt = self._noisy(
            request, sensitivity, noise, exact, coordinates=coordinates, note=note
        )
        return NoisyCounts(values, independent(law), receipt)

    def _ones_at(
        self, request: dict[str, Any], count: int, price: Fraction, exact: Exact, note: Note = None
    ) -> NoisyCounts:
        """So many numbers, each of which a record moves by at most 1, plus noise."""
        return self._noisy_at(request, one_each(count), price, exact, coordinates=count, note=note)

    def _choose(self, plan: SelectionPlan, request: dict[str, Any], scores: Exact) -> int:
        """The number of a candidate with a large score of sensitivity 1."""

        def look() -> list[Counts]:
            return [np.array([self._noise.select(scores(), scale=plan.scale, method=plan.event.method)])]

        ((chosen,), _) = self._ask(plan.event, request, look)
        return int(chosen[0])

    def _ask(
        self,
        event: Event,
        request: dict[str, Any],
        look: Callable[[], list[Counts]],
        *,
        note: Note = None,
        is_empty: bool = False,
    ) -> tuple[list[Counts], Receipt]:
        """Pay, look, return.

        What `look` returns is stored, and its hash is published with receipts: it must be a function of what the
        payment covers, or carry a random blind. It is never nothing, unless it is said to be: nothing is stored where
        another process gave the question up.
        """
        event = prices.per_person(event, self._persons)
        if note is not None:
            bounds.check_about(note)
        body = bounds.described(event.to_dict() | {"ask": request["ask"]}, note)
        digest = hashlib.sha256(json.dumps([request, event.to_dict()], sort_keys=True).encode()).hexdigest()
        entry = self._answered(event, digest, body, lambda: pack(look()))
        if entry.payload is None or entry.answered is None:
            raise LedgerError(f"the ledger did not store the answer to '{entry.key}'; nothing is returned")
        if entry.payload == pack([]) and not is_empty:
            raise LedgerError(f"the question '{entry.key}' was given up and has no answer; ask it again")
        return unpack(entry.payload), Receipt(entry.answered.sequence, entry.answered.head)

    def _answered(
        self, event: Event, digest: str, body: Body, look: Callable[[], bytes], *, takes_look: bool = True
    ) -> Entry:
        """Begin, look, store. All that may refuse is in `begin`; `store` looks, keeps what it saw, and writes."""
        with self._ledger.turn(self._key):
            if self._begun and self._begun[0].request != digest:
                self._leave_begun()
            own, cost, pure = charges(event, self._budget, self._spent, self._ledger.budget)
            spent = self._spent if self._begun else self._spent_with(own)
            record = Record(step_key(self._key, self._step), digest, event.tag, body)
            entry = self._ledger.begin(record, cost=cost, pure=pure, parent=self._key, takes_look=takes_look)
            self._begun, self._spent = [entry], spent  # only now: what the ledger refuses was not paid
            if entry.payload is None:
                entry = self._ledger.store(entry, look)
            self._begun, self._step = [], self._step + 1
            return entry

    def _leave_begun(self) -> None:
        """Go on after a question that was not stored: its price stays, and what was seen and kept is stored first."""
        self._ledger.finish(self._begun)
        self._begun, self._step = [], self._step + 1

    def _spent_with(self, cost: Cost) -> Cost:
        """What is spent with this cost; BudgetExceeded beyond this curator's own budget, whatever its ledger holds."""
        return spent_with(self._budget, self._spent, cost)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(key={self._key!r}, left={float(self.left):g} {self.unit})"

    def __reduce__(self) -> Any:
        raise TypeError("a curator holds the private table and cannot be pickled")


def _check_owner(table: PrivateTable, ledger: Ledger) -> None:
    """A ledger pays for one table only, and a handle is paid for by one ledger only; the first use binds both.

    It also declares the domain of a ledger that was made before it.
    """
    check_payer(table, ledger)
    fingerprint, persons = table.ledger_identity
    if ledger.awaits_domain:
        columns, commitment = ledger.raw_table
        if commitment is not None:
            ledger.bind_raw(columns, raw_commitment(table, columns, ledger.salt))
        ledger.declare(fingerprint)
    ledger.require(relation=ledger.relation, domain_fingerprint=fingerprint, persons=persons)
    ledger.bind(commitment_of(table, ledger))
    remember_payer(table, ledger)


class SteppedBarrier(Barrier):
    """One table and one allowance, spent in numbered steps of the ledger."""

    def __init__(self, table: PrivateTable, ledger: Ledger, *, key: str, budget: Budget) -> None:
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

    def catch_up(self, *, give_up: bool = False) -> list[Step]:
        """The steps since the last call: this curator's own, and those of other processes, read from the ledger.

        The last one may be a question that was begun and never answered: asked again, it is charged again. With
        `give_up` its price stays charged, and the steps go on without its answer.
        """
        with self._ledger.turn(self._key):
            entries = list(self._ledger.children(self._key, after=self._last_seq))
            while begun := [entry for entry in entries if entry.answered is None]:
                if not self._finish(begun, give_up=give_up):
                    break
                entries = list(self._ledger.children(self._key, after=self._last_seq))
            steps, self._own, self._begun = self._own, [], []
            for entry in entries:
                steps.append(self._take_in(entry))
                if entry.answered is None:
                    break
                self._last_seq = entry.seq
        self._spent = self._paid
        return steps

    def _leave_begun(self) -> None:
        self._own = self.catch_up(give_up=True)

    def _finish(self, begun: list[Entry], *, give_up: bool) -> bool:
        """Answer steps that were begun and not stored, if that takes no look; False for a question that takes one.

        What was kept is stored; what another process may still be looking at is waited for. An epoch gets a threshold:
        nobody tested against another. Of tests that are lost one may have been far: they count as one far guess.
        """
        if self._ledger.finish(begun) or self._ledger.wait(begun[0]).answered is not None:
            return True
        ask = begun[0].body.get("ask")
        if ask == EPOCH:
            self._ledger.store(begun[0], lambda: self._secret(sparse.terms_from_dict(begun[0].body["terms"])))
        elif ask == TEST:
            first = Verdict.LOST if self._ledger.was_looked_at(begun[0]) else Verdict.VOID
            self._ledger.store_all(begun, lambda: pack_outcomes([(first, 0)], len(begun)))
        elif give_up:
            self._ledger.store(begun[0], lambda: pack([]))
        return give_up or ask in (EPOCH, TEST)

    def note(self, what: Body) -> Step:
        """Write down something public at no cost, as a step of its own."""
        return self.note_all([what])[0]

    def note_all(self, what: Sequence[Body]) -> list[Step]:
        """The same for several things in one transaction; KeyReused if another process has taken one of the steps."""
        bounds.check_list(what, Mapping, "a list of things to write down, each by name")
        for one in what:
            bounds.check_about(one)
        stored = self._ledger.record_all(self._records(NOTE, what), parent=self._key)
        return [self._follow(entry) for entry in stored]

    def _records(self, ask: str, bodies: Iterable[Body]) -> list[Record]:
        """The next steps, as the ledger begins them."""
        described = (bounds.described({"ask": ask}, body) for body in bodies)
        return [Record.step(self._key, self._step + i, ask, body) for i, body in enumerate(described)]

    def _follow(self, entry: Entry) -> Step:
        step = self._take_in(entry)
        self._own.append(step)
        self._last_seq = entry.seq
        return step

    def _take_in(self, entry: Entry) -> Step:
        """Follow one step of the ledger, this curator's own or another's."""
        step = read_step(entry)
        if not step.answered:
            self._step = step.number  # the same question may be asked again
            return step
        self._step = step.number + 1
        if step.ask not in (TEST, NOTE):
            of_pure_part = bool(self._budget.pure_units and entry.pure)
            event = from_body(entry.body)
            self._paid += Cost(0, pure=entry.pure) if of_pure_part else event.cost(self._budget.unit)
        self._spent = self._paid
        if step.ask == EPOCH:
            self._open = self._unseal(entry, step)
        elif step.ask == TEST:
            self._open = sparse.after(self._open, verdict_of(step))
        return step

    def _unseal(self, entry: Entry, step: Step) -> OpenEpoch:
        if entry.payload is None:
            raise LedgerError("the ledger has lost the threshold of an open epoch")
        terms = sparse.terms_from_dict(entry.body["terms"])
        plan, shift = self._prices.epoch(terms), sparse.unseal(unpack(entry.payload))
        epoch = Epoch(terms, plan.threshold_scale, plan.test_scale, plan.answer_noise, step.receipt)
        return OpenEpoch(epoch, shift, 0)

    def _secret(self, terms: EpochTerms) -> bytes:
        """The noise of a threshold, with its blind."""
        plan = self._prices.epoch(terms)
        shift = self._plus_noise(0, Laplace(terms.threshold_price, plan.threshold_scale))
        return pack(sparse.seal(shift, self._noise.bits.words(sparse.BLIND_WORDS)))

    def _look_all(self, tests: Sequence[tuple[QueryForms, int]], current: OpenEpoch) -> list[bytes]:
        """Outcomes in order, up to and with the first that is far off; of the rest, that they were not tested."""
        outcomes: list[tuple[int, int | None]] = []
        for query, guess in tests:
            outcomes.append(self._look(query, guess, current))
            if outcomes[-1][0] == Verdict.FAR:
                break
        return pack_outcomes(outcomes, len(tests))

    def _look(self, query_forms: QueryForms, guess: int, current: OpenEpoch) -> tuple[int, int | None]:
        """Near or far, and a value; 0 for a near one, None where values are not asked for."""
        exact, law = int(self._engine.answer(query_forms)[0]), current.epoch.answer_noise
        if not self._far(sparse.score(exact, guess), current, query_forms.top):
            return Verdict.NEAR, None if law is None else 0
        return Verdict.FAR, None if law is None else self._plus_noise(exact, law, query_forms.top)

    def _far(self, score: int, current: OpenEpoch, denominator: int) -> bool:
        """The one place where a score meets the secret threshold."""
        terms = current.epoch.terms
        noisy = self._plus_noise(score, Laplace(terms.test_price, current.epoch.test_scale), denominator)
        shift = sparse.within_reach(current.shift, denominator)
        return sparse.is_far(noisy, threshold=terms.threshold, shift=shift, denominator=denominator)

    def _plus_noise(self, exact: int, law: IndependentLaw, denominator: int = 1) -> int:
        values = np.array([exact], dtype=np.int64)
        return int(add_noise(values, law, denominator=denominator, source=self._noise)[0])
