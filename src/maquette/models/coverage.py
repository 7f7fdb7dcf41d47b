"""Which attributes a release says something about: those that its measurements look at, from public structure alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from maquette.domain import Domain
from maquette.errors import ReleaseError
from maquette.models.answers import Answers, SmallDatabase
from maquette.models.linear import classes_of
from maquette.models.sculpt.model import SculptModel
from maquette.queries import condition
from maquette.queries.base import Margin, Queries, TableQueries
from maquette.queries.limits import MOST_ANSWERS
from maquette.queries.sets import SetQueries
from maquette.queries.weights import Weights


def measured_together(workload: Queries, model: Any = None) -> frozenset[Margin]:
    """Every set of attributes that some measurement looked at together.

    Those of the workload's queries, which every mechanism measures or is held to; and the tables of a model that
    were measured beside them.
    """
    found = {margin for part in classes_of(workload) for margin in _sets(part)}
    if isinstance(model, SculptModel):
        found |= {table.asked.margin for table in model.tables}
    return frozenset(found)


def measured_names(domain: Domain, sets: Iterable[Margin]) -> Margin:
    """The attributes in these sets and those of one cell, of which everything is known, in domain order."""
    used = {name for margin in sets for name in margin}
    return tuple(a.name for a in domain if a.name in used or a.size == 1)


def only(database: SmallDatabase | None, names: Margin) -> SmallDatabase | None:
    """The same rows with these columns alone; None if none is left."""
    if database is None or set(database.columns) <= set(names):
        return database
    kept = {name: codes for name, codes in database.columns.items() if name in names}
    return SmallDatabase(kept) if kept else None


def check_complete(database: SmallDatabase, domain: Domain, names: Margin) -> None:
    """Refuse rows that lack one of these attributes; those of one cell need no column."""
    lacking = [name for name in names if domain[name].size > 1 and name not in database.columns]
    if lacking:
        raise ReleaseError(f"the rows lack the measured attribute '{lacking[0]}'")


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
        yield from (condition.attributes(part.domain, given) for given in part.conditions)
    elif isinstance(part, TableQueries) and part.count <= MOST_ANSWERS:
        yield from part.margins
    else:
        yield part.attributes


def _varied(part: Weights) -> Margin:
    """The attributes that change the weight of some query; a constant query says nothing about any."""
    table = part.numerators.reshape(part.count, *(part.domain[name].size for name in part.over))
    firsts = (table.take([0], axis=axis) for axis in range(1, table.ndim))
    return tuple(name for name, first in zip(part.over, firsts, strict=True) if np.any(table != first))
