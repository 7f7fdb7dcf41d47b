"""Putting a folder or a file into its place: whole or not at all, also if the process is killed at any moment.

It is written as a draft beside its place, `.NAME.xxxx.part`, on which its writer holds a lock as long as it lives. An
older folder steps aside first, as `.NAME.xxxx.part.old`: whoever finds the place empty waits for a writer that lives,
and puts the older folder back where it does not. The next writer to the place clears away drafts without a writer.
"""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # without locks nobody can tell whether a draft has a writer, and none is cleared away
    fcntl = None

PART = ".part"
OLD = ".part.old"
SWAP_SECONDS = 0.5
"""How long a reader waits for a writer between its two renames, which follow each other at once."""


@contextlib.contextmanager
def draft(path: Path) -> Iterator[Path]:
    """A new folder beside a place, to be filled and moved there; gone afterwards, whatever happened."""
    path.parent.mkdir(parents=True, exist_ok=True)
    recover(path)
    _clear(path)
    place, lock = _locked_folder(path)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        _unlock(lock)


def move(place: Path, path: Path) -> None:
    """A finished draft into its place; what was there before is gone."""
    place.chmod(0o777 & ~_umask())
    sync(place)
    if path.exists():
        _step_aside(place, path)
    else:
        place.rename(path)
    sync(path.parent)


def recover(path: Path) -> None:
    """Put an older folder back that a killed writer had moved aside and not replaced."""
    until = time.monotonic() + SWAP_SECONDS
    while not path.exists():
        drafts = [draft for old in _named(path, OLD) if (draft := old.with_suffix("")).exists()]
        for place, lock in ((place, _lock(place)) for place in drafts):
            if lock is not None:
                with contextlib.suppress(OSError):
                    place.with_name(f"{place.name}.old").rename(path)
                _unlock(lock)
                return
        if not drafts or time.monotonic() > until:
            return
        time.sleep(0.01)


def write_text(path: Path, text: str, *, mode: int = 0o666) -> None:
    """Write one text file, whole or not at all; what is there and no file (a pipe, a device) is written to as it is."""
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    _clear(path)
    place, handle = _locked_file(path)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            place.chmod(mode & ~_umask())
            place.replace(path)
    except OSError:
        place.unlink(missing_ok=True)
        raise


def sync(path: Path) -> None:
    """Wait until a file or the names in a folder are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _locked_folder(path: Path) -> tuple[Path, int | None]:
    """A draft with this process as its writer; one that was cleared away before the lock was taken does not count."""
    while True:
        place = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=PART, dir=path.parent))
        lock = _lock(place)
        if lock is None or place.exists():
            return place, lock
        _unlock(lock)


def _locked_file(path: Path) -> tuple[Path, int]:
    while True:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=PART, dir=path.parent)
        if not _take(handle) or Path(name).exists():
            return Path(name), handle
        os.close(handle)


def _clear(path: Path) -> None:
    """Remove the drafts of writers that are gone, and what they had moved aside once its place is taken."""
    for place in _named(path, PART):
        lock = _lock(place)
        if lock is not None and not place.with_name(f"{place.name}.old").exists():
            _remove(place)
        _unlock(lock)
    lock = _lock(path) if path.exists() else None
    if lock is not None:  # its writer, who is the only one to move something aside, is gone too
        for old in _named(path, OLD):
            _remove(old)
            _remove(old.with_suffix(""))
    _unlock(lock)


def _named(path: Path, suffix: str) -> list[Path]:
    pattern = f".{glob.escape(path.name)}.*{suffix}"
    return [place for place in sorted(path.parent.glob(pattern)) if not place.is_symlink()]


def _remove(place: Path) -> None:
    if place.is_dir():
        shutil.rmtree(place, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            place.unlink()


def _lock(place: Path) -> int | None:
    """A lock on a file or folder, or None if somebody holds it, it is not there or nothing can be locked here."""
    if fcntl is None:
        return None
    try:
        descriptor = os.open(place, os.O_RDONLY)
    except OSError:
        return None
    if _take(descriptor):
        return descriptor
    os.close(descriptor)
    return None


def _take(descriptor: int) -> bool:
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _unlock(lock: int | None) -> None:
    if lock is not None:
        os.close(lock)


def _step_aside(place: Path, path: Path) -> None:
    old = place.with_name(f"{place.name}.old")
    path.rename(old)
    try:
        place.rename(path)
    except OSError:
        old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)
