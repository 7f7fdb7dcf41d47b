"""Prefixes and ranges of one ordered attribute by the square root of the matrix of prefixes, with Gaussian noise.

Prefixes of the cells x are A x with A the lower triangle of ones. Its square root C, with C C = A, is a lower triangle
that is constant along diagonals: 1, 1/2, 3/8, 5/16, ..., each (2k - 1) / (2k) times the one before, all in [0, 1]. What
is measured is C x, every number with the same noise; prefixes are C times that. Neither the columns of C nor its rows
grow faster than the root of ln(cells) / pi, so that both what a record moves and what noise adds up stay small.

The released number of records is one more measurement of the last prefix, the total T. Least squares bring both
together, and answers are fractions of the total that comes out. With e the error of the prefix, e_T that of the total
and f the true fraction, an answer is off by (e - f e_T) / T: between e / T and (e - e_T) / T, the error of the prefix
and that of all cells beyond it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from maquette.core.laws import IndependentLaw, NoiseRequest, independent
from maquette.core.measurement import Measurement, Size
from maquette.domain import Domain, Relation
from maquette.mechanisms import postprocess, shape, sizing
from maquette.mechanisms.base import Curator, Forecast, Mechanism, Outcome, Prepared, Progress, Traits
from maquette.mechanisms.tree import NO_ROWS, RISING, attribute_of, refuse_line
from maquette.models import fits
from maquette.models.answers import Answers
from maquette.models.fits import answer_histogram
from maquette.queries.base import Queries
from maquette.queries.ranges import Prefixes
from maquette.queries.rows import Margin
from maquette.queries.weights import Weights, weights
from maquette.theory import direct as theory
from maquette.theory.quantiles import law_at

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
        return refuse_line(self.task, most=MAX_CELLS)

    @property
    def megabytes(self) -> float:
        return postprocess.holding(4 * shape.universe(self.task.queries) ** 2 + self.task.queries.count)

    @cached_property
    def _strategy(self) -> Weights:
        return strategy(self.task.queries.domain, self.task.queries.attributes)

    @cached_property
    def _parts(self) -> sizing.Split:
        """The smallest share for the number of records: the total is measured with the prefixes anyway."""
        return sizing.split(self.task, lambda price: self._law(price).deviation, lambda noise, _: noise)

    @property
    def size_price(self) -> Fraction:
        return self._parts.size

    def _foresee(self) -> Forecast:
        task, parts, n = self.task, self._parts, self.n
        cells, law = shape.universe(task.queries), self._law(parts.answers)
        size = law_at(parts.size, unit=task.unit) if parts.size else None
        level = self._level(law, size)
        typical = self._typical(law, size) / n
        typical = typical / (1 + RISING * typical)
        return Forecast(
            self.mechanism.name,
            postprocess.in_advance(level, 0.0, "none", n=max(n - math.ceil(level), 1)),
            min(typical, 1.0),
            postprocess.measuring(n=n, cells=cells, tables=1, answers=cells**2 + task.queries.count),
            self.megabytes,
            True,
            None,
            (_describe(law), "expected: from simulation, no promise"),
        )

    @property
    def stage_parts(self) -> tuple[tuple[str, float], ...]:
        return ("measuring the square root", 0.5), ("adding up prefixes", 0.5)

    def _run(self, curator: Curator, rng: np.random.Generator, progress: Progress) -> Outcome:
        """Buy the size where it is private, measure the square root, make prefixes that rise."""
        progress("measuring the square root", 0.0)
        size = sizing.released_size(curator, self.task, self._parts)
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

    def _level(self, law: IndependentLaw, size: IndependentLaw | None) -> float:
        """The largest error of any answer before it is made to rise, in counts of the total; a range is two prefixes.

        Accuracy: what is below adds up independent draws, each subgaussian with its own sigma, and is subgaussian with
            the root of the sum of their squares; a union over the prefixes and what lies beyond them.
        """
        noise = np.linalg.norm(self._coefficients(law, size), axis=1)
        level = theory.tree_gaussian(
            sigma=float(noise.max()), nodes=1, log_queries=math.log(len(noise)), beta=self.task.beta
        )
        return level if isinstance(self.task.queries, Prefixes) else 2 * level

    def _coefficients(self, law: IndependentLaw, size: IndependentLaw | None) -> Matrix:
        """Errors of prefixes, then of all cells beyond each, as sums of independent draws of deviation 1.

        The last draw is that of the number of records.
        """
        prefixes, total = self._prefixes, reconstruction(self._strategy)[-1]
        gain, last = self._gain(law, size), float(self._gain(law, size)[-1])
        deviation = 0.0 if size is None else size.deviation
        gains = gain[: len(prefixes)]
        errors = np.column_stack([(prefixes - np.outer(gains, total)) * law.deviation, gains * deviation])
        of_total = np.append(total * (1 - last) * law.deviation, last * deviation)
        return np.concatenate([errors, errors - of_total]).astype(np.float64)

    def _gain(self, law: IndependentLaw, size: IndependentLaw | None) -> NDArray[np.float64]:
        """How much every prefix moves by least squares where the number of records is one above the measured total."""
        matrix = reconstruction(self._strategy)
        together = np.asarray(matrix @ matrix[-1] * law.deviation**2, dtype=np.float64)
        variance = 0.0 if size is None else size.deviation**2
        return np.divide(together, together[-1] + variance, dtype=np.float64)

    @property
    def _prefixes(self) -> Matrix:
        """The rows of the reconstruction that answers are made of: missing and unknown values are in no prefix."""
        attribute = attribute_of(self.task.queries)
        assert attribute is not None
        return reconstruction(self._strategy)[: attribute.cells]

    def _typical(self, law: IndependentLaw, size: IndependentLaw | None) -> float:
        """The median over simulations of the largest error of an answer, before it is made to rise."""
        matrix = self._coefficients(law, size)
        noise = matrix @ np.random.default_rng(14).normal(size=(matrix.shape[1], _DRAWS))
        cells = len(matrix) // 2
        middle = (noise[:cells] + noise[cells:]) / 2  # of an answer of one half
        if not isinstance(self.task.queries, Prefixes):
            middle = np.concatenate([middle, np.zeros((1, _DRAWS))])
            return float(np.median(middle.max(axis=0) - middle.min(axis=0)))
        return float(np.median(np.abs(middle).max(axis=0)))

    def _release(self, measurement: Measurement, size: Size) -> Outcome:
        task, law = self.task, independent(measurement.noise)
        leaves, total = self._leaves(measurement, size)
        answers = Answers.from_fractions(answer_histogram(task.queries, leaves) / total)
        level = self._level(law, size.noise)
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
                level / total * size.divisor, size, task.beta, f"{_describe(law)}; made to rise"
            ),
            parameters={"noise_level_counts": level, "total": total} | facts,
            notes=() if rows is not None else (NO_ROWS,),
        )

    def _leaves(self, measurement: Measurement, size: Size) -> tuple[NDArray[np.float64], float]:
        """Counts of the cells whose prefixes rise from 0 to the total at most, and the total (at least 1).

        Accuracy: a rising sequence is never farther from a rising truth than what it was made of, nor is one that is
            cut off at 0 and at the whole, as fractions.
        """
        sums = reconstruction(self._strategy) @ np.asarray(measurement.counts, dtype=np.float64)
        sums = sums + self._gain(independent(measurement.noise), size.noise) * (size.value - sums[-1])
        cells, total = len(self._prefixes), max(float(sums[-1]), 1.0)
        rising = fits.rising(sums[:cells]).clip(0.0, total)
        rest = np.diff(sums)[cells - 1 :].clip(0.0, None)  # missing and unknown values are in no prefix
        return np.concatenate([np.diff(rising, prepend=0.0), rest]), total


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
