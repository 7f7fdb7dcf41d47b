"""VC dimension and fat-shattering dimension of finite classes, exactly, with the shattered set as proof.

A class of counting queries shatters a set of cells if every labelling of the cells by 0 and 1 is the pattern of some
query; with real weights, if there are levels r such that every labelling has a query that is at least r + gamma where
the label is 1 and at most r - gamma where it is 0. The dimension is the size of the largest such set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from maquette.core import _check
from maquette.core._arguments import checks_arguments
from maquette.errors import ParameterError, WorkloadError
from maquette.queries.base import Queries
from maquette.queries.condition import all_cells
from maquette.queries.conjunctions import Conjunctions
from maquette.queries.marginals import Marginals, unravel
from maquette.queries.parities import Parities
from maquette.queries.ranges import Prefixes, Ranges
from maquette.queries.rows import MAX_SUM, Margin
from maquette.queries.shatter import Shattered, Split, bits, labels_of, largest, splits_of

# VC dimensions that are known without a search, with a shattered set, for classes of any size.

HALF = Fraction(1, 2)
Codes = tuple[int, ...]


class ShatteredSet(NamedTuple):
    """A largest shattered set, in codes of the class's attributes, and the query of each labelling.

    A labelling is given as the numbers of the points whose label is 1.
    """

    points: tuple[Codes, ...]
    query: Callable[[Sequence[int]], int]


def known_dimension(queries: Queries) -> ShatteredSet | None:
    """The shattered set of a class with a closed form, or None."""
    match queries:
        case Prefixes():
            return _prefixes(queries)
        case Ranges():
            return _ranges(queries)
        case Marginals(margins=(_,)):
            return _table(queries)
        case Conjunctions() if _wide(queries):
            return _conjunctions(queries)
        case Parities() if queries.width == len(queries.over):
            return _parities(queries)
        case _:
            return None


def thresholds(*, cells: int) -> int:
    """One-sided thresholds on an ordered domain: 1, with two or more of them."""
    _check.whole(cells=cells)
    return min(1, cells - 1)


def boxes(*, cells: list[int]) -> int:
    """Non-empty axis boxes on a grid: the sum of min(2, cells - 1) over the axes; 2d on large grids.

    Each point of a shattered set of three or more is the only extreme one in some direction, and an axis of two
    cells has at most one such point: never more. The neighbours of an inner cell along every axis: never fewer.
    """
    for size in cells:
        _check.whole(cells=size)
    return sum(min(2, size - 1) for size in cells)


def points(*, cells: int) -> int:
    """The indicators of single cells: 1, with two or more of them."""
    _check.whole(cells=cells)
    return min(1, cells - 1)


def halfspaces(*, d: int) -> int:
    """Affine half-spaces in R^d: d + 1."""
    _check.whole(d=d)
    return d + 1


def _prefixes(queries: Prefixes) -> ShatteredSet:
    """The first prefix does not count cell 1, the second does."""
    points = ((1,),) if queries.count > 1 else ()
    return ShatteredSet(points, len)


def _table(queries: Marginals) -> ShatteredSet:
    """The first query counts the first cell, the second does not."""
    cell = tuple(unravel(0, [queries.domain[name].size for name in queries.attributes]))

    def query(ones: Sequence[int]) -> int:
        return 1 - len(ones)

    return ShatteredSet((cell,), query) if queries.count > 1 else ShatteredSet((), len)


def _ranges(queries: Ranges) -> ShatteredSet:
    """The neighbours of an inner cell; a labelling is the box that reaches exactly to the chosen neighbours."""
    cells = [queries.domain[name].cells for name in queries.over]
    centre = [1 if size > 2 else 0 for size in cells]
    moves = [(axis, step) for axis, size in enumerate(cells) for step in _steps(size)]
    points = tuple(tuple(c + step * (i == axis) for i, c in enumerate(centre)) for axis, step in moves)

    def query(ones: Sequence[int]) -> int:
        return _box(centre, [moves[i] for i in ones], cells)

    return ShatteredSet(points, query)


def _steps(size: int) -> tuple[int, ...]:
    return (-1, 1) if size > 2 else (1,) if size == 2 else ()


def _box(centre: list[int], moves: list[tuple[int, int]], cells: list[int]) -> int:
    """The number, in the order of `Ranges`, of the smallest box with the centre and these neighbours."""
    index = 0
    for axis, size in enumerate(cells):
        reach = [centre[axis], *(centre[axis] + step for along, step in moves if along == axis)]
        low, high = min(reach), max(reach)
        place = low * size - low * (low - 1) // 2 + high - low
        index = index * (size * (size + 1) // 2) + place
    return index


def _wide(queries: Conjunctions) -> bool:
    d = len(queries.over)
    return queries.width >= d - 1 and (d > 2 or not queries.literals)


def _conjunctions(queries: Conjunctions) -> ShatteredSet:
    """Records with one zero each, but never the last; a labelling is the conjunction of what its zeros lack.

    All of them have the last variable, which stands for the empty conjunction.
    """
    d = len(queries.over)
    points = tuple(tuple(int(i != zero) for i in range(d)) for zero in range(d - 1))

    def query(ones: Sequence[int]) -> int:
        lacking = [i for i in range(d - 1) if i not in ones]
        return _place(lacking if len(lacking) == d - 1 > 0 else [*lacking, d - 1], d, queries.literals)

    return ShatteredSet(points, query)


def _parities(queries: Parities) -> ShatteredSet:
    """Records with a single one each; a labelling is the parity of the bits of its ones. No more: 2^d queries."""
    d = len(queries.over)
    points = tuple(tuple(int(i == one) for i in range(d)) for one in range(d))

    def query(ones: Sequence[int]) -> int:
        chosen = sorted(ones)
        return _place(chosen, d, False) + 1 if chosen else 0

    return ShatteredSet(points, query)


def _place(chosen: list[int], d: int, literals: bool) -> int:
    """The number of a positive conjunction in the order of `Conjunctions`: by width, then as combinations come."""
    values = 2 if literals else 1
    narrower = sum(math.comb(d, width) * values**width for width in range(1, len(chosen)))
    before, start = 0, 0
    for position, attribute in enumerate(chosen):
        left = len(chosen) - position - 1
        before += sum(math.comb(d - 1 - other, left) for other in range(start, attribute))
        start = attribute + 1
    return narrower + (before + 1) * values ** len(chosen) - 1


Number: TypeAlias = int | float | str | Fraction
Matrix: TypeAlias = Sequence[Sequence[Number]] | NDArray[Any]

MAX_SEARCHED_WEIGHTS = 2**24
"""Classes are searched up to this many weights: queries times cells."""
MAX_WITNESS_DIMENSION = 16
"""Up to this dimension a witness is listed for each of the 2^d labellings."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension and its proof. For a class without queries the value is -1."""

    value: int
    points: tuple[Any, ...]
    """The shattered cells: codes of `attributes`, or column numbers of a matrix."""
    levels: tuple[Fraction, ...]
    """The witness level of each point; 1/2 for counting queries."""
    witnesses: tuple[int, ...]
    """One query per labelling: bit j of the position is the label of point j. 2^value numbers, none above 2^16."""
    gamma: Fraction
    """The margin around the levels; 1/2 for the VC dimension."""
    method: Literal["closed form", "search"]
    attributes: Margin = ()
    is_complete: bool = True
    """False where the search was broken off: `value` is then a lower bound."""

    @checks_arguments
    def labelling(self, position: int) -> tuple[int, ...]:
        """The labels that the query `witnesses[position]` gives to the points."""
        return tuple(position >> j & 1 for j in range(self.value))


