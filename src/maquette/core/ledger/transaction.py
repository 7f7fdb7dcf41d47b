"""The rules of the ledger, inside one transaction of the single writer.

Every rule is checked before anything is written, so a request that is refused leaves no trace and does not disturb
the others that share its transaction.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, cast

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    bindparam,
    func,
    insert,
    literal_column,
    select,
    update,
)

from maquette.core.budget import Cost, Unit
from maquette.core.errors import BudgetExceeded, LedgerError
from maquette.core.ledger import schema
from maquette.core.ledger.decide import (
    Accept,
    Account,
    Refuse,
    Repeat,
    Reservation,
    closed,
    decide,
    decide_all,
    nothing_reserved,
)
from maquette.core.ledger.entry import (
    ALL,
    Entry,
    Receipt,
    Statement,
    canonical,
    check_head,
    digest,
    find_all,
    head_at,
    next_row,
    read_account,
    to_entry,
)
from maquette.core.ledger.pace import Pace, present
from maquette.core.ledger.receipts import ChainState, check

SHORT = 512
"""Bytes of an answer up to which it is stored as it is: the room it takes then follows from its length alone."""
_NOTHING = Cost(0)
# built once: making a statement costs more than running it
_STATE = ("spent", "slack_spent", "seq", "head", "commitment")
_NEW_STATE = {
    schema.ONE_PART: Statement(update(schema.ONE_PART.account), columns=_STATE),
    schema.TWO_PARTS: Statement(update(schema.TWO_PARTS.account), columns=(*_STATE, "pure_spent")),
}
_NEW_ENTRY = {tables: Statement(insert(tables.entry)) for tables in (schema.ONE_PART, schema.TWO_PARTS)}
_NEW_PAYLOAD = Statement(insert(schema.payload))
_entry, _child = schema.entry.c, schema.entry.alias("child").c
_RECENT = Statement(
    select(_entry.created)
    .where(_entry.parent == bindparam("parent"))
    .order_by(_entry.seq.desc())
    .limit(bindparam("most"))
)


def _sums(*amounts: ColumnElement[int]) -> tuple[Statement, Statement]:
    """What reservations inside an envelope charged, and what those of them that are settled gave back."""
    sums = select(*(func.coalesce(func.sum(one), 0) for one in amounts)).select_from(schema.entry)
    inside = _child.parent == bindparam("parent")
    charged_inside = sums.where(_entry.parent == bindparam("parent"))  # only reservations have a parent
    given_back = sums.where(_entry.kind == "settle", _entry.key.in_(select(_child.key).where(inside)))
    return Statement(charged_inside), Statement(given_back)


_CHARGED, _GIVEN_BACK = _sums(_entry.units, _entry.slack)
_PURE_CHARGED, _PURE_GIVEN_BACK = _sums(literal_column("entry.pure", Integer))
_OPEN = Statement(
    select(ALL)
    .select_from(schema.entry)
    .where(
        _entry.kind == "reserve",
        _entry.envelope == 1,
        _entry.key.not_in(select(_child.key).where(_child.kind == "settle")),
    )
    .order_by(_entry.seq)
)


@dataclass(frozen=True, slots=True)
class Envelope:
    """An open envelope and what no step of it was charged: settling it gives that back."""

    entry: Entry
    left: Cost


def recent(connection: Connection, parent: str, pace: Pace) -> list[str]:
    """When the last reservations inside an envelope were made, as many as its rate allows."""
    rows = _RECENT.tuples(connection, parent=parent, most=pace.rate.entries)
    return [str(created) for (created,) in rows]


def rest_of(connection: Connection, envelope: Entry) -> Cost:
    """What an envelope has left: its amount, less its children's, plus what settled children gave back."""
    ((units, slack),) = _CHARGED.tuples(connection, parent=envelope.key)
    ((units_back, slack_back),) = _GIVEN_BACK.tuples(connection, parent=envelope.key)
    pure = pure_back = 0
    if envelope.pure:  # else it holds none that anything inside could have taken
        ((pure,),) = _PURE_CHARGED.tuples(connection, parent=envelope.key)
        ((pure_back,),) = _PURE_GIVEN_BACK.tuples(connection, parent=envelope.key)
    left = (
        envelope.units - int(units) + int(units_back),
        envelope.slack - int(slack) + int(slack_back),
        envelope.pure - int(pure) + int(pure_back),
    )
    if min(left) < 0:
        raise LedgerError(
            f"reservation '{envelope.key}' paid for more than it holds: the ledger was edited; run "
            "maquette ledger verify"
        )
    return Cost(*left)


def open_envelopes(connection: Connection) -> list[Envelope]:
    """Every envelope that can still give something back, in the order of the chain.

    One inside an envelope that is settled is none of them: the outer one was closed at its full amount.
    """
    envelopes: dict[str, Envelope] = {}
    for row in _OPEN.rows(connection):
        entry = to_entry(row)
        if entry.parent is None or entry.parent in envelopes:
            envelopes[entry.key] = Envelope(entry, rest_of(connection, entry))
    return list(envelopes.values())


