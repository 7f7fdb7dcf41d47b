"""Counts of all conjunctions of values of some attributes, from one table over them, by one pass along each attribute.

The cube of a table has one place more along each attribute, the first: any value. Its entries are the counts of all
conjunctions. A pass adds up all cells of an attribute for the first place and
copies the cells that are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_CUBE = 2**24
"""Entries of a cube (128 MB)."""


def conjunction_counts(table: NDArray[Any], values: Sequence[int], width: int) -> NDArray[Any]:
    """The counts of the conjunctions of 1 .. width attributes, each with one of these values.

    Those of few attributes first; then by their sets of attributes as `itertools.combinations` lists them; then by
    their values.
    """
    return cube(table, values).reshape(-1)[places(table.ndim, len(values), width)]


def cube(table: NDArray[Any], values: Sequence[int]) -> NDArray[Any]:
    """Along every attribute all of its cells together, then each of these values."""
    sums = table
    for axis in range(table.ndim):
        everything = sums.sum(axis=axis, keepdims=True)
        sums = np.concatenate([everything, sums.take(values, axis=axis)], axis=axis)
    return sums


@lru_cache(maxsize=8)
def places(attributes: int, values: int, width: int) -> NDArray[np.int64]:
    """Where the conjunctions of 1 .. width attributes stand in the cube, in their order."""
    flat = np.arange((values + 1) ** attributes, dtype=np.int64)
    used, chosen, rest = np.zeros_like(flat), np.zeros_like(flat), flat
    for axis in reversed(range(attributes)):
        rest, value = np.divmod(rest, values + 1)
        used += value > 0
        chosen += (value > 0).astype(np.int64) << (attributes - 1 - axis)
    # of one set of attributes, values are compared from the first attribute on, as places in the cube are
    order = np.lexsort((flat, -chosen, used))
    chosen_places = order[(used[order] >= 1) & (used[order] <= width)]
    chosen_places.flags.writeable = False
    return chosen_places
