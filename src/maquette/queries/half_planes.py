"""All half-planes of a grid of points: every set of points that a line cuts off, once.

A line that cuts a set off can be turned a little without touching a point, so that it is enough to look at directions
in which no two points are level. The directions in which a set lies on top form one arc of less than half a turn, for
they are a convex cone; so in a whole turn every set but the empty one and the grid comes up just once. It does so where
the direction passes one in which some points are level: these change their order, and the sets that are new on top end
inside a group of level points. In all these are, over the directions with level points, the points less their levels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise, product

Direction = tuple[int, int]


def half_planes(
    first: Sequence[int], second: Sequence[int], level: Sequence[Direction]
) -> Iterator[tuple[Direction, list[int]]]:
    """Directions (a, b), each with its thresholds t: the points with a x + b y >= t.

    Points are all pairs of two or more different numbers each; `level` are their level directions.
    """
    points = list(product(first, second))
    for passed, following in pairwise([*level, level[0]]):
        a, b = passed[0] + following[0], passed[1] + following[1]
        falling = sorted(((a * x + b * y, passed[0] * x + passed[1] * y) for x, y in points), reverse=True)
        yield (a, b), [top for (top, here), (_, below) in pairwise(falling) if here == below]


def level_directions(first: Sequence[int], second: Sequence[int]) -> list[Direction]:
    """The directions in which two points are level, as shortest whole numbers, in the order of a turn."""
    across = {x - other for x in first for other in first}
    along = {y - other for y in second for other in second}
    return sorted({_shortest(dy, -dx) for dx in across for dy in along if dx or dy}, key=_turned)


def _shortest(a: int, b: int) -> Direction:
    common = math.gcd(a, b)
    return a // common, b // common


def _turned(direction: Direction) -> tuple[bool, bool, Fraction]:
    """By the half of the turn, then by the angle in it."""
    a, b = direction
    return (b, a) < (0, 0), b != 0, Fraction(-a, b) if b else Fraction(0)
