"""What the ledger hands out: entries, receipts and the balance."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from maquette import _check
from maquette.accounting.budget import Cost, percent_of
from maquette.errors import ParameterError
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
