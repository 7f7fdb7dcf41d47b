"""Standard streams that a test cannot close: pytest reads them after every test, and all later ones would fail."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

DESCRIPTORS = (0, 1, 2)


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Whoever closes what stdout and stderr are here gets an error, at the line that does it."""
    streams = (sys.stdout, sys.stderr)
    files: list[Any] = [file for stream in streams for file in (stream, getattr(stream, "buffer", None))]
    files = [file for file in files if hasattr(file, "__dict__") and "close" not in vars(file)]
    for file in files:
        file.close = _refuse
    try:
        yield
    finally:
        for file in files:
            vars(file).pop("close", None)


def _refuse() -> None:
    raise AssertionError("a standard stream was closed, which pytest and all later tests write to")


@contextlib.contextmanager
def put_back() -> Iterator[list[str]]:
    """The streams of `sys` and their descriptors as they were; says which of them something took or closed."""
    streams = {name: getattr(sys, name) for name in ("stdin", "stdout", "stderr")}
    copies = {number: os.dup(number) for number in DESCRIPTORS}
    moved: list[str] = []
    try:
        with kept():
            yield moved
    finally:
        for name, stream in streams.items():
            if getattr(sys, name) is not stream:
                moved.append(f"sys.{name}")
                setattr(sys, name, stream)
        for number, copy in copies.items():
            if not _is_same(number, copy):
                moved.append(f"descriptor {number}")
                os.dup2(copy, number)
            os.close(copy)


def _is_same(number: int, copy: int) -> bool:
    try:
        return os.path.sameopenfile(number, copy)
    except OSError:
        return False
