"""What every class of linear queries knows about itself.

A query is a weight in [0, 1] for every cell of the universe; its answer on a table is the weighted count.
Answers are whole numbers over a public `denominator` (1 for counting queries), so that nothing between the
rows and the noise is a floating-point number. Sensitivities are exact, computed from public structure, and
trusted: the family of classes is closed, foreign weights enter through `weights.py` only.
"""

from __future__ import annotations

import hashlib
import json
import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from maquette import _html
from maquette.core import _check
from maquette.core._arguments import checks, checks_arguments
from maquette.core.forms import MAX_LISTED, Form, QueryForms, Sensitivity, Weights
from maquette.core.linear_queries import Group, LinearQueries
from maquette.core.tables import count_margins
from maquette.domain import Domain, Relation
from maquette.errors import WorkloadError
from maquette.queries import condition
from maquette.queries.condition import Key, all_cells, keys_by_cells
from maquette.queries.rows import Columns, Margin, Norms, check_index, check_size, distinct_cells, sum_margin
from maquette.queries.sensitivity import connected, union_sensitivity

FORMAT, VERSION = "maquette-queries", 1
"""Of the JSON form that is stored."""

MAX_SHOWN_TEXT = 100
"""Characters of a class of queries in words, where it is shown in a line."""
SHOWN_QUERIES = 4
"""Queries of a class that a notebook lists."""


class Queries(LinearQueries):
    """A class of linear queries over a domain. Frozen; `count` queries in a fixed order."""

    kind: ClassVar[str]
    """The stable word for this class in JSON."""
    domain: Domain

    @property
    @abstractmethod
    def count(self) -> int:
        """|Q| as asked, an exact int."""

    def __len__(self) -> int:
        return self.count

    def __bool__(self) -> bool:
        """A class has at least one query; its length may be more than `len` can say."""
        return True

    @abstractmethod
    def distinct(self) -> int:
        """|Q| after merging duplicates and complements and dropping constants: the k of every bound."""

    @property
    def whole_margins(self) -> tuple[Margin, ...]:
        """The tables of which it has every cell, where it is such a class: these are compared by their attributes."""
        return ()

    @property
    def parts(self) -> tuple[Part, ...]:
        """The classes that this one is a union of, in order, with their weights; the class itself if it is no union."""
        return (Part(self),)

    @property
    def classes(self) -> tuple[Queries, ...]:
        """The classes of `parts` without their weights."""
        return (self,)

    @property
    def denominator(self) -> int:
        """Answers are whole numbers over this."""
        return 1

    @property
    @abstractmethod
    def attributes(self) -> Margin:
        """The attributes that the queries look at, in domain order."""

    @abstractmethod
    @checks_arguments
    def sensitivity(self, relation: Relation) -> Sensitivity:
        """Sensitivities of the whole vector of answers, in counts; never too small."""

    def form(self) -> Form:
        """The queries as plain arrays, as the gate takes them: sums over private records are its own.

        By default their weights on all public cells, where these are few enough to be listed.
        """
        names = self.attributes or self.domain.names[:1]
        if self.count * self.domain.cells(names) > MAX_LISTED:
            raise WorkloadError(
                f"{self.count:,} queries over {self.domain.cells(names):,} cells are too many to list their weights "
                f"(at most {MAX_LISTED:,} numbers); ask fewer queries, or attributes with fewer cells"
            )
        cells = all_cells(tuple(self.domain[name].size for name in names), names)
        weights = np.asarray(self.columns_of(cells))
        if weights.dtype.kind not in "biu":
            raise WorkloadError(
                f"expected whole numerators of the weights, got {weights.dtype}; use weights()"
            )
        return Weights(names, weights.astype(np.int32), self.denominator)

    def to_forms(self) -> QueryForms:
        """What the gate takes: the forms of all parts, under one name."""
        return QueryForms(tuple(part.form() for part in self.classes), canonical_hash(self))

    @property
    def exact_sensitivity(self) -> bool:
        """Are the sensitivities attained by some pair of neighbours, or only never exceeded?"""
        return True

    @property
    def flat(self) -> bool:
        """Do all records weigh the same, and all pairs that differ in every attribute lie farthest apart?

        (Attributes of one cell do not count.) The worst cases of such a class meet those of any other.
        """
        return False

    @property
    def spread(self) -> bool:
        """Does some pair of records that lies farthest apart differ in every attribute of two or more cells?"""
        return False

    @property
    def pair_cost(self) -> int:
        """How many elementary steps `distances` takes per pair of records."""
        return self.count

    @checks_arguments
    def twins(self, name: str) -> NDArray[np.int64]:
        """A label for each cell of an attribute; the queries do not tell cells of one label apart."""
        return np.arange(self.domain[name].size, dtype=np.int64)

    def sides(self, codes: Mapping[str, NDArray[np.int64]]) -> Mapping[str, NDArray[np.bool_]] | None:
        """For some codes of each attribute: can a query (down) count a record with that code (across)?

        True is always right; False promises that no such record has a weight. None where a class does not know.
        """
        del codes
        return None

    @property
    def are_products(self) -> bool:
        """Does a query count, with weight 1, just the records that all of its `sides` allow?"""
        return False

    def columns_of(self, rows: Columns) -> NDArray[Any]:
        """Numerators of every query (down) on every single record (across)."""
        length = len(next(iter(rows.values())))
        singles = ({name: codes[i : i + 1] for name, codes in rows.items()} for i in range(length))
        return np.stack([self.on_rows(single) for single in singles], axis=1)

    def norms(self, rows: Columns) -> Norms:
        """What adding each record moves."""
        columns = self.columns_of(rows)
        l1 = columns.sum(axis=0, dtype=np.int64)
        if self.denominator == 1:
            return Norms(l1, l1)
        return Norms(l1, np.square(columns, dtype=np.int64).sum(axis=0))

    def distances(self, left: Columns, right: Columns) -> Norms:
        """What replacing each record on the left by each on the right moves."""
        first, second = self.columns_of(left), self.columns_of(right)
        if self.denominator == 1:  # |p - q| = p + q - 2pq for 0 and 1; sums of them are exact in doubles
            both = np.rint(first.T.astype(np.float64) @ second.astype(np.float64)).astype(np.int64)
            distance = (
                first.sum(axis=0, dtype=np.int64)[:, None] + second.sum(axis=0, dtype=np.int64) - 2 * both
            )
            return Norms(distance, distance)
        gaps = [np.abs(first[:, i, None].astype(np.int64) - second) for i in range(first.shape[1])]
        return Norms(np.stack([g.sum(axis=0) for g in gaps]), np.stack([(g * g).sum(axis=0) for g in gaps]))

    def query_keys(self) -> Iterator[Key | None]:
        """One key per query, equal for a query, its duplicates and its complement; None for a constant."""
        return keys_by_cells(self)

    @abstractmethod
    def on_rows(self, columns: Columns, weights: NDArray[Any] | None = None) -> NDArray[Any]:
        """Numerators of all answers on coded rows (each of weight 1, or of the given weights). Additive in rows."""

    @abstractmethod
    def on_histogram(self, histogram: NDArray[Any]) -> NDArray[Any]:
        """Numerators of all answers on a histogram of shape `domain.shape`."""

    @abstractmethod
    def text(self, index: int) -> str:
        """One query in words (SQL where it can be said so)."""

    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """The JSON form, with `kind`; the domain is stored beside it, not in it."""

    def canonical(self) -> dict[str, Any]:
        """What `canonical_hash` hashes; by default the JSON form."""
        return self.spec()

    def __add__(self, other: Queries) -> Workload:
        return union(self, other)

    @property
    def notes(self) -> tuple[str, ...]:
        """What predicates read otherwise than it was written, each note once; other classes have none."""
        return ()

    def groups(self) -> tuple[Group, ...]:
        """Named parts, for reports. By default one."""
        return (Group(self.describe(), 0, self.count),)

    def describe(self) -> str:
        """The class in a few words."""
        return f"{self.count:,} {self.kind}"

    def __repr__(self) -> str:
        words = self.describe()
        return f"{type(self).__name__}({words if len(words) <= MAX_SHOWN_TEXT else words[: MAX_SHOWN_TEXT - 1] + '…'})"

    def _repr_html_(self) -> str:
        shown = [self.text(i) for i in range(min(self.count, SHOWN_QUERIES))]
        more = [f"... and {self.count - len(shown):,} more"] if self.count > len(shown) else []
        lines = {
            "queries": f"{self.count:,}",
            "attributes": ", ".join(self.attributes) or "none",
            "such as": "; ".join([*shown, *more]),
        }
        return _html.facts(f"{type(self).__name__}.", lines, head=self.describe())


