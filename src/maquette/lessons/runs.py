"""Runs one can watch: multiplicative weights round by round, the sampling argument, a reconstruction meeting noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from maquette import _check
from maquette.theory import existence


@dataclass(frozen=True, slots=True)
class Round:
    """One update of multiplicative weights."""

    number: int
    query: int
    gap: float
    """True minus guessed share, before the update."""
    potential: float
    """KL(truth || hypothesis) before the update: it falls by 2 gap^2 at least, from ln|X| at most."""
    hypothesis: tuple[float, ...]
    """After the update."""


def multiplicative_weights(
    table: Sequence[float], queries: Sequence[Sequence[float]], *, gap: float = 0.05, rounds: int = 1000
) -> list[Round]:
    """Non-private multiplicative weights: meet the worst query, update, until no gap exceeds `gap`.

    Accuracy: at most ln|X| / (2 gap^2) updates at step 4 gap (`theory.multiplicative.updates`).
    """
    _check.positive(gap=gap)
    truth = np.asarray(table, dtype=float) / sum(table)
    matrix = np.asarray(queries, dtype=float)
    hypothesis = np.full(len(truth), 1 / len(truth))
    trace: list[Round] = []
    for number in range(1, rounds + 1):
        gaps = matrix @ (truth - hypothesis)
        worst = int(np.abs(gaps).argmax())
        if abs(gaps[worst]) <= gap:
            break
        before = divergence(truth, hypothesis)
        hypothesis = hypothesis * np.exp(4 * gap * np.sign(gaps[worst]) * matrix[worst])
        hypothesis /= hypothesis.sum()
        trace.append(Round(number, worst, float(gaps[worst]), before, tuple(hypothesis.tolist())))
    return trace


@dataclass(frozen=True, slots=True)
class Sampling:
    """How near m sampled rows come to the table, often tried, against the union bound."""

    rows: int
    largest: tuple[float, ...]
    """The largest error over all queries in every trial."""
    bound: float
    """Some sample is within this: sqrt(ln(2k) / (2m))."""

    def share_within(self, alpha: float) -> float:
        """Of the trials."""
        return sum(one <= alpha for one in self.largest) / len(self.largest)

    def promised_within(self, alpha: float, queries: int) -> float:
        """What Hoeffding and the union bound promise: 1 - 2k exp(-2 m alpha^2), at least 0."""
        return max(0.0, 1 - 2 * queries * math.exp(-2 * self.rows * alpha**2))


def sampling(
    table: Sequence[float],
    queries: Sequence[Sequence[float]],
    *,
    rows: int,
    trials: int = 200,
    seed: int = 0,
) -> Sampling:
    """The argument behind SmallDB: draw m rows of the table at random, and look at the worst query."""
    _check.whole(rows=rows, trials=trials)
    truth = np.asarray(table, dtype=float) / sum(table)
    matrix = np.asarray(queries, dtype=float)
    samples = np.random.default_rng(seed).multinomial(rows, truth, size=trials) / rows
    largest = np.abs((samples - truth) @ matrix.T).max(axis=1)
    bound = existence.sampling(rows=rows, log_queries=math.log(len(matrix)))
    return Sampling(rows, tuple(largest.tolist()), bound)


@dataclass(frozen=True, slots=True)
class Attack:
    """How much of a secret a reconstruction finds at one size of noise."""

    noise: float
    """Standard deviation of the noise on every count."""
    recovered: float
    """Share of the secret bits that were guessed right; 1/2 is guessing."""


def reconstruction(
    *, people: int = 40, queries: int = 160, noises: Sequence[float] = (0, 1, 2, 4, 8, 16), seed: int = 0
) -> list[Attack]:
    """Random counts of a secret bit, attacked by least squares (Dinur and Nissim 2003): little noise is no shield."""
    _check.whole(people=people, queries=queries)
    rng = np.random.default_rng(seed)
    secret = rng.integers(0, 2, people)
    matrix = rng.integers(0, 2, (queries, people))
    attacks: list[Attack] = []
    for noise in noises:
        answers = matrix @ secret + noise * rng.standard_normal(queries)
        guess = np.linalg.lstsq(matrix.astype(float), answers, rcond=None)[0] > 0.5
        attacks.append(Attack(float(noise), float((guess == secret.astype(bool)).mean())))
    return attacks


def divergence(truth: np.ndarray, hypothesis: np.ndarray) -> float:
    """KL(truth || hypothesis) in nats."""
    inside = truth > 0
    return float((truth[inside] * np.log(truth[inside] / hypothesis[inside])).sum())
