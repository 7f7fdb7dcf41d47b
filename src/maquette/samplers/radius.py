"""The radius of L-infinity noise drawn without a table: for a small epsilon, where a table would have too many entries.

The weights w_j = (2j+1)^k base^j are log-concave in j. With m near their mode, g(j) = w_j / w_m and a distance d at
which g(m + d) and g(m - d) are at most 1/2, concavity gives g(m + t) <= 2^-i for every t >= i d, i >= 1, and the same
to the left. So draw a side, a block i with probability 2^-(i+1) and a place in its d numbers, and accept it with
probability g(j) 2^i / 2 (a half, so that m need not be the mode itself). The accepted number has exactly the law: the
comparison with g is decided with as many random bits, and g is computed as finely, as that needs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from maquette.samplers.laws import Bits, below, power_bounds

START = 128
"""Bits of the first comparison."""


@dataclass(frozen=True, slots=True)
class Radius:
    """The law of `laws.CubeRadius`, ready to be drawn from."""

    k: int
    base: Fraction
    middle: int
    """m: the mode, or next to it."""
    distance: int
    """d."""

    @classmethod
    def of(cls, k: int, base: Fraction) -> Radius:
        return _prepared(k, base)

    def draw(self, bits: Bits) -> int:
        """One radius."""
        while True:
            block, left = self._block(bits), below(bits, 2, 1)[0] == 1
            away = block * self.distance + int(below(bits, self.distance, 1)[0])
            place = self.middle - 1 - away if left else self.middle + away
            if place >= 0 and self._accepts(bits, place, block):
                return place

    def ratio(self, place: int, precision: int) -> tuple[int, int]:
        """Bounds of g(place) times 2**precision."""
        power = Fraction(2 * place + 1, 2 * self.middle + 1)
        decay = self.base if place >= self.middle else 1 / self.base
        # the two factors are far from 1 and nearly cancel: as many bits more as the larger one has before its point
        size = math.ceil(abs(self.k * math.log2(float(power)))) + 64
        inner = precision + 2 * size
        one, other = (
            power_bounds(power, self.k, inner),
            power_bounds(decay, abs(place - self.middle), inner),
        )
        low, high = one[0] * other[0], one[1] * other[1]
        shift = 2 * inner - precision
        return low >> shift, -(-high >> shift)

    def _block(self, bits: Bits) -> int:
        """i with probability 2^-(i+1)."""
        block = 0
        while True:
            word = int(bits.words(1)[0])
            if word:
                return block + (word & -word).bit_length() - 1
            block += 64

    def _accepts(self, bits: Bits, place: int, block: int) -> bool:
        """True with probability g(place) 2^block / 2."""
        number, width = 0, 0
        while True:
            number, width = (number << 64) | int(bits.words(1)[0]), width + 64
            precision = width + block + START
            low, high = self.ratio(place, precision)
            # U in [number, number + 1) / 2^width against g 2^(block - 1), both times 2^(precision - block + 1)
            scale = precision - block + 1 - width
            if (number + 1) << scale <= low:
                return True
            if number << scale >= high:
                return False


@lru_cache(maxsize=64)
def _prepared(k: int, base: Fraction) -> Radius:
    rate = -math.log1p(-float(1 - base)) if 2 * base > 1 else -math.log(base)
    middle = max(0, round(k / rate - 0.5))
    law = Radius(k, base, middle, 1)
    while law.ratio(middle + 1, START)[0] > 1 << START:
        middle += 1
        law = Radius(k, base, middle, 1)
    while middle > 0 and law.ratio(middle - 1, START)[0] > 1 << START:
        middle -= 1
        law = Radius(k, base, middle, 1)
    half = 1 << (START - 1)
    distance = max(1, math.ceil(1.2 * (middle + 1) / math.sqrt(k)))
    while law.ratio(middle + distance, START)[1] > half or (
        middle >= distance and law.ratio(middle - distance, START)[1] > half
    ):
        distance += 1 + distance // 8
    return Radius(k, base, middle, distance)
