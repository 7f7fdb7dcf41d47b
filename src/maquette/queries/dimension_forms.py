"""VC dimensions that are known without a search, with a shattered set, for classes of any size."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

from maquette import _check
from maquette.queries.base import Queries
from maquette.queries.conjunctions import Conjunctions
from maquette.queries.marginals import Marginals, unravel
from maquette.queries.ranges import Prefixes, Ranges

HALF = Fraction(1, 2)
Codes = tuple[int, ...]


class Known(NamedTuple):
    """A largest shattered set, in codes of the class's attributes, and the query of each labelling.

    A labelling is given as the numbers of the points whose label is 1.
    """

    points: tuple[Codes, ...]
    query: Callable[[Sequence[int]], int]


def known(queries: Queries) -> Known | None:
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
        case _:
            return None


def thresholds(*, cells: int) -> int:
    """One-sided thresholds on an ordered domain: 1, with two or more of them."""
    _check.whole(cells=cells)
    return min(1, cells - 1)


def intervals(*, cells: int) -> int:
    """Non-empty intervals of ordered cells: 2, on three cells or more."""
    return boxes(cells=[cells])


def boxes(*, cells: list[int]) -> int:
    """Non-empty axis boxes on a grid: the sum of min(2, cells - 1) over the axes; 2d on large grids.

    Each point of a shattered set of three or more is the only extreme one in some direction, and an axis of two
    cells has at most one such point: never more. The neighbours of an inner cell along every axis: never fewer.
    """
    for size in cells:
        _check.whole(cells=size)
    return sum(min(2, size - 1) for size in cells)


def unions_of_intervals(*, parts: int) -> int:
    """Unions of r intervals on a long ordered domain: 2r (from the literature)."""
    _check.whole(parts=parts)
    return 2 * parts


def points(*, cells: int) -> int:
    """The indicators of single cells: 1, with two or more of them."""
    _check.whole(cells=cells)
    return min(1, cells - 1)


def halfspaces(*, d: int) -> int:
    """Affine half-spaces in R^d: d + 1."""
    _check.whole(d=d)
    return d + 1


def parities(*, d: int) -> int:
    """Parities of subsets of d bits: d."""
    _check.whole(d=d)
    return d


def monotone_conjunctions(*, d: int, empty: bool = True) -> int:
    """Conjunctions of unnegated variables on d bits: d with the empty conjunction, d - 1 without."""
    _check.whole(d=d)
    return d if empty else d - 1


def conjunctions_of_literals(*, d: int, contradiction: bool = True, empty: bool = True) -> int:
    """Conjunctions of literals on d bits: d; on one bit 2 with the contradiction, else 1.

    Without the empty conjunction d - 1 for d >= 3: some literal then holds on the whole shattered set, and its
    variable tells no point apart.
    """
    _check.whole(d=d)
    if d == 1:
        return 2 if contradiction and empty else 1
    return d - 1 if d > 2 and not empty else d


def _prefixes(queries: Prefixes) -> Known:
    """The first prefix does not count cell 1, the second does."""
    found = ((1,),) if queries.count > 1 else ()
    return Known(found, len)


def _table(queries: Marginals) -> Known:
    """The first query counts the first cell, the second does not."""
    cell = tuple(unravel(0, [queries.domain[name].size for name in queries.attributes]))

    def query(ones: Sequence[int]) -> int:
        return 1 - len(ones)

    return Known((cell,), query) if queries.count > 1 else Known((), len)


def _ranges(queries: Ranges) -> Known:
    """The neighbours of an inner cell; a labelling is the box that reaches exactly to the chosen neighbours."""
    cells = [queries.domain[name].cells for name in queries.over]
    centre = [1 if size > 2 else 0 for size in cells]
    moves = [(axis, step) for axis, size in enumerate(cells) for step in _steps(size)]
    found = tuple(tuple(c + step * (i == axis) for i, c in enumerate(centre)) for axis, step in moves)

    def query(ones: Sequence[int]) -> int:
        return _box(centre, [moves[i] for i in ones], cells)

    return Known(found, query)


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


def _conjunctions(queries: Conjunctions) -> Known:
    """Records with one zero each, but never the last; a labelling is the conjunction of what its zeros lack.

    All of them have the last variable, which stands for the empty conjunction.
    """
    d = len(queries.over)
    found = tuple(tuple(int(i != zero) for i in range(d)) for zero in range(d - 1))

    def query(ones: Sequence[int]) -> int:
        lacking = [i for i in range(d - 1) if i not in ones]
        return _place(lacking if len(lacking) == d - 1 > 0 else [*lacking, d - 1], d, queries.literals)

    return Known(found, query)


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
