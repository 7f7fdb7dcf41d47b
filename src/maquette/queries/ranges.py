"""Prefixes and ranges: counts up to a border, between two borders, and in products of intervals.

They run over the declared cells of ordered attributes. A record in a null or overflow cell is in none of them, so
an interval has a complement among the intervals only where the attribute has no such cell ("closed" below).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from maquette.core import forms
from maquette.core._arguments import checks, checks_arguments
from maquette.core.forms import Sensitivity
from maquette.core.intervals import RangeSensitivity, range_sensitivity
from maquette.domain import Attribute, Domain, Relation
from maquette.errors import WorkloadError
from maquette.queries import condition, names
from maquette.queries.base import TableQueries
from maquette.queries.marginals import unravel
from maquette.queries.rows import Columns, Margin, Norms, check_index


@dataclass(frozen=True, slots=True, repr=False)
class Prefixes(TableQueries):
    """The cumulative counts of one ordered attribute: query j counts the declared cells 0 .. j."""

    kind: ClassVar[str] = "prefixes"
    domain: Domain
    attribute: str

    def __post_init__(self) -> None:
        names.ordered(self.domain, self.attribute, purpose="prefixes")

    @property
    def margins(self) -> tuple[Margin, ...]:
        return ((self.attribute,),)

    @property
    def count(self) -> int:
        return self._column.cells

    def distinct(self) -> int:
        """The last prefix is constant if the attribute is closed; no prefix is another's complement."""
        return self._column.cells - _closed(self._column)

    @checks_arguments
    def sensitivity(self, relation: Relation) -> Sensitivity:
        """Cell 0 is in every prefix; the last declared cell is in one, a null or overflow cell in none."""
        distance = self.count if relation is Relation.ADD_REMOVE else self.distinct()
        return _counting(distance)

    @property
    def spread(self) -> bool:
        return True

    @property
    def pair_cost(self) -> int:
        return 1

    def columns_of(self, rows: Columns) -> NDArray[Any]:
        codes = rows[self.attribute]
        return ((codes <= np.arange(self.count)[:, None]) & (codes < self.count)).astype(np.int8)

    def norms(self, rows: Columns) -> Norms:
        counts = np.maximum(self.count - rows[self.attribute].astype(np.int64), 0)
        return Norms(counts, counts)

    def distances(self, left: Columns, right: Columns) -> Norms:
        distance = np.abs(self.norms(left).l1[:, None] - self.norms(right).l1)
        return Norms(distance, distance)

    def from_margins(self, tables: Mapping[Margin, NDArray[Any]]) -> NDArray[Any]:
        return np.cumsum(np.asarray(tables[(self.attribute,)])[: self.count])

    def form(self) -> forms.Prefixes:
        return forms.Prefixes(self.attribute, self.count)

    def query_keys(self) -> Iterator[condition.Key | None]:
        sizes = condition.sizes_of(self.domain)
        for high in range(self.count):
            yield condition.product_key(sizes, [(self.attribute, ((0, high),))])

    def text(self, index: int) -> str:
        check_index(index, self.count)
        return names.run_text(self._column, 0, index)

    def spec(self) -> dict[str, Any]:
        return {"kind": self.kind, "attribute": self.attribute}

    def describe(self) -> str:
        return f"{self.count:,} prefixes of {self.attribute}"

    @property
    def _column(self) -> Attribute:
        return self.domain[self.attribute]


