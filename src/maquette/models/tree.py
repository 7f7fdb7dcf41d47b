"""Counts at every level of a tree, made consistent by weighted least squares, and a rising sequence out of prefixes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def widths(size: int, branches: int) -> list[int]:
    """Leaves per node at every level below the root, from the leaves up."""
    found = [1]
    while found[-1] * branches < size:
        found.append(found[-1] * branches)
    return found


def fit(
    levels: Sequence[Floats],
    variances: Sequence[float],
    *,
    branches: int,
    total: float,
    total_variance: float,
) -> Floats:
    """The leaves of the tree that is closest to all measured counts, squares weighted by 1 / variance.

    `levels` run from the leaves up, `total` is the root, exact if its variance is 0. Every node has `branches`
    children, the last one of a level maybe fewer.

    Accuracy: exact least squares, by one pass up (each node's count from its subtree) and one pass down.
    Cost: linear in the number of nodes.
    """
    best, spread = [np.asarray(levels[0], dtype=np.float64)], [np.full(len(levels[0]), variances[0])]
    for measured, variance in zip(levels[1:], variances[1:], strict=True):
        below, spread_below = _summed(best[-1], branches), _summed(spread[-1], branches)
        share = spread_below / (spread_below + variance)
        best.append(share * measured + (1 - share) * below)
        spread.append(share * variance)
    top, top_spread = float(best[-1].sum()), float(spread[-1].sum())
    root = (
        total
        if not total_variance
        else (total * top_spread + top * total_variance) / (top_spread + total_variance)
    )
    fitted = best[-1] + (root - top) * spread[-1] / top_spread
    for below, var in zip(best[-2::-1], spread[-2::-1], strict=True):
        gap = (fitted - _summed(below, branches)) / _summed(var, branches)
        fitted = below + np.repeat(gap, branches)[: len(below)] * var
    return fitted


def rising(values: Floats) -> Floats:
    """Half way between the largest value so far and the smallest to come.

    Accuracy: rises, and is nowhere farther from a rising truth than `values` were at their worst: both halves are
        within that of it.
    """
    return (np.maximum.accumulate(values) + np.minimum.accumulate(values[::-1])[::-1]) / 2


def _summed(values: Floats, branches: int) -> Floats:
    return np.add.reduceat(values, np.arange(0, len(values), branches))
