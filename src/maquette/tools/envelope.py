"""The curator of a tool: what it may spend is set aside in the table's ledger before it can look."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Generic, TypeVar

from maquette.core.budget import UNITS, Budget
from maquette.core.curator import Curator
from maquette.domain import rows_of
from maquette.owner import Table
from maquette.releasing.payment import Bill, Payment, find_payer, pay, warn_if_weak
from maquette.requests import Payer, Privacy
from maquette.samplers.draw import EXACT_DRAWS

C = TypeVar("C", bound=Curator)


@dataclass(frozen=True, slots=True)
class Paid(Generic[C]):
    """A curator, and the reservation that it draws on."""

    curator: C
    payment: Payment
    budget: Budget
    units: int
    """What one record may cost: the budget, divided by the records of a person."""

    @property
    def key(self) -> str:
        return self.payment.key

    @property
    def price(self) -> Fraction:
        return Fraction(self.units, UNITS)


def open_curator(
    table: Table,
    privacy: Privacy,
    payer: Payer,
    about: Mapping[str, Any],
    *,
    tag: str,
    kind: type[C],
    until: ExitStack,
) -> Paid[C]:
    """Reserve the whole budget of a tool in the table's ledger, durably; the same request again finds it there.

    `about` are the public parameters; they make the key where none is given. A ledger that cannot pay is refused
    before the table is looked at. `until` closes the ledger.
    """
    till = until.enter_context(find_payer(table, payer, relation=privacy.between))
    budget = privacy.budget_in(till.accounting or "zcdp")
    warn_if_weak(budget)
    facts = {
        "tool": tag,
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "relation": privacy.between.value,
        "domain": table.domain.fingerprint,
        **about,
    }
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    key = payer.key or f"{tag.replace(' ', '-')}-{digest[:20]}"
    body = {"ask": tag} | {name: value for name, value in facts.items() if name != "domain"}
    bill = Bill(tag=tag, key=key, request=digest, budget=budget, body=body)
    book = till.open(payer.total(budget))
    curator = kind(table, book, key=key, budget=budget, draws=EXACT_DRAWS)
    return Paid(curator, pay(book, bill), budget, budget.row_units(rows_of(table.persons)))


@contextmanager
def curator_for(
    table: Table, privacy: Privacy, payer: Payer, about: Mapping[str, Any], *, tag: str
) -> Iterator[Paid[Curator]]:
    """The same for a tool that ends at once: what it did not use goes back."""
    with ExitStack() as until:
        paid = open_curator(table, privacy, payer, about, tag=tag, kind=Curator, until=until)
        with paid.payment:
            yield paid
