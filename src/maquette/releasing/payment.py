"""The ledger that pays for a table: where it is, made where there is none yet; and what a request takes of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from maquette.accounting.ledger import Entry, Ledger
from maquette.core import _check
from maquette.core.budget import (
    SLACK_UNITS,
    UNITS,
    Accounting,
    Budget,
    Cost,
    Unit,
    charged,
    pure_in_words,
    release_cost,
    release_costs,
    shares_in_words,
    what_fits,
)
from maquette.core.conversions import log_ratio
from maquette.core.ledger.decide import reserved_note
from maquette.core.table import check_payer
from maquette.domain import Relation
from maquette.errors import (
    BudgetExceeded,
    LedgerError,
    MechanismError,
    MemoryLedgerWarning,
    PureCostWarning,
    WeakPrivacyWarning,
)
from maquette.owner import Table

if TYPE_CHECKING:
    from maquette.mechanisms.base import Prepared
    from maquette.releasing.request import Request

Place = Ledger | str | Path | None
"""A ledger, where one is or will be, "memory", or None for the one beside the table's file."""

MEMORY = "memory"
"""The word that asks for a ledger in memory; a file of this name is given as "./memory"."""


def open_ledger(table: Table, ledger: Place, *, relation: Relation, budget: Budget) -> Ledger:
    """The ledger that pays for a table: the given one, the file at a path (made if absent), or the table's own.

    Without a location a table from a file keeps its ledger beside the file, and a table from memory is refused:
    nothing would remember what its people were charged. "memory" keeps one as long as the handle lives, and warns.
    A handle that another ledger paid for is refused before a ledger is made.
    """
    if isinstance(ledger, Ledger):
        book = ledger
    elif (location := _place(table, ledger)) == MEMORY:
        book = _in_memory(table, relation, budget)
    else:
        book = _at(location, table, relation, budget)
    check_payer(table, book)
    book.require(relation=relation, domain_fingerprint=table.domain.fingerprint, persons=table.persons)
    check_not_set_back(book)
    return book


def check_not_set_back(book: Ledger) -> None:
    """Refuse a ledger that was set back behind the releases beside it, and say that its receipt is missing."""
    book.check_releases()
    book.warn_without_receipt()


def require_total(book: Ledger, *, epsilon: float | None, delta: float | None) -> None:
    """Refuse a total that is not the ledger's own: it was fixed when the ledger was made."""
    totals = {"epsilon": (epsilon, book.budget.epsilon), "delta": (delta, book.budget.delta)}
    for name, (total, fixed) in totals.items():
        if total is not None and total != fixed:
            raise LedgerError(
                f"ledger '{book.name}' was made with a total of {book.budget}, which is fixed, and not with "
                f"{name}={total:g}; leave the total out, or give the one it was made with"
            )


def warn_if_weak(budget: Budget) -> None:
    """Say that a budget protects hardly anybody, where it does not."""
    for weakness in budget.weaknesses:
        _check.warn(weakness, WeakPrivacyWarning)


def close_opened(book: Ledger, table: Table, *, place: Place) -> None:
    """Close what `open_ledger` opened; a ledger that was given, and one in memory, stay open."""
    if book is not place and book is not _MEMORY.get(table):
        book.close()


def accounting_of(table: Table, ledger: Place) -> Accounting | None:
    """How the ledger that is there counts a delta; None where it will be made, or is pure."""
    there = budget_there(table, ledger)
    return None if there is None or there.pure else there.accounting


def budget_there(table: Table, ledger: Place) -> Budget | None:
    """The total of the ledger that is there; None where it will be made."""
    if isinstance(ledger, Ledger):
        return ledger.budget
    location = _place(table, ledger)
    if location == MEMORY:
        return _MEMORY[table].budget if table in _MEMORY else None
    if "://" not in str(location) and not Path(location).exists():
        return None
    with Ledger.open(location) as book:
        return book.budget


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
        check_payer(table, None)
        try:
            return Ledger.create(
                location,
                budget=budget,
                relation=relation,
                domain_fingerprint=table.domain.fingerprint,
                name=table.name,
                persons=table.persons,
            )
        except LedgerError:
            if not Path(location).exists():
                raise
    return Ledger.open(location)


def _in_memory(table: Table, relation: Relation, budget: Budget) -> Ledger:
    if table not in _MEMORY:
        check_payer(table, None)
        _check.warn(
            f"the ledger of '{table.name}' is kept in memory and forgotten with this handle: another run, or another "
            "handle on the same people, starts a second budget for them, pays again for the same request, and nothing "
            'can be verified later; for real data name a file, such as ledger="people.ledger"',
            MemoryLedgerWarning,
        )
        _MEMORY[table] = Ledger.memory(
            budget=budget,
            relation=relation,
            domain_fingerprint=table.domain.fingerprint,
            name=table.name,
            persons=table.persons,
        )
    return _MEMORY[table]


_MEMORY: WeakKeyDictionary[Table, Ledger] = WeakKeyDictionary()


