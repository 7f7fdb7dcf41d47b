"""Prefixes and ranges of one ordered attribute by the square root of the matrix of prefixes, with Gaussian noise.

Prefixes of the cells x are A x with A the lower triangle of ones. Its square root C, with C C = A, is a lower triangle
that is constant along diagonals: 1, 1/2, 3/8, 5/16, ..., each (2k - 1) / (2k) times the one before, all in [0, 1]. What
is measured is C x, every number with the same noise; prefixes are C times that. Neither the columns of C nor its rows
grow faster than the root of ln(cells) / pi, so that both what a record moves and what noise adds up stay small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain, Relation
from maquette.mechanisms import postprocess, shape, sizing
from maquette.mechanisms.base import Curator, Forecast, Mechanism, Outcome, Prepared, Progress, Traits
from maquette.mechanisms.tree import NO_ROWS, RISING, attribute_of
from maquette.models import fits
from maquette.models.answers import Answers
from maquette.models.fits import answer_histogram
from maquette.queries.base import Margin, Queries
from maquette.queries.ranges import Prefixes
from maquette.queries.weights import Weights, weights
from maquette.questions.measurement import Measurement, Size
from maquette.questions.noise import IndependentLaw, NoiseRequest, independent, law_at
from maquette.theory import direct as theory

MAX_CELLS = 1024
"""Cells of the attribute: the matrix has as many rows and columns."""
_DRAWS = 64
"""Of the simulation for the expected error."""

Matrix = NDArray[np.float64]


@lru_cache(maxsize=8)
def strategy(domain: Domain, attributes: Margin) -> Weights:
    """The square root of the matrix of prefixes, on the grid of weights."""
    cells = domain.cells(attributes)
    k = np.arange(1, cells)
    diagonals = np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])
    step = np.arange(cells)[:, None] - np.arange(cells)
    return weights(domain, np.where(step >= 0, diagonals[np.abs(step)], 0.0), attributes=attributes)


@lru_cache(maxsize=8)
def reconstruction(measured: Weights) -> Matrix:
    """The matrix that makes prefixes of what is measured: that of prefixes over the strategy as it is on the grid."""
    root = measured.numerators.astype(np.float64) / measured.grid
    return np.cumsum(np.linalg.inv(root), axis=0, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class PreparedSquareRoot(Prepared):
    """The square root for one workload."""

    def _refuse(self) -> str | None:
        task = self.task
        if attribute_of(task.queries) is None:
            return "it is for prefixes or ranges of one ordered attribute"
        if shape.universe(task.queries) > MAX_CELLS:
            return f"the queries look at {shape.universe(task.queries):,} cells, more than {MAX_CELLS:,}"
        if task.post == "lp":
            return "it needs no linear program; use post='auto' or 'none'"
        return shape.too_many(task.queries)

    @property
    def megabytes(self) -> float:
        return postprocess.holding(4 * shape.universe(self.task.queries) ** 2 + self.task.queries.count)

    @cached_property
    def _strategy(self) -> Weights:
        return strategy(self.task.queries.domain, self.task.queries.attributes)

    @cached_property
    def _parts(self) -> sizing.Split:
        return sizing.split(self.task, lambda price: self._level(self._law(price)), lambda e, t: e + t)

    def _foresee(self) -> Forecast:
        task, parts, n = self.task, self._parts, self.n
        cells, law = shape.universe(task.queries), self._law(parts.answers)
        typical = self._typical(law) / n
        typical = typical / (1 + RISING * typical) + parts.size_error(task, beta=0.5) / n
        return Forecast(
            self.mechanism.name,
            postprocess.in_advance(self._level(law), parts.size_error(task), "none", n=n),
            min(typical, 1.0),
            postprocess.measuring(n=n, cells=cells, tables=1, answers=cells**2 + task.queries.count),
            self.megabytes,
            True,
            None,
            (_describe(law), "expected: from simulation, no promise"),
        )

    def _run(self, curator: Curator, rng: np.random.Generator, progress: Progress) -> Outcome:
        """Buy the size where it is private, measure the square root, make prefixes that rise."""
        progress("measuring the square root", 0.0)
        size = curator.size(price=self._parts.size)
        noise = NoiseRequest("gaussian", self._parts.answers)
        measurement = curator.measure(self._strategy, noise=noise)
        progress("adding up prefixes", 0.5)
        done = self._release(measurement, size)
        progress("adding up prefixes", 1.0)
        return done

    def _law(self, price: Fraction) -> IndependentLaw:
        task, measured = self.task, self._strategy
        sensitivity = measured.sensitivity(task.relation)
        return law_at(price, sensitivity, unit=task.unit, denominator=measured.denominator)

    def _level(self, law: IndependentLaw) -> float:
        """The largest noise of any answer before it is made to rise, in counts; a range is two prefixes.

        Accuracy: a prefix adds up independent draws, each subgaussian with its own sigma, so it is subgaussian with
            sigma times the norm of its row of the reconstruction; a union over the prefixes.
        """
        norms = np.linalg.norm(self._prefixes, axis=1)
        level = theory.tree_gaussian(
            sigma=law.deviation * float(norms.max()),
            nodes=1,
            log_queries=math.log(len(norms)),
            beta=sizing.beta_for_answers(self.task.beta, self.task.relation),
        )
        return level if isinstance(self.task.queries, Prefixes) else 2 * level

    @property
    def _prefixes(self) -> Matrix:
        """The rows of the reconstruction that answers are made of: missing and unknown values are in no prefix."""
        attribute = attribute_of(self.task.queries)
        assert attribute is not None
        return reconstruction(self._strategy)[: attribute.cells]

    def _typical(self, law: IndependentLaw) -> float:
        """The median over simulations of the largest noise of an answer, before it is made to rise."""
        draws = np.random.default_rng(14).normal(size=(self._strategy.count, _DRAWS))
        noise = self._prefixes @ draws * law.deviation
        if not isinstance(self.task.queries, Prefixes):
            noise = np.concatenate([noise, np.zeros((1, _DRAWS))])
            return float(np.median(np.ptp(noise, axis=0)))
        return float(np.median(np.abs(noise).max(axis=0)))

    def _release(self, measurement: Measurement, size: Size) -> Outcome:
        task = self.task
        leaves = self._leaves(measurement, size)
        answers = Answers.from_fractions(answer_histogram(task.queries, leaves) / size.divisor)
        law, size_error = independent(measurement.noise), sizing.size_error(size, task.beta)
        level = self._level(law)
        rows, facts = None, {}
        if leaves.sum():
            rows, facts = postprocess.make_rows(
                task, leaves, size, answers, lambda counts: answer_histogram(task.queries, counts)
            )
        return Outcome(
            answers=answers,
            database=rows,
            size=size,
            guarantee=postprocess.guarantee(
                level + size_error, size, task.beta, f"{_describe(law)}; made to rise"
            ),
            parameters={"noise_level_counts": level, "size_drift_counts": size_error} | facts,
            notes=() if rows is not None else (NO_ROWS,),
        )

    def _leaves(self, measurement: Measurement, size: Size) -> NDArray[np.float64]:
        """Counts of the cells whose prefixes rise from 0 to the released size.

        Accuracy: a rising sequence is never farther from a rising truth than what it was made of, nor is one that is
            cut off at 0 and at the whole, as fractions.
        """
        sums = reconstruction(self._strategy) @ np.asarray(measurement.counts, dtype=np.float64)
        cells = len(self._prefixes)
        rising = fits.rising(sums[:cells]).clip(0.0, size.divisor)
        rest = np.diff(sums)[cells - 1 :].clip(0.0, None)  # missing and unknown values are in no prefix
        return np.concatenate([np.diff(rising, prepend=0.0), rest])


@dataclass(frozen=True, slots=True)
class SquareRoot(Mechanism):
    """Measure the square root of the matrix of prefixes with the same noise, add up prefixes, let them rise.

    Guarantee: the task's price, through the gate: the sensitivity is that of the weights that are measured.
    Accuracy: subgaussian noise in every prefix, a union over the prefixes; a rising sequence is never farther from a
        rising truth than what it was made of; a range is a difference of two prefixes.
    Holds when: prefixes or ranges of one ordered attribute, a delta above 0.
    Cost: a matrix of cells x cells, up to 1,024 of them.
    """

    prepared_by = PreparedSquareRoot
    name: str = "square-root"
    traits: Traits = Traits(needs_delta=True, gaussian=True, special=True)

    def l2_shift(self, queries: Queries, relation: Relation) -> Fraction:
        """What one record moves of the strategy; that of all prefixes where the strategy is too large to make."""
        if attribute_of(queries) is None or shape.universe(queries) > MAX_CELLS:
            return shape.sensitivities(queries)[relation].l2_squared
        return strategy(queries.domain, queries.attributes).sensitivity(relation).l2_squared


def _describe(law: IndependentLaw) -> str:
    return (
        f"discrete Gaussian noise of deviation {law.deviation:.4g} counts on the square root of the matrix of "
        "prefixes"
    )


SQUARE_ROOT = SquareRoot()
