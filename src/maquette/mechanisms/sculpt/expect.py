"""How large the largest error tends to be: a formula fitted to simulations. No promise."""

from __future__ import annotations

import math

from maquette.mechanisms.base import Task
from maquette.mechanisms.sculpt.allot import Exchange
from maquette.mechanisms.sculpt.interests import Interests
from maquette.queries.base import Queries
from maquette.queries.ranges import Prefixes, Ranges
from maquette.queries.workload import Workload


def expected_error(task: Task, wanted: Interests, *, n: int) -> float:
    """The largest error as a fraction: noise of an equal share of the price, and what rows cannot follow."""
    exchange = Exchange.of(task.unit, task.relation)
    tables = max(len(wanted.pairs), len(wanted.attributes), 1)
    noise = math.sqrt(exchange.variance(float(task.price) / tables))
    loose = 0.7 if wanted.triples else 0.2
    return min(1.0, _sums(task.queries) * (4 * noise + loose * math.sqrt(n)) / n)


def _sums(queries: Queries) -> float:
    """Prefixes and ranges add up cells: fitted to 32 releases over one attribute of 16 to 4,096 cells."""
    parts = [part.queries for part in queries.parts] if isinstance(queries, Workload) else [queries]
    summed = [part for part in parts if isinstance(part, (Prefixes, Ranges))]
    cells = max((part.domain[name].cells for part in summed for name in part.attributes), default=1)
    return max(1.0, math.sqrt(cells) / 9)
