"""The rules of the ledger, inside one transaction of the single writer.

Every rule is checked before anything is written, so a request that is refused leaves no trace and does not disturb
the others that share its transaction.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
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

from maquette.core.budget import (
    SLACK_UNITS,
    UNITS,
    Cost,
    Unit,
    charged,
    epsilon_for_units,
    percent_of,
)
from maquette.core.conversions import float_down, float_up
from maquette.core.errors import BudgetExceeded, KeyReused, LedgerError, ParameterError
from maquette.core.ledger import schema
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
from maquette.core.ledger.pace import Pace
from maquette.core.ledger.receipts import ChainState, check

SHORT = 512
"""Bytes of an answer up to which it is stored as it is: the room it takes then follows from its length alone."""
MAX_ENVELOPE_KEY = 180
"""Characters of the key of an envelope: its parts have keys of their own, `KEY/0001`, of at most 200."""

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


def reserved_note(units: int, total: int) -> str:
    """What a refusal says about reserved amounts, if there are any, in percent of the ledger."""
    if not units:
        return ""
    return (
        f" ({percent_of(units, total)} more is reserved by releases or sessions that have not ended; maquette ledger "
        "settle gives back what they do not need)"
    )


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


@dataclass(frozen=True, slots=True)
class Reservation:
    """What a caller asks to reserve, already checked and in canonical form."""

    key: str
    request: str
    tag: str
    costs: tuple[Cost, ...]
    """How it may be charged: to one part of the budget, or to the other."""
    body: str
    parent: str | None
    envelope: bool


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
        entry = self._find(reservation.key)
        if entry is not None:
            self._check_same(entry, reservation)
            return entry
        if pace is not None and reservation.parent is not None:
            self._check_pace(reservation.parent, pace, new=1)
        if reservation.envelope and len(reservation.key) > MAX_ENVELOPE_KEY:
            raise ParameterError(
                f"expected the key of a release or session as at most {MAX_ENVELOPE_KEY} characters, which leaves room "
                f"for the keys of its parts, got {len(reservation.key)}"
            )
        cost = self._charged(reservation)
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

    def _charged(self, reservation: Reservation) -> Cost:
        """What a new reservation is charged: to the account, or inside the envelope that pays for it."""
        costs, parent = reservation.costs, reservation.parent
        if parent is None:
            cost = charged(costs, whole=self._total, left=self.left)
            self._check_covered(cost, self.left, total=self._total)
            self._spent += cost
            return cost
        holder = self._holder(parent)
        if Cost(0) in costs:  # what costs nothing needs no sum over all that was taken before
            return Cost(0)
        left = self._rest_of(holder)
        cost = charged(costs, whole=holder.cost, left=left)
        self._check_covered(cost, left, total=holder.cost, holder=parent)
        return cost

    def begin_all(
        self, reservations: Sequence[Reservation], parent: str, *, pace: Pace | None
    ) -> list[Entry]:
        """Several reservations that cost nothing, under new keys: all are made, or none is."""
        for one in reservations:
            if self._find(one.key) is not None:
                raise KeyReused(f"key '{one.key}' was used before; each of several values needs a new one")
        if pace is not None:
            self._check_pace(parent, pace, new=len(reservations))
        return [self.reserve(one) for one in reservations]

    def again(self, entry: Entry) -> Entry:
        """Charge a look once more whose first outcome was lost: to the total, outside of its envelope.

        It is an entry of its own before the look, `KEY/again/1`, so that every look that is taken has its price.
        """
        if entry.parent is not None:
            self._holder(entry.parent)
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

    def _check_pace(self, parent: str, pace: Pace, *, new: int) -> None:
        """Refuse more reservations inside an envelope than its rate allows, counted in the chain itself."""
        self._flush()
        pace.check(recent(self._connection, parent, pace), new=new)

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

    def _check_same(self, entry: Entry, reservation: Reservation) -> None:
        same = (entry.request, entry.tag, entry.parent, entry.envelope) == (
            reservation.request,
            reservation.tag,
            reservation.parent,
            reservation.envelope,
        )
        if not same:
            raise KeyReused(
                f"key '{reservation.key}' was used before for another request; give each request its own key"
            )
        # a stored answer is free; an unanswered reservation pays for exactly what it was reserved for
        if entry.answered is None and entry.cost not in reservation.costs:
            raise KeyReused(
                f"key '{reservation.key}' was reserved at another cost; give the changed request a new key"
            )

    def _check_covered(self, cost: Cost, left: Cost, *, total: Cost, holder: str | None = None) -> None:
        """Refuse what the ledger, or the reservation `holder` of it, does not cover; in percent of `total`."""
        if cost.units > left.units:
            unit, scale, parts = self._unit, UNITS, (cost.units, left.units, total.units)
            what = ""
        elif cost.slack > left.slack:
            unit = "ratio" if self._unit == Unit.HALF_MU_SQUARED else "total variation"
            scale, parts = SLACK_UNITS, (cost.slack, left.slack, total.slack)
            what = f"the part set aside for noise that is exact within a proven bound ({unit}) of "
        elif cost.pure > left.pure:
            unit, scale, parts = Unit.EPSILON.value, UNITS, (cost.pure, left.pure, total.pure)
            what = "the pure part of "
        else:
            return
        needed, rest, all_of_it = parts
        place = f"ledger '{self._name}'" if holder is None else f"reservation '{holder}'"
        advice = "ask a smaller workload or accept a larger error" if holder else self._what_fits(left)
        raise BudgetExceeded(
            f"this request needs {percent_of(needed, all_of_it, up=True)} of {what}{place}, and "
            f"{percent_of(rest, all_of_it)} is left{'' if holder else self._reserved_note()}; {advice}",
            unit=unit,
            needed=float_up(Fraction(needed, scale)),
            left=float_down(Fraction(rest, scale)),
        )

    def _what_fits(self, left: Cost) -> str:
        """The epsilon that what is left is good for, at the ledger's own delta."""
        unit = Unit(self._unit)
        delta = 0.0 if unit.is_pure else self._delta
        offers: list[str] = []
        if (epsilon := epsilon_for_units(left.units, unit, delta=delta)) is not None:
            offers.append(f"epsilon={epsilon:g}{f' with delta={delta:g}' if delta else ''} still fits")
        if (epsilon := epsilon_for_units(left.pure, Unit.EPSILON, delta=0.0)) is not None:
            offers.append(f"a pure epsilon={epsilon:g} still fits")
        return "; ".join(offers) or "nothing more fits"

    def _reserved_note(self) -> str:
        """What open envelopes hold, for a refusal: it is not left, but it may come back."""
        self._flush()
        return reserved_note(reserved(self._connection).units, self._total.units)

    def _reserved(self, key: str) -> Entry:
        entry = self._find(key)
        if entry is None:
            raise LedgerError(f"nothing was reserved under key '{key}'; reserve before answering or settling")
        return entry

    def _holder(self, parent: str) -> Entry:
        """The open envelope that a reservation names as its parent."""
        holder = self._reserved(parent)
        if not holder.envelope:
            raise LedgerError(f"reservation '{parent}' is not an envelope; reserve it with envelope=True")
        if holder.settlement is not None:
            raise LedgerError(
                f"reservation '{parent}' is settled: what it had left went back, and it pays for nothing more; ask "
                "under another key (key=, --key)"
            )
        return holder

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
