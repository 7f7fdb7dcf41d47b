"""The ledger as the gate sees it: begin, look, store; and settle for what was reserved as a whole."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from maquette.core import _check
from maquette.core._arguments import checks, checks_arguments
from maquette.core.budget import Budget, Cost
from maquette.core.errors import KeyReused, LedgerError, ParameterError, RateExceeded
from maquette.core.events import Event
from maquette.core.ledger import create
from maquette.core.ledger.create import BEFORE_DOMAIN, Identity
from maquette.core.ledger.decide import Reservation
from maquette.core.ledger.entry import Entry, Record, canonical, check_words, digest
from maquette.core.ledger.looks import Looks, looks_of
from maquette.core.ledger.pace import Pace, Rate, seconds_since
from maquette.core.ledger.reading import DOMAIN_KEY, RAW_KEY, LedgerReader
from maquette.core.ledger.store import MemoryStore, Store, locate
from maquette.core.ledger.transaction import Transaction, other_table, recent
from maquette.core.ledger.verify import Recovered, recover
from maquette.core.ledger.writer import Writer
from maquette.core.neighbours import Persons, Relation, check_relation

T = TypeVar("T")
_STEP = re.compile(r"(.+?)/(?:\d{4,}|.*again/\d+)")
"""Keys that the steps of an envelope have, and further looks of them: they are given to nothing else."""
PATIENCE = 10.0
"""Seconds after which a look that another process began counts as lost."""


class Ledger(LedgerReader):
    """An append-only account of privacy loss, durable before any value is returned.

    Guarantee: the reservations of all processes together never exceed the budget; a reservation stays charged
        whatever happens after it; a key is answered with the same bytes for ever, and charged again only for a look
        that was lost.
    Holds when: the disk keeps what fsync reported, and the ledger is not replaced by an older copy of itself
        (which anyone with a later receipt can detect by `verify`).

    Thread-safe: threads that write at the same time share a commit. After a fork the child makes connections of
    its own; a ledger in memory refuses to be used there.
    """

    def __init__(self, store: Store) -> None:
        """Use `create`, `open` or `memory`."""
        self._writer = Writer(store)
        self._paces: dict[str, Pace] = {}
        super().__init__(store)
        self._looks = self._own_looks()
        if (
            self._behind and store.writable
        ):  # a crash after a commit: its receipt is kept before anybody acts on it
            self._writer.submit(lambda _: None)

    @classmethod
    @checks("budget", "relation", "persons", "pure")
    def create(
        cls,
        location: str | Path,
        *,
        budget: Budget,
        relation: Relation | str,
        domain_fingerprint: str,
        name: str,
        persons: Persons | None = None,
        pure: float | None = None,
    ) -> Ledger:
        """Make a new ledger at a path or postgresql URL. Its total is fixed from then on.

        `pure` is the part of epsilon that is kept for pure events, of a budget with a delta: nothing, unless it or
        the budget says so. Of several processes that create the same ledger at once exactly one succeeds. A file is
        made readable for its owner only.
        """
        store = locate(location)
        create.create(store, _identity(name, budget, relation, domain_fingerprint, persons, pure))
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
    @checks("budget", "relation", "persons", "pure")
    def memory(
        cls,
        *,
        budget: Budget,
        relation: Relation | str,
        domain_fingerprint: str,
        name: str,
        persons: Persons | None = None,
        pure: float | None = None,
    ) -> Ledger:
        """A ledger that is forgotten with the process: every promise but durability."""
        store = MemoryStore()
        create.create(store, _identity(name, budget, relation, domain_fingerprint, persons, pure))
        return cls(store)

    @checks("rate")
    def limit(self, parent: str, rate: Rate | None) -> None:
        """How often reservations may be made inside an envelope through this object; None lifts the limit.

        It is checked in the transaction that would write them, against the chain itself: whatever thread or process
        wrote the entries before, no window of time holds more. What is refused is read and charged by nobody, and
        counts towards the rate as one step, in memory only.
        """
        check_words(parent=parent)
        if rate is None:
            self._paces.pop(parent, None)
        elif parent not in self._paces or self._paces[parent].rate != rate:
            self._paces[parent] = Pace(rate)

    @checks_arguments
    def room(self, parent: str) -> int | None:
        """How many reservations its rate allows inside an envelope at this moment; None without a limit."""
        pace = self._paces.get(parent)
        if pace is None:
            return None
        self._own_process()
        with self._store.reading() as connection:
            return pace.room(recent(connection, parent, pace))

    def bind(self, commitment: str) -> None:
        """Tie the ledger to one table, for good; LedgerError if it is tied to another."""
        check_words(commitment=commitment)
        self._submit(lambda t: t.bind(commitment))

    @checks("columns")
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

    @checks("request", "cost", "body", "envelope", "pure")
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
        pure: Cost | None = None,
    ) -> Entry:
        """Set an amount aside, or pay. Durable when it returns.

        `pure` is another way to charge it, to the pure part: of both the one is taken that takes the smaller share of
        what pays, or the other where that is not left.

        `request` is the SHA-256 of the canonical public request. A key that is known with the same request returns
        its entry, with the answer in `payload` if there is one, and costs nothing; a key of another request raises
        KeyReused. What the budget does not cover raises BudgetExceeded, and nothing is written.

        An `envelope` pays for no look by itself: it sets an amount aside for reservations that name it as `parent`,
        which then draw on it and not on the ledger's total. `settle` returns the rest. Its body gets 128 random
        bits, so that nobody can check a guess about an earlier entry by a head that is published after it.
        """
        if envelope:
            body = dict(body) | {"blind": secrets.token_hex(16)}
        reservation = _reservation(key, request, tag, _ways(cost, pure), body, parent, envelope=envelope)
        return self._paced(parent, lambda t, pace: t.reserve(reservation, pace=pace), key)

    # Begin, look, store. Everything that may refuse is in `begin`; between a look and its return there is the store.

    @contextmanager
    def turn(self, envelope: str) -> Generator[None]:
        """One question of an envelope at a time in this process, from its beginning until it is stored."""
        self._own_process()
        turn = self._looks.turn(envelope)
        with turn.lock:
            yield

    @checks("record", "cost", "takes_look", "pure")
    def begin(
        self, record: Record, *, cost: Cost, parent: str, takes_look: bool = True, pure: Cost | None = None
    ) -> Entry:
        """Pay for one look, before it: rate, key, envelope and price are decided here and nowhere later.

        As `reserve`: a question that was answered comes back with its answer and costs nothing. One that was begun and
        whose outcome is lost, with its process or by a failure of the machine, is charged once more, as an entry of
        its own (`KEY/again/1`), to the total: BudgetExceeded if that does not cover it. What another process may still
        be looking at is waited for. What is drawn without a look (a threshold) is not lost, and drawn again.
        """
        costs = _ways(cost, pure)
        reservation = _reservation(record.key, record.request, record.tag, costs, record.body, parent)

        def reserve(transaction: Transaction, pace: Pace | None) -> Entry:
            return self._begun(transaction.reserve(reservation, pace=pace))

        entry = self._paced(parent, reserve, record.key)
        if takes_look and not self._looks.may_look(entry):
            entry = self.wait(entry)
        if takes_look and entry.answered is None and not self._looks.may_look(entry):
            self._submit(lambda t: t.again(entry), parent)
            self._looks.begin(entry)
        return entry

    @checks("records")
    def begin_all(self, records: Sequence[Record], *, parent: str) -> list[Entry]:
        """Begin several looks that an earlier payment covers, in one transaction, by how many are given.

        Every key has to be new: KeyReused if another request took one, whatever it holds, and nothing is written.
        """
        reservations = [_reservation(r.key, r.request, r.tag, _FREE, r.body, parent) for r in records]

        def begin(transaction: Transaction, pace: Pace | None) -> list[Entry]:
            return [self._begun(one) for one in transaction.begin_all(reservations, parent, pace=pace)]

        return self._paced(parent, begin, *(one.key for one in reservations))

    @checks_arguments
    def store(self, begun: Entry, look: Callable[[], bytes]) -> Entry:
        """Look, and store what was seen. Durable when it returns; return its `payload`, not your own."""
        return self.store_all([begun], lambda: [look()])[0]

    @checks_arguments
    def store_all(self, begun: Sequence[Entry], look: Callable[[], Sequence[bytes]]) -> list[Entry]:
        """The same for several looks in one transaction: all are stored, or none is.

        Nothing is refused here. The bytes are kept until they are stored: after a failure of the store the same
        questions store the same bytes, without a look. The first answer of a key stays.
        """
        payloads = self._looks.take(begun, look)
        pairs = [(entry.key, data) for entry, data in zip(begun, payloads, strict=True)]
        stored = self._submit(lambda t: [t.answer(*pair) for pair in pairs], *(key for key, _ in pairs))
        self._looks.forget(begun)
        return stored

    @checks_arguments
    def wait(self, entry: Entry) -> Entry:
        """A question that another process began, with its answer if that comes in time."""
        while entry.answered is None and not self._looks.knows(entry):
            if seconds_since(entry.created) > PATIENCE:
                break
            time.sleep(0.02)
            entry = self.find(entry.key) or entry
        return entry

    @checks_arguments
    def finish(self, begun: Sequence[Entry]) -> list[Entry]:
        """Store what this process saw under begun questions and could not store; nothing if it kept nothing."""
        return self.store_all(begun, list) if self._looks.keeps(begun) else []

    @checks_arguments
    def was_looked_at(self, begun: Entry) -> bool:
        """May somebody have looked under a question that has no answer? Not if this process began it and did not."""
        return not self._looks.may_look(begun)

    def _begun(self, entry: Entry) -> Entry:
        if entry.fresh:
            self._looks.begin(entry)
        return entry

    @checks("payload")
    def answer(self, key: str, payload: bytes) -> Entry:
        """Store the answer of a reservation. Durable when it returns; return its `payload`, not your own.

        The first answer of a key stays: a second one returns what is stored.
        """
        check_words(key=key)
        data = bytes(payload)
        return self._submit(lambda t: t.answer(key, data), key)

    @checks("request", "cost", "body", "payload")
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

        For values that need no look. A key that is known with the same request returns what is stored.
        """
        reservation, data = _reservation(key, request, tag, (cost,), body, parent), bytes(payload)

        def both(transaction: Transaction, pace: Pace | None) -> Entry:
            entry = transaction.reserve(reservation, pace=pace)
            if not entry.fresh and entry.answered is not None:
                return entry
            return transaction.answer(key, data)

        return self._paced(parent, both, key)

    @checks("event", "reason")
    def charge(self, event: Event, *, reason: str, key: str | None = None) -> Entry:
        """Pay for what another program spent on the same table, between the neighbours of this ledger.

        What is claimed can be added up here, not checked. Without a key each call is a payment of its own.
        """
        check_words(reason=reason)
        name = key if key is not None else f"charge-{secrets.token_hex(8)}"
        body = {"ask": "charge", "text": reason} | event.to_dict()
        request = digest(canonical(body).encode())
        reservation = _reservation(name, request, event.tag, event.costs(self.budget), body, None)

        def both(transaction: Transaction) -> Entry:
            entry = transaction.reserve(reservation, pace=None)
            return transaction.answer(name, b"") if entry.answered is None else entry

        return self._submit(both, name)

    @checks("records")
    def record_all(self, records: Sequence[Record], *, parent: str) -> list[Entry]:
        """Store several values that cost nothing and need no look, in one transaction: all are stored, or none is.

        Every key has to be new: KeyReused if another request took one, whatever it holds, and nothing is written.
        """
        reservations = [_reservation(r.key, r.request, r.tag, _FREE, r.body, parent) for r in records]

        def together(transaction: Transaction, pace: Pace | None) -> list[Entry]:
            transaction.begin_all(reservations, parent, pace=pace)
            return [transaction.answer(one.key, bytes(one.payload)) for one in records]

        return self._paced(parent, together, *(one.key for one in reservations))

    def settle(self, key: str) -> Entry:
        """Close an envelope: what its children did not reserve goes back, what they did stays charged."""
        check_words(key=key)
        return self._submit(lambda t: t.settle(key), key)

    def _paced(self, parent: str | None, work: Callable[[Transaction, Pace | None], T], *keys: str) -> T:
        """Work inside an envelope, at its pace; a refusal counts towards it."""
        if parent is None:
            return self._submit(lambda t: work(t, None), *keys)
        pace = self._paces.get(parent)
        try:
            return self._submit(lambda t: work(t, pace), parent, *keys)
        except RateExceeded:
            if pace is not None:
                pace.note_refusal()
            raise

    def _submit(self, work: Callable[[Transaction], T], *keys: str) -> T:
        self._own_process()
        return self._writer.submit(work, keys=keys)

    def _leave_parent(self) -> None:
        super()._leave_parent()
        self._writer = Writer(self._store)
        self._looks = self._own_looks()

    def _own_looks(self) -> Looks:
        """Shared by all objects of this process that use the same ledger."""
        return looks_of(self.opened) if self._store.crosses_fork else Looks()


