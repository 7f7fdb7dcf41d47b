"""SmallDB's counter for two-way marginals along a forest of binary attributes.

The base counts sequences: m rows of bits, each bit free. An attribute matters to its neighbours only by how many of
the m rows have a one and which: given c ones above, an attribute with u ones, k of them among those c, can be laid
out in C(c, k) C(m - c, u - k) ways. So the mass below an attribute is a number per count of its ones.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from operator import mul

from maquette.samplers.brackets import Bracket, Scale, Uniform
from maquette.samplers.lists import Band, Places

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
    def total(self) -> Bracket:
        return Bracket.whole(1 << (self.attributes * self.scale.m))

    def mass(self, level: int, *, exact: bool) -> Bracket:
        return Bracket.whole(self._count(level)[1])

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


# Counting and drawing the databases of a band under the Polya tree base.
#
# The base. The cells are halved again and again. A block that holds c rows gives a of them to its left half
# with probability C(2a, a) C(2c-2a, c-a) / 4^c, the beta-binomial law with parameters 1/2 (the arcsine
# law), independently of everything else. It is public, gives every database a positive weight, and does not
# spread its mass thinly over a huge universe as equal weights do.
#
# The tables. For a block, t[p][q] is the probability that a path which enters it with p rows below and
# leaves it with q stays in the band inside it, times 4^(height (q - p)): a whole number. A block without a
# marked boundary inside needs no table, its probability is 1. So at most 2m paths from the root to a marked
# boundary are computed.

Block = tuple[int, int]
"""The cells from the first to, not including, the second."""
Table = list[list[int]]

MAX_TABLE_NUMBERS = 5 * 10**6
"""Whole numbers that are held at once, about."""


@lru_cache(maxsize=64)
def centrals(most: int) -> list[int]:
    """C(2a, a) for a = 0 .. most: the weight of a rows on one side."""
    weights = [1]
    for a in range(1, most + 1):
        weights.append(weights[-1] * 2 * (2 * a - 1) // a)
    return weights


def middle(block: Block) -> int:
    """Where a block is split."""
    return (block[0] + block[1]) // 2


def height(block: Block) -> int:
    """How often a block can be halved, at most."""
    return (block[1] - block[0] - 1).bit_length()


def whole_mass(size: int, m: int) -> int:
    """The mass of all databases in the unit of `TreePaths.count`."""
    return 1 << (2 * m * height((0, size)))


class TreePaths:
    """The databases of one band, weighed by the tree.

    Cost: at most 2 m log2(size) tables of w^2 whole numbers, w^3 / 6 products each, where w is the width of the band,
        m + 1 at the most: whatever the number of records. `MAX_TABLE_NUMBERS` are held; beyond, tables are computed
        again when a draw needs them, so that memory stays at log2(size) w^2 numbers.
    """

    def __init__(self, band: Band) -> None:
        self._band = band
        self._marks: list[int] = band.marks().tolist()
        self._firsts: list[int] = band.firsts.tolist()
        self._lasts: list[int] = band.lasts.tolist()
        self._central = centrals(band.m)
        self._keep = len(self._marks) * height((0, band.size)) * band.width() ** 2 <= MAX_TABLE_NUMBERS
        self._tables: dict[Block, Table] = {}
        self._root = self._table((0, band.size))

    @property
    def count(self) -> int:
        """The base mass of the band, as a whole number."""
        return whole_mass(self._band.size, self._band.m) if self._root is None else self._root[0][0]

    def draw(self, uniform: Uniform) -> Places:
        """One database from the base restricted to the band."""
        places: Places = []
        self._place((0, self._band.size), 0, self._band.m, uniform, places)
        return places

    def _at(self, boundary: int) -> tuple[int, int]:
        """The fewest and the most rows below a boundary."""
        return bisect_left(self._lasts, boundary), bisect_left(self._firsts, boundary)

    def _marked(self, block: Block) -> bool:
        after = bisect_right(self._marks, block[0])
        return after < len(self._marks) and self._marks[after] < block[1]

    def _table(self, block: Block) -> Table | None:
        """The table of a block, by those of its halves; None if nothing in it is marked."""
        if not self._marked(block):
            return None
        if block in self._tables:
            return self._tables[block]
        starts, inner, ends = (self._at(boundary) for boundary in (block[0], middle(block), block[1]))
        left, right = self._halves(block)
        lefts = [self._left(block, left, p, inner) for p in range(starts[0], starts[1] + 1)]
        rights = [self._right(block, right, q, inner) for q in range(ends[0], ends[1] + 1)]
        table = [[sum(map(mul, one, other)) for other in rights] for one in lefts]
        if self._keep:
            self._tables[block] = table
        return table

    def _halves(self, block: Block) -> tuple[Table | None, Table | None]:
        cut = middle(block)
        return self._table((block[0], cut)), self._table((cut, block[1]))

    def _left(self, block: Block, table: Table | None, p: int, inner: tuple[int, int]) -> list[int]:
        """Weight of going from p to s in the left half, for every s at the middle."""
        half = (block[0], middle(block))
        pad = 2 * (height(block) - 1 - (0 if table is None else height(half)))
        ways = None if table is None else table[p - self._at(half[0])[0]]
        return [
            0
            if s < p
            else (self._central[s - p] * (1 if ways is None else ways[s - inner[0]])) << (pad * (s - p))
            for s in range(inner[0], inner[1] + 1)
        ]

    def _right(self, block: Block, table: Table | None, q: int, inner: tuple[int, int]) -> list[int]:
        """Weight of going from s to q in the right half, for every s at the middle."""
        half = (middle(block), block[1])
        pad = 2 * (height(block) - 1 - (0 if table is None else height(half)))
        end = self._at(half[1])[0]
        return [
            0
            if s > q
            else (self._central[q - s] * (1 if table is None else table[s - inner[0]][q - end]))
            << (pad * (q - s))
            for s in range(inner[0], inner[1] + 1)
        ]

    def _place(self, block: Block, p: int, q: int, uniform: Uniform, places: Places) -> None:
        """Rows p .. q of the database, all inside a block."""
        if p == q or not self._marked(block):
            place_rows(block, q - p, uniform, places)
            return
        cut = middle(block)
        inner = self._at(cut)
        left, right = self._halves(block)
        weights = list(map(mul, self._left(block, left, p, inner), self._right(block, right, q, inner)))
        s = inner[0] + uniform.pick(weights)
        del left, right
        self._place((block[0], cut), p, s, uniform, places)
        self._place((cut, block[1]), s, q, uniform, places)


def place_rows(block: Block, rows: int, uniform: Uniform, places: Places) -> None:
    """Rows of a block from the base alone, appended in order."""
    while rows == 1 and block[1] - block[0] > 1:  # most of the work: a lone row falls left or right evenly
        cut = middle(block)
        block = (block[0], cut) if uniform.bits(1) else (cut, block[1])
    if block[1] - block[0] == 1:
        places.extend([block[0]] * rows)
    elif rows:
        cut = middle(block)
        left = bisect_right(_split(rows), uniform.bits(2 * rows))
        place_rows((block[0], cut), left, uniform, places)
        place_rows((cut, block[1]), rows - left, uniform, places)


@lru_cache(maxsize=4096)
def _split(rows: int) -> list[int]:
    """Borders of the law of the left half's rows, on the scale 4^rows."""
    central = centrals(1 << rows.bit_length())
    return list(accumulate(central[a] * central[rows - a] for a in range(rows + 1)))
