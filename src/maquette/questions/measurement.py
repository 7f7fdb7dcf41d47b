"""What the gate hands out: noisy counts, the law of their noise, and the receipt that they were paid for."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.queries.base import Margin, Queries
from maquette.queries.marginals import Binned
from maquette.questions.noise import IndependentLaw, NoiseLaw
from maquette.receipt import Receipt


@dataclass(frozen=True, slots=True, eq=False)
class Measurement:
    """Noisy answers to a class of queries. `values` are whole numbers over `queries.denominator`."""

    queries: Queries
    values: NDArray[np.int64]
    noise: NoiseLaw
    receipt: Receipt

    @property
    def counts(self) -> NDArray[np.float64]:
        """The noisy answers as counts."""
        return self.values / self.queries.denominator


@dataclass(frozen=True, slots=True, eq=False)
class NoisyCounts:
    """Counts of records, or errors in counts, plus noise that is drawn for each number alone."""

    values: NDArray[np.int64]
    noise: IndependentLaw
    receipt: Receipt


@dataclass(frozen=True, slots=True, eq=False)
class NoisyTable:
    """A table in bins plus noise; `values` are flat whole counts."""

    binned: Binned
    values: NDArray[np.int64]
    variance: Fraction
    """Of the noise in every bin, by the parameter of its law."""
    receipt: Receipt


@dataclass(frozen=True, slots=True, eq=False)
class Residual:
    """The noisy residual of one margin: its table plus noise, with the mean over each axis in `axes` removed.

    `values` are whole numbers; divide by `denominator` (the product of the sizes of `axes`). On the axes that
    were not removed before release, remove the mean on use: that is post-processing.
    """

    margin: Margin
    axes: tuple[int, ...]
    values: NDArray[np.int64]
    denominator: int
    variance: Fraction
    """Variance parameter of the integer noise that was added to every cell before the projection."""
    receipt: Receipt


@dataclass(frozen=True, slots=True)
class Size:
    """The number of records: exact where it is public, a paid noisy value where it is private."""

    value: int
    noise: IndependentLaw | None
    receipt: Receipt | None
    unpaid: bool = False
    """Private, and nothing was paid for it: the value is 0 and says nothing."""

    @property
    def public(self) -> bool:
        return self.noise is None and not self.unpaid

    @property
    def known(self) -> bool:
        """Deprecated: the opposite of `unpaid`."""
        warnings.warn("Size.known is deprecated; use `not size.unpaid`", DeprecationWarning, stacklevel=2)
        return not self.unpaid

    @classmethod
    def of(cls, paid: NoisyCounts) -> Size:
        """Private, and paid for: one noisy number."""
        return cls(int(paid.values[0]), paid.noise, paid.receipt)

    @classmethod
    def unknown(cls) -> Size:
        """Private, and nothing was paid for it."""
        return cls(0, None, None, unpaid=True)

    @property
    def divisor(self) -> int:
        """The value to divide by: at least 1, clamped after the noise."""
        return max(self.value, 1)

    def to_json(self) -> dict[str, Any]:
        """What is stored of it beside a model; where it was paid is in the release file."""
        return {"value": self.value, "noise": None if self.noise is None else self.noise.to_dict()}


# What the gate hands out when it tests a guess against the table: the public side of a sparse-vector epoch.


@dataclass(frozen=True, slots=True)
class EpochTerms:
    """What an epoch is asked for. Public: functions of public inputs and released values."""

    threshold: int
    """A guess is far off if it misses by about this many records or more."""
    cap: int
    """After this many guesses far off the epoch is closed."""
    threshold_price: Fraction
    """Pure epsilon of the noise on the threshold."""
    test_price: Fraction
    """Pure epsilon of all tests together."""
    answer_price: Fraction | None
    """What noisy values of the guesses far off cost together, in the curator's unit; None for the tests alone."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """An epoch that was paid for. The noisy threshold itself stays in the gate."""

    terms: EpochTerms
    threshold_scale: Fraction
    """Of the discrete Laplace noise on the threshold, in counts."""
    test_scale: Fraction
    """Of the discrete Laplace noise on each test, in counts."""
    answer_noise: IndependentLaw | None
    """The law of the noise on the values of guesses far off, in counts."""
    receipt: Receipt


@dataclass(frozen=True, slots=True)
class GuessOutcome:
    """What the test of a guess said: near enough, or far off with a fresh noisy value over the query's denominator."""

    far: bool
    value: int | None
    receipt: Receipt
