"""What the values of an undeclared column cost: noise for the price, and a threshold for the delta."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from maquette.core import bounds, events
from maquette.core.budget import Unit
from maquette.core.forms import Sensitivity
from maquette.core.laws import Gaussian
from maquette.core.prices import Prices, gaussian_law
from maquette.discovery.findings import threshold_for
from maquette.errors import MechanismError


@dataclass(frozen=True, slots=True)
class ThresholdPlan:
    """Noise on counts of which only those at or above a public threshold are returned."""

    law: Gaussian
    event: events.Event
    threshold: int


def common_values(
    prices: Prices, price: Fraction, delta: Fraction, sensitivity: Sensitivity, *, rows: int
) -> ThresholdPlan:
    """Noise on the counts of the values that occur, and the threshold that a new one passes with chance delta."""
    bounds.check_price(price)
    if prices.unit.is_pure or prices.ledger_unit.is_gaussian or not delta:
        raise MechanismError(
            "values are found by thresholds, which need a delta and a ledger that counts rho; give a delta, and "
            "make the ledger with discover or with accounting 'zcdp'"
        )
    law = gaussian_law(sensitivity, price=price, unit=Unit.RHO, denominator=1)
    event = events.GaussianEvent(
        sigma_squared=law.sigma_squared, l2_squared=sensitivity.l2_squared, total_variation=delta
    )
    return ThresholdPlan(law, event, threshold_for(law.sigma_squared, delta, rows=rows))
