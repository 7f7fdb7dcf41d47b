"""Tests of samples against exact laws, at a stated false-alarm rate, with the power to see a scale 5 % off."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from support.privacy_laws import Pmf

FALSE_ALARM = 1e-6
CONFIDENCE = 1e-10
"""Of each end of a bound from below on epsilon."""


def bound_from_below(here: NDArray[np.float64], there: NDArray[np.float64]) -> float:
    """What epsilon is at least: the best half line on the first halves of two samples, tested on the second."""
    half = len(here) // 2
    cuts = np.quantile(np.concatenate([here[:half], there[:half]]), np.linspace(0.05, 0.95, 19))
    cut = max(
        cuts, key=lambda c: least_epsilon(int((here[:half] > c).sum()), int((there[:half] > c).sum()), half)
    )
    return least_epsilon(int((here[half:] > cut).sum()), int((there[half:] > cut).sum()), len(here) - half)


def least_epsilon(hits: int, misses: int, of: int) -> float:
    """The log ratio of an event's chance on two tables, from below: it happened in so many of these runs of each."""
    low = float(stats.beta.ppf(CONFIDENCE, hits, of - hits + 1)) if hits else 0.0
    high = float(stats.beta.isf(CONFIDENCE, misses + 1, of - misses)) if misses < of else 1.0
    return math.log(low / high) if low > 0 else -math.inf


def chi_square(sample: NDArray[np.int64], law: Pmf, *, bins: int = 64) -> float:
    """p-value of a chi-square test over neighbouring values merged to at most `bins`, each expected >= 5."""
    expected = law.probabilities * len(sample)
    index = sample - law.first
    inside = (index >= 0) & (index < len(expected))
    observed = np.bincount(index[inside], minlength=len(expected)).astype(float)
    observed[-1] += np.count_nonzero(~inside)
    edges = _edges(expected, max(5.0, len(sample) / bins))
    expected, observed = np.add.reduceat(expected, edges), np.add.reduceat(observed, edges)
    if len(expected) == 1:
        return 1.0
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return float(stats.chi2.sf(statistic, len(expected) - 1))


def _edges(expected: NDArray[np.float64], least: float) -> list[int]:
    """Starts of merged bins that each expect at least `least`."""
    edges, filled = [0], 0.0
    rest = float(expected.sum())
    for i, mass in enumerate(expected):
        if filled >= least and rest >= least:
            edges.append(i)
            filled = 0.0
        filled += mass
        rest -= mass
    return edges


def moment(sample: NDArray[np.int64], law: Pmf, statistic) -> float:
    """Two-sided p-value of the mean of a statistic."""
    mean, deviation = law.mean(statistic)
    z = (float(np.mean(statistic(sample.astype(float)))) - mean) / (deviation / math.sqrt(len(sample)))
    return 2 * float(stats.norm.sf(abs(z)))


def fits(sample: NDArray[np.int64], law: Pmf, *, statistic) -> bool:
    """Does the sample come from the law? False alarms at 1e-6, split over shape (coarse and fine) and scale."""
    return (
        min(
            chi_square(sample, law),
            chi_square(sample, law, bins=2000),
            moment(sample, law, statistic),
        )
        > FALSE_ALARM / 3
    )


def fits_laplace(sample: NDArray[np.int64], law: Pmf) -> bool:
    return fits(sample, law, statistic=np.abs)


def fits_gaussian(sample: NDArray[np.int64], law: Pmf) -> bool:
    return fits(sample, law, statistic=np.square)
