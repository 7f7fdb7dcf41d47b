"""Who is a neighbour of whom: the two tables whose releases must look alike, and whose privacy that protects."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from maquette.core import _check
from maquette.core.errors import ParameterError


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
