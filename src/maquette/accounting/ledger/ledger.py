"""The ledger as the gate sees it: reserve, look, answer; and settle for what was reserved as a whole."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from sqlalchemy import Connection, bindparam, select

from maquette.accounting.budget import UNITS, Budget, Cost, accounting_of
from maquette.accounting.conversions import float_down
from maquette.accounting.ledger import birth, faults, schema
from maquette.accounting.ledger.birth import Identity
from maquette.accounting.ledger.chain import Row, canonical
from maquette.accounting.ledger.entry import Balance, Entry, EntryKind, Outline, Receipt, Record
from maquette.accounting.ledger.rows import check_head, find, find_all, read_payloads, to_entry
from maquette.accounting.ledger.store import MemoryStore, Store, locate
from maquette.accounting.ledger.transaction import Reservation, Transaction
from maquette.accounting.ledger.verify import verify
from maquette.accounting.ledger.writer import Writer
from maquette.domain import Relation
from maquette.errors import LedgerError, ParameterError

T = TypeVar("T")

_PAGE = 500
_CHILDREN = (
    select(schema.entry)
    .where(schema.entry.c.parent == bindparam("holder"), schema.entry.c.seq > bindparam("after"))
    .order_by(schema.entry.c.seq)
    .limit(_PAGE)
)
_OUTLINE = (
    select(schema.entry.c.seq, schema.entry.c.key, schema.entry.c.parent, schema.entry.c.tag)
    .where(schema.entry.c.kind == "reserve", schema.entry.c.seq > bindparam("after"))
    .order_by(schema.entry.c.seq)
)


class Ledger:
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
        self._store = store
        self._writer = Writer(store)
        self._pid = os.getpid()
        store.check_present()
        with store.reading() as connection:
            row = connection.execute(select(schema.account)).mappings().one_or_none()
            if row is None:
                raise LedgerError(f"the ledger {store.location} has lost its account; restore a backup")
            check_head(connection, seq=row["seq"], head=row["head"])
        try:
            self._identity = Identity(
                name=str(row["name"]),
                budget=Budget(float(row["epsilon"]), float(row["delta"]), accounting_of(str(row["unit"]))),
                relation=Relation(row["relation"]),
                domain_fingerprint=str(row["domain_fingerprint"]),
            )
        except (ValueError, TypeError, ParameterError):
            raise LedgerError(f"the ledger {store.location} is damaged: its account cannot be read") from None
        self._salt = bytes(row["salt"])

    @classmethod
    def create(
        cls, location: str | Path, *, budget: Budget, relation: Relation, domain_fingerprint: str, name: str
    ) -> Ledger:
        """Make a new ledger at a path or postgresql URL. Its total is fixed from then on.

        Of several processes that create the same ledger at once exactly one succeeds. A file is made readable for
        its owner only.
        """
        store = locate(location)
        birth.create(store, _identity(name, budget, relation, domain_fingerprint))
        return cls(store)

    @classmethod
    def open(cls, location: str | Path) -> Ledger:
        """Open a ledger and check the end of its chain; `verify` checks the whole."""
        return cls(locate(location))

    @classmethod
    def memory(cls, *, budget: Budget, relation: Relation, domain_fingerprint: str, name: str) -> Ledger:
        """A ledger that is forgotten with the process: every promise but durability."""
        store = MemoryStore()
        birth.create(store, _identity(name, budget, relation, domain_fingerprint))
        return cls(store)

    @property
    def name(self) -> str:
        return self._identity.name

    @property
    def location(self) -> str:
        """Where it is kept, without a password."""
        return self._store.location

    @property
    def budget(self) -> Budget:
        return self._identity.budget

    @property
    def relation(self) -> Relation:
        return self._identity.relation

    @property
    def domain_fingerprint(self) -> str:
        return self._identity.domain_fingerprint

    @property
    def salt(self) -> bytes:
        """The secret that hides the table in its commitment. Never shown."""
        return self._salt

    @property
    def commitment(self) -> str | None:
        """The commitment to the table that this ledger belongs to, once bound."""
        found = self._account()["commitment"]
        return None if found is None else str(found)

    def bind(self, commitment: str) -> None:
        """Tie the ledger to one table, for good; LedgerError if it is tied to another."""
        _words(commitment=commitment)
        self._submit(lambda t: t.bind(commitment))

    def require(self, *, relation: Relation, domain_fingerprint: str) -> None:
        """Refuse a table with another domain or neighbouring relation than the ledger was made for."""
        if relation != self.relation:
            raise LedgerError(
                f"ledger '{self.name}' counts {self.relation} neighbours, not {relation}; budgets of different "
                "relations do not add up, use a ledger made for this one"
            )
        if domain_fingerprint != self.domain_fingerprint:
            raise LedgerError(
                f"ledger '{self.name}' was made for another domain; give the domain file it was made with, "
                "or the table's own ledger"
            )

    def balance(self) -> Balance:
        """What is spent and left at this moment, over all processes."""
        row = self._account()
        return Balance(
            total_units=int(row["total"]),
            spent_units=int(row["spent"]),
            slack_total=int(row["slack_total"]),
            slack_spent=int(row["slack_spent"]),
            head=Receipt(int(row["seq"]), str(row["head"])),
        )

    @property
    def total_units(self) -> int:
        return self.balance().total_units

    @property
    def spent_units(self) -> int:
        return self.balance().spent_units

    @property
    def left_units(self) -> int:
        return self.balance().left_units

    @property
    def slack_total(self) -> int:
        return self.balance().slack_total

    @property
    def slack_spent(self) -> int:
        return self.balance().slack_spent

    @property
    def slack_left(self) -> int:
        return self.balance().slack_left

    def left(self) -> float:
        """What is left, in the budget's unit, rounded down."""
        return float_down(Fraction(self.left_units, UNITS))

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
        which then draw on it and not on the ledger's total. `settle` returns the rest.
        """
        asked = _reservation(key, request, tag, cost, body, parent, envelope=envelope)
        faults.point("before-reserve")
        entry = self._submit(lambda t: t.reserve(asked), key, *([] if parent is None else [parent]))
        faults.point("after-reserve")
        return entry

    def answer(self, key: str, payload: bytes) -> Entry:
        """Store the answer of a reservation. Durable when it returns; return its `payload`, not your own.

        The first answer of a key stays: a second one returns what is stored.
        """
        data = bytes(payload)
        faults.point("before-answer")
        entry = self._submit(lambda t: t.answer(key, data), key)
        faults.point("after-answer")
        return entry

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
        asked = _reservation(key, request, tag, cost, body, parent)
        data = bytes(payload)

        def both(transaction: Transaction) -> Entry:
            entry = transaction.reserve(asked)
            if not entry.fresh and entry.answered is not None:
                return entry
            return transaction.answer(key, data)

        faults.point("before-answer")
        entry = self._submit(both, key, *([] if parent is None else [parent]))
        faults.point("after-answer")
        return entry

    def record_all(self, records: Sequence[Record], *, parent: str) -> list[Entry]:
        """Store several values that cost nothing, in one transaction: all are durable when it returns, or none is.

        Every key has to be new: KeyReused if another request took one, whatever it holds, and nothing is written.
        """
        asked = [_reservation(r.key, r.request, r.tag, Cost(0), r.body, parent) for r in records]

        def together(transaction: Transaction) -> list[Entry]:
            transaction.require_new(one.key for one in asked)
            found: list[Entry] = []
            for one, record in zip(asked, records, strict=True):
                transaction.reserve(one)
                found.append(transaction.answer(one.key, bytes(record.payload)))
            return found

        faults.point("before-answer")
        entries = self._submit(together, parent, *(one.key for one in asked))
        faults.point("after-answer")
        return entries

    def settle(self, key: str) -> Entry:
        """Close an envelope: what its children did not reserve goes back, what they did stays charged."""
        return self._submit(lambda t: t.settle(key), key)

    def find(self, key: str) -> Entry | None:
        """The reservation under a key, with its answer if there is one."""
        self._own_process()
        with self._store.reading() as connection:
            return find(connection, key)

    def entries(
        self,
        *,
        kind: EntryKind | None = None,
        parent: str | None = None,
        after: int = 0,
        payloads: bool = False,
    ) -> Iterator[Entry]:
        """The chain in order, from the entry after `after`; with `payloads`, answers carry their bytes."""
        self._own_process()
        query = select(schema.entry).order_by(schema.entry.c.seq).limit(_PAGE)
        if kind is not None:
            query = query.where(schema.entry.c.kind == kind)
        if parent is not None:
            query = query.where(schema.entry.c.parent == parent)
        while True:
            with self._store.reading() as connection:
                rows = connection.execute(query.where(schema.entry.c.seq > after)).mappings().all()
                page = [_with_payload(connection, row) if payloads else to_entry(row) for row in rows]
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1].seq

    def children(self, parent: str, *, after: int = 0) -> Iterator[Entry]:
        """The reservations inside an envelope in order, each with its answer, from those after entry `after`."""
        self._own_process()
        while True:
            with self._store.reading() as connection:
                rows = connection.execute(_CHILDREN, {"holder": parent, "after": after}).mappings().all()
                found = find_all(connection, {str(row["key"]) for row in rows})
            yield from (entry for row in rows if (entry := found[str(row["key"])]) is not None)
            if len(rows) < _PAGE:
                return
            after = int(rows[-1]["seq"])

    def outline(self, *, after: int = 0) -> list[Outline]:
        """Where all reservations after entry `after` belong, without what they hold: quick to look through."""
        self._own_process()
        with self._store.reading() as connection:
            return [Outline(*row) for row in connection.execute(_OUTLINE, {"after": after})]

    def receipt(self, entry: Entry | None = None) -> Receipt:
        """The place of an entry (of its answer, if it has one) in the chain; without an entry, the end."""
        if entry is None:
            return self.balance().head
        return entry.answered or Receipt(entry.seq, entry.head)

    def verify(self, receipt: Receipt | None = None) -> Receipt:
        """Read the whole chain again and return its end; LedgerError names the first entry that is wrong.

        Finds edits, cuts and reordering by itself; that the ledger was replaced by an older or another version of
        itself is found with a receipt from before.
        """
        self._own_process()
        with self._store.reading() as connection:
            end = verify(connection, location=self.location, receipt=receipt)
            self._store.check_pages(connection)
            return end

    def close(self) -> None:
        """Close the connections. Nothing is lost without it; a ledger in memory is forgotten."""
        if self._pid == os.getpid():
            self._store.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({self.name!r}, {self.budget}, {self.relation}, at {self.location})"

    def _submit(self, work: Callable[[Transaction], T], *keys: str) -> T:
        self._own_process()
        return self._writer.submit(work, keys=keys)

    def _account(self) -> Mapping[str, Any]:
        self._own_process()
        with self._store.reading() as connection:
            return dict(connection.execute(select(schema.account)).mappings().one())

    def _own_process(self) -> None:
        """After a fork, use no lock and no connection of the parent."""
        if self._pid == os.getpid():
            return
        if not self._store.crosses_fork:
            raise LedgerError(
                "a ledger in memory cannot be shared with a forked process; give the ledger a file"
            )
        self._store.abandon()
        self._writer = Writer(self._store)
        self._pid = os.getpid()


def _identity(name: str, budget: Budget, relation: Relation, domain_fingerprint: str) -> Identity:
    _words(name=name, domain_fingerprint=domain_fingerprint)
    return Identity(name, budget, Relation(relation), domain_fingerprint)


def _words(**values: object) -> None:
    for name, value in values.items():
        if not (isinstance(value, str) and 0 < len(value) <= 200 and value.isprintable()):
            raise ParameterError(f"expected {name} as 1 to 200 printable characters, got {name}={value!r}")


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
    _words(key=key, tag=tag)
    if not re.fullmatch("[0-9a-f]{64}", request):
        raise ParameterError(f"expected request as a SHA-256 in hexadecimal, got {request!r}")
    return Reservation(key, request, tag, cost, _body(body), parent, envelope)


def _body(body: Mapping[str, Any]) -> str:
    try:
        return canonical(body)
    except (TypeError, ValueError):
        raise ParameterError(
            "expected body as a dictionary that JSON can hold, without NaN or infinities"
        ) from None


def _with_payload(connection: Connection, row: Row) -> Entry:
    found = to_entry(row)
    if found.kind != "answer" or found.payload_sha256 is None:
        return found
    data = read_payloads(connection, {found.key: found.payload_sha256})
    return replace(found, payload=data[found.key], answered=Receipt(found.seq, found.head))
