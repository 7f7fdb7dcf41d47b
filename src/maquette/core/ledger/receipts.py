"""The last receipt, kept outside of the database: a ledger that fell behind it has lost entries that were paid for.

A file beside the ledger says where the chain ended after the last commit and what was spent then. It is written after
the commit is durable and before anybody acts on it, in turn (see below), so it is never ahead of the ledger and
never goes back. Two slots are written by turns, each with its own digest: a write that is cut short leaves the other.

Receipts of earlier commits are kept too, the more sparsely the older (each about twice as far back as the next): they
tell how far a copy that fell behind agrees with the lost one.

*Taking turns.* Writers of all processes go one at a time, in the order in which they came. SQLite's own lock has no
queue: whoever tries at the right moment gets it, and a process that has just written gets it again while others wait
for seconds. So writers first pass a gate of two locks. They wait for the first one (which the kernel hands on in
order), holding it wait for the second, let the first go, write, and let the second go. A writer that has just finished
is behind everybody who waited meanwhile. The kernel frees the locks of a process that dies.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from maquette.core.errors import LedgerError, ParameterError
from maquette.core.ledger.entry import Receipt, canonical

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
    pure_spent: int | None = None
    """Of the pure part, where the ledger has one."""

    def followed_by(self, new: ChainState) -> ChainState:
        """The next end, with this one among the earlier."""
        sparse = [self.end]
        for place, one in enumerate(self.earlier, start=1):
            older = self.earlier[place] if place < len(self.earlier) else None
            if older is None or new.end.sequence - older.sequence > 2 * (
                new.end.sequence - sparse[-1].sequence
            ):
                sparse.append(one)
        return replace(new, earlier=tuple(sparse))

    def pack(self) -> bytes:
        text = canonical(
            {
                "opened": self.opened,
                "end": str(self.end),
                "spent": self.spent,
                "slack_spent": self.slack_spent,
                "earlier": [str(one) for one in self.earlier],
            }
            | ({} if self.pure_spent is None else {"pure_spent": self.pure_spent})
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
                pure_spent=int(fields["pure_spent"]) if "pure_spent" in fields else None,
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
        """The newest whole slot, None where nothing was ever kept; LedgerError if neither slot is whole.

        A file that is shorter than one slot was cut off in its first write, before anybody acted on it.
        """
        for _ in range(_ATTEMPTS):
            raw = os.pread(handle, 2 * SLOT, 0) if handle is not None else self._bytes()
            if raw == self._raw:
                return self._state
            slots = [ChainState.unpack(raw[:SLOT]), ChainState.unpack(raw[SLOT:])]
            whole = [one for one in slots if one is not None]
            if whole or len(raw) < SLOT:
                self._state = max(whole, key=lambda one: one.end.sequence, default=None)
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
        slot, place, first = state.pack(), SLOT - self._newest, len(self._raw) < SLOT
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
    account: Mapping[str, Any],
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
    if end.sequence > account["seq"]:
        raise LedgerError(
            f"the ledger {location} ends at entry {account['seq']}, but its receipt says that entry {end.sequence} was "
            f"written: entries that were paid for are lost, by damage or by an older copy. {_WAY_OUT}"
        )
    if end.sequence < account["seq"]:
        same = head_at(end.sequence) == end.head
    else:
        pure = account.get("pure_spent")
        here = (*(account[name] for name in ("head", "spent", "slack_spent")), pure)
        same = (end.head, state.spent, state.slack_spent, state.pure_spent) == here
    if not same:
        raise LedgerError(
            f"the ledger {location} is not the one that its receipt knows: entry {end.sequence} or the account was "
            f"changed or replaced. {_WAY_OUT}"
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


SECONDS = 120.0
"""How long a writer waits for the others."""
RECEIPT = ".receipt"
"""How the file with a ledger's last receipt ends."""


