"""The ledger as the gate sees it: reserve, look, answer; and settle for what was reserved as a whole."""

from __future__ import annotations

import re
import secrets
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from maquette import _check
from maquette.accounting.budget import Budget, Cost
from maquette.accounting.ledger import create
from maquette.accounting.ledger.create import BEFORE_DOMAIN, Identity
from maquette.accounting.ledger.entry import Entry, Rate, Record, canonical, check_words, digest
from maquette.accounting.ledger.reading import DOMAIN_KEY, RAW_KEY, LedgerReader
from maquette.accounting.ledger.store import MemoryStore, Store, locate
from maquette.accounting.ledger.transaction import Reservation, Transaction, other_table
from maquette.accounting.ledger.verify import Recovered, check_opening, recover
from maquette.domain import Persons, Relation, check_relation
from maquette.errors import KeyReused, LedgerError, MaquetteError, ParameterError

# Group commit: threads that wait for the disk share one transaction.
#
# A caller puts its work in the queue. The first one leads: it commits up to 64 pieces of work together,
# wakes those whose work is done, and hands the lead to the next that still waits. While a leader waits for
# the disk, the others queue up; so the busier a ledger is, the more charges share a commit. There is no
# thread to start or stop and nothing to flush.

T = TypeVar("T")
GROUP = 64
"""The most pieces of work in one transaction."""


@dataclass(eq=False)
class _Job(Generic[T]):
    """One piece of work and what became of it."""

    work: Callable[[Transaction], T]
    keys: tuple[str, ...]
    done: bool = False
    leads: bool = False
    turn: threading.Event = field(default_factory=threading.Event)
    """Set when the work is done or this caller has to lead."""
    _result: list[T] = field(default_factory=list[T])
    _error: MaquetteError | None = None

    def attempt(self, transaction: Transaction) -> None:
        """Do the work in a transaction that is not yet durable; nobody looks before `done`."""
        self._result, self._error = [], None
        try:
            self._result.append(self.work(transaction))
        except MaquetteError as error:
            self._error = error

    def finish(self) -> None:
        self.done = True
        self.turn.set()

    def fail(self, error: MaquetteError) -> None:
        self._error = error
        self.finish()

    def result(self) -> T:
        if self._error is not None:
            raise self._error from None
        return self._result[0]


class Writer:
    """The one place of a process that writes to a ledger."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._mutex = threading.Lock()
        self._queue: deque[_Job[Any]] = deque()
        self._led = False
        self._schema_version: int | None = None
        """The version of the database's schema that was found in order."""

    def submit(self, work: Callable[[Transaction], T], *, keys: tuple[str, ...] = ()) -> T:
        """Run the work, which asks for `keys`, in a transaction; its result is durable when this returns."""
        job = _Job(work, keys)
        try:
            with self._mutex:
                self._queue.append(job)
                if not self._led:
                    self._lead(job)
            job.turn.wait()
            if not job.done:
                self._commit_some()
        finally:
            self._leave(job)
        return job.result()

    def _leave(self, job: _Job[Any]) -> None:
        """Hand on the lead. Work that was interrupted before its turn is dropped."""
        with self._mutex:
            if job in self._queue:
                self._queue.remove(job)
            if job.leads:
                self._led = False
                if self._queue:
                    self._lead(self._queue[0])

    def _lead(self, job: _Job[Any]) -> None:
        job.leads = self._led = True
        job.turn.set()

    def _commit_some(self) -> None:
        with self._mutex:
            batch = [self._queue.popleft() for _ in range(min(GROUP, len(self._queue)))]
        try:
            self._commit(batch)
        except LedgerError as error:
            self._commit_singly(batch, error)
        finally:
            for job in batch:
                if not job.done:  # an interrupt: the commit may or may not have happened
                    job.fail(
                        LedgerError("the ledger was interrupted while writing; ask again with the same key")
                    )

    def _commit_singly(self, batch: list[_Job[Any]], error: LedgerError) -> None:
        """Let no request suffer from another's, such as an answer too large for the disk."""
        if len(batch) == 1:
            batch[0].fail(error)
            return
        for job in batch:
            try:
                self._commit([job])
            except LedgerError as own:
                job.fail(own)

    def _commit(self, batch: list[_Job[Any]]) -> None:
        with self._store.turn() as state:
            with self._store.writing() as connection:
                version = self._store.schema_version(connection)
                if version != self._schema_version:
                    create.check_schema(connection, location=self._store.location)
                    check_opening(connection, location=self._store.location)
                    self._schema_version = version
                keys = (key for job in batch for key in job.keys)
                transaction = Transaction(connection, keys, state=state, location=self._store.location)
                for job in batch:
                    job.attempt(transaction)
                if transaction.dirty:
                    transaction.finish()
            reached = transaction.reached
            if state is None or state.end != reached.end:  # before anybody acts on what was written
                self._store.keep(reached if state is None else state.followed_by(reached))
        for job in batch:
            job.finish()


