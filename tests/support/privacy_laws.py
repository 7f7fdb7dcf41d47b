"""The laws of the noise once more, independently: weights in high-precision decimals, probabilities in doubles."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

DIGITS = 160


def decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def half_gaussian(sigma_squared: Fraction, j: int) -> Decimal:
    if j == 0:
        return Decimal(1)
    return 2 * (-Decimal(j * j) / (2 * decimal(sigma_squared))).exp()


def geometric(rate: Fraction, j: int) -> Decimal:
    return (-j * decimal(rate)).exp()


def cube_radius(k: int, base: Fraction, j: int) -> Decimal:
    return Decimal(2 * j + 1) ** k * decimal(base) ** j


@dataclass(frozen=True)
class Reference:
    """A law by its weights, up to the first `stop` of them, or as many as carry all but 10^-100 of it."""

    weight: Callable[[int], Decimal]
    stop: int | None = None

    @cached_property
    def weights(self) -> tuple[Decimal, ...]:
        """Computed when first used: up to 70,000 exponentials of 160 digits."""
        with localcontext() as context:
            context.prec = DIGITS
            weights: list[Decimal] = []
            top = Decimal(0)
            while self.stop is None or len(weights) < self.stop:
                weights.append(self.weight(len(weights)))
                top = max(top, weights[-1])
                falling = len(weights) > 1 and weights[-1] < weights[-2]
                if self.stop is None and falling and weights[-1] * len(weights) < top * Decimal(10) ** -105:
                    break
            return tuple(weights)

    @property
    def total(self) -> Decimal:
        with localcontext() as context:
            context.prec = DIGITS
            return sum(self.weights, Decimal(0))

    def cumulative(self) -> list[Decimal]:
        """P(j <= i) for every i."""
        with localcontext() as context:
            context.prec = DIGITS
            total, sums, running = self.total, [], Decimal(0)
            for weight in self.weights:
                running += weight
                sums.append(running / total)
            return sums

    def invert(self, words: Sequence[int]) -> int:
        """The draw that 64-bit words, read as one binary fraction, stand for."""
        with localcontext() as context:
            context.prec = DIGITS
            point = sum((Decimal(w) / Decimal(2) ** (64 * (i + 1)) for i, w in enumerate(words)), Decimal(0))
            return next(i for i, border in enumerate(self.cumulative()) if point < border)

    def probabilities(self) -> NDArray[np.float64]:
        total = self.total
        return np.array([float(w / total) for w in self.weights])


@dataclass(frozen=True)
class Pmf:
    """Probabilities of the whole numbers from `first` on."""

    first: int
    probabilities: NDArray[np.float64]

    @property
    def support(self) -> NDArray[np.int64]:
        return self.first + np.arange(len(self.probabilities))

    def mean(self, statistic) -> tuple[float, float]:
        """Mean and standard deviation of a statistic."""
        values = statistic(self.support.astype(float))
        mean = float(values @ self.probabilities)
        return mean, math.sqrt(max(float(values**2 @ self.probabilities) - mean**2, 0.0))


def laplace_pmf(scale: float) -> Pmf:
    reach = math.ceil(60 * scale) + 2
    support = np.arange(-reach, reach + 1)
    weights = np.exp(-np.abs(support) / scale)
    return Pmf(-reach, weights / weights.sum())


def gaussian_pmf(sigma: float) -> Pmf:
    reach = math.ceil(15 * sigma) + 2
    support = np.arange(-reach, reach + 1)
    weights = np.exp(-(support.astype(float) ** 2) / (2 * sigma**2))
    return Pmf(-reach, weights / weights.sum())


def cube_norm_pmf(k: int, epsilon: float) -> Pmf:
    """max|z| of the L-infinity law: shells of the cube times exp(-epsilon r)."""
    reach = math.ceil((k + 60 + 12 * math.sqrt(k)) / epsilon) + 2
    r = np.arange(reach)
    logs = k * np.log(2 * r + 1) - epsilon * r
    inner = np.where(r > 0, np.exp(k * (np.log(np.maximum(2 * r - 1, 1)) - np.log(2 * r + 1))), 0.0)
    weights = np.exp(logs - logs.max()) * (1 - inner)
    return Pmf(0, weights / weights.sum())
