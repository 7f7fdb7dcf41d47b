"""Ranges by categories, factored attribute by attribute: every age range by sex and region, with a stated error.

A query that is a product of one set of cells per attribute is the Kronecker product of one row per attribute. So is the
strategy that is measured, A = A_1 x ... x A_d, and the reconstruction. The noise of an answer is then the product of
the norms of its rows r_i = q_i A_i^+, known for every query before anything is measured, and a record moves the
strategy by the product of the norms of its columns. Each A_i is searched for what is asked of its attribute
(`factorisation`): runs of cells, cells, the total where queries do not name it; where only cells are asked it is these.
Products of rounded weights are exact on the grid, because the bits of the grid are divided among the attributes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

from maquette.core.laws import IndependentLaw, NoiseRequest, independent
from maquette.domain import Relation
from maquette.mechanisms import postprocess, shape, sizing
from maquette.mechanisms.base import Curator, Forecast, Mechanism, Outcome, Prepared, Progress, Traits
from maquette.mechanisms.factorisation import number_of_sums, search
from maquette.mechanisms.postprocess import NoisyAnswers
from maquette.models.fits import answer_histogram
from maquette.queries.base import Queries
from maquette.queries.marginals import Marginals
from maquette.queries.predicates import Boxes
from maquette.queries.ranges import Prefixes, Ranges
from maquette.queries.weights import GRID, Weights
from maquette.theory import direct as theory
from maquette.theory.quantiles import law_at

MAX_CELLS, MAX_AXIS = 2048, 256
"""Cells of all attributes together, and of one whose ranges are asked: its strategy is searched."""
MAX_ENTRIES = 2**25
"""Of the strategy: its products of sums times the cells."""

Matrix = NDArray[np.float64]
Runs = tuple[NDArray[np.int64], NDArray[np.int64]]
"""First and last cells of what queries ask of an attribute."""


@dataclass(frozen=True, slots=True, eq=False)
class Factored:
    """A strategy for the cells of some attributes, its inverse axis by axis, and the noise of every query."""

    strategy: Weights
    inverses: tuple[Matrix, ...]
    norms: NDArray[np.float64]
    """Of every query: how much of a draw's deviation its answer has."""

    def cells(self, measured: NDArray[np.float64]) -> Matrix:
        """Estimated counts of all cells, by least squares."""
        table = measured.reshape([inverse.shape[1] for inverse in self.inverses])
        for axis, inverse in enumerate(self.inverses):
            table = np.moveaxis(np.tensordot(inverse, table, axes=(1, axis)), 0, axis)
        return table


def runs_of(queries: Queries) -> Iterator[tuple[int, dict[str, Runs]]]:
    """For every class: how many queries, and the runs of cells that each asks of the attributes it names."""
    domain = queries.domain
    for part in queries.classes:
        match part:
            case Prefixes():
                last = np.arange(part.count)
                yield part.count, {part.attribute: (np.zeros_like(last), last)}
            case Ranges():
                ends = [np.stack(np.triu_indices(domain[name].cells)) for name in part.over]
                places = np.unravel_index(np.arange(part.count), [e.shape[1] for e in ends])
                yield (
                    part.count,
                    {
                        name: (e[0][place], e[1][place])
                        for name, e, place in zip(part.over, ends, places, strict=True)
                    },
                )
            case Marginals():
                for margin in part.margins:
                    sizes = [domain[name].size for name in margin]
                    places = np.unravel_index(np.arange(math.prod(sizes)), sizes) if sizes else ()
                    yield (
                        math.prod(sizes),
                        {name: (place, place) for name, place in zip(margin, places, strict=True)},
                    )
            case Boxes():
                yield part.count, _boxed(part)
            case _:
                raise TypeError(part.kind)


def _boxed(part: Boxes) -> dict[str, Runs]:
    ends = {
        name: (np.zeros(part.count, np.int64), np.full(part.count, part.domain[name].size - 1))
        for name in part.attributes
    }
    for i, box in enumerate(part.boxes):
        for name, low, high in box:
            ends[name][0][i], ends[name][1][i] = low, high
    return ends


def is_product(queries: Queries) -> bool:
    """Is every query a product of runs of cells?"""
    return all(isinstance(part, Prefixes | Ranges | Marginals | Boxes) for part in queries.classes)


