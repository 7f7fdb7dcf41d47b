"""Exact draws of a small database y with probability proportional to base(y) * B**level(y).

Slices with rejection. For any increasing levels T_0 < ... < T_K, the last one not below any level of a database:
pick i with weight (B**L_i - B**L_{i+1}) * mass{level <= T_i}, where L_i = T_{i-1} + 1 is the lowest level of shell i
(the last weight keeps B**L_K whole); draw y from the base restricted to {level <= T_i}; accept it with probability
B**(level(y) - L of the shell that y lies in). The weights of all i with T_i >= level(y) add up to B**L of y's own
shell, so y is returned with probability proportional to base(y) * B**level(y): for every choice of the T_i. They
decide the running time only, which is why they may depend on the private table. Nothing here gives up.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from operator import mul
from typing import Any, Generic, Protocol, TypeVar

from maquette.samplers.brackets import FIRST_PRECISION, Bracket, Uniform, choose, coin, one_minus, power

Small = TypeVar("Small")
Report = Callable[[int], None]
"""Called with how many levels have been counted."""

GROWTH = 1.25
"""The next counted level over the last one. It decides how long a draw takes, never its law."""
TAIL = 3.0
"""Bits by which the databases beyond the last counted level may outweigh the rest at first."""


class Counter(Protocol[Small]):
    """One class of queries over one private table: how much base mass is how near, and draws from it."""

    @property
    def top(self) -> int:
        """A level that no database exceeds."""
        ...

    @property
    def start(self) -> int:
        """About the lowest level with any database: where to begin, for speed only."""
        ...

    @property
    def acceptance(self) -> float:
        """The grid is refined until about this share of the proposals is accepted: high where levels are cheap."""
        ...

    @property
    def total(self) -> Bracket:
        """The base mass of all databases, in the unit of `mass`."""
        ...

    def mass(self, level: int, *, exact: bool) -> Bracket:
        """The base mass of the databases up to a level (see `draw`): whole if `exact`, else floats bound it."""
        ...

    def draw(self, level: int, uniform: Uniform) -> Small | None:
        """A database y up to a level with probability base(y) / mass(level), exactly; None with the rest.

        A counter that knows the mass only together with something else may count more than the databases up to the
        level in `mass`, as long as this holds.
        """
        ...

    def draw_any(self, uniform: Uniform) -> Small:
        """A database from the base."""
        ...

    def level(self, small: Small) -> int:
        """The score of a database: the smallest level that holds it."""
        ...


class Slices(Generic[Small]):
    """A grid of levels for one counter, and draws from it."""

    def __init__(self, counter: Counter[Small], *, decay: Fraction, report: Report) -> None:
        self._counter = counter
        self._decay = decay
        self._log_decay = math.log2(decay.numerator) - math.log2(decay.denominator)
        self._report = report
        self._float_bounds: dict[int, Bracket] = {}
        self._exact: dict[int, Bracket] = {}
        self._grid: list[int] = []
        self._grow()
        self._split()

    def draw(self, uniform: Uniform) -> Small:
        """One database, exactly from the law above."""
        while True:
            index = choose(uniform, self._weights)
            if index == len(self._grid):
                small = self._counter.draw_any(uniform)
            else:
                small = self._counter.draw(self._grid[index], uniform)
            if small is None:
                continue
            level = self._counter.level(small)
            if coin(uniform, self._decay, level - self._lowest(bisect_left(self._grid, level))):
                return small

    def _lowest(self, shell: int) -> int:
        return self._grid[shell - 1] + 1 if shell else 0

    def _weights(self, precision: int) -> list[Bracket]:
        """Bounds in floating point first; whole numbers as soon as those leave a choice open."""
        exact = precision > FIRST_PRECISION
        weights: list[Bracket] = []
        for shell, level in enumerate(self._grid):
            low = self._lowest(shell)
            share = power(self._decay, low, precision)
            share *= one_minus(power(self._decay, level + 1 - low, precision), precision)
            mass = self._whole(level) if exact else self._float_bounds[level]
            weights.append((share * mass).cut(precision))
        last = power(self._decay, self._lowest(len(self._grid)), precision) * self._counter.total
        return [*weights, last.cut(precision)]

    def _whole(self, level: int) -> Bracket:
        if level not in self._exact:
            self._exact[level] = self._counter.mass(level, exact=True)
        return self._exact[level]

    def _count(self, level: int) -> float:
        if level not in self._float_bounds:
            self._float_bounds[level] = self._counter.mass(level, exact=False)
            insort(self._grid, level)
            self._report(len(self._grid))
        return self._float_bounds[level].log2

    def _grow(self) -> None:
        """Levels from below, because narrow bands are cheap, until the rest hardly matters."""
        best, total, level = -math.inf, self._counter.total.log2, max(self._counter.start, 0)
        while level < self._counter.top:
            mass = self._count(level)
            best = max(best, mass + level * self._log_decay)
            if total + level * self._log_decay < best + TAIL:
                return
            level = max(level + 1, int(level * GROWTH))

    def _split(self) -> None:
        """Halve the shell that wastes the most proposals until enough of them are accepted."""
        while self._grid:
            shells = [self._shell(i) for i in range(len(self._grid) + 1)]
            largest = max(high for _, high, _ in shells)
            if largest == -math.inf:
                return
            upper = sum(2.0 ** (high - largest) for _, high, _ in shells)
            lower = sum(2.0 ** (low - largest) for low, _, _ in shells)
            waste = [
                (2.0 ** (high - largest) - 2.0 ** (low - largest), at)
                for low, high, at in shells
                if at is not None
            ]
            if lower >= self._counter.acceptance * upper or not waste:
                return
            self._count(max(waste)[1])

    def _shell(self, index: int) -> tuple[float, float, int | None]:
        """Logarithms of least and most weight in a shell, and where to cut it (None: it cannot be cut)."""
        first = self._lowest(index)
        inside = index < len(self._grid)
        last = self._grid[index] if inside else self._counter.top
        mass = self._float_bounds[last].log2 if inside else self._counter.total.log2
        below = self._float_bounds[first - 1].log2 if index else -math.inf
        gain = (
            mass + math.log2(max(-math.expm1((below - mass) * math.log(2)), 2.0**-60))
            if mass > below
            else -math.inf
        )
        if first >= last:
            return gain + first * self._log_decay, gain + first * self._log_decay, None
        cut = (first + last) // 2 if inside else min(max(int(first * GROWTH), first + 1), last - 1)
        return gain + last * self._log_decay, gain + first * self._log_decay, cut


# SmallDB's counter for classes on disjoint blocks of attributes.
#
# The base draws every block's part of the database on its own and joins the parts by uniformly random
# orders of their rows. The largest error over all blocks is at most T iff it is in each, so the mass up to
# a level is the product of the blocks' masses, and a draw up to a level is one draw per block.


Parts = list[Any]
"""One database per block."""


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Level: the largest level of any block."""

    counters: Sequence[Counter[Any]]

    @property
    def top(self) -> int:
        return max(counter.top for counter in self.counters)

    @property
    def start(self) -> int:
        return max(counter.start for counter in self.counters)

    @property
    def acceptance(self) -> float:
        return min(counter.acceptance for counter in self.counters)

    @property
    def total(self) -> Bracket:
        return reduce(mul, (counter.total for counter in self.counters))

    def mass(self, level: int, *, exact: bool) -> Bracket:
        product = Bracket.whole(1)
        for counter in self.counters:
            part = counter.mass(level, exact=exact)
            if part.high == 0:
                return Bracket(0, 0)
            product = product * part if exact else (product * part).cut(2 * FIRST_PRECISION)
        return product

    def draw(self, level: int, uniform: Uniform) -> Parts | None:
        parts: Parts = []
        for counter in self.counters:
            part = counter.draw(level, uniform)
            if part is None:
                return None
            parts.append(part)
        return parts

    def draw_any(self, uniform: Uniform) -> Parts:
        return [counter.draw_any(uniform) for counter in self.counters]

    def level(self, small: Parts) -> int:
        return max(counter.level(part) for counter, part in zip(self.counters, small, strict=True))
