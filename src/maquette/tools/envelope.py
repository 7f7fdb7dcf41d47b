"""The part of a ledger that one use of a tool is paid out of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from maquette.accounting.ledger import Ledger
from maquette.core.budget import UNITS, Budget
from maquette.domain import Relation, rows_of
from maquette.owner import Table
from maquette.releasing.payment import (
    Place,
    accounting_of,
    check_left,
    close_opened,
    cost_of,
    costs_of,
    open_ledger,
    require_total,
    warn_if_weak,
    ways_of,
)


@dataclass(frozen=True, slots=True)
class Payment:
    """How a tool is paid for, in the order of its arguments: its own budget, and where the ledger is or will be."""

    epsilon: float
    delta: float
    relation: Relation | str
    ledger: Place
    total_epsilon: float | None
    total_delta: float | None
    key: str | None


@dataclass(frozen=True, slots=True)
class Envelope:
    """A reserved part of a ledger."""

    book: Ledger
    key: str
    budget: Budget
    units: int
    """What one record may cost: the budget, divided by the records of a person."""

    @property
    def price(self) -> Fraction:
        return Fraction(self.units, UNITS)


def open_envelope(table: Table, payment: Payment, *, tag: str, about: Mapping[str, Any]) -> Envelope:
    """Reserve the whole budget of a tool in the table's ledger, durably; the same request again finds it there.

    `about` are the public parameters; they make the key where none is given. A ledger that cannot pay is refused
    before the table is looked at.
    """
    relation = Relation.named(payment.relation)
    accounting = accounting_of(table, payment.ledger) or "zcdp"
    budget = Budget(payment.epsilon, payment.delta, accounting)
    warn_if_weak(budget)
    facts = {
        "tool": tag,
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "relation": relation.value,
        "domain": table.domain.fingerprint,
        **about,
    }
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    total = Budget(
        budget.epsilon if payment.total_epsilon is None else payment.total_epsilon,
        budget.delta if payment.total_delta is None else payment.total_delta,
        accounting,
    )
    book = open_ledger(table, payment.ledger, relation=relation, budget=total)
    key = payment.key or f"{tag.replace(' ', '-')}-{digest[:20]}"
    try:
        require_total(book, epsilon=payment.total_epsilon, delta=payment.total_delta)
        _reserve(book, key, digest, budget, tag, facts)
    except BaseException:
        close_opened(book, table, place=payment.ledger)
        raise
    return Envelope(book, key, budget, budget.row_units(rows_of(table.persons)))


@contextmanager
def envelope_for(table: Table, payment: Payment, *, tag: str, about: Mapping[str, Any]) -> Iterator[Envelope]:
    """The same for a tool that ends at once: what it did not use goes back."""
    opened = open_envelope(table, payment, tag=tag, about=about)
    try:
        yield opened
        opened.book.settle(opened.key)
    finally:
        close_opened(opened.book, table, place=payment.ledger)


def _reserve(book: Ledger, key: str, digest: str, budget: Budget, tag: str, facts: Mapping[str, Any]) -> None:
    if book.find(key) is None:
        check_left(f"this {tag}", book, cost_of(budget, book), budget=budget)
    body = {"ask": tag} | {name: value for name, value in facts.items() if name != "domain"}
    cost, pure = ways_of(costs_of(budget, book))
    book.reserve(key, request=digest, tag=tag, cost=cost, pure=pure, body=body, envelope=True)
