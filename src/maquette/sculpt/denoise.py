"""Noisy one-way tables made smooth where that is likely to help.

The average of two estimates with opposite weaknesses: the best piecewise-constant fit (dynamic programming, each
piece shrunk towards its mean after James and Stein), and translation-invariant Haar wavelets with the universal hard
threshold (Coifman and Donoho 1995). Both use that neighbouring codes tend to have similar counts; where that is not
so they keep what stands out of the noise.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette import _lazy_numba as numba
from maquette.models.fits import simplex_shift

SMALL = 10
"""Tables of so few cells are only projected."""
_LONGEST_FIT = 2048
"""Cells up to which the quadratic fit is run."""
_SHIFTS = 16


def denoise(noisy: NDArray[Any], *, deviation: float, total: float) -> NDArray[np.float64]:
    """Non-negative counts of the given total near a noisy table of one attribute."""
    values = np.asarray(noisy, dtype=np.float64)
    if len(values) > SMALL:
        smooth = _haar(values, deviation)
        values = (smooth + _pieces(values, deviation)) / 2 if len(values) <= _LONGEST_FIT else smooth
    return np.maximum(values - simplex_shift(values, total=total), 0.0)


def _pieces(values: NDArray[np.float64], deviation: float) -> NDArray[np.float64]:
    """The best piecewise-constant fit at a price of log K + 1 per piece, each piece shrunk towards its mean."""
    starts = _best_starts(values / deviation, math.log(len(values)) + 1)
    found = np.empty_like(values)
    stop = len(values)
    while stop > 0:
        start = int(starts[stop])
        piece = values[start:stop]
        found[start:stop] = piece.mean() + _kept(piece, deviation) * (piece - piece.mean())
        stop = start
    return found


def _kept(piece: NDArray[np.float64], deviation: float) -> float:
    """The share of a piece's spread that is taken for real."""
    if len(piece) <= 3:
        return 1.0 if len(piece) == 1 else 0.5
    spread = float(((piece - piece.mean()) ** 2).sum())
    return max(0.0, 1 - (len(piece) - 1) * deviation**2 / spread) if spread > 0 else 0.0


@numba.njit(cache=True, nogil=True)
def _best_starts(values: Any, price: float) -> Any:
    """For every stop the start of the last piece of the cheapest cut; quadratic time."""
    m = values.shape[0]
    sums = np.zeros(m + 1)
    squares = np.zeros(m + 1)
    for i in range(m):
        sums[i + 1] = sums[i] + values[i]
        squares[i + 1] = squares[i] + values[i] * values[i]
    best = np.full(m + 1, np.inf)
    best[0] = 0.0
    starts = np.zeros(m + 1, np.int64)
    for stop in range(1, m + 1):
        for start in range(stop):
            inside = sums[stop] - sums[start]
            cost = best[start] + squares[stop] - squares[start] - inside * inside / (stop - start) + price
            if cost < best[stop]:
                best[stop] = cost
                starts[stop] = start
    return starts


def _haar(values: NDArray[np.float64], deviation: float) -> NDArray[np.float64]:
    """Hard-thresholded Haar wavelets, averaged over shifts of the mirrored table."""
    length = len(values)
    whole = 2 ** math.ceil(math.log2(2 * length))
    mirrored = np.resize(np.concatenate([values, values[::-1]]), whole)
    threshold = deviation * math.sqrt(2 * math.log(length))
    shifts = range(min(_SHIFTS, whole // 2))
    total = np.zeros(whole)
    for shift in shifts:
        total += np.roll(_thresholded(np.roll(mirrored, shift), threshold), -shift)
    return total[:length] / len(shifts)


def _thresholded(values: NDArray[np.float64], threshold: float) -> NDArray[np.float64]:
    details: list[NDArray[np.float64]] = []
    root = math.sqrt(2)
    while len(values) > 4:
        detail = (values[0::2] - values[1::2]) / root
        details.append(np.where(np.abs(detail) > threshold, detail, 0.0))
        values = (values[0::2] + values[1::2]) / root
    for detail in reversed(details):
        finer = np.empty(2 * len(values))
        finer[0::2], finer[1::2] = (values + detail) / root, (values - detail) / root
        values = finer
    return values


# How much of what a noisy table says beyond what was expected is taken for real: empirical Bayes.

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
