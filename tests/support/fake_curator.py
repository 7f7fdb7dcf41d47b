"""A test double of the gate: exact counts from a histogram plus seeded numpy noise. Nothing about it is private."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.core.answers import without_overlap
from maquette.core.any_order import Statistic
from maquette.core.binned import Binned
from maquette.core.budget import Unit
from maquette.core.class_errors import ClassSets, ReleasedTables
from maquette.core.combinations import ReleasedRows
from maquette.core.drawing import DrawnDatabase
from maquette.core.group_means import GroupMeans
from maquette.core.laws import Cube, Gaussian, IndependentLaw, Laplace, NoiseLaw, NoiseRequest, Norm
from maquette.core.linear_queries import Group
from maquette.core.measurement import (
    BinnedResidual,
    Measurement,
    NoisyCounts,
    NoisyTable,
    Receipt,
    Residual,
    Size,
)
from maquette.core.residuals import projected_axes, shift_squared
from maquette.core.typical import TypicalError
from maquette.core.weighting import Weighting
from maquette.domain import Domain, Relation
from maquette.errors import BudgetExceeded
from maquette.models.answers import Answers
from maquette.queries.base import Queries
from maquette.queries.rows import Margin, sum_margin
from maquette.samplers.structures import Draw
from maquette.theory import quantiles
from support.seeded import SeededNoise


class FakeCurator:
    """The mechanisms' protocol over a histogram of the whole universe. Keeps a list of what was asked."""

    def __init__(
        self,
        histogram: NDArray[Any],
        domain: Domain,
        *,
        relation: Relation,
        unit: Unit,
        price: Fraction,
        seed: int,
    ) -> None:
        self.histogram = np.asarray(histogram, dtype=np.int64).reshape(domain.shape)
        self.domain = domain
        self.relation = relation
        self.unit = unit
        self.left = price
        self.asked: list[str] = []
        self._rng = np.random.default_rng(seed)

    def size(self, *, price: Fraction) -> Size:
        n = int(self.histogram.sum())
        if self.relation is Relation.REPLACE_ONE:
            return Size(n, None, None)
        self._pay("size", price)
        law = self._law(price)
        return Size(n + int(self._draw(law, 1)[0]), law, self._receipt())

    def total(self, weight: Weighting, *, price: Fraction) -> Size:
        self._pay("total", price)
        counts = sum_margin(self.domain, self.histogram, (weight.attribute,)).ravel()
        total = math.ceil(Fraction(int(counts @ np.array(weight.numerators)), weight.grid))
        law = self._law(price)
        return Size(total + int(self._draw(law, 1)[0]), law, self._receipt())

    def measure(self, queries: Queries, *, noise: NoiseRequest) -> Measurement:
        sensitivity = queries.sensitivity(self.relation)
        price = noise.price
        match noise.kind:
            case "laplace":
                law: NoiseLaw = Laplace(price, sensitivity.l1 / price)
            case "gaussian":
                law = Gaussian(price, sensitivity.l2_squared / (2 * price))
            case "cube":
                law = Cube(price, Fraction(math.exp(-price)))
            case "norm":
                law = quantiles.law_of(noise, noise.sensitivity(queries, self.relation))
        cost = price if self.unit.is_pure or noise.kind == "gaussian" else price**2 / 2
        self._pay("measure", cost)
        exact = np.asarray(queries.on_histogram(self.histogram), dtype=np.int64)
        return Measurement(
            queries, exact + self._draw(law, len(exact), queries.denominator), law, self._receipt()
        )

    def measure_residuals(
        self, margins: Sequence[Margin], *, variances: Sequence[Fraction]
    ) -> tuple[Residual, ...]:
        tables = [sum_margin(self.domain, self.histogram, margin) for margin in margins]
        sizes = [tuple(self.domain[name].size for name in margin) for margin in margins]
        parts = self._residuals(tables, sizes, variances)
        return tuple(Residual(margin, *part) for margin, part in zip(margins, parts, strict=True))

    def measure_binned_residuals(
        self, binned: Sequence[Binned], *, variances: Sequence[Fraction]
    ) -> tuple[BinnedResidual, ...]:
        parts = self._residuals(
            [self._binned(table) for table in binned], [table.shape for table in binned], variances
        )
        return tuple(BinnedResidual(table, *part) for table, part in zip(binned, parts, strict=True))

    def _residuals(
        self, tables: Sequence[Any], sizes: Sequence[tuple[int, ...]], variances: Sequence[Fraction]
    ) -> list[Any]:
        axes = [projected_axes(shape, s) for shape, s in zip(sizes, variances, strict=True)]
        self._pay(
            "residuals",
            sum(
                (
                    shift_squared(shape, self.relation, removed) / (2 * s)
                    for shape, removed, s in zip(sizes, axes, variances, strict=True)
                ),
                start=Fraction(0),
            ),
        )
        found = []
        for table, shape, removed, s in zip(tables, sizes, axes, variances, strict=True):
            noisy = (table.ravel() + self._draw(Gaussian(Fraction(0), s), table.size)).reshape(shape)
            for axis in removed:
                noisy = noisy * shape[axis] - noisy.sum(axis=axis, keepdims=True)
            denominator = math.prod(shape[axis] for axis in removed)
            found.append((removed, noisy, denominator, s, self._receipt()))
        return found

    def measure_tables(
        self, binned: Sequence[Binned], *, variances: Sequence[Fraction]
    ) -> tuple[NoisyTable, ...]:
        shift = self._shift()
        prices = [self.unit.price(float(variance), shift=shift) for variance in variances]
        self._pay("tables", Fraction(sum(prices)))
        tables = []
        for table, variance in zip(binned, variances, strict=True):
            exact = self._binned(table)
            law = Gaussian(Fraction(0), variance)
            if self.unit.is_pure:
                law = Laplace(Fraction(0), Fraction(math.sqrt(variance / 2)))
            tables.append(
                NoisyTable(table, exact + self._draw(law, len(exact)), Fraction(variance), self._receipt())
            )
        return tuple(tables)

    def distances(
        self, binned: Sequence[Binned], references: Sequence[NDArray[np.int64]], *, price: Fraction
    ) -> tuple[NDArray[np.int64], IndependentLaw]:
        self._pay("distances", price)
        shift, count = self._shift(), len(binned)
        law = self._law(price, l1=shift * count, l2_squared=shift**2 * count)
        return self._distances(binned, references) + self._draw(law, count), law

    def select_tables(
        self,
        binned: Sequence[Binned],
        references: Sequence[NDArray[np.int64]],
        penalties: NDArray[np.int64],
        *,
        count: int,
        price: Fraction,
        related: bool = False,
    ) -> tuple[int, ...]:
        self._pay("select tables", price)
        step = self.unit.selection_epsilon(price / count)
        scores = self._distances(binned, references) - penalties
        noisy = scores * float(step) / (2 * self._shift()) + self._rng.gumbel(size=len(scores))
        chosen: list[int] = []
        left = np.argsort(-noisy).tolist()
        while left and len(chosen) < count:
            chosen.append(left[0])
            left = without_overlap(binned, left, chosen[-1], related=related)
        return tuple(chosen)

    def select(self, queries: Queries, answers: Answers, *, price: Fraction, signed: bool = False) -> int:
        self._pay("select", price)
        scores = self._errors(queries, answers, signed=signed)
        step = float(self.unit.selection_epsilon(price))
        return int(np.argmax(np.ceil(scores) * step / 2 + self._rng.gumbel(size=len(scores))))

    def draw(self, question: Draw, *, price: Fraction) -> DrawnDatabase:
        raise NotImplementedError("draws have an exact law of their own: tested through the real gate")

    def score_of(self, draw: DrawnDatabase, *, price: Fraction) -> NoisyCounts:
        raise NotImplementedError("draws have an exact law of their own: tested through the real gate")

    def largest_error(
        self, queries: Queries, answers: Answers, *, groups: Sequence[Group] | None = None, price: Fraction
    ) -> NoisyCounts:
        self._pay("largest error", price)
        errors = np.ceil(self._errors(queries, answers, signed=False)).astype(np.int64)
        parts = [(group.start, group.stop) for group in groups] if groups else [(0, len(errors))]
        largest = np.array([errors[start:end].max() for start, end in parts], dtype=np.int64)
        law = self._law(price, l1=len(largest), l2_squared=len(largest))
        return NoisyCounts(largest + self._draw(law, len(largest)), law, self._receipt())

    def class_errors(
        self, classes: Sequence[ClassSets], released: ReleasedTables, *, price: Fraction
    ) -> NoisyCounts:
        raise NotImplementedError("errors over classes are tested through the real gate")

    def combination_errors(
        self, released: ReleasedRows, statistics: Sequence[Statistic], *, price: Fraction
    ) -> NoisyCounts:
        raise NotImplementedError("errors over combinations are tested through the real gate")

    def typical_errors(
        self, released: ReleasedRows, statistics: Sequence[TypicalError], *, price: Fraction
    ) -> NoisyCounts:
        raise NotImplementedError("typical errors are tested through the real gate")

    def group_mean_errors(
        self, released: ReleasedRows, statistic: GroupMeans, *, price: Fraction
    ) -> NoisyCounts:
        raise NotImplementedError("errors of group means are tested through the real gate")

    def _law(self, price: Fraction, *, l1: int = 1, l2_squared: int = 1) -> IndependentLaw:
        return Laplace(price, l1 / price) if self.unit.is_pure else Gaussian(price, l2_squared / (2 * price))

    def _shift(self) -> int:
        """By how many counts of a table neighbours differ."""
        return 1 if self.relation is Relation.ADD_REMOVE else 2

    def _errors(self, queries: Queries, answers: Answers, *, signed: bool) -> NDArray[np.float64]:
        n = int(self.histogram.sum())
        gaps = queries.on_histogram(self.histogram) / queries.denominator - n * answers.fractions
        return np.concatenate([gaps, -gaps]) if signed else np.abs(gaps)

    def _binned(self, table: Binned) -> NDArray[np.int64]:
        """The counts of a table in bins, by adding up the cells of the histogram."""
        shape = tuple(self.domain[name].size for name in table.margin)
        counts = sum_margin(self.domain, self.histogram, table.margin).reshape(shape)
        for axis, cuts in enumerate(table.cuts):
            counts = np.add.reduceat(counts, np.array(cuts), axis=axis)
        return counts.ravel()

    def _distances(
        self, binned: Sequence[Binned], references: Sequence[NDArray[np.int64]]
    ) -> NDArray[np.int64]:
        pairs = zip(binned, references, strict=True)
        return np.array([np.abs(self._binned(table) - reference).sum() for table, reference in pairs])

    def _pay(self, what: str, price: Fraction) -> None:
        if price > self.left:
            raise BudgetExceeded("too much", unit=self.unit, needed=float(price), left=float(self.left))
        self.left -= price
        self.asked.append(what)

    def _receipt(self) -> Receipt:
        return Receipt(len(self.asked), "test double")

    def _draw(self, noise: NoiseLaw, count: int, denominator: int = 1) -> NDArray[np.int64]:
        match noise:
            case Laplace(scale=scale):
                p = -math.expm1(-1 / (float(scale) * denominator))
                return self._rng.geometric(p, count) - self._rng.geometric(p, count)
            case Gaussian(sigma_squared=variance):
                return discrete_gaussian(self._rng, math.sqrt(variance) * denominator, count)
            case Cube(base=base):
                return discrete_cube(self._rng, float(base), count)
            case Norm(body=body, resolution=resolution, decay=decay):
                seeded = SeededNoise(int(self._rng.integers(2**31)))
                return seeded.norm(np.zeros(count, np.int64), body=body, resolution=resolution, decay=decay)


