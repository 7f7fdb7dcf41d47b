"""Half-spaces: the records whose weighted sum of values reaches a threshold, in exact arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.core import _check, forms
from maquette.core._arguments import checks, checks_arguments
from maquette.core.forms import Sensitivity
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import WorkloadError
from maquette.queries import condition, names, sensitivity
from maquette.queries.base import Queries
from maquette.queries.half_planes import half_planes, level_directions
from maquette.queries.rows import (
    MAX_SUM,
    Columns,
    Margin,
    answer_type,
    check_index,
    column,
    length,
    sum_margin,
    whole_or_float,
)
from maquette.queries.sensitivity import SensitivityBound

# The number that a cell stands for in a half-space, exactly.

MAX_LISTED_VALUES = 2**20
"""Cells of an attribute whose values are listed."""


def exact(number: object, *, what: str) -> Fraction:
    """A number as it was written: floats by their shortest decimal, so that 0.1 is a tenth."""
    if isinstance(number, Fraction):
        return number
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise WorkloadError(f"expected a number as {what}, got {_check.shown(number)}")
    if isinstance(number, float) and not math.isfinite(number):
        raise WorkloadError(f"expected a finite number as {what}, got {_check.shown(number)}")
    return Fraction(number) if isinstance(number, int) else Fraction(repr(float(number)))


def numeric(domain: Domain, name: str) -> Attribute:
    """The attribute of this name, if its cells have values: numeric, ordinal, or two declared cells."""
    attribute = names.attribute(domain, name)
    if not (attribute.ordered or attribute.cells == 2):
        raise WorkloadError(
            f"half-spaces need numeric, ordinal or binary attributes, but '{name}' is {attribute.kind} "
            f"with {attribute.cells} categories"
        )
    return attribute


def value(attribute: Attribute, code: int) -> Fraction:
    """The value of a declared cell.

    A bin's midpoint (of the whole numbers in it, for integer attributes; its left border, where bins are one wide
    between whole borders), a number among the categories itself, and the code of any other cell.
    """
    if attribute.kind is Kind.NUMERIC:
        return _middle(attribute, code)
    if attribute.categories is not None and attribute.ordered:
        categories = attribute.categories
        if all(isinstance(c, (int, float)) and not isinstance(c, bool) for c in categories):
            return exact(categories[code], what="a category")
    return Fraction(code)


class Whole(NamedTuple):
    """The values of all declared cells as whole numbers over one denominator."""

    numerators: tuple[int, ...]
    denominator: int


@lru_cache(maxsize=64)
def whole_values(attribute: Attribute) -> Whole:
    """The values of all declared cells."""
    if attribute.cells > MAX_LISTED_VALUES:
        raise WorkloadError(
            f"'{attribute.name}' has {attribute.cells:,} cells, more than {MAX_LISTED_VALUES:,}; declare coarser cells"
        )
    values = [value(attribute, code) for code in range(attribute.cells)]
    denominator = math.lcm(*(v.denominator for v in values))
    return Whole(tuple(int(v * denominator) for v in values), denominator)


def extremes(attribute: Attribute) -> tuple[Fraction, Fraction]:
    """The smallest and the largest value of a declared cell."""
    if attribute.categories is None:  # values rise with the code
        return value(attribute, 0), value(attribute, attribute.cells - 1)
    numerators, denominator = whole_values(attribute)
    return Fraction(min(numerators), denominator), Fraction(max(numerators), denominator)


def _middle(attribute: Attribute, code: int) -> Fraction:
    if attribute.integer or attribute.one_wide:
        first, last = names.whole_numbers(attribute, code)
        return Fraction(first + last, 2)
    return (_border(attribute, code) + _border(attribute, code + 1)) / 2


def _border(attribute: Attribute, index: int) -> Fraction:
    if attribute.borders is not None:
        return exact(attribute.borders[index], what="an edge")
    assert attribute.bounds is not None
    assert attribute.bins is not None
    low, high = (exact(bound, what="a bound") for bound in attribute.bounds)
    return low + (high - low) * Fraction(index, attribute.bins)


Normal = tuple[Fraction, ...]

MAX_PROJECTED_CELLS = 2**20
"""Tables up to this size are counted first and projected cell by cell; else the rows are."""


@dataclass(frozen=True, slots=True, repr=False)
class Halfspaces(Queries):
    """Query i counts the records with sum_j normals[i][j] * value_j >= thresholds[i].

    Values are those of `values.value`. A record in a null or overflow cell of one of the attributes is in none.
    """

    kind: ClassVar[str] = "halfspaces"
    domain: Domain
    over: Margin
    normals: tuple[Normal, ...]
    thresholds: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        order = names.margin(self.domain, self.over)
        if not order:
            raise WorkloadError("half-spaces need at least one attribute")
        for name in order:
            numeric(self.domain, name)
        if not self.normals or len(self.normals) != len(self.thresholds):
            raise WorkloadError(
                f"expected one threshold for each of at least one normal, got {len(self.normals)} normals "
                f"and {len(self.thresholds)} thresholds"
            )
        if any(len(normal) != len(order) for normal in self.normals):
            raise WorkloadError(
                f"expected normals with {len(order)} numbers, one for each of {', '.join(self.over)}"
            )
        places = [self.over.index(name) for name in order]
        normals = tuple(tuple(exact(n[p], what="a normal's entry") for p in places) for n in self.normals)
        thresholds = tuple(exact(t, what="a threshold") for t in self.thresholds)
        object.__setattr__(self, "over", order)
        object.__setattr__(self, "normals", normals)
        object.__setattr__(self, "thresholds", thresholds)

    @property
    def count(self) -> int:
        return len(self.normals)

    @property
    def attributes(self) -> Margin:
        return self.over

    def distinct(self) -> int:
        """Exact where the attributes span at most 2^16 cells, else never too small."""
        return condition.count_distinct(self.query_keys())

    def query_keys(self) -> Iterator[condition.Key | None]:
        shape = tuple(column.size for column in self._columns)
        if math.prod(shape) > condition.MAX_COMPARED_CELLS:
            yield from (self._written_key(i) for i in range(self.count))
            return
        cells = condition.all_cells(shape, self.over)
        masks = dict(self._masks(cells))
        for place in range(self.count):
            yield condition.array_key(self.domain, self.over, masks[place].reshape(shape).astype(np.int64), 1)

    @checks_arguments
    def sensitivity(self, relation: Relation) -> Sensitivity:
        """Exact if one corner is best for all half-spaces or few enough records are told apart, else a bound."""
        return _bound(self, relation).bound

    @property
    def exact_sensitivity(self) -> bool:
        return all(_bound(self, relation).exact for relation in Relation)

    @property
    def spread(self) -> bool:
        return _bound(self, Relation.REPLACE_ONE).spread

    @checks_arguments
    def twins(self, name: str) -> NDArray[np.int64]:
        column = self.domain[name]
        matters = any(normal[self.over.index(name)] for normal in self.normals)
        codes = np.arange(column.size, dtype=np.int64)
        return np.minimum(codes, column.cells) if matters else (codes >= column.cells).astype(np.int64)

    def columns_of(self, rows: Columns) -> NDArray[Any]:
        columns = np.zeros((self.count, len(next(iter(rows.values())))), dtype=np.int8)
        for place, mask in self._masks(rows):
            columns[place] = mask
        return columns

    def form(self) -> forms.Scores:
        numbers: list[tuple[NDArray[np.int64], ...]] = []
        thresholds: list[NDArray[np.int64]] = []
        places: list[int] = []
        for normal, members in self._by_normal().items():
            factors, limits = self._whole(normal, [self.thresholds[p] for p in members])
            cells = [whole_values(column).numerators for column in self._columns]
            if _reach(factors, cells, limits) > forms.MAX_SCORE:
                raise WorkloadError(
                    f"the half-space {self.text(members[0])!r:.200} needs numbers of more than 61 bits; write its "
                    "normal with fewer digits"
                )
            numbers.append(
                tuple(np.array(c, dtype=np.int64) * f for f, c in zip(factors, cells, strict=True))
            )
            thresholds.append(np.array(limits, dtype=np.int64))
            places += members
        claim = int(self.sensitivity(Relation.ADD_REMOVE).l1)
        return forms.Scores(self.over, tuple(numbers), tuple(thresholds), np.argsort(places), claim)

    def on_rows(self, columns: Columns, weights: NDArray[Any] | None = None) -> NDArray[Any]:
        from maquette.core.tables import count_margins

        weights = whole_or_float(weights)
        records = length(columns, weights)
        if self.domain.cells(self.over) <= min(MAX_PROJECTED_CELLS, records):
            return self._from_table(
                count_margins(self.domain.sizes, columns, [self.over], weights)[self.over]
            )
        codes = {name: column(self.domain, columns, name) for name in self.over}
        return self._counts(codes, np.ones(records, dtype=np.int64) if weights is None else weights)

    def on_histogram(self, histogram: NDArray[Any]) -> NDArray[Any]:
        return self._from_table(sum_margin(self.domain, histogram, self.over))

    def text(self, index: int) -> str:
        check_index(index, self.count)
        terms = [
            f"{weight} * {names.quote(name)}"
            for weight, name in zip(self.normals[index], self.over, strict=True)
            if weight
        ]
        return f"{' + '.join(terms) or f'0 * {names.quote(self.over[0])}'} >= {self.thresholds[index]}"

    def spec(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "attributes": list(self.over),
            "normals": [[str(weight) for weight in normal] for normal in self.normals],
            "thresholds": [str(threshold) for threshold in self.thresholds],
        }

    def describe(self) -> str:
        return f"{self.count:,} half-spaces of {', '.join(self.over)}"

    @checks_arguments
    def reach(self, index: int) -> tuple[Fraction, Fraction]:
        """The smallest and largest weighted sum that a record with values everywhere can have."""
        check_index(index, self.count)
        low = high = Fraction(0)
        for weight, values in zip(self.normals[index], self._columns, strict=True):
            ends = [weight * end for end in extremes(values)]
            low, high = low + min(ends), high + max(ends)
        return low, high

    @property
    def _columns(self) -> list[Attribute]:
        return [self.domain[name] for name in self.over]

    def _written_key(self, index: int) -> condition.Key | None:
        low, high = self.reach(index)
        threshold, closed = self.thresholds[index], all(c.size == c.cells for c in self._columns)
        if high < threshold or (low >= threshold and closed):
            return None
        normal = self.normals[index]
        scale = sum(abs(weight) for weight in normal) or Fraction(1)
        written = [str(number / scale) for number in (*normal, threshold)]
        return ("half-space", self.over, *written)

    def _from_table(self, table: NDArray[Any]) -> NDArray[Any]:
        nonzero = np.nonzero(table)
        return self._counts(dict(zip(self.over, nonzero, strict=True)), table[nonzero])

    def _counts(self, codes: Columns, weights: NDArray[Any]) -> NDArray[Any]:
        """Per direction: project once, sort, and read every threshold off the running sums."""
        answers = np.zeros(self.count, dtype=answer_type(weights))
        complete = self._complete(codes)
        codes, weights = {name: column[complete] for name, column in codes.items()}, weights[complete]
        for normal, places in self._by_normal().items():
            scores, thresholds = self._project(normal, codes, [self.thresholds[p] for p in places])
            order = np.argsort(scores, kind="stable")
            sums = np.concatenate([[0], np.cumsum(weights[order])])
            answers[places] = sums[-1] - sums[np.searchsorted(scores[order], thresholds)]
        return answers

    def _masks(self, codes: Columns) -> Iterator[tuple[int, NDArray[np.bool_]]]:
        complete = self._complete(codes)
        declared = {name: np.where(complete, codes[name], 0) for name in self.over}
        for normal, places in self._by_normal().items():
            scores, thresholds = self._project(normal, declared, [self.thresholds[p] for p in places])
            for place, threshold in zip(places, thresholds, strict=True):
                yield place, np.asarray(scores >= threshold, dtype=bool) & complete

    def _complete(self, codes: Columns) -> NDArray[np.bool_]:
        """Which records have a value in every attribute."""
        return np.all([codes[column.name] < column.cells for column in self._columns], axis=0)

    def _by_normal(self) -> dict[Normal, list[int]]:
        places_of: dict[Normal, list[int]] = {}
        for place, normal in enumerate(self.normals):
            places_of.setdefault(normal, []).append(place)
        return places_of

    def _whole(self, normal: Normal, thresholds: Sequence[Fraction]) -> tuple[list[int], list[int]]:
        """A normal and thresholds for the whole numbers of cells, over one denominator."""
        denominators = [whole_values(column).denominator for column in self._columns]
        slopes = [weight / denominator for weight, denominator in zip(normal, denominators, strict=True)]
        scale = math.lcm(*(slope.denominator for slope in slopes))
        return [int(slope * scale) for slope in slopes], [math.ceil(t * scale) for t in thresholds]

    def _project(
        self, normal: Normal, codes: Columns, thresholds: Sequence[Fraction]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Weighted sums and thresholds in whole numbers; in Python's where 64 bits would not do."""
        factors, limits = self._whole(normal, thresholds)
        cells = [whole_values(column) for column in self._columns]
        dtype = np.int64 if _reach(factors, [c.numerators for c in cells], limits) < MAX_SUM else object
        scores = np.zeros(len(next(iter(codes.values()))), dtype=dtype)
        for name, factor, whole in zip(self.over, factors, cells, strict=True):
            scores = scores + (np.array(whole.numerators, dtype=dtype) * factor)[codes[name]]
        return scores, np.array(limits, dtype=dtype)


