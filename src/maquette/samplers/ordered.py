"""SmallDB's counter for all intervals of one ordered attribute.

The error of an interval is the difference of two deviations, so the largest one is the range of D over all
boundaries. D has a range of at most T iff it stays in a window of width T; where the windows lie on a grid of step g
and are g wider, every such database is in one of them, and in few. So: pick a window with the mass of its band, draw
from the band, drop databases with a larger range, and keep the others with probability one over the number of
windows that hold them. Every database with a range of at most T then comes out with its base mass over the sum of
all windows' masses: what `Slices` asks for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import mul
from typing import Literal, Protocol

from maquette.samplers.brackets import FIRST_PRECISION, Bracket, Scale, Uniform, choose, flat_mass, tree_mass
from maquette.samplers.lists import FLAT, Band, Column, FlatPaths, Places
from maquette.samplers.structures import Family
from maquette.samplers.trees import TreePaths, height, place_rows, whole_mass

# SmallDB's counter for all thresholds of one ordered attribute.

Base = Literal["tree", "flat", "sequence"]


class Paths(Protocol):
    """The databases of one band: how much they weigh together, and one of them."""

    @property
    def count(self) -> int: ...

    def draw(self, uniform: Uniform) -> Places: ...


def paths(band: Band, base: Base) -> Paths:
    """Count a band under a base."""
    return TreePaths(band) if base == "tree" else FlatPaths.of(band, FLAT[base])


def float_mass(band: Band, base: Base) -> Bracket | None:
    """Bounds in floating point of what `paths(band, base).count` would be, or None."""
    if base == "tree":
        return tree_mass(band, 2 * band.m * height((0, band.size)))
    return flat_mass(band) if base == "flat" else None


def mass_of_all(size: int, m: int, base: Base) -> int:
    """The base mass of all databases, in the unit of `Paths.count`."""
    return whole_mass(size, m) if base == "tree" else FLAT[base].total(size, m)


def draw_from(size: int, m: int, base: Base, uniform: Uniform) -> Places:
    """A database from the base."""
    if base != "tree":
        return FLAT[base].places(size, m, uniform)
    places: Places = []
    place_rows((0, size), m, uniform, places)
    return places


@dataclass(slots=True, eq=False)
class Thresholds:
    """Level: the largest |D| over the thresholds."""

    column: Column
    scale: Scale
    base: Base
    _last: tuple[int, Paths] | None = field(default=None, init=False)

    @property
    def top(self) -> int:
        return self.scale.level(self.column.n * self.scale.m)

    @property
    def start(self) -> int:
        # m rows cannot follow n distinct records more closely than half a row
        return self.scale.level(self.column.n // 4)

    @property
    def acceptance(self) -> float:
        return 0.15 if self.base == "sequence" else 0.7

    @property
    def total(self) -> Bracket:
        return Bracket.whole(mass_of_all(self.column.size, self.scale.m, self.base))

    def mass(self, level: int, *, exact: bool) -> Bracket:
        if not exact:
            band = self._band(level)
            bounds = Bracket(0, 0) if band is None else float_mass(band, self.base)
            if bounds is not None:
                return bounds
        band_paths = self._paths(level)
        return Bracket.whole(0 if band_paths is None else band_paths.count)

    def draw(self, level: int, uniform: Uniform) -> Places:
        band_paths = self._paths(level)
        assert band_paths is not None
        return band_paths.draw(uniform)

    def draw_any(self, uniform: Uniform) -> Places:
        return draw_from(self.column.size, self.scale.m, self.base, uniform)

    def level(self, small: Places) -> int:
        low, high = self.column.deviations(small, self.scale.m)
        return self.scale.level(max(-low, high))

    def _band(self, level: int) -> Band | None:
        reach = self.scale.deviation(level)
        return self.column.band(self.scale.m, -reach, reach)

    def _paths(self, level: int) -> Paths | None:
        if self._last is None or self._last[0] != level:
            band = self._band(level)
            if band is None:
                return None
            self._last = (level, paths(band, self.base))
        return self._last[1]


@dataclass(slots=True, eq=False)
class Intervals:
    """Level: the range of D over the boundaries."""

    column: Column
    scale: Scale
    base: Base
    step: int
    """Levels between neighbouring windows: for speed only."""
    _float_masses: dict[int, list[Bracket]] = field(default_factory=dict[int, list[Bracket]], init=False)

    @property
    def top(self) -> int:
        return self.scale.level(self.column.n * self.scale.m)

    @property
    def start(self) -> int:
        return self.scale.level(self.column.n // 2)

    @property
    def acceptance(self) -> float:
        return 0.25

    @property
    def total(self) -> Bracket:
        return Bracket.whole(mass_of_all(self.column.size, self.scale.m, self.base))

    def mass(self, level: int, *, exact: bool) -> Bracket:
        masses = self._masses(level, exact=exact)
        grid = max(w.exponent + w.high.bit_length() for w in masses) - 2 * FIRST_PRECISION
        exponent = min(w.exponent for w in masses) if exact else grid
        aligned = [w.at(exponent) for w in masses]
        return Bracket(sum(w.low for w in aligned), sum(w.high for w in aligned), exponent)

    def draw(self, level: int, uniform: Uniform) -> Places | None:
        def weights(precision: int) -> list[Bracket]:
            return self._masses(level, exact=precision > FIRST_PRECISION)

        low = self._lows(level)[choose(uniform, weights)]
        width = self._width(level)
        band = self._band(low, width)
        assert band is not None
        places = paths(band, self.base).draw(uniform)
        least, most = self.column.deviations(places, self.scale.m)
        if most - least > self.scale.deviation(level):
            return None
        gap = self._gap()
        windows = (
            least // gap - -((width - most) // gap) + 1
        )  # multiples of the gap from most - width to least
        return None if uniform.below(windows) else places

    def draw_any(self, uniform: Uniform) -> Places:
        return draw_from(self.column.size, self.scale.m, self.base, uniform)

    def level(self, small: Places) -> int:
        least, most = self.column.deviations(small, self.scale.m)
        return self.scale.level(most - least)

    def _gap(self) -> int:
        return max(self.scale.deviation(self.step), 1)

    def _width(self, level: int) -> int:
        return self.scale.deviation(level) + self._gap()

    def _lows(self, level: int) -> list[int]:
        """The lower ends of all windows that hold 0, where every D starts."""
        gap = self._gap()
        return list(range(-(self._width(level) // gap) * gap, 1, gap))

    def _band(self, low: int, width: int) -> Band | None:
        return self.column.band(self.scale.m, low, low + width)

    def _masses(self, level: int, *, exact: bool) -> list[Bracket]:
        if exact:
            return [self._mass(low, level, exact=True) for low in self._lows(level)]
        if level not in self._float_masses:
            self._float_masses[level] = [self._mass(low, level, exact=False) for low in self._lows(level)]
        return self._float_masses[level]

    def _mass(self, low: int, level: int, *, exact: bool) -> Bracket:
        band = self._band(low, self._width(level))
        if band is None:
            return Bracket(0, 0)
        bounds = None if exact else float_mass(band, self.base)
        return Bracket.whole(paths(band, self.base).count) if bounds is None else bounds


# SmallDB's counter for nested families of cells: histograms, hierarchies, dyadic trees.
#
# The sets form a tree: each is split by the largest sets inside it and the cells that are in none of those.
# A database gives every set a number of rows; it is near the table iff each number lies between bounds of
# its own, so the mass of a set with k rows is a sum over the ways to share them among its parts, computed
# from the leaves up. Multisets count once (the flat base).

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
    def total(self) -> Bracket:
        return Bracket.whole(math.comb(self.scale.m + self.root.family.cells - 1, self.scale.m))

    def mass(self, level: int, *, exact: bool) -> Bracket:
        layers = self._count(level)
        return Bracket.whole(0 if layers is None else _ways(layers[self.root], self.scale.m))

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
        own = abs(self.scale.m * node.records - self.n * rows) if node.family.is_asked else 0
        return max([own, *(worst for worst, _ in below)]), rows

    def _count(self, level: int) -> dict[Node, list[Layer]] | None:
        if self._last[0] != level:
            layers_of: dict[Node, list[Layer]] = {}
            done = self._fill(self.root, self.scale.deviation(level), layers_of, root=True)
            self._last = (level, layers_of if done else None)
        return self._last[1]

    def _fill(
        self, node: Node, reach: int, layers_of: dict[Node, list[Layer]], *, root: bool = False
    ) -> bool:
        """Layers of a set: loose cells, then one part after the other. False if nothing is near enough."""
        m = self.scale.m
        low, high = (m, m) if root else (0, m)
        if node.family.is_asked and self.n:
            low = max(low, -((reach - m * node.records) // self.n))
            high = min(high, (m * node.records + reach) // self.n)
        loose = sum(count for _, count in node.family.loose)
        layers: list[Layer] = [(0, _multisets(loose, high))]
        for part in node.inside:
            if not self._fill(part, reach, layers_of):
                return False
            layers.append(_joined(layers[-1], layers_of[part][-1], high))
        first, ways = layers[-1]
        layers[-1] = (max(first, low), ways[max(low - first, 0) :])
        layers_of[node] = layers
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
        share = first + uniform.pick(options)
        _place(node.inside[i], share, layers, uniform, places)
        rows -= share
    loose = node.family.loose
    for place in uniform.multiset(rows, sum(count for _, count in loose)) if rows else ():
        for first, count in loose:
            if place < count:
                places.append(first + place)
                break
            place -= count
