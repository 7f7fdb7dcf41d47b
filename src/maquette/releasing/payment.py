"""The ledger that pays for a table: where it is, made where there is none yet; and what a run takes of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

from maquette.accounting.charges import pure_in_words, release_costs, shares_in_words, what_fits
from maquette.accounting.ledger import Entry, Ledger
from maquette.core import _check
from maquette.core.budget import SLACK_UNITS, UNITS, Accounting, Budget, Cost, Unit, charged
from maquette.core.conversions import log_ratio
from maquette.core.ledger.create import BEFORE_DOMAIN
from maquette.core.ledger.decide import reserved_note
from maquette.core.table import check_payer
from maquette.domain import Relation
from maquette.errors import (
    BudgetExceeded,
    KeyReused,
    LedgerError,
    MechanismError,
    MemoryLedgerWarning,
    ParameterError,
    PureCostWarning,
    WeakPrivacyWarning,
    WorkloadError,
)
from maquette.owner import Table
from maquette.requests import Payer

if TYPE_CHECKING:
    from maquette.discovery.raw import RawTable
    from maquette.releasing.plan import Plan

Place = Ledger | str | Path | None
"""A ledger, where one is or will be, "memory", or None for the one beside the table's file."""

MEMORY = "memory"
"""The word that asks for a ledger in memory; a file of this name is given as "./memory"."""

REFUSALS = (ParameterError, WorkloadError, MechanismError, BudgetExceeded)
"""Decided from public numbers: asked again, the same run is refused again, so what it reserved goes back."""


# Which ledger pays.


@dataclass(slots=True, eq=False)
class Till:
    """Where a table is paid for: the ledger that is there, opened once and checked, or the place of one to be made."""

    table: Table | RawTable
    payer: Payer
    relation: Relation
    ledger: Ledger | None
    """None as long as there is none."""

    @property
    def budget(self) -> Budget | None:
        """The total of the ledger that is there."""
        return None if self.ledger is None else self.ledger.budget

    @property
    def accounting(self) -> Accounting | None:
        """How the ledger that is there counts a delta; None where it will be made, or is pure."""
        return None if self.budget is None or self.budget.pure else self.budget.accounting

    def open(self, budget: Budget) -> Ledger:
        """The ledger, made with this total where there is none. One that is there keeps its own, and no other."""
        if self.ledger is None:
            self.ledger = _make_ledger(self.table, self.payer.ledger, self.relation, budget)
            _check_pays(self.ledger, self.table, self.relation)
        totals = {
            "epsilon": (self.payer.total_epsilon, self.ledger.budget.epsilon),
            "delta": (self.payer.total_delta, self.ledger.budget.delta),
        }
        for name, (total, fixed) in totals.items():
            if total is not None and total != fixed:
                raise LedgerError(
                    f"ledger '{self.ledger.name}' was made with a total of {self.ledger.budget}, which is fixed, and "
                    f"not with {name}={total:g}; leave the total out, or give the one it was made with"
                )
        return self.ledger

    def close(self) -> None:
        """A ledger that was given, and one in memory, stay open."""
        if self.ledger is not None and self.ledger not in (self.payer.ledger, _MEMORY.get(self.table)):
            self.ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def find_payer(table: Table | RawTable, payer: Payer, *, relation: Relation) -> Till:
    """The ledger that pays for a table: the given one, the one at a path, or the table's own.

    Without a location a table from a file keeps its ledger beside the file, and a table from memory is refused:
    nothing would remember what its people were charged. "memory" keeps one as long as the handle lives, and warns.
    A handle that another ledger paid for is refused before a ledger is made.
    """
    till = Till(table, payer, relation, _there(table, payer.ledger))
    if till.ledger is not None:
        try:
            _check_pays(till.ledger, table, relation)
        except BaseException:
            till.close()
            raise
    return till


def open_ledger(table: Table, ledger: Place, *, relation: Relation, budget: Budget) -> Ledger:
    """The ledger that pays for a table, made with this total where there is none; it stays open."""
    return find_payer(table, Payer(ledger=ledger), relation=relation).open(budget)


def warn_if_weak(budget: Budget) -> None:
    """Say that a budget protects hardly anybody, where it does not."""
    for weakness in budget.weaknesses:
        _check.warn(weakness, WeakPrivacyWarning)


def _check_pays(book: Ledger, table: Table | RawTable, relation: Relation) -> None:
    """Refuse a ledger of other people, and one that was set back; say that its receipt is missing."""
    if isinstance(table, Table):
        check_payer(table, book)
    is_declared = isinstance(table, Table)
    fingerprint, persons = table.ledger_identity if is_declared else (book.domain_fingerprint, table.persons)
    book.require(relation=relation, domain_fingerprint=fingerprint, persons=persons)
    book.check_releases()
    book.warn_without_receipt()


