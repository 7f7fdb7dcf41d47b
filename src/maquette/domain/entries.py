"""The domain file: what is written on disk, checked by pydantic, turned into the fields of a `Domain` and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
from maquette.core.attribute import Attribute, Kind
from maquette.domain.constraint import Constraint
from maquette.domain.constraint import parse as parse_constraint
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
    unit: StrictInt | StrictFloat | None = None
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


def read(path: Path) -> dict[str, Any]:
    """The object that a domain file holds; every complaint names the file."""
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
    return data


def fields_of(data: dict[str, Any]) -> dict[str, Any]:
    """The fields of a domain from the parsed JSON."""
    try:
        file = DomainFile.model_validate(data)
    except ValidationError as error:
        raise DomainError(_explain(error, data)) from None
    return {
        "attributes": tuple(_attribute(entry) for entry in file.attributes),
        "na_values": tuple(file.na_values),
        "reviewed": file.reviewed,
        "notes": dict(file.model_extra or {}),
        "constraints": tuple(_constraint(i, spec) for i, spec in enumerate(file.constraints, start=1)),
    }


def to_text(data: dict[str, Any]) -> str:
    """The file as it is written: a line for every attribute, constraint, and entry of a note."""
    parts = [f"{_json(key)}: {_lines(value)}" for key, value in data.items()]
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
        unit=entry.unit,
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
