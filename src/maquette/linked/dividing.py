"""How a budget is divided between several tables: by the error that is predicted of each, from public numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from maquette.core.budget import Budget, split
from maquette.queries.base import Queries
from maquette.queries.marginals import marginals
from maquette.releasing import planning
from maquette.releasing.request import Request
from maquette.schema import Schema

_LEAST = 0.05
"""The share that every table gets."""


def workloads(schema: Schema, k: int) -> dict[str, Queries]:
    """All k-way marginals of each table's view, but those of ancestors' columns alone: these follow from above."""
    sets: dict[str, Queries] = {}
    for name in schema.names:
        domain, own = schema.domain(name), set(schema.own_columns(name))
        order = min(k, len(domain))
        margins = [one for one in marginals(domain, order).margins if own & set(one)]
        sets[name] = marginals(domain, attributes=margins)
    return sets


def typical_rows(schema: Schema, units: int) -> dict[str, int]:
    """A guess of the rows of every table: half as many children as there may be, and half of one more."""
    rows: dict[str, int] = {}
    for link in schema.links:
        rows[link.name] = (
            units if link.parent is None else max(1, rows[link.parent] * (link.at_most + 1) // 2)
        )
    return rows


def shares(requests: Mapping[str, Request]) -> dict[str, Fraction]:
    """What each table gets, such that the sum of the predicted errors is smallest.

    An error falls with the price as 1 / price (pure) or 1 / sqrt(price), so the best shares go as its root, or as its
    power of 2 / 3. Predicted at equal prices.
    """
    errors: dict[str, float] = {}
    for name, request in requests.items():
        expected = planning.plan_of(request).prepared.forecast.expected
        errors[name] = min(expected if expected is not None else 1.0, 1.0)
    pure = next(iter(requests.values())).budget.pure
    weights = {name: error ** (1 / 2 if pure else 2 / 3) for name, error in errors.items()}
    whole = sum(weights.values())
    raised = {name: max(weight / whole, _LEAST) for name, weight in weights.items()}
    whole = sum(raised.values())
    return {name: Fraction(math.floor(1000 * share / whole), 1000) for name, share in raised.items()}


def parts(budget: Budget, by: Mapping[str, Fraction]) -> dict[str, Budget]:
    """Budgets of the same delta, each of the largest epsilon that costs no more than its share."""
    units = split(budget.total_units, list(by.values()))
    return {name: _budget_within(budget, most) for name, most in zip(by, units, strict=True)}


def _budget_within(budget: Budget, units: int) -> Budget:
    """Of six digits."""
    low, high = 0, 10**6
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _scaled(budget, middle).total_units <= units else (low, middle)
    return _scaled(budget, max(low, 1))


def _scaled(budget: Budget, millionths: int) -> Budget:
    epsilon = float(f"{budget.epsilon * millionths / 10**6:.9g}")
    return Budget(epsilon, budget.delta, budget.accounting)
