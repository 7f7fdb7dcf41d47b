"""What open envelopes still hold: reserved for their steps, not charged by any, and given back when they settle."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, func, select

from maquette.accounting.budget import Cost
from maquette.accounting.ledger import schema
from maquette.accounting.ledger.entry import Entry, Envelope
from maquette.accounting.ledger.rows import to_entry
from maquette.errors import LedgerError

# built once: making a statement costs more than running it
_entry = schema.entry.c
_child = schema.entry.alias("child").c
_SUMS = select(func.coalesce(func.sum(_entry.units), 0), func.coalesce(func.sum(_entry.slack), 0))
_TAKEN = _SUMS.where(_entry.parent == bindparam("parent"))  # only reservations have a parent
_GIVEN_BACK = _SUMS.where(
    _entry.kind == "settle", _entry.key.in_(select(_child.key).where(_child.parent == bindparam("parent")))
)
_OPEN = (
    select(schema.entry)
    .where(
        _entry.kind == "reserve",
        _entry.envelope == 1,
        _entry.key.not_in(select(_child.key).where(_child.kind == "settle")),
    )
    .order_by(_entry.seq)
)


def rest_of(connection: Connection, envelope: Entry) -> Cost:
    """What an envelope has left: its amount, less its children's, plus what settled children gave back."""
    units, slack = connection.execute(_TAKEN, {"parent": envelope.key}).one()
    units_back, slack_back = connection.execute(_GIVEN_BACK, {"parent": envelope.key}).one()
    left = envelope.units - int(units) + int(units_back), envelope.slack - int(slack) + int(slack_back)
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
    found: dict[str, Envelope] = {}
    for row in connection.execute(_OPEN).mappings():
        entry = to_entry(row)
        if entry.parent is None or entry.parent in found:
            found[entry.key] = Envelope(entry, rest_of(connection, entry))
    return list(found.values())


def reserved(connection: Connection) -> Cost:
    """What all open envelopes together hold."""
    return sum((one.left for one in open_envelopes(connection)), Cost(0))
