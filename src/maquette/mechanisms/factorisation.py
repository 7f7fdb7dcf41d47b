"""Any small matrix of queries through a better one: the factorisation (matrix) mechanism.

The workload W = R A is factored into a strategy A, which is measured, and a reconstruction R. A record moves A by the
norm of one of its columns, and an answer collects the noise of one row of R: A is chosen so that the product is small.
It is looked for among the strategies [I; T] D of McKenna, Miklau, Hay and Machanavajjhala (2018): all cells and some
weighted sums of them with weights T >= 0, every column divided by its norm (D): L1 for Laplace noise, L2 for Gaussian.
Such weights lie in [0, 1], so the gate measures them like any other class of queries, exactly, and its sensitivity is
that of the weights on their grid. The search looks at the workload alone, which is public. The workload itself is the
strategy where no better one was found.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.core.laws import IndependentLaw, Laplace, NoiseRequest, independent
from maquette.domain import Relation
from maquette.mechanisms import postprocess, shape, sizing
from maquette.mechanisms.base import Curator, Forecast, Mechanism, Outcome, Prepared, Progress, Traits
from maquette.mechanisms.postprocess import NoisyAnswers
from maquette.models.fits import cell_weights
from maquette.queries.base import Queries
from maquette.queries.weights import weights
from maquette.theory import direct as theory
from maquette.theory import quantiles
from maquette.theory.quantiles import law_at

MAX_CELLS, MAX_ENTRIES = 512, 2**23
"""Cells that the queries look at, and entries of their matrix: the search inverts a matrix of cells x cells."""
STEPS, ROUNDS = 150, 3
"""Steps of the search, and how often queries with much noise get more weight. Set by hand; `python -m benchmarks
factorisation` measures what comes of it."""
_COARSE = 2**-12
"""Strategies are rounded to this, so that the last digits of a float decide nothing."""

Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """A strategy as the gate measures it, and the matrix that makes answers of it; None where those are the answers."""

    strategy: Queries
    reconstruction: Matrix | None
    levels: dict[float, float] = field(default_factory=dict[float, float])

    def law(self, price: Fraction, *, relation: Relation, unit: Any) -> IndependentLaw:
        sensitivity = self.strategy.sensitivity(relation)
        return law_at(price, sensitivity, unit=unit, denominator=self.strategy.denominator)

    def level(self, law: IndependentLaw, *, count: int, beta: float) -> float:
        """What no answer is off by, in counts, the number of records being exact."""
        if self.reconstruction is None:
            return quantiles.max_quantile(law, count=count, beta=beta, denominator=self.strategy.denominator)
        if isinstance(law, Laplace):
            return float(law.scale) * self._laplace(beta)
        norms = np.linalg.norm(self.reconstruction, axis=1)
        sigma = float(norms.max()) * law.deviation
        return theory.tree_gaussian(sigma=sigma, nodes=1, log_queries=math.log(count), beta=beta)

    def _laplace(self, beta: float) -> float:
        """The level of Laplace noise of scale 1; cached, since a search for shares asks it often."""
        assert self.reconstruction is not None
        if beta not in self.levels:
            self.levels[beta] = theory.linear_laplace(scale=1.0, coefficients=self.reconstruction, beta=beta)
        return self.levels[beta]

    def deviations(self, law: IndependentLaw, count: int) -> NDArray[np.float64]:
        """Standard deviation of every answer's noise, in counts."""
        if self.reconstruction is None:
            return np.full(count, law.deviation)
        return np.linalg.norm(self.reconstruction, axis=1) * law.deviation


@shape.cached_by_queries
def factor(queries: Queries, *, pure: bool) -> Factors:
    """A strategy that suits the workload, from public structure alone."""
    matrix = np.asarray(cell_weights(queries), dtype=np.float64)
    strategy = weights(queries.domain, search(matrix, pure=pure), attributes=queries.attributes)
    used = strategy.numerators.astype(np.float64) / strategy.grid
    return Factors(strategy, reconstruct(matrix, used))


def reconstruct(matrix: Matrix, strategy: Matrix) -> Matrix:
    """R with R A = W, of least squares: W (A'A)^-1 A'."""
    gram = strategy.T @ strategy
    return np.asarray(matrix @ np.linalg.solve(gram, strategy.T), dtype=np.float64)


