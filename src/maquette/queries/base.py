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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette import _html
from maquette.core import _check
from maquette.core._arguments import checks_arguments
from maquette.core.forms import MAX_LISTED, Form, QueryForms, Sensitivity, Weights
from maquette.core.linear_queries import Group, LinearQueries
from maquette.domain import Domain, Relation
from maquette.errors import WorkloadError

if TYPE_CHECKING:
    from maquette.queries.condition import Key
    from maquette.queries.workload import Workload


FORMAT, VERSION = "maquette-queries", 1
"""Of the JSON form that is stored."""

# How much may be held at once, and where a query may stand.

MAX_ANSWERS = 2**28
"""Answers that may be computed at once (2 GB); larger classes know their size and sensitivity only."""

MAX_SUM = 2**62
"""Sums of whole numbers stay below this, so that 64 bits hold them."""


def check_size(count: int) -> None:
    """Few enough queries to answer all of them?"""
    if count > MAX_ANSWERS:
        raise WorkloadError(
            f"{count:,} queries are too many to answer at once (at most {MAX_ANSWERS:,}); ask a smaller class"
        )


def check_whole(value: object, *, least: int, most: int, what: str) -> None:
    """A whole number within its range?"""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise WorkloadError(f"expected {what} from {least} to {most}, got {_check.shown(value)}")


def check_index(index: int, count: int) -> None:
    """Is there a query of this number?"""
    if not isinstance(index, Integral) or not 0 <= index < count:
        raise WorkloadError(
            f"expected the number of a query from 0 to {count - 1}, got {_check.shown(index)}"
        )


Margin = tuple[str, ...]
"""Names of attributes, in domain order: the table over them."""
Columns = Mapping[str, NDArray[Any]]
"""Coded columns of equal length, by attribute name."""


class Norms(NamedTuple):
    """Sums over all queries, for records or pairs of records: numerators of L1 and of L2 squared.

    They are over `denominator` and over its square.
    """

    l1: NDArray[np.int64]
    l2_squared: NDArray[np.int64]


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
        from maquette.queries.condition import all_cells

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
        from maquette.queries.condition import keys_by_cells

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
        from maquette.queries.workload import union

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
        from maquette.core.tables import count_margins

        return self.from_margins(count_margins(self.domain.sizes, columns, self.margins, weights))

    def on_histogram(self, histogram: NDArray[Any]) -> NDArray[Any]:
        check_size(self.count)
        return self.from_margins(
            {margin: sum_margin(self.domain, histogram, margin) for margin in self.margins}
        )


def sum_margin(domain: Domain, histogram: NDArray[Any], margin: Margin) -> NDArray[Any]:
    """The table over some attributes, from a histogram over all of them; of int64 or float64."""
    gone = tuple(i for i, name in enumerate(domain.names) if name not in margin)
    table = np.asarray(histogram).reshape(domain.shape)
    return table.sum(axis=gone, dtype=np.float64 if table.dtype.kind == "f" else np.int64)


def log_distinct(queries: Queries) -> float:
    """ln |Q| after merging duplicates and complements and dropping constants; 0 if nothing is left."""
    return math.log(max(1, queries.distinct()))


# Equal columns of a matrix.


def label_columns(matrix: NDArray[Any]) -> NDArray[np.int64]:
    """A number for each column, the same for equal columns: 0, 1, .. in order of appearance."""
    label_of: dict[bytes, int] = {}
    rows = np.ascontiguousarray(matrix.T)
    return np.array([label_of.setdefault(row.tobytes(), len(label_of)) for row in rows], dtype=np.int64)


def first_columns(labels: NDArray[np.int64]) -> NDArray[np.intp]:
    """Where each label appears first."""
    return np.unique(labels, return_index=True)[1]


# Coded rows as the classes take them: one length, codes inside their attribute, weights of one type.


def length(columns: Columns, weights: NDArray[Any] | None = None) -> int:
    """How many rows there are."""
    lengths = {len(codes) for codes in columns.values()}
    if weights is not None:
        lengths.add(len(weights))
    if len(lengths) != 1:
        raise WorkloadError("expected coded columns of one length, and weights of the same")
    return lengths.pop()


def column(domain: Domain, columns: Columns, name: str) -> NDArray[Any]:
    """The codes of one attribute."""
    if name not in columns:
        raise WorkloadError(f"the rows have no column for attribute '{name}'")
    codes = np.asarray(columns[name])
    if codes.dtype.kind not in "ui":
        raise WorkloadError(f"the column of '{name}' must hold whole numbers, got {codes.dtype}")
    if len(codes) and (int(codes.max()) >= domain[name].size or int(codes.min()) < 0):
        raise WorkloadError(
            f"the column of '{name}' holds codes outside the attribute's cells; code it with this domain"
        )
    return codes


def whole_or_float(weights: NDArray[Any] | None) -> NDArray[Any] | None:
    """Weights as int64 or float64, or None."""
    if weights is None:
        return None
    weights = np.asarray(weights)
    if weights.dtype.kind in "uib":
        return weights.astype(np.int64)
    if weights.dtype.kind == "f":
        return weights.astype(np.float64)
    raise WorkloadError(f"weights must be numbers, got {weights.dtype}")


def answer_type(weights: NDArray[Any] | None) -> type[np.int64] | type[np.float64]:
    """Answers are whole unless the weights are not."""
    return np.float64 if weights is not None and weights.dtype.kind == "f" else np.int64


# Stored and compared.


def to_json(queries: Queries) -> str:
    """The text that `from_json` reads."""
    return json.dumps({"format": FORMAT, "version": VERSION, "queries": queries.spec()}, ensure_ascii=False)


def canonical_hash(queries: Queries) -> str:
    """SHA-256 of the canonical form; equal for predicates of equal meaning (see `Predicate`)."""
    canonical = json.dumps(queries.canonical(), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