@checks_arguments
def vc_dimension(queries: Queries | Matrix) -> Dimension:
    """The VC dimension of a class of counting queries, given as a class or as a 0/1 matrix (queries down).

    Cost: nothing for prefixes, ranges and the cells of one table (closed forms, any size); otherwise a search over
        the cells that the class can tell apart, up to 2^24 weights.
    """
    if isinstance(queries, Queries) and queries.denominator != 1:
        raise WorkloadError(
            "the VC dimension is for counting queries; use fat_shattering_dimension with a gamma"
        )
    if not isinstance(queries, Queries) and not is_binary(queries):
        raise WorkloadError(
            "the VC dimension needs weights 0 and 1; use fat_shattering_dimension with a gamma"
        )
    return search_dimension(queries, HALF)


@checks_arguments
def fat_shattering_dimension(queries: Queries | Matrix, gamma: Number) -> Dimension:
    """The fat-shattering dimension at margin gamma, in exact rational arithmetic.

    Floating-point numbers are read as the decimals they print as: 0.1 is one tenth, so ties at the margin are what
    one sees. For counting queries it is the VC dimension, whatever gamma.
    """
    return search_dimension(queries, margin_of(gamma))


def margin_of(gamma: Number) -> Fraction:
    """A margin as an exact number; at most 1/2, for weights are between 0 and 1."""
    margin = rational(gamma, "gamma")
    if not 0 < margin <= HALF:
        raise ParameterError(f"expected 0 < gamma <= 1/2, got gamma={_check.shown(gamma)}")
    return margin