def _reach(factors: Sequence[int], cells: Sequence[Sequence[int]], limits: Sequence[int]) -> int:
    """No score and no threshold is larger."""
    sizes = [max(1, abs(f)) * max(map(abs, numbers)) for f, numbers in zip(factors, cells, strict=True)]
    return sum(sizes) + max(map(abs, limits))


MAX_GRID_CELLS = 2**9
"""Cells of a grid of which all half-spaces are asked."""
MAX_GRID_DIRECTIONS = 2**12
"""Directions that these take; every record is projected on each."""
MAX_GRID_HALFSPACES = 2**16
"""Half-spaces of a grid that are listed: about those of 16 by 16 even cells."""


@checks("domain", lists=["attributes", "normals", "thresholds"])
def halfspaces(
    domain: Domain,
    attributes: Iterable[str],
    normals: Iterable[Sequence[float | Fraction]] | None = None,
    thresholds: Iterable[float | Fraction] | None = None,
) -> Halfspaces:
    """[sum_j w_j v_j >= t] for each normal w with its threshold t, v_j the value of the record's cell.

    Without normals and thresholds all half-spaces of the grid of two attributes: each set of declared cells that a line
    cuts off, once, with the empty set and the whole grid; up to 2^16 of them.
    """
    over = names.margin(domain, attributes) if isinstance(attributes, str) else tuple(attributes)
    if normals is None and thresholds is None:
        return _of_grid(domain, over)
    if normals is None or thresholds is None:
        raise WorkloadError("expected normals and thresholds together, or none of them for all of a grid")
    try:
        listed = tuple(tuple(normal) for normal in normals)
        limits = tuple(thresholds)
    except TypeError:
        raise WorkloadError(
            "expected a list of normals, such as [(1, 2), (0, 1)], and of thresholds, such as [3, 5]"
        ) from None
    return Halfspaces(
        domain,
        over,
        tuple(tuple(exact(w, what="a normal's entry") for w in normal) for normal in listed),
        tuple(exact(t, what="a threshold") for t in limits),
    )