@dataclass(frozen=True, slots=True)
class Part:
    """One class of a union. The weight says how much its errors matter to a mechanism that can choose.

    It changes no query, no answer and no sensitivity.
    """

    queries: Queries
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not _is_positive(self.weight):
            raise WorkloadError(
                f"expected the weight of a part > 0 and finite, got {_check.shown(self.weight)}"
            )


def _is_positive(weight: object) -> bool:
    return isinstance(weight, (int, float)) and not isinstance(weight, bool) and 0 < weight < math.inf


class TableQueries(Queries):
    """Queries that can be answered from tables over a few attributes each (`margins`)."""

    @property
    @abstractmethod
    def margins(self) -> tuple[Margin, ...]:
        """The tables that are needed; each small enough to hold."""

    @abstractmethod
    def from_margins(self, tables: Mapping[Margin, NDArray[Any]]) -> NDArray[Any]:
        """Numerators of all answers, given every table of `margins` (shaped by its attributes' sizes)."""

    @property
    def attributes(self) -> Margin:
        used = {name for margin in self.margins for name in margin}
        return tuple(name for name in self.domain.names if name in used)

    def on_rows(self, columns: Columns, weights: NDArray[Any] | None = None) -> NDArray[Any]:
        check_size(self.count)
        return self.from_margins(count_margins(self.domain.sizes, columns, self.margins, weights))

    def on_histogram(self, histogram: NDArray[Any]) -> NDArray[Any]:
        check_size(self.count)
        return self.from_margins(
            {margin: sum_margin(self.domain, histogram, margin) for margin in self.margins}
        )


# Unions of classes, with a weight for each part.


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
        tables = [queries for queries in component if queries.whole_margins]
        others = [queries for queries in component if not queries.whole_margins]
        if others and sum(queries.count for queries in component) <= condition.MAX_KEYS:
            return condition.count_distinct(key for queries in component for key in queries.query_keys())
        margins = {margin for queries in tables for margin in queries.whole_margins}
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


def log_distinct(queries: Queries) -> float:
    """ln |Q| after merging duplicates and complements and dropping constants; 0 if nothing is left."""
    return math.log(max(1, queries.distinct()))


# Stored and compared.


def to_json(queries: Queries) -> str:
    """The text that `from_json` reads."""
    return json.dumps({"format": FORMAT, "version": VERSION, "queries": queries.spec()}, ensure_ascii=False)


def canonical_hash(queries: Queries) -> str:
    """SHA-256 of the canonical form; equal for predicates of equal meaning (see `Predicate`)."""
    canonical = json.dumps(queries.canonical(), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
