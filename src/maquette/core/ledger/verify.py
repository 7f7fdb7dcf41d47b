"""Reading the whole chain again: every hash, every rule, every stored answer, and the account at the end."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Select, Table, and_, bindparam, func, select

from maquette.core.budget import Cost
from maquette.core.errors import LedgerError
from maquette.core.ledger import schema
from maquette.core.ledger.create import genesis_body
from maquette.core.ledger.decide import Reservation
from maquette.core.ledger.entry import (
    ALL,
    GENESIS,
    Receipt,
    Row,
    Statement,
    amounts_of,
    canonical,
    digest,
    find_all,
    head_at,
    head_of,
    read_account,
    unpack,
)
from maquette.core.ledger.receipts import ChainState
from maquette.core.ledger.store import Store
from maquette.core.ledger.transaction import Transaction, open_envelopes

_FIXED = Statement(
    select(ALL).select_from(schema.entry).where(schema.entry.c.key == "").order_by(schema.entry.c.seq)
)
_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What an entry that was edited may cause."""


Amounts = tuple[int, int, int]
"""Units, slack and pure units; an edited entry may have any."""


def _sum(first: Amounts, second: Amounts, sign: int = 1) -> Amounts:
    units, slack, pure = (a + sign * b for a, b in zip(first, second, strict=True))
    return units, slack, pure


def _total_of(account: Mapping[str, Any]) -> Amounts:
    return int(account["total"]), int(account["slack_total"]), int(account.get("pure_total", 0))


@dataclass(slots=True)
class _Reservation:
    """A reservation during the replay; `left` is what it has not given to children."""

    left: Amounts
    parent: str | None
    envelope: bool
    answered: bool = False
    is_settled: bool = False


@dataclass(slots=True)
class Replay:
    """The state that the entries so far must have led to."""

    total: Amounts
    seq: int = 0
    head: str = GENESIS
    spent: Amounts = (0, 0, 0)
    answers: int = 0
    commitment: str | None = None
    reservations: dict[str, _Reservation] = field(default_factory=dict[str, _Reservation])

    def take(self, row: Row) -> None:
        """Check one entry against the state and apply it; ValueError says what is wrong."""
        _require(row["seq"] == self.seq + 1, "an entry is missing or out of order")
        _require(row["prev"] == self.head, "it does not follow the entry before it")
        _require(head_of(row) == row["head"], "its contents do not match its hash")
        _require((row["kind"] == "open") == (self.seq == 0), "the chain does not begin with its opening")
        match row["kind"]:
            case "reserve":
                self._reserve(row)
            case "answer":
                self._answer(row)
            case "settle":
                self._settle(row)
            case "bind":
                _require(self.commitment is None, "the table is bound twice")
                self.commitment = str(json.loads(row["body"])["commitment"])
            case _:
                pass
        self.seq, self.head = int(row["seq"]), str(row["head"])

    def _reserve(self, row: Row) -> None:
        _require(row["key"] not in self.reservations, "its key is reserved twice")
        amounts, parent = amounts_of(row), row["parent"]
        if parent is None:
            self.spent = _sum(self.spent, amounts)
            _require(min(_sum(self.total, self.spent, -1)) >= 0, "it overspends the budget")
        else:
            holder = self.reservations.get(parent)
            _require(
                holder is not None and holder.envelope and not holder.is_settled, "its parent is not open"
            )
            assert holder is not None
            holder.left = _sum(holder.left, amounts, -1)
            _require(min(holder.left) >= 0, "it overspends its parent")
        self.reservations[row["key"]] = _Reservation(amounts, parent, bool(row["envelope"]))

    def _answer(self, row: Row) -> None:
        reservation = self.reservations.get(row["key"])
        _require(reservation is not None and not reservation.answered, "it answers nothing that was reserved")
        assert reservation is not None
        reservation.answered = True
        self.answers += 1
        data = unpack(row["data"])
        _require(
            data is not None and digest(data) == row["payload_sha256"], "its stored answer is lost or changed"
        )

    def _settle(self, row: Row) -> None:
        reservation = self.reservations.get(row["key"])
        _require(
            reservation is not None and reservation.envelope and not reservation.is_settled,
            "it settles no open envelope",
        )
        assert reservation is not None
        reservation.is_settled = True
        holder = None if reservation.parent is None else self.reservations[reservation.parent]
        lost = holder is not None and holder.is_settled
        back = (0, 0, 0) if lost else reservation.left
        _require(amounts_of(row) == back, "it gives back the wrong amount")
        if holder is not None:
            holder.left = _sum(holder.left, back)
        else:
            self.spent = _sum(self.spent, back, -1)