class Ledger(LedgerReader):
    """An append-only account of privacy loss, durable before any value is returned.

    Guarantee: the reservations of all processes together never exceed the budget; a reservation stays charged
        whatever happens after it; a key is charged once and answered with the same bytes for ever.
    Holds when: the disk keeps what fsync reported, and the ledger is not replaced by an older copy of itself
        (which anyone with a later receipt can detect by `verify`).

    Thread-safe: threads that write at the same time share a commit. After a fork the child makes connections of
    its own; a ledger in memory refuses to be used there.
    """

    def __init__(self, store: Store) -> None:
        """Use `create`, `open` or `memory`."""
        self._writer = Writer(store)
        self._rates: dict[str, Rate] = {}
        super().__init__(store)
        if (
            self._behind and store.writable
        ):  # a crash after a commit: its receipt is kept before anybody acts on it
            self._writer.submit(lambda _: None)

    @classmethod
    def create(
        cls,
        location: str | Path,
        *,
        budget: Budget,
        relation: Relation,
        domain_fingerprint: str,
        name: str,
        persons: Persons | None = None,
    ) -> Ledger:
        """Make a new ledger at a path or postgresql URL. Its total is fixed from then on.

        Of several processes that create the same ledger at once exactly one succeeds. A file is made readable for
        its owner only.
        """
        store = locate(location)
        create.create(store, _identity(name, budget, relation, domain_fingerprint, persons))
        return cls(store)

    @classmethod
    def open(cls, location: str | Path) -> Ledger:
        """Open a ledger and check the end of its chain; `verify` checks the whole."""
        return cls(locate(location))

    @classmethod
    def recover(cls, location: str | Path) -> Recovered:
        """Let a ledger go on that fell behind its receipt: what is lost is charged in full. See `recovery`."""
        store = locate(location)
        try:
            LedgerReader(store, recovering=True)
            return recover(store)
        finally:
            store.close()

    @classmethod
    def memory(
        cls,
        *,
        budget: Budget,
        relation: Relation,
        domain_fingerprint: str,
        name: str,
        persons: Persons | None = None,
    ) -> Ledger:
        """A ledger that is forgotten with the process: every promise but durability."""
        store = MemoryStore()
        create.create(store, _identity(name, budget, relation, domain_fingerprint, persons))
        return cls(store)

    def limit(self, parent: str, rate: Rate | None) -> None:
        """How often reservations may be made inside an envelope through this object; None lifts the limit.

        It is checked in the transaction that would write them, against the chain itself: whatever thread or process
        wrote the entries before, no window of time holds more. What is refused is read and charged by nobody.
        """
        check_words(parent=parent)
        if rate is None:
            self._rates.pop(parent, None)
        else:
            self._rates[parent] = rate

    def bind(self, commitment: str) -> None:
        """Tie the ledger to one table, for good; LedgerError if it is tied to another."""
        check_words(commitment=commitment)
        self._submit(lambda t: t.bind(commitment))

    def bind_raw(self, columns: Sequence[str], commitment: str) -> None:
        """Tie a ledger that was made before its domain to the raw columns of one table, for good.

        LedgerError if it is tied to another table, or its domain was found from other columns.
        """
        check_words(commitment=commitment)
        body = {"columns": list(columns), "commitment": commitment}
        self._fix(RAW_KEY, body, other_table(self.name, commitment))

    def declare(self, domain_fingerprint: str) -> None:
        """Declare the domain of a ledger that was made before it, for good."""
        check_words(domain_fingerprint=domain_fingerprint)
        refusal = f"ledger '{self.name}' has another domain already; give that domain"
        self._fix(DOMAIN_KEY, {"fingerprint": domain_fingerprint}, refusal)

    def _fix(self, key: str, body: Mapping[str, Any], refusal: str) -> None:
        """Write down what is fixed from then on, in an entry of its own that costs nothing."""
        if self._made_for != BEFORE_DOMAIN:
            raise LedgerError(
                f"ledger '{self.name}' was made for a declared domain and cannot pay for a discovery of another "
                "domain; let discover make a ledger of its own"
            )
        try:
            self.record(
                key,
                request=digest(canonical(body).encode()),
                tag="fixed",
                cost=Cost(0),
                body=body,
                payload=b"",
            )
        except KeyReused:
            raise LedgerError(refusal) from None

    def reserve(
        self,
        key: str,
        *,
        request: str,
        tag: str,
        cost: Cost,
        body: Mapping[str, Any],
        parent: str | None = None,
        envelope: bool = False,
    ) -> Entry:
        """Pay, before looking. Durable when it returns.

        `request` is the SHA-256 of the canonical public request. A key that is known with the same request returns
        its entry, with the answer in `payload` if there is one, and costs nothing; a key of another request raises
        KeyReused. What the budget does not cover raises BudgetExceeded, and nothing is written.

        An `envelope` pays for no look by itself: it sets an amount aside for reservations that name it as `parent`,
        which then draw on it and not on the ledger's total. `settle` returns the rest. Its body gets 128 random
        bits, so that nobody can check a guess about an earlier entry by a head that is published after it.
        """
        if envelope:
            body = dict(body) | {"blind": secrets.token_hex(16)}
        reservation = _reservation(key, request, tag, cost, body, parent, envelope=envelope)
        rate = self._rates.get(parent or "")
        return self._submit(
            lambda t: t.reserve(reservation, rate=rate), key, *([] if parent is None else [parent])
        )

    def answer(self, key: str, payload: bytes) -> Entry:
        """Store the answer of a reservation. Durable when it returns; return its `payload`, not your own.

        The first answer of a key stays: a second one returns what is stored.
        """
        check_words(key=key)
        data = bytes(payload)
        return self._submit(lambda t: t.answer(key, data), key)

    def record(
        self,
        key: str,
        *,
        request: str,
        tag: str,
        cost: Cost,
        body: Mapping[str, Any],
        payload: bytes,
        parent: str | None = None,
    ) -> Entry:
        """Pay and store in one transaction: both are durable when it returns, or neither is.

        For values that need no look (a noisy threshold) and for looks that an earlier payment covers (a test inside
        an open epoch, at no cost). A key that is known with the same request returns what is stored.
        """
        reservation = _reservation(key, request, tag, cost, body, parent)
        data, rate = bytes(payload), self._rates.get(parent or "")

        def both(transaction: Transaction) -> Entry:
            entry = transaction.reserve(reservation, rate=rate)
            if not entry.fresh and entry.answered is not None:
                return entry
            return transaction.answer(key, data)

        return self._submit(both, key, *([] if parent is None else [parent]))

    def record_all(self, records: Sequence[Record], *, parent: str) -> list[Entry]:
        """Store several values that cost nothing, in one transaction: all are durable when it returns, or none is.

        Every key has to be new: KeyReused if another request took one, whatever it holds, and nothing is written.
        """
        reservations = [_reservation(r.key, r.request, r.tag, Cost(0), r.body, parent) for r in records]

        def together(transaction: Transaction) -> list[Entry]:
            transaction.require_new(one.key for one in reservations)
            if (rate := self._rates.get(parent)) is not None:
                transaction.check_rate(parent, rate, new=len(reservations))
            entries: list[Entry] = []
            for one, record in zip(reservations, records, strict=True):
                transaction.reserve(one)
                entries.append(transaction.answer(one.key, bytes(record.payload)))
            return entries

        return self._submit(together, parent, *(one.key for one in reservations))

    def settle(self, key: str) -> Entry:
        """Close an envelope: what its children did not reserve goes back, what they did stays charged."""
        check_words(key=key)
        return self._submit(lambda t: t.settle(key), key)

    def _submit(self, work: Callable[[Transaction], T], *keys: str) -> T:
        self._own_process()
        return self._writer.submit(work, keys=keys)

    def _leave_parent(self) -> None:
        super()._leave_parent()
        self._writer = Writer(self._store)


def _identity(
    name: str, budget: Budget, relation: Relation, domain_fingerprint: str, persons: Persons | None
) -> Identity:
    check_words(name=name, domain_fingerprint=domain_fingerprint)
    check_relation(persons, Relation(relation))
    return Identity(name, budget, Relation(relation), domain_fingerprint, persons)


def _reservation(
    key: str,
    request: str,
    tag: str,
    cost: Cost,
    body: Mapping[str, Any],
    parent: str | None,
    *,
    envelope: bool = False,
) -> Reservation:
    check_words(key=key, tag=tag, **({} if parent is None else {"parent": parent}))
    if not re.fullmatch("[0-9a-f]{64}", request):
        raise ParameterError(f"expected request as a SHA-256 in hexadecimal, got {_check.shown(request)}")
    try:
        text = canonical(body)
    except (TypeError, ValueError):
        raise ParameterError(
            "expected body as a dictionary that JSON can hold, without NaN or infinities"
        ) from None
    return Reservation(key, request, tag, cost, text, parent, envelope)
