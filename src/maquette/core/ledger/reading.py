"""The ledger as its readers see it: what it belongs to, what is spent and left, and the chain of its entries."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from sqlalchemy import Connection, bindparam, select

from maquette.core import _check
from maquette.core._arguments import checks_arguments
from maquette.core.budget import UNITS, Budget, Cost, Unit, accounting_of
from maquette.core.conversions import float_down
from maquette.core.errors import LedgerError, MissingReceiptWarning, ParameterError
from maquette.core.ledger import create, folders, schema
from maquette.core.ledger.create import BEFORE_DOMAIN
from maquette.core.ledger.entry import (
    ALL,
    Entry,
    EntryHead,
    EntryKind,
    Receipt,
    Row,
    Statement,
    check_head,
    check_words,
    find_all,
    head_at,
    read_account,
    read_payloads,
    to_entry,
)
from maquette.core.ledger.receipts import RECEIPT, check
from maquette.core.ledger.store import SqliteStore, Store
from maquette.core.ledger.transaction import Envelope, open_envelopes, reserved
from maquette.core.ledger.verify import check_opening, verify
from maquette.core.neighbours import Persons, Relation, from_text

DOMAIN_KEY, RAW_KEY = "(domain)", "(raw table)"
"""Of the entries that declare the domain, and bind the table, of a ledger that was made before its domain."""
_PAGE = 500


class Part(NamedTuple):
    """What is known of the units of one part of a budget."""

    total: int
    charged: int
    """Paid for steps, for good."""
    reserved: int

    @property
    def left(self) -> int:
        return self.total - self.charged - self.reserved


@dataclass(frozen=True, slots=True)
class Balance:
    """The account at one moment; amounts in units and slack units."""

    total_units: int
    spent_units: int
    """Everything that is not left: charged by steps, or reserved."""
    slack_total: int
    slack_spent: int
    head: Receipt
    reserved_units: int
    """The part of it that open envelopes hold and no step was charged; settling them gives it back."""
    slack_reserved: int
    pure_total: int = 0
    """Of the pure part, where the budget has two; and what of it is not left, or reserved."""
    pure_spent: int = 0
    pure_reserved: int = 0

    @property
    def left_units(self) -> int:
        return self.total_units - self.spent_units

    @property
    def charged_units(self) -> int:
        """What was paid for steps, for good."""
        return self.spent_units - self.reserved_units

    def parts(self, unit: Unit) -> dict[Unit, Part]:
        """Each part by what it is counted in, that of the ledger's unit first; a part that is none is left out."""
        whole = {unit: Part(self.total_units, self.charged_units, self.reserved_units)}
        pure = Part(self.pure_total, self.pure_spent - self.pure_reserved, self.pure_reserved)
        if not pure.total:
            return whole
        return (whole if self.total_units else {}) | {Unit.EPSILON: pure}

    @property
    def left(self) -> Cost:
        """All of it, as a cost that can still be paid."""
        return Cost(self.left_units, self.slack_total - self.slack_spent, self.pure_total - self.pure_spent)


_CHILDREN = Statement(
    select(ALL)
    .select_from(schema.entry)
    .where(schema.entry.c.parent == bindparam("holder"), schema.entry.c.seq > bindparam("after"))
    .order_by(schema.entry.c.seq)
    .limit(_PAGE)
)
_HEADS = Statement(
    select(schema.entry.c.seq, schema.entry.c.key, schema.entry.c.parent, schema.entry.c.tag)
    .where(schema.entry.c.kind == "reserve", schema.entry.c.seq > bindparam("after"))
    .order_by(schema.entry.c.seq)
)


