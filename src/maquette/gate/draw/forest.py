"""SmallDB's counter for two-way marginals along a forest of binary attributes.

The base counts sequences: m rows of bits, each bit free. An attribute matters to its neighbours only by how many of
the m rows have a one and which: given c ones above, an attribute with u ones, k of them among those c, can be laid
out in C(c, k) C(m - c, u - k) ways. So the mass below an attribute is a number per count of its ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from maquette.gate.draw.scale import Scale
from maquette.gate.draw.uniform import Uniform
from maquette.gate.draw.wide import Wide

Edge = tuple[int, int]
"""Attributes by number, the one nearer to the root first."""
Bits = list[list[int]]
"""For every attribute the rows that have a one, sorted."""
Ways = dict[int, int]
"""By the number of ones."""


@dataclass(slots=True, eq=False)
class Forest:
    """Level: the largest error over the cells of the edges' tables (and of single attributes, where asked)."""

    attributes: int
    edges: Sequence[Edge]
    singles: frozenset[int]
    """Attributes whose own marginal is asked for."""
    ones: Sequence[int]
    """Records with a one, per attribute."""
    both: Mapping[Edge, int]
    """Records with a one in both attributes of an edge."""
    n: int
    scale: Scale
    _last: tuple[int, tuple[list[Ways], int]] | None = field(default=None, init=False)

    @property
    def top(self) -> int:
        return self.scale.level(self.n * self.scale.m)

    @property
    def start(self) -> int:
        return self.scale.level(self.n // 2)

    @property
    def acceptance(self) -> float:
        return 0.1

    @property
    def total(self) -> Wide:
        return Wide.whole(1 << (self.attributes * self.scale.m))

    def mass(self, level: int, *, exact: bool) -> Wide:
        return Wide.whole(self._count(level)[1])

    def draw(self, level: int, uniform: Uniform) -> Bits:
        reach, (below, _) = self.scale.deviation(level), self._count(level)
        m = self.scale.m
        bits: Bits = [[] for _ in range(self.attributes)]
        for root in self._roots():
            counts = list(below[root])
            count = counts[uniform.pick([math.comb(m, c) * below[root][c] for c in counts])]
            bits[root] = uniform.subset(count, m)
        for edge in self.edges:
            options, weights = self._options(edge, len(bits[edge[0]]), reach, below[edge[1]])
            ones, shared = options[uniform.pick(weights)]
            bits[edge[1]] = _laid_out(bits[edge[0]], m, shared, ones - shared, uniform)
        return bits

    def draw_any(self, uniform: Uniform) -> Bits:
        m = self.scale.m
        words = [uniform.bits(m) for _ in range(self.attributes)]
        return [[row for row in range(m) if word >> row & 1] for word in words]

    def level(self, small: Bits) -> int:
        m, n = self.scale.m, self.n
        worst = max([abs(m * self.ones[a] - n * len(small[a])) for a in self.singles], default=0)
        for edge in self.edges:
            shared = len(set(small[edge[0]]) & set(small[edge[1]]))
            table = _cells(len(small[edge[0]]), len(small[edge[1]]), shared, m)
            exact = _cells(self.ones[edge[0]], self.ones[edge[1]], self.both[edge], n)
            worst = max(worst, *(abs(m * f - n * k) for f, k in zip(exact, table, strict=True)))
        return self.scale.level(worst)

    def _roots(self) -> list[int]:
        below = {child for _, child in self.edges}
        return [a for a in range(self.attributes) if a not in below]

    def _count(self, level: int) -> tuple[list[Ways], int]:
        if self._last is None or self._last[0] != level:
            self._last = (level, self._fill(self.scale.deviation(level)))
        return self._last[1]

    def _fill(self, reach: int) -> tuple[list[Ways], int]:
        """From the leaves up; the edges are listed from the roots down."""
        below = [dict.fromkeys(self._own(a, reach), 1) for a in range(self.attributes)]
        for edge in reversed(self.edges):
            parent, child = edge
            shared = {c: sum(self._options(edge, c, reach, below[child])[1]) for c in below[parent]}
            below[parent] = {c: ways * shared[c] for c, ways in below[parent].items() if shared[c]}
        m, total = self.scale.m, 1
        for root in self._roots():
            total *= sum(math.comb(m, c) * ways for c, ways in below[root].items())
        return below, total

    def _own(self, attribute: int, reach: int) -> range:
        """Possible numbers of ones, as far as the attribute's own marginal says."""
        if attribute not in self.singles:
            return range(self.scale.m + 1)
        low, high = self._between(self.ones[attribute], reach)
        return range(low, high + 1)

    def _between(self, records: int, reach: int) -> tuple[int, int]:
        m, n = self.scale.m, self.n
        if n == 0:
            return 0, m
        return max(0, -((reach - m * records) // n)), min(m, (m * records + reach) // n)

    def _options(
        self, edge: Edge, above: int, reach: int, below: Ways
    ) -> tuple[list[tuple[int, int]], list[int]]:
        """(ones of the child, ones shared with the parent's `above` ones) that are near, and their ways."""
        m = self.scale.m
        exact = _cells(self.ones[edge[0]], self.ones[edge[1]], self.both[edge], self.n)
        bounds = [self._between(f, reach) for f in exact]
        options: list[tuple[int, int]] = []
        weights: list[int] = []
        for ones, ways in below.items():
            for shared in self._shared(above, ones, bounds):
                options.append((ones, shared))
                weights.append(ways * math.comb(above, shared) * math.comb(m - above, ones - shared))
        return options, weights

    def _shared(self, above: int, ones: int, bounds: Sequence[tuple[int, int]]) -> range:
        """The numbers of shared ones for which all four cells are near."""
        m = self.scale.m
        (l11, h11), (l10, h10), (l01, h01), (l00, h00) = bounds
        low = max(l11, above - h10, ones - h01, l00 - m + above + ones, above + ones - m, 0)
        high = min(h11, above - l10, ones - l01, h00 - m + above + ones, above, ones)
        return range(low, high + 1)


def _cells(one: int, other: int, both: int, total: int) -> tuple[int, int, int, int]:
    """The table of two bits: 11, 10, 01, 00."""
    return both, one - both, other - both, total - one - other + both


def _laid_out(above: list[int], m: int, shared: int, rest: int, uniform: Uniform) -> list[int]:
    """Ones of a child: `shared` among the parent's rows with a one, `rest` among the others."""
    inside = set(above)
    others = [row for row in range(m) if row not in inside]
    chosen = [above[i] for i in uniform.subset(shared, len(above))]
    return sorted(chosen + [others[i] for i in uniform.subset(rest, len(others))])
