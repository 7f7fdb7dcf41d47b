"""Positive numbers of any magnitude between whole-number bounds, and exact choices among them.

The weights of a draw span thousands of bits, so exp(log weight - largest) would underflow to zero and remove
outcomes. Here a number is known as low * 2**exponent <= value <= high * 2**exponent. A choice compares random
bits with borders known up to such bounds; while the bits lie too close to a border, more bits are drawn and the
bounds are computed more finely. The outcome has exactly the stated law.

*Bounds in floating point* of the mass of a band have a proven relative error. They choose the grid and most buckets of
a draw. Where they leave a choice open, whole numbers decide (`slices.py`), so the law of a draw does not depend on
them: nothing is charged for them.

The bound. All quantities are sums of products of positive numbers, each operation has a relative error of at most
u = 2^-53, and errors of positive sums do not cancel or grow: a result after a chain of k operations lies within
(1 + u)^(+-k) of the true value. `_tree` and `_flat` count an upper bound k of the operations that lead to their
result, every input's own rounding included, and the bounds are result * (1 -+ 2 k u) for k u < 1/16. Tables are
rescaled by powers of two, which is exact. A table with a positive entry below 2^-400 of its largest, or a k that is
too large, gives up these bounds (not the draw): then whole numbers count. So nothing can underflow.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maquette.core import _lazy_numba as numba
from maquette.core.inversion import Bits

if TYPE_CHECKING:
    from maquette.samplers.lists import Band

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


Floats = NDArray[np.float64]

_BITS = 53
"""u = 2^-53, the rounding of double precision."""
_SPREAD = 2.0**-400
_HUGE = 2.0**1000
_DEEPEST = 80
"""More than the halvings of 2^64 cells."""
_WIDEST = 200
"""Bands of more counts than this are left to whole numbers: their tables would be large, and they are rare."""


def tree_mass(band: Band, unit: int) -> Bracket | None:
    """Bounds of the tree mass of a band, times 2**unit; None if there are none."""
    marks = band.marks()
    if len(marks) == 0:
        return Bracket(1, 1, unit)
    width = band.width()
    if width > _WIDEST:
        return None
    blocks = np.empty((len(marks) * band.size.bit_length() + 1, 10), dtype=np.int64)
    count = _list_blocks(np.uint64(band.size - 1), marks, band.firsts, band.lasts, blocks)
    tables = np.empty((band.size.bit_length() + 2, 2, width, width))
    result, exponent, operations = _tree(blocks[:count], _shares(band.m), tables)
    return _bounds(result, exponent + unit, operations)


def flat_mass(band: Band) -> Bracket | None:
    """Bounds of the number of multisets in a band; None if there are none."""
    marks, rows = band.marks(), np.int64(band.m)
    borders = np.concatenate([np.zeros(1, np.uint64), marks])
    gaps = np.append(np.diff(borders).astype(np.float64), float(band.size - int(borders[-1])))
    least = np.append(np.searchsorted(band.lasts, borders), rows)
    most = np.append(np.searchsorted(band.firsts, borders), rows)
    bounds = np.stack([least, most], axis=1)
    tilt = math.floor(math.log2(band.m / band.size))
    result, exponent, operations = _flat(gaps, bounds, 2.0**tilt, band.width())
    return _bounds(result, exponent - tilt * band.m, operations)


def _bounds(result: float, exponent: int, operations: int) -> Bracket | None:
    """The bracket of result * 2**exponent after so many roundings, by the module's bound."""
    if operations < 0 or 16 * operations > 1 << _BITS:
        return None
    if result == 0:
        return Bracket(0, 0)
    mantissa, shift = math.frexp(result)
    middle = int(math.ldexp(mantissa, 53)) << 20
    slack = (2 * operations * middle >> _BITS) + 1
    return Bracket(middle - slack, middle + slack, exponent + shift - 73)