# What a release takes of its ledger.


def check_covered(request: Request, book: Ledger, key: str, prepared: Prepared) -> None:
    """Refuse what the ledger cannot pay, before anything is opened or bound."""
    if book.find(key) is not None:
        return
    cost = cost_of(request.budget, book)
    advice = "; an earlier request can be repeated, which is free"
    check_left("this release", book, cost, budget=request.budget, advice=advice)
    _check_slack(request, book, cost, prepared)


def check_left(what: str, book: Ledger, cost: Cost, *, budget: Budget, advice: str = "") -> None:
    """Refuse what costs more than the ledger has left, and say what fits; warn of a pure budget that takes much."""
    left = book.balance().left
    if cost.units > left.units or cost.pure > left.pure:
        raise exceeded(
            refusal_of(what, book, cost) + what_fits(book.budget, left, delta=budget.delta) + advice,
            book,
            cost,
        )
    warn_if_pure(book, budget, lambda one: release_cost(one, book.budget, left))


def exceeded(words: str, book: Ledger, cost: Cost) -> BudgetExceeded:
    """The refusal of a cost, in the unit of the part that lacks it."""
    left = book.balance().left
    is_pure = cost.units <= left.units and cost.pure > left.pure
    needed, rest = (cost.pure, left.pure) if is_pure else (cost.units, left.units)
    unit = Unit.EPSILON if is_pure else book.budget.unit
    return BudgetExceeded(words, unit=unit, needed=needed / UNITS, left=rest / UNITS)


def warn_if_pure(book: Ledger, budget: Budget, cost_of_budget: Callable[[Budget], Cost]) -> None:
    """Say, before it is paid, how much of a ledger with a delta a pure budget takes, and how much less with a delta."""
    words = pure_in_words(book.budget, budget, cost_of_budget)
    if words is not None:
        _check.warn(f"{words}; give it unless the promise has to be pure", PureCostWarning)


def refusal_of(what: str, book: Ledger, cost: Cost) -> str:
    """How much is needed and left, in percent of the ledger."""
    balance, whole = book.balance(), book.budget.whole
    needed, rest = (shares_in_words(one, whole) for one in (cost, balance.left))
    note = reserved_note(balance.reserved_units, balance.total_units)
    return f"{what} needs {needed} of ledger '{book.name}', and {rest} is left{note}: "


def _check_slack(request: Request, book: Ledger, cost: Cost, prepared: Prepared) -> None:
    """Refuse a mechanism whose noise is only close to exact where the ledger has nothing set aside for that."""
    if request.budget.pure:
        return
    there = min(cost.slack, book.balance().left.slack)
    accounting, mechanism = request.budget.accounting, prepared.mechanism
    needed = prepared.slack_units(planned=False)
    if there < needed and accounting == "zcdp":
        needed = prepared.slack_units(planned=True)
    if accounting == "gaussian" and mechanism.traits.gaussian:
        needed += math.ceil(log_ratio(request.merged.queries.count) * SLACK_UNITS)
    if there < needed:
        raise MechanismError(
            f"the noise of mechanism '{mechanism.name}' follows its law only up to a small proven error, and ledger "
            f"'{book.name}' with {book.budget} has too little set aside for that error; use mechanism 'gaussian', or a "
            "ledger made with accounting 'gaussian' whose total is nearer to the budget of this release"
        )


def reserve(request: Request, book: Ledger, key: str) -> Entry:
    """Set the whole budget aside, durably; the key names this release in the ledger from now on."""
    body: dict[str, Any] = {
        "epsilon": request.budget.epsilon,
        "delta": request.budget.delta,
        "mechanism": request.mechanism,
        "queries": request.queries.describe(),
    }
    cost, pure = ways_of(costs_of(request.budget, book))
    return book.reserve(
        key,
        request=request.digest,
        tag="release",
        cost=cost,
        pure=pure,
        body=body,
        envelope=True,
    )


def cost_of(budget: Budget, book: Ledger) -> Cost:
    """A whole budget in what the ledger counts; its share of the slack goes by its share of the total."""
    return charged(costs_of(budget, book), whole=book.budget.whole, left=book.balance().left)


def ways_of(costs: Sequence[Cost]) -> tuple[Cost, Cost | None]:
    """The ways in which something may be charged, as the ledger is told them: the first, and that of the pure part."""
    return costs[0], next(iter(costs[1:]), None)


def costs_of(budget: Budget, book: Ledger) -> tuple[Cost, ...]:
    """The ways in which the ledger may charge a whole budget; refuses one that it does not count."""
    if not budget.pure and book.budget.pure:
        raise LedgerError(
            f"ledger '{book.name}' counts pure epsilon and cannot pay for a delta; ask without delta, or use a "
            "ledger that was made with one"
        )
    if not budget.pure and book.budget.accounting != budget.accounting:
        raise LedgerError(
            f"ledger '{book.name}' was made by another process in the meantime and counts by "
            f"{book.budget.accounting}; ask again"
        )
    return release_costs(budget, book.budget)
