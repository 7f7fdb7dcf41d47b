"""Finding a domain privately: every kind, list and bound that is not declared is paid for through the gate.

    discovery = mq.discover("people.csv", epsilon=0.2, delta=1e-9, ledger="people.ledger", total_epsilon=1.0)
    discovery.domain.save("people.domain.json")

The budget is split evenly over the columns that are not declared or dropped; where a column's kind is not given, a
share of its part finds that out first. What comes back is post-processing of noisy counts.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from maquette.accounting.charges import pure_costs
from maquette.accounting.ledger import Ledger
from maquette.core import values as calendars
from maquette.core._arguments import checks_arguments
from maquette.core.budget import SLACK_UNITS, UNITS, Budget, Cost, charged
from maquette.core.events import Receipt
from maquette.core.laws import IndependentLaw
from maquette.discovery.curator import DiscoveryCurator
from maquette.discovery.findings import FIRST_YEAR, NUMBERS, YEARS
from maquette.domain import Attribute, Domain, Kind, Persons, Relation, check_relation, rows_of
from maquette.domain.review import MISSING_WORDS
from maquette.errors import DomainError, MechanismError, ParameterError
from maquette.owner import open_columns, raw_columns
from maquette.releasing.found_cells import (
    CLEAR,
    MANY_MISSING,
    Look,
    close_borders,
    end_borders,
    number_attribute,
    occupied,
    share_inside,
)
from maquette.releasing.payment import Bill, find_payer, pay, warn_if_weak
from maquette.requests import Payer, Privacy

ColumnKind = Literal["number", "text", "date"]
Columns = Mapping[str, "Attribute | str"]
How = Literal["declared", "discovered", "dropped"]

# `python -m benchmarks discovery` measures what is found with these shares.
KIND_SHARE = Fraction(3, 20)
"""Of a column's part, to find out what kind of values it holds."""
MOSTLY = 0.9
"""The share of the values that are no other kind, from which a column is of a kind."""
LADDER_SHARE = Fraction(1, 4)
"""Of what a numeric column has left, to find where its numbers are, and as much again where the ends of that are looked
at once more; the rest counts them closely."""
NEARLY_ALL = 0.97
"""The share of a column's numbers, by noisy counts, that is called so."""
MONTHS = 120
"""A calendar of more months than that goes by years."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of one column, and which entries of the ledger paid for it."""

    name: str
    how: How
    attribute: Attribute | None
    text: str
    receipts: tuple[Receipt, ...] = ()

    def note(self) -> dict[str, Any]:
        """The form in the notes of the domain."""
        paid = {"receipts": [str(receipt) for receipt in self.receipts]} if self.receipts else {}
        return {"how": self.how, "what": self.text} | paid


@dataclass(frozen=True, slots=True)
class Discovery:
    """A domain that may be published: what is in it was declared, or found and paid for."""

    domain: Domain
    findings: tuple[Finding, ...]
    budget: Budget
    key: str
    ledger: str

    def __str__(self) -> str:
        return "\n".join(f"{one.name}: {one.how}: {one.text}" for one in self.findings)