@shape.cached_by_queries
def factored(queries: Queries) -> Factored:
    """From public structure alone."""
    domain, names = queries.domain, queries.attributes
    asked = {name: _rows(queries, name) for name in names}
    mixed = [name for name in names if len(asked[name])]
    bits = 20 // max(len(mixed), 1)
    axes: list[Matrix] = []
    for name in names:
        if name in mixed:
            found = search(asked[name], pure=False)
            axes.append(np.maximum(np.rint(found * 2**bits), np.eye(*found.shape)) / 2**bits)
        else:
            axes.append(np.eye(domain[name].size))
    numerators = np.rint(reduce(np.kron, axes) * GRID).astype(np.int32)
    inverses = tuple(np.asarray(np.linalg.pinv(axis), dtype=np.float64) for axis in axes)
    norms = _norms(queries, dict(zip(names, inverses, strict=True)))
    return Factored(Weights(domain, names, numerators, GRID), inverses, norms)


def strategy_draws(queries: Queries) -> int:
    """How many products a strategy has: a searched one has some sums beside the cells of its attribute."""
    sizes = ((queries.domain[name].size, len(_rows(queries, name)) > 0) for name in queries.attributes)
    return math.prod(size + (number_of_sums(size) if is_searched else 0) for size, is_searched in sizes)


def _rows(queries: Queries, name: str) -> Matrix:
    """Different runs that are asked of an attribute, as rows; none where they are its single cells and nothing else."""
    size = queries.domain[name].size
    whole = np.zeros(1, np.int64), np.full(1, size - 1)
    runs = [np.stack(asked.get(name, whole), axis=1) for _, asked in runs_of(queries)]
    low, high = np.unique(np.concatenate(runs), axis=0).T
    if (low == high).all():
        return np.zeros((0, size))
    cells = np.arange(size)
    return ((low[:, None] <= cells) & (cells <= high[:, None])).astype(np.float64)


def _norms(queries: Queries, inverses: dict[str, Matrix]) -> NDArray[np.float64]:
    """The norm of the row of noise of every query: a product over the attributes."""
    squares = {name: _run_squares(inverse) for name, inverse in inverses.items()}
    parts: list[NDArray[np.float64]] = []
    for count, asked in runs_of(queries):
        square = np.ones(count)
        for name, table in squares.items():
            low, high = asked.get(name, (np.int64(0), np.int64(len(table) - 1)))
            square = square * table[low, high]
        parts.append(np.sqrt(square))
    return np.concatenate(parts)


def _run_squares(inverse: Matrix) -> Matrix:
    """The squared norm of the sum of the rows low .. high, for all low and high."""
    sums = np.vstack([np.zeros((1, inverse.shape[1])), np.cumsum(inverse, axis=0)])
    squared = (sums**2).sum(axis=1)
    apart = squared[1:][None, :] + squared[:-1][:, None] - 2 * sums[:-1] @ sums[1:].T
    return np.maximum(apart, 0.0)