def _of_grid(domain: Domain, over: Margin) -> Halfspaces:
    """All half-spaces of a grid of two attributes, direction by direction; the empty set and the grid first."""
    columns = [numeric(domain, name) for name in names.margin(domain, over)]
    if len(columns) != 2 or any(column.cells < 2 for column in columns):
        raise WorkloadError(
            f"all half-spaces are asked of two attributes of two or more cells each, got {', '.join(over) or 'none'}; "
            "of others list normals and thresholds"
        )
    cells = math.prod(column.cells for column in columns)
    if cells > MAX_GRID_CELLS:
        raise _too_rich(over, f"{cells:,} cells, more than {MAX_GRID_CELLS:,}")
    first, second = (whole_values(column) for column in columns)
    level = level_directions(first.numerators, second.numerators)
    if len(level) > MAX_GRID_DIRECTIONS:
        raise _too_rich(over, f"{len(level):,} directions, more than {MAX_GRID_DIRECTIONS:,}")
    normals: list[tuple[Fraction, ...]] = []
    thresholds: list[Fraction] = []
    for (a, b), tops in half_planes(first.numerators, second.numerators, level):
        normals += [(Fraction(a * first.denominator), Fraction(b * second.denominator))] * len(tops)
        thresholds += [Fraction(top) for top in tops]
        if len(normals) + 2 > MAX_GRID_HALFSPACES:
            raise _too_rich(over, f"more than {MAX_GRID_HALFSPACES:,} half-spaces")
    low, high = extremes(columns[0])
    ends = [(Fraction(1), Fraction(0))] * 2
    order = tuple(column.name for column in columns)
    return Halfspaces(domain, order, (*ends, *normals), (high + 1, low, *thresholds))