@checks_arguments
def discover(
    source: Any,
    *,
    epsilon: float,
    ledger: Ledger | str | Path,
    delta: float = 0.0,
    columns: Columns | None = None,
    na_values: Sequence[str] = MISSING_WORDS,
    relation: Relation | str = Relation.ADD_REMOVE,
    person: str | None = None,
    rows_per_person: int | None = None,
    total_epsilon: float | None = None,
    total_delta: float | None = None,
    key: str | None = None,
    table: str | None = None,
    query: str | None = None,
    delimiter: str = ",",
    encoding: str = "utf-8",
) -> Discovery:
    """Find kinds, lists and bounds of the columns of a private table, and pay for each finding.

    `columns` says what is known: an `Attribute` declares a column, "number", "text" or "date" gives its kind, "drop"
    leaves it out; all others are found out. Lists of values need a delta. The ledger is made here, before the domain,
    or was made by an earlier call; the first release from it declares the domain for good.

    Guarantee: (epsilon, delta)-DP under `relation`, for whole persons with `person=`; charged before each look. The
        same call again returns what is stored and costs nothing.
    Accuracy: none is promised. A value is listed if about `threshold` records have it (see each finding); bounds hold
        all records but those in sparse cells of the ladder beyond them.
    """
    reading = {"table": table, "query": query, "delimiter": delimiter, "encoding": encoding}
    privacy = Privacy(epsilon=epsilon, delta=delta, relation=relation)
    payer = Payer(ledger=ledger, total_epsilon=total_epsilon, total_delta=total_delta, key=key)
    between, persons = privacy.between, Persons.named(person, rows_per_person)
    check_relation(persons, between)
    budget = privacy.budget_in(thresholds=True)
    warn_if_weak(budget)
    header = raw_columns(source, **reading)
    choice = ColumnChoice.of(header, dict(columns or {}), persons)
    if not choice.open:
        raise ParameterError(
            "every column is declared or dropped: there is nothing to find, and nothing was paid"
        )
    texts = [name for name, kind in choice.open.items() if kind == "text"]
    if texts and budget.pure:
        raise MechanismError(
            f"a list of the texts of column '{texts[0]}' needs a delta; give one, or declare or drop the column"
        )
    words = tuple(dict.fromkeys(na_values))
    raw = open_columns(source, sorted(choice.all), na_values=words, persons=persons, **reading)
    with find_payer(raw, payer, relation=between) as till:
        total = replace(payer.total(budget), thresholds=True)  # after a pure one, too, texts may be found
        book = till.open(total)
        facts = [sorted(choice.open.items()), sorted(words), epsilon, delta]
        bill = bill_of(privacy, facts, key=key)
        curator = DiscoveryCurator(raw, book, key=bill.key, budget=budget)
        with pay(book, bill) as payment:
            findings = _findings(curator, choice, budget, book.budget, rows_of(persons))
        domain = _domain(findings, words, budget, between, persons, book)
        return Discovery(domain, findings, budget, payment.key, book.opened)


@dataclass(frozen=True, slots=True)
class ColumnChoice:
    """What is known of each column of the header, in its order."""

    declared: dict[str, Attribute]
    dropped: dict[str, str]
    open: dict[str, ColumnKind | None]
    """To be found, with the kind where it is given."""
    order: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        """The columns that the ledger is bound to: all that can be read, whatever is found of them now."""
        return tuple(name for name in self.order if self.dropped.get(name) != _UNFIT)

    @classmethod
    def of(cls, header: Mapping[str, bool], columns: dict[str, Any], persons: Persons | None) -> ColumnChoice:
        missing = [name for name in columns if name not in header]
        if missing:
            raise ParameterError(f"the table has no column '{missing[0]}', which columns= names")
        choice = cls({}, {}, {}, tuple(header))
        for name, fits in header.items():
            spec = columns.get(name)
            if isinstance(spec, Attribute):
                if spec.name != name:
                    raise ParameterError(f"columns= declares '{spec.name}' under the name '{name}'")
                choice.declared[name] = spec
            elif spec is not None and spec not in ("number", "text", "date", "drop"):
                raise ParameterError(
                    f"expected columns['{name}'] as an Attribute, 'number', 'text', 'date' or 'drop', got {spec!r}"
                )
            elif not fits:
                choice.dropped[name] = _UNFIT
            elif spec == "drop":
                choice.dropped[name] = "dropped as asked"
            elif spec is None and persons is not None and name == persons.column:
                choice.dropped[name] = "it says whose row it is"
            else:
                choice.open[name] = spec
        return choice


_UNFIT = "its type or name cannot be declared"


def bill_of(privacy: Privacy, facts: object, *, key: str | None) -> Bill:
    """The whole budget of a discovery; `facts` are what else decides it, and make the key where none is given."""
    budget = privacy.budget_in(thresholds=True)
    digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
    return Bill(
        tag="discovery",
        key=key or f"discovery-{digest[:20]}",
        request=digest,
        budget=budget,
        body={"epsilon": budget.epsilon, "delta": budget.delta, "mechanism": "discovery"},
        costs=lambda budget, book: discovery_costs(budget, book.budget),
    )


