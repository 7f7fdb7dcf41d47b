"""What a release of several tables is expected to state of each, and what other limits would change; spends nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from maquette.core.budget import Budget
from maquette.linked.run import LinkedRequest
from maquette.mechanisms.base import Forecast
from maquette.releasing.plan import Plan, forecast_at
from maquette.requests import ReleaseRequest
from maquette.schema import Schema


@dataclass(frozen=True, slots=True)
class ViewForecast:
    """What is expected of one table."""

    rows: int
    """A guess of them, by the number of units and the limits."""
    unit_rows: int
    """How many of them a unit has at most; the noise hides them all."""
    epsilon: float
    """Its part of the budget, at the delta of the whole."""
    forecast: Forecast


@dataclass(frozen=True, slots=True)
class LinkedForecast:
    """What is expected of all tables of a schema, at one budget."""

    units: int
    budget: Budget
    views: Mapping[str, ViewForecast]
    limits: Mapping[str, Mapping[int, Mapping[str, Forecast]]]
    """By table and by how many of its rows would count under one of its parent: what is expected of every table."""

    def to_dict(self) -> dict[str, Any]:
        """Everything, JSON-ready."""
        budget = {name: asdict(self.budget)[name] for name in ("epsilon", "delta", "accounting")}
        limits = [
            {"table": name, "at_most": most, "tables": {view: asdict(one) for view, one in views.items()}}
            for name, tried in self.limits.items()
            for most, views in tried.items()
        ]
        tables = {name: asdict(view) for name, view in self.views.items()}
        return {"units": self.units, "budget": budget, "tables": tables, "limits": limits}


def forecast(schema: Schema, k: int, wish: ReleaseRequest) -> LinkedForecast:
    """Of all k-way marginals on about so many units as `wish.typical_rows`, as a release with a new ledger divides.

    Holds when: all of it is public. Under other limits tables are taken to have as many rows as under the declared
        ones: which rows a smaller limit leaves out nobody but the owner knows.
    """
    request, budget, plans = LinkedRequest.of(schema, k, wish).divided(wish.accounting)
    rows = {name: one.typical_rows for name, one in request.requests.items()}
    views = {
        name: ViewForecast(rows[name], schema.unit_rows[name], plan.request.epsilon, _forecast(plan))
        for name, plan in plans.items()
    }
    limits: dict[str, dict[int, dict[str, Forecast]]] = {}
    for link in schema.links:
        if link.parent is None:
            continue
        limits[link.name] = {}
        for most in sorted({max(1, link.at_most // 2), link.at_most * 2} - {link.at_most}):
            other = replace(
                schema,
                links=tuple(
                    replace(one, at_most=most) if one.name == link.name else one for one in schema.links
                ),
            )
            _, _, others = LinkedRequest.of(other, k, wish, rows=rows).divided(wish.accounting)
            limits[link.name][most] = {name: _forecast(plan) for name, plan in others.items()}
    return LinkedForecast(wish.typical_rows, budget, views, limits)


def _forecast(plan: Plan) -> Forecast:
    """With the error that a release would state, and by what."""
    return forecast_at(plan.request, plan.mechanism, n=plan.request.typical_rows)