class LedgerReader:
    """Reads an append-only account of privacy loss and writes nothing."""

    name: Final[str]
    location: Final[str]
    """Where it is kept, without a password."""
    budget: Final[Budget]
    relation: Final[Relation]
    persons: Final[Persons | None]
    """Whom it protects, where one person has several records; None where everybody has one."""
    salt: Final[bytes]
    """The secret that hides the table in its commitment. Never shown."""
    opened: Final[str]
    """The head of the first entry: which ledger this is, whatever its name and place."""

    def __init__(self, store: Store, *, recovering: bool = False) -> None:
        """`recovering` opens what fell behind its receipt."""
        self._store = store
        self._pid = os.getpid()
        store.check_present()
        state = store.last_state()  # before the state that it must be in
        with store.reading() as connection:
            create.check_schema(connection, location=store.location)
            row = read_account(connection, location=store.location)
            check_head(connection, seq=row["seq"], head=row["head"])
            self.opened = head_at(connection, 1) or ""
            if not recovering:
                check(state, row, partial(head_at, connection), opened=self.opened, location=store.location)
        self._behind = state is not None and state.end.sequence < row["seq"]
        try:
            self.relation, self.persons = from_text(str(row["relation"]))
            self._made_for = str(row["domain_fingerprint"])
            self.budget = Budget(
                float(row["epsilon"]),
                float(row["delta"]),
                accounting_of(str(row["unit"])),
                thresholds=self._made_for == BEFORE_DOMAIN,
                pure_epsilon=float(row.get("pure_epsilon", 0)),
            )
        except (ValueError, TypeError, LookupError, ParameterError):
            raise LedgerError(f"the ledger {store.location} is damaged: its account cannot be read") from None
        with store.reading() as connection:
            check_opening(connection, location=store.location)
        self.name, self.location, self.salt = str(row["name"]), store.location, row["salt"]

    @property
    def domain_fingerprint(self) -> str:
        """Of the domain that it was made for, or that was declared since; else `BEFORE_DOMAIN`."""
        entry = self.find(DOMAIN_KEY) if self._made_for == BEFORE_DOMAIN else None
        return self._made_for if entry is None else str(entry.body["fingerprint"])

    @property
    def awaits_domain(self) -> bool:
        """Was it made before its domain, and is none declared yet?"""
        return self.domain_fingerprint == BEFORE_DOMAIN

    @property
    def raw_table(self) -> tuple[tuple[str, ...], str | None]:
        """The columns that its domain is found from and the commitment to them, once bound."""
        entry = self.find(RAW_KEY) if self._made_for == BEFORE_DOMAIN else None
        if entry is None:
            return (), None
        return tuple(entry.body["columns"]), str(entry.body["commitment"])

    @property
    def commitment(self) -> str | None:
        """The commitment to the table that this ledger belongs to, once bound."""
        commitment = self._account()["commitment"]
        return None if commitment is None else str(commitment)

    @checks_arguments
    def require(self, *, relation: Relation, domain_fingerprint: str, persons: Persons | None = None) -> None:
        """Refuse a table with another domain, relation or bound per person than the ledger was made for."""
        if persons != self.persons:
            raise LedgerError(
                f"ledger '{self.name}' protects {_whom(self.persons)}, and this table was opened for {_whom(persons)}; "
                "open the table in the way that its ledger was made for: one ledger cannot add budgets that protect "
                "different things"
            )
        if relation != self.relation:
            raise LedgerError(
                f"ledger '{self.name}' counts {self.relation} neighbours, not {relation}; ask for "
                f"{self.relation}: one ledger cannot add budgets of different relations"
            )
        if domain_fingerprint != self.domain_fingerprint and not self.awaits_domain:
            raise LedgerError(
                f"ledger '{self.name}' was made for another domain; give the domain file it was made with, "
                "or the table's own ledger. A second ledger for the same people adds to what they have paid"
            )

    def require_raw(self, *, persons: Persons | None) -> None:
        """Refuse raw rows that are bounded for others than the ledger protects, and all once a domain is declared."""
        if not self.awaits_domain:
            raise LedgerError(
                f"ledger '{self.name}' has a domain already, which a discovery cannot change; use that domain. A "
                "discovery comes before the first release"
            )
        self.require(relation=self.relation, domain_fingerprint=BEFORE_DOMAIN, persons=persons)

    def balance(self) -> Balance:
        """What is spent and left at this moment, over all processes."""
        self._own_process()
        with self._store.reading() as connection:
            row = read_account(connection, location=self.location)
            reservations = reserved(connection)
        return Balance(
            total_units=int(row["total"]),
            spent_units=int(row["spent"]),
            slack_total=int(row["slack_total"]),
            slack_spent=int(row["slack_spent"]),
            head=Receipt(int(row["seq"]), str(row["head"])),
            reserved_units=reservations.units,
            slack_reserved=reservations.slack,
            pure_total=int(row.get("pure_total", 0)),
            pure_spent=int(row.get("pure_spent", 0)),
            pure_reserved=reservations.pure,
        )

    def open_envelopes(self) -> list[Envelope]:
        """What releases and sessions that have not ended hold, in the order in which they were opened."""
        self._own_process()
        with self._store.reading() as connection:
            return open_envelopes(connection)

    @property
    def total_units(self) -> int:
        return int(self._account()["total"])

    @property
    def spent_units(self) -> int:
        return int(self._account()["spent"])

    @property
    def left_units(self) -> int:
        row = self._account()
        return int(row["total"]) - int(row["spent"])

    @property
    def slack_total(self) -> int:
        return int(self._account()["slack_total"])

    @property
    def slack_spent(self) -> int:
        return int(self._account()["slack_spent"])

    @property
    def slack_left(self) -> int:
        row = self._account()
        return int(row["slack_total"]) - int(row["slack_spent"])

    def left(self) -> float:
        """What is left, in the budget's unit, rounded down."""
        return float_down(Fraction(self.left_units, UNITS))

    def find(self, key: str) -> Entry | None:
        """The reservation under a key, with its answer if there is one."""
        check_words(key=key)
        self._own_process()
        with self._store.reading() as connection:
            return find_all(connection, {key})[key]

    @checks_arguments
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
        query = select(ALL).select_from(schema.entry).order_by(schema.entry.c.seq).limit(_PAGE)
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

    @checks_arguments
    def children(self, parent: str, *, after: int = 0) -> Iterator[Entry]:
        """The reservations inside an envelope in order, each with its answer, from those after entry `after`."""
        self._own_process()
        while True:
            with self._store.reading() as connection:
                rows = _CHILDREN.rows(connection, holder=parent, after=after)
                entries = find_all(connection, {str(row["key"]) for row in rows})
            yield from (entry for row in rows if (entry := entries[str(row["key"])]) is not None)
            if len(rows) < _PAGE:
                return
            after = int(rows[-1]["seq"])

    @checks_arguments
    def entry_heads(self, *, after: int = 0) -> list[EntryHead]:
        """Key, parent and tag of all reservations after entry `after`, without their contents: quick to read."""
        self._own_process()
        with self._store.reading() as connection:
            return [EntryHead(*row) for row in _HEADS.tuples(connection, after=after)]

    @property
    def last_receipt(self) -> Receipt | None:
        """The receipt in the file beside the ledger, outside of its database."""
        state = self._store.last_state()
        return None if state is None else state.end

    def warn_without_receipt(self) -> None:
        """Say that a file with entries has no receipt beside it: nobody would notice that later ones were lost."""
        has_receipt = not isinstance(self._store, SqliteStore) or self.last_receipt is not None
        if has_receipt or self._account()["seq"] == 1:
            return
        _check.warn(
            f"the ledger {self.location} has entries and no receipt beside it ({Path(self.location).name}{RECEIPT} is "
            "missing or empty): if it was replaced by an older copy, what was paid since is forgotten and nothing "
            "shows it. Put that file back, or check the ledger against a receipt from before (maquette ledger verify "
            "--receipt); the next payment writes a new one",
            MissingReceiptWarning,
        )

    @checks_arguments
    def holds(self, receipt: Receipt) -> bool:
        """Is the receipt's entry in the chain?"""
        self._own_process()
        with self._store.reading() as connection:
            return head_at(connection, receipt.sequence) == receipt.head

    @checks_arguments
    def releases_nearby(self, *places: Path) -> list[tuple[Path, Receipt]]:
        """The release folders beside the ledger's file, and beside `places`, that it paid for; with a receipt each."""
        near = [place.absolute().parent for place in places]
        if isinstance(self._store, SqliteStore):
            near.append(self._store.path.absolute().parent)
        return list(folders.receipts_in(dict.fromkeys(near), opened=self.opened))

    @checks_arguments
    def check_releases(self, *places: Path) -> None:
        """Refuse a ledger that lacks a receipt of the releases near it: what they paid could be spent again."""
        for folder, receipt in self.releases_nearby(*places):
            if not self.holds(receipt):
                raise LedgerError(
                    f"the ledger {self.location} lacks entry {receipt.sequence}, whose receipt is in {folder}: it was "
                    "cut back or replaced by an older copy after that release; put back the newest copy of the ledger"
                )

    @checks_arguments
    def receipt(self, entry: Entry | None = None) -> Receipt:
        """The place of an entry (of its answer, if it has one) in the chain; without an entry, the end."""
        if entry is None:
            row = self._account()
            return Receipt(int(row["seq"]), str(row["head"]))
        return entry.answered or Receipt(entry.seq, entry.head)

    @checks_arguments
    def verify(self, receipt: Receipt | None = None) -> Receipt:
        """Read the whole chain again and return its end; LedgerError names the first entry that is wrong.

        Finds edits, cuts and reordering by itself; that the ledger was replaced by an older or another version of
        itself is found with a receipt from before: the one beside it, those of release folders beside it, or a given
        one.
        """
        self._own_process()
        state = self._store.last_state()
        with self._store.reading() as connection:
            row = read_account(connection, location=self.location)
            check(state, row, partial(head_at, connection), opened=self.opened, location=self.location)
            end = verify(connection, location=self.location, receipt=receipt)
            self._store.check_pages(connection)
        self.check_releases()
        return end

    def close(self) -> None:
        """Close the connections. Nothing is lost without it; a ledger in memory is forgotten."""
        if self._pid == os.getpid():
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.budget}, {self.relation}, at {self.location})"

    def _account(self) -> Mapping[str, Any]:
        self._own_process()
        with self._store.reading() as connection:
            return read_account(connection, location=self.location)

    def _own_process(self) -> None:
        """After a fork, use no lock and no connection of the parent."""
        if self._pid == os.getpid():
            return
        if not self._store.crosses_fork:
            raise LedgerError(
                "a ledger in memory cannot be shared with a forked process; give the ledger a file"
            )
        self._leave_parent()
        self._pid = os.getpid()  # last: until then other threads of the child have to leave too

    def _leave_parent(self) -> None:
        self._store.abandon()


def _whom(persons: Persons | None) -> str:
    return "single records" if persons is None else str(persons)


def _with_payload(connection: Connection, row: Row) -> Entry:
    entry = to_entry(row)
    if entry.kind != "answer" or entry.payload_sha256 is None:
        return entry
    data = read_payloads(connection, {entry.key: entry.payload_sha256})
    return replace(entry, payload=data[entry.key], answered=Receipt(entry.seq, entry.head))
