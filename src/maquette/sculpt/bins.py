"""Attributes one by one: nested bins, in which tables are measured, and one-way counts by everything measured of them.

Everything here follows from released counts. A *code* is a value of the declared domain; a *row code* is a bin of the
finest level, which is what the synthetic rows hold until they are decoded.

One-way tables are smoothed along their codes. A table of several attributes, added up, is one more measurement of each
of its attributes, in the bins of some level. Bins are nested, so least squares over all of them takes one pass up and
one down.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.core.binned import Binned, Cuts
from maquette.domain import Domain
from maquette.models.fits import project_simplex
from maquette.queries.rows import Margin

LEVEL_BINS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Bins of the coarser levels: two steps to each power of two."""
MAX_ROW_CODES = 512
"""Bins of the finest level; inside one of them, values follow the one-way table alone."""
MAX_DENSE_CODES = 4_096
"""The same where whole marginals are measured, in which every code of a large attribute says something of its own."""
_SPIKE, _SPIKED_CODES = 4.0, 8
"""A bin of so many codes counts at least so many times its heaviest one when the next bin to cut is chosen. What is
missing in one column is often missing in another, and is one code among thousands (tuning half of benchmarks/families
and its real tables, 26 cells 2@1 and 3@1, four seeds: largest error 0.96 times, mean L1 1.00; Adult 0.92 and 0.82,
salary 0.97 and 0.51. In bins of fewer codes, too, the largest error was 1.02 times)."""

