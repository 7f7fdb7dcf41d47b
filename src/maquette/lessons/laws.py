"""Whole laws of mechanisms on two neighbouring tables, side by side, with the log-ratio that privacy bounds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from maquette.core import _check
from maquette.core._arguments import checks_arguments
from maquette.errors import ParameterError
from maquette.theory import tails

Variant = Literal[
    "right",
    "noise not scaled by the cap",
    "no noise on the tests",
    "no cap and no scaling",
    "shows the compared value",
]
MAX_TOY = 10**6
"""Weights, databases or rows of a lesson."""
VARIANTS: tuple[Variant, ...] = get_args(Variant)
"""The right one first, then four that were published and are wrong."""


@dataclass(frozen=True, slots=True)
class Law:
    """Probabilities of every outcome on a table and on its neighbour."""

    outcomes: tuple[Any, ...]
    here: tuple[float, ...]
    there: tuple[float, ...]
    epsilon: float | None = None
    """What the log-ratios of a private mechanism stay within."""
    reading: str = "outcome"
    """What an outcome is, for the axis of a picture."""

    @property
    def log_ratios(self) -> tuple[float, ...]:
        """ln(here / there); infinite where only one of the two can happen."""
        return tuple(_log_ratio(a, b) for a, b in zip(self.here, self.there, strict=True))

    @property
    def worst(self) -> float:
        """The privacy loss between these two tables: at most epsilon for an epsilon-private mechanism."""
        return max((abs(ratio) for ratio in self.log_ratios), default=0.0)

    @checks_arguments
    def delta(self, epsilon: float) -> float:
        """The least delta for which these two laws are (epsilon, delta)-indistinguishable, in either direction."""
        _check.not_negative(epsilon=epsilon)
        both = ((self.here, self.there), (self.there, self.here))
        factor = math.exp(min(epsilon, 700.0))
        return max(sum(max(0.0, a - factor * b) for a, b in zip(*pair, strict=True)) for pair in both)

    @checks_arguments
    def beyond(self, epsilon: float) -> float:
        """The chance, on this table, of an outcome whose log-ratio exceeds epsilon: never less than its share of delta.

        "Private except with probability delta" asks that this be at most delta: more than (epsilon, delta) asks.
        """
        _check.not_negative(epsilon=epsilon)
        return sum(a for a, ratio in zip(self.here, self.log_ratios, strict=True) if ratio > epsilon)

    def table(self) -> list[dict[str, Any]]:
        """A line per outcome, for printing and for pictures."""
        lines = zip(self.outcomes, self.here, self.there, self.log_ratios, strict=True)
        return [{"outcome": str(o), "here": a, "there": b, "log ratio": r} for o, a, b, r in lines]


@checks_arguments
def exponential(
    scores: Sequence[float],
    neighbour: Sequence[float],
    *,
    epsilon: float,
    sensitivity: float = 1.0,
    method: Literal["exponential", "permute-and-flip"] = "exponential",
    names: Sequence[str] | None = None,
) -> Law:
    """The law of a private choice: weights exp(epsilon score / (2 sensitivity)), or permute-and-flip at this rate."""
    _check.positive(epsilon=epsilon, sensitivity=sensitivity)
    if names is not None and len(names) != len(scores):
        raise ParameterError(f"expected a name for each of {len(scores)} candidates, got {len(names)}")
    law = _exponential if method == "exponential" else _permute_and_flip
    rate = epsilon / (2 * sensitivity)
    here, there = (law([rate * score for score in table]) for table in (scores, neighbour))
    return Law(tuple(range(len(scores)) if names is None else names), here, there, epsilon, "candidate")


@checks_arguments
def laplace(
    count: int,
    neighbour: int,
    *,
    epsilon: float,
    rate: Literal["epsilon", "epsilon/2"] = "epsilon",
    reach: int = 8,
) -> Law:
    """Laplace noise as an exponential mechanism: whole numbers r with the score -|r - count|, and its minus matters.

    The sum of the weights exp(-rate |r - count|) is the same for every count, so that the rate may be all of
    epsilon: discrete Laplace noise of scale 1/epsilon. The generic rate epsilon/2 gives twice the noise for a loss of
    epsilon/2. Without its minus the score prefers what is far off, and the weights have no sum. Outcomes farther than
    `reach` from both counts are put together.
    """
    _check.positive(epsilon=epsilon)
    _check.whole(reach=reach)
    low, high = min(count, neighbour) - reach, max(count, neighbour) + reach
    if high - low > MAX_TOY:
        raise ParameterError(f"expected counts at most {MAX_TOY:,} apart: lessons are for toys")
    scale = 1 / epsilon if rate == "epsilon" else 2 / epsilon

    def law(at: int) -> tuple[float, ...]:
        inside = (_laplace(r - at, scale) for r in range(low + 1, high))
        return (_tail(at - low, scale), *inside, _tail(high - at, scale))

    names = (f"<= {low}", *map(str, range(low + 1, high)), f">= {high}")
    return Law(names, law(count), law(neighbour), epsilon, "released count")


@checks_arguments
def randomised_response(yes: int, neighbour: int, *, people: int, epsilon: float) -> Law:
    """The law of how many of `people` say yes where so many mean it, and everyone tells the truth with `honest_share`.

    Guarantee: the answer of each person by itself has log-ratios of exactly epsilon (people=1), and so has their sum
        where
        all say the same; elsewhere it has less.
    """
    _check.whole(people=people)
    _check.whole(least=0, yes=yes, neighbour=neighbour)
    if people > MAX_TOY**0.5 or max(yes, neighbour) > people:
        raise ParameterError(
            f"expected at most {MAX_TOY**0.5:,.0f} people, and no more who mean yes, got {people:,}"
        )
    honest = tails.honest_share(epsilon=epsilon)

    def law(meaning: int) -> tuple[float, ...]:
        said = np.convolve(_binomial(meaning, honest), _binomial(people - meaning, 1 - honest))
        return tuple(said.tolist())

    return Law(tuple(range(people + 1)), law(yes), law(neighbour), epsilon, "people who say yes")


def _binomial(count: int, chance: float) -> NDArray[Any]:
    """The law of how many of so many coins show heads."""
    law = np.ones(1)
    for _ in range(count):
        law = np.convolve(law, [1 - chance, chance])
    return law


def toy(table: Sequence[float], queries: Sequence[Sequence[float]]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The counts of a toy table and a row of weights for each query, as arrays that fit each other."""
    counts = np.asarray(table, dtype=float)
    if counts.ndim != 1 or len(counts) < 2 or not (counts >= 0).all() or not 0 < counts.sum() < math.inf:
        raise ParameterError(
            "expected a table as counts of two cells at least, none below 0 and not all of them 0"
        )
    if not len(queries) or any(np.shape(row) != counts.shape for row in queries):
        raise ParameterError(f"expected queries, each with a weight for every one of {len(counts)} cells")
    if len(queries) * len(counts) > MAX_TOY:
        raise ParameterError(f"expected at most {MAX_TOY:,} weights: lessons are for toys")
    matrix = np.asarray(queries, dtype=float)
    if not (np.abs(matrix) <= 1).all():
        raise ParameterError("expected weights between -1 and 1")
    return counts, matrix


