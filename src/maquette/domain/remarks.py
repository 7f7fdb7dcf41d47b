"""What is wrong or risky about a domain, from the declaration alone; no data is read."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

import numpy as np

from maquette.core import _check
from maquette.core.attribute import MISSING, OTHER, Attribute, Kind
from maquette.core.values import key, spelling
from maquette.domain.constraint import Rule, complete, possible
from maquette.domain.domain import COLUMNS, Domain

Severity = Literal["error", "risk", "note"]

MANY_CELLS = 1000
IDENTIFIER_CELLS = 50_000
IDENTIFIER_NAME = re.compile(
    r"(^|[_\W])(ids?|uid|uuid|guid|ssn|e-?mail|phone|telephone|mobile|passport|iban|account|address|surname|"
    r"(full|first|last)[_\W]?name)($|[_\W])|^(row|index|key)$"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One remark: an error must be mended before a release, a risk should be understood, a note is for reading."""

    severity: Severity
    attribute: str | None
    """None if it is about the whole domain."""
    text: str

    def __str__(self) -> str:
        where = "domain" if self.attribute is None else f"attribute '{self.attribute}'"
        return f"{self.severity}: {where}: {self.text}"


def check(domain: Domain) -> tuple[Finding, ...]:
    """Everything that a careful reader would remark, errors first."""
    findings = [
        *_whole(domain),
        *_constraints(domain),
        *(finding for a in domain for finding in _reviewed_attribute(a, domain)),
    ]
    return tuple(sorted(findings, key=lambda finding: ("error", "risk", "note").index(finding.severity)))


def _whole(domain: Domain) -> Iterator[Finding]:
    if not domain.reviewed:
        yield Finding(
            "error",
            None,
            "this is an unreviewed draft: its lists and bounds may be read off the private rows; go through them with "
            '"maquette domain review", or check that each is public knowledge and set "reviewed": true',
        )
    digits = len(str(domain.size)) - 1
    size = f"{domain.size:,}" if digits < 9 else f"about 10^{digits}"
    yield Finding(
        "note",
        None,
        f"{len(domain)} attributes, |X| = {size}, ln |X| = {domain.log_size:.2f}: {_sizes(domain)}",
    )


def _constraints(domain: Domain) -> Iterator[Finding]:
    """What the constraints leave of the universe, as far as a reader may not have meant it."""
    rules = domain.rules
    if not rules:
        return
    if complete(domain.attributes, rules, {}) is None:
        yield Finding("error", None, "the constraints contradict each other: no record meets all of them")
        return
    shares = "; ".join(
        f"{rule.said} ({1 - rule.allowed.mean():.1%} of its cells ruled out)" for rule in rules
    )
    yield Finding("note", None, f"{len(rules)} constraints that every released row meets: {shares}")
    for name, cells in possible(domain.attributes, rules).items():
        ruled_out = [domain[name].label(int(code)) for code in np.flatnonzero(~cells)]
        if ruled_out:
            listed = ", ".join(ruled_out[:5]) + (", ..." if len(ruled_out) > 5 else "")
            yield Finding("risk", name, f"by the constraints no record can be {listed}")
    for rule in rules:
        if rule.target is not None:
            yield from _free(domain, rule)
        if rule.allowed.all():
            yield Finding("risk", None, f"the constraint {rule.said} rules nothing out")


def _free(domain: Domain, rule: Rule) -> Iterator[Finding]:
    """Cells that a map says nothing about."""
    free = int(rule.allowed.all(axis=rule.names.index(rule.target or "")).sum())
    if free and not rule.allowed.all():
        by = ", ".join(name for name in rule.names if name != rule.target)
        cells = domain.cells(name for name in rule.names if name != rule.target)
        yield Finding(
            "note",
            rule.target,
            f"{free:,} of {cells:,} cells of {by} have no entry in its map: it is free there",
        )


def _sizes(domain: Domain) -> str:
    return ", ".join(f"{a.name} {a.size:,}" for a in domain)


def _reviewed_attribute(a: Attribute, domain: Domain) -> Iterator[Finding]:
    notes = domain.notes.get(COLUMNS)
    note = notes.get(a.name) if _check.is_dict(notes) else None
    is_found = _check.is_dict(note) and note.get("how") == "discovered"
    yield from _names(a, domain)
    yield from _strays(a, is_found=is_found)
    yield from _cells(a)
    yield from _borders(a, is_found=is_found)


