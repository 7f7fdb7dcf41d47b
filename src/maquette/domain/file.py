"""The domain file: what is written on disk, checked by pydantic, turned into `Domain` and back."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
)

from maquette.core import _check, values
from maquette.core.attribute import MISSING, OTHER, Attribute, Kind
from maquette.core.values import key, spelling
from maquette.domain.constraint import Constraint, Rule, complete, possible
from maquette.domain.constraint import parse as parse_constraint
from maquette.domain.domain import COLUMNS, Domain
from maquette.errors import DomainError


class AttributeEntry(BaseModel):
    """One attribute as the file spells it."""

    model_config = ConfigDict(extra="forbid")

    name: StrictStr
    kind: Kind
    categories: list[StrictStr | StrictBool | StrictInt | StrictFloat] | None = None
    size: StrictInt | None = None
    bounds: tuple[StrictInt | StrictFloat, StrictInt | StrictFloat] | None = None
    bins: StrictInt | None = None
    edges: list[StrictInt | StrictFloat] | None = None
    nullable: StrictBool = False
    overflow: StrictBool = False
    integer: StrictBool = False
    calendar: StrictStr | None = None
    """With `from` and `to`, the first and the last cell."""
    first: StrictStr | None = Field(default=None, alias="from")
    last: StrictStr | None = Field(default=None, alias="to")


class DomainFile(BaseModel):
    """The whole file. Keys we do not know are kept as notes."""

    model_config = ConfigDict(extra="allow")

    attributes: list[AttributeEntry]
    na_values: list[StrictStr] = []
    reviewed: StrictBool = True
    constraints: list[Any] = []


def read(path: Path) -> Domain:
    """Read a domain file; every complaint names the file and the attribute."""
    try:
        text = _check.read_text(path)
    except FileNotFoundError:
        raise DomainError(
            f"no domain file at {path}; write one with: maquette domain draft TABLE -o {path}"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise DomainError(f"cannot read the domain file {path}: {error}") from None
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise DomainError(f"{path} is not JSON: {error.msg} at line {error.lineno}") from None
    except (ValueError, RecursionError):
        raise DomainError(
            f"{path} is not a domain file: a number is too long or it is nested too deeply"
        ) from None
    if not _check.is_dict(data):
        raise DomainError(f'{path}: expected an object with "attributes", got {type(data).__name__}')
    try:
        return parse(data)
    except DomainError as error:
        raise DomainError(f"{path}: {error}") from None


def parse(data: dict[str, Any]) -> Domain:
    """A domain from the parsed JSON."""
    try:
        file = DomainFile.model_validate(data)
    except ValidationError as error:
        raise DomainError(_explain(error, data)) from None
    return Domain(
        attributes=tuple(_attribute(entry) for entry in file.attributes),
        na_values=tuple(file.na_values),
        reviewed=file.reviewed,
        notes=dict(file.model_extra or {}),
        constraints=tuple(_constraint(i, spec) for i, spec in enumerate(file.constraints, start=1)),
    )


def to_text(domain: Domain) -> str:
    """The file as it is written: a line for every attribute, constraint, and entry of a note."""
    parts = [f"{_json(key)}: {_lines(value)}" for key, value in domain.to_dict().items()]
    return "{\n " + ",\n ".join(parts) + "\n}\n"


def _lines(value: Any) -> str:
    if _check.is_list(value) and any(_check.is_dict(entry) for entry in value):
        return "[\n  " + ",\n  ".join(_json(entry) for entry in value) + "\n ]"
    if _check.is_dict(value) and any(_check.is_dict(entry) for entry in value.values()):
        return "{\n  " + ",\n  ".join(f"{_json(k)}: {_json(v)}" for k, v in value.items()) + "\n }"
    return _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _constraint(number: int, spec: Any) -> Constraint:
    try:
        return parse_constraint(spec)
    except DomainError as error:
        raise DomainError(f"constraint {number}: {error}") from None


def parse_attribute(text: str) -> Attribute:
    """One attribute from its entry in a domain file, a JSON object."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise DomainError(f"that is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise DomainError("expected one JSON object")
    try:
        return _attribute(AttributeEntry.model_validate(data))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][:1])
        raise DomainError(f"{where}: {first['msg']}" if where else first["msg"]) from None


def _attribute(entry: AttributeEntry) -> Attribute:
    categories = entry.categories
    codes = entry.size
    if (entry.calendar is None) != (entry.first is None) or (entry.first is None) != (entry.last is None):
        raise DomainError(f"attribute '{entry.name}': calendar, from and to go together")
    if entry.calendar is not None:
        if categories is not None:
            raise DomainError(
                f"attribute '{entry.name}': a calendar makes its own categories; leave them out"
            )
        categories = list(values.cells(entry.calendar, entry.first, entry.last))
    if entry.kind is Kind.BOOLEAN and categories is None and codes is None:
        codes = 2
    return Attribute(
        name=entry.name,
        kind=entry.kind,
        categories=None if categories is None else tuple(categories),
        codes=codes,
        bounds=entry.bounds,
        bins=entry.bins,
        edges=None if entry.edges is None else tuple(entry.edges),
        nullable=entry.nullable,
        overflow=entry.overflow,
        integer=entry.integer,
        calendar=entry.calendar,
    )


def _explain(error: ValidationError, data: dict[str, Any]) -> str:
    first = error.errors()[0]
    place = list(first["loc"])
    where = "the file"
    if len(place) >= 2 and place[0] == "attributes" and isinstance(place[1], int):
        entry = data["attributes"][place[1]]
        name = entry.get("name") if _check.is_dict(entry) else None
        where = f"attribute {name!r}" if name else f"attribute number {place[1] + 1}"
        place = place[2:]
    field = ".".join(str(p) for p in place[:1])
    return f"{where}{': ' + field if field else ''}: {first['msg']}"


# What is wrong or risky about a domain, told from the declaration alone; no data is read.

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