def check_opening(connection: Connection, *, location: str) -> None:
    """Refuse an account that was not opened and bound as it says; where they differ, the whole chain tells where.

    Its total decides what is paid, its commitment for which table. Opening and binding are the entries without a key.
    """
    account = read_account(connection, location=location)
    fixed = {str(row["kind"]): row for row in _FIXED.rows(connection)}
    try:
        for row in fixed.values():
            _require(head_of(row) == row["head"], "its contents do not match its hash")
        _check_opening(fixed["open"], account)
        bound = json.loads(fixed["bind"]["body"])["commitment"] if "bind" in fixed else None
        _require(account["commitment"] == bound, "the account is bound to another table")
    except _UNREADABLE:
        verify(connection, location=location)


def verify(connection: Connection, *, location: str, receipt: Receipt | None = None) -> Receipt:
    """Read everything; LedgerError names the first entry that is not as it was written."""
    account = read_account(connection, location=location)
    replay = Replay(_total_of(account))
    met = None
    for row in _rows(connection, schema.tables_of(account).entry):
        try:
            if replay.seq == 0:
                _check_opening(row, account)
            replay.take(row)
        except _UNREADABLE as error:
            reason = str(error) if type(error) is ValueError else "its contents cannot be read"
            raise LedgerError(
                f"the ledger {location} was tampered with at entry {replay.seq + 1}: {reason}"
            ) from None
        if receipt is not None and replay.seq == receipt.sequence:
            met = replay.head
    _check_account(replay, account, location)
    _check_payloads(connection, replay, location)
    if receipt is not None and met != receipt.head:
        instead = "another entry" if met else "no entry"
        raise LedgerError(
            f"the ledger {location} has {instead} in the place of the receipt's entry {receipt.sequence}: it was cut "
            "back, replaced or forked after the receipt was given; find the copy that holds it"
        )
    return Receipt(replay.seq, replay.head)


def _rows(connection: Connection, entry: Table) -> Iterator[Row]:
    answers = and_(entry.c.kind == "answer", schema.payload.c.key == entry.c.key)
    query = (
        select(entry, schema.payload.c.data)
        .select_from(entry.outerjoin(schema.payload, answers))
        .order_by(entry.c.seq)
    )
    yield from connection.execute(query, execution_options={"yield_per": 200}).mappings()


def _check_opening(row: Row, account: Mapping[str, Any]) -> None:
    _require(
        row["body"] == canonical(genesis_body(account)) and amounts_of(row) == _total_of(account),
        "the account differs from the one that was opened",
    )


def _check_account(replay: Replay, account: Mapping[str, Any], location: str) -> None:
    reached = {
        "seq": replay.seq,
        "head": replay.head,
        **dict(zip(("spent", "slack_spent", "pure_spent"), replay.spent, strict=True)),
        "commitment": replay.commitment,
    }
    if "pure_spent" not in account:
        del reached["pure_spent"]
    for name, value in reached.items():
        if account[name] != value:
            raise LedgerError(
                f"the ledger {location} was cut or edited after entry {replay.seq}: "
                f"the account's {name} does not follow from the entries"
            )


