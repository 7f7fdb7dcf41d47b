"""Predicates as queries: one, or a list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from maquette.domain import Domain
from maquette.errors import WorkloadError
from maquette.queries import canonical, cells, condition
from maquette.queries.base import Queries
from maquette.queries.condition import NEVER, Condition
from maquette.queries.cut import Parsed
from maquette.queries.limits import check_index
from maquette.queries.sets import SetQueries
from maquette.queries.sql import condition_text
from maquette.queries.workload import Workload


@dataclass(frozen=True, slots=True)
class Predicate(SetQueries):
    """The number of records that satisfy an SQL predicate.

    Where a literal cuts a cell, no count of cells can be that number: `notes` say how the predicate was read instead,
    and `ends` are the two predicates, exact on cells, between which the number lies.
    """

    kind: ClassVar[str] = "predicate"
    domain: Domain
    sql: str
    condition: Condition = field(init=False, compare=False, repr=False)
    notes: tuple[str, ...] = field(init=False, compare=False, repr=False)
    _parsed: Parsed = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        from maquette.queries.text import parse

        parsed = parse(self.domain, self.sql)
        object.__setattr__(self, "condition", parsed.condition)
        object.__setattr__(self, "notes", parsed.notes)
        object.__setattr__(self, "_parsed", parsed)

    @property
    def exact(self) -> bool:
        """Does it count, from cells, just the records that satisfy the words?"""
        return self._parsed.surely == self._parsed.maybe

    @property
    def cuts(self) -> tuple[str, ...]:
        """Which comparison cuts which cells; none if it is exact."""
        return self._parsed.cuts

    def ends(self) -> tuple[Predicate, Predicate]:
        """Two exact predicates: one counts the records that surely satisfy this one, the other those that may.

        Both are the predicate itself if it is exact. `WorkloadError` if it is too long to be said so.
        """
        if self.exact:
            return self, self
        return self._end(self._parsed.surely), self._end(self._parsed.maybe)

    def _end(self, meant: Condition) -> Predicate:
        text = condition_text(self.domain, meant)
        try:
            found = None if text is None else Predicate(self.domain, text)
        except WorkloadError:  # longer than a predicate may be
            found = None
        if found is None or not found.exact or found.condition != meant:
            raise WorkloadError(
                f"{self.cuts[0]}, and both sides of it are too long to be said; compare with borders of cells"
            )
        return found

    @property
    def conditions(self) -> tuple[Condition, ...]:
        return (self.condition,)

    def box(self) -> dict[str, tuple[int, ...]] | None:
        """The predicate as a product: for each attribute that matters the codes it allows. None if it is none."""
        if self.condition == NEVER:
            return {self.domain.names[0]: ()}
        factors = condition.product(self.condition)
        if factors is not None:
            return {leaf.attribute: cells.codes(leaf.runs) for leaf in factors}
        key = canonical.condition_key(self.domain, self.condition)
        if key == ("constant", True):
            return {}
        if key == ("constant", False):
            return {self.domain.names[0]: ()}
        return {name: cells.codes(runs) for name, runs in key[1]} if key[0] == "box" else None

    def text(self, index: int) -> str:
        check_index(index, 1)
        return self.sql

    def spec(self) -> dict[str, Any]:
        return {"kind": self.kind, "where": self.sql}

    def describe(self) -> str:
        return self.sql


@dataclass(frozen=True, slots=True)
class Predicates(SetQueries):
    """Several predicates as one class."""

    kind: ClassVar[str] = "predicates"
    domain: Domain
    predicates: tuple[Predicate, ...]

    def __post_init__(self) -> None:
        if not self.predicates:
            raise WorkloadError("expected at least one predicate")
        if any(one.domain != self.domain for one in self.predicates):
            raise WorkloadError("all predicates must be over the same domain")

    @property
    def conditions(self) -> tuple[Condition, ...]:
        return tuple(one.condition for one in self.predicates)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was read otherwise than it was written, each note once."""
        return tuple(dict.fromkeys(note for one in self.predicates for note in one.notes))

    def text(self, index: int) -> str:
        check_index(index, self.count)
        return self.predicates[index].sql

    def spec(self) -> dict[str, Any]:
        return {"kind": self.kind, "where": [one.sql for one in self.predicates]}


def where(domain: Domain, predicate: str) -> Predicate:
    """The query that counts the records satisfying an SQL predicate over declared attributes."""
    return Predicate(domain, predicate)


def predicates(domain: Domain, texts: Iterable[str]) -> Predicates:
    """A list of predicates as one class of queries."""
    if isinstance(texts, str):
        raise WorkloadError("expected a list of predicates, got one text; use where() for a single predicate")
    return Predicates(domain, tuple(Predicate(domain, text) for text in texts))


def exact_predicates(domain: Domain, texts: Iterable[str]) -> Predicate | Predicates:
    """Predicates that cells can count exactly: each as it is, or both sides of one that cuts cells."""
    found = [end for text in texts for end in dict.fromkeys(Predicate(domain, text).ends())]
    return found[0] if len(found) == 1 else Predicates(domain, tuple(found))


def notes_of(queries: Queries) -> tuple[str, ...]:
    """What the predicates of a workload read otherwise than it was written, each note once."""
    parts = [part.queries for part in queries.parts] if isinstance(queries, Workload) else [queries]
    told = (part.notes for part in parts if isinstance(part, (Predicate, Predicates)))
    return tuple(dict.fromkeys(note for notes in told for note in notes))