def _there(table: Table | RawTable, ledger: Place) -> Ledger | None:
    """The ledger that is there, opened."""
    if isinstance(ledger, Ledger):
        return ledger
    location = _place(table, ledger)
    if location == MEMORY:
        return _MEMORY.get(table)
    return Ledger.open(location) if "://" in str(location) or Path(location).exists() else None


def _place(table: Table | RawTable, ledger: str | Path | None) -> str | Path:
    """Where the ledger is or will be; without a word about it beside the table's file, if one may be put there."""
    if ledger == MEMORY and not isinstance(table, Table):
        raise LedgerError(
            "what a discovery pays is remembered for the releases that follow; give its ledger a file, such as "
            "people.ledger"
        )
    if ledger is not None:
        return ledger
    place = table.ledger_location if isinstance(table, Table) else None
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


def _make_ledger(table: Table | RawTable, ledger: Place, relation: Relation, budget: Budget) -> Ledger:
    """A new ledger; one that another process made in the meantime is opened."""
    assert not isinstance(ledger, Ledger)
    location = _place(table, ledger)
    is_declared = isinstance(table, Table)
    if is_declared:
        check_payer(table, None)
    fingerprint, persons = table.ledger_identity if is_declared else (BEFORE_DOMAIN, table.persons)
    facts: dict[str, Any] = {
        "budget": budget,
        "relation": relation,
        "domain_fingerprint": fingerprint,
        "name": table.name,
        "persons": persons,
    }
    if location == MEMORY:
        _check.warn(
            f"the ledger of '{table.name}' is kept in memory and forgotten with this handle: another run, or another "
            "handle on the same people, starts a second budget for them, pays again for the same request, and nothing "
            'can be verified later; for real data name a file, such as ledger="people.ledger"',
            MemoryLedgerWarning,
        )
        _MEMORY[table] = Ledger.memory(**facts)
        return _MEMORY[table]
    try:
        return Ledger.create(location, **facts)
    except LedgerError:
        if not Path(location).exists():
            raise
    return Ledger.open(location)


_MEMORY: WeakKeyDictionary[Table | RawTable, Ledger] = WeakKeyDictionary()


# What a run takes of its ledger.


