"""A query as a weighted sum of the workload's own queries: indices, weights and a constant."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.queries import condition
from maquette.queries.base import Margin, Queries
from maquette.queries.canonical import MAX_COMPARED_CELLS, MAX_KEYS, all_cells
from maquette.queries.condition import Runs
from maquette.queries.marginals import Marginals
from maquette.queries.predicates import SetQueries
from maquette.queries.ranges import Prefixes, Ranges


def parts_of(workload: Queries) -> Iterator[tuple[int, Queries]]:
    """The plain classes of a workload, each with the place of its first answer."""
    offset = 0
    for queries in workload.classes:
        yield offset, queries
        offset += queries.count


Combination = tuple[NDArray[Any], NDArray[Any], float]
"""Indices, their weights and a constant: the query is constant + sum of weight times query."""


def combinations(part: Queries, query: Queries) -> Iterator[Combination]:
    if isinstance(part, Marginals):
        yield from _in_marginals(part, query)
    elif isinstance(part, Prefixes):
        yield from _in_prefixes(part, query)
    elif isinstance(part, Ranges) and len(part.over) == 1 and part.count > MAX_KEYS:
        yield from _in_ranges(part, query)
    elif part.count <= MAX_KEYS and set(query.attributes) <= set(part.attributes):
        yield from _by_key(part, query)


def _in_marginals(part: Marginals, query: Queries) -> Iterator[Combination]:
    """A query over some attributes is a sum of cells of any margin that has them, or one minus the other cells."""
    needed = set(query.attributes)
    if query.domain.cells(query.attributes) > MAX_COMPARED_CELLS:
        return
    covering = [margin for margin in part.slices if needed <= set(margin)]
    if not covering:
        return
    margin = min(covering, key=part.domain.cells)
    table = cell_weights(query, margin)
    start = part.slices[margin].start
    for weights, constant in ((table, 0.0), (table - 1.0, 1.0)):
        indices = np.flatnonzero(weights)
        yield start + indices, weights[indices], constant


def _in_prefixes(part: Prefixes, query: Queries) -> Iterator[Combination]:
    """A query on declared cells is a sum of differences of prefixes: at most two for every run of cells.

    Null and overflow cells are in no prefix, but all of them together are what the last prefix leaves.
    """
    if query.attributes != (part.attribute,):
        return
    if query.domain[part.attribute].size > MAX_COMPARED_CELLS:
        yield from _in_long_prefixes(part, query)
        return
    table = cell_weights(query, (part.attribute,))
    outside = table[part.count :]
    if (outside != outside[:1]).any():
        return
    constant = float(outside[0]) if outside.size else 0.0
    steps = -np.diff(table[: part.count] - constant, append=0.0)
    indices = np.flatnonzero(steps)
    yield indices, steps[indices], constant


def _in_long_prefixes(part: Prefixes, query: Queries) -> Iterator[Combination]:
    """The same for a set of few runs, without looking at every cell."""
    result = _declared_runs(query, part.attribute)
    if result is None:
        return
    runs, constant = result
    steps = [(high, sign) for _, high, sign in runs] + [(low - 1, -sign) for low, _, sign in runs if low]
    yield np.array([i for i, _ in steps], dtype=object), np.array([w for _, w in steps]), constant


def _in_ranges(part: Ranges, query: Queries) -> Iterator[Combination]:
    """A set of declared cells is a sum of intervals, one for every run; so is one minus such a sum."""
    (name,) = part.over
    result = _declared_runs(query, name)
    if query.attributes != (name,) or result is None:
        return
    (runs, constant), cells = result, part.domain[name].cells
    before = [low * cells - low * (low - 1) // 2 + high - low for low, high, _ in runs]
    yield np.array(before, dtype=object), np.array([sign for *_, sign in runs]), constant


def _declared_runs(query: Queries, attribute: str) -> tuple[list[tuple[int, int, float]], float] | None:
    """A set of cells as runs of declared ones with their signs, and a constant; None if it is no such sum.

    A run on to the last cell, with all null and overflow cells in it, is everything but the cells before it.
    """
    runs, column = _runs(query, attribute), query.domain[attribute]
    if runs is None:
        return None
    signed = [(low, high, 1.0) for low, high in runs if high < column.cells]
    beyond = [(low, high) for low, high in runs if high >= column.cells]
    if not beyond:
        return signed, 0.0
    ((low, high), *more) = beyond
    if more or low > column.cells or high + 1 < column.size:
        return None
    return signed + ([(0, low - 1, -1.0)] if low else []), 1.0


def _runs(query: Queries, attribute: str) -> Runs | None:
    """The cells of one attribute that a query counts, if it is a set of cells of that attribute alone."""
    if not isinstance(query, SetQueries):
        return None
    factors = condition.product(query.conditions[0])
    if factors is None or [leaf.attribute for leaf in factors] != [attribute]:
        return None
    return factors[0].runs


def cell_weights(query: Queries, margin: Margin) -> NDArray[np.float64]:
    """The weight of one query on every cell of a margin that has its attributes, raveled."""
    own = query.attributes
    sizes = tuple(query.domain[name].size for name in own)
    cells = query.columns_of(all_cells(sizes, own))[0] if own else query.columns_of(one_record(query))[0]
    table = (cells / query.denominator).reshape(sizes if own else ())
    shape = tuple(query.domain[name].size for name in margin)
    spread = table.reshape([query.domain[name].size if name in own else 1 for name in margin])
    return np.broadcast_to(spread, shape).ravel()


def _by_key(part: Queries, query: Queries) -> Iterator[Combination]:
    """Equal keys mean the same query or its complement; one record tells which."""
    key = next(query.query_keys())
    if key is None:
        return
    result = next((i for i, other in enumerate(part.query_keys()) if other == key), None)
    if result is None:
        return
    record = one_record(query)
    ours = int(query.on_rows(record)[0]) / query.denominator
    theirs = int(part.on_rows(record)[result]) / part.denominator
    same = math.isclose(ours, theirs)
    yield np.array([result]), np.array([1.0 if same else -1.0]), 0.0 if same else 1.0


def one_record(query: Queries) -> dict[str, NDArray[np.int64]]:
    return {name: np.zeros(1, dtype=np.int64) for name in query.domain.names}
