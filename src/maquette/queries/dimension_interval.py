"""A dimension between two numbers, for classes that are too large to be searched to the end.

From below by a shattered set: of the class itself after a search that was broken off, of one of its parts, or of a
smaller class of the same kind. From above by counting: 2^d labellings need as many queries, and a union of classes
has no more behaviours on s cells than its parts together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from maquette.core import _check
from maquette.core._arguments import checks_arguments
from maquette.errors import WorkloadError
from maquette.queries import dimension
from maquette.queries.base import Queries
from maquette.queries.conjunctions import Conjunctions
from maquette.queries.dimension import HALF, Dimension, Matrix, Number
from maquette.queries.halfspaces import Halfspaces
from maquette.queries.marginals import Marginals
from maquette.queries.predicates import Boxes

EFFORT = 3_000_000
"""Comparisons of sets in one search, by default: a few seconds."""


@dataclass(frozen=True, slots=True)
class DimensionInterval:
    """A VC or fat-shattering dimension from `low.value` to `high`, both included."""

    low: Dimension
    """A shattered set. Where it was taken from a part of the class, it lists no witnesses."""
    high: int
    reason: str
    """Why it is not above `high`."""

    @property
    def is_exact(self) -> bool:
        return self.low.value == self.high


@checks_arguments
def dimension_interval(
    queries: Queries | Matrix, gamma: Number | None = None, *, effort: int = EFFORT
) -> DimensionInterval:
    """The VC dimension (or at margin gamma the fat-shattering dimension) of a class, at least and at most.

    Cost: `effort` bounds the search. Where the search ends in time, or a closed form is known, both ends are equal.
    """
    _check.whole(least=0, effort=effort)
    margin = HALF if gamma is None else dimension.margin_of(gamma)
    if gamma is None:
        _check_counting(queries)
    low = _low(queries, margin, effort)
    if low.is_complete:
        said = "closed form" if low.method == "closed form" else "the search was finished"
        return DimensionInterval(low, low.value, said)
    high, reason = at_most(queries)
    if low.value == high:
        low = replace(low, is_complete=True)
    return DimensionInterval(low, high, reason)


def at_most(queries: Queries | Matrix) -> tuple[int, str]:
    """A dimension that a class does not exceed at any margin, and why; from its structure and its size alone."""
    if not isinstance(queries, Queries):
        return _by_count(math.log(max(1, len(np.asarray(queries, dtype=object)))))
    bounds = [_by_count(math.log(max(1, queries.count)))]
    structure = vc_at_most(queries)
    if structure is not None:
        bounds.append((structure, "the structure of the class"))
    parts = [vc_at_most(part) for part in _parts(queries)]
    if len(parts) > 1 and all(part is not None for part in parts):
        together = _of_union([part for part in parts if part is not None])
        bounds.append((together, f"behaviours of {len(parts)} classes together (Sauer and Shelah)"))
    return min(bounds)


def vc_at_most(queries: Queries) -> int | None:
    """A VC dimension that the class does not exceed, known without a search; None if there is none."""
    closed = dimension.known_dimension(queries)
    if closed is not None:
        return len(closed.points)
    match queries:
        case Boxes(domain=domain, attributes=names):
            return dimension.boxes(cells=[domain[name].size for name in names])
        case Halfspaces(over=over):
            return dimension.halfspaces(d=len(over))
        case _:
            return None


def _by_count(log_queries: float) -> tuple[int, str]:
    most = math.floor(log_queries / math.log(2) + 1e-9)
    return most, "2^d labellings need as many queries: at most log2 of their number"


def _of_union(dimensions: list[int]) -> int:
    """The largest s at which the behaviours of all parts together could be 2^s."""
    s = max(dimensions)
    while 2 ** (s + 1) <= sum(sum(math.comb(s + 1, i) for i in range(d + 1)) for d in dimensions):
        s += 1
    return s


def _parts(queries: Queries) -> list[Queries]:
    """Classes whose union it is: parts of a workload, tables one by one."""
    parts: list[Queries] = []
    for one in queries.classes:
        if isinstance(one, Marginals):
            parts += [Marginals(one.domain, (margin,)) for margin in one.margins]
        else:
            parts.append(one)
    return parts


def _low(queries: Queries | Matrix, gamma: Fraction, effort: int) -> Dimension:
    try:
        return dimension.search_dimension(queries, gamma, effort=effort)
    except WorkloadError:
        if not isinstance(queries, Queries):
            raise
    smaller = [_of_part(part, gamma, effort) for part in _smaller(queries)]
    best = max(smaller, key=lambda one: one.value, default=_nothing(gamma))
    return replace(best, witnesses=(), is_complete=False)


def _smaller(queries: Queries) -> list[Queries]:
    """Classes inside a class that is too large to be searched."""
    if isinstance(queries, Conjunctions) and len(queries.over) > queries.width + 1:
        few = queries.over[: queries.width + 1]
        return [Conjunctions(queries.domain, queries.width, queries.literals, few)]
    parts = _parts(queries)
    return parts if len(parts) > 1 else []


def _of_part(queries: Queries, gamma: Fraction, effort: int) -> Dimension:
    try:
        return dimension.search_dimension(queries, gamma, effort=effort)
    except WorkloadError:
        return _nothing(gamma)


def _nothing(gamma: Fraction) -> Dimension:
    return Dimension(0, (), (), (), gamma, "search", (), False)


def _check_counting(queries: Queries | Matrix) -> None:
    is_counting = queries.denominator == 1 if isinstance(queries, Queries) else dimension.is_binary(queries)
    if not is_counting:
        raise WorkloadError("the VC dimension is for counting queries; give a gamma for real weights")
