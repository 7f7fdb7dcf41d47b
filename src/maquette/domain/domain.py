"""The universe X: every record the table could hold, decided without looking at it."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from maquette import _check, _html
from maquette._arguments import checks_arguments
from maquette.domain.attribute import Attribute
from maquette.domain.constraint import Constraint, Rule, resolve
from maquette.errors import DomainError, ParameterError

_FILE_KEYS = ("attributes", "na_values", "reviewed", "constraints")
"""What a domain file says besides its notes."""
DRAFT, COLUMNS, LEFT_OUT = "draft", "columns", "left_out"
"""The notes of a draft: a warning, where the declaration of each column comes from, and why some have none."""


@dataclass(frozen=True)  # without slots, so that look-ups can be computed once and stored
class Domain:
    """The declared schema: attributes in order, the tokens that mean missing, and whether a person confirmed it."""

    attributes: tuple[Attribute, ...]
    na_values: tuple[str, ...] = ()
    reviewed: bool = True
    notes: dict[str, Any] = field(default_factory=dict[str, Any], compare=False, hash=False)
    """Everything else a domain file says (source, licence, remarks); never used in a computation."""
    constraints: tuple[Constraint, ...] = ()
    """What no record can be: `Never` and `Determines`. Released rows respect them; private records need not."""
    rules: tuple[Rule, ...] = field(default=(), init=False, repr=False, compare=False)
    """The constraints in codes."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", tuple(self.attributes))
        object.__setattr__(self, "na_values", tuple(self.na_values))
        if not self.attributes:
            raise DomainError("a domain needs at least one attribute")
        names = [a.name for a in self.attributes]
        if len(set(names)) < len(names):
            twice = sorted({n for n in names if names.count(n) > 1})
            raise DomainError(f"attribute names must be distinct, got {', '.join(twice)} more than once")
        if self.reviewed:
            object.__setattr__(self, "notes", _without_draft(self.notes))
        object.__setattr__(self, "constraints", tuple(self.constraints))
        if self.constraints:
            from maquette.domain.constraint import check_consistent

            object.__setattr__(self, "rules", resolve(self.attributes, self.constraints))
            check_consistent(self.attributes, self.rules)

    @classmethod
    @checks_arguments
    def load(cls, path: str | Path) -> Domain:
        """Read a domain file (JSON)."""
        from maquette.domain.file import read

        return read(Path(path))

    @classmethod
    @checks_arguments
    def from_dict(cls, data: dict[str, Any]) -> Domain:
        """A domain from the parsed form of its file."""
        from maquette.domain.file import parse

        return parse(data)

    def to_dict(self) -> dict[str, Any]:
        """The form that a domain file holds; defaults are left out, so that it means the same when it is read."""
        data: dict[str, Any] = {"attributes": [attribute.entry() for attribute in self.attributes]}
        if self.na_values:
            data["na_values"] = list(self.na_values)
        if not self.reviewed:
            data["reviewed"] = False
        if self.constraints:
            data["constraints"] = [constraint.spec() for constraint in self.constraints]
        return data | {key: note for key, note in self.notes.items() if key not in _FILE_KEYS}

    @checks_arguments
    def save(self, path: str | Path) -> None:
        """Write a domain file."""
        from maquette.domain.file import to_text

        try:
            with os.fdopen(
                os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, self.file_mode), "w", encoding="utf-8"
            ) as file:
                if not self.reviewed:
                    Path(path).chmod(self.file_mode)
                file.write(to_text(self))
        except OSError as error:
            raise DomainError(f"cannot write the domain file {path}: {error.strerror}") from None

    @property
    def file_mode(self) -> int:
        """Who may read its file, before the mask of the process: the owner alone, until it is reviewed."""
        return 0o666 if self.reviewed else 0o600

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.attributes)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Cells per attribute, in order."""
        return tuple(a.size for a in self.attributes)

    @cached_property
    def size(self) -> int:
        """|X|, an exact int."""
        return math.prod(self.shape)

    @cached_property
    def log_size(self) -> float:
        """ln |X|."""
        return math.fsum(math.log(s) for s in self.shape)

    @cached_property
    def _places(self) -> dict[str, int]:
        """The position of each attribute by name."""
        return {name: place for place, name in enumerate(self.names)}

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Cells per attribute by name."""
        return dict(zip(self.names, self.shape, strict=True))

    def __getitem__(self, name: str) -> Attribute:
        try:
            return self.attributes[self._places[name]]
        except (KeyError, TypeError):
            return self.attributes[self.index(name)]  # says that it is unknown

    def index(self, name: str) -> int:
        """The position of an attribute."""
        if name not in self:
            raise DomainError(
                f"unknown attribute {_check.shown(name)}; the domain has {', '.join(self.names)}"
            )
        return self._places[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._places

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)

    @checks_arguments
    def cells(self, names: Iterable[str]) -> int:
        """How many cells the table over these attributes has."""
        sizes, listed = self.sizes, list(names)
        try:
            return math.prod([sizes[name] for name in listed])
        except KeyError:
            return math.prod(self[name].size for name in listed)  # says which one is unknown

    @checks_arguments
    def project(self, names: Iterable[str]) -> Domain:
        """The smaller universe over some attributes, in the given order, with the constraints on them alone."""
        order = tuple(names)
        constraints = tuple(c for c in self.constraints if set(c.names) <= set(order))
        return Domain(
            tuple(self[name] for name in order), self.na_values, self.reviewed, constraints=constraints
        )

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of everything that decides the coding and the universe; equal fingerprints mean equal universes."""
        content: dict[str, Any] = {
            "attributes": self.to_dict()["attributes"],
            "na_values": sorted(set(self.na_values)),
        }
        if self.constraints:  # absent otherwise, so that domains without any keep the fingerprint they had
            content["constraints"] = sorted(rule.digest() for rule in self.rules)
        return hashlib.sha256(json.dumps(_plain(content), sort_keys=True).encode()).hexdigest()

    @cached_property
    def _hash(self) -> int:
        return hash((self.attributes, self.na_values, self.reviewed, self.constraints))

    def __hash__(self) -> int:
        return self._hash

    def __getstate__(self) -> dict[str, Any]:
        """The declaration alone: a stored hash would be wrong in another process."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def __repr__(self) -> str:
        return f"Domain({len(self)} attributes, |X| = {_big(self.size)}: {', '.join(self.names)})"

    def _repr_html_(self) -> str:
        rows = [(a.name, str(a.kind), a.values_in_words, f"{a.size:,}") for a in self.attributes]
        head = f"{len(self)} attributes, {_big(self.size)} possible records"
        return _html.table("Domain.", ("attribute", "kind", "values", "cells"), rows, head=head)


