"""The hash chain: each entry's head covers every one of its fields and the head before it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Protocol

FORMAT = 1
"""The form of the chain."""
NEWEST = 2
"""The newest form of a ledger: 1 counts epsilon or rho, 2 counts mu^2 / 2, which a reader of 1 would charge wrongly."""
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
