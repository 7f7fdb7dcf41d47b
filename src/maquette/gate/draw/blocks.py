"""SmallDB's counter for classes on disjoint blocks of attributes.

The base draws every block's part of the database on its own and joins the parts by uniformly random orders of their
rows. The largest error over all blocks is at most T iff it is in each, so the mass up to a level is the product of
the blocks' masses, and a draw up to a level is one draw per block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import Any

from maquette.gate.draw.slices import Counter
from maquette.gate.draw.uniform import Uniform
from maquette.gate.draw.wide import FIRST_PRECISION, Wide

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
    def total(self) -> Wide:
        return reduce(mul, (counter.total for counter in self.counters))

    def mass(self, level: int, *, exact: bool) -> Wide:
        product = Wide.whole(1)
        for counter in self.counters:
            part = counter.mass(level, exact=exact)
            if part.high == 0:
                return Wide(0, 0)
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
