"""Online mechanisms question by question on made-up tables: what was drawn, compared, paid for and learned.

A trace shows what a mechanism must hide (counts, noise, the noisy threshold), so it is for made-up tables only. Its
noise comes from a seeded generator, for the same reason.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from maquette.core import _check
from maquette.core._arguments import checks_arguments
from maquette.errors import ParameterError
from maquette.lessons.laws import MAX_TOY, toy
from maquette.theory import existence, online, tails


@dataclass(frozen=True, slots=True)
class Test:
    """One question of a sparse vector."""

    number: int
    count: int
    noisy: int
    """The count plus noise: what is compared, and never shown."""
    threshold: int
    """The threshold plus noise: drawn once, and never shown."""
    above: bool
    """All that an analyst sees."""
    left: int
    """Answers above that are left after this one."""


@checks_arguments
def sparse_vector_run(
    counts: Sequence[int], *, threshold: int, epsilon: float = 1.0, cap: int = 1, seed: int = 0
) -> list[Test]:
    """A sparse vector over a stream of counts, until `cap` were above; half of epsilon for each kind of noise."""
    _check.positive(epsilon=epsilon)
    _check.whole(cap=cap)
    _check.whole(least=0, seed=seed)
    rng = np.random.default_rng(seed)
    noisy_threshold = threshold + _laplace(rng, 2 / epsilon)
    trace: list[Test] = []
    left = cap
    for number, count in enumerate(counts, start=1):
        noisy = int(count) + _laplace(rng, 4 * cap / epsilon)
        above = noisy >= noisy_threshold
        left -= above
        trace.append(Test(number, int(count), noisy, noisy_threshold, above, left))
        if not left:
            break
    return trace


@dataclass(frozen=True, slots=True)
class Question:
    """One question of private multiplicative weights."""

    number: int
    query: int
    truth: float
    guess: float
    """The hypothesis' own answer."""
    answer: float
    """What is said: the guess, or a paid noisy value where the guess was found to be far off."""
    is_paid: bool
    paid: int
    """Answers paid for so far."""
    potential: float
    """KL(truth || hypothesis) before the question: an update lowers it."""
    hypothesis: tuple[float, ...]
    """After the question."""


@checks_arguments
def private_multiplicative_weights(
    table: Sequence[float],
    queries: Sequence[Sequence[float]],
    *,
    epsilon: float = 1.0,
    beta: float = 0.05,
    seed: int = 0,
) -> list[Question]:
    """PMW on a made-up table with the threshold, noise and step of `theory.online.pmw`, until all positives are used.

    Accuracy: every answer is within that plan's `error`, except with probability beta.
    """
    counts, matrix = toy(table, queries)
    _check.whole(least=0, seed=seed)
    n, truth = float(counts.sum()), counts / counts.sum()
    plan = pmw_plan(table, queries, epsilon=epsilon, beta=beta)
    rng = np.random.default_rng(seed)
    hypothesis = np.full(len(truth), 1 / len(truth))
    threshold = plan.threshold + rng.laplace(scale=plan.threshold_scale) / n
    trace: list[Question] = []
    paid = 0
    for number, weights in enumerate(matrix, start=1):
        right, guess, before = (
            float(weights @ truth),
            float(weights @ hypothesis),
            divergence(truth, hypothesis),
        )
        far = abs(right - guess) + rng.laplace(scale=plan.query_scale) / n >= threshold
        answer = guess
        if far:
            paid += 1
            answer = right + rng.laplace(scale=plan.answer_scale) / n
            hypothesis = hypothesis * np.exp(math.copysign(plan.step, answer - guess) * weights)
            hypothesis /= hypothesis.sum()
        learned = tuple(hypothesis.tolist())
        trace.append(Question(number, number - 1, right, guess, answer, far, paid, before, learned))
        if paid == plan.c:
            break
    return trace


@checks_arguments
def pmw_plan(
    table: Sequence[float], queries: Sequence[Sequence[float]], *, epsilon: float, beta: float
) -> online.Pmw:
    """What a trace of PMW runs with: threshold, scales of noise, how many answers may be paid for, the error."""
    _check.positive(epsilon=epsilon)
    _check.fraction(beta=beta)
    toy(table, queries)
    return online.pmw(
        unit="epsilon",
        price=epsilon,
        n=float(sum(table)),
        log_universe=math.log(len(table)),
        k=len(queries),
        beta=beta,
    )


def _laplace(rng: np.random.Generator, scale: float) -> int:
    """Discrete Laplace noise: the difference of two geometric numbers."""
    if not 1e-9 < scale < 1e9:
        raise ParameterError(f"expected noise of a scale between 1e-9 and 1e9 records, got {scale:g}")
    p = -math.expm1(-1 / scale)
    return int(rng.geometric(p)) - int(rng.geometric(p))


# Runs one can watch: multiplicative weights round by round, the sampling argument, a reconstruction meeting noise.


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