def discovery_cost(budget: Budget, ledger: Budget) -> Cost:
    """A whole budget in what the ledger counts, where nothing of it is spent."""
    return charged(discovery_costs(budget, ledger), whole=ledger.whole, left=ledger.whole)


def discovery_costs(budget: Budget, ledger: Budget) -> tuple[Cost, ...]:
    """The ways in which a whole budget may be charged: units and, for thresholds, its part of delta."""
    budget = replace(budget, accounting="zcdp", thresholds=True)
    if budget.pure:
        return pure_costs(Fraction(budget.total_units, UNITS), ledger)
    return (Cost(budget.total_units, min(budget.slack_units, ledger.slack_units)),)


def _findings(
    curator: DiscoveryCurator, choice: ColumnChoice, budget: Budget, ledger: Budget, rows: int
) -> tuple[Finding, ...]:
    price = Fraction(budget.row_units(rows) // len(choice.open), UNITS)
    slack = min(budget.slack_units, ledger.slack_units)
    delta = Fraction(slack // len(choice.open), SLACK_UNITS)
    findings: list[Finding] = []
    for name in choice.order:
        if name in choice.declared:
            findings.append(Finding(name, "declared", choice.declared[name], "declared, not found"))
        elif name in choice.dropped:
            findings.append(Finding(name, "dropped", None, choice.dropped[name]))
        else:
            findings.append(_find(curator, name, choice.open[name], price, delta))
    return tuple(findings)


def _find(
    curator: DiscoveryCurator, name: str, kind: ColumnKind | None, price: Fraction, delta: Fraction
) -> Finding:
    """What becomes of one column. Where no declaration can be made of its noisy counts, the others are found still."""
    receipts: list[Receipt] = []
    try:
        return _declare(curator, name, kind, price, delta, receipts)
    except (DomainError, ArithmeticError, LookupError, ValueError):
        text = "no cells can be made of its noisy counts; declare the column"
        return Finding(name, "dropped", None, text, tuple(receipts))


def _declare(
    curator: DiscoveryCurator,
    name: str,
    kind: ColumnKind | None,
    price: Fraction,
    delta: Fraction,
    receipts: list[Receipt],
) -> Finding:
    is_whole, nullable = False, True
    if kind is None:
        first = Fraction(math.floor(price * KIND_SHARE * UNITS), UNITS)
        counts = curator.kinds(name, price=first)
        receipts.append(counts.receipt)
        kind, is_whole = kind_of(counts.values, counts.noise)
        nullable = bool(counts.values[-1] > MANY_MISSING * counts.noise.deviation)
        price -= first
    if kind == "text":
        return _values(curator, name, price, delta, receipts, nullable=nullable)
    if kind == "date":
        return _dates(curator, name, price, receipts, nullable=nullable)
    return _numbers(curator, name, price, receipts, is_whole=is_whole)


def kind_of(counts: NDArray[np.int64], noise: IndependentLaw) -> tuple[ColumnKind, bool]:
    """What most values are, and whether its numbers are whole: from noisy counts alone."""
    whole, fraction, moments, other, _ = (max(0.0, float(count)) for count in counts)
    is_whole = fraction <= max(CLEAR * noise.deviation, whole / 1000)
    sums: dict[ColumnKind, float] = {"number": whole + fraction, "date": moments, "text": other}
    kind = max(sums, key=sums.__getitem__)
    rest = sum(sums.values()) - sums[kind]
    # what noise alone makes of the other kinds counts for nothing: a column may be missing nearly everywhere
    clear = sums[kind] > CLEAR * noise.deviation and rest <= 3 * noise.deviation
    if clear or sums[kind] >= MOSTLY * max(sums[kind] + rest, 1.0):
        return kind, is_whole
    return "text", is_whole


def _values(
    curator: DiscoveryCurator,
    name: str,
    price: Fraction,
    delta: Fraction,
    receipts: list[Receipt],
    *,
    nullable: bool,
) -> Finding:
    if not delta:  # that it holds texts was found out at a price, so the other columns are found all the same
        text = "texts, of which a list needs a delta; give one, or declare the column"
        return Finding(name, "dropped", None, text, tuple(receipts))
    common = curator.common_values(name, price=price, delta=delta)
    receipts.append(common.receipt)
    if not common.texts:
        text = f"no value has {common.threshold:,} records or more: an identifier, free text, or too small a budget"
        return Finding(name, "dropped", None, text, tuple(receipts))
    attribute = Attribute(name, Kind.CATEGORICAL, categories=common.texts, nullable=nullable, overflow=True)
    text = f"text: {len(common.texts):,} values that about {common.threshold:,} records or more have"
    return Finding(name, "discovered", attribute, text, tuple(receipts))


def _numbers(
    curator: DiscoveryCurator, name: str, price: Fraction, receipts: list[Receipt], *, is_whole: bool
) -> Finding:
    """Two looks or three: the public ladder, its ends where many records are, then borders close together."""
    first = Fraction(math.floor(price * LADDER_SHARE * UNITS), UNITS)
    ladder = curator.numbers(name, price=first)
    receipts.append(ladder.receipt)
    look = Look.by_ladder(ladder.values, ladder.noise)
    if look is None:
        text = f"too few numbers within {NUMBERS[0]:g} and {NUMBERS[-1]:g} to find bounds; declare the column"
        return Finding(name, "dropped", None, text, tuple(receipts))
    inside, left = look.inside, price - first
    ends = end_borders(look, is_whole=is_whole)
    if ends is not None:
        closer = curator.numbers(name, price=first, borders=ends)
        receipts.append(closer.receipt)
        look, left = look.closer(closer.values, closer.noise, ends), left - first
    borders = close_borders(look, is_whole=is_whole)
    counts = curator.numbers(name, price=left, borders=borders)
    receipts.append(counts.receipt)
    attribute = number_attribute(name, borders, counts.values, counts.noise, inside=inside, is_whole=is_whole)
    if attribute.cells == 1:
        text = "too few numbers to tell one from another"
        return Finding(name, "dropped", None, text, tuple(receipts))
    first_values, last_values = attribute.ends()
    low, high = float(first_values[0]) + 0.0, float(last_values[-1]) + 0.0  # no negative nought
    share = share_inside(borders, counts.values, low, high)
    many = "nearly all" if share > NEARLY_ALL else f"about {share:.0%}"
    text = f"number: {many} in [{low:g}, {high:g}], {attribute.cells:,} cells"
    return Finding(name, "discovered", attribute, text, tuple(receipts))


def _dates(
    curator: DiscoveryCurator, name: str, price: Fraction, receipts: list[Receipt], *, nullable: bool
) -> Finding:
    counts = curator.years(name, price=price)
    receipts.append(counts.receipt)
    cells = occupied(counts.values, counts.noise)
    if cells is None:
        return Finding(name, "dropped", None, "too few days to find their years", tuple(receipts))
    first, last = (FIRST_YEAR + min(max(cell - 1, 0), len(YEARS) - 1) for cell in cells)
    if 12 * (last - first + 1) <= MONTHS:
        unit, ends = "month", (f"{first:04d}-01", f"{last:04d}-12")
    else:
        unit, ends = "year", (f"{first:04d}", f"{last:04d}")
    attribute = Attribute(
        name,
        Kind.ORDINAL,
        categories=calendars.cells(unit, *ends),
        calendar=unit,
        nullable=nullable,
        overflow=True,
    )
    return Finding(name, "discovered", attribute, f"days by {unit}: {first} to {last}", tuple(receipts))


def _domain(
    findings: Sequence[Finding],
    na_values: tuple[str, ...],
    budget: Budget,
    relation: Relation,
    persons: Persons | None,
    book: Ledger,
) -> Domain:
    attributes = tuple(one.attribute for one in findings if one.attribute is not None)
    if not attributes:
        raise MechanismError(
            "nothing was found that a domain could declare; what was paid stays paid. Give the columns' kinds, a "
            "larger epsilon, or declare columns"
        )
    notes: dict[str, Any] = {
        "discovery": {
            "epsilon": budget.epsilon,
            "delta": budget.delta,
            "relation": str(relation),
            "persons": None if persons is None else str(persons),
            "ledger": book.opened,
        },
        "columns": {one.name: one.note() for one in findings},
    }
    return Domain(attributes, na_values, reviewed=True, notes=notes)
