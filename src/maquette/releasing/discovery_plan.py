"""What a private discovery would cost and how much it could see, before it is paid for. Public inputs only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from maquette.accounting.charges import pure_in_words
from maquette.core import prices
from maquette.core.answers import cell_sensitivity
from maquette.core.budget import SLACK_UNITS, UNITS, Budget
from maquette.core.forms import Sensitivity
from maquette.core.laws import Gaussian, NoiseRequest, independent
from maquette.discovery.findings import NUMBERS, threshold_for
from maquette.domain import Relation
from maquette.errors import MechanismError, ParameterError
from maquette.releasing.discovery import (
    KIND_SHARE,
    LADDER_SHARE,
    ColumnChoice,
    Columns,
    How,
    discovery_cost,
)


@dataclass(frozen=True, slots=True)
class ColumnForecast:
    """What the part of the budget for one column buys."""

    name: str
    how: How
    kind: str | None
    """number, text or date; None where that is found out first."""
    deviation: float | None = None
    """At most, of the noise on numbers of records in the look that decides cells; or None."""
    threshold: int | None = None
    """Texts that fewer records have are not listed; None where no list can come out."""


@dataclass(frozen=True, slots=True)
class DiscoveryForecast:
    """The price of a discovery as part of the ledger's total, and what it buys column by column."""

    budget: Budget
    share: float
    """Of what the whole ledger may pay for."""
    columns: tuple[ColumnForecast, ...]
    note: str | None = None
    """How much less it would take with a delta; None where it has one, or the ledger has none."""


def forecast_discovery(
    header: Mapping[str, bool],
    *,
    columns: Columns,
    epsilon: float,
    delta: float,
    total_epsilon: float,
    total_delta: float,
    relation: Relation | str = Relation.ADD_REMOVE,
) -> DiscoveryForecast:
    """What `discover` with these arguments would pay and see. Spends and looks at nothing but the header.

    Holds when: the ledger is made by the discovery, or was made by an earlier one, for the same total.
    """
    budget = Budget(epsilon, delta, "zcdp", thresholds=True)
    total = Budget(total_epsilon, total_delta, "zcdp", thresholds=True)
    if delta and not total_delta:
        raise ParameterError("the ledger has no delta, which lists of values need; leave delta at 0")
    choice = ColumnChoice.of(header, dict(columns), None)
    if not choice.open:
        raise ParameterError("every column is declared or dropped: there is nothing to find")
    price = Fraction(budget.row_units(1) // len(choice.open), UNITS)
    slack = Fraction(min(budget.slack_units, total.slack_units) // len(choice.open), SLACK_UNITS)
    neighbours = Relation.named(relation)
    at, cell = prices.Prices(budget.unit, total.unit, neighbours), cell_sensitivity(neighbours)

    def forecast(name: str, kind: str | None) -> ColumnForecast:
        part = price if kind is not None else price * (1 - KIND_SHARE)
        closer = part if kind in ("text", "date") else part * (1 - 2 * LADDER_SHARE)  # after two other looks
        request = NoiseRequest.at(closer, budget.unit)
        noise = at.noise(request, cell, coordinates=len(NUMBERS) + 1)
        threshold = None
        if kind in (None, "text"):
            threshold = _threshold(part, slack, cell, is_given=kind == "text", name=name)
        return ColumnForecast(name, "discovered", kind, independent(noise.law).deviation, threshold)

    def of(name: str) -> ColumnForecast:
        if name in choice.open:
            return forecast(name, choice.open[name])
        return ColumnForecast(name, "declared" if name in choice.declared else "dropped", None)

    share = float(discovery_cost(budget, total).share_of(total.whole))
    note = pure_in_words(total, budget, lambda one: discovery_cost(one, total))
    return DiscoveryForecast(budget, share, tuple(of(name) for name in choice.order), note)


def _threshold(
    price: Fraction, delta: Fraction, cell: Sensitivity, *, is_given: bool, name: str
) -> int | None:
    if not delta:
        if is_given:
            raise MechanismError(f"column '{name}' holds texts, and a list of them needs a delta")
        return None
    law = prices.gaussian(cell, rho=price, denominator=1).law
    assert isinstance(law, Gaussian)
    return threshold_for(Fraction(law.sigma_squared), delta, rows=1)
