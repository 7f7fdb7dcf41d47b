"""Tables that point to each other, as they are declared: which columns are keys, and how many rows count."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from maquette.core import _check
from maquette.core.errors import DomainError
from maquette.core.neighbours import MAX_ROWS_PER_PERSON, Persons
from maquette.core.universe import Universe


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One table: its own columns, what names its rows, and to which table it points."""

    name: str
    domain: Universe
    """Its own columns, without keys."""
    key: str | None = None
    """The column that names a row; needed where other tables point to it."""
    parent: str | None = None
    """The table that it points to; None for the first one, of which every row is a unit."""
    refers: str | None = None
    """The column that holds the key of the parent's row."""
    at_most: int = 1
    """How many rows count under one row of the parent."""

    def __post_init__(self) -> None:
        if not self.name.isidentifier() or len(self.name) > 60:
            raise DomainError(
                f"expected the name of a table as letters, digits and _ (at most 60), got {_check.shown(self.name)}"
            )
        if not _check.is_whole(self.at_most) or self.at_most < 1:
            raise DomainError(
                f"table '{self.name}': at_most says how many rows count under one row of its parent, a whole number "
                f"from 1, got {_check.shown(self.at_most)}; leave the table out if none should"
            )
        if (self.parent is None) != (self.refers is None):
            raise DomainError(
                f"table '{self.name}': parent and refers go together: the table that it points to, and the column that "
                "holds the key of that table's row"
            )
        if self.parent is None and self.key is None:
            raise DomainError(f"table '{self.name}' needs a key: the column that names its rows")
        if self.key is not None and self.key == self.refers:
            raise DomainError(
                f"table '{self.name}': column '{self.key}' cannot both name its rows and point to '{self.parent}'; a "
                "table with one row for each row of its parent needs no key of its own"
            )
        for column in (self.key, self.refers):
            if column is not None and column in self.domain:
                raise DomainError(
                    f"table '{self.name}': '{column}' is a key, and keys are never released; take it out of the "
                    "table's columns"
                )


@dataclass(frozen=True, slots=True)
class Place:
    """From where a column of a view is: a column of a table, or the number of its rows' children in another."""

    table: str
    column: str | None = None
    children: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """A table of which every row has the columns of its ancestors, and numbers of children."""

    domain: Universe
    places: Mapping[str, Place]
    """From where each attribute is."""


def check_links(links: Sequence[Link]) -> None:
    """Refuse what is no tree with its root first: every other table points to one that comes before it."""
    names = [link.name for link in links]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DomainError(f"tables need names of their own, got {', '.join(twice)} more than once")
    if not links or links[0].parent is not None or any(link.parent is None for link in links[1:]):
        raise DomainError(
            "expected one table that points to no other, the first one: every row of it is a unit, and all others hang "
            "on it"
        )
    before: dict[str, Link] = {}
    for link in links:
        if link.parent is not None and link.parent not in before:
            raise DomainError(
                f"table '{link.name}' points to '{link.parent}', which is not among the tables before it"
            )
        if link.parent is not None and before[link.parent].key is None:
            raise DomainError(
                f"table '{link.name}' points to '{link.parent}', which needs a key: the column that names its rows"
            )
        before[link.name] = link
    for name, rows in unit_rows(links).items():
        if rows > MAX_ROWS_PER_PERSON:
            raise DomainError(
                f"a unit would have up to {rows:,} rows of table '{name}', more than {MAX_ROWS_PER_PERSON:,}: noise "
                "grows in proportion to them; declare smaller at_most"
            )


def ancestors(links: Sequence[Link], name: str) -> tuple[str, ...]:
    """The tables above one, the nearest first."""
    parents = {link.name: link.parent for link in links}
    above: list[str] = []
    while (parent := parents[name]) is not None:
        above.append(parent)
        name = parent
    return tuple(above)


def unit_rows(links: Sequence[Link]) -> dict[str, int]:
    """How many rows of each table a unit has at most: the product of what counts on the way from the first table."""
    at_most = {link.name: link.at_most if link.parent else 1 for link in links}
    return {
        link.name: math.prod(at_most[name] for name in (link.name, *ancestors(links, link.name)))
        for link in links
    }


def persons_of(links: Sequence[Link]) -> dict[str, Persons]:
    """Whom each table protects: the units, with as many rows as one has there at most."""
    units = f"{links[0].name}.{links[0].key}"
    return {name: Persons(units, rows) for name, rows in unit_rows(links).items()}


def fingerprint(links: Sequence[Link]) -> str:
    """SHA-256 of everything that decides which rows count and how they are coded."""
    facts = [
        [link.name, link.domain.fingerprint, link.key, link.parent, link.refers, link.at_most]
        for link in links
    ]
    return hashlib.sha256(json.dumps(["tables", facts]).encode()).hexdigest()
