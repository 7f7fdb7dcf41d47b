"""One-way tables: smoothed along their codes, and estimated from everything that was measured.

A table of several attributes, added up, is one more measurement of each of its attributes, in the bins of some level.
Bins are nested, so least squares over all of them takes one pass up and one down.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.models.fits import project_simplex
from maquette.queries.marginals import Cuts
from maquette.sculpt.bins import bin_index

# Chosen on the tables of benchmarks/sculpt.py (figures in benchmarks/results/sculpt.jsonl):
_MIN_SMOOTHED = 10
"""One-way tables of so few cells are projected and not smoothed."""
_SHIFTS = 16
"""Shifts over which the wavelet estimate is averaged."""
# A limit of time:
_MAX_QUADRATIC = 2048
"""Cells up to which the piecewise-constant fit is run, whose time is quadratic."""


class BinSums(NamedTuple):
    """Another measurement of one attribute: the sums of a wider table in bins, with the variance of each."""

    cut: Cuts
    counts: NDArray[np.float64]
    variances: NDArray[np.float64]


def combine_levels(
    counts: NDArray[np.float64], variance: float, sums: Sequence[BinSums], *, total: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The counts of all codes by weighted least squares, and their variances; they add up to the total.

    `counts` are noisy, of one variance; the cuts of `sums` are nested. Upwards, bins are added up and averaged with
    what was measured of them, by precision; downwards, what a bin gained is divided among its parts by their variances.
    Accuracy: the minimum of the weighted squares, since errors of different tables are independent.
    """
    by_cut: dict[Cuts, list[BinSums]] = {}
    for one in sums:
        by_cut.setdefault(one.cut, []).append(one)
    starts: Cuts = tuple(range(len(counts)))
    variances = np.full(len(counts), variance)
    passed: list[tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]] = []
    for cut in sorted(by_cut, key=len, reverse=True):
        parents = bin_index(starts, cut)
        passed.append((counts, variances, parents))
        precisions = 1 / np.bincount(parents, variances)
        weighted = np.bincount(parents, counts) * precisions
        for one in by_cut[cut]:
            precisions = precisions + 1 / one.variances
            weighted = weighted + one.counts / one.variances
        counts, variances, starts = weighted / precisions, 1 / precisions, cut
    shares = variances / variances.sum()
    counts, variances = counts + (total - counts.sum()) * shares, variances * (1 - shares)
    for parts, part_variances, parents in reversed(passed):
        shares = part_variances / np.bincount(parents, part_variances)[parents]
        gained = counts - np.bincount(parents, parts)
        counts = parts + shares * gained[parents]
        variances = part_variances * (1 - shares) + shares**2 * variances[parents]
    return counts, variances


def smooth_one_way(noisy: NDArray[Any], *, deviation: float, total: float) -> NDArray[np.float64]:
    """Non-negative counts of the given total near a noisy table of one attribute.

    The average of two estimates with opposite weaknesses: the best piecewise-constant fit (dynamic programming, each
    piece shrunk towards its mean after James and Stein), and translation-invariant Haar wavelets with the universal
    hard threshold (Coifman and Donoho 1995). Both use that neighbouring codes tend to have similar counts; where that
    is not so they keep what stands out of the noise.
    """
    values = np.asarray(noisy, dtype=np.float64)
    if len(values) > _MIN_SMOOTHED:
        smooth = _wavelet_fit(values, deviation)
        values = (smooth + _piecewise_fit(values, deviation)) / 2 if len(values) <= _MAX_QUADRATIC else smooth
    return project_simplex(values, total=total)


def _piecewise_fit(values: NDArray[np.float64], deviation: float) -> NDArray[np.float64]:
    """The best piecewise-constant fit at a penalty of log K + 1 per piece, each piece shrunk towards its mean."""
    starts = _piece_starts(values / deviation, math.log(len(values)) + 1)
    estimate = np.empty_like(values)
    stop = len(values)
    while stop > 0:
        start = int(starts[stop])
        piece = values[start:stop]
        mean = piece.mean()
        estimate[start:stop] = mean + _signal_share(piece - mean, deviation) * (piece - mean)
        stop = start
    return estimate


def _signal_share(centred: NDArray[np.float64], deviation: float) -> float:
    """The share of a piece's variation that is signal, after James and Stein; fixed for pieces of up to three cells."""
    if len(centred) <= 3:
        return 1.0 if len(centred) == 1 else 0.5
    squares = float((centred**2).sum())
    return max(0.0, 1 - (len(centred) - 1) * deviation**2 / squares) if squares > 0 else 0.0


def _piece_starts(values: NDArray[np.float64], penalty: float) -> NDArray[np.int64]:
    """For every stop (0..K) the start of the last piece of the cheapest partition; quadratic time.

    `values` (K) are noisy counts in deviations of their noise. A piece costs its squared distance to its own mean plus
    `penalty`. One step finds the best start for one stop, given the best costs of all earlier stops.
    """
    sums, squares = (np.concatenate([[0.0], np.cumsum(terms)]) for terms in (values, values * values))
    best = np.zeros(len(values) + 1)
    starts = np.zeros(len(values) + 1, dtype=np.int64)
    lengths = np.arange(len(values), 0, -1.0)
    for stop in range(1, len(values) + 1):
        inside = sums[stop] - sums[:stop]
        costs = best[:stop] + squares[stop] - squares[:stop] - inside * inside / lengths[-stop:] + penalty
        starts[stop] = costs.argmin()
        best[stop] = costs[starts[stop]]
    return starts


def _wavelet_fit(values: NDArray[np.float64], deviation: float) -> NDArray[np.float64]:
    """Hard-thresholded Haar wavelets, averaged over shifts of the mirrored table."""
    length = len(values)
    period = 2 ** math.ceil(math.log2(2 * length))
    mirrored = np.resize(np.concatenate([values, values[::-1]]), period)
    threshold = deviation * math.sqrt(2 * math.log(length))
    shifts = range(min(_SHIFTS, period // 2))
    total = np.zeros(period)
    for shift in shifts:
        total += np.roll(_threshold_haar(np.roll(mirrored, shift), threshold), -shift)
    return total[:length] / len(shifts)


def _threshold_haar(values: NDArray[np.float64], threshold: float) -> NDArray[np.float64]:
    """Haar transform, details below the threshold set to zero, and back."""
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
