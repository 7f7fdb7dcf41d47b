"""The laws that noise is drawn from, as weights bounded by whole numbers.

Each law is a sequence of weights w_first, w_first+1, ... over whole numbers j >= 0, known only up to
outward-rounded fixed-point bounds: `brackets(precision)` returns lower and upper bounds times 2**precision,
and upper bounds for all the weight to the left and to the right of them. All arithmetic is in Python
integers; exp is a bracketed Taylor series.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Brackets:
    """Bounds of the weights from `first` on, times 2**precision; `left` and `right` bound all the rest."""

    first: int
    low: list[int]
    high: list[int]
    left: int
    right: int


class Law(Protocol):
    """Weights over the whole numbers from 0 on."""

    def brackets(self, precision: int, rest: int) -> Brackets:
        """Bounds at `precision` bits that leave at most about 2**-rest of the weight outside."""
        ...


def exp_minus(x: Fraction, precision: int) -> tuple[int, int]:
    """Bounds of exp(-x) * 2**precision for x >= 0."""
    halvings = max(0, math.ceil(math.log2(float(x) + 1e-300)) + 3) if x else 0
    guard = precision + halvings + 32
    one = 1 << guard
    small = x / (1 << halvings)
    x_low, x_high = _floor(small * one), _ceil(small * one)
    low, high = one, one
    term_low, term_high, n = one, one, 0
    while term_high > 1:
        n += 1
        term_low = (term_low * x_low >> guard) // n
        term_high = -(-(term_high * x_high) >> guard) // n + 1
        if n % 2:
            low, high = low - term_high, high - term_low
        else:
            low, high = low + term_low, high + term_high
    low, high = low - 2, high + 2  # the alternating rest is smaller than the last term
    for _ in range(halvings):
        low, high = low * low >> guard, -(-(high * high) >> guard)
    return max(low, 0) >> (guard - precision), -(-high >> (guard - precision))


@dataclass(frozen=True, slots=True)
class HalfGaussian:
    """|z| of the discrete Gaussian: weight 1 at 0, 2 exp(-j^2 / (2 sigma^2)) at j > 0."""

    sigma_squared: Fraction

    def brackets(self, precision: int, rest: int) -> Brackets:
        ratio = exp_minus(1 / (2 * self.sigma_squared), precision)
        shrink = exp_minus(1 / self.sigma_squared, precision)
        one = 1 << precision
        low, high = [one], [one]
        weight = (one, one)
        while True:
            weight = _times(weight, ratio, precision)
            ratio = _times(ratio, shrink, precision)
            low.append(2 * weight[0])
            high.append(2 * weight[1])
            # later ratios are smaller still, so a geometric series bounds the rest
            if weight[1] << rest < one and ratio[1] < one:
                right = 2 * weight[1] * ratio[1] // (one - ratio[1]) + 1
                if right << rest < one or weight[1] <= 1:
                    return Brackets(0, low, high, 0, right)


@dataclass(frozen=True, slots=True)
class Geometric:
    """Weight exp(-j * rate) at j = 0, 1, ..., or at 0 .. stop-1 only."""

    rate: Fraction
    stop: int | None = None

    def brackets(self, precision: int, rest: int) -> Brackets:
        ratio = exp_minus(self.rate, precision)
        one = 1 << precision
        low, high = [one], [one]
        weight = (one, one)
        while self.stop is None or len(low) < self.stop:
            weight = _times(weight, ratio, precision)
            low.append(weight[0])
            high.append(weight[1])
            if self.stop is None:
                right = weight[1] * ratio[1] // (one - ratio[1]) + 1
                if right << rest < one or weight[1] <= 1:
                    return Brackets(0, low, high, 0, right)
        return Brackets(0, low, high, 0, 0)


@dataclass(frozen=True, slots=True)
class CubeRadius:
    """Weight (2j+1)^k base^j: the radius R such that a uniform point of {-R..R}^k has P(z) ~ base^max|z|.

    Because base^r = (1 - base) * sum over j >= r of base^j, mixing uniform cubes with these weights gives that law.
    """

    k: int
    base: Fraction

    def brackets(self, precision: int, rest: int) -> Brackets:
        one = 1 << precision
        start = max(0, int(-self.k / math.log(float(self.base))) - 1)
        up = self._walk(start, 1, precision, rest)
        down = self._walk(start, -1, precision, rest)
        low = [w[0] for w in reversed(down)] + [one] + [w[0] for w in up]
        high = [w[1] for w in reversed(down)] + [one] + [w[1] for w in up]
        first = start - len(down)
        last_ratio = self._ratio(first + len(low) - 1, 1, precision)[1]
        right = high[-1] * last_ratio // (one - last_ratio) + 1
        return Brackets(first, low, high, first * high[0], right)

    def _walk(self, start: int, step: int, precision: int, rest: int) -> list[tuple[int, int]]:
        """Weights relative to the start, outwards until what is left is below 2**-rest."""
        one = 1 << precision
        weights: list[tuple[int, int]] = []
        weight, j = (one, one), start
        while j + step >= 0:
            ratio = self._ratio(j, step, precision)
            weight = _times(weight, ratio, precision)
            weights.append(weight)
            j += step
            falling = self._ratio(j, step, precision)[1] if j + step >= 0 else 0
            remaining = weight[1] * (j if step < 0 else one // max(one - falling, 1) + 1)
            if falling < one and (remaining << rest < one or weight[1] <= 1):
                break
        return weights

    def _ratio(self, j: int, step: int, precision: int) -> tuple[int, int]:
        """Bounds of w_{j+step} / w_j."""
        power = power_bounds(Fraction(2 * (j + step) + 1, 2 * j + 1), self.k, precision)
        factor = self.base if step > 0 else 1 / self.base
        return _floor(power[0] * factor), _ceil(power[1] * factor)


def _times(a: tuple[int, int], b: tuple[int, int], precision: int) -> tuple[int, int]:
    return a[0] * b[0] >> precision, -(-(a[1] * b[1]) >> precision)


def power_bounds(base: Fraction, exponent: int, precision: int) -> tuple[int, int]:
    """Bounds of base^exponent times 2**precision."""
    one = 1 << precision
    square = (_floor(base * one), _ceil(base * one))
    result = (one, one)
    while exponent:
        if exponent & 1:
            result = _times(result, square, precision)
        square = _times(square, square, precision)
        exponent >>= 1
    return result


def _floor(value: Fraction) -> int:
    return value.numerator // value.denominator


def _ceil(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)


# Where randomness comes from. Production knows one source: the operating system's generator.

Words = NDArray[np.uint64]


class Bits(Protocol):
    """A stream of uniform 64-bit words."""

    def words(self, count: int) -> Words:
        """The next `count` words."""
        ...


class SystemBits:
    """The operating system's cryptographic generator; holds no state, so forks and threads share nothing."""

    def words(self, count: int) -> Words:
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


def below(bits: Bits, limit: int, count: int) -> NDArray[np.int64]:
    """Uniform whole numbers in 0 .. limit-1, exactly, by rejection. `limit` <= 2**62."""
    unfair = 2**64 % limit
    fair = np.empty(0, dtype=np.uint64)
    while len(fair) < count:
        words = bits.words(count - len(fair) + 8)
        fair = np.concatenate([fair, words[words >= unfair]])
    return (fair[:count] % np.uint64(limit)).astype(np.int64)


# The radius of L-infinity noise drawn without a table: for a small epsilon, where a table would have too many entries.
#
# The weights w_j = (2j+1)^k base^j are log-concave in j. With m near their mode, g(j) = w_j / w_m and a distance d at
# which g(m + d) and g(m - d) are at most 1/2, concavity gives g(m + t) <= 2^-i for every t >= i d, i >= 1, and the same
# to the left. So draw a side, a block i with probability 2^-(i+1) and a place in its d numbers, and accept it with
# probability g(j) 2^i / 2 (a half, so that m need not be the mode itself). The accepted number has exactly the law: the
# comparison with g is decided with as many random bits, and g is computed as finely, as that needs.

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
