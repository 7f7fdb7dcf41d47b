"""Whether a ledger takes a request: one pure function of public numbers, shared by whatever keeps the entries.

A file, a server and a list in memory look up what `decide` asks for, and write what it accepts. It is asked before the
look, and nothing is refused after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from maquette.core.budget import (
    SLACK_UNITS,
    UNITS,
    Cost,
    Unit,
    charged,
    epsilon_for_units,
    percent_of,
)
from maquette.core.conversions import float_down, float_up
from maquette.core.errors import BudgetExceeded, KeyReused, LedgerError, MaquetteError, ParameterError
from maquette.core.ledger.entry import Entry
from maquette.core.ledger.pace import Rate, over_rate

MAX_ENVELOPE_KEY = 180
"""Characters of the key of an envelope: its parts have keys of their own, `KEY/0001`, of at most 200."""

_NOTHING = Cost(0)


@dataclass(frozen=True, slots=True)
class Account:
    """What pays: the ledger, or an envelope of it."""

    name: str
    unit: Unit
    delta: float
    whole: Cost
    left: Cost
    holder: str | None = None
    """The key of the envelope."""
    reserved: Cost = _NOTHING
    """What open envelopes hold, where it is known: a refusal says that it may come back."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """What a caller asks to reserve, already checked and in canonical form."""

    key: str
    request: str
    tag: str
    costs: tuple[Cost, ...]
    """How it may be charged: to one part of the budget, or to the other."""
    body: str
    parent: str | None
    envelope: bool


@dataclass(frozen=True, slots=True)
class Accept:
    """It is new, and charged so."""

    cost: Cost


@dataclass(frozen=True, slots=True)
class Repeat:
    """It was accepted before, and is found again for nothing."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class Refuse:
    """It is not accepted, and nothing is written."""

    error: MaquetteError


def decide(
    account: Account,
    entries: Mapping[str, Entry | None],
    recent: Sequence[str],
    now: datetime,
    rate: Rate | None,
    begin: Reservation,
) -> Accept | Repeat | Refuse:
    """Take one request, find it again, or refuse it.

    `entries` are the reservations under its key and its parent's; `recent` are the dates in the window of `rate`, of
    entries inside the parent and of refusals, the oldest first.
    """
    entry = entries[begin.key]
    if entry is not None:
        error = _another_request(entry, begin)
        return Repeat(entry) if error is None else Refuse(error)
    if rate is not None and (error := over_rate(rate, recent, new=1, now=now)) is not None:
        return Refuse(error)
    if begin.envelope and len(begin.key) > MAX_ENVELOPE_KEY:
        return Refuse(_long_key(begin.key))
    if begin.parent is not None and (error := closed(begin.parent, entries[begin.parent])) is not None:
        return Refuse(error)
    cost = charged(begin.costs, whole=account.whole, left=account.left)
    error = _not_covered(cost, account)
    return Accept(cost) if error is None else Refuse(error)


def decide_all(
    entries: Mapping[str, Entry | None],
    recent: Sequence[str],
    now: datetime,
    rate: Rate | None,
    begin: Sequence[Reservation],
) -> Refuse | None:
    """Refuse several requests that cost nothing, unless every key is new and the rate has room for all of them."""
    for one in begin:
        if entries[one.key] is not None:
            words = f"key '{one.key}' was used before; each of several values needs a new one"
            return Refuse(KeyReused(words))
    error = None if rate is None else over_rate(rate, recent, new=len(begin), now=now)
    return None if error is None else Refuse(error)


def closed(parent: str, holder: Entry | None) -> LedgerError | None:
    """Why nothing can be reserved inside a parent, if so: only an open envelope pays."""
    if holder is None:
        return nothing_reserved(parent)
    if not holder.envelope:
        return LedgerError(f"reservation '{parent}' is not an envelope; reserve it with envelope=True")
    if holder.settlement is not None:
        return LedgerError(
            f"reservation '{parent}' is settled: what it had left went back, and it pays for nothing more; ask "
            "under another key (key=, --key)"
        )
    return None


def nothing_reserved(key: str) -> LedgerError:
    return LedgerError(f"nothing was reserved under key '{key}'; reserve before answering or settling")


def _another_request(entry: Entry, begin: Reservation) -> KeyReused | None:
    here = entry.request, entry.tag, entry.parent, entry.envelope
    if here != (begin.request, begin.tag, begin.parent, begin.envelope):
        return KeyReused(
            f"key '{begin.key}' was used before for another request; give each request its own key"
        )
    # a stored answer is free; an unanswered reservation pays for exactly what it was reserved for
    if entry.answered is None and entry.cost not in begin.costs:
        return KeyReused(
            f"key '{begin.key}' was reserved at another cost; give the changed request a new key"
        )
    return None


def _long_key(key: str) -> ParameterError:
    return ParameterError(
        f"expected the key of a release or session as at most {MAX_ENVELOPE_KEY} characters, which leaves room "
        f"for the keys of its parts, got {len(key)}"
    )


def _not_covered(cost: Cost, account: Account) -> BudgetExceeded | None:
    """What is not left, in percent of what there was."""
    left, whole = account.left, account.whole
    if cost.units > left.units:
        unit, scale, parts = account.unit.value, UNITS, (cost.units, left.units, whole.units)
        what = ""
    elif cost.slack > left.slack:
        unit = "ratio" if account.unit == Unit.HALF_MU_SQUARED else "total variation"
        scale, parts = SLACK_UNITS, (cost.slack, left.slack, whole.slack)
        what = f"the part set aside for noise that is exact within a proven bound ({unit}) of "
    elif cost.pure > left.pure:
        unit, scale, parts = Unit.EPSILON.value, UNITS, (cost.pure, left.pure, whole.pure)
        what = "the pure part of "
    else:
        return None
    needed, rest, all_of_it = parts
    holder = account.holder
    place = f"ledger '{account.name}'" if holder is None else f"reservation '{holder}'"
    advice = "ask a smaller workload or accept a larger error" if holder else _what_fits(account)
    note = "" if holder else reserved_note(account.reserved.units, whole.units)
    return BudgetExceeded(
        f"this request needs {percent_of(needed, all_of_it, up=True)} of {what}{place}, and "
        f"{percent_of(rest, all_of_it)} is left{note}; {advice}",
        unit=unit,
        needed=float_up(Fraction(needed, scale)),
        left=float_down(Fraction(rest, scale)),
    )


def _what_fits(account: Account) -> str:
    """The epsilon that what is left is good for, at the ledger's own delta."""
    delta = 0.0 if account.unit.is_pure else account.delta
    offers: list[str] = []
    if (epsilon := epsilon_for_units(account.left.units, account.unit, delta=delta)) is not None:
        offers.append(f"epsilon={epsilon:g}{f' with delta={delta:g}' if delta else ''} still fits")
    if (epsilon := epsilon_for_units(account.left.pure, Unit.EPSILON, delta=0.0)) is not None:
        offers.append(f"a pure epsilon={epsilon:g} still fits")
    return "; ".join(offers) or "nothing more fits"


def reserved_note(units: int, total: int) -> str:
    """What a refusal says about reserved amounts, if there are any, in percent of the ledger."""
    if not units:
        return ""
    return (
        f" ({percent_of(units, total)} more is reserved by releases or sessions that have not ended; maquette ledger "
        "settle gives back what they do not need)"
    )