@checks_arguments
def multiplicative_weights(
    table: Sequence[float], queries: Sequence[Sequence[float]], *, gap: float = 0.05, rounds: int = 1000
) -> list[Round]:
    """Non-private multiplicative weights: meet the worst query, update, until no gap exceeds `gap`.

    Accuracy: at most ln|X| / (2 gap^2) updates at step 4 gap (`theory.multiplicative.updates`).
    """
    _check.positive(gap=gap)
    _check.whole(least=0, rounds=rounds)
    counts, matrix = toy(table, queries)
    truth = counts / counts.sum()
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

    @checks_arguments
    def share_within(self, alpha: float) -> float:
        """Of the trials."""
        return sum(one <= alpha for one in self.largest) / len(self.largest)

    @checks_arguments
    def promised_within(self, alpha: float, queries: int) -> float:
        """What Hoeffding and the union bound promise: 1 - 2k exp(-2 m alpha^2), at least 0."""
        _check.positive(alpha=alpha)
        return max(0.0, 1 - queries * tails.hoeffding(rows=self.rows, alpha=alpha))


@checks_arguments
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
    _check.whole(least=0, seed=seed)
    counts, matrix = toy(table, queries)
    truth = counts / counts.sum()
    if rows > MAX_TOY or trials * len(truth) > MAX_TOY:
        raise ParameterError(f"expected at most {MAX_TOY:,} rows and cells of trials: lessons are for toys")
    samples = np.random.default_rng(seed).multinomial(rows, truth, size=trials) / rows
    largest = np.abs((samples - truth) @ matrix.T).max(axis=1)
    bound = existence.sampling(rows=rows, log_queries=math.log(len(matrix)))
    return Sampling(rows, tuple(largest.tolist()), bound)


@dataclass(frozen=True, slots=True)
class Witness:
    """A small database that random draws found, which proves that there is one: the probabilistic method."""

    counts: tuple[int, ...]
    """Its rows in every cell."""
    error: float
    """Its largest error over all queries."""
    draws: int
    """How many samples were drawn until this one."""


@checks_arguments
def witness(
    table: Sequence[float],
    queries: Sequence[Sequence[float]],
    *,
    alpha: float,
    rows: int | None = None,
    seed: int = 0,
) -> Witness:
    """Draw rows of the table until they are within alpha on every query; by default `existence.sampling_rows` of them.

    A sample succeeds with a positive chance, so some sample does; drawing shows which. Nothing here is private.
    """
    _check.positive(alpha=alpha)
    _check.whole(least=0, seed=seed)
    counts, matrix = toy(table, queries)
    if rows is None:
        rows = existence.sampling_rows(alpha=alpha, log_queries=math.log(len(matrix)))
    _check.whole(rows=rows)
    if rows > MAX_TOY:
        raise ParameterError(f"expected at most {MAX_TOY:,} rows: lessons are for toys; take a larger alpha")
    truth, rng = counts / counts.sum(), np.random.default_rng(seed)
    for draws in range(1, MAX_DRAWS + 1):
        sample = rng.multinomial(rows, truth)
        error = float(np.abs(matrix @ (sample / rows - truth)).max())
        if error <= alpha:
            return Witness(tuple(sample.tolist()), error, draws)
    raise ParameterError(f"no {rows:,} rows within {alpha:g} in {MAX_DRAWS:,} draws; take more rows")


MAX_DRAWS = 10_000
"""Samples that are tried for a witness."""


@dataclass(frozen=True, slots=True)
class Puzzle:
    """What it takes to make one new row that passes a check."""

    bits: int
    """Leading zeros that the check asks of a digest."""
    share: float
    """Of the universe's rows that pass."""
    tries: int
    """Rows that were checked until one passed."""


@checks_arguments
def puzzles(bits: Sequence[int] = (2, 4, 6, 8, 10), *, seed: int = 0) -> list[Puzzle]:
    """Why synthetic rows can be hard to make: a check that is quick to run and slow to pass.

    All rows of a private table pass the check, and one counting query asks for the share that does. Synthetic rows
    with a good answer must hold some that pass; copies of private rows are not private, so they are new ones, and
    finding one takes about 2^bits tries. A sum of counts needs no rows and costs nothing of that. A toy, after Ullman
    and Vadhan (2010): the theorem takes digital signatures, and two-way marginals instead of the check.
    """
    _check.whole(least=0, seed=seed)
    if not bits or not all(_check.is_whole(one) and 0 <= one <= MAX_PUZZLE for one in bits):
        raise ParameterError(f"expected numbers of bits from 0 to {MAX_PUZZLE}")
    return [Puzzle(one, 2.0**-one, _tries(one, seed)) for one in bits]


MAX_PUZZLE = 16
"""Bits of a puzzle: about 65,000 digests."""


def _tries(bits: int, seed: int) -> int:
    for tries in itertools.count(1):
        digest = hashlib.sha256(f"{seed} {bits} {tries}".encode()).digest()
        if int.from_bytes(digest[:4], "big") >> (32 - bits) == 0:
            return tries
    raise AssertionError("a search without end ended")


@dataclass(frozen=True, slots=True)
class Attack:
    """How much of a secret a reconstruction finds at one size of noise."""

    noise: float
    """Standard deviation of the noise on every count."""
    recovered: float
    """Share of the secret bits that were guessed right; 1/2 is guessing."""


@checks_arguments
def reconstruction(
    *, people: int = 40, queries: int = 160, noises: Sequence[float] = (0, 1, 2, 4, 8, 16), seed: int = 0
) -> list[Attack]:
    """Random counts of a secret bit, attacked by least squares (Dinur and Nissim 2003): little noise is no shield."""
    _check.whole(people=people, queries=queries)
    _check.whole(least=0, seed=seed)
    if people * queries > MAX_TOY:
        raise ParameterError(f"expected at most {MAX_TOY:,} answers of people: lessons are for toys")
    for noise in noises:
        _check.not_negative(noise=noise)
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
