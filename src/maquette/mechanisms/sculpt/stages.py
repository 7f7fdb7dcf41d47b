"""The measurements, one stage after the other; each is planned from what the earlier ones released."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from maquette.accounting.budget import UNITS
from maquette.mechanisms.base import Curator, Task
from maquette.mechanisms.sculpt.allot import Exchange, Facts, allot
from maquette.mechanisms.sculpt.interests import Interests
from maquette.models.measurement import NoisyTable, Size, sigma
from maquette.models.sculpt.bins import Hierarchy
from maquette.models.sculpt.denoise import denoise
from maquette.models.sculpt.found import Found
from maquette.models.sculpt.layout import Shape

SIZE_SHARE = 0.005
SCORE_SHARE = 0.03
SCORE_BINS = 8


class Purse:
    """A share of the task's price, in floating point for planning and on the ledger's grid for paying."""

    def __init__(self, curator: Curator, task: Task) -> None:
        self._curator = curator
        self._start = curator.left
        self._price = task.price

    @property
    def whole(self) -> float:
        return float(self._price)

    @property
    def left(self) -> Fraction:
        """What is left of the price."""
        return self._price - (self._start - self._curator.left)

    def part(self, share: float) -> Fraction:
        """A share of the whole price, on the grid, never more than is left."""
        asked = Fraction(math.floor(self.whole * share * UNITS), UNITS)
        return min(asked, self.left)


def measure_singles(
    curator: Curator, purse: Purse, exchange: Exchange, size: Size, wanted: Interests, *, share: float
) -> Found:
    """Every one-way table of the domain; the price of each goes with the root of its cells."""
    domain = curator.domain
    identity = Hierarchy(domain, tuple((tuple(range(a.size)),) for a in domain))
    roots = np.sqrt([float(a.size) for a in domain])
    prices = float(purse.part(share)) * roots / roots.sum()
    variances = [exchange.exact(price) for price in prices]
    asked = [identity.table((a,), (0,)) for a in range(len(domain))]
    noisy = curator.measure_tables(asked, variances=variances)
    deviations = [math.sqrt(table.variance) for table in noisy]
    total = max(_total(noisy), 1.0) if not size.public else float(size.divisor)
    singles = [denoise(t.values, deviation=s, total=total) for t, s in zip(noisy, deviations, strict=True)]
    return Found(
        size=size,
        hierarchy=Hierarchy.from_counts(domain, singles),
        total=total,
        singles=singles,
        single_variances=[float(table.variance) for table in noisy],
    )


def _total(noisy: Sequence[NoisyTable]) -> float:
    """The number of records by the totals of all tables, each weighted by its precision."""
    weights = [1 / (table.asked.cells * float(table.variance)) for table in noisy]
    return float(np.average([float(table.values.sum()) for table in noisy], weights=weights))


def measure_scores(
    curator: Curator, purse: Purse, found: Found, pairs: Sequence[tuple[int, ...]]
) -> tuple[NDArray[np.float64], float]:
    """How far each pair is from independence, in counts, less what chance alone would give; and the noise in it."""
    levels = found.hierarchy
    shapes = [Shape(pair, tuple(levels.level_of(a, SCORE_BINS) for a in pair)) for pair in pairs]
    expected = [found.product(shape) for shape in shapes]
    values, law = curator.distances(
        [levels.table(*shape) for shape in shapes],
        [np.rint(table).astype(np.int64) for table in expected],
        price=purse.part(SCORE_SHARE),
    )
    chance = np.array([math.sqrt(2 / math.pi) * np.sqrt(table).sum() for table in expected])
    return values - chance, sigma(law)


def measure_pairs(
    curator: Curator,
    exchange: Exchange,
    found: Found,
    pairs: dict[tuple[int, ...], float],
    scores: NDArray[np.float64],
    doubt: float,
    *,
    price: float,
) -> None:
    """Two-way tables at the resolution that their noise can bear, the price by the predicted risk."""
    facts = Facts(found.total, exchange)
    keys = list(pairs)
    raised = np.maximum(scores, doubt / 2)
    cells = [found.hierarchy.cells(pair, (0, 0)) for pair in keys]
    prices = allot(facts, list(raised), cells, list(pairs.values()), price=price)
    kept = [i for i in range(len(keys)) if prices[i] > 0]
    variances = [exchange.exact(prices[i]) for i in kept]
    shapes: list[Shape] = []
    for i, variance in zip(kept, variances, strict=True):
        most = facts.bins(float(scores[i]), math.sqrt(variance))
        shapes.append(Shape(keys[i], found.hierarchy.finest(keys[i], most)))
    asked = [found.hierarchy.table(*shape) for shape in shapes]
    for shape, table in zip(shapes, curator.measure_tables(asked, variances=variances), strict=True):
        found.add(shape, table, found.product(shape))
