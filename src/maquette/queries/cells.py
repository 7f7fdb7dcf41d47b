"""Sets of cells of one attribute, as runs: sorted, disjoint, not touching, ends included."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Runs = tuple[tuple[int, int], ...]

MOST_LOOKED_UP = 2**20
"""Attributes up to this size are looked up in a table, larger ones by comparison."""


def runs_of(codes: Iterable[int]) -> Runs:
    """The runs that hold exactly these codes."""
    return normal((int(code), int(code)) for code in codes)


def normal(pairs: Iterable[tuple[int, int]]) -> Runs:
    """Any (low, high) pairs, sorted and merged; pairs with low > high are empty."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(pair for pair in pairs if pair[0] <= pair[1]):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def join(*sets: Runs) -> Runs:
    """The union."""
    return normal(run for runs in sets for run in runs)


def meet(first: Runs, second: Runs) -> Runs:
    """The intersection."""
    return normal((max(a, c), min(b, d)) for a, b in first for c, d in second)


def complement(runs: Runs, size: int) -> Runs:
    """All cells of the attribute that are not in the set."""
    ends = [-1, *(end for run in runs for end in run), size]
    return normal((ends[i] + 1, ends[i + 1] - 1) for i in range(0, len(ends), 2))


def whole(size: int) -> Runs:
    """All cells."""
    return ((0, size - 1),)


def count(runs: Runs) -> int:
    return sum(high - low + 1 for low, high in runs)


def codes(runs: Runs) -> tuple[int, ...]:
    """The members, one by one."""
    return tuple(code for low, high in runs for code in range(low, high + 1))


def mask(runs: Runs, size: int) -> NDArray[np.bool_]:
    """True at the members."""
    member = np.zeros(size, dtype=bool)
    for low, high in runs:
        member[low : high + 1] = True
    return member


def holds(runs: Runs, column: NDArray[Any], size: int) -> NDArray[np.bool_]:
    """Which of these codes are members."""
    if size <= MOST_LOOKED_UP:
        return mask(runs, size)[column]
    member = np.zeros(len(column), dtype=bool)
    for low, high in runs:
        member |= (column >= low) & (column <= high)
    return member