def number_of_sums(cells: int) -> int:
    """Rows of T beside the cells."""
    return 1 + cells // 8


def search(matrix: Matrix, *, pure: bool) -> Matrix:
    """A strategy [I; T] D for this workload: least total variance first, then more weight where there is most noise."""
    from scipy.optimize import minimize

    cells = matrix.shape[1]
    sums = number_of_sums(cells)
    theta = np.random.default_rng(11).random((sums, cells)) / 2  # nearer to 0 it would end in the cells alone
    importance = np.full(len(matrix), 1.0 / len(matrix))
    best: tuple[float, Matrix] | None = None
    for _ in range(ROUNDS):
        gram = (matrix * importance[:, None]).T @ matrix

        def objective(flat: NDArray[Any], gram: Matrix = gram) -> tuple[float, NDArray[Any]]:
            return variance(flat.reshape(sums, cells), gram, pure=pure)

        found = minimize(
            objective, theta.ravel(), jac=True, method="L-BFGS-B", bounds=[(0, None)] * theta.size,
            options={"maxiter": STEPS},
        )  # fmt: skip
        theta = np.asarray(found.x).reshape(sums, cells)
        strategy = np.round(_strategy(theta, pure=pure) / _COARSE) * _COARSE
        strategy[:cells] = np.maximum(
            strategy[:cells], _COARSE * np.eye(cells)
        )  # all of it can be reconstructed
        noise = np.linalg.norm(reconstruct(matrix, strategy), axis=1)
        largest = float(noise.max()) * _norms(strategy, pure=pure).max()
        if best is None or largest < best[0]:
            best = largest, strategy
        importance = importance * noise**2
        importance /= importance.sum()
    assert best is not None
    return best[1]


def variance(theta: Matrix, gram: Matrix, *, pure: bool) -> tuple[float, NDArray[Any]]:
    """tr(G (A'A)^-1) for A = [I; T] D and its gradient in T; G is the weighed W'W.

    With s the norms of the columns of [I; T] and B = (I + T'T)^-1 it is f = tr(S G S B). Its derivatives are
    -2 T B S G S B through B and 2 (G S B)_jj through s_j, which T_ij moves by 1 (L1) or T_ij / s_j (L2).
    """
    s = _norms(np.vstack([np.ones(theta.shape[1]), theta]), pure=pure)
    inverse = np.linalg.inv(np.eye(theta.shape[1]) + theta.T @ theta)
    scaled = s[:, None] * gram * s
    value = float(np.sum(scaled * inverse))
    through_norms = 2 * np.sum((gram * s) * inverse, axis=1)
    moves = 1.0 if pure else theta / s
    gradient = -2 * theta @ inverse @ scaled @ inverse + through_norms * moves
    return value, gradient.ravel()


def _strategy(theta: Matrix, *, pure: bool) -> Matrix:
    together = np.vstack([np.eye(theta.shape[1]), theta])
    return together / _norms(together, pure=pure)


def _norms(matrix: Matrix, *, pure: bool) -> NDArray[np.float64]:
    """Of the columns, whose entries are not negative."""
    return matrix.sum(axis=0) if pure else np.sqrt((matrix**2).sum(axis=0))


