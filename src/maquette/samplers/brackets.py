"""Positive numbers of any magnitude between whole-number bounds, and exact choices among them.

The weights of a draw span thousands of bits, so exp(log weight - largest) would underflow to zero and remove
outcomes. Here a number is known as low * 2**exponent <= value <= high * 2**exponent. A choice compares random
bits with borders known up to such bounds; while the bits lie too close to a border, more bits are drawn and the
bounds are computed more finely. The outcome has exactly the stated law.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

from maquette.samplers.laws import Bits

# Uniform whole numbers of any size from a stream of random bits.

_BUFFER = 64


class Uniform:
    """Lives for one draw; reads the stream a few words at a time and uses no bit twice."""

    def __init__(self, bits: Bits) -> None:
        self._bits = bits
        self._pool = 0
        self._pool_bits = 0

    def bits(self, width: int) -> int:
        """A uniform number of `width` bits."""
        while self._pool_bits < width:
            words = self._bits.words(max(_BUFFER, -(-(width - self._pool_bits) // 64)))
            self._pool |= int.from_bytes(words.tobytes(), "little") << self._pool_bits
            self._pool_bits += 64 * len(words)
        number = self._pool & ((1 << width) - 1)
        self._pool >>= width
        self._pool_bits -= width
        return number

    def below(self, limit: int) -> int:
        """A uniform number in 0 .. limit-1, by rejection."""
        width = (limit - 1).bit_length()
        while (number := self.bits(width)) >= limit:
            pass
        return number

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


FIRST_PRECISION = 128


@dataclass(frozen=True, slots=True)
class Bracket:
    """A number from low * 2**exponent to high * 2**exponent."""

    low: int
    high: int
    exponent: int = 0

    @classmethod
    def whole(cls, value: int) -> Bracket:
        return cls(value, value)

    @property
    def log2(self) -> float:
        """About the logarithm of the upper bound: for choosing a grid, never for a draw."""
        if self.high == 0:
            return float("-inf")
        extra = max(self.high.bit_length() - 60, 0)
        return math.log2(self.high >> extra) + extra + self.exponent

    def __mul__(self, other: Bracket) -> Bracket:
        return Bracket(self.low * other.low, self.high * other.high, self.exponent + other.exponent)

    def cut(self, precision: int) -> Bracket:
        """Rounded outwards to about `precision` bits."""
        extra = self.high.bit_length() - precision
        return self if extra <= 0 else self.at(self.exponent + extra)

    def at(self, exponent: int) -> Bracket:
        """The same bounds over another power of two, rounded outwards where they must be."""
        shift = exponent - self.exponent
        if shift <= 0:
            return Bracket(self.low << -shift, self.high << -shift, exponent)
        return Bracket(self.low >> shift, -(-self.high >> shift), exponent)


def power(base: Fraction, exponent: int, precision: int) -> Bracket:
    """base**exponent for a base whose denominator is a power of two."""
    square = Bracket(base.numerator, base.numerator, 1 - base.denominator.bit_length())
    result = Bracket.whole(1)
    while exponent:
        if exponent & 1:
            result = (result * square).cut(precision)
        square = (square * square).cut(precision)
        exponent >>= 1
    return result


def one_minus(value: Bracket, precision: int) -> Bracket:
    """1 - value for a value below 1."""
    exponent = min(value.exponent, -precision)
    aligned = value.at(exponent)
    one = 1 << -exponent
    return Bracket(max(one - aligned.high, 0), one - aligned.low, exponent)


def choose(uniform: Uniform, weights: Callable[[int], Sequence[Bracket]]) -> int:
    """An index with probability proportional to the weights; `weights(precision)` bounds them ever more finely."""
    precision, word, width = FIRST_PRECISION, 0, 0
    while True:
        word, width = (word << 64) | uniform.bits(64), width + 64
        index = _decide(weights(precision), word, width, precision)
        if index is not None:
            return index
        precision *= 2


def coin(uniform: Uniform, decay: Fraction, exponent: int) -> bool:
    """True with probability decay**exponent, exactly."""
    if exponent == 0:
        return True

    def weights(precision: int) -> list[Bracket]:
        chance = power(decay, exponent, precision)
        return [chance, one_minus(chance, precision)]

    return choose(uniform, weights) == 0


def _decide(weights: Sequence[Bracket], word: int, width: int, precision: int) -> int | None:
    """The index that every real weight within the bounds gives to a uniform number that starts with `word`."""
    top = max(w.exponent + w.high.bit_length() for w in weights if w.high)
    aligned = [w.at(top - precision) for w in weights]
    lows, highs = list(accumulate(w.low for w in aligned)), list(accumulate(w.high for w in aligned))
    # border i lies between low_i / (low_i + the rest's high) and high_i / (high_i + the rest's low); the last one is 1,
    # above every number, so that some index is always found
    index = next(i for i, low in enumerate(lows) if (word + 1) * (low + highs[-1] - highs[i]) <= low << width)
    before = index - 1
    if index == 0 or word * (highs[before] + lows[-1] - lows[before]) >= highs[before] << width:
        return index
    return None


# From deviations to levels: the score of a draw.


@dataclass(frozen=True, slots=True)
class Scale:
    """Deviations are in units of 1 / (n m grid); a level is the error times `resolution`, rounded up.

    The error in counts, max over q of |q(x) - (n/m) q(y)|, moves by at most D = max over q of (max q - min q) between
    neighbouring tables, under both relations: a record z more moves it by q_z - f_q(y), a record replaced by
    q_z' - q_z, and f_q(y) lies between the smallest and the largest weight. So the error over D moves by at most 1, and
    the level by at most `resolution`: multiplying by a whole number and rounding up cannot make a gap of at most 1
    wider than that. Where records weigh between 0 and 1, all counts of the table are whole numbers over `grid`, and
    the same holds for tables within L1 distance 1. For weights over a denominator d, `grid` includes d D.
    """

    m: int
    resolution: int
    grid: int = 1

    def level(self, deviation: int) -> int:
        return -(-deviation * self.resolution // (self.m * self.grid))

    def deviation(self, level: int) -> int:
        """The largest deviation of a level."""
        return level * self.m * self.grid // self.resolution
