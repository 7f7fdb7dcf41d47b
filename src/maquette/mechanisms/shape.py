"""What a workload looks like to a mechanism, from public structure only."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from maquette.core.forms import Sensitivity
from maquette.domain import Relation
from maquette.models.fits import answer_histogram, can_map, pass_length
from maquette.queries.base import Queries
from maquette.queries.marginals import Marginals
from maquette.queries.merging import Merged, merge
from maquette.queries.rows import MAX_ANSWERS, Margin

LARGEST_HISTOGRAM = 2**22
"""Cells of the largest histogram that is held."""


_SMALL_UNIVERSE = 2**13
_SHORT_PASS = 2_000_000
_LONGEST_PASS = 100_000_000
_WORK = 4e9
"""Elements that a fit may pass over, in all its rounds, before it is cut short."""


class WeightedMargin(NamedTuple):
    """One margin of a workload: where its answers stand and how much its errors matter."""

    margin: Margin
    place: slice
    weight: float


def margins_of(queries: Queries) -> list[WeightedMargin] | None:
    """The margins of a workload that consists of marginals only, else None."""
    margins: list[WeightedMargin] = []
    start = 0
    for part in queries.parts:
        if not isinstance(part.queries, Marginals):
            return None
        for margin, place in part.queries.slices.items():
            margins.append(
                WeightedMargin(margin, slice(start + place.start, start + place.stop), part.weight)
            )
        start += part.queries.count
    return margins


def is_marginals(queries: Queries) -> bool:
    """Does the workload consist of marginals only?"""
    return all(isinstance(part, Marginals) for part in queries.classes)


def universe(queries: Queries) -> int:
    """Cells of the table over the attributes that the queries look at."""
    return queries.domain.cells(queries.attributes)


def holds_histogram(queries: Queries) -> bool:
    """Is that table small enough to hold?"""
    return universe(queries) <= LARGEST_HISTOGRAM


def gives_rows(queries: Queries) -> bool:
    """Can a histogram be fitted to answers of this workload, so that there are rows?"""
    return holds_histogram(queries) and can_map(queries) and pass_length(queries) <= _LONGEST_PASS


def fits_exactly(queries: Queries) -> bool:
    """Is the least-squares fit run to its end? Marginals over larger universes are fitted better by a smooth one."""
    if is_marginals(queries):
        return universe(queries) <= _SMALL_UNIVERSE
    return pass_length(queries) <= _SHORT_PASS


def fit_rounds(queries: Queries) -> int:
    """Rounds of the fit: to the end for small ones, else as many as the work allows, from 40 to 100."""
    if fits_exactly(queries):
        return 1000
    return int(min(100, max(40, _WORK / fit_pass(queries))))


def fit_pass(queries: Queries) -> int:
    """Elements that one round of a fit passes over: the map there and back, and its own arrays."""
    return 2 * pass_length(queries) + 12 * universe(queries)


def too_many(queries: Queries) -> str | None:
    """Why the answers cannot be listed, or None."""
    if queries.count > MAX_ANSWERS:
        return f"{queries.count:,} answers are more than can be listed ({MAX_ANSWERS:,})"
    return None


class Profile(NamedTuple):
    """How many queries count how many cells of the universe."""

    cells: NDArray[np.float64]
    counts: NDArray[np.float64]


_Value = TypeVar("_Value")
_More = ParamSpec("_More")


def cached_by_queries(
    compute: Callable[Concatenate[Queries, _More], _Value],
) -> Callable[Concatenate[Queries, _More], _Value]:
    """Cache a function for the last few workloads; for one that cannot be hashed it is computed each time."""
    cached = lru_cache(maxsize=32)(compute)

    @wraps(compute)
    def look_up(queries: Queries, *args: _More.args, **more: _More.kwargs) -> _Value:
        try:
            hash(queries)
        except TypeError:
            return compute(queries, *args, **more)
        return cached(queries, *args, **more)

    return look_up


@cached_by_queries
def distinct(queries: Queries) -> int:
    """The number of queries after merging duplicates and complements and dropping constants."""
    return queries.distinct()


@cached_by_queries
def merged(queries: Queries) -> Merged:
    """The queries that are asked for a workload: copies, complements and constants once or not at all."""
    return merge(queries)


@cached_by_queries
def sensitivities(queries: Queries) -> dict[Relation, Sensitivity]:
    """Under both relations."""
    return {relation: queries.sensitivity(relation) for relation in Relation}


@cached_by_queries
def profile(queries: Queries) -> Profile:
    """The distinct total weights of the queries over the universe, and how many queries have each."""
    margins = margins_of(queries)
    if margins is not None:
        whole = universe(queries)
        sizes = [queries.domain.cells(a.margin) for a in margins]
        cells, place = np.unique(whole / np.array(sizes, dtype=float), return_inverse=True)
        return Profile(cells, np.bincount(place, weights=sizes).astype(float))
    cells, counts = np.unique(query_cells(queries), return_counts=True)
    return Profile(cells, counts.astype(float))


def query_cells(queries: Queries) -> NDArray[np.float64]:
    """The total weight of every query over the universe."""
    shape = tuple(queries.domain[name].size for name in queries.attributes)
    assert math.prod(shape) <= LARGEST_HISTOGRAM
    return answer_histogram(queries, np.ones(shape, dtype=np.int64))
