"""Entries, the hash chain that they form, and how they are read from the database."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, Protocol, cast

from sqlalchemy import (
    ColumnClause,
    Connection,
    Executable,
    bindparam,
    literal_column,
    select,
)
from sqlalchemy.dialects import sqlite

from maquette.core import _check
from maquette.core.budget import Cost
from maquette.core.errors import LedgerError, ParameterError
from maquette.core.events import Receipt
from maquette.core.ledger import schema

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
    pure: int = 0
    """What it charges to the pure part of a ledger in two parts."""

    @property
    def cost(self) -> Cost:
        """All that it charges, or gives back."""
        return Cost(self.units, self.slack, self.pure)


@dataclass(frozen=True, slots=True)
class Record:
    """A value that an earlier payment covers, to be stored under a new key; without it, a look to be begun."""

    key: str
    request: str
    tag: str
    body: Mapping[str, Any]
    payload: bytes = field(default=b"", repr=False)

    @classmethod
    def step(cls, envelope: str, number: int, ask: str, body: Mapping[str, Any]) -> Record:
        """A step of an envelope, which is known by what its body says."""
        return cls(step_key(envelope, number), digest(json.dumps(body, sort_keys=True).encode()), ask, body)


def step_key(envelope: str, number: int) -> str:
    """The key of a step of an envelope."""
    return f"{envelope}/{number:04d}"


class EntryHead(NamedTuple):
    """Where a reservation stands and what it belongs to."""

    seq: int
    key: str
    parent: str | None
    tag: str


def check_words(**values: object) -> None:
    """Each value is a short text that can be stored and shown."""
    for name, value in values.items():
        if not (isinstance(value, str) and 0 < len(value) <= 200 and value.isprintable()):
            raise ParameterError(
                f"expected {name} as 1 to 200 printable characters, got {name}={_check.shown(value)}"
            )


# The hash chain: each entry's head covers every one of its fields and the head before it.

FORMAT = 1
"""The form of the chain."""
GAUSSIAN_FORMAT, PERSONS_FORMAT, PARTS_FORMAT = 2, 3, 4
"""Forms of a ledger beside the first, which counts epsilon or rho: it counts mu^2 / 2, protects persons with several
records or was made before its domain, has two parts. A reader of an older form would charge wrongly."""
NEWEST = PARTS_FORMAT
"""The newest form of a ledger."""
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
_TWO_PARTS = {**FIELDS, "pure": (int,)}
"""The same of a ledger in two parts."""


class Row(Protocol):
    """A row of a table, by column name."""

    def __getitem__(self, name: str, /) -> Any: ...

    def __contains__(self, name: object, /) -> bool: ...


def amounts_of(row: Row) -> tuple[int, int, int]:
    """Units, slack and pure units of an entry."""
    return int(row["units"]), int(row["slack"]), int(row["pure"]) if "pure" in row else 0


def head_of(row: Row) -> str:
    """The SHA-256 of an entry's canonical bytes; ValueError if a column holds what was never written there."""
    fields = _TWO_PARTS if "pure" in row else FIELDS
    for name, types in fields.items():
        if type(row[name]) not in types:
            raise ValueError(name)
    text = json.dumps([row[name] for name in fields], ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(f"maquette-ledger-{FORMAT}\n{text}".encode("ascii")).hexdigest()


def canonical(body: Mapping[str, Any]) -> str:
    """One text per JSON value: sorted keys, no spaces, ASCII."""
    return json.dumps(body, sort_keys=True, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# Statements that are put into words once. SQLAlchemy takes longer to run one than SQLite does, and a ledger runs many.
#
# For SQLite the text goes to the driver as it is, with its values in order; elsewhere SQLAlchemy runs the clause. What
# comes back is the same: rows as dictionaries.

_SQLITE = sqlite.dialect(paramstyle="qmark")


class Statement:
    """One clause with named values; a `bindparam(..., expanding=True)` takes a list."""

    def __init__(self, clause: Any, *, many: str | None = None, columns: Sequence[str] | None = None) -> None:
        """`many` names the value that is a list; `columns` are those that an update sets."""
        self._clause: Executable = clause
        self._many = many
        self._columns = None if columns is None else list(columns)
        self._texts: dict[int, tuple[str, tuple[str, ...], dict[str, Any]]] = {}
        """For a number of values in the list: text, names of its values in order, values that are part of it."""

    def rows(self, connection: Connection, **values: Any) -> list[dict[str, Any]]:
        """All rows by the names of their columns."""
        if connection.dialect.name != "sqlite":
            result = connection.execute(self._clause, values).mappings()
            return [dict(cast("Mapping[str, Any]", row)) for row in result]
        cursor = self._run(connection, values)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]

    def tuples(self, connection: Connection, **values: Any) -> list[tuple[Any, ...]]:
        """All rows, in the order of their columns."""
        if connection.dialect.name != "sqlite":
            return [tuple(row) for row in connection.execute(self._clause, values)]
        return self._run(connection, values).fetchall()

    def write(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert or update, once for each of the rows."""
        if connection.dialect.name != "sqlite":
            connection.execute(self._clause, [dict(row) for row in rows])
            return
        text, names, _ = self._text(0)
        driver(connection).executemany(text, ([row[name] for name in names] for row in rows))

    def _run(self, connection: Connection, values: dict[str, Any]) -> sqlite3.Cursor:
        members: Sequence[Any] = () if self._many is None else values[self._many]
        text, names, fixed = self._text(len(members))
        named = fixed | values | {f"{self._many}_{i}": one for i, one in enumerate(members, start=1)}
        return driver(connection).execute(text, [named[name] for name in names])

    def _text(self, size: int) -> tuple[str, tuple[str, ...], dict[str, Any]]:
        if size not in self._texts:
            clause, fixed = cast("Any", self._clause), dict[str, Any]()
            if self._many is None:
                compiled = clause.compile(dialect=_SQLITE, column_keys=self._columns)
                fixed = dict(compiled.params)
            else:
                clause = clause.params({self._many: list(range(size))})
                compiled = clause.compile(dialect=_SQLITE, compile_kwargs={"render_postcompile": True})
            self._texts[size] = (str(compiled), tuple(compiled.positiontup or ()), fixed)
        return self._texts[size]


def driver(connection: Connection) -> sqlite3.Connection:
    """The connection of SQLite's own driver, inside the same transaction."""
    return cast("sqlite3.Connection", connection.connection.dbapi_connection)


# built once: making a statement costs more than running it
_entry, _payload = schema.entry.c, schema.payload.c
ALL = cast("ColumnClause[Any]", literal_column("*"))
"""Every column that the ledger has, of one part or of two."""
_LAST = Statement(select(ALL).select_from(schema.entry).order_by(_entry.seq.desc()).limit(1))
_BY_KEY = Statement(
    select(ALL).select_from(schema.entry).where(_entry.key.in_(bindparam("keys", expanding=True))),
    many="keys",
)
_PAYLOADS = Statement(
    select(schema.payload).where(_payload.key.in_(bindparam("keys", expanding=True))), many="keys"
)
_ACCOUNT = Statement(select(ALL).select_from(schema.account))
_LOCKED_ACCOUNT = Statement(select(ALL).select_from(schema.account).with_for_update())
_HEAD = Statement(select(_entry.head).where(_entry.seq == bindparam("place")))
_NUMBERS = ("format", "total", "spent", "slack_total", "slack_spent", "seq", "pure_total", "pure_spent")
_TEXTS = ("name", "unit", "epsilon", "delta", "relation", "domain_fingerprint", "head", "pure_epsilon")


def read_account(connection: Connection, *, location: str, locked: bool = False) -> Mapping[str, Any]:
    """The account's one row, every column of it of the type that was written."""
    rows = (_LOCKED_ACCOUNT if locked else _ACCOUNT).rows(connection)
    if len(rows) != 1:
        raise LedgerError(f"the ledger {location} has lost its account; restore a backup")
    values = rows[0]
    whole = (
        (values["format"] == PARTS_FORMAT) == ("pure_total" in values)
        and all(type(values[name]) is int and values[name] >= 0 for name in _NUMBERS if name in values)
        and all(type(values[name]) is str for name in _TEXTS if name in values)
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


def next_row(kind: str, *, seq: int, prev: str, pure: int | None = None, **values: Any) -> dict[str, Any]:
    """A whole row of the chain: defaults, the time unless it is given, and the head; `pure` in two parts."""
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
    row |= {} if pure is None else {"pure": pure}
    row |= {"created": datetime.now(UTC).isoformat(timespec="milliseconds")} | values
    row |= {"seq": seq, "kind": kind, "prev": prev}
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
        body = json.loads(row["body"])
        if not isinstance(body, dict):
            raise TypeError("body")
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
            body=cast("dict[str, Any]", body),
            payload_sha256=row["payload_sha256"],
            prev=str(row["prev"]),
            head=str(row["head"]),
            created=str(row["created"]),
            pure=amounts_of(row)[2],
        )
    except (TypeError, ValueError, RecursionError, OverflowError):
        raise LedgerError(
            f"entry {row['seq']!s:.40} of the ledger was edited and cannot be read; run maquette ledger verify"
        ) from None


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
