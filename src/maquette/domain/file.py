"""The domain file: what is written on disk, checked by pydantic, turned into `Domain` and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, StrictBool, StrictFloat, StrictInt, StrictStr, ValidationError

from maquette.domain.attribute import Attribute, Kind
from maquette.domain.constraint import Constraint
from maquette.domain.constraint import parse as parse_constraint
from maquette.domain.domain import Domain
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
        text = path.read_text(encoding="utf-8-sig")
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
    if not isinstance(data, dict):
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


def to_dict(domain: Domain) -> dict[str, Any]:
    """The file's form; defaults are left out, so a file that is read and written stays the same in meaning."""
    data: dict[str, Any] = {"attributes": [_entry(a) for a in domain.attributes]}
    if domain.na_values:
        data["na_values"] = list(domain.na_values)
    if not domain.reviewed:
        data["reviewed"] = False
    if domain.constraints:
        data["constraints"] = [constraint.spec() for constraint in domain.constraints]
    return data | {key: note for key, note in domain.notes.items() if key not in DomainFile.model_fields}


def _constraint(number: int, spec: Any) -> Constraint:
    try:
        return parse_constraint(spec)
    except DomainError as error:
        raise DomainError(f"constraint {number}: {error}") from None


def _attribute(entry: AttributeEntry) -> Attribute:
    categories = entry.categories
    codes = entry.size
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
    )


def _entry(attribute: Attribute) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": attribute.name, "kind": str(attribute.kind)}
    if attribute.categories is not None:
        entry["categories"] = list(attribute.categories)
    if attribute.codes is not None:
        entry["size"] = attribute.codes
    if attribute.bounds is not None:
        entry |= {"bounds": list(attribute.bounds), "bins": attribute.bins}
    if attribute.edges is not None:
        entry["edges"] = list(attribute.edges)
    entry["nullable"] = attribute.nullable
    for flag in ("overflow", "integer"):
        if getattr(attribute, flag):
            entry[flag] = True
    return entry


def _explain(error: ValidationError, data: dict[str, Any]) -> str:
    first = error.errors()[0]
    place = list(first["loc"])
    where = "the file"
    if len(place) >= 2 and place[0] == "attributes" and isinstance(place[1], int):
        entry = data["attributes"][place[1]]
        name = entry.get("name") if isinstance(entry, dict) else None
        where = f"attribute {name!r}" if name else f"attribute number {place[1] + 1}"
        place = place[2:]
    field = ".".join(str(p) for p in place[:1])
    return f"{where}{': ' + field if field else ''}: {first['msg']}"