Levels = tuple[int, ...]
"""One resolution per attribute of a table: 0 is the finest."""
# Chosen on the tables of benchmarks/sculpt.py (figures in benchmarks/results/sculpt.jsonl):
_MIN_SMOOTHED = 10
"""One-way tables of so few cells are at most shrunk towards their mean, not smoothed."""
_SHIFTS = 16
"""Shifts over which the wavelet estimate is averaged."""
# Chosen on the tuning half of benchmarks/families; the rest of them on its one-way tables, for the Gaussian process:
_DROWNED = 3.0
"""The mean square of small tables, in variances, below which they are shrunk; without a limit largest errors rose."""
_LENGTHS = (1.5, 3.0, 6.0, 12.0, 24.0)
"""Codes over which counts are alike."""
_AMPLITUDES = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Deviations of the smooth part, by the level of the counts."""
_ROUGHNESS = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0)
"""Deviations of what single codes add to it, by the mean level."""
_LEVEL_WIDTH = 3.0
"""Codes over which the level is averaged."""
_STANDS_OUT = 3.5
"""Deviations from what the other codes predict, from which on a code is kept as measured."""
_PROCESS_ROUNDS = 5
"""In which codes that stand out are set aside, at most a sixteenth of all in each."""
# Limits of time:
_MAX_QUADRATIC = 2048
"""Cells up to which the piecewise-constant fit is run, whose time is quadratic."""
_MAX_CUBIC = 300
"""Cells up to which the Gaussian process is fitted, whose time is cubic."""


class Shape(NamedTuple):
    """One table: which attributes (by place in the domain), at which levels."""

    attributes: tuple[int, ...]
    levels: Levels


class HeaviestCodes(NamedTuple):
    """The largest share of all records that a code of an attribute holds."""

    overall: float
    sharing: tuple[float, ...]
    """By level: the largest among codes that share a bin with others."""


def nested_cuts(counts: NDArray[np.float64], *, max_codes: int = MAX_ROW_CODES) -> tuple[Cuts, ...]:
    """Partitions of one attribute into fewer and fewer bins, each nested in the one before; the first is the finest.

    The heaviest bin is cut at its weighted median, again and again: heavy single values get a bin of their own, sooner
    where they hide among many light ones.
    """
    size = len(counts)
    below = np.concatenate([[0.0], np.cumsum(counts)])
    steps = [step for step in LEVEL_BINS if step < min(size, max_codes)]
    if size > max_codes:
        steps.append(max_codes)

    def weight(low: int, high: int) -> float:
        spike = _SPIKE * float(counts[low:high].max()) if high - low >= _SPIKED_CODES else 0.0
        return max(float(below[high] - below[low]), spike)

    heap = [(-weight(0, size), 0, size)]
    starts = [0]
    levels: list[Cuts] = []
    for step in steps:
        while len(starts) < step:
            _, start, stop = heapq.heappop(heap)
            inner = below[start + 1 : stop]
            median = start + 1 + int(np.argmin(np.abs(2 * inner - below[start] - below[stop])))
            starts.append(median)
            for low, high in ((start, median), (median, stop)):
                if high - low > 1:
                    heapq.heappush(heap, (-weight(low, high), low, high))
        levels.append(tuple(sorted(starts)))
    if size <= max_codes:
        levels.append(tuple(range(size)))
    return tuple(reversed(levels))


@dataclass(frozen=True, slots=True, eq=False)
class Hierarchy:
    """The levels of all attributes of a domain."""

    domain: Domain
    cuts: tuple[tuple[Cuts, ...], ...]
    """By attribute, then by level: the first code of every bin."""

    @classmethod
    def from_counts(
        cls, domain: Domain, counts: Sequence[NDArray[np.float64]], *, max_codes: int = MAX_ROW_CODES
    ) -> Hierarchy:
        """By released one-way counts, one table per attribute; at most so many row codes."""
        return cls(domain, tuple(nested_cuts(table, max_codes=max_codes) for table in counts))

    def bins(self, attribute: int, level: int) -> int:
        return len(self.cuts[attribute][level])

    def level_of(self, attribute: int, max_bins: int) -> int:
        """The finest level of at most so many bins (the coarsest if there is none)."""
        levels = self.cuts[attribute]
        return next((i for i, cut in enumerate(levels) if len(cut) <= max_bins), len(levels) - 1)

    def cells(self, attributes: Sequence[int], levels: Sequence[int]) -> int:
        return math.prod(self.bins(a, level) for a, level in zip(attributes, levels, strict=True))

    def table(self, attributes: Sequence[int], levels: Sequence[int]) -> Binned:
        """The question that the gate answers."""
        margin: Margin = tuple(self.domain.attributes[a].name for a in attributes)
        return Binned(margin, tuple(self.cuts[a][level] for a, level in zip(attributes, levels, strict=True)))

    def is_full(self, attributes: Sequence[int]) -> bool:
        """Is every code of these attributes a row code of its own?"""
        return all(self.bins(a, 0) == self.domain.attributes[a].size for a in attributes)

    def finest_levels(self, attributes: Sequence[int], max_cells: float) -> Levels:
        """The finest levels whose table has at most so many cells; the coarser attribute is refined first."""
        return _finest_levels(tuple(tuple(map(len, self.cuts[a])) for a in attributes), max_cells)

    def heaviest_codes(self, attribute: int, counts: NDArray[np.float64]) -> HeaviestCodes:
        """By the counts of all codes."""
        shares = counts / max(counts.sum(), 1.0)
        sharing: list[float] = []
        for cut in self.cuts[attribute]:
            widths = np.diff([*cut, len(shares)])
            sharing.append(float(shares[np.repeat(widths > 1, widths)].max(initial=0.0)))
        return HeaviestCodes(float(shares.max()), tuple(sharing))

    def resolving_levels(
        self, shape: Shape, heaviest: Sequence[HeaviestCodes], *, limit: float, max_cells: float
    ) -> Levels:
        """Finer levels of a pair, until no cell of two codes that bins hide holds more than a limit, in shares.

        `heaviest` is by attribute; two codes are expected to have the product of their shares. Ends before there are
        more than so many cells.
        """
        attributes, levels = shape
        while True:
            options: list[tuple[float, Levels]] = []
            for axis, level in enumerate(levels):
                own, other = (heaviest[attributes[i]] for i in (axis, 1 - axis))
                hidden = own.sharing[level] * other.overall
                if hidden > limit and level > 0:
                    options.append((hidden, tuple(x - (i == axis) for i, x in enumerate(levels))))
            if not options or self.cells(attributes, max(options)[1]) > max_cells:
                return levels
            levels = max(options)[1]

    def bin_of_row_codes(self, attribute: int, level: int) -> NDArray[np.int64]:
        """The bin of every row code."""
        return bin_index(self.cuts[attribute][0], self.cuts[attribute][level])

    def sum_in_bins(self, attribute: int, level: int, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Counts of codes, added up in the bins of a level."""
        return np.add.reduceat(counts, self.cuts[attribute][level])


def bin_index(fine: Sequence[int], coarse: Sequence[int]) -> NDArray[np.int64]:
    """The coarse bin that holds each fine one; both by the first codes of their bins."""
    return np.searchsorted(np.asarray(coarse), np.asarray(fine), side="right") - 1


@lru_cache(maxsize=2**13)
def _finest_levels(bins_by_level: tuple[tuple[int, ...], ...], max_cells: float) -> Levels:
    """`Hierarchy.finest_levels` by the bins of every level: thousands of tables share a few sizes."""
    levels = [len(sizes) - 1 for sizes in bins_by_level]
    while True:
        bins = [sizes[level] for sizes, level in zip(bins_by_level, levels, strict=True)]
        cells = math.prod(bins)
        candidates = [
            (bins[i], i)
            for i, level in enumerate(levels)
            if level > 0 and cells // bins[i] * bins_by_level[i][level - 1] <= max_cells
        ]
        if not candidates:
            return tuple(levels)
        levels[min(candidates)[1]] -= 1


