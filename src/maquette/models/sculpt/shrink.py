"""How much of what a noisy table says beyond what was expected is taken for real: empirical Bayes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Variance = float | NDArray[np.float64]
"""Of the noise, the same in all cells or by cell."""

_LEAST, _MOST = 1e-3, 25.0
_PLAIN, _MOST_PLAIN = 4.0, 1e4
"""Deviations from what was expected that are no chance, and the largest tau^2 of such a cell."""
_ROUNDS = 30
_GUESS = 0.25
"""The squared prior deviation that weighs the cells while tau is estimated."""


def freedom_squared(noisy: NDArray[Any], expected: NDArray[np.float64], *, variance: Variance) -> float:
    """tau^2: the mean squared log-interaction of a table against what was expected, noise taken off.

    A weighted mean of ((Y - E)^2 - variance) / E^2; cells that the noise drowns count little.
    """
    expected = expected + 1.0
    weights = expected**2 / (_GUESS * expected**2 + variance)
    surplus = ((noisy - expected) ** 2 - variance) / expected**2
    return float(np.clip((weights * surplus).sum() / weights.sum(), _LEAST, _MOST))


def freedoms_squared(
    noisy: NDArray[Any], expected: NDArray[np.float64], *, variance: Variance
) -> NDArray[np.float64]:
    """tau^2 of every cell: that of the table, and more where a cell by itself is plainly not as expected.

    Most tables have a few cells that stand far out of the rest (hardly anybody is both); what holds for the rest would
    pull them back.
    """
    common = freedom_squared(noisy, expected, variance=variance)
    expected, deviation = expected + 1.0, np.sqrt(variance)
    gaps = np.abs(noisy - expected)
    own = ((gaps - deviation) / expected) ** 2
    return np.where(gaps > _PLAIN * deviation, np.maximum(common, np.minimum(own, _MOST_PLAIN)), common)


def shrunk(noisy: NDArray[Any], expected: NDArray[np.float64], *, variance: Variance) -> NDArray[np.float64]:
    """The posterior mean of a table's counts, not negative."""
    expected = expected + 1.0
    real = freedoms_squared(noisy, expected - 1.0, variance=variance) * expected**2
    return np.maximum(expected + real / (real + variance) * (noisy - expected), 0.0)


def fitted(table: NDArray[np.float64], rows: NDArray[Any], columns: NDArray[Any]) -> NDArray[np.float64]:
    """A two-way table scaled to given one-way counts by iterative proportional fitting."""
    table = np.maximum(table, 0.0) + 1e-9
    for _ in range(_ROUNDS):
        table *= (rows / np.maximum(table.sum(axis=1), 1e-12))[:, None]
        table *= columns / np.maximum(table.sum(axis=0), 1e-12)
    return table
