"""Taking turns: writers of all processes go one at a time, in the order in which they came.

SQLite's own lock has no queue: whoever tries at the right moment gets it, and a process that has just written gets it
again while others wait for seconds. So writers first pass a gate of two locks. They wait for the first one (which the
kernel hands on in order), holding it wait for the second, let the first go, write, and let the second go. A writer that
has just finished is behind everybody who waited meanwhile. The kernel frees the locks of a process that dies.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from maquette.errors import LedgerError

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
