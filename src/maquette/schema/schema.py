"""Tables with their domains, their keys and how many rows count: what several private tables could hold."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, StrictBool, StrictInt, StrictStr, ValidationError

from maquette import _html
from maquette.core import _check
from maquette.core._arguments import checks_arguments
from maquette.core.links import Link, Place, View, ancestors, check_links, fingerprint, persons_of, unit_rows
from maquette.core.neighbours import Persons
from maquette.domain import Attribute, Domain, Kind
from maquette.errors import DomainError

NUMBER_OF = "number_of_"
"""Before the name of a table: the column of its parent that counts its rows."""


class TableEntry(BaseModel):
    """One table as the file spells it."""

    model_config = ConfigDict(extra="forbid")

    name: StrictStr
    key: StrictStr | None = None
    parent: StrictStr | None = None
    refers: StrictStr | None = None
    at_most: StrictInt | None = None
    domain: dict[str, Any]


class SchemaFile(BaseModel):
    """The whole file. Keys we do not know are kept as notes."""

    model_config = ConfigDict(extra="allow")

    unit: StrictStr
    tables: list[TableEntry]
    reviewed: StrictBool = True


@dataclass(frozen=True)  # without slots, so that views can be computed once and stored
class Schema:
    """Tables in order, the first one first: every row of it is a unit, whose privacy a release protects as a whole."""

    links: tuple[Link, ...]
    """Each table with a `Domain` of its own columns; parents come before their children."""
    confirmed: bool = True
    """Are the keys and the numbers of rows that count confirmed as public? Domains say that of their columns."""
    notes: dict[str, Any] = field(default_factory=dict[str, Any], compare=False, hash=False)
    """Everything else a schema file says; never used in a computation."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "links", tuple(self.links))
        check_links(self.links)
        for link in self.links:
            names = {NUMBER_OF + other.name for other in self.links if other.parent == link.name}
            clash = sorted(names & set(link.domain.names))
            if clash:
                raise DomainError(
                    f"table '{link.name}' has a column {', '.join(clash)}, which is the name of a number of rows; "
                    "rename the column"
                )
        for name in self.names:
            self.domain(name)  # refuses names that clash

    @classmethod
    @checks_arguments
    def load(cls, path: str | Path) -> Schema:
        """Read a schema file (JSON)."""
        try:
            text = _check.read_text(Path(path))
            data = json.loads(text)
        except FileNotFoundError:
            raise DomainError(
                f"no schema file at {path}; docs/several-tables.md says how one is drafted"
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise DomainError(f"cannot read the schema file {path}: {error}") from None
        except (ValueError, RecursionError):
            raise DomainError(f"{path} is not JSON") from None
        try:
            return cls.from_dict(data)
        except DomainError as error:
            raise DomainError(f"{path}: {error}") from None

    @classmethod
    def from_dict(cls, data: Any) -> Schema:
        """A schema from the parsed form of its file."""
        if not _check.is_dict(data):
            raise DomainError(f'expected an object with "tables", got {type(data).__name__}')
        try:
            file = SchemaFile.model_validate(data)
        except ValidationError as error:
            raise DomainError(_explain(error)) from None
        links = _in_order(file.unit, [_link(entry) for entry in file.tables])
        return cls(links, file.reviewed, dict(file.model_extra or {}))

    def to_dict(self) -> dict[str, Any]:
        """The form that a schema file holds."""
        data: dict[str, Any] = {"unit": self.unit, "tables": [_entry(link) for link in self.links]}
        if not self.confirmed:
            data["reviewed"] = False
        return data | self.notes

    def to_text(self) -> str:
        """The file as it is written."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n"

    @property
    def unit(self) -> str:
        """The first table: each of its rows is a unit."""
        return self.links[0].name

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(link.name for link in self.links)

    @property
    def reviewed(self) -> bool:
        """Did a person confirm that everything in it is public knowledge?"""
        return self.confirmed and all(self.own(name).reviewed for name in self.names)

    @property
    def file_mode(self) -> int:
        """Who may read its file, before the mask of the process: the owner alone, until it is reviewed."""
        return 0o666 if self.reviewed else 0o600

    @cached_property
    def fingerprint(self) -> str:
        """Of everything that decides which rows count and how they are coded."""
        return fingerprint(self.links)

    @cached_property
    def unit_rows(self) -> dict[str, int]:
        """How many rows of each table a unit has at most."""
        return unit_rows(self.links)

    @property
    def persons(self) -> dict[str, Persons]:
        """Whom a release of each table protects."""
        return persons_of(self.links)

    def __getitem__(self, name: str) -> Link:
        _check.one_of(self.names, table=name)
        return next(link for link in self.links if link.name == name)

    def own(self, name: str) -> Domain:
        """The declared columns of a table itself."""
        return cast("Domain", self[name].domain)

    def ancestors(self, name: str) -> tuple[str, ...]:
        """The tables above one, the nearest first."""
        return ancestors(self.links, name)

    def children(self, name: str) -> tuple[str, ...]:
        """The tables that point to one."""
        return tuple(link.name for link in self.links if link.parent == name)

    def with_domain(self, name: str, domain: Domain) -> Schema:
        """The schema with other columns of one table."""
        links = tuple(replace(link, domain=domain) if link.name == name else link for link in self.links)
        return replace(self, links=links)

    @cached_property
    def _spellings(self) -> dict[tuple[str, str], str]:
        """What each column of a table is called in views: by its own name where no other table has that name."""
        times = Counter(column for name in self.names for column in self.own(name).names)
        return {
            (name, column): column if times[column] == 1 else f"{name}_{column}"
            for name in self.names
            for column in self.own(name).names
        }

    def spelling(self, table: str, column: str) -> str:
        """What a column of a table is called in views."""
        if column.startswith(NUMBER_OF) and column.removeprefix(NUMBER_OF) in self.children(table):
            return column
        if (table, column) not in self._spellings:
            raise DomainError(
                f"table '{table}' has no column '{column}'; it has {', '.join(self.own(table).names)}"
            )
        return self._spellings[table, column]

    @cached_property
    def _columns(self) -> dict[str, dict[str, Place]]:
        return {
            name: {
                spelling: place
                for table in (name, *self.ancestors(name))
                for spelling, place in self._columns_of(table)
            }
            for name in self.names
        }

    def _columns_of(self, table: str) -> list[tuple[str, Place]]:
        own = [(self._spellings[table, column], Place(table, column)) for column in self.own(table).names]
        return own + [(NUMBER_OF + child, Place(table, children=child)) for child in self.children(table)]

    def columns(self, name: str) -> dict[str, Place]:
        """The columns of a view: those of the table, its numbers of children, then those of its ancestors."""
        return self._columns[name]

    @property
    def views(self) -> dict[str, View]:
        """Every table with its ancestors' columns joined."""
        return {name: View(self.domain(name), self.columns(name)) for name in self.names}

    def own_columns(self, name: str) -> tuple[str, ...]:
        """The columns of a view that are the table's own: no ancestor's."""
        return tuple(spelling for spelling, place in self.columns(name).items() if place.table == name)

    @cached_property
    def _domains(self) -> dict[str, Domain]:
        return {name: self._domain(name) for name in self.names}

    def domain(self, name: str) -> Domain:
        """What a row of a view can be: the table's own columns, its numbers of children, and its ancestors' columns."""
        return self._domains[name]

    def _domain(self, name: str) -> Domain:
        tables = (name, *self.ancestors(name))
        attributes = [self._attribute(spelling, place) for spelling, place in self.columns(name).items()]
        constraints = [one for table in tables for one in self.own(table).constraints]
        here = {attribute.name for attribute in attributes}
        if any(not set(one.names) <= here for one in constraints):
            raise DomainError(
                "a constraint names a column that several tables have; give such columns names of their own"
            )
        missing = dict.fromkeys(text for table in tables for text in self.own(table).na_values)
        return Domain(tuple(attributes), tuple(missing), self.reviewed, constraints=tuple(constraints))

    def _attribute(self, spelling: str, place: Place) -> Attribute:
        if place.children is None:
            return replace(self.own(place.table)[place.column or ""], name=spelling)
        most = self[place.children].at_most
        return Attribute(spelling, Kind.NUMERIC, bounds=(-0.5, most + 0.5), bins=most + 1, integer=True)

    def __hash__(self) -> int:
        return hash((self.fingerprint, self.confirmed))

    def _rows(self) -> list[tuple[str, str, str, str]]:
        return [
            (
                link.name,
                "each row is a unit" if link.parent is None else f"{link.refers} of {link.parent}",
                "" if link.parent is None else f"{link.at_most:,}",
                ", ".join(link.domain.names),
            )
            for link in self.links
        ]

    def __repr__(self) -> str:
        lines = [f"Schema({len(self.links)} tables; a unit is a row of '{self.unit}')"]
        for name, points, most, columns in self._rows():
            lines.append(f"  {name}: {points}{f', at most {most}' if most else ''}: {columns}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head = f"{len(self.links)} tables; a unit is a row of '{self.unit}'"
        return _html.table("Schema.", ("table", "points to", "at most", "columns"), self._rows(), head=head)


def _link(entry: TableEntry) -> Link:
    if entry.parent is not None and entry.at_most is None:
        raise DomainError(
            f"table '{entry.name}' needs at_most: how many of its rows count under one row of '{entry.parent}', by "
            "public knowledge and not by the table"
        )
    try:
        domain = Domain.from_dict(entry.domain)
    except DomainError as error:
        raise DomainError(f"table '{entry.name}': {error}") from None
    return Link(
        name=entry.name,
        domain=domain,
        key=entry.key,
        parent=entry.parent,
        refers=entry.refers,
        at_most=1 if entry.at_most is None else entry.at_most,
    )


def _entry(link: Link) -> dict[str, Any]:
    facts: Mapping[str, Any] = {
        "key": link.key,
        "parent": link.parent,
        "refers": link.refers,
        "at_most": None if link.parent is None else link.at_most,
    }
    said = {name: value for name, value in facts.items() if value is not None}
    return {"name": link.name, **said, "domain": cast("Domain", link.domain).to_dict()}


def _in_order(unit: str, links: list[Link]) -> tuple[Link, ...]:
    """The unit's table first, every other one behind its parent."""
    names = [link.name for link in links]
    if unit not in names:
        raise DomainError(f"the unit is table '{unit}', which is not among the tables {', '.join(names)}")
    root = links[names.index(unit)]
    if root.parent is not None:
        raise DomainError(
            f"the unit is a row of '{unit}', which points to '{root.parent}'; the unit's table points to no other"
        )
    unknown = [link for link in links if link.parent is not None and link.parent not in names]
    if unknown:
        raise DomainError(
            f"table '{unknown[0].name}' points to '{unknown[0].parent}', which is not among the tables"
        )
    alone = [link.name for link in links if link.parent is None and link.name != unit]
    if alone:
        raise DomainError(
            f"table '{alone[0]}' points to no other and is not the unit's; every table hangs on the unit's, or stays "
            "out of the schema"
        )
    ordered, waiting = [root], [link for link in links if link is not root]
    while waiting:
        here = {link.name for link in ordered}
        ready = [link for link in waiting if link.parent in here]
        if not ready:
            raise DomainError(
                f"tables {', '.join(link.name for link in waiting)} point to each other in a circle, away from the "
                f"unit's table '{unit}'; each points to one parent, up to the unit's"
            )
        ordered += ready
        waiting = [link for link in waiting if link not in ready]
    return tuple(ordered)


def _explain(error: ValidationError) -> str:
    first = error.errors()[0]
    place = [str(part) for part in first["loc"]]
    if place[-1:] == ["parent"] and first["type"] == "string_type":
        return (
            f"{'.'.join(place)}: a table points to one parent; of two, take the one on which its rows hang, and the "
            "columns of the other as columns of its own"
        )
    return f"{'.'.join(place)}: {first['msg']}" if place else first["msg"]