@checks_arguments
def smalldb(
    table: Sequence[int],
    neighbour: Sequence[int],
    queries: Sequence[Sequence[float]],
    *,
    rows: int,
    epsilon: float,
) -> Law:
    """SmallDB over all multisets of `rows` rows: the score is minus the largest error in counts, of sensitivity 1."""
    _check.whole(rows=rows)
    _, matrix = toy(table, queries)
    toy(neighbour, queries)
    count = math.comb(matrix.shape[1] + min(rows, MAX_TOY) - 1, min(rows, MAX_TOY))
    if count > MAX_TOY:
        raise ParameterError(
            f"{count:,} databases are more than the {MAX_TOY:,} of a lesson; take fewer rows or cells"
        )
    databases = [
        tuple(np.bincount(chosen, minlength=matrix.shape[1]).tolist())
        for chosen in itertools.combinations_with_replacement(range(matrix.shape[1]), rows)
    ]

    def scores(counts: Sequence[int]) -> list[float]:
        n, exact = sum(counts), matrix @ np.asarray(counts)
        return [-float(np.abs(exact - n / rows * (matrix @ np.asarray(y))).max()) for y in databases]

    law = exponential(scores(table), scores(neighbour), epsilon=epsilon)
    return Law(tuple(databases), law.here, law.there, epsilon, "small database, rows in each cell")


