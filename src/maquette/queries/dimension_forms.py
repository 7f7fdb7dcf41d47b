"""VC dimensions that are known without a search, with a shattered set, for classes of any size."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import NamedTuple

from maquette import _check
from maquette.queries.base import Queries
from maquette.queries.marginals import Marginals, unravel
from maquette.queries.ranges import Prefixes, Ranges

HALF = Fraction(1, 2)
Codes = tuple[int, ...]


class Known(NamedTuple):
    """A largest shattered set, in codes of the class's attributes, and a query per labelling."""

    points: tuple[Codes, ...]
    witnesses: tuple[int, ...]


def known(queries: Queries) -> Known | None:
    """The shattered set of a class with a closed form, or None."""
    if isinstance(queries, Prefixes):
        return _prefixes(queries)
    if isinstance(queries, Ranges):
        return _ranges(queries)
    if isinstance(queries, Marginals) and len(queries.margins) == 1:
        return _table(queries)
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


def conjunctions_of_literals(*, d: int, contradiction: bool = True) -> int:
    """Conjunctions of literals on d bits (the empty one included): d; on one bit 2 with the contradiction, else 1."""
    _check.whole(d=d)
    return 2 if d == 1 and contradiction else d


def _prefixes(queries: Prefixes) -> Known:
    if queries.count < 2:
        return Known((), (0,))
    return Known(((1,),), (0, 1))  # the first prefix does not count cell 1, the second does


def _table(queries: Marginals) -> Known:
    if queries.count < 2:
        return Known((), (0,))
    cell = tuple(unravel(0, [queries.domain[name].size for name in queries.attributes]))
    return Known((cell,), (1, 0))


def _ranges(queries: Ranges) -> Known:
    """The neighbours of an inner cell; a labelling is the box that reaches exactly to the chosen neighbours."""
    cells = [queries.domain[name].cells for name in queries.over]
    centre = [1 if size > 2 else 0 for size in cells]
    steps = [(axis, step) for axis, size in enumerate(cells) for step in _steps(size)]
    found = tuple(tuple(c + step * (i == axis) for i, c in enumerate(centre)) for axis, step in steps)
    witnesses = [
        _box(centre, [move for move, label in zip(steps, reversed(labels), strict=True) if label], cells)
        for labels in product((0, 1), repeat=len(steps))
    ]
    return Known(found, tuple(witnesses))


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