@dataclass(frozen=True, eq=False)
class PreparedFactorisation(Prepared):
    """Factors of one workload."""

    def _refuse(self) -> str | None:
        queries = self.task.queries
        cells = shape.universe(queries)
        if cells > MAX_CELLS or cells * queries.count > MAX_ENTRIES:
            return (
                f"the queries form a matrix of {queries.count:,} x {cells:,}, and a strategy is searched for at most "
                f"{MAX_CELLS} cells and {MAX_ENTRIES:,} entries"
            )
        return shape.too_many(queries) or postprocess.refusal(self.task)

    @property
    def megabytes(self) -> float:
        cells = shape.universe(self.task.queries)
        return postprocess.holding(6 * cells**2 + 3 * cells * self.task.queries.count)

    @cached_property
    def _factors(self) -> Factors:
        """The better of a searched strategy and the workload itself, by the error that each could state."""
        task, count = self.task, self.task.queries.count
        options = [Factors(task.queries, None), factor(task.queries, pure=task.unit.is_pure)]

        def level(factors: Factors) -> float:
            law = factors.law(task.price, relation=task.relation, unit=task.unit)
            return factors.level(law, count=count, beta=self._beta)

        return min(options, key=level)

    @property
    def _beta(self) -> float:
        return sizing.beta_for_answers(self.task.beta, self.task.relation)

    @cached_property
    def _parts(self) -> sizing.Split:
        method = postprocess.method_for(self.task)
        return sizing.split(self.task, self._level, lambda e, t: postprocess.error_after(e, t, method))

    def _law(self, price: Fraction) -> IndependentLaw:
        return self._factors.law(price, relation=self.task.relation, unit=self.task.unit)

    def _level(self, price: Fraction, beta: float | None = None) -> float:
        chance = self._beta if beta is None else beta
        return self._factors.level(self._law(price), count=self.task.queries.count, beta=chance)

    @property
    def size_price(self) -> Fraction:
        return self._parts.size

    def _foresee(self) -> Forecast:
        task, parts, count = self.task, self._parts, self.task.queries.count
        method, cells = postprocess.method_for(task), shape.universe(task.queries)
        deviations = self._factors.deviations(self._law(parts.answers), count)
        draws = np.abs(np.random.default_rng(3).normal(size=(count, 32))) * deviations[:, None]
        typical = float(np.median(draws.max(axis=0))) + parts.size_error(task, beta=0.5)
        return Forecast(
            self.mechanism.name,
            postprocess.in_advance(self._level(parts.answers), parts.size_error(task), method, n=self.n),
            min(typical / self.n, 1.0),
            postprocess.seconds(task, n=self.n, cells=cells + count, tables=1),
            self.megabytes,
            method != "none" and shape.gives_rows(task.queries),
            None,
            (self._describe(parts.answers), postprocess.EXPECTED_NOTE),
        )

    @property
    def stage_parts(self) -> tuple[tuple[str, float], ...]:
        return ("measuring the strategy", 0.5), ("reconstructing the answers", 0.5)

    def _run(self, curator: Curator, rng: np.random.Generator, progress: Progress) -> Outcome:
        """Buy the size where it is private, measure the strategy, reconstruct the answers, post-process."""
        task, parts, factors, count = self.task, self._parts, self._factors, self.task.queries.count
        progress("measuring the strategy", 0.0)
        size = sizing.released_size(curator, task, parts)
        noise = NoiseRequest.at(parts.answers, task.unit)
        measurement = curator.measure(factors.strategy, noise=noise)
        progress("reconstructing the answers", 0.5)
        law, counts = independent(measurement.noise), np.asarray(measurement.counts, dtype=np.float64)
        noisy = NoisyAnswers(
            counts=counts if factors.reconstruction is None else factors.reconstruction @ counts,
            level=factors.level(law, count=count, beta=self._beta),
            size_error=sizing.size_error(size, task.beta),
            size=size,
            law=self._describe(parts.answers),
            deviations=factors.deviations(law, count) / size.divisor,
            parameters={"draws": factors.strategy.count},
        )
        done = postprocess.finish(task, noisy)
        progress("reconstructing the answers", 1.0)
        return done

    def _describe(self, price: Fraction) -> str:
        law, strategy = self._law(price), self._factors.strategy
        what = (
            "on every answer"
            if self._factors.reconstruction is None
            else f"on {strategy.count:,} weighted sums"
        )
        return f"discrete {law.name} noise of deviation {law.deviation:.4g} counts {what}"


@dataclass(frozen=True, slots=True)
class Factorisation(Mechanism):
    """Measure a strategy that was made for the workload, and make the answers of it.

    Guarantee: the task's price, through the gate: the sensitivity is that of the weights that are measured.
    Accuracy: every answer is a sum of independent draws with the coefficients of its row of R: Chernoff for Laplace
        noise (`theory.direct.linear_laplace`), subgaussian for Gaussian, a union over the queries. Never worse in what
        it states than noise on every answer, which is one of the two strategies that are compared.
    Holds when: up to 512 cells. Of all strategies it finds a good one, not the best.
    Cost: some hundred inversions of a matrix of cells x cells before the run.
    """

    prepared_by = PreparedFactorisation
    name: str = "factorisation"
    traits: Traits = Traits(gaussian=True, by_name=True)

    def l2_shift(self, queries: Queries, relation: Relation) -> Fraction:
        """What one record moves of a strategy, about: its columns have norm 1."""
        return Fraction(1 if relation is Relation.ADD_REMOVE else 2)


FACTORISATION = Factorisation()
