"""Looks of this process whose outcome is not stored yet.

The bytes of a look are kept until the ledger holds them: when storing fails, the next try stores the same bytes and
looks at nothing. What is known here ends with the process; a look that nobody knows about any more is lost, and is
charged again when it is repeated.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from maquette.core.errors import LookFailed, MaquetteError
from maquette.core.ledger.entry import Entry


@dataclass(slots=True)
class _Look:
    """A question that this process began, and what it saw."""

    head: str
    """Of the question's entry: which of all ledgers, copies and tries this is about."""
    is_taken: bool = False
    data: bytes | None = field(default=None, repr=False)


class _Lock:
    """A lock that is forgotten with its last user."""

    def __init__(self) -> None:
        self.lock = threading.RLock()


class Looks:
    """The looks of one ledger, whatever objects of this process use it."""

    def __init__(self) -> None:
        self._looks: dict[str, _Look] = {}
        self._turns: WeakValueDictionary[str, _Lock] = WeakValueDictionary()
        self._mutex = threading.Lock()

    def turn(self, envelope: str) -> _Lock:
        """One question of an envelope is in flight at a time."""
        with self._mutex:
            return self._turns.setdefault(envelope, _Lock())

    def begin(self, entry: Entry) -> None:
        """This process wrote the entry, and may look once."""
        self._looks[entry.key] = _Look(entry.head)

    def knows(self, entry: Entry) -> bool:
        """Did this process begin it?"""
        return self._find(entry) is not None

    def may_look(self, entry: Entry) -> bool:
        """Is the look that was paid for not taken yet, or its outcome kept?"""
        look = self._find(entry)
        return look is not None and (not look.is_taken or look.data is not None)

    def keeps(self, entries: Sequence[Entry]) -> bool:
        """Are the outcomes of all of them kept?"""
        looks = [self._find(entry) for entry in entries]
        return all(one is not None and one.data is not None for one in looks)

    def take(self, entries: Sequence[Entry], look: Callable[[], Sequence[bytes]]) -> list[bytes]:
        """What was seen: kept from a try before, or by the one look that was paid for."""
        looks = [self._find(entry) or _Look(entry.head) for entry in entries]
        if any(one.data is None for one in looks):
            for one in looks:
                one.is_taken = True
            for entry, one, data in zip(entries, looks, _run(look), strict=True):
                one.data = data
                self._looks[entry.key] = one
        return [one.data or b"" for one in looks]

    def forget(self, entries: Sequence[Entry]) -> None:
        """The ledger holds them."""
        for entry in entries:
            self._looks.pop(entry.key, None)

    def _find(self, entry: Entry) -> _Look | None:
        look = self._looks.get(entry.key)
        return look if look is not None and look.head == entry.head else None


def _run(look: Callable[[], Sequence[bytes]]) -> Sequence[bytes]:
    """What a look returns. What breaks in it may depend on the rows, and so may its words: neither is passed on."""
    try:
        return look()
    except Exception as error:
        own = error if isinstance(error, MaquetteError) else None
    raise own or LookFailed(  # outside of the handler: it carries no other error with it
        "the machine failed while it looked at the table, and what it saw is lost; the price stays charged, and the "
        "same question is charged once more. Give the machine more memory, or ask a smaller question"
    )


_BY_LEDGER: dict[str, Looks] = {}


def looks_of(opened: str) -> Looks:
    """Those of the ledger whose first entry has this head."""
    return _BY_LEDGER.setdefault(opened, Looks())


def _forget_all() -> None:
    """What the parent process keeps is the parent's to store, and its locks may be held for ever."""
    _BY_LEDGER.clear()


os.register_at_fork(after_in_child=_forget_all)
