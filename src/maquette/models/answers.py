"""Small databases and the answers that are read off their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain
from maquette.errors import ReleaseError
from maquette.queries import condition
from maquette.queries.base import MAX_ANSWERS, Margin, Queries, TableQueries, check_size
from maquette.queries.merging import MAX_PIECE_QUERIES, pieces
from maquette.queries.predicates import SetQueries
from maquette.queries.weights import Weights
from maquette.questions.answers import Answers


class Unlisted(Answers):
    """Answers of a small database to a class too large to list: each is read from the rows when it is asked for."""

    __slots__ = ()

    def __init__(self, denominator: int) -> None:
        super().__init__(np.zeros(0, dtype=np.int64), denominator)

    @property
    def fractions(self) -> NDArray[np.float64]:
        raise ReleaseError(
            "this class has too many queries to list their answers: ask for single ones with release.answer(...), or "
            "count on release.rows"
        )


@dataclass(frozen=True, slots=True, eq=False)
class SmallDatabase:
    """Coded rows that stand for the table: the maquette. Columns by attribute name, all of length `m`."""

    columns: dict[str, NDArray[Any]]

    @property
    def m(self) -> int:
        return len(next(iter(self.columns.values())))

    def answer(self, queries: Queries) -> Answers:
        """Exact fractions of the rows."""
        check_size(queries.count)
        denominator = queries.denominator * max(self.m, 1)
        long = queries.count > MAX_PIECE_QUERIES and denominator < 2**31
        numerators = np.empty(queries.count, dtype=np.int32 if long else np.int64)
        for start, piece in pieces(queries):
            place = numerators[start : start + piece.count]
            factor = queries.denominator // piece.denominator
            np.multiply(piece.on_rows(self.columns), factor, out=place, casting="unsafe")
        return Answers(numerators, denominator)

    def answer_all(self, queries: Queries) -> Answers:
        """The same, or answers on demand where there are too many to list."""
        if queries.count > MAX_ANSWERS:
            return Unlisted(queries.denominator * max(self.m, 1))
        return self.answer(queries)


# Which attributes a release says something about: those that its measurements look at, from public
# structure alone.


def measured_together(workload: Queries, tables: Iterable[Margin] = ()) -> frozenset[Margin]:
    """Every set of attributes that some measurement looked at together.

    Those of the workload's queries, which every mechanism measures or fits; and `tables` that were measured beside
    them.
    """
    return frozenset(tables).union(margin for part in workload.classes for margin in _sets(part))


def measured_names(domain: Domain, sets: Iterable[Margin]) -> Margin:
    """The attributes in these sets and those of one cell, of which everything is known, in domain order."""
    used = {name for margin in sets for name in margin}
    return tuple(a.name for a in domain if a.name in used or a.size == 1)


def only(database: SmallDatabase | None, names: Margin) -> SmallDatabase | None:
    """The same rows with these columns alone; None if none is left."""
    if database is None or set(database.columns) <= set(names):
        return database
    columns = {name: codes for name, codes in database.columns.items() if name in names}
    return SmallDatabase(columns) if columns else None


def check_complete(database: SmallDatabase, domain: Domain, names: Margin) -> None:
    """Refuse rows that lack one of these attributes; those of one cell need no column."""
    missing = [name for name in names if domain[name].size > 1 and name not in database.columns]
    if missing:
        raise ReleaseError(f"the rows lack the measured attribute '{missing[0]}'")


def answer_from(database: SmallDatabase, queries: Queries) -> Answers:
    """The rows' answers to queries that depend on no other attribute than those of the rows."""
    free = [name for name in queries.attributes if name not in database.columns]
    if not free:
        return database.answer(queries)
    return SmallDatabase(database.columns | dict.fromkeys(free, np.zeros(database.m, np.uint8))).answer(
        queries
    )


def _sets(part: Queries) -> Iterator[Margin]:
    """The sets of attributes that the queries of a plain class look at."""
    if isinstance(part, Weights):
        yield _varied(part)
    elif isinstance(part, SetQueries):
        yield from (condition.attributes(part.domain, one) for one in part.conditions)
    elif isinstance(part, TableQueries) and part.count <= MAX_ANSWERS:
        yield from part.margins
    else:
        yield part.attributes


def _varied(part: Weights) -> Margin:
    """The attributes that change the weight of some query; a constant query says nothing about any."""
    table = part.numerators.reshape(part.count, *(part.domain[name].size for name in part.over))
    firsts = (table.take([0], axis=axis) for axis in range(1, table.ndim))
    return tuple(name for name, first in zip(part.over, firsts, strict=True) if np.any(table != first))
