"""Points of the plane and half-planes: which labellings there are, exactly, and a picture of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from itertools import product

from maquette.core import _check
from maquette.core._arguments import checks_arguments
from maquette.errors import ParameterError

Point = tuple[int, int]
MAX_POINTS = 12
MAX_COORDINATE = 10**6


@dataclass(frozen=True, slots=True)
class HalfPlanes:
    """The labellings of some points that half-planes give, each as the points inside."""

    points: tuple[Point, ...]
    labellings: frozenset[frozenset[int]]

    @property
    def shattered(self) -> bool:
        """Is every set of these points the inside of a half-plane?"""
        return len(self.labellings) == 2 ** len(self.points)

    @property
    def missing(self) -> tuple[tuple[int, ...], ...]:
        """The sets that no half-plane cuts out, smallest first."""
        every = product((False, True), repeat=len(self.points))
        sets = (frozenset(i for i, inside in enumerate(one) if inside) for one in every)
        return tuple(
            sorted((tuple(sorted(s)) for s in sets if s not in self.labellings), key=lambda s: (len(s), s))
        )

    def matrix(self) -> list[list[int]]:
        """The labellings as queries, a line each, for `mq.vc_dimension` and `mq.shatters`."""
        rows = sorted(sorted(one) for one in self.labellings)
        return [[int(i in row) for i in range(len(self.points))] for row in rows]


@checks_arguments
def half_planes(points: Sequence[Sequence[int]]) -> HalfPlanes:
    """All labellings of distinct points with whole coordinates by half-planes.

    A half-plane can be turned a little without changing what is inside, so directions between those that are
    perpendicular to a line through two points are enough; along each of them the points have an order, and its
    beginnings are the labellings.
    """
    pairs = [tuple(point) for point in points]
    if not 1 <= len(pairs) <= MAX_POINTS or len(set(pairs)) < len(pairs):
        raise ParameterError(f"expected 1 to {MAX_POINTS} distinct points")
    if any(len(p) != 2 or not all(_check.is_whole(v) and abs(v) <= MAX_COORDINATE for v in p) for p in pairs):
        raise ParameterError(f"expected points as pairs of whole numbers up to {MAX_COORDINATE:,}")
    places: list[Point] = [(p[0], p[1]) for p in pairs]
    labellings: set[frozenset[int]] = set()
    for x, y in _between(places):
        order = sorted(range(len(places)), key=lambda i: x * places[i][0] + y * places[i][1])
        labellings |= {frozenset(order[:size]) for size in range(len(order) + 1)}
    return HalfPlanes(tuple(places), frozenset(labellings))


def _between(points: Sequence[Point]) -> list[Point]:
    """One direction between every two neighbours among those that are perpendicular to a line through two points."""
    borders = {(b[1] - a[1], a[0] - b[0]) for a in points for b in points if a != b} or {(1, 0), (-1, 0)}
    turned = sorted(borders, key=cmp_to_key(_compare))
    distinct = [
        v
        for v, before in zip(turned, [None, *turned[:-1]], strict=True)
        if before is None or _compare(before, v)
    ]
    if len(distinct) == 2:  # points on one line: the two directions along it
        return [(-distinct[0][1], distinct[0][0]), (distinct[0][1], -distinct[0][0])]
    # normals of opposite sign are both there, so neighbours are less than half a turn apart
    return [(a[0] + b[0], a[1] + b[1]) for a, b in zip(distinct, [*distinct[1:], distinct[0]], strict=True)]


def _compare(a: Point, b: Point) -> int:
    """The order of directions by their angle, exactly; 0 for equal directions."""
    half = _is_lower(a) - _is_lower(b)
    return half or (b[0] * a[1] > b[1] * a[0]) - (b[0] * a[1] < b[1] * a[0])


def _is_lower(a: Point) -> int:
    return int((a[1], a[0]) < (0, 0))
