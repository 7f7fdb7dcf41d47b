"""The last receipt, kept outside of the database: a ledger that fell behind it has lost entries that were paid for.

A file beside the ledger says where the chain ended after the last commit and what was spent then. It is written after
the commit is durable and before anybody acts on it, in turn (see `turn.py`), so it is never ahead of the ledger and
never goes back. Two slots are written by turns, each with its own digest: a write that is cut short leaves the other.

Receipts of earlier commits are kept too, the more sparsely the older (each about twice as far back as the next): they
tell how far a copy that fell behind agrees with the lost one.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maquette.accounting.ledger.entry import Receipt, Row, canonical
from maquette.accounting.ledger.turn import RECEIPT
from maquette.errors import LedgerError, ParameterError

SLOT = 8192
_MARK = b"maquette-receipt-1 "
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class ChainState:
    """The end of a ledger's chain as it was last seen."""

    opened: str
    """The head of the first entry: which ledger it is."""
    end: Receipt
    spent: int
    slack_spent: int
    earlier: tuple[Receipt, ...] = ()
    """Ends before that, the newest first."""

    def followed_by(self, new: ChainState) -> ChainState:
        """The next end, with this one among the earlier."""
        sparse = [self.end]
        for place, one in enumerate(self.earlier, start=1):
            older = self.earlier[place] if place < len(self.earlier) else None
            if older is None or new.end.seq - older.seq > 2 * (new.end.seq - sparse[-1].seq):
                sparse.append(one)
        return ChainState(new.opened, new.end, new.spent, new.slack_spent, tuple(sparse))

    def pack(self) -> bytes:
        text = canonical(
            {
                "opened": self.opened,
                "end": str(self.end),
                "spent": self.spent,
                "slack_spent": self.slack_spent,
                "earlier": [str(one) for one in self.earlier],
            }
        ).encode("ascii")
        whole = _MARK + hashlib.sha256(text).hexdigest().encode("ascii") + b"\n" + text
        if len(whole) >= SLOT:
            raise AssertionError("a receipt is longer than the room that is set aside for it")
        return whole.ljust(SLOT - 1) + b"\n"

    @classmethod
    def unpack(cls, slot: bytes) -> ChainState | None:
        """What a slot holds, None if it was not written whole."""
        line, _, text = slot.partition(b"\n")
        text = text.strip()
        if line != _MARK + hashlib.sha256(text).hexdigest().encode("ascii"):
            return None
        try:
            fields: dict[str, Any] = json.loads(text)
            return cls(
                opened=str(fields["opened"]),
                end=Receipt.parse(fields["end"]),
                spent=int(fields["spent"]),
                slack_spent=int(fields["slack_spent"]),
                earlier=tuple(Receipt.parse(one) for one in fields["earlier"]),
            )
        except (ValueError, TypeError, LookupError, ParameterError):
            return None


class ReceiptFile:
    """The file beside one ledger."""

    def __init__(self, ledger: Path) -> None:
        self.path = ledger.with_name(ledger.name + RECEIPT)
        self._raw = b""
        self._state: ChainState | None = None
        self._newest = SLOT
        """Where the newest slot begins."""

    def read(self, handle: int | None = None) -> ChainState | None:
        """The newest whole slot, None where nothing was ever kept; LedgerError if neither slot is whole."""
        for _ in range(_ATTEMPTS):
            raw = os.pread(handle, 2 * SLOT, 0) if handle is not None else self._bytes()
            if raw == self._raw:
                return self._state
            slots = [ChainState.unpack(raw[:SLOT]), ChainState.unpack(raw[SLOT:])]
            whole = [one for one in slots if one is not None]
            if whole or not raw:
                self._state = max(whole, key=lambda one: one.end.seq, default=None)
                self._newest = 0 if self._state is not None and self._state == slots[0] else SLOT
                self._raw = raw
                return self._state
            time.sleep(0.01)  # out of turn, a reader may meet both slots while they are written
        raise LedgerError(
            f"the receipt {self.path} is damaged; put a backup of that file back, or check the ledger against the "
            "receipt of a release (maquette ledger verify --release) and then move that file away"
        )

    def write(self, handle: int, state: ChainState) -> None:
        """Keep it, durably; the slot with the older receipt gives way. Only in turn."""
        slot, place, first = state.pack(), SLOT - self._newest, not self._raw
        os.pwrite(handle, slot, place)
        getattr(os, "fdatasync", os.fsync)(handle)
        if first:
            sync(self.path.parent)
        raw = self._raw.ljust(SLOT + place, b"\0")
        self._raw = raw[:place] + slot + raw[place + SLOT :]
        self._state, self._newest = state, place

    def replace(self, handle: int, state: ChainState) -> None:
        """Keep it and forget every other, also a newer one: for a ledger that was recovered. Only in turn."""
        for _ in range(2):
            self.write(handle, state)

    def _bytes(self) -> bytes:
        try:
            return self.path.read_bytes()[: 2 * SLOT]
        except FileNotFoundError:
            return b""


def check(
    state: ChainState | None,
    account: Row,
    head_at: Callable[[int], str | None],
    *,
    opened: str,
    location: str,
) -> None:
    """Refuse a ledger that does not hold what its receipt says was in it."""
    if state is None:
        return
    if state.opened != opened:
        raise LedgerError(
            f"the receipt beside the ledger {location} is that of another ledger; put the right ledger back, or move "
            f"{Path(location).name}{RECEIPT} away"
        )
    end = state.end
    if end.seq > account["seq"]:
        raise LedgerError(
            f"the ledger {location} ends at entry {account['seq']}, but its receipt says that entry {end.seq} was "
            f"written: entries that were paid for are lost, by damage or by an older copy. {_WAY_OUT}"
        )
    if end.seq < account["seq"]:
        same = head_at(end.seq) == end.head
    else:
        same = (end.head, state.spent, state.slack_spent) == tuple(
            account[name] for name in ("head", "spent", "slack_spent")
        )
    if not same:
        raise LedgerError(
            f"the ledger {location} is not the one that its receipt knows: entry {end.seq} or the account was changed "
            f"or replaced. {_WAY_OUT}"
        )


_WAY_OUT = (
    "Put back the newest copy of the ledger; if there is none, maquette ledger recover charges what is lost and "
    "goes on"
)


def sync(path: Path) -> None:
    """Wait until a file or the names in a folder are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
