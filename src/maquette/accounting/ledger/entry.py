"""What the ledger hands out: entries, receipts and the balance."""

from __future__ import annotations

import hashlib
import json
import warnings
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, Protocol, cast

from sqlalchemy import Connection, bindparam, func, select

from maquette import _check
from maquette.accounting.budget import Cost, percent_of
from maquette.accounting.ledger import schema
from maquette.accounting.ledger.schema import Statement
from maquette.errors import LedgerError, ParameterError
from maquette.receipt import Receipt

EntryKind = Literal["open", "bind", "reserve", "answer", "settle"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One link of the chain. `reserve`, `answer` and `settle` return the reservation, with what became of it."""

    seq: int
    kind: EntryKind
    key: str
    parent: str | None
    tag: str
    request: str
    units: int
    slack: int
    envelope: bool
    """A reservation that only its children spend; `settle` gives back what they left."""
    body: Mapping[str, Any]
    payload_sha256: str | None
    prev: str
    head: str
    created: str
    payload: bytes | None = field(default=None, repr=False)
    """The stored answer, where there is one."""
    answered: Receipt | None = None
    settlement: Receipt | None = None
    fresh: bool = False
    """Was it written by this call, or found?"""

    @property
    def settled(self) -> Receipt | None:
        """Deprecated: use `settlement`."""
        warnings.warn("Entry.settled is now Entry.settlement", DeprecationWarning, stacklevel=2)
        return self.settlement


@dataclass(frozen=True, slots=True)
class Record:
    """A value that an earlier payment covers, to be stored under a new key."""

    key: str
    request: str
    tag: str
    body: Mapping[str, Any]
    payload: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Rate:
    """At most so many new reservations inside an envelope in so many seconds."""

    entries: int
    seconds: int

    def __post_init__(self) -> None:
        _check.whole(entries=self.entries)
        _check.whole(seconds=self.seconds)


@dataclass(frozen=True, slots=True)
class Envelope:
    """An open envelope and what no step of it was charged: settling it gives that back."""

    entry: Entry
    left: Cost


class EntryHead(NamedTuple):
    """Where a reservation stands and what it belongs to."""

    seq: int
    key: str
    parent: str | None
    tag: str


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

    @property
    def left_units(self) -> int:
        return self.total_units - self.spent_units

    @property
    def charged_units(self) -> int:
        """What was paid for steps, for good."""
        return self.spent_units - self.reserved_units

    @property
    def slack_left(self) -> int:
        return self.slack_total - self.slack_spent


def check_words(**values: object) -> None:
    """Each value is a short text that can be stored and shown."""
    for name, value in values.items():
        if not (isinstance(value, str) and 0 < len(value) <= 200 and value.isprintable()):
            raise ParameterError(
                f"expected {name} as 1 to 200 printable characters, got {name}={_check.shown(value)}"
            )


def reserved_note(units: int, total: int) -> str:
    """What a refusal says about reserved amounts, if there are any, in percent of the ledger."""
    if not units:
        return ""
    return (
        f" ({percent_of(units, total)} more is reserved by releases or sessions that have not ended; maquette ledger "
        "settle gives back what they do not need)"
    )


# The hash chain: each entry's head covers every one of its fields and the head before it.

FORMAT = 1
"""The form of the chain."""
NEWEST = 3
"""The newest form of a ledger: 1 counts epsilon or rho, 2 counts mu^2 / 2, 3 protects persons with several records or
was made before its domain: a reader of an older form would charge wrongly."""
GENESIS = "0" * 64

FIELDS: Mapping[str, tuple[type, ...]] = {
    "seq": (int,),
    "kind": (str,),
    "key": (str,),
    "parent": (str, type(None)),
    "tag": (str,),
    "request": (str,),
    "units": (int,),
    "slack": (int,),
    "envelope": (int,),
    "body": (str,),
    "payload_sha256": (str, type(None)),
    "prev": (str,),
    "created": (str,),
}
"""What is hashed, in this order, and the only types that a column may hold."""


class Row(Protocol):
    """A row of a table, by column name."""

    def __getitem__(self, name: str, /) -> Any: ...


def head_of(row: Row) -> str:
    """The SHA-256 of an entry's canonical bytes; ValueError if a column holds what was never written there."""
    for name, types in FIELDS.items():
        if type(row[name]) not in types:
            raise ValueError(name)
    text = json.dumps([row[name] for name in FIELDS], ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(f"maquette-ledger-{FORMAT}\n{text}".encode("ascii")).hexdigest()


def canonical(body: Mapping[str, Any]) -> str:
    """One text per JSON value: sorted keys, no spaces, ASCII."""
    return json.dumps(body, sort_keys=True, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# built once: making a statement costs more than running it
_entry, _payload = schema.entry.c, schema.payload.c
_LAST = Statement(select(schema.entry).order_by(_entry.seq.desc()).limit(1))
_BY_KEY = Statement(
    select(schema.entry).where(_entry.key.in_(bindparam("keys", expanding=True))), many="keys"
)
_PAYLOADS = Statement(
    select(schema.payload).where(_payload.key.in_(bindparam("keys", expanding=True))), many="keys"
)
_RECENT = Statement(
    select(_entry.created)
    .where(_entry.parent == bindparam("parent"))
    .order_by(_entry.seq.desc())
    .limit(bindparam("most"))
)
_ACCOUNT = Statement(select(schema.account))
_LOCKED_ACCOUNT = Statement(select(schema.account).with_for_update())
_HEAD = Statement(select(_entry.head).where(_entry.seq == bindparam("place")))
_NUMBERS = ("format", "total", "spent", "slack_total", "slack_spent", "seq")
_TEXTS = ("name", "unit", "epsilon", "delta", "relation", "domain_fingerprint", "head")


def read_account(connection: Connection, *, location: str, locked: bool = False) -> Mapping[str, Any]:
    """The account's one row, every column of it of the type that was written."""
    rows = (_LOCKED_ACCOUNT if locked else _ACCOUNT).rows(connection)
    if len(rows) != 1:
        raise LedgerError(f"the ledger {location} has lost its account; restore a backup")
    values = rows[0]
    whole = (
        all(type(values[name]) is int and values[name] >= 0 for name in _NUMBERS)
        and all(type(values[name]) is str for name in _TEXTS)
        and type(values["commitment"]) in (str, type(None))
        and type(values["salt"]) is bytes
    )
    if not whole:
        raise LedgerError(f"the ledger {location} is damaged: its account cannot be read; restore a backup")
    return values


def head_at(connection: Connection, seq: int) -> str | None:
    """The head of an entry by its number, None if there is none."""
    heads = _HEAD.tuples(connection, place=seq)
    return str(heads[0][0]) if heads else None


def next_row(kind: str, *, seq: int, prev: str, **values: Any) -> dict[str, Any]:
    """A whole row of the chain: defaults, the time and the head."""
    row: dict[str, Any] = {
        "key": "",
        "parent": None,
        "tag": "",
        "request": "",
        "units": 0,
        "slack": 0,
        "envelope": 0,
        "body": "{}",
        "payload_sha256": None,
    }
    row |= values
    row |= {
        "seq": seq,
        "kind": kind,
        "prev": prev,
        "created": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }
    row["head"] = head_of(row)
    return row


def find_all(connection: Connection, keys: set[str]) -> dict[str, Entry | None]:
    """The reservations under some keys, None where there is none."""
    entries: dict[str, Entry | None] = dict.fromkeys(keys)
    if not keys:
        return entries
    rows: dict[tuple[str, str], Row] = {
        (str(row["key"]), str(row["kind"])): row for row in _BY_KEY.rows(connection, keys=sorted(keys))
    }
    answers = {key: str(row["payload_sha256"]) for (key, kind), row in rows.items() if kind == "answer"}
    payloads = read_payloads(connection, answers)
    for key in keys:
        if (reserved := rows.get((key, "reserve"))) is None:
            continue
        entries[key] = replace(
            to_entry(reserved),
            payload=payloads.get(key),
            payload_sha256=answers.get(key),
            **{
                name: Receipt(int(row["seq"]), str(row["head"]))
                for name, kind in (("answered", "answer"), ("settlement", "settle"))
                if (row := rows.get((key, kind))) is not None
            },
        )
    return entries


def recent(connection: Connection, parent: str, *, since: str, most: int) -> list[str]:
    """Of the last `most` reservations inside an envelope, when those after a time were made; the newest first."""
    rows = _RECENT.tuples(connection, parent=parent, most=most)
    return [str(created) for (created,) in rows if str(created) > since]


def read_payloads(connection: Connection, answers: Mapping[str, str]) -> dict[str, bytes]:
    """The stored answers of some keys, checked against their hashes in the chain."""
    if not answers:
        return {}
    stored = _PAYLOADS.rows(connection, keys=sorted(answers))
    data_of = {str(row["key"]): unpack(row["data"]) for row in stored}
    checked: dict[str, bytes] = {}
    for key, sha256 in answers.items():
        data = data_of.get(key)
        if data is None or digest(data) != sha256:
            raise LedgerError(
                f"the stored answer of key '{key}' is lost or changed; restore a backup and check it against a receipt"
            )
        checked[key] = data
    return checked


def unpack(stored: object) -> bytes | None:
    """The bytes of a stored answer, None if they are no answer of ours."""
    try:
        return zlib.decompress(cast("bytes", stored))
    except (TypeError, zlib.error):
        return None


def to_entry(row: Row) -> Entry:
    try:
        return Entry(
            seq=int(row["seq"]),
            kind=row["kind"],
            key=str(row["key"]),
            parent=row["parent"],
            tag=str(row["tag"]),
            request=str(row["request"]),
            units=int(row["units"]),
            slack=int(row["slack"]),
            envelope=bool(row["envelope"]),
            body=_body_of(row["body"]),
            payload_sha256=row["payload_sha256"],
            prev=str(row["prev"]),
            head=str(row["head"]),
            created=str(row["created"]),
        )
    except (TypeError, ValueError, RecursionError, OverflowError):
        raise LedgerError(
            f"entry {row['seq']!s:.40} of the ledger was edited and cannot be read; run maquette ledger verify"
        ) from None


def _body_of(text: Any) -> dict[str, Any]:
    body = json.loads(text)
    if not isinstance(body, dict):
        raise ValueError("body")
    return cast("dict[str, Any]", body)


def check_head(connection: Connection, *, seq: int, head: str) -> None:
    """The last entry is the one that the account names, and its hash is right."""
    last = next(iter(_LAST.rows(connection)), None)
    try:
        whole = last is not None and last["seq"] == seq and last["head"] == head == head_of(last)
    except ValueError:
        whole = False
    if not whole:
        raise LedgerError(
            f"the end of the ledger's chain is broken at entry {seq}: it was cut or edited; "
            "run maquette ledger verify, or restore a backup and check it against a receipt"
        )


# What open envelopes still hold: reserved for their steps, not charged by any, and given back when they
# settle.


# built once: making a statement costs more than running it
_envelope_entry = schema.entry.c
_child = schema.entry.alias("child").c
_SUMS = select(
    func.coalesce(func.sum(_envelope_entry.units), 0), func.coalesce(func.sum(_envelope_entry.slack), 0)
)
# only reservations have a parent
_CHARGED = Statement(_SUMS.where(_envelope_entry.parent == bindparam("parent")))
_GIVEN_BACK = Statement(
    _SUMS.where(
        _envelope_entry.kind == "settle",
        _envelope_entry.key.in_(select(_child.key).where(_child.parent == bindparam("parent"))),
    )
)
_OPEN = Statement(
    select(schema.entry)
    .where(
        _envelope_entry.kind == "reserve",
        _envelope_entry.envelope == 1,
        _envelope_entry.key.not_in(select(_child.key).where(_child.kind == "settle")),
    )
    .order_by(_envelope_entry.seq)
)


def rest_of(connection: Connection, envelope: Entry) -> Cost:
    """What an envelope has left: its amount, less its children's, plus what settled children gave back."""
    ((units, slack),) = _CHARGED.tuples(connection, parent=envelope.key)
    ((units_back, slack_back),) = _GIVEN_BACK.tuples(connection, parent=envelope.key)
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
    envelopes: dict[str, Envelope] = {}
    for row in _OPEN.rows(connection):
        entry = to_entry(row)
        if entry.parent is None or entry.parent in envelopes:
            envelopes[entry.key] = Envelope(entry, rest_of(connection, entry))
    return list(envelopes.values())


def reserved(connection: Connection) -> Cost:
    """What all open envelopes together hold."""
    return sum((one.left for one in open_envelopes(connection)), Cost(0))