@dataclass(frozen=True, slots=True, repr=False)
class Ranges(TableQueries):
    """All products of intervals of some ordered attributes; per attribute by low end, then by high end."""

    kind: ClassVar[str] = "ranges"
    domain: Domain
    over: Margin

    def __post_init__(self) -> None:
        over = names.margin(self.domain, self.over)
        if not over:
            raise WorkloadError("ranges need at least one attribute")
        for name in over:
            names.ordered(self.domain, name, purpose="ranges")
        object.__setattr__(self, "over", over)

    @property
    def margins(self) -> tuple[Margin, ...]:
        return (self.over,)

    @property
    def count(self) -> int:
        return math.prod(_intervals(column.cells) for column in self._columns)

    def distinct(self) -> int:
        """If all attributes are closed, one product is everything, and a prefix complements a suffix."""
        if not all(_closed(column) for column in self._columns):
            return self.count
        return self.count - 1 - sum(column.cells - 1 for column in self._columns)

    @checks_arguments
    def sensitivity(self, relation: Relation) -> Sensitivity:
        """The cell in the middle is in the most products; for pairs see `range_sensitivity`."""
        if relation is Relation.ADD_REMOVE:
            return _counting(math.prod(_through_middle(column.cells) for column in self._columns))
        return _counting(self._distance().distance)

    @property
    def exact_sensitivity(self) -> bool:
        return self._distance().exact

    @property
    def spread(self) -> bool:
        return self._distance().spread

    @property
    def pair_cost(self) -> int:
        return len(self.over)

    def columns_of(self, rows: Columns) -> NDArray[Any]:
        length = len(next(iter(rows.values())))
        columns = np.ones((1, length), dtype=np.int8)
        for column in self._columns:
            low, high = np.triu_indices(column.cells)
            inside = (low[:, None] <= rows[column.name]) & (rows[column.name] <= high[:, None])
            columns = (columns[:, None, :] * inside).reshape(-1, length)
        return columns

    def norms(self, rows: Columns) -> Norms:
        counts = np.ones(len(next(iter(rows.values()))), dtype=np.int64)
        for column in self._columns:
            codes = rows[column.name].astype(np.int64)
            counts *= np.where(codes < column.cells, (codes + 1) * (column.cells - codes), 0)
        return Norms(counts, counts)

    def distances(self, left: Columns, right: Columns) -> Norms:
        first, second = self.norms(left).l1, self.norms(right).l1
        both = np.ones((len(first), len(second)), dtype=np.int64)
        for column in self._columns:
            low = np.minimum(left[column.name].astype(np.int64)[:, None], right[column.name].astype(np.int64))
            high = np.maximum(
                left[column.name].astype(np.int64)[:, None], right[column.name].astype(np.int64)
            )
            both *= np.where(high < column.cells, (low + 1) * (column.cells - high), 0)
        distance = first[:, None] + second - 2 * both
        return Norms(distance, distance)

    def from_margins(self, tables: Mapping[Margin, NDArray[Any]]) -> NDArray[Any]:
        answers = np.asarray(tables[self.over])
        for axis, column in enumerate(self._columns):
            answers = _along(answers, axis, column.cells)
        return answers.ravel()

    def form(self) -> forms.Intervals:
        return forms.Intervals(self.over, tuple(column.cells for column in self._columns))

    def query_keys(self) -> Iterator[condition.Key | None]:
        sizes = condition.sizes_of(self.domain)
        for box in product(*([(c.name, (run,)) for run in _all_runs(c.cells)] for c in self._columns)):
            yield condition.product_key(sizes, box)

    def text(self, index: int) -> str:
        check_index(index, self.count)
        places = unravel(index, [_intervals(column.cells) for column in self._columns])
        parts = [
            names.run_text(column, *_interval(place, column.cells))
            for column, place in zip(self._columns, places, strict=True)
        ]
        return " AND ".join(parts)

    def spec(self) -> dict[str, Any]:
        return {"kind": self.kind, "attributes": list(self.over)}

    def describe(self) -> str:
        return f"{self.count:,} ranges of {', '.join(self.over)}"

    @property
    def _columns(self) -> list[Attribute]:
        return [self.domain[name] for name in self.over]

    def _distance(self) -> RangeSensitivity:
        """An attribute of one cell in all is the same in every record, and left out."""
        columns = [c for c in self._columns if c.size > 1] or self._columns[:1]
        return range_sensitivity([c.cells for c in columns], closed=all(_closed(c) for c in columns))


@checks("domain")
def prefixes(domain: Domain, attribute: str) -> Prefixes:
    """Every cumulative count over the declared cells of an ordered attribute."""
    return Prefixes(domain, attribute)


thresholds = prefixes


@checks("domain")
def ranges(domain: Domain, *attributes: str) -> Ranges:
    """Every interval of an ordered attribute, or every product of intervals of several."""
    return Ranges(domain, attributes)


def _closed(column: Attribute) -> bool:
    return column.size == column.cells


def _counting(distance: int) -> Sensitivity:
    return Sensitivity(Fraction(distance), Fraction(distance), Fraction(min(distance, 1)))


def _intervals(cells: int) -> int:
    return cells * (cells + 1) // 2


def _through_middle(cells: int) -> int:
    """The most intervals that share a cell: (c + 1)(cells - c) at c in the middle."""
    return (cells + 1) ** 2 // 4


def _all_runs(cells: int) -> Iterator[tuple[int, int]]:
    return ((low, high) for low in range(cells) for high in range(low, cells))


def _interval(place: int, cells: int) -> tuple[int, int]:
    """The interval at a place of the order, without listing them (cells may be 2^64)."""
    after = _intervals(cells) - 1 - place
    # intervals from the back: the last low end has 1, the one before 2, ...
    from_back = (math.isqrt(8 * after + 1) - 1) // 2
    low = cells - 1 - from_back
    return low, cells - 1 - (after - _intervals(from_back))


def _along(table: NDArray[Any], axis: int, cells: int) -> NDArray[Any]:
    """Sums over all intervals of one axis, from its cumulative sums."""
    declared = table.take(range(cells), axis=axis)
    zero = np.zeros_like(declared.take([0], axis=axis))
    sums = np.concatenate([zero, np.cumsum(declared, axis=axis)], axis=axis)
    low, high = np.triu_indices(cells)
    return sums.take(high + 1, axis=axis) - sums.take(low, axis=axis)
