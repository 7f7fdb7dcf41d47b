"""Noisy one-way tables made smooth where that is likely to help.

The average of two estimates with opposite weaknesses: the best piecewise-constant fit (dynamic programming, each
piece shrunk towards its mean after James and Stein), and translation-invariant Haar wavelets with the universal hard
threshold (Coifman and Donoho 1995). Both use that neighbouring codes tend to have similar counts; where that is not
so they keep what stands out of the noise.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from maquette.models.simplex import simplex_shift

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
