"""What the gate hands out when it tests a guess against the table: the public side of a sparse-vector epoch."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from maquette.models.measurement import Noise, Receipt


@dataclass(frozen=True, slots=True)
class Terms:
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

    terms: Terms
    threshold_scale: Fraction
    """Of the discrete Laplace noise on the threshold, in counts."""
    test_scale: Fraction
    """Of the discrete Laplace noise on each test, in counts."""
    answer_noise: Noise | None
    """The law of the noise on the values of guesses far off, in counts."""
    receipt: Receipt


@dataclass(frozen=True, slots=True)
class Tested:
    """One guess, tested: near enough, or far off with a fresh noisy value over the query's denominator."""

    far: bool
    value: int | None
    receipt: Receipt