@checks_arguments
def shatters(
    queries: Queries | Matrix,
    points: Sequence[Any],
    *,
    levels: Sequence[Number] | None = None,
    gamma: Number = HALF,
) -> tuple[int, ...]:
    """Check a claim: one query per labelling of these points, or nothing if they are not shattered.

    Points are column numbers of a matrix, or codes of the class's attributes. Levels are 1/2 unless given.
    """
    margin = margin_of(gamma)
    numerators, denominator = matrix(queries)
    if isinstance(queries, Queries):
        columns = [_cell(queries, point) for point in points]
    else:
        columns = [_column(point, numerators.shape[1]) for point in points]
    if len(columns) > MAX_WITNESS_DIMENSION:
        raise ParameterError(f"expected at most {MAX_WITNESS_DIMENSION} points, got {len(columns):,}")
    thresholds = [HALF] * len(columns) if levels is None else [rational(level, "level") for level in levels]
    if len(thresholds) != len(columns):
        raise ParameterError(f"expected a level for each of {len(columns)} points, got {len(thresholds)}")
    splits = [
        _split(numerators[:, column], denominator, level, margin)
        for column, level in zip(columns, thresholds, strict=True)
    ]
    return labels_of(splits, len(numerators))


def _cell(queries: Queries, point: Any) -> int:
    """The number of a cell that is given by its codes."""
    sizes = [queries.domain[name].size for name in queries.attributes]
    codes = tuple(cast("Sequence[Any]", point)) if isinstance(point, (list, tuple)) else ()
    fits = [_check.is_whole(code) and 0 <= code < size for code, size in zip(codes, sizes, strict=False)]
    if not isinstance(point, (list, tuple)) or len(codes) != len(sizes) or not all(fits):
        raise ParameterError(
            f"expected a point as codes of {', '.join(queries.attributes) or 'no attribute'}, each from 0 and below "
            f"{', '.join(map(str, sizes)) or '0'}, got {_check.shown(cast('object', point))}"
        )
    return int(np.ravel_multi_index(codes, tuple(sizes))) if sizes else 0


def _column(point: Any, columns: int) -> int:
    """The number of a column of a matrix; none is counted from the end."""
    if not _check.is_whole(point) or not 0 <= point < columns:
        raise ParameterError(
            f"expected points as columns of the matrix, from 0 and below {columns:,}, got {_check.shown(point)}"
        )
    return point


def matrix(queries: Queries | Matrix) -> tuple[NDArray[Any], int]:
    """The weights of every query (down) on every cell (across) of the class's attributes: numerators, denominator."""
    if isinstance(queries, Queries):
        return _class_matrix(queries), queries.denominator
    return _given_matrix(queries)


def rational(value: Number, name: str) -> Fraction:
    """The exact value of a number as it prints."""
    try:
        if isinstance(value, str):
            return _check.exact(value)
        return Fraction(value) if isinstance(value, (int, Fraction)) else Fraction(repr(float(value)))
    except (ValueError, OverflowError, TypeError):
        raise ParameterError(f"expected {name} to be a finite number, got {_check.shown(value)}") from None


def search_dimension(queries: Queries | Matrix, gamma: Fraction, *, effort: int | None = None) -> Dimension:
    """By closed form or search; with `effort` the search is broken off after about so many comparisons of sets."""
    if isinstance(queries, Queries):
        closed_form = known_dimension(queries)
        if closed_form is not None:
            return _from_closed_form(queries, closed_form, gamma)
    numerators, denominator = matrix(queries)
    count = len(numerators)
    if count == 0:
        return Dimension(-1, (), (), (), gamma, "search")
    distinct = _distinct_rows(numerators)
    splits = splits_of(numerators[distinct], denominator, gamma)
    shattered = largest(splits, len(distinct), effort=effort)
    return _from_search(queries, shattered, distinct, gamma)


