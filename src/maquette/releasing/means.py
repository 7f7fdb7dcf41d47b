"""Which columns have their sum measured by itself in a release, and for which part of its budget.

A mean out of counts by cells has the noise of every cell times its distance from the mean; the sum of the column at the
resolution of its unit has the noise of one number (`core/fine_sums.py`). The shares are fixed: what they buy is in
`benchmarks/numbers.py`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol

from maquette.core.budget import UNITS
from maquette.core.forms import Margin
from maquette.core.measurement import NoisySums
from maquette.queries.base import Queries

EACH = Fraction(2, 100)
"""Of the budget, for the sum of one column."""
MOST = Fraction(8, 100)
"""Of the budget, for all of them."""


class SumCurator(Protocol):
    """What is asked of a curator here."""

    def sums(self, name: str, by: Margin = (), *, price: Fraction) -> NoisySums:
        """The sums of a numeric attribute over the groups of some others, plus noise."""
        ...


def columns_of(queries: Queries) -> tuple[str, ...]:
    """The attributes of a workload that have a unit, in the order of the domain."""
    asked = set(queries.attributes)
    return tuple(a.name for a in queries.domain if a.grid is not None and a.name in asked)


def share_of(queries: Queries) -> Fraction:
    """The part of the budget that their sums take."""
    return min(EACH * len(columns_of(queries)), MOST)


def measure(curator: SumCurator, queries: Queries, *, price: Fraction) -> tuple[NoisySums, ...]:
    """The sums of all columns that have a unit, for one price together."""
    names = columns_of(queries)
    if not names:
        return ()
    each = Fraction(int(price * UNITS) // len(names), UNITS)
    return tuple(curator.sums(name, price=each) for name in names)
