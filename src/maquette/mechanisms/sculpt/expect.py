"""How large the largest error tends to be. No promise.

The two constants lie between what was seen on Adult (14 attributes), Salary (9) and MSNBC (17 bits) at epsilon 0.1, 1
and 10: largest errors were 0.4 to 2.9 times the formula.
"""

from __future__ import annotations

import math

from maquette.mechanisms import shape
from maquette.mechanisms.base import Task
from maquette.mechanisms.residual import RESIDUAL
from maquette.mechanisms.sculpt import clear
from maquette.mechanisms.sculpt.allot import Exchange
from maquette.mechanisms.sculpt.interests import Interests, parts_of
from maquette.models.measurement import Size
from maquette.queries.base import Queries
from maquette.queries.ranges import Prefixes, Ranges
from maquette.theory import existence

_DEVIATIONS, _LOOSE = 4.0, 0.5
_NEARER = 4.0


def expected_error(task: Task, wanted: Interests, *, n: int) -> float:
    """The largest error as a fraction: noise of an equal share of the price, and what rows cannot follow.

    Where all cells stand clear of their noise it is the error of the residual basis, which is then what is used.
    """
    if clear.everything(task, Size(n, None, None), price=task.price):
        return RESIDUAL.forecast(task, n=n).expected or 0.0
    exchange = Exchange.of(task.unit, task.relation)
    tables = max(len(wanted.pairs), len(wanted.attributes), 1)
    noise = math.sqrt(exchange.variance(float(task.price) / tables))
    return min(1.0, _sums(task.queries) * (_DEVIATIONS * noise + _LOOSE * math.sqrt(n)) / n)


def small_rows(task: Task, wanted: Interests, *, n: int) -> int:
    """The fewest rows that keep the largest error: ln(2|Q|) / (2 alpha^2), at most as many as there are records.

    Accuracy: so many rows drawn at random would be within alpha, `_NEARER` times the expected error; rows that are
        carved come that much nearer (`python -m benchmarks sizes`).
    """
    alpha = min(1.0, _NEARER * expected_error(task, wanted, n=n))
    log_queries = math.log(max(shape.distinct(task.queries), 1))
    return max(1, min(existence.sampling_rows(alpha=alpha, log_queries=log_queries), n))


def _sums(queries: Queries) -> float:
    """Prefixes and ranges add up cells: fitted to 32 releases over one attribute of 16 to 4,096 cells."""
    summed = [part for part, _ in parts_of(queries) if isinstance(part, (Prefixes, Ranges))]
    cells = max((part.domain[name].cells for part in summed for name in part.attributes), default=1)
    return max(1.0, math.sqrt(cells) / 9)