def _too_rich(over: Margin, said: str) -> WorkloadError:
    return WorkloadError(
        f"the grid of {' and '.join(over)} has {said}; declare coarser cells, or list normals and thresholds"
    )


@lru_cache(maxsize=64)
def _bound(queries: Halfspaces, relation: Relation) -> SensitivityBound:
    distance = Fraction(_movable(queries, relation))
    bound = Sensitivity(distance, distance, min(distance, Fraction(1)))
    if _aligned(queries.normals):
        return SensitivityBound(bound, exact=True, spread=True)
    searched = sensitivity.search(queries.domain, [queries], relation)
    if searched is not None:
        return searched
    if relation is Relation.REPLACE_ONE:
        bound = sensitivity.least(bound, sensitivity.twice(_bound(queries, Relation.ADD_REMOVE).bound))
    return SensitivityBound(bound, exact=False)


def _movable(queries: Halfspaces, relation: Relation) -> int:
    """How many half-spaces hold some record and (for replace-one) not all."""
    closed = all(queries.domain[name].size == queries.domain[name].cells for name in queries.over)
    movable = 0
    for index, threshold in enumerate(queries.thresholds):
        low, high = queries.reach(index)
        everything = closed and low >= threshold
        movable += high >= threshold and not (everything and relation is Relation.REPLACE_ONE)
    return movable


def _aligned(normals: Sequence[Normal]) -> bool:
    """Do all normals pull each attribute the same way? Then one corner is in all of them that hold anything.

    The opposite corner, or a record without a value, is outside all that do not hold everything.
    """
    return all(len({weight > 0 for weight in column if weight}) <= 1 for column in zip(*normals, strict=True))