def _identity(
    name: str,
    budget: Budget,
    relation: Relation | str,
    domain_fingerprint: str,
    persons: Persons | None,
    pure: float | None,
) -> Identity:
    if pure is not None:
        budget = replace(budget, pure_epsilon=pure)
    check_words(name=name, domain_fingerprint=domain_fingerprint)
    named = Relation.named(relation)
    check_relation(persons, named)
    return Identity(name, budget, named, domain_fingerprint, persons)


_FREE = (Cost(0),)


def _ways(cost: Cost, pure: Cost | None) -> tuple[Cost, ...]:
    return (cost,) if pure is None else (cost, pure)


def _reservation(
    key: str,
    request: str,
    tag: str,
    costs: tuple[Cost, ...],
    body: Mapping[str, Any],
    parent: str | None,
    *,
    envelope: bool = False,
) -> Reservation:
    check_words(key=key, tag=tag, **({} if parent is None else {"parent": parent}))
    step = _STEP.fullmatch(key)
    if step is not None and step[1] != parent:
        raise ParameterError(
            f"the name '{key}' reads like a step of '{step[1]}', which counts its steps in this way; give a name that "
            "does not end in / and digits"
        )
    if not re.fullmatch("[0-9a-f]{64}", request):
        raise ParameterError(f"expected request as a SHA-256 in hexadecimal, got {_check.shown(request)}")
    try:
        text = canonical(body)
    except (TypeError, ValueError):
        raise ParameterError(
            "expected body as a dictionary that JSON can hold, without NaN or infinities"
        ) from None
    return Reservation(key, request, tag, costs, text, parent, envelope)
