"""Unions of query classes, with a weight for each part."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from maquette.core._arguments import checks, checks_arguments
from maquette.core.forms import Form
from maquette.domain import Domain, Relation
from maquette.errors import WorkloadError
from maquette.queries import condition
from maquette.queries.base import (
    Columns,
    Group,
    Margin,
    Norms,
    Part,
    Queries,
    Sensitivity,
    TableQueries,
    check_index,
    check_size,
)
from maquette.queries.marginals import Marginals, distinct_cells
from maquette.queries.sensitivity import connected, union_sensitivity


@dataclass(frozen=True, slots=True, repr=False)
class Workload(Queries):
    """The queries of all parts, one part after the other."""

    kind: ClassVar[str] = "union"
    domain: Domain
    parts: tuple[Part, ...] = field()  # pyright: ignore[reportIncompatibleMethodOverride]

    def __post_init__(self) -> None:
        if not self.parts:
            raise WorkloadError("a union needs at least one class of queries")
        if any(part.queries.domain != self.domain for part in self.parts):
            raise WorkloadError("all parts of a union must be over the same domain")
        if any(isinstance(part.queries, Workload) for part in self.parts):
            raise WorkloadError(
                "a union cannot contain unions; make it with union() or +, which flatten them"
            )

    @property
    def classes(self) -> tuple[Queries, ...]:
        return tuple(part.queries for part in self.parts)

    @property
    def count(self) -> int:
        return sum(queries.count for queries in self.classes)

    def distinct(self) -> int:
        """Exact where the parts that share attributes have at most a million queries, else a bound from above.

        Only parts that share an attribute can share a query. Marginals are compared by their attributes.
        """
        return sum(self._distinct(component) for component in connected(self.classes))

    @property
    def denominator(self) -> int:
        return math.lcm(*(queries.denominator for queries in self.classes))

    @property
    def attributes(self) -> Margin:
        used = {name for queries in self.classes for name in queries.attributes}
        return tuple(name for name in self.domain.names if name in used)

    @checks_arguments
    def sensitivity(self, relation: Relation) -> Sensitivity:
        """Exact where the parts' worst cases provably meet or can be searched, else the sum of the parts'."""
        return union_sensitivity(self.domain, self.classes, relation).bound

    def form(self) -> Form:
        raise WorkloadError("a union has several forms, one for each part; use asked()")

    @property
    def exact_sensitivity(self) -> bool:
        return all(union_sensitivity(self.domain, self.classes, relation).exact for relation in Relation)

    @property
    def flat(self) -> bool:
        return all(queries.flat for queries in self.classes)

    @property
    def pair_cost(self) -> int:
        return sum(queries.pair_cost for queries in self.classes)

    def columns_of(self, rows: Columns) -> NDArray[Any]:
        return self._joined([queries.columns_of(rows) for queries in self.classes])

    def norms(self, rows: Columns) -> Norms:
        return self._total([queries.norms(rows) for queries in self.classes])

    def distances(self, left: Columns, right: Columns) -> Norms:
        return self._total([queries.distances(left, right) for queries in self.classes])

    def on_rows(self, columns: Columns, weights: NDArray[Any] | None = None) -> NDArray[Any]:
        check_size(self.count)
        from maquette.core.tables import count_margins

        needed = [m for q in self.classes if isinstance(q, TableQueries) for m in q.margins]
        tables = count_margins(self.domain.sizes, columns, needed, weights) if needed else {}
        return self._joined(
            [
                q.from_margins(tables) if isinstance(q, TableQueries) else q.on_rows(columns, weights)
                for q in self.classes
            ]
        )

    def on_histogram(self, histogram: NDArray[Any]) -> NDArray[Any]:
        check_size(self.count)
        return self._joined([queries.on_histogram(histogram) for queries in self.classes])

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(note for queries in self.classes for note in queries.notes))

    def query_keys(self) -> Iterator[condition.Key | None]:
        for queries in self.classes:
            yield from queries.query_keys()

    def text(self, index: int) -> str:
        check_index(index, self.count)
        for queries in self.classes:
            if index < queries.count:
                return queries.text(index)
            index -= queries.count
        raise AssertionError("the parts hold fewer queries than they count")

    def spec(self) -> dict[str, Any]:
        parts = [{"queries": part.queries.spec(), "weight": part.weight} for part in self.parts]
        return {"kind": self.kind, "parts": parts}

    def canonical(self) -> dict[str, Any]:
        parts = [{"queries": part.queries.canonical(), "weight": part.weight} for part in self.parts]
        return {"kind": self.kind, "parts": parts}

    def groups(self) -> tuple[Group, ...]:
        """By part; marginals by order."""
        groups: list[Group] = []
        start = 0
        for queries in self.classes:
            groups += [Group(g.name, g.start + start, g.stop + start) for g in queries.groups()]
            start += queries.count
        return tuple(groups)

    def describe(self) -> str:
        return " and ".join(queries.describe() for queries in self.classes)

    def _distinct(self, component: Sequence[Queries]) -> int:
        if len(component) == 1:
            return component[0].distinct()
        tables = [queries for queries in component if isinstance(queries, Marginals)]
        others = [queries for queries in component if not isinstance(queries, Marginals)]
        if others and sum(queries.count for queries in component) <= condition.MAX_KEYS:
            return condition.count_distinct(key for queries in component for key in queries.query_keys())
        margins = {margin for queries in tables for margin in queries.margins}
        return distinct_cells(self.domain, margins) + sum(queries.distinct() for queries in others)

    def _joined(self, answers: list[NDArray[Any]]) -> NDArray[Any]:
        scales = [self.denominator // queries.denominator for queries in self.classes]
        scaled = (
            part if scale == 1 else part * np.int64(scale)
            for part, scale in zip(answers, scales, strict=True)
        )
        return np.concatenate(list(scaled))

    def _total(self, norms: list[Norms]) -> Norms:
        scales = [self.denominator // queries.denominator for queries in self.classes]
        return Norms(
            np.sum([norm.l1 * scale for norm, scale in zip(norms, scales, strict=True)], axis=0),
            np.sum([norm.l2_squared * scale**2 for norm, scale in zip(norms, scales, strict=True)], axis=0),
        )


@checks("queries", lists=["weights"])
def union(*queries: Queries, weights: Sequence[float] | None = None) -> Workload:
    """The queries of several classes as one class; unions among them are flattened, their weights multiplied."""
    if not queries:
        raise WorkloadError("a union needs at least one class of queries")
    factors = [1.0] * len(queries) if weights is None else list(weights)
    if len(factors) != len(queries):
        raise WorkloadError(f"expected one weight for each of {len(queries)} classes, got {len(factors)}")
    parts: list[Part] = []
    for outer in map(Part, queries, factors):
        if isinstance(outer.queries, Workload):
            parts += [Part(part.queries, part.weight * outer.weight) for part in outer.queries.parts]
        else:
            parts.append(outer)
    return Workload(queries[0].domain, tuple(parts))
