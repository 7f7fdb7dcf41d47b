"""How large the largest error tends to be: a formula fitted to simulations. No promise."""

from __future__ import annotations

import math

from maquette.mechanisms.base import Task
from maquette.mechanisms.sculpt.allot import Exchange
from maquette.mechanisms.sculpt.interests import Interests


def expected_error(task: Task, wanted: Interests, *, n: int) -> float:
    """The largest error as a fraction: noise of an equal share of the price, and what rows cannot follow."""
    exchange = Exchange.of(task.unit, task.relation)
    tables = max(len(wanted.pairs), len(wanted.attributes), 1)
    noise = math.sqrt(exchange.variance(float(task.price) / tables))
    loose = 0.7 if wanted.triples else 0.2
    return min(1.0, (4 * noise + loose * math.sqrt(n)) / n)