def reserved(connection: Connection) -> Cost:
    """What all open envelopes together hold."""
    return sum((one.left for one in open_envelopes(connection)), Cost(0))


class Transaction:
    """The account row, locked, and what this transaction adds to it.

    `keys` are those that the work will ask for; they are read together. What is added is written together, at
    `finish` or before a query that has to see it.
    """

    def __init__(
        self,
        connection: Connection,
        keys: Iterable[str] = (),
        *,
        state: ChainState | None = None,
        location: str = "memory",
    ) -> None:
        """`state` is the receipt that the ledger must not have fallen behind."""
        self._connection = connection
        row = read_account(connection, location=location, locked=True)
        self._name, self._unit, self._delta = str(row["name"]), str(row["unit"]), float(row["delta"])
        self._tables = schema.tables_of(row)
        self._total = Cost(int(row["total"]), int(row["slack_total"]), int(row.get("pure_total", 0)))
        self._spent = Cost(int(row["spent"]), int(row["slack_spent"]), int(row.get("pure_spent", 0)))
        self._seq, self._head = int(row["seq"]), str(row["head"])
        self._commitment = cast("str | None", row["commitment"])
        check_head(connection, seq=self._seq, head=self._head)
        self._opened = head_at(connection, 1) or ""
        check(state, row, partial(head_at, connection), opened=self._opened, location=location)
        self._entries: dict[str, Entry | None] = find_all(connection, set(keys))
        self._rows: list[dict[str, Any]] = []
        self._payloads: list[dict[str, Any]] = []
        self.dirty = False

    @property
    def reached(self) -> ChainState:
        """Where the chain ends with this transaction, for the receipt that is kept."""
        spent, end = self._spent, Receipt(self._seq, self._head)
        pure = spent.pure if self._has_parts else None
        return ChainState(self._opened, end, spent.units, spent.slack, pure_spent=pure)

    @property
    def left(self) -> Cost:
        total, spent = self._total, self._spent
        pairs = ((total.units, spent.units), (total.slack, spent.slack), (total.pure, spent.pure))
        return Cost(
            *(max(0, whole - paid) for whole, paid in pairs)
        )  # an edited account may say more than all

    @property
    def _has_parts(self) -> bool:
        return self._tables is schema.TWO_PARTS

    def finish(self) -> None:
        """Write what was added and the account's new state; the caller commits."""
        self._flush()
        state = {
            "spent": self._spent.units,
            "slack_spent": self._spent.slack,
            "seq": self._seq,
            "head": self._head,
            "commitment": self._commitment,
        }
        if self._has_parts:
            state["pure_spent"] = self._spent.pure
        _NEW_STATE[self._tables].write(self._connection, [state])

    def reserve(self, reservation: Reservation, *, pace: Pace | None = None) -> Entry:
        """`pace` is how often the reservation's parent may be drawn on."""
        match self._decide(reservation, pace):
            case Repeat(entry):
                return entry
            case Refuse(error):
                raise error
            case Accept(cost):
                pass
        if reservation.parent is None:
            self._spent += cost
        link = self._append(
            "reserve",
            cost=cost,
            key=reservation.key,
            parent=reservation.parent,
            tag=reservation.tag,
            request=reservation.request,
            envelope=int(reservation.envelope),
            body=reservation.body,
        )
        return self._remember(link)

    def _decide(self, begin: Reservation, pace: Pace | None) -> Accept | Repeat | Refuse:
        """Look up what a decision needs, and no more; then decide."""
        keys = (begin.key,) if begin.parent is None else (begin.key, begin.parent)
        entries = {key: self._find(key) for key in keys}
        now, rate, recently = present(), None, list[str]()
        if pace is not None and begin.parent is not None and entries[begin.key] is None:
            rate, recently = pace.rate, self._recent(begin.parent, pace, now)
        account = self._payer(begin, entries)
        decision = decide(account, entries, recently, now, rate, begin)
        if isinstance(decision, Refuse) and isinstance(decision.error, BudgetExceeded) and not begin.parent:
            return decide(
                replace(account, reserved=self._reserved_by_open()), entries, recently, now, rate, begin
            )
        return decision

    def _payer(self, begin: Reservation, entries: Mapping[str, Entry | None]) -> Account:
        account = Account(self._name, Unit(self._unit), self._delta, self._total, self.left)
        holder = entries[begin.parent] if begin.parent is not None else None
        if holder is None:
            return account
        # what costs nothing, or is there already, needs no sum over all that was paid before
        is_paid = entries[begin.key] is None and Cost(0) not in begin.costs
        is_open = closed(holder.key, holder) is None
        left = self._rest_of(holder) if is_paid and is_open else Cost(0)
        return replace(account, whole=holder.cost, left=left, holder=holder.key)

    def begin_all(
        self, reservations: Sequence[Reservation], parent: str, *, pace: Pace | None
    ) -> list[Entry]:
        """Several reservations that cost nothing, under new keys: all are made, or none is."""
        entries, now = {one.key: self._find(one.key) for one in reservations}, present()
        recently = [] if pace is None or any(entries.values()) else self._recent(parent, pace, now)
        refusal = decide_all(entries, recently, now, None if pace is None else pace.rate, reservations)
        if refusal is not None:
            raise refusal.error
        return [self.reserve(one) for one in reservations]

    def again(self, entry: Entry) -> Entry:
        """Charge a look once more whose first outcome was lost: to the total, outside of its envelope.

        It is an entry of its own before the look, `KEY/again/1`, so that every look that is taken has its price.
        """
        if entry.parent is not None and (error := closed(entry.parent, self._find(entry.parent))) is not None:
            raise error
        number = next(i for i in itertools.count(1) if self._find(f"{entry.key}/again/{i}") is None)
        body = canonical(dict(entry.body) | {"again": number})
        key, costs = f"{entry.key}/again/{number}", (entry.cost,)
        try:
            return self.reserve(Reservation(key, entry.request, entry.tag, costs, body, None, False))
        except BudgetExceeded as error:
            raise BudgetExceeded(
                f"what '{entry.key}' paid to see was lost before it was stored, and looking again is charged once "
                f"more, outside of its reservation: {error}",
                unit=error.unit,
                needed=error.needed,
                left=error.left,
            ) from None

    def _recent(self, parent: str, pace: Pace, now: datetime) -> list[str]:
        """What the rate of an envelope counts, in the chain itself and of refusals."""
        self._flush()
        return pace.dates(recent(self._connection, parent, pace), now)

    def answer(self, key: str, data: bytes) -> Entry:
        entry = self._reserved(key)
        if entry.answered is not None:
            return entry
        # dated as its reservation was, before the look: how long a look takes may depend on the rows
        link = self._append("answer", key=key, payload_sha256=digest(data), created=entry.created)
        level = 0 if len(data) <= SHORT else 1
        self._payloads.append({"key": key, "data": zlib.compress(data, level)})
        place = Receipt(link.seq, link.head)
        return self._remember(
            replace(entry, payload=data, payload_sha256=link.payload_sha256, answered=place)
        )

    def settle(self, key: str) -> Entry:
        entry = self._reserved(key)
        if not entry.envelope:
            raise LedgerError(
                f"reservation '{key}' pays for a look at the data and stays charged; only an envelope can be settled"
            )
        if entry.settlement is not None:
            return entry
        rest = self._rest_of(entry)
        if entry.parent is None:
            self._spent -= rest
        elif self._reserved(entry.parent).settlement is not None:
            rest = Cost(0)  # the outer envelope was closed at this one's full amount
        link = self._append("settle", cost=rest, key=key)
        return self._remember(replace(entry, settlement=Receipt(link.seq, link.head)))

    def bind(self, commitment: str) -> None:
        if self._commitment is None:
            self._append("bind", body=canonical({"commitment": commitment}))
            self._commitment = commitment
        elif self._commitment != commitment:
            raise LedgerError(other_table(self._name, self._commitment))

    def _reserved_by_open(self) -> Cost:
        """What open envelopes hold."""
        self._flush()
        return reserved(self._connection)

    def _reserved(self, key: str) -> Entry:
        entry = self._find(key)
        if entry is None:
            raise nothing_reserved(key)
        return entry

    def _rest_of(self, holder: Entry) -> Cost:
        """What an envelope has left, with what this transaction took from it."""
        self._flush()
        return rest_of(self._connection, holder)

    def _find(self, key: str) -> Entry | None:
        if key not in self._entries:
            self._entries |= find_all(self._connection, {key})
        return self._entries[key]

    def _remember(self, reservation: Entry) -> Entry:
        """Let the work that follows in this transaction see it; only its writer sees it as fresh."""
        self._entries[reservation.key] = reservation
        return replace(reservation, fresh=True)

    def _append(self, kind: str, cost: Cost = _NOTHING, **values: Any) -> Entry:
        amounts: dict[str, Any] = {"units": cost.units, "slack": cost.slack}
        if self._has_parts:
            amounts["pure"] = cost.pure
        row = next_row(kind, seq=self._seq + 1, prev=self._head, **amounts, **values)
        self._rows.append(row)
        self._seq, self._head, self.dirty = int(row["seq"]), str(row["head"]), True
        return to_entry(row)

    def _flush(self) -> None:
        for statement, rows in ((_NEW_ENTRY[self._tables], self._rows), (_NEW_PAYLOAD, self._payloads)):
            if rows:
                statement.write(self._connection, rows)
        self._rows, self._payloads = [], []


def other_table(name: str, commitment: str) -> str:
    """What may have happened when a table is not the one that a ledger was bound to, and what to do about it."""
    ordered = ":" not in commitment  # bound by an earlier version, whose digest knows the order of the rows
    order = (
        "or come in another order (this older ledger is bound to the order of its rows), " if ordered else ""
    )
    same = "with its rows in the same order, " if ordered else ""
    return (
        f"ledger '{name}' belongs to another table: the records of this one were changed, added or removed since, "
        f"{order}or are read in another way (file, query, encoding, version of maquette). Open the table it was "
        f"first used with, {same}or give the ledger of this table. A second ledger for the same people adds to what "
        "they have paid: if you make one, give it no more than is left here and do not use this one again"
    )
