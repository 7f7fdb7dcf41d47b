"""The ledger as the gate sees it: reserve, look, answer; and settle for what was reserved as a whole."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from maquette import _check
from maquette.accounting.budget import Budget, Cost
from maquette.accounting.ledger import birth
from maquette.accounting.ledger.birth import Identity
from maquette.accounting.ledger.chain import canonical
from maquette.accounting.ledger.entry import Entry, Record, check_words
from maquette.accounting.ledger.reading import LedgerReader
from maquette.accounting.ledger.recovery import Recovered, recover
from maquette.accounting.ledger.store import MemoryStore, Store, locate
from maquette.accounting.ledger.transaction import Reservation, Transaction
from maquette.accounting.ledger.writer import Writer
from maquette.domain import Relation
from maquette.errors import ParameterError

T = TypeVar("T")


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
        super().__init__(store)
        if (
            self._behind and store.writable
        ):  # a crash after a commit: its receipt is kept before anybody acts on it
            self._writer.submit(lambda _: None)

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
    def recover(cls, location: str | Path) -> Recovered:
        """Let a ledger go on that fell behind its receipt: what is lost is charged in full. See `recovery`."""
        store = locate(location)
        try:
            LedgerReader(store, recovering=True)
            return recover(store)
        finally:
            store.close()

    @classmethod
    def memory(cls, *, budget: Budget, relation: Relation, domain_fingerprint: str, name: str) -> Ledger:
        """A ledger that is forgotten with the process: every promise but durability."""
        store = MemoryStore()
        birth.create(store, _identity(name, budget, relation, domain_fingerprint))
        return cls(store)

    def bind(self, commitment: str) -> None:
        """Tie the ledger to one table, for good; LedgerError if it is tied to another."""
        check_words(commitment=commitment)
        self._submit(lambda t: t.bind(commitment))

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
        asked = _reservation(key, request, tag, cost, body, parent, envelope=envelope)
        return self._submit(lambda t: t.reserve(asked), key, *([] if parent is None else [parent]))

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
        asked = _reservation(key, request, tag, cost, body, parent)
        data = bytes(payload)

        def both(transaction: Transaction) -> Entry:
            entry = transaction.reserve(asked)
            if not entry.fresh and entry.answered is not None:
                return entry
            return transaction.answer(key, data)

        return self._submit(both, key, *([] if parent is None else [parent]))

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

        return self._submit(together, parent, *(one.key for one in asked))

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


def _identity(name: str, budget: Budget, relation: Relation, domain_fingerprint: str) -> Identity:
    check_words(name=name, domain_fingerprint=domain_fingerprint)
    return Identity(name, budget, Relation(relation), domain_fingerprint)


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
    return Reservation(key, request, tag, cost, _body(body), parent, envelope)


def _body(body: Mapping[str, Any]) -> str:
    try:
        return canonical(body)
    except (TypeError, ValueError):
        raise ParameterError(
            "expected body as a dictionary that JSON can hold, without NaN or infinities"
        ) from None