def discrete_gaussian(rng: np.random.Generator, sigma: float, count: int) -> NDArray[np.int64]:
    """By its probabilities for small sigma, by rounding where that makes no visible difference."""
    if sigma > 50:
        return np.rint(rng.normal(0, sigma, count)).astype(np.int64)
    reach = np.arange(-math.ceil(12 * sigma) - 2, math.ceil(12 * sigma) + 3)
    weights = np.exp(-(reach**2) / (2 * sigma**2))
    return rng.choice(reach, count, p=weights / weights.sum())


def discrete_cube(rng: np.random.Generator, base: float, count: int) -> NDArray[np.int64]:
    """A shell by its probability, then a uniform point of the shell by rejection from its box.

    Where the shells are too many to list, the continuous law, rounded.
    """
    if base > 0.999:
        return np.rint(rng.gamma(count + 1) / -math.log(base) * rng.uniform(-1, 1, count)).astype(np.int64)
    last = math.ceil((count + 40 * math.sqrt(count) + 60) / -math.log(base))
    radii = np.arange(last + 1)
    logs = count * np.log(2 * radii + 1.0) + radii * math.log(base)
    hollow = np.where(radii > 0, ((2 * radii - 1) / (2 * radii + 1.0)).clip(0) ** count, 0.0)
    weights = np.exp(logs - logs.max()) * (1 - hollow)
    radius = int(rng.choice(radii, p=weights / weights.sum()))
    while True:
        point = rng.integers(-radius, radius + 1, count)
        if np.abs(point).max() == radius:
            return point