class Turn:
    """The queue of one ledger file: locks on two files beside it, its queue and its receipt."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handles: tuple[int, int] | None = None
        self._mutex = threading.Lock()

    @contextmanager
    def acquired(self) -> Generator[int]:
        """Wait for the turn and keep it, with a handle of the receipt; LedgerError if nobody gives way."""
        with self._mutex:
            handles = self._opened()
            try:
                _take(handles)
            except OSError as error:
                self._handles = None
                raise LedgerError(f"cannot use the ledger {self._path}: {lock_trouble(error)}") from None
            except BaseException:
                self._handles = None  # the locks may still be waited for; they are let go with their handles
                raise
            try:
                yield handles[1]
            finally:
                fcntl.flock(handles[1], fcntl.LOCK_UN)

    def forget(self) -> None:
        """Open the files again for the next turn; after a fork their locks would be the parent's."""
        handles, self._handles, self._mutex = self._handles, None, threading.Lock()
        for handle in handles or ():
            with suppress(OSError):
                os.close(handle)

    def _opened(self) -> tuple[int, int]:
        if self._handles is not None and not all(os.fstat(handle).st_nlink for handle in self._handles):
            self.forget()  # a file was removed or replaced: another process would wait at the new one
        if self._handles is None:
            self._handles = (_open_beside(self._path, ".queue"), _open_beside(self._path, RECEIPT))
        return self._handles


def _take(handles: tuple[int, int]) -> None:
    """Both locks in order, then the first is let go."""
    queue, turn = handles
    try:
        fcntl.flock(queue, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(queue, fcntl.LOCK_UN)
    except BlockingIOError:
        _Waiting(handles).join()


class _Waiting:
    """A thread that waits for the locks, because waiting for a lock knows no time limit."""

    def __init__(self, handles: tuple[int, int]) -> None:
        self._handles = handles
        self._mutex = threading.Lock()
        self._done = threading.Event()
        self._error: OSError | None = None
        self._left = False

    def join(self) -> None:
        threading.Thread(target=self._wait, daemon=True).start()
        try:
            if not self._done.wait(SECONDS):
                raise LedgerError(
                    f"cannot use the ledger: another process has held it for {SECONDS:.0f} s; end that process and ask "
                    "again"
                )
            if self._error is not None:
                raise self._error
        except BaseException:
            with self._mutex:
                self._left = True
                if self._done.is_set():
                    self._close()
            raise

    def _wait(self) -> None:
        queue, turn = self._handles
        try:
            fcntl.flock(queue, fcntl.LOCK_EX)
            fcntl.flock(turn, fcntl.LOCK_EX)
            fcntl.flock(queue, fcntl.LOCK_UN)
        except OSError as error:
            self._error = error
        with self._mutex:
            self._done.set()
            if self._left:
                self._close()

    def _close(self) -> None:
        for handle in self._handles:
            with suppress(OSError):
                os.close(handle)


def _open_beside(path: Path, tail: str) -> int:
    """A file beside the ledger, for whom the ledger is."""
    place = path.with_name(path.name + tail)
    try:
        with suppress(FileNotFoundError):
            return os.open(place, os.O_RDWR)
        mode = path.stat().st_mode & 0o666
        handle = os.open(place, os.O_RDWR | os.O_CREAT, mode)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise LedgerError(
                f"cannot use the ledger {path}: the file or its directory is read-only; make both writable"
            ) from None
        raise
    with suppress(OSError):
        os.fchmod(handle, mode)
    return handle


def lock_trouble(error: OSError) -> str:
    """What to say where a lock is not held by anybody and still not given."""
    name = errno.errorcode.get(error.errno or 0, type(error).__name__)
    return (
        f"the file system it lies on cannot lock files ({name}), as is common on network shares; keep the ledger on a "
        "local disk, or in PostgreSQL"
    )


def locks_fail(path: Path) -> str | None:
    """Why locks of the kind that SQLite takes fail beside a ledger; it takes that for the lock of another process."""
    try:
        handle = _open_beside(path, ".queue")
    except (OSError, LedgerError):
        return None
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # nobody else takes this kind here
        fcntl.lockf(handle, fcntl.LOCK_UN)
    except OSError as error:
        return None if error.errno == errno.EAGAIN else lock_trouble(error)
    finally:
        os.close(handle)
    return None