def _from_closed_form(queries: Queries, shattered: ShatteredSet, gamma: Fraction) -> Dimension:
    value = len(shattered.points)
    listed = range(2**value) if value <= MAX_WITNESS_DIMENSION else ()
    witnesses = tuple(shattered.query([j for j in range(value) if labels >> j & 1]) for labels in listed)
    levels = (HALF,) * value
    return Dimension(value, shattered.points, levels, witnesses, gamma, "closed form", queries.attributes)


def _from_search(
    queries: Queries | Matrix, shattered: Shattered, distinct: NDArray[Any], gamma: Fraction
) -> Dimension:
    columns = [split.point for split in shattered.splits]
    points: tuple[Any, ...] = tuple(columns)
    attributes: Margin = ()
    if isinstance(queries, Queries):
        attributes = queries.attributes
        sizes = [queries.domain[name].size for name in attributes]
        points = tuple(tuple(unravel(column, sizes)) for column in columns)
    levels = tuple(split.level for split in shattered.splits)
    witnesses = tuple(int(distinct[w]) for w in shattered.witnesses)
    return Dimension(len(columns), points, levels, witnesses, gamma, "search", attributes, shattered.complete)


def _split(values: NDArray[Any], denominator: int, level: Fraction, gamma: Fraction) -> Split:
    low = bits(values <= math.floor((level - gamma) * denominator))
    high = bits(values >= math.ceil((level + gamma) * denominator))
    return Split(0, level, low, high)


def _distinct_rows(numerators: NDArray[Any]) -> NDArray[Any]:
    """The first of each kind of query."""
    if numerators.dtype == object:
        first_place: dict[tuple[int, ...], int] = {}
        for i, row in enumerate(numerators.tolist()):
            first_place.setdefault(tuple(row), i)
        return np.array(list(first_place.values()))
    return np.sort(np.unique(numerators, axis=0, return_index=True)[1])


def _class_matrix(queries: Queries) -> NDArray[Any]:
    cells = queries.domain.cells(queries.attributes)
    if queries.count * cells > MAX_SEARCHED_WEIGHTS:
        raise WorkloadError(
            f"{queries.count:,} queries over {cells:,} cells are too many weights to search (at most "
            f"{MAX_SEARCHED_WEIGHTS:,}) and no closed form is known for this class; ask a smaller class"
        )
    shape = tuple(queries.domain[name].size for name in queries.attributes)
    if not shape:
        return np.asarray(queries.on_histogram(_one_record(queries)), dtype=np.int64)[:, None]
    return queries.columns_of(all_cells(shape, queries.attributes))


def _one_record(queries: Queries) -> NDArray[Any]:
    """A histogram with one record, for classes that look at no attribute."""
    histogram = np.zeros(queries.domain.shape, dtype=np.int64)
    histogram.flat[0] = 1
    return histogram


def _given_matrix(entries: Matrix) -> tuple[NDArray[Any], int]:
    array = np.asarray(entries, dtype=object)
    if array.ndim != 2:
        if array.size == 0:
            return np.zeros((0, 0), dtype=np.int64), 1
        raise WorkloadError(f"expected a matrix, queries down and cells across, got {array.ndim} dimensions")
    if array.size > MAX_SEARCHED_WEIGHTS:
        raise WorkloadError(
            f"expected at most {MAX_SEARCHED_WEIGHTS:,} weights to search, got {array.size:,}"
        )
    values = [[rational(cast("Number", v), "weight") for v in row] for row in array.tolist()]
    if any(not 0 <= v <= 1 for row in values for v in row):
        raise WorkloadError("expected weights between 0 and 1")
    denominator = math.lcm(1, *{v.denominator for row in values for v in row})
    numerators = [[int(v * denominator) for v in row] for row in values]
    small = denominator < MAX_SUM
    return np.array(numerators, dtype=np.int64 if small else object).reshape(array.shape), denominator


def is_binary(entries: Matrix) -> bool:
    """Are all weights 0 or 1, however they are written?"""
    values = cast("list[Number]", np.asarray(entries, dtype=object).ravel().tolist())
    return len(values) <= MAX_SEARCHED_WEIGHTS and all(
        rational(value, "weight") in (0, 1) for value in values
    )