@lru_cache(maxsize=16)
def _shares(m: int) -> Floats:
    """C(2a, a) / 4^a, each rounded once."""
    shares = [1.0]
    central = 1
    for a in range(1, m + 1):
        central = central * 2 * (2 * a - 1) // a
        shares.append(central / 4**a)
    return np.array(shares)


@numba.njit(cache=True)
def _rank(cells: Any, boundary: Any) -> Any:
    """How many entries of `cells`, an increasing list, lie below a boundary: by halving."""
    low, high = 0, len(cells)
    while low < high:
        middle = (low + high) // 2
        if cells[middle] < boundary:
            low = middle + 1
        else:
            high = middle
    return low


@numba.njit(cache=True)
def _list_blocks(last: Any, marks: Any, firsts: Any, lasts: Any, blocks: Any) -> Any:
    """All blocks with a marked boundary inside, each before its halves; returns how many.

    `last` is the last cell of the attribute, `marks` are the boundaries that must be checked, `firsts` and `lasts` the
    least and the largest cell of every row, all increasing. A line of `blocks` gets: depth, side (0 left, 1 right), is
    the left half listed, is the right half, then the fewest and the most rows below the left end, the right end and
    the middle. `cells` and `waiting` are a stack of `pending` blocks: their first and last cell; and their depth, side,
    range of marks and rows below both ends. A step takes one block off the stack, cuts it in its middle, writes its
    line, and puts those halves on the stack that have a mark inside.
    """
    cells = np.empty((_DEEPEST, 2), dtype=np.uint64)
    waiting = np.empty((_DEEPEST, 8), dtype=np.int64)
    cells[0, 0], cells[0, 1] = 0, last
    waiting[0, :] = (0, 0, 0, len(marks), 0, 0, len(firsts), len(firsts))
    pending, count = 1, 0
    while pending:
        pending -= 1
        low, high = cells[pending, 0], cells[pending, 1]
        depth, side, begin, end = (
            waiting[pending, 0],
            waiting[pending, 1],
            waiting[pending, 2],
            waiting[pending, 3],
        )
        left_low, left_high = waiting[pending, 4], waiting[pending, 5]
        right_low, right_high = waiting[pending, 6], waiting[pending, 7]
        gap = high - low
        cut = low + (gap >> np.uint64(1)) + (gap & np.uint64(1))
        least, most_rows = _rank(lasts, cut), _rank(firsts, cut)
        before = begin + _rank(marks[begin:end], cut)
        after = before + 1 if before < end and marks[before] == cut else before
        blocks[count, 0], blocks[count, 1] = depth, side
        blocks[count, 2], blocks[count, 3] = before > begin, after < end
        blocks[count, 4], blocks[count, 5] = left_low, left_high
        blocks[count, 6], blocks[count, 7] = right_low, right_high
        blocks[count, 8], blocks[count, 9] = least, most_rows
        count += 1
        if before > begin:
            cells[pending, 0], cells[pending, 1] = low, cut - np.uint64(1)
            waiting[pending, :] = (depth + 1, 0, begin, before, left_low, left_high, least, most_rows)
            pending += 1
        if after < end:
            cells[pending, 0], cells[pending, 1] = cut, high
            waiting[pending, :] = (depth + 1, 1, after, end, least, most_rows, right_low, right_high)
            pending += 1
    return count


