"""Named points in the ledger's methods where a test can kill the process.

Nothing happens unless `install` was called and the environment variable MAQUETTE_CRASH_AT names a point, optionally
with the number of the visit at which to die ("after-reserve:3"). It can only end the process that it is set for.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any, Literal

import pytest

from maquette.accounting.ledger import Ledger
from maquette.core.ledger.looks import Looks
from maquette.core.ledger.store import SqliteStore
from maquette.core.ledger.transaction import Transaction

Point = Literal["before-reserve", "after-reserve", "before-answer", "after-answer", "mid-transaction"]
Store = Literal["before-receipt", "after-receipt"]
"""In a file: between a commit and its receipt, and after both, before anybody is told."""

VARIABLE = "MAQUETTE_CRASH_AT"

_visits: dict[str, int] = {}


def point(name: Point | Store) -> None:
    """Die here, as by kill -9, if the environment says so."""
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return
    place, _, visit = wanted.partition(":")
    if place == name:
        _visits[name] = _visits.get(name, 0) + 1
        if _visits[name] >= int(visit or 1):
            os.kill(os.getpid(), signal.SIGKILL)


def install(patch: pytest.MonkeyPatch | None = None) -> None:
    """Visit the points from now on: around what the ledger's methods make durable, and just before a commit."""
    patch = patch or pytest.MonkeyPatch()
    for method, before, after in (
        ("reserve", "before-reserve", "after-reserve"),
        ("begin", "before-reserve", "after-reserve"),
        ("begin_all", "before-reserve", "after-reserve"),
        ("answer", "before-answer", "after-answer"),
        ("record", "before-answer", "after-answer"),
        ("record_all", "before-answer", "after-answer"),
        ("store_all", None, "after-answer"),
    ):
        patch.setattr(Ledger, method, _around(getattr(Ledger, method), before, after))
    patch.setattr(Looks, "take", _around(Looks.take, None, "before-answer"))  # seen, and not stored
    patch.setattr(Transaction, "finish", _around(Transaction.finish, None, "mid-transaction"))
    patch.setattr(SqliteStore, "keep", _around(SqliteStore.keep, "before-receipt", "after-receipt"))


def _around(method: Callable[..., Any], before: Any, after: Any) -> Callable[..., Any]:
    def visited(*args: Any, **named: Any) -> Any:
        if before is not None:
            point(before)
        result = method(*args, **named)
        point(after)
        return result

    return visited
