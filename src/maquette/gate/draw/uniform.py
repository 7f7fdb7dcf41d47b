"""Uniform whole numbers of any size from a stream of random bits."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from maquette.gate.noise.bits import Bits

_BUFFER = 64


class Uniform:
    """Lives for one draw; reads the stream a few words at a time and uses no bit twice."""

    def __init__(self, bits: Bits) -> None:
        self._bits = bits
        self._pool = 0
        self._held = 0

    def bits(self, width: int) -> int:
        """A uniform number of `width` bits."""
        while self._held < width:
            words = self._bits.words(max(_BUFFER, -(-(width - self._held) // 64)))
            self._pool |= int.from_bytes(words.tobytes(), "little") << self._held
            self._held += 64 * len(words)
        drawn = self._pool & ((1 << width) - 1)
        self._pool >>= width
        self._held -= width
        return drawn

    def below(self, limit: int) -> int:
        """A uniform number in 0 .. limit-1, by rejection."""
        width = (limit - 1).bit_length()
        while (drawn := self.bits(width)) >= limit:
            pass
        return drawn

    def pick(self, weights: Sequence[int]) -> int:
        """An index with probability exactly weights[i] / sum(weights), for whole numbers of any size."""
        borders = list(accumulate(weights))
        return bisect_right(borders, self.below(borders[-1]))

    def subset(self, size: int, limit: int) -> list[int]:
        """A uniform subset of `size` numbers below `limit`, sorted (Floyd's method)."""
        chosen: set[int] = set()
        for last in range(limit - size, limit):
            place = self.below(last + 1)
            chosen.add(last if place in chosen else place)
        return sorted(chosen)

    def multiset(self, size: int, limit: int) -> list[int]:
        """A uniform multiset of `size` numbers below `limit`, sorted: stars and bars."""
        return [place - i for i, place in enumerate(self.subset(size, size + limit - 1))]

    def shuffled(self, size: int) -> list[int]:
        """A uniform order of 0 .. size-1."""
        order = list(range(size))
        for last in range(size - 1, 0, -1):
            place = self.below(last + 1)
            order[last], order[place] = order[place], order[last]
        return order