def costs_of(budget: Budget, book: Ledger) -> tuple[Cost, ...]:
    """The ways in which the ledger may charge a whole budget; refuses one that it does not count."""
    if not budget.pure and book.budget.accounting != budget.accounting:
        raise LedgerError(
            f"ledger '{book.name}' was made by another process in the meantime and counts by "
            f"{book.budget.accounting}; ask again"
        )
    return release_costs(budget, book.budget)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What one run takes of a ledger, and the words under which the ledger keeps it; all of it is public."""

    tag: str
    """The kind of run, as the ledger and refusals name it."""
    key: str
    request: str
    """The digest of everything that decides the run."""
    budget: Budget
    body: Mapping[str, Any]
    costs: Callable[[Budget, Ledger], Sequence[Cost]] = costs_of
    """The ways in which a ledger may charge a budget for such a run: this one or another, to say what fits."""
    advice: str = ""
    """What a refusal says besides."""
    parent: str | None = None
    """The reservation of the ledger out of which it is paid; None for the total."""
    check: Callable[[Ledger, Cost], None] = lambda book, cost: None
    """Refuses what a ledger could pay for and has too little set aside for otherwise."""

    def ways(self, book: Ledger) -> Sequence[Cost]:
        """The ways in which a ledger may charge it; a delta needs a ledger that has one."""
        if not self.budget.pure and book.budget.pure:
            raise LedgerError(
                f"ledger '{book.name}' counts pure epsilon and cannot pay for a delta; ask without delta, or use a "
                "ledger that was made with one"
            )
        return self.costs(self.budget, book)

    def cost(self, book: Ledger) -> Cost:
        """In what the ledger counts, charged to the part that it takes less of."""
        return charged(self.ways(book), whole=book.budget.whole, left=book.balance().left)

    def check_covered(self, book: Ledger) -> None:
        """Refuse what the ledger cannot pay, and say what fits; warn of a pure budget that takes much.

        What was paid before, or is paid out of another reservation, is not refused here.
        """
        if self.parent is not None or book.find(self.key) is not None:
            return
        left, cost = book.balance().left, self.cost(book)

        def at(budget: Budget) -> Cost:
            return charged(self.costs(budget, book), whole=book.budget.whole, left=left)

        if cost.units > left.units or cost.pure > left.pure:
            needed, rest = (shares_in_words(amount, book.budget.whole) for amount in (cost, left))
            needs = f"this {self.tag} needs {needed} of ledger '{book.name}', and {rest} is left"
            note = reserved_note(book.balance().reserved_units, book.balance().total_units)
            fits = what_fits(book.budget, left, delta=self.budget.delta, cost_of=at)
            raise exceeded(f"{needs}{note}: {fits}{self.advice}", book.budget, cost, left)
        words = pure_in_words(book.budget, self.budget, at)
        if words is not None:
            _check.warn(f"{words}; give it unless the promise has to be pure", PureCostWarning)
        self.check(book, cost)


def exceeded(words: str, budget: Budget, cost: Cost, left: Cost) -> BudgetExceeded:
    """The refusal of a cost, in the unit of the part that lacks it."""
    is_pure = cost.units <= left.units and cost.pure > left.pure
    needed, rest = (cost.pure, left.pure) if is_pure else (cost.units, left.units)
    unit = Unit.EPSILON if is_pure else budget.unit
    return BudgetExceeded(words, unit=unit, needed=needed / UNITS, left=rest / UNITS)


@dataclass(frozen=True, slots=True)
class Payment:
    """What is set aside of a ledger for one run. At its end what the run did not use goes back.

    A run that was cut short keeps it, and goes on with it; a run that is refused gives it back if it reserved it.
    """

    book: Ledger
    entry: Entry

    @property
    def key(self) -> str:
        return self.entry.key

    def settle(self) -> Entry:
        """End it: what was not spent goes back."""
        return self.book.settle(self.key)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del kind, trace
        if isinstance(error, KeyReused) and not self.entry.fresh:
            raise KeyReused(_asked_otherwise(self.key)) from error
        if error is None or (isinstance(error, REFUSALS) and self.entry.fresh):
            # an older reservation may belong to a run that was cut short and goes on
            self.settle()


def pay(book: Ledger, bill: Bill) -> Payment:
    """Set aside what a run takes, durably, or refuse it; the same request again finds what was set aside for it."""
    bill.check_covered(book)
    first, *more = bill.ways(book)
    entry = book.reserve(
        bill.key,
        request=bill.request,
        tag=bill.tag,
        cost=first,
        pure=next(iter(more), None),
        body=bill.body,
        parent=bill.parent,
        envelope=True,
    )
    return Payment(book, entry)


def _asked_otherwise(name: str) -> str:
    """For a request that is in the ledger with other questions than it asks today."""
    return (
        f"this request was made before, as '{name}', but what was asked of the table for it then is not what this "
        "version asks (another mechanism, certificate or share of the budget), so its stored values do not fit; "
        "nothing was paid. If the release was saved, load it; the version that made it repeats it for free; or pay "
        "for a new one under another key (key=, --key)"
    )


# What a release takes of its ledger.


def bill_of(plan: Plan, key: str) -> Bill:
    """The whole budget of a release; the key names it in the ledger from then on."""

    request = plan.request

    def check(book: Ledger, cost: Cost) -> None:
        if not request.budget.pure:
            _check_slack(plan, book, cost)

    return Bill(
        tag="release",
        key=key,
        request=request.digest,
        budget=request.budget,
        body={
            "epsilon": request.budget.epsilon,
            "delta": request.budget.delta,
            "mechanism": request.mechanism_name,
            "queries": request.queries.describe(),
        },
        advice="; an earlier request can be repeated, which is free",
        check=check,
    )


def _check_slack(plan: Plan, book: Ledger, cost: Cost) -> None:
    """Refuse a mechanism whose noise is only close to exact where the ledger has nothing set aside for that."""
    there = min(cost.slack, book.balance().left.slack)
    accounting, mechanism = plan.budget.accounting, plan.mechanism
    needed = plan.prepared.slack_units(planned=False)
    if there < needed and accounting == "zcdp":
        needed = plan.prepared.slack_units(planned=True)
    if accounting == "gaussian" and mechanism.traits.gaussian:
        needed += math.ceil(log_ratio(plan.request.merged.queries.count) * SLACK_UNITS)
    if there < needed:
        raise MechanismError(
            f"the noise of mechanism '{mechanism.name}' follows its law only up to a small proven error, and ledger "
            f"'{book.name}' with {book.budget} has too little set aside for that error; use mechanism 'gaussian', or a "
            "ledger made with accounting 'gaussian' whose total is nearer to the budget of this release"
        )
