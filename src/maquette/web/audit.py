"""Who asked what: a file of lines, each chained to the one before it and to the end of the ledger at that time.

Written by the worker, which the web front cannot reach into. A line is in the file before the reply leaves; it is
forced to the disk where something was paid, together with all lines that wait for that at the same time. The ledger
itself stays the account of what was spent.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maquette.core.events import Receipt
from maquette.errors import LedgerError

if TYPE_CHECKING:
    from maquette.accounting.ledger import Ledger

GENESIS = "0" * 64
BEFORE_LEDGER = Receipt(0, GENESIS)
"""What lines name that were written before the table had a ledger."""
FIELDS = ("number", "when", "who", "role", "action", "detail", "ledger", "prev")
_TAIL = 1 << 19
"""More bytes than a line has: a request of 64 KiB takes at most three times as many here."""


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One thing that somebody did."""

    number: int
    when: str
    who: str
    role: str
    action: str
    detail: dict[str, Any]
    ledger: str
    """The end of the ledger's chain at that time: `SEQUENCE:HEAD`."""
    prev: str
    head: str

    @property
    def receipt(self) -> Receipt:
        """The place in the ledger that the line names."""
        return BEFORE_LEDGER if self.ledger == str(BEFORE_LEDGER) else Receipt.parse(self.ledger)

    @classmethod
    def parse(cls, text: str) -> AuditLine:
        line = cls(**json.loads(text))
        if line.head != _head({name: getattr(line, name) for name in FIELDS}):
            raise ValueError(line.number)
        return line


class AuditLog:
    """One file, appended to by one writer at a time, also among processes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mutex = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._size, self._number, self._last = -1, 0, GENESIS
        self._reached: Receipt | None = None
        """The end of the ledger in the last line."""
        self._disk = threading.Lock()
        self._durable = 0
        """So many bytes of the file are on the disk for certain."""

    def write(
        self,
        who: str,
        role: str,
        action: str,
        detail: dict[str, Any],
        receipt: Receipt,
        *,
        is_paid: bool = False,
    ) -> None:
        """One more line; on the disk when this returns if something was paid.

        Of two that are written at the same time, the second names the later end of the ledger, whoever read it.
        """
        try:
            end = self._append(who, role, action, detail, receipt)
            if is_paid:
                self._wait_for_disk(end)
        except OSError as error:
            raise LedgerError(f"cannot write the audit log: {error.strerror}") from None

    def _append(self, who: str, role: str, action: str, detail: dict[str, Any], receipt: Receipt) -> int:
        """Write a line; where it ends in the file."""
        with self._mutex:
            fcntl.flock(self._handle, fcntl.LOCK_EX)
            try:
                self._catch_up()
                if self._reached is not None and receipt.sequence < self._reached.sequence:
                    receipt = self._reached
                fields: dict[str, Any] = {
                    "number": self._number + 1,
                    "when": datetime.now(UTC).isoformat(timespec="milliseconds"),
                    "who": who,
                    "role": role,
                    "action": action,
                    "detail": detail,
                    "ledger": str(receipt),
                    "prev": self._last,
                }
                head = _head(fields)
                data = json.dumps(fields | {"head": head}, ensure_ascii=True).encode() + b"\n"
                if os.write(self._handle, data) < len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                self._size, self._number, self._last = self._size + len(data), self._number + 1, head
                self._reached = receipt
                return self._size
            finally:
                fcntl.flock(self._handle, fcntl.LOCK_UN)

    def _wait_for_disk(self, end: int) -> None:
        """Until the file is on the disk up to a place: one waits for the disk on behalf of all that wait."""
        with self._disk:
            if self._durable < end:
                written = self._size
                os.fdatasync(self._handle)
                self._durable = written

    def _catch_up(self) -> None:
        """Take in what another process wrote; cut off a line that a crash left half written."""
        size = os.fstat(self._handle).st_size
        if size == self._size:
            return
        start = max(size - _TAIL, 0)
        tail = os.pread(self._handle, size - start, start)
        whole = tail[: tail.rfind(b"\n") + 1]
        if len(whole) < len(tail):
            os.ftruncate(self._handle, start + len(whole))
        lines = whole.splitlines()
        if lines:
            try:
                last = AuditLine.parse(lines[-1].decode())
            except (ValueError, TypeError):
                raise LedgerError("the end of the audit log was edited; look at it before going on") from None
            self._number, self._last, self._reached = last.number, last.head, last.receipt
        elif size > _TAIL:
            raise LedgerError("the end of the audit log was edited; look at it before going on")
        self._size = start + len(whole)

    def lines(self) -> Iterator[AuditLine]:
        """All lines, each checked by itself."""
        with self._path.open("r", encoding="ascii", errors="replace") as stream:
            for place, text in enumerate(stream, start=1):
                try:
                    yield AuditLine.parse(text)
                except (ValueError, TypeError):
                    raise LedgerError(f"line {place} of the audit log was edited") from None

    def newest(self, *, before: int | None = None, limit: int = 50) -> list[AuditLine]:
        """The last lines, the newest first."""
        chosen = [line for line in self.lines() if before is None or line.number < before]
        return chosen[::-1][:limit]

    def verify(self, ledger: Ledger) -> int:
        """Read the whole log, against its own chain and the ledger's; how many lines there are."""
        prev, number, reached = GENESIS, 0, 0
        for line in self.lines():
            receipt = line.receipt
            if line.prev != prev or line.number != number + 1:
                raise LedgerError(f"the audit log was cut or reordered before line {number + 1}")
            if receipt.sequence < reached:
                raise LedgerError(
                    f"line {line.number} of the audit log has an earlier time than the line before it"
                )
            if receipt.sequence != reached and not ledger.holds(receipt):
                raise LedgerError(
                    f"line {line.number} of the audit log names an entry that the ledger does not hold: one of the two "
                    "was replaced by another version of itself"
                )
            prev, number, reached = line.head, line.number, receipt.sequence
        return number


def _head(fields: dict[str, Any]) -> str:
    text = json.dumps(
        [fields[name] for name in FIELDS], sort_keys=True, ensure_ascii=True, separators=(",", ":")
    )
    return hashlib.sha256(f"maquette-audit-1\n{text}".encode("ascii")).hexdigest()