@checks_arguments
def sparse_vector(
    scores: Sequence[int],
    neighbour: Sequence[int],
    *,
    threshold: int = 0,
    epsilon: float = 1.0,
    cap: int = 1,
    variant: Variant = "right",
) -> Law:
    """All transcripts of a sparse vector on two lists of counts, by summing over the noise of the threshold.

    "right" is the one that the gate draws: Lap(2/epsilon) on the threshold, Lap(4 cap/epsilon) on every test, at most
    `cap` answers above. The other four are published and wrong (Lyu, Su and Li 2017): their loss exceeds epsilon.
    """
    _check.positive(epsilon=epsilon)
    _check.whole(cap=cap)
    wide = {"right": 4 * cap / epsilon, "shows the compared value": 4 * cap / epsilon}
    if variant in ("noise not scaled by the cap", "no cap and no scaling"):
        wide[variant] = 2 / epsilon
    uncapped = variant in ("no cap and no scaling", "no noise on the tests")
    stream = _Stream(threshold, 2 / epsilon, wide.get(variant), None if uncapped else cap)
    if variant == "shows the compared value":
        return stream.with_values(scores, neighbour)
    transcripts = stream.transcripts(len(scores))
    laws = [tuple(stream.chance(table, one) for one in transcripts) for table in (scores, neighbour)]
    names = tuple("".join("T" if above else "." for above in one) for one in transcripts)
    return Law(names, laws[0], laws[1], epsilon, "transcript: T above, . not above")


@dataclass(frozen=True, slots=True)
class _Stream:
    threshold: int
    first: float
    second: float | None
    """Scale of the tests' noise; None for none."""
    cap: int | None
    reach: int = 400

    def transcripts(self, length: int) -> list[tuple[bool, ...]]:
        every = list(itertools.product((False, True), repeat=length))
        if self.cap is None:
            return every
        ended = {one[: _end(one, self.cap)] for one in every}
        return sorted(ended, key=lambda one: (len(one), one))

    def chance(self, scores: Sequence[int], transcript: Sequence[bool]) -> float:
        return self._sum(lambda r: self._tests(scores, transcript, r))

    def with_values(self, scores: Sequence[int], neighbour: Sequence[int]) -> Law:
        """Every test but the last is not above; the last is, and the value that was compared is shown."""
        values = range(self.threshold - 12, self.threshold + 13)
        quiet = (False,) * (len(scores) - 1)

        def chance(table: Sequence[int], value: int) -> float:
            shown = _laplace(value - table[-1], self.second or 1.0)
            return shown * self._sum(
                lambda r: self._tests(table[:-1], quiet, r) if value >= self.threshold + r else 0.0
            )

        laws = [tuple(chance(table, value) for value in values) for table in (scores, neighbour)]
        return Law(tuple(f"{'.' * len(quiet)}T {value}" for value in values), laws[0], laws[1])

    def _sum(self, at: Callable[[int], float]) -> float:
        return sum(_laplace(r, self.first) * at(r) for r in range(-self.reach, self.reach + 1))

    def _tests(self, scores: Sequence[int], transcript: Sequence[bool], shift: int) -> float:
        chance = 1.0
        for score, above in zip(scores, transcript, strict=False):
            least = self.threshold + shift - score
            over = float(least <= 0) if self.second is None else _tail(least, self.second)
            chance *= over if above else 1 - over
        return chance


def _end(transcript: Sequence[bool], cap: int) -> int:
    """Where a transcript ends: with its last answer above that is allowed."""
    places = [i for i, above in enumerate(transcript) if above]
    return places[cap - 1] + 1 if len(places) >= cap else len(transcript)


def _laplace(z: int, scale: float) -> float:
    a = math.exp(-1 / scale)
    return (1 - a) / (1 + a) * a ** abs(z)


def _tail(least: int, scale: float) -> float:
    """P(noise >= least) of the discrete Laplace law."""
    a = math.exp(-1 / scale)
    return a**least / (1 + a) if least > 0 else 1 - a ** (1 - least) / (1 + a)


def _exponential(logits: list[float]) -> tuple[float, ...]:
    weights = [math.exp(one - max(logits)) for one in logits]
    return tuple(weight / sum(weights) for weight in weights)


def _permute_and_flip(logits: list[float]) -> tuple[float, ...]:
    accept = [math.exp(one - max(logits)) for one in logits]
    count, chances = len(accept), []
    for i, chance in enumerate(accept):
        # sums of products of "declined" over sets of candidates that come before, by their size
        sums = [1.0] + [0.0] * (count - 1)
        for j, other in enumerate(accept):
            if j != i:
                for size in range(count - 1, 0, -1):
                    sums[size] += sums[size - 1] * (1 - other)
        share = sum(s / (count * math.comb(count - 1, before)) for before, s in enumerate(sums))
        chances.append(chance * share)
    return tuple(chances)


def _log_ratio(one: float, other: float) -> float:
    if one == other:
        return 0.0
    return math.inf if min(one, other) == 0 else math.log(one / other)
