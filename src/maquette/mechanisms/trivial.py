"""Workloads that need no data: nothing asked, or every answer the same for every record."""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol

import numpy as np

from maquette.domain import Relation
from maquette.errors import MechanismError
from maquette.mechanisms import shape
from maquette.mechanisms.base import Curator, Guarantee, Outcome, Task
from maquette.models.answers import Answers, SmallDatabase
from maquette.models.measurement import Size

_FREE = "every query is constant: answered without looking at the table, at no cost"


def constant(task: Task) -> bool:
    """Does every query have the same weight on every record?"""
    return shape.distinct(task.queries) == 0


class Able(Protocol):
    """A mechanism that says beforehand why it cannot run."""

    @property
    def name(self) -> str: ...

    def refusal(self, task: Task) -> str | None: ...


def opening(mechanism: Able, curator: Curator, task: Task) -> Outcome | None:
    """How a run begins: constant queries are answered at once, a task that cannot be done is refused; else None."""
    if constant(task):
        return constant_outcome(curator, task)
    refused = mechanism.refusal(task)
    if refused is not None:
        raise MechanismError(f"mechanism '{mechanism.name}' cannot do this: {refused}")
    return None


def constant_outcome(curator: Curator, task: Task) -> Outcome:
    """The exact fractions of constant queries, read off any one record. Costs nothing and looks at nothing.

    Guarantee: 0; only a public size is asked for. A private size stays unknown: fractions do not need it.
    """
    queries = task.queries
    one = {a.name: np.zeros(1, dtype=np.int64) for a in queries.domain}
    numerators = np.asarray(queries.on_rows(one), dtype=np.int64) if queries.count else np.zeros(0, np.int64)
    public = task.relation is Relation.REPLACE_ONE
    size = curator.size(price=Fraction(0)) if public else Size.unknown()
    return Outcome(
        answers=Answers(numerators, queries.denominator),
        database=_rows(task, size),
        size=size,
        guarantee=Guarantee(0.0, task.beta, "the answers are the same for every table"),
        notes=(_FREE if public else f"{_FREE}; the number of records stays private",),
    )


def _rows(task: Task, size: Size) -> SmallDatabase | None:
    """Where there is only one possible record, the rows are known too."""
    if task.queries.domain.size > 1:
        return None
    m = task.rows or size.divisor
    return SmallDatabase({a.name: np.zeros(m, dtype=np.uint8) for a in task.queries.domain})
