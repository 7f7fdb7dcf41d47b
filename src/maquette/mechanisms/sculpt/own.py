"""Queries that are no marginals, measured in their own terms where that is no worse than reading them off rows.

The noisy answers are not used to carve rows; they are combined with the rows' answers, weighted by how far the rows
turn out to lie from them (empirical Bayes).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from maquette.mechanisms.base import Curator
from maquette.mechanisms.sculpt.allot import Exchange
from maquette.mechanisms.sculpt.interests import Interests, parts_of
from maquette.mechanisms.sculpt.stages import Purse
from maquette.models.answers import Answers, SmallDatabase
from maquette.models.measurement import Gaussian, Laplace, Measurement, Size, sigma
from maquette.queries.base import Queries
from maquette.queries.marginals import Marginals

SHARE = 0.2
"""Of the whole price, for all such parts together."""
_MOST = 100_000
"""Queries of a part that may be measured directly."""
_WORSE = 2.0
"""How much noisier than a two-way table, in deviations, a direct answer may be."""


@dataclass(frozen=True, slots=True, eq=False)
class Direct:
    """Noisy answers to one part of the workload, and where it stands."""

    place: slice
    measured: Measurement


def measure(
    curator: Curator, purse: Purse, exchange: Exchange, wanted: Interests, queries: Queries
) -> list[Direct]:
    """Measure those parts that look at several attributes in another way than a marginal, if the noise allows."""
    parts = [part for part, _ in parts_of(queries)]
    able = [i for i, part in enumerate(parts) if _wanted(part)]
    if not able:
        return []
    share = SHARE / len(able)
    typical = exchange.variance(purse.whole * (1 - SHARE) / max(len(wanted.pairs), 1))
    starts = np.cumsum([0, *(part.count for part in parts)])
    found: list[Direct] = []
    for i in able:
        price = purse.part(share)
        if _variance(parts[i], curator, price) > _WORSE**2 * typical:
            continue
        noise = Laplace(price) if curator.unit == "epsilon" else Gaussian(price)
        place = slice(int(starts[i]), int(starts[i + 1]))
        found.append(Direct(place, curator.measure(parts[i], noise=noise)))
    return found


def combined(queries: Queries, database: SmallDatabase, directly: list[Direct], size: Size) -> Answers:
    """The rows' answers; where direct ones exist, both by their precision."""
    answers = database.answer(queries)
    if not directly:
        return answers
    fractions = answers.fractions
    for part in directly:
        noise = sigma(part.measured.noise) / size.divisor
        fractions[part.place] = _mixed(
            fractions[part.place], part.measured.counts / size.divisor, variance=noise**2
        )
    return Answers.from_fractions(fractions)


def _mixed(rows: NDArray[np.float64], noisy: NDArray[np.float64], *, variance: float) -> NDArray[np.float64]:
    """Shrink the noisy answers to the rows' by the part of their distance that noise explains."""
    apart = float(np.mean((noisy - rows) ** 2))
    real = max(apart - variance, 0.0)
    return rows + real / max(real + variance, 1e-300) * (noisy - rows)


def _wanted(part: Queries) -> bool:
    return not isinstance(part, Marginals) and len(part.attributes) > 1 and part.count <= _MOST


def _variance(part: Queries, curator: Curator, price: Fraction) -> float:
    moved = part.sensitivity(curator.relation)
    if curator.unit == "epsilon":
        return 2 * float(moved.l1 / price) ** 2
    return float(moved.l2_squared / (2 * price))
