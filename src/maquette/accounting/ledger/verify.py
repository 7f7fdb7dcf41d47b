"""Reading the whole chain again: every hash, every rule, every stored answer, and the account at the end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlalchemy import Connection, and_, func, select

from maquette.accounting.ledger import schema
from maquette.accounting.ledger.birth import genesis_body
from maquette.accounting.ledger.chain import GENESIS, Row, canonical, digest, head_of
from maquette.accounting.ledger.entry import Receipt
from maquette.accounting.ledger.rows import read_account, unpack
from maquette.errors import LedgerError


@dataclass(slots=True)
class _Held:
    """A reservation during the replay; `units` and `slack` are what it has not given to children."""

    units: int
    slack: int
    parent: str | None
    envelope: bool
    answered: bool = False
    settled: bool = False


@dataclass(slots=True)
class Replay:
    """The state that the entries so far must have led to."""

    total: int
    slack_total: int
    seq: int = 0
    head: str = GENESIS
    spent: int = 0
    slack_spent: int = 0
    answers: int = 0
    commitment: str | None = None
    held: dict[str, _Held] = field(default_factory=dict[str, _Held])

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
        _require(row["key"] not in self.held, "its key is reserved twice")
        units, slack, parent = int(row["units"]), int(row["slack"]), row["parent"]
        if parent is None:
            self.spent += units
            self.slack_spent += slack
            _require(
                self.spent <= self.total and self.slack_spent <= self.slack_total, "it overspends the budget"
            )
        else:
            holder = self.held.get(parent)
            _require(holder is not None and holder.envelope and not holder.settled, "its parent is not open")
            assert holder is not None
            holder.units -= units
            holder.slack -= slack
            _require(holder.units >= 0 and holder.slack >= 0, "it overspends its parent")
        self.held[row["key"]] = _Held(units, slack, parent, bool(row["envelope"]))

    def _answer(self, row: Row) -> None:
        held = self.held.get(row["key"])
        _require(held is not None and not held.answered, "it answers nothing that was reserved")
        assert held is not None
        held.answered = True
        self.answers += 1
        data = unpack(row["data"])
        _require(
            data is not None and digest(data) == row["payload_sha256"], "its stored answer is lost or changed"
        )

    def _settle(self, row: Row) -> None:
        held = self.held.get(row["key"])
        _require(held is not None and held.envelope and not held.settled, "it settles no open envelope")
        assert held is not None
        held.settled = True
        holder = None if held.parent is None else self.held[held.parent]
        lost = holder is not None and holder.settled
        back = (0, 0) if lost else (held.units, held.slack)
        _require((row["units"], row["slack"]) == back, "it gives back the wrong amount")
        if holder is not None:
            holder.units += back[0]
            holder.slack += back[1]
        else:
            self.spent -= back[0]
            self.slack_spent -= back[1]


def verify(connection: Connection, *, location: str, receipt: Receipt | None = None) -> Receipt:
    """Read everything; LedgerError names the first entry that is not as it was written."""
    account = read_account(connection, location=location)
    replay = Replay(total=int(account["total"]), slack_total=int(account["slack_total"]))
    met = None
    for row in _rows(connection):
        try:
            if replay.seq == 0:
                _check_opening(row, account)
            replay.take(row)
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
            reason = str(error) if type(error) is ValueError else "its contents cannot be read"
            raise LedgerError(
                f"the ledger {location} was tampered with at entry {replay.seq + 1}: {reason}"
            ) from None
        if receipt is not None and replay.seq == receipt.seq:
            met = replay.head
    _check_account(replay, account, location)
    _check_payloads(connection, replay, location)
    if receipt is not None and met != receipt.head:
        found = "another entry" if met else "no entry"
        raise LedgerError(
            f"the ledger {location} has {found} in the place of the receipt's entry {receipt.seq}: it was cut back, "
            "replaced or forked after the receipt was given; find the copy that holds it"
        )
    return Receipt(replay.seq, replay.head)


def _rows(connection: Connection) -> Iterator[Row]:
    answers = and_(schema.entry.c.kind == "answer", schema.payload.c.key == schema.entry.c.key)
    query = (
        select(schema.entry, schema.payload.c.data)
        .select_from(schema.entry.outerjoin(schema.payload, answers))
        .order_by(schema.entry.c.seq)
    )
    yield from connection.execute(query, execution_options={"yield_per": 200}).mappings()


def _check_opening(row: Row, account: Row) -> None:
    _require(
        row["body"] == canonical(genesis_body(account))
        and (row["units"], row["slack"]) == (account["total"], account["slack_total"]),
        "the account differs from the one that was opened",
    )


def _check_account(replay: Replay, account: Row, location: str) -> None:
    reached = {
        "seq": replay.seq,
        "head": replay.head,
        "spent": replay.spent,
        "slack_spent": replay.slack_spent,
        "commitment": replay.commitment,
    }
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