def _check_payloads(connection: Connection, replay: Replay, location: str) -> None:
    if connection.execute(select(func.count()).select_from(schema.payload)).scalar_one() != replay.answers:
        raise LedgerError(
            f"the ledger {location} holds stored answers that no entry up to {replay.seq} names"
        )


def _require(holds: bool, wrong: str) -> None:
    if not holds:
        raise ValueError(wrong)


# Going on with a ledger that fell behind its receipt: what is lost is charged in full, never less.
#
# Let S be what the receipt says was spent. Everything that was paid in the lost ledger up to the receipt,
# the entries that this copy shares with it included, is at most S; and nothing beyond the receipt was ever
# acted on. What this copy paid by itself since the two parted is at most F, the steps after the newest
# receipt that both know. So S + F covers all that was ever looked at: open envelopes are settled, and one
# reservation charges what is missing to S + F.


def _steps(entry: Table) -> Select[Any]:
    """What looks and declarations after an entry charged, envelopes apart."""
    names = [name for name in ("units", "slack", "pure") if name in entry.c]
    sums = select(*(func.coalesce(func.sum(entry.c[name]), 0) for name in names))
    return sums.where(entry.c.kind == "reserve", entry.c.envelope == 0, entry.c.seq > bindparam("after"))


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was done about entries that are lost."""

    lost: Receipt
    """The end that the ledger should have had."""
    agreed: Receipt
    """The newest end that both are known to have had."""
    charged: Cost
    exceeded: bool
    """May more have been paid, in both together, than the ledger's total?"""


def recover(store: Store) -> Recovered:
    """Charge what a ledger lost and let it go on; LedgerError if nothing is missing or its own chain is broken."""
    with store.turn() as state:
        with store.writing() as connection:
            row = read_account(connection, location=store.location)
            if state is None or not _behind(connection, state, row["seq"]):
                raise LedgerError(f"the ledger {store.location} holds what its receipt says: nothing is lost")
            if state.opened != head_at(connection, 1):
                raise LedgerError(
                    f"the receipt beside the ledger {store.location} is that of another ledger; put the right ledger "
                    "back, or move the receipt away"
                )
            verify(connection, location=store.location)
            transaction = Transaction(connection, location=store.location)
            done = _charge(connection, transaction, state)
            transaction.finish()
        # a crash before the receipt is kept leaves a ledger to be recovered again, under the same key
        store.keep(transaction.reached, alone=True)
    return done


def _behind(connection: Connection, state: ChainState, seq: int) -> bool:
    return state.end.sequence > seq or head_at(connection, state.end.sequence) != state.end.head


def _charge(connection: Connection, transaction: Transaction, state: ChainState) -> Recovered:
    agreed = next(
        one
        for one in (*state.earlier, Receipt(1, state.opened))
        if head_at(connection, one.sequence) == one.head
    )
    tables = schema.tables_of(read_account(connection, location="memory"))
    steps = Cost(*map(int, connection.execute(_steps(tables.entry), {"after": agreed.sequence}).one()))
    owed = Cost(state.spent, state.slack_spent, state.pure_spent or 0) + steps
    for envelope in reversed(open_envelopes(connection)):
        transaction.settle(envelope.entry.key)
    reached, left = transaction.reached, transaction.left
    missing = Cost(
        max(0, owed.units - reached.spent),
        max(0, owed.slack - reached.slack_spent),
        max(0, owed.pure - (reached.pure_spent or 0)),
    )
    cost = Cost(min(missing.units, left.units), min(missing.slack, left.slack), min(missing.pure, left.pure))
    body = canonical({"ask": "lost", "receipt": str(state.end), "agreed": str(agreed)})
    key = f"lost-{state.end.sequence}-{state.end.head[:16]}"
    if (charged := find_all(connection, {key})[key]) is not None:
        return Recovered(state.end, agreed, charged.cost, exceeded=False)
    transaction.reserve(Reservation(key, digest(body.encode()), "lost", (cost,), body, None, False))
    return Recovered(state.end, agreed, cost, cost != missing)
