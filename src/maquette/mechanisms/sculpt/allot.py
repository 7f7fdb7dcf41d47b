"""How a price is divided: between the stages, between tables, between more bins and less noise. Public inputs only.

Nothing here is a promise; the gate charges whatever comes out of it. The risk is the expected L1 error of a table,
summed over all tables of the workload.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Relation
from maquette.queries.binned import moved

_GRID = 2**20
_HIDDEN, _RESOLVED = 0.1, 0.8
"""Parts of the tables in full resolution between which the shares pass from free to equal ones."""
_ROOM = 1 - 1e-9
"""The part of a price that is planned with; the rest covers the gate's rounding."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """What noise on one table costs, in the unit of the budget."""

    unit: str
    shift: int
    """How far one record moves a table."""

    @classmethod
    def of(cls, unit: str, relation: Relation) -> Exchange:
        return cls(unit, moved(relation))

    def variance(self, price: float) -> float:
        """sigma^2 = D / (2 rho), or 2 (D / epsilon)^2."""
        if self.unit == "epsilon":
            return 2 * (self.shift / price) ** 2
        return self.shift / (2 * price)

    def price(self, variance: float) -> float:
        """What noise of a variance costs."""
        if self.unit == "epsilon":
            return self.shift * math.sqrt(2 / variance)
        return self.shift / (2 * variance)

    def exact(self, price: float) -> Fraction:
        """A variance that costs no more than the price."""
        return Fraction(math.ceil(self.variance(price * _ROOM) * _GRID), _GRID)


@dataclass(frozen=True, slots=True)
class Facts:
    """What the allocation goes by: all released or public."""

    total: float
    """Records, as far as is known."""
    exchange: Exchange

    def bins(self, score: float, deviation: float) -> float:
        """How many bins a table of this dependence can bear at this noise."""
        signal = max(score, 0.01 * self.total) / deviation
        by_records = max(self.total / deviation**2, 0.0025 * (self.total / deviation) ** 1.5)
        return max(4.0, 4 * signal ** (2 / 3), 2 * signal**0.85, by_records)

    def risk(self, score: float, cells: int, price: float) -> float:
        """The expected L1 error of a table, in counts, if it is measured at this price (0: not at all)."""
        n = self.total
        strength = score / (0.8 * n)
        most = min(cells, n)

        def unexplained(bins: float) -> float:
            return 0.8 * math.sqrt((strength * n) ** 2 + n * bins)

        if price == 0:
            return unexplained(most)
        deviation = math.sqrt(self.exchange.variance(price))
        bins = min(cells, self.bins(score, deviation))
        mean = n / bins
        signal = (strength * mean) ** 2 + mean
        noise = bins * math.sqrt(signal * deviation**2 / (signal + deviation**2))
        hidden = 0.0 if bins >= cells else score * min(1.0, math.sqrt(8 / bins))
        return unexplained(most) - unexplained(min(bins, most)) + 0.4 * noise + 0.5 * hidden


def allot(
    facts: Facts, scores: Sequence[float], cells: Sequence[int], importance: Sequence[float], *, price: float
) -> NDArray[np.float64]:
    """A price for every table that minimises the summed risk at the given total; 0 leaves a table out.

    Separable, so a Lagrange multiplier does it: each table takes its best multiple of the equal share, or none. The
    more tables an equal share resolves in full, the nearer to it is the least multiple: where everything is resolved
    the noise of single cells is all that is left, and the largest is least where all have the same.
    """
    share = price / len(scores)
    deviation = math.sqrt(facts.exchange.variance(share))
    full = np.mean([facts.bins(score, deviation) >= size for score, size in zip(scores, cells, strict=True)])
    least = -float(np.clip((_RESOLVED - full) / (_RESOLVED - _HIDDEN), 0, 1))
    grid = np.concatenate([[0.0], share * 2.0 ** np.arange(least, 4.25, 0.25)])
    risks = np.array(
        [
            [weight * facts.risk(score, size, option) for option in grid]
            for score, size, weight in zip(scores, cells, importance, strict=True)
        ]
    )
    low, high = 0.0, 1e3 * float(risks.max()) / share
    for _ in range(100):
        middle = (low + high) / 2
        taken = grid[np.argmin(risks + middle * grid, axis=1)].sum()
        low, high = (middle, high) if taken > price else (low, middle)
    prices = grid[np.argmin(risks + high * grid, axis=1)]
    if not prices.sum() > 0:
        prices = np.full(len(scores), share)
    return prices * (price / prices.sum())


def one_way_share(total: float, price: float, cells: int, exchange: Exchange) -> float:
    """The part of the price that goes to the one-way tables: less where the records drown the noise."""
    signal = total / (math.sqrt(2 * exchange.variance(price)) * cells)
    return float(np.clip(0.5 * signal**-0.3, 0.12, 0.5))
