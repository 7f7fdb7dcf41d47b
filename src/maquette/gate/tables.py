"""Questions about tables in bins: what their noise costs, and the scores by which they are compared and chosen.

A score is the L1 distance in whole counts between a private table and a public one. Neighbouring tables move it by
at most 1 under add/remove-one and 2 under replace-one (`queries/binned.py`, and the triangle inequality).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from maquette.accounting.events import (
    ComposedEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    Selection,
    SelectionEvent,
    SmoothedEvent,
)
from maquette.accounting.gaussian import log_ratio
from maquette.accounting.unit import Unit
from maquette.domain import Domain, Relation
from maquette.gate import prices
from maquette.queries.base import Sensitivity
from maquette.queries.marginals import Binned, table_sensitivity
from maquette.questions import bounds
from maquette.questions.tables import check_tables
from maquette.samplers.noise import Noise, sqrt_up

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TablePlan:
    """One payment for several tables, each with noise of its own spread."""

    event: Event
    drawn: tuple[float, ...]
    """What the sampler gets: sigma, or the scale of Laplace noise."""
    variances: tuple[Fraction, ...]
    """Of the law's parameter: sigma squared, or twice the squared scale."""

    def draw(self, noise: Noise, counts: Sequence[Counts]) -> list[Counts]:
        """Noise on every table."""
        if isinstance(self.event, (GaussianEvent, SmoothedEvent)):
            return [noise.gaussian(c, sigma=s) for c, s in zip(counts, self.drawn, strict=True)]
        return [noise.laplace(c, scale=Fraction(s)) for c, s in zip(counts, self.drawn, strict=True)]


def plan_tables(
    domain: Domain,
    tables: Sequence[Binned],
    variances: Sequence[Fraction],
    *,
    relation: Relation,
    unit: Unit,
    ledger_unit: Unit | None = None,
) -> TablePlan:
    """What tables with noise of these variances cost together.

    Guarantee: with D = 1 (add/remove-one) or 2 (replace-one), the sum of D / (2 sigma^2) in rho, or of D / scale in
        epsilon: the tables side by side are one vector, scaled to unit noise. Where mu^2 / 2 is counted the noise is
        wider than asked by the smoothing, and costs as much as asked. Noise planned in rho for a ledger that counts
        mu^2 / 2 is drawn as planned, and costs it more.
    """
    check_tables(domain, tables)
    bounds.check_variances(variances, len(tables), "table")
    shift = table_sensitivity(relation)
    if unit.is_pure:
        scales = [sqrt_up(Fraction(v) / 2) for v in variances]
        l1 = sum((Fraction(shift) / Fraction(s) for s in scales), Fraction(0))
        event: Event = LaplaceEvent(scale=Fraction(1), l1=_up(l1))
        return TablePlan(event, tuple(scales), tuple(2 * Fraction(s) ** 2 for s in scales))
    smoothing = max(unit.smoothing, (ledger_unit or unit).smoothing)
    sigmas = [sqrt_up(Fraction(v) + unit.smoothing) for v in variances]
    drawn = tuple(Fraction(s) ** 2 for s in sigmas)
    if smoothing > unit.smoothing:
        prices.check_wide(drawn)
    l2 = _up(sum((shift / v for v in drawn), Fraction(0)))
    if not smoothing:
        return TablePlan(GaussianEvent(sigma_squared=Fraction(1), l2_squared=l2), tuple(sigmas), drawn)
    event = SmoothedEvent(
        sigma_squared=Fraction(1),
        l2_squared=l2,
        mu_squared=_up(sum((shift / (v - smoothing) for v in drawn), Fraction(0))),
        ripple=Fraction(0),
        log_ratio=log_ratio(sum(table.cells for table in tables)),
    )
    return TablePlan(event, tuple(sigmas), drawn)


def distance_sensitivity(tables: int, relation: Relation) -> Sensitivity:
    """Of a vector of such distances."""
    each = Fraction(table_sensitivity(relation))
    return Sensitivity(tables * each, tables * each**2, each)


@dataclass(frozen=True, slots=True)
class ChoicePlan:
    """Several private choices in a row, each with scores divided by `scale`."""

    event: ComposedEvent
    scale: float
    method: Selection


def plan_choices(*, count: int, price: Fraction, relation: Relation, unit: Unit) -> ChoicePlan:
    """`count` choices at equal prices.

    Guarantee: each is permute-and-flip (epsilon) or the exponential mechanism (rho) on a score of sensitivity 1 or 2.
    """
    bounds.check_whole(count, least=1, most=bounds.MOST_CHOICES, what="how many tables to choose")
    bounds.check_price(price)
    each = prices.selection(price=Fraction(price) / count, unit=unit)
    event = ComposedEvent((SelectionEvent(each.event.epsilon, each.event.method),) * count)
    return ChoicePlan(event, each.scale * table_sensitivity(relation), each.event.method)


def choose(noise: Noise, plan: ChoicePlan, scores: Counts, tables: Sequence[Binned]) -> Counts:
    """Choose one after the other; a chosen table bars those that share two attributes with it.

    Which tables are barred follows from the released choices alone.
    """
    left = list(range(len(tables)))
    chosen: list[int] = []
    for _ in plan.event.events:
        if not left:
            break
        found = noise.select(scores[left], scale=plan.scale, method=plan.method)
        chosen.append(left[found])
        taken = set(tables[left[found]].margin)
        left = [i for i in left if len(taken & set(tables[i].margin)) < 2]
    return np.array(chosen, dtype=np.int64)


def _up(value: Fraction) -> Fraction:
    """Rounded up to a fixed grid, so that the stored number stays short."""
    return Fraction(-((-value.numerator << 100) // value.denominator), 1 << 100)