@dataclass(frozen=True, eq=False)
class PreparedProduct(Prepared):
    """Factors of one workload."""

    def _refuse(self) -> str | None:
        queries = self.task.queries
        if not is_product(queries):
            return "it is for prefixes, ranges, marginals and boxes: products of runs of cells"
        cells = shape.universe(queries)
        if cells > MAX_CELLS:
            return f"the queries look at {cells:,} cells, more than a strategy may have ({MAX_CELLS:,})"
        wide = [name for name in queries.attributes if queries.domain[name].size > MAX_AXIS]
        if wide:
            return f"'{wide[0]}' has more than {MAX_AXIS} cells, too many to search for a strategy"
        refusal = shape.too_many(queries) or postprocess.refusal(self.task)
        if refusal is None and self._entries > MAX_ENTRIES:
            return (
                f"a strategy for {len(queries.attributes)} attributes has {self._entries // cells:,} products of sums "
                f"of {cells:,} cells, more than {MAX_ENTRIES:,} entries in all; ask about fewer attributes"
            )
        return refusal

    @cached_property
    def _entries(self) -> int:
        return strategy_draws(self.task.queries) * shape.universe(self.task.queries)

    @property
    def megabytes(self) -> float:
        return postprocess.holding(2 * self._entries + 4 * self.task.queries.count)

    @property
    def _beta(self) -> float:
        return sizing.beta_for_answers(self.task.beta, self.task.relation)

    @cached_property
    def _parts(self) -> sizing.Split:
        method = postprocess.method_for(self.task)
        return sizing.split(
            self.task,
            lambda price: self._level(self._law(price), self._beta),
            lambda e, t: postprocess.error_after(e, t, method),
        )

    def _law(self, price: Fraction) -> IndependentLaw:
        strategy = factored(self.task.queries).strategy
        sensitivity = strategy.sensitivity(self.task.relation)
        return law_at(price, sensitivity, unit=self.task.unit, denominator=strategy.denominator)

    def _level(self, law: IndependentLaw, beta: float) -> float:
        """What no answer is off by, in counts, the number of records being exact."""
        norms = factored(self.task.queries).norms
        return theory.linear_gaussian(sigma=law.deviation, norms=norms, beta=beta)

    @property
    def size_price(self) -> Fraction:
        return self._parts.size

    def _foresee(self) -> Forecast:
        task, parts, count = self.task, self._parts, self.task.queries.count
        method, cells, law = (
            postprocess.method_for(task),
            shape.universe(task.queries),
            self._law(parts.answers),
        )
        typical = self._level(law, 0.5) + parts.size_error(task, beta=0.5)
        return Forecast(
            self.mechanism.name,
            postprocess.in_advance(self._level(law, self._beta), parts.size_error(task), method, n=self.n),
            min(typical / self.n, 1.0),
            postprocess.seconds(task, n=self.n, cells=cells**2 // 64 + count, tables=1),
            self.megabytes,
            method != "none" and shape.gives_rows(task.queries),
            None,
            (self._describe(law), postprocess.EXPECTED_NOTE),
        )

    @property
    def stage_parts(self) -> tuple[tuple[str, float], ...]:
        return ("measuring the strategy", 0.5), ("reconstructing the answers", 0.5)

    def _run(self, curator: Curator, rng: np.random.Generator, progress: Progress) -> Outcome:
        """Buy the size where it is private, measure the strategy, invert it axis by axis, answer, post-process."""
        task, parts, factors = self.task, self._parts, factored(self.task.queries)
        progress("measuring the strategy", 0.0)
        size = sizing.released_size(curator, task, parts)
        measurement = curator.measure(factors.strategy, noise=NoiseRequest.at(parts.answers, task.unit))
        progress("reconstructing the answers", 0.5)
        law = independent(measurement.noise)
        cells = factors.cells(np.asarray(measurement.counts, dtype=np.float64))
        noisy = NoisyAnswers(
            counts=answer_histogram(task.queries, cells),
            level=self._level(law, self._beta),
            size_error=sizing.size_error(size, task.beta),
            size=size,
            law=self._describe(law),
            deviations=factors.norms * law.deviation / size.divisor,
            parameters={"draws": factors.strategy.count},
        )
        done = postprocess.finish(task, noisy)
        progress("reconstructing the answers", 1.0)
        return done

    def _describe(self, law: IndependentLaw) -> str:
        factors = factored(self.task.queries)
        return (
            f"discrete {law.name} noise of deviation {law.deviation:.4g} counts on {factors.strategy.count:,} products "
            f"of weighted sums, {' x '.join(str(inverse.shape[1]) for inverse in factors.inverses)}"
        )


@dataclass(frozen=True, slots=True)
class Product(Mechanism):
    """Measure a Kronecker product of one strategy per attribute, and make the answers of it.

    Guarantee: the task's price, through the gate: the sensitivity is that of the weights that are measured.
    Accuracy: the noise of a query is the product of its norms along the attributes, exactly; subgaussian, a union over
        the queries with each its own norm (`theory.direct.linear_gaussian`).
    Holds when: prefixes, ranges, marginals and boxes over up to 2,048 cells, a delta above 0.
    Cost: a search per attribute, and a matrix of cells x cells.
    """

    prepared_by = PreparedProduct
    name: str = "product"
    traits: Traits = Traits(needs_delta=True, gaussian=True, by_name=True)

    def l2_shift(self, queries: Queries, relation: Relation) -> Fraction:
        """What one record moves of a strategy, about: its columns have norm 1."""
        return Fraction(1 if relation is Relation.ADD_REMOVE else 2)


PRODUCT = Product()