@numba.njit(cache=True)
def _tree(blocks: Any, shares: Any, tables: Any) -> Any:
    """The mass of the first block; a power of two that was taken out; the operations (-1: entries too far apart).

    `blocks` are the lines of `_list_blocks`, `shares[a]` is C(2a, a) / 4^a, and `tables[depth, side]` is room for one
    table: its entry [p, q], counted from the fewest rows, is the mass of a block that p rows lie below and q rows up
    to its end. A step fills the table of one block: for every p and q it sums over the rows s below the middle, each
    half weighed by its share and, where it has a mark inside, by its own table; then it divides by a power of two.
    Backwards through the list, so that the tables of a block's halves stand at the next depth when it is computed.
    """
    exponent, operations = 0, 0
    table = tables[0, 0]
    for i in range(len(blocks) - 1, -1, -1):
        depth, has_left, has_right = blocks[i, 0], blocks[i, 2], blocks[i, 3]
        left, right, middle = blocks[i, 4], blocks[i, 6], blocks[i, 8]
        lefts, rights = tables[depth + 1, 0], tables[depth + 1, 1]
        table = tables[depth, blocks[i, 1]]
        largest, smallest = 0.0, _HUGE
        for p in range(left, blocks[i, 5] + 1):
            for q in range(right, blocks[i, 7] + 1):
                total = 0.0
                for s in range(max(p, middle), min(q, blocks[i, 9]) + 1):
                    one, two = shares[s - p], shares[q - s]
                    if has_left:
                        one *= lefts[p - left, s - middle]
                    if has_right:
                        two *= rights[s - middle, q - right]
                    total += one * two
                table[p - left, q - right] = total
                largest = max(largest, total)
                if total > 0:
                    smallest = min(smallest, total)
        # two shares of one rounding each, three products, and a sum
        operations += 5 + blocks[i, 9] - middle + 1
        if largest == 0.0:
            return 0.0, 0, operations
        if smallest < largest * _SPREAD:
            return 0.0, 0, -1
        power = np.int64(np.floor(np.log2(largest)))
        exponent += power
        for p in range(blocks[i, 5] - left + 1):
            for q in range(blocks[i, 7] - right + 1):
                table[p, q] *= 2.0**-power
    return table[0, 0], exponent, operations


@numba.njit(cache=True)
def _flat(gaps: Any, bounds: Any, tilt: Any, width: Any) -> Any:
    """The number of multisets, every row weighed by `tilt`; a power of two that was taken out; the operations (or -1).

    `gaps[i]` are the cells between the boundaries i and i + 1, `bounds[i]` the fewest and the most rows below boundary
    i, `tilt` a power of two that keeps numbers near 1, `width` the most counts at one boundary. `ways[p]` is the mass
    of the databases with p rows more than the fewest below the current boundary, `runs[d]` the mass of d rows in the
    current gap. A step goes to the next boundary: it fills `runs` for the gap, sums `ways` times `runs` into `sums`,
    and divides by a power of two.
    """
    ways, sums, runs = np.zeros(width), np.zeros(width), np.zeros(2 * width + 1)
    ways[0] = 1.0
    exponent, operations = 0, 0
    for i in range(len(gaps)):
        low, high, least, most = bounds[i, 0], bounds[i, 1], bounds[i + 1, 0], bounds[i + 1, 1]
        reach = most - low
        if reach + 1 > len(runs):
            runs = np.zeros(2 * reach + 2)
        runs[0] = 1.0
        for d in range(1, reach + 1):
            runs[d] = runs[d - 1] * (gaps[i] + (d - 1)) / d * tilt
            if runs[d] < _SPREAD or runs[d] > 1 / _SPREAD:
                return 0.0, 0, -1
        largest, smallest = 0.0, _HUGE
        for rows in range(least, most + 1):
            total = 0.0
            for p in range(low, min(high, rows) + 1):
                total += ways[p - low] * runs[rows - p]
            sums[rows - least] = total
            largest = max(largest, total)
            if total > 0:
                smallest = min(smallest, total)
        # four roundings per factor of a run (the gap's own included), a product, and a sum
        operations += 4 * reach + 1 + high - low + 1
        if largest == 0.0:
            return 0.0, 0, operations
        if smallest < largest * _SPREAD:
            return 0.0, 0, -1
        power = np.int64(np.floor(np.log2(largest)))
        for s in range(most - least + 1):
            ways[s] = sums[s] * 2.0**-power
        exponent += power
    return ways[0], exponent, operations
