"""The two records that differ in the most products of intervals.

With M = cells + 1, the cell i is in a(M - a) intervals, where a is i + 1 or, counted from the other end,
cells - i. Of two cells on either side of each other, a from the low end and b from the high end, ab
intervals hold both. Over several attributes the products multiply, and two records are apart in

    F(a) + F(b) - 2 p(a) p(b),    F(a) = prod a_k (M_k - a_k),    p(a) = prod a_k.

Replacing a_k > M_k / 2 by M_k - a_k keeps F and makes p smaller, so a_k, b_k <= M_k / 2 is enough, and
every such pair exists. Each record then matters only through (p, F), and for a fixed partner the best
record maximises F - 2 p(b) p: a corner of the upper hull of all (p, F). The hull of a product of sets is
built from the hulls of its factors, one attribute after the other, because for a fixed last factor the
same argument holds for the rest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

MAX_EXACT_RANGE_CELLS = 2**14
"""Attributes of more cells, among several, get a bound in place of the exact figure."""


@dataclass(frozen=True, slots=True)
class RangeSensitivity:
    """How many products hold exactly one of two records, at most."""

    distance: int
    exact: bool
    spread: bool
    """Some such pair differs in every attribute of two or more cells."""


class _Corner(NamedTuple):
    p: int
    f: int
    a: tuple[int, ...]


def range_sensitivity(cells: Sequence[int], *, closed: bool) -> RangeSensitivity:
    """The farthest pair for attributes of these numbers of declared cells.

    If an attribute has a cell outside the declared ones (not `closed`), one record may be in no product at all.
    """
    return _range_sensitivity(tuple(cells), closed)


@lru_cache(maxsize=256)
def _range_sensitivity(cells: tuple[int, ...], closed: bool) -> RangeSensitivity:
    middle = math.prod((m + 1) ** 2 // 4 for m in cells)
    if len(cells) == 1:
        return RangeSensitivity(middle if cells[0] > 1 or not closed else 0, exact=True, spread=True)
    if max(cells) > MAX_EXACT_RANGE_CELLS:
        return RangeSensitivity(2 * middle, exact=False, spread=False)
    distance, spread = _best_pair(_corners(cells), cells, closed)
    if not closed and middle >= distance:
        return RangeSensitivity(middle, exact=True, spread=True)
    return RangeSensitivity(distance, exact=True, spread=spread)


def _corners(cells: tuple[int, ...]) -> list[_Corner]:
    hull = [_Corner(1, 1, ())]
    for m in cells:
        factors = [(a, a * (m + 1 - a)) for a in range(1, (m + 1) // 2 + 1)]
        hull = _upper_hull([_Corner(c.p * a, c.f * f, (*c.a, a)) for c in hull for a, f in factors])
    return hull


def _upper_hull(points: list[_Corner]) -> list[_Corner]:
    """The corners that maximise f - slope * p for some slope >= 0, by increasing p."""
    hull: list[_Corner] = []
    for point in sorted(points, key=lambda c: (c.p, -c.f)):
        if hull and point.f <= hull[-1].f:
            continue
        while len(hull) >= 2 and _below(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    return hull


def _below(first: _Corner, middle: _Corner, last: _Corner) -> bool:
    return (middle.f - first.f) * (last.p - first.p) <= (last.f - first.f) * (middle.p - first.p)


def _best_pair(hull: list[_Corner], cells: tuple[int, ...], closed: bool) -> tuple[int, bool]:
    """Of two records inside the declared cells. One such cell beside a null cell is shared by both of them."""
    best, spread = 0, False
    for i, one in enumerate(hull):
        for other in hull[i:]:
            distance = one.f + other.f - 2 * one.p * other.p
            if distance >= best:
                pairs = zip(one.a, other.a, cells, strict=True)
                differs = all(a + b <= m or (m == 1 and closed) for a, b, m in pairs)
                spread = differs or (spread and distance == best)
                best = distance
    return best, spread
