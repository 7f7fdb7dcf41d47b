"""SmallDB's counter for nested families of cells: histograms, hierarchies, dyadic trees.

The sets form a tree: each is split by the largest sets inside it and the cells that are in none of those. A database
gives every set a number of rows; it is near the table iff each number lies between bounds of its own, so the mass of
a set with k rows is a sum over the ways to share them among its parts, computed from the leaves up. Multisets count
once (the flat base).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import mul

from maquette.gate.draw.column import Places
from maquette.gate.draw.scale import Scale
from maquette.gate.draw.uniform import Uniform
from maquette.gate.draw.wide import Wide
from maquette.models.family import Family

Layer = tuple[int, list[int]]
"""The fewest rows, and how many ways there are for that number and each above it."""


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A set with its records."""

    family: Family
    records: int
    inside: tuple[Node, ...]


@dataclass(slots=True, eq=False)
class Nested:
    """Level: the largest error over the sets."""

    root: Node
    n: int
    scale: Scale
    _last: tuple[int, dict[Node, list[Layer]] | None] = field(default=(-1, None), init=False)

    @property
    def top(self) -> int:
        return self.scale.level(self.n * self.scale.m)

    @property
    def start(self) -> int:
        return self.scale.level(self.n // 4)

    @property
    def acceptance(self) -> float:
        return 0.15

    @property
    def total(self) -> Wide:
        return Wide.whole(math.comb(self.scale.m + self.root.family.cells - 1, self.scale.m))

    def mass(self, level: int, *, exact: bool) -> Wide:
        layers = self._count(level)
        return Wide.whole(0 if layers is None else _ways(layers[self.root], self.scale.m))

    def draw(self, level: int, uniform: Uniform) -> Places:
        layers = self._count(level)
        assert layers is not None
        places: Places = []
        _place(self.root, self.scale.m, layers, uniform, places)
        return sorted(places)

    def draw_any(self, uniform: Uniform) -> Places:
        return uniform.multiset(self.scale.m, self.root.family.cells)

    def level(self, small: Places) -> int:
        worst, _ = self._deviation(self.root, small)
        return self.scale.level(worst)

    def _deviation(self, node: Node, small: Places) -> tuple[int, int]:
        """The largest |m F - n k| in a set and the sets inside, and k."""
        below = [self._deviation(part, small) for part in node.inside]
        loose = sum(
            1 for cell in small for first, count in node.family.loose if first <= cell < first + count
        )
        rows = loose + sum(k for _, k in below)
        own = abs(self.scale.m * node.records - self.n * rows) if node.family.asked else 0
        return max([own, *(worst for worst, _ in below)]), rows

    def _count(self, level: int) -> dict[Node, list[Layer]] | None:
        if self._last[0] != level:
            found: dict[Node, list[Layer]] = {}
            done = self._fill(self.root, self.scale.deviation(level), found, root=True)
            self._last = (level, found if done else None)
        return self._last[1]

    def _fill(self, node: Node, reach: int, found: dict[Node, list[Layer]], *, root: bool = False) -> bool:
        """Layers of a set: loose cells, then one part after the other. False if nothing is near enough."""
        m = self.scale.m
        low, high = (m, m) if root else (0, m)
        if node.family.asked and self.n:
            low = max(low, -((reach - m * node.records) // self.n))
            high = min(high, (m * node.records + reach) // self.n)
        loose = sum(count for _, count in node.family.loose)
        layers: list[Layer] = [(0, _multisets(loose, high))]
        for part in node.inside:
            if not self._fill(part, reach, found):
                return False
            layers.append(_joined(layers[-1], found[part][-1], high))
        first, ways = layers[-1]
        layers[-1] = (max(first, low), ways[max(low - first, 0) :])
        found[node] = layers
        return bool(layers[-1][1]) and low <= high


def _multisets(cells: int, most: int) -> list[int]:
    if cells == 0:
        return [1]
    return [math.comb(cells + k - 1, k) for k in range(most + 1)]


def _ways(layers: Sequence[Layer], rows: int) -> int:
    first, ways = layers[-1]
    return ways[rows - first] if 0 <= rows - first < len(ways) else 0


def _joined(one: Layer, two: Layer, most: int) -> Layer:
    """Ways to have so many rows in two parts together, up to `most`."""
    first = one[0] + two[0]
    length = min(len(one[1]) + len(two[1]) - 1, most - first + 1)
    backwards = two[1][::-1]
    sums: list[int] = []
    for k in range(length):
        start, stop = max(0, k - len(two[1]) + 1), min(k, len(one[1]) - 1)
        sums.append(sum(map(mul, one[1][start : stop + 1], backwards[len(two[1]) - 1 - k + start :])))
    return first, sums


def _place(node: Node, rows: int, layers: dict[Node, list[Layer]], uniform: Uniform, places: Places) -> None:
    """Share the rows of a set among its parts, from the last to the loose cells."""
    own = layers[node]
    for i in range(len(node.inside) - 1, -1, -1):
        before, (first, ways) = own[i], layers[node.inside[i]][-1]
        options = [
            ways[k] * _ways([before], rows - first - k)
            for k in range(min(len(ways), max(rows - first, -1) + 1))
        ]
        given = first + uniform.pick(options)
        _place(node.inside[i], given, layers, uniform, places)
        rows -= given
    loose = node.family.loose
    for place in uniform.multiset(rows, sum(count for _, count in loose)) if rows else ():
        for first, count in loose:
            if place < count:
                places.append(first + place)
                break
            place -= count
