"""The interaction of a two-way table: alike in neighbouring bins, but for cells that stand out.

A table is shrunk towards the product of its one-way tables. How far a cell departs from that is, as a fraction of the
product, a Gaussian process along both attributes: in bins of an ordered attribute departures change slowly, in those of
a nominal one they don't, and the evidence says which. Covariances are products of one matrix for either attribute, as
the expected counts are, so that everything happens in the eigenvectors of two small matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Chosen on the tuning half of benchmarks/families:
_LENGTHS = (0.0, 2.0, 6.0)
"""Bins over which departures are alike; 0: not at all."""
_DEVIATIONS = (0.01, 0.03, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""tau: of a departure, as a fraction of the product; evenly spread (in steps that double, larger ones count more)."""
_STANDS_OUT = 3.5
"""Deviations from what the other cells predict, from which on a cell speaks for itself."""
_ROUNDS = 2
"""In which cells that stand out are set aside."""
_MAX_OUTLIERS = 0.1
"""Of all cells, in a round."""
_FEW_BINS = 4
"""Of an attribute, below which they have no neighbours to speak of."""
_LEAST_INFORMATION = 1e-3
"""Of what a cell says together with its neighbours, by what its prior says."""
# A limit of time and memory:
_MAX_CELLS = 2**14
"""Of a table that is smoothed: a tenth of a second and some 50 megabytes."""


class Bases(NamedTuple):
    """Eigenvalues (lengths, K) and eigenvectors (lengths, K, K) of the covariances along one attribute."""

    values: NDArray[np.float64]
    vectors: NDArray[np.float64]


BasisCache = dict[bytes, Bases]
"""Bases by the counts along the attribute: many tables share a few."""


@dataclass(frozen=True, slots=True, eq=False)
class Departures:
    """A table as if its cells had been measured with the help of their neighbours, and independently; (K, L)."""

    counts: NDArray[np.float64]
    variances: NDArray[np.float64]
    prior_variance: float
    """tau^2."""
    outliers: NDArray[np.bool_]
    """Cells that were set aside: as they were measured."""


def has_neighbours(bins: Sequence[int]) -> bool:
    """Is a table of so many bins along each attribute worth smoothing?"""
    return len(bins) == 2 and max(bins) >= _FEW_BINS and prod(bins) <= _MAX_CELLS


def departures(
    noisy: NDArray[np.float64],
    prior: NDArray[np.float64],
    *,
    variance: float,
    cache: BasisCache | None = None,
) -> Departures:
    """What a noisy table (K, L) says of every cell, with what its neighbours say of it.

    `prior` is the product of its margins, `variance` that of the noise. Combined with a prior of its own for each cell,
    of deviation tau times the product, `counts` and `variances` give the posterior mean and variance of the process.
    `cache` are bases that other tables needed, and is added to.
    """
    cache = {} if cache is None else cache
    total = max(float(prior.sum()), 1.0)
    down, across = (np.maximum(prior.sum(axis=axis), 1.0) for axis in (1, 0))
    bases = _bases(down, cache), _bases(across, cache)
    gaps, outliers = noisy - prior, np.zeros(noisy.shape, dtype=bool)
    room = max(1, int(_MAX_OUTLIERS * gaps.size))
    fit, leverage, tau = _evidence_average(gaps, bases, total=total, variance=variance)
    for _ in range(_ROUNDS):
        standing = np.abs(gaps - fit) / np.sqrt(variance * np.where(outliers, 1 + leverage, 1 - leverage))
        standing_out = standing > max(_STANDS_OUT, float(np.partition(standing.ravel(), -room)[-room]) - 1e-9)
        if not (standing_out & ~outliers).any():
            break
        # a cell that is set aside counts as what the others predict, or at first as nothing
        filled = np.where(standing_out, np.where(outliers, fit, 0.0), gaps)
        outliers = standing_out
        fit, leverage, tau = _evidence_average(filled, bases, total=total, variance=variance)
    own = tau * (np.outer(down, across) / total) ** 2
    posterior = np.minimum(variance * leverage, own / (1 + _LEAST_INFORMATION))
    precision = 1 / posterior - 1 / own
    counts = np.where(outliers, noisy, prior + fit / (posterior * precision))
    return Departures(counts, np.where(outliers, variance, 1 / precision), tau, outliers)


def _bases(counts: NDArray[np.float64], cache: BasisCache) -> Bases:
    """Of the covariances along one attribute, by its one-way counts."""
    key = counts.tobytes()
    if key in cache:
        return cache[key]
    places = np.arange(len(counts))
    distances = np.abs(np.subtract.outer(places, places))
    lengths = _LENGTHS if len(counts) >= _FEW_BINS else _LENGTHS[:1]
    alike = [np.exp(-distances / length) if length else np.eye(len(counts)) for length in lengths]
    values, vectors = np.linalg.eigh(np.outer(counts, counts) * np.array(alike))
    cache[key] = Bases(np.maximum(values, 0.0), vectors)
    return cache[key]


def _evidence_average(
    gaps: NDArray[np.float64], bases: tuple[Bases, Bases], *, total: float, variance: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """The posterior mean of the gaps, its variance by that of the noise, and tau^2: averages by marginal likelihood.

    Axes are: tau, the length down, the length across, and both attributes.
    """
    taus = np.array(_DEVIATIONS) ** 2
    down, across = bases[0].vectors[:, None], bases[1].vectors[None]
    signal = bases[0].values[:, None, :, None] * bases[1].values[None, :, None, :] / (total**2 * variance)
    along = down.swapaxes(-1, -2) @ gaps @ across
    variances = taus[:, None, None, None, None] * signal
    evidence = -0.5 * (np.log1p(variances) + along**2 / variance / (1 + variances)).sum(axis=(-1, -2))
    weights = np.exp(evidence - evidence.max()) * np.sqrt(taus)[:, None, None]
    weights /= weights.sum()
    shares = (weights[..., None, None] * variances / (1 + variances)).sum(axis=0)
    fit = (down @ (shares * along) @ across.swapaxes(-1, -2)).sum(axis=(0, 1))
    leverage = (down**2 @ shares @ across.swapaxes(-1, -2) ** 2).sum(axis=(0, 1))
    return fit, np.clip(leverage, 1e-6, 0.999), float((weights.sum(axis=(1, 2)) * taus).sum())