def _without_draft(notes: dict[str, Any]) -> dict[str, Any]:
    """Notes without those of a draft, which speak of the rows. What is noted of columns that were found is paid for."""
    public = {key: note for key, note in notes.items() if key not in (DRAFT, LEFT_OUT)}
    columns = public.get(COLUMNS)
    if _check.is_dict(columns):
        public[COLUMNS] = {
            name: note for name, note in columns.items() if not (_check.is_dict(note) and "from" in note)
        }
        if columns and not public[COLUMNS]:
            del public[COLUMNS]
    return public


def _plain(value: Any) -> Any:
    """One spelling of equal numbers: 0.0 becomes 0."""
    if _check.is_dict(value):
        return {key: _plain(item) for key, item in value.items()}
    if _check.is_list(value):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _big(value: int) -> str:
    return (
        f"{value:,}" if value < 10**7 else f"{value:.3g}" if value < 10**300 else f"10^{len(str(value)) - 1}"
    )


# Who are neighbours: the two tables whose releases must look alike.


class Relation(StrEnum):
    """The neighbouring relation of a guarantee. Always stored next to the budget."""

    ADD_REMOVE = "add-remove"
    """One record more or less; the number of records n is private."""

    REPLACE_ONE = "replace-one"
    """One record exchanged for another; n is public."""

    @classmethod
    def named(cls, relation: Relation | str) -> Relation:
        """The relation of that name; ParameterError for any other word."""
        _check.one_of([str(one) for one in cls], relation=str(relation))
        return cls(relation)


# Whose privacy a guarantee protects where one person has several records.


MAX_ROWS_PER_PERSON = 1000


@dataclass(frozen=True, slots=True)
class Persons:
    """A column that says whose record it is, and how many records of each person are looked at.

    Neighbours under it: one person more or less, with at most `rows` records. Stored next to the budget.
    """

    column: str
    rows: int

    def __post_init__(self) -> None:
        column: Any = self.column
        if not (isinstance(column, str) and 0 < len(column) <= 100 and column.isprintable()):
            raise ParameterError(
                f"expected person as the name of a column, of 1 to 100 printable characters, got {_check.shown(column)}"
            )
        _check.whole(rows_per_person=self.rows)
        if self.rows > MAX_ROWS_PER_PERSON:
            raise ParameterError(
                f"expected rows_per_person <= {MAX_ROWS_PER_PERSON}, got {self.rows}: noise grows in proportion to it"
            )

    @classmethod
    def named(cls, person: str | None, rows_per_person: int | None) -> Persons | None:
        """As the arguments of the same names say it: both or none."""
        if person is None and rows_per_person is None:
            return None
        if person is None or rows_per_person is None:
            raise ParameterError(
                "person= (the column that says whose record it is) and rows_per_person= (how many records of a person "
                "count) go together; give both or none"
            )
        return cls(person, rows_per_person)

    def __str__(self) -> str:
        records = "1 record" if self.rows == 1 else f"{self.rows:,} records"
        return f"persons by '{self.column}' with at most {records} each"


def check_relation(persons: Persons | None, relation: Relation) -> None:
    """Persons go with add/remove-one: exchanging a person would change the number of records, which is public there."""
    if persons is not None and relation is not Relation.ADD_REMOVE:
        raise ParameterError(
            f"person= goes with relation 'add-remove' only, not '{relation}': two people may have different numbers of "
            "records, so that the number of records is not public"
        )


def rows_of(persons: Persons | None) -> int:
    """How many records a neighbour has at most."""
    return 1 if persons is None else persons.rows


def neighbours(relation: Relation, persons: Persons | None) -> str:
    """Who are neighbours, in words for readers."""
    return f"{relation} neighbours" if persons is None else f"{relation} neighbours, {persons}"


# The form that a ledger stores beside its budget: a version that knows no persons cannot read it.


def to_text(relation: Relation, persons: Persons | None) -> str:
    if persons is None:
        return str(relation)
    return f"{relation} {json.dumps({'person': persons.column, 'rows': persons.rows}, sort_keys=True)}"


def from_text(text: str) -> tuple[Relation, Persons | None]:
    """The relation and persons of a stored form; ValueError for any other text."""
    word, _, more = text.partition(" ")
    if not more:
        return Relation(word), None
    data = json.loads(more)
    return Relation(word), Persons(data["person"], data["rows"])
