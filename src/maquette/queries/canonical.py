"""One key per query: equal keys for a query, its duplicates and its complement, in whatever class they stand.

A query that is a product of sets of cells, one set per attribute, is its sets. Any other 0/1 query is the digest of
its mask, fractional weights are the digest of their numerators, over the attributes that it depends on. Products
come before masks, so that the complement of a product has the product's key.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain
from maquette.queries.base import Margin, Queries
from maquette.queries.condition import (
    ALWAYS,
    NEVER,
    Condition,
    Runs,
    attributes,
    complement,
    opposite,
    product,
    runs_of,
    simplify,
    table_mask,
)

Key = tuple[Any, ...]
"""Comparable with every other key."""
Leaf = tuple[str, Runs]
"""An attribute and the cells of it that are meant."""

MAX_COMPARED_CELLS = 2**16
"""Sub-universes up to this size are compared cell by cell."""
MAX_KEYS = 10**6
"""Classes up to this size are compared query by query."""


def sizes_of(domain: Domain) -> dict[str, int]:
    """Cells by attribute, for looking up often."""
    return dict(zip(domain.names, domain.shape, strict=True))


def product_key(sizes: Mapping[str, int], leaves: Iterable[Leaf]) -> Key | None:
    """The key of a product of non-empty sets of cells; None if it holds every record."""
    factors = tuple(sorted((name, runs) for name, runs in leaves if runs != ((0, sizes[name] - 1),)))
    if len(factors) == 1:
        name, runs = factors[0]
        return ("box", min(factors, ((name, complement(runs, sizes[name])),)))
    return ("box", factors) if factors else None


def condition_key(domain: Domain, condition: Condition) -> Key:
    """The key of the records that satisfy a simplified condition (and of no others).

    Equal for equal sets of records if they are products of sets of cells, or look at no more than 2^16 cells.
    """
    if condition in (ALWAYS, NEVER):
        return ("constant", condition == ALWAYS)
    factors = product(condition)
    if factors is not None:
        return ("box", tuple(sorted((leaf.attribute, leaf.runs) for leaf in factors)))
    looked_at = attributes(domain, condition)
    if domain.cells(looked_at) > MAX_COMPARED_CELLS:
        return ("tree", repr(condition))
    names, mask = relevant(looked_at, table_mask(domain, condition, looked_at))
    return _one_sided(domain, names, mask.astype(np.int64), 1) if names else ("constant", bool(mask))


def merged_key(domain: Domain, condition: Condition) -> Key | None:
    """One key for a simplified condition and its opposite; None if it is constant."""
    own = condition_key(domain, condition)
    if own[0] == "constant":
        return None
    return min(own, condition_key(domain, simplify(domain, opposite(domain, condition))))


def array_key(domain: Domain, over: Margin, array: NDArray[Any], denominator: int) -> Key | None:
    """The key of a query given by its numerators over the table of some attributes; None if it is constant."""
    names, reduced = relevant(over, array)
    if not names:
        return None
    return min(
        _one_sided(domain, names, reduced, denominator),
        _one_sided(domain, names, denominator - reduced, denominator),
    )


def relevant(over: Margin, array: NDArray[Any]) -> tuple[Margin, NDArray[Any]]:
    """The attributes that an array really depends on, and the array over them."""
    names: list[str] = []
    for name in over:
        axis = len(names)
        first = array.take([0], axis=axis)
        if (array == first).all():
            array = first.squeeze(axis=axis)
        else:
            names.append(name)
    return tuple(names), array


def sets_of(mask: NDArray[np.bool_]) -> list[NDArray[np.intp]] | None:
    """The factors of a mask that is a product of sets, or None."""
    axes = range(mask.ndim)
    factors = [np.flatnonzero(mask.any(axis=tuple(a for a in axes if a != axis))) for axis in axes]
    whole = math.prod(len(factor) for factor in factors)
    return factors if whole == np.count_nonzero(mask) else None


def keys_by_cells(queries: Queries) -> Iterator[Key | None]:
    """Keys from the weights on every cell of the attributes that the queries look at."""
    names = queries.attributes or queries.domain.names[:1]  # constants look at no attribute
    shape = tuple(queries.domain[name].size for name in names)
    for row in queries.columns_of(all_cells(shape, names)):
        yield array_key(queries.domain, names, row.reshape(shape), queries.denominator)


def all_cells(shape: tuple[int, ...], names: Margin) -> dict[str, NDArray[np.int64]]:
    """Every cell of a table once, as coded rows."""
    grids = np.indices(shape).reshape(len(shape), -1)
    return dict(zip(names, grids, strict=True))


def count_distinct(keys: Iterable[Key | None]) -> int:
    return len({key for key in keys if key is not None})


def _one_sided(domain: Domain, names: Margin, array: NDArray[Any], denominator: int) -> Key:
    ordered = tuple(sorted(names))
    array = array.transpose([names.index(name) for name in ordered])
    if not np.isin(array, (0, denominator)).all():
        shrink = math.gcd(denominator, *(int(v) for v in np.unique(array)))
        reduced = np.ascontiguousarray(array // shrink, dtype=np.int64)
        return ("weights", ordered, denominator // shrink, hashlib.sha256(reduced.tobytes()).hexdigest())
    mask = array != 0
    factors = sets_of(mask)
    if factors is not None:
        return ("box", tuple((name, runs_of(codes)) for name, codes in zip(ordered, factors, strict=True)))
    return ("mask", ordered, hashlib.sha256(np.packbits(mask).tobytes()).hexdigest())