# One-way tables: smoothed along their codes, and estimated from everything that was measured.


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

    The average of three estimates with different weaknesses: the best piecewise-constant fit (dynamic programming, each
    piece shrunk towards its mean after James and Stein), translation-invariant Haar wavelets with the universal
    hard threshold (Coifman and Donoho 1995), and, twice, a Gaussian process. All use that neighbouring codes tend to
    have similar counts; where that is not so they keep what stands out of the noise. Small tables that noise drowns are
    shrunk towards their mean, and large ones are left to the estimates that time allows.
    """
    values = np.asarray(noisy, dtype=np.float64)
    if len(values) <= _MIN_SMOOTHED:
        return project_simplex(_shrink_to_mean(values, deviation), total=total)
    fits = [_wavelet_fit(values, deviation)]
    if len(values) <= _MAX_QUADRATIC:
        fits.append(_piecewise_fit(values, deviation))
    if len(values) <= _MAX_CUBIC:
        level = project_simplex(np.mean(fits, axis=0), total=total)
        fits += 2 * [_process_fit(values, deviation, level)]
    return project_simplex(np.mean(fits, axis=0), total=total)


def _shrink_to_mean(values: NDArray[np.float64], deviation: float) -> NDArray[np.float64]:
    """Counts that noise drowns, shrunk towards their mean (James and Stein 1961, positive part); others as they are.

    Where single counts stand clear, shrinking would lower the mean error of all by a bias of the largest.
    """
    mean, freedom = values.mean(), len(values) - 2
    squares = float(((values - mean) ** 2).sum()) / deviation**2
    if squares >= _DROWNED * freedom:
        return values
    return mean + max(0.0, 1 - freedom / max(squares, 1e-12)) * (values - mean)


def _process_fit(
    values: NDArray[np.float64], deviation: float, level: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The posterior mean under a Gaussian process along the codes, averaged over its parameters by their evidence.

    The prior deviation of a code goes with the level of its surroundings (`level`: a first estimate), so that a long
    tail is smoother than what lies around the mode. Codes that the others do not predict are set aside and kept as
    measured.
    """
    noisy, level = values / deviation, level / deviation
    codes = np.arange(len(noisy))
    distances = np.abs(np.subtract.outer(codes, codes)).astype(np.float64)
    nearness = np.exp(-0.5 * (distances / _LEVEL_WIDTH) ** 2) + 1e-12
    inside = np.ones(len(noisy), dtype=bool)
    result = noisy
    for _ in range(_PROCESS_ROUNDS):
        rest = np.flatnonzero(inside)
        near = nearness[np.ix_(rest, rest)]
        scale = near @ level[rest] / near.sum(axis=1) + 0.5  # half a deviation where there is nothing
        fit, leverage = _evidence_average(noisy[rest], distances[np.ix_(rest, rest)], scale)
        result = noisy.copy()
        result[rest] = fit
        # the distance from what the other codes predict, in deviations of that distance
        gaps = np.abs(noisy[rest] - fit) / np.sqrt(1 - leverage)
        out = np.argsort(-gaps)[: max(1, len(noisy) // 16)]
        out = out[gaps[out] > _STANDS_OUT]
        if not len(out) or len(rest) - len(out) < 4:
            break
        inside[rest[out]] = False
    return result * deviation


def _evidence_average(
    noisy: NDArray[np.float64], distances: NDArray[np.float64], scale: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The posterior mean of counts with unit noise, and how far each fitted count follows its own measurement.

    Covariances are those of Matern processes (3/2) times `scale` of both codes, plus a variance of each code of its
    own; all combinations of parameters count by their marginal likelihood.
    """
    rough = (np.asarray(_ROUGHNESS) * max(1.0, float(scale.mean()))) ** 2
    smooth = np.asarray(_AMPLITUDES)[:, None] ** 2
    bases: list[NDArray[np.float64]] = []
    shares: list[NDArray[np.float64]] = []
    evidence: list[NDArray[np.float64]] = []
    for length in _LENGTHS:
        reach = math.sqrt(3) * distances / length
        values, basis = np.linalg.eigh(np.outer(scale, scale) * (1 + reach) * np.exp(-reach))
        variances = smooth[:, None] * np.maximum(values, 0.0) + rough[None, :, None]
        along = basis.T @ noisy
        evidence.append(-0.5 * (np.log1p(variances) + along**2 / (1 + variances)).sum(axis=-1))
        bases.append(basis)
        shares.append(variances / (1 + variances))
    weights = np.exp(np.array(evidence) - np.max(evidence))
    weights /= weights.sum()
    fit, leverage = np.zeros(len(noisy)), np.zeros(len(noisy))
    for basis, share, weight in zip(bases, shares, weights, strict=True):
        mean_share = np.einsum("ar,ark->k", weight, share)
        fit += basis @ (mean_share * (basis.T @ noisy))
        leverage += basis**2 @ mean_share
    return fit, np.minimum(leverage, 0.999)


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
