"""The ledger that pays for a table: where it is, how it counts, and made where there is none yet."""

from __future__ import annotations

import warnings
from pathlib import Path
from weakref import WeakKeyDictionary

from maquette import _check
from maquette.accounting.budget import Accounting, Budget
from maquette.accounting.ledger import Ledger
from maquette.domain import Relation
from maquette.errors import LedgerError, MemoryLedgerWarning, WeakPrivacyWarning
from maquette.gate.handle import Table

Place = Ledger | str | Path | None
"""A ledger, where one is or will be, "memory", or None for the one beside the table's file."""

MEMORY = "memory"
"""The word that asks for a ledger in memory; a file of this name is given as "./memory"."""


def open_ledger(table: Table, ledger: Place, *, relation: Relation, budget: Budget) -> Ledger:
    """The ledger that pays for a table: the given one, the file at a path (made if absent), or the table's own.

    Without a location a table from a file keeps its ledger beside the file, and a table from memory is refused:
    nothing would remember what its people were charged. "memory" keeps one as long as the handle lives, and warns.
    """
    if isinstance(ledger, Ledger):
        book = ledger
    elif (location := _place(table, ledger)) == MEMORY:
        book = _in_memory(table, relation, budget)
    else:
        book = _at(location, table, relation, budget)
    book.require(relation=relation, domain_fingerprint=table.domain.fingerprint)
    return book


def require_total(book: Ledger, *, epsilon: float | None, delta: float | None) -> None:
    """Refuse a total that is not the ledger's own: it was fixed when the ledger was made."""
    asked = {"epsilon": (epsilon, book.budget.epsilon), "delta": (delta, book.budget.delta)}
    for name, (wanted, fixed) in asked.items():
        if wanted is not None and wanted != fixed:
            raise LedgerError(
                f"ledger '{book.name}' was made with a total of {book.budget}, which is fixed, and not with "
                f"{name}={wanted:g}; leave the total out, or give the one it was made with"
            )


def warn_if_weak(budget: Budget) -> None:
    """Say that a budget protects hardly anybody, where it does not."""
    for weakness in budget.weaknesses:
        warnings.warn(weakness, WeakPrivacyWarning, stacklevel=3)


def close_opened(book: Ledger, table: Table, *, given: Place) -> None:
    """Close what `open_ledger` opened; a ledger that was given, and one in memory, stay open."""
    if book is not given and book is not _MEMORY.get(table):
        book.close()


def counted(table: Table, ledger: Place) -> Accounting | None:
    """How the ledger that is there counts a delta; None where it will be made, or is pure."""
    if isinstance(ledger, Ledger):
        return None if ledger.budget.pure else ledger.budget.accounting
    location = _place(table, ledger)
    if location == MEMORY:
        return None if table not in _MEMORY else counted(table, _MEMORY[table])
    if "://" not in str(location) and not Path(location).exists():
        return None
    with Ledger.open(location) as book:
        return counted(table, book)


def _place(table: Table, ledger: str | Path | None) -> str | Path:
    """Where the ledger is or will be; without a word about it beside the table's file, if one may be put there."""
    if ledger is not None:
        return ledger
    place = table.ledger_location
    if place is None:
        raise LedgerError(
            f"'{table.name}' has no file of its own to keep a ledger beside, and without one nothing remembers what "
            "its people were charged; name a place for it with ledger= (--ledger on the command line), such as "
            'ledger="people.ledger", always the same one for these people. ledger="memory" forgets it with the process'
        )
    if not place.exists():
        why = _check.kept_from_writing(place.parent)
        if why is not None:
            raise LedgerError(
                f"a table keeps its ledger beside its file, as {place.name}, but the folder {place.parent} {why}; name "
                "another place for it with ledger= (--ledger on the command line), always the same one for this table"
            )
    return place


def _at(location: str | Path, table: Table, relation: Relation, budget: Budget) -> Ledger:
    if "://" not in str(location) and not Path(location).exists():
        try:
            return Ledger.create(
                location,
                budget=budget,
                relation=relation,
                domain_fingerprint=table.domain.fingerprint,
                name=table.name,
            )
        except LedgerError:
            if not Path(location).exists():
                raise
    return Ledger.open(location)


def _in_memory(table: Table, relation: Relation, budget: Budget) -> Ledger:
    if table not in _MEMORY:
        warnings.warn(
            f"the ledger of '{table.name}' is kept in memory and forgotten with this handle: another run, or another "
            "handle on the same people, starts a second budget for them, pays again for the same request, and nothing "
            'can be verified later; for real data name a file, such as ledger="people.ledger"',
            MemoryLedgerWarning,
            stacklevel=4,
        )
        _MEMORY[table] = Ledger.memory(
            budget=budget, relation=relation, domain_fingerprint=table.domain.fingerprint, name=table.name
        )
    return _MEMORY[table]


_MEMORY: WeakKeyDictionary[Table, Ledger] = WeakKeyDictionary()
