"""Exact draws from a law, many at a time: inversion with as many random bits as the draw needs.

Why by hand: a release of all three-way marginals needs tens of millions of discrete Gaussian draws, and
opendp's exact sampler gives some 50,000 a second. Here 64 random bits pick an interval of the cumulative
distribution whose borders are known up to outward rounding. If the bits lie clear of every border, the draw
is decided; if not (about one in 10^15), more bits are drawn and the borders are computed more finely until
it is. The outcome has exactly the law, not an approximation of it: no total variation is to be charged.
Tested against opendp's sampler and the probabilities themselves; the speeds are in `benchmarks/noise.py`.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from maquette.gate.noise.bits import Bits
from maquette.gate.noise.laws import Law

PRECISION = 192
REST = 80
CHUNK = 1 << 20


class Table:
    """Borders of a law's cumulative distribution on the scale 2**64."""

    def __init__(self, law: Law) -> None:
        self._law = law
        self._first, low, high = _borders(law, 64, PRECISION, REST)
        top = 2**64 - 1
        self._low = np.array([min(b, top) for b in low], dtype=np.uint64)
        self._high = np.array([min(b, top) for b in high], dtype=np.uint64)

    def draw(self, bits: Bits, count: int) -> NDArray[np.int64]:
        """`count` independent draws."""
        drawn = np.empty(count, dtype=np.int64)
        for start in range(0, count, CHUNK):
            words = bits.words(min(CHUNK, count - start))
            drawn[start : start + len(words)] = self._invert(words, bits)
        return drawn

    def _invert(self, words: NDArray[np.uint64], bits: Bits) -> NDArray[np.int64]:
        index = np.searchsorted(self._high, words, side="right")
        inside = index < len(self._low)
        clear = inside & (words < self._low[np.where(inside, index, 0)])
        drawn = index.astype(np.int64) + self._first
        for place in np.flatnonzero(~clear):
            drawn[place] = self._refine(int(words[place]), bits)
        return drawn

    def _refine(self, word: int, bits: Bits) -> int:
        width = 64
        while True:
            word, width = (word << 64) | int(bits.words(1)[0]), width + 64
            first, low, high = _borders(self._law, width, PRECISION + width, REST + width)
            index = next((i for i, border in enumerate(high) if word < border), len(high))
            if index < len(low) and word < low[index]:
                return first + index


def _borders(law: Law, width: int, precision: int, rest: int) -> tuple[int, list[int], list[int]]:
    """Lower and upper bounds of P(j <= first + i) * 2**width."""
    brackets = law.brackets(precision, rest)
    below_low = list(accumulate(brackets.low))
    below_high = [brackets.left + total for total in accumulate(brackets.high)]
    all_low, all_high = below_low[-1], below_high[-1] + brackets.right
    low = [(a << width) // (a + all_high - h) for a, h in zip(below_low, below_high, strict=True)]
    high = [-(-(h << width) // (h + all_low - a)) for a, h in zip(below_low, below_high, strict=True)]
    if brackets.right == 0:  # a law that ends: the last border is 1, exactly
        low[-1] = high[-1] = 1 << width
    return brackets.first, low, high


@lru_cache(maxsize=256)
def table(law: Law) -> Table:
    """The table of a law, kept for later draws."""
    return Table(law)