def _names(a: Attribute, domain: Domain) -> Iterator[Finding]:
    """Categories that no value can reach, because it is read as another one or as missing."""
    if a.categories is None:
        return
    missing = {"", *(_word(token) for token in domain.na_values)}
    category_of: dict[str, object] = {}
    alike = {key(_word(spelling(category))): category for category in reversed(a.categories)}
    for category in a.categories:
        word = _word(spelling(category))
        if word in missing:
            yield Finding("error", a.name, f"category {category!r} is never reached: it is read as missing")
        elif word in category_of:
            yield Finding(
                "error",
                a.name,
                f"category {category!r} is never reached: it is read as {category_of[word]!r}",
            )
        elif alike[key(word)] != category:
            yield Finding(
                "note",
                a.name,
                f"categories {alike[key(word)]!r} and {category!r} spell the same value: other spellings of it are "
                "read as the plainer of them",
            )
        category_of.setdefault(word, category)
        if word in (OTHER, MISSING):
            yield Finding(
                "risk", a.name, f"category {category!r} looks like one of the cells we add ourselves"
            )


def _strays(a: Attribute, *, is_found: bool) -> Iterator[Finding]:
    """Where values go that the declaration does not foresee; of a column that was found, hardly any are missing."""
    if a.kind is Kind.NUMERIC:
        if not a.nullable:
            cell = f"the overflow cell {OTHER}" if a.overflow else f"its first cell {a.label(0)}"
            severity = "note" if is_found else "risk"
            yield Finding(severity, a.name, f"not nullable: missing values and text fall into {cell}")
        if not a.overflow:
            low, high = a.label(0), a.label(a.cells - 1)
            yield Finding(
                "note", a.name, f"no overflow cell: values outside the bounds clamp to {low} and {high}"
            )
        return
    if not a.overflow:
        cell = f"the cell {MISSING}" if a.nullable else f"its first cell '{a.label(0)}'"
        yield Finding("risk", a.name, f"no overflow cell: values that are not declared fall into {cell}")
    if not a.nullable:
        cell = f"the overflow cell {OTHER}" if a.overflow else f"its first cell '{a.label(0)}'"
        yield Finding("note", a.name, f"not nullable: missing values fall into {cell}")


def _cells(a: Attribute) -> Iterator[Finding]:
    if a.size > 2**64:
        yield Finding("error", a.name, "more than 2^64 cells cannot be coded; declare coarser cells")
    elif IDENTIFIER_NAME.search(a.name.lower()) or a.cells >= IDENTIFIER_CELLS:
        yield Finding(
            "risk",
            a.name,
            f"looks like an identifier ({a.cells:,} cells): released tables over it say nothing true about "
            "anybody and cost accuracy elsewhere; leave it out",
        )
    elif a.size > MANY_CELLS:
        yield Finding(
            "risk", a.name, f"{a.size:,} cells: counts per cell drown in noise; declare coarser cells"
        )
    if a.size == 1:
        yield Finding("risk", a.name, "one cell only: it says nothing; leave it out or declare more cells")


def _borders(a: Attribute, *, is_found: bool) -> Iterator[Finding]:
    if a.kind is not Kind.NUMERIC:
        return
    borders = a.edges if a.edges is not None else a.bounds
    halves = (0, 0.5) if a.integer else (0,)  # half way between two whole numbers
    odd = [b for b in borders or () if not any(is_round(b - half) for half in halves)]
    if odd and not is_found:  # what was found is read off noisy counts, and paid for
        shown = ", ".join(f"{border:.12g}" for border in odd[:3])
        yield Finding(
            "risk", a.name, f"{shown} is not round and looks read off the data; use bounds from documentation"
        )
    if a.one_wide:
        yield Finding(
            "note",
            a.name,
            "cells one wide between whole borders may hold fractions; declare integer if values are whole",
        )
    if a.integer and a.bounds is not None and (a.bounds[1] - a.bounds[0]) % a.cells:
        yield Finding(
            "note", a.name, "cells hold unequal numbers of whole numbers; use bins that divide the range"
        )


def is_round(value: float) -> bool:
    """Would a person write this bound without having seen the data? Three digits, a year, or one above."""
    return (float(value).is_integer() and 1000 <= value < 3000) or any(
        len(Decimal(str(shifted)).normalize().as_tuple().digits) <= 3 for shifted in (value, value - 1)
    )


def _word(text: str) -> str:
    return unicodedata.normalize("NFC", text.strip())
