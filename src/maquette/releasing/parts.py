"""Which part of a ledger a run with a delta is paid from: the one at which it is expected to state less.

Pure noise takes of a pure part its epsilon and no more, of a total with a delta several times that share
(`docs/accounting.md`). For few questions a run that leaves its delta aside then states less, and keeps a stronger
promise. Releases and sessions decide it here, from public numbers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from maquette.core.budget import Budget

if TYPE_CHECKING:
    from maquette.accounting.ledger import Ledger

_Way = TypeVar("_Way")


def ways_of_new_ledger(run: Budget, total: Budget) -> tuple[Budget, ...]:
    """What a run may spend of a ledger that is made for it: its budget, or its epsilon alone."""
    is_one = run.pure or total.pure or run.epsilon > total.epsilon
    return (run,) if is_one else (run, Budget(run.epsilon))


def ways_of_ledger(run: Budget, total: Budget, *, pure_left: int) -> tuple[Budget, ...]:
    """What a run may spend of a ledger that is there: its epsilon alone where the pure part pays for all of it."""
    pure = Budget(run.epsilon)
    if run.pure or pure_left < pure.total_units:
        return (run,)
    return (run, pure) if total.total_units else (pure,)


def split(total: Budget, run: Budget, part: Budget) -> Budget:
    """The total of a ledger that is made for a run, with a pure part for what the run takes without its delta."""
    return total if run.pure or part.delta else replace(total, pure_epsilon=part.epsilon)


def begun(ways: Iterable[_Way], book: Ledger, identity: Callable[[_Way], tuple[str, str]]) -> _Way | None:
    """The way in which a ledger knows a run already, by the key and the digest that `identity` gives each."""
    for way in ways:
        key, digest = identity(way)
        entry = book.find(key)
        if entry is not None and entry.request == digest:
            return way
    return None
