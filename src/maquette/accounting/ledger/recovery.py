"""Going on with a ledger that fell behind its receipt: what is lost is charged in full, never less.

Let S be what the receipt says was spent. Everything that was paid in the lost ledger up to the receipt, the entries
that this copy shares with it included, is at most S; and nothing beyond the receipt was ever acted on. What this copy
paid by itself since the two parted is at most F, the steps after the newest receipt that both know. So S + F covers
all that was ever looked at: open envelopes are settled, and one reservation charges what is missing to S + F.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, func, select

from maquette.accounting.budget import Cost
from maquette.accounting.ledger import schema
from maquette.accounting.ledger.chain import canonical, digest
from maquette.accounting.ledger.entry import Receipt
from maquette.accounting.ledger.envelopes import open_envelopes
from maquette.accounting.ledger.receipts import Kept
from maquette.accounting.ledger.rows import find, head_at, read_account
from maquette.accounting.ledger.store import Store
from maquette.accounting.ledger.transaction import Reservation, Transaction
from maquette.accounting.ledger.verify import verify
from maquette.errors import LedgerError

_entry = schema.entry.c
_STEPS = select(func.coalesce(func.sum(_entry.units), 0), func.coalesce(func.sum(_entry.slack), 0)).where(
    _entry.kind == "reserve", _entry.envelope == 0, _entry.seq > bindparam("after")
)


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
    with store.turn() as kept:
        with store.writing() as connection:
            row = read_account(connection, location=store.location)
            if kept is None or not _behind(connection, kept, row["seq"]):
                raise LedgerError(f"the ledger {store.location} holds what its receipt says: nothing is lost")
            if kept.opened != head_at(connection, 1):
                raise LedgerError(
                    f"the receipt beside the ledger {store.location} is that of another ledger; put the right ledger "
                    "back, or move the receipt away"
                )
            verify(connection, location=store.location)
            transaction = Transaction(connection, location=store.location)
            done = _charge(connection, transaction, kept)
            transaction.finish()
        # a crash before the receipt is kept leaves a ledger to be recovered again, under the same key
        store.keep(transaction.reached, alone=True)
    return done


def _behind(connection: Connection, kept: Kept, seq: int) -> bool:
    return kept.end.seq > seq or head_at(connection, kept.end.seq) != kept.end.head


def _charge(connection: Connection, transaction: Transaction, kept: Kept) -> Recovered:
    agreed = next(
        one for one in (*kept.earlier, Receipt(1, kept.opened)) if head_at(connection, one.seq) == one.head
    )
    units, slack = connection.execute(_STEPS, {"after": agreed.seq}).one()
    owed = Cost(kept.spent + int(units), kept.slack_spent + int(slack))
    for envelope in reversed(open_envelopes(connection)):
        transaction.settle(envelope.entry.key)
    reached, left = transaction.reached, transaction.left
    missing = Cost(max(0, owed.units - reached.spent), max(0, owed.slack - reached.slack_spent))
    cost = Cost(min(missing.units, left.units), min(missing.slack, left.slack))
    body = canonical({"ask": "lost", "receipt": str(kept.end), "agreed": str(agreed)})
    key = f"lost-{kept.end.seq}-{kept.end.head[:16]}"
    if (known := find(connection, key)) is not None:
        return Recovered(kept.end, agreed, Cost(known.units, known.slack), exceeded=False)
    transaction.reserve(Reservation(key, digest(body.encode()), "lost", cost, body, None, False))
    return Recovered(kept.end, agreed, cost, cost != missing)
