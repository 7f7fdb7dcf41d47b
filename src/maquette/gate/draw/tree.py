"""Counting and drawing the databases of a band under the Polya tree base.

The base. The cells are halved again and again. A block that holds c rows gives a of them to its left half with
probability C(2a, a) C(2c-2a, c-a) / 4^c, the beta-binomial law with parameters 1/2 (the arcsine law), independently
of everything else. It is public, gives every database a positive weight, and does not spread its mass thinly over
a huge universe as equal weights do.

The tables. For a block, t[p][q] is the probability that a path which enters it with p rows below and leaves it
with q stays in the band inside it, times 4^(height (q - p)): a whole number. A block without a marked boundary
inside needs no table, its probability is 1. So at most 2m paths from the root to a marked boundary are computed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import lru_cache
from itertools import accumulate
from operator import mul

from maquette.gate.draw.column import Band, Places
from maquette.gate.draw.uniform import Uniform

Block = tuple[int, int]
"""The cells from the first to, not including, the second."""
Table = list[list[int]]

KEPT = 5 * 10**6
"""Whole numbers that are held at once, about."""


@lru_cache(maxsize=64)
def centrals(most: int) -> list[int]:
    """C(2a, a) for a = 0 .. most: the weight of a rows on one side."""
    found = [1]
    for a in range(1, most + 1):
        found.append(found[-1] * 2 * (2 * a - 1) // a)
    return found


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
        m + 1 at the most: whatever the number of records. Up to about `KEPT` numbers are held; beyond, tables are
        computed anew when a draw needs them, so that memory stays at log2(size) w^2 numbers.
    """

    def __init__(self, band: Band) -> None:
        self._band = band
        self._marks: list[int] = band.marks().tolist()
        self._firsts: list[int] = band.firsts.tolist()
        self._lasts: list[int] = band.lasts.tolist()
        self._central = centrals(band.m)
        self._keep = len(self._marks) * height((0, band.size)) * band.width() ** 2 <= KEPT
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
