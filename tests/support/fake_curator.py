"""A test double of the gate: exact counts from a histogram plus seeded numpy noise. Nothing about it is private."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.accounting.unit import Unit
from maquette.domain import Domain, Relation
from maquette.errors import BudgetExceeded
from maquette.models.answers import Answers
from maquette.queries.base import Group, Margin, Queries, sum_margin
from maquette.queries.counting import projected_axes, shift_squared
from maquette.questions.measurement import LargestError, Measurement, Receipt, Residual, Size
from maquette.questions.noise import Cube, Gaussian, Laplace, NoiseLaw, NoiseRequest
from maquette.questions.released import ReleasedTables


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
        noise = Laplace(price, 1 / price) if self.unit.is_pure else Gaussian(price, 1 / (2 * price))
        return Size(n + int(self._draw(noise, 1)[0]), noise, self._receipt())

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
        cost = price if self.unit.is_pure or noise.kind == "gaussian" else price**2 / 2
        self._pay("measure", cost)
        exact = np.asarray(queries.on_histogram(self.histogram), dtype=np.int64)
        return Measurement(
            queries, exact + self._draw(law, len(exact), queries.denominator), law, self._receipt()
        )

    def measure_residuals(
        self, margins: Sequence[Margin], *, variances: Sequence[Fraction]
    ) -> tuple[Residual, ...]:
        sizes = [tuple(self.domain[name].size for name in margin) for margin in margins]
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
        for margin, shape, removed, s in zip(margins, sizes, axes, variances, strict=True):
            table = sum_margin(self.domain, self.histogram, margin).reshape(shape)
            noisy = table + self._draw(Gaussian(Fraction(0), s), table.size).reshape(shape)
            for axis in removed:
                noisy = noisy * shape[axis] - noisy.sum(axis=axis, keepdims=True)
            denominator = math.prod(shape[axis] for axis in removed)
            found.append(Residual(margin, removed, noisy, denominator, s, self._receipt()))
        return tuple(found)

    def select(self, queries: Queries, answers: Answers, *, price: Fraction, signed: bool = False) -> int:
        self._pay("select", price)
        n = int(self.histogram.sum())
        gaps = queries.on_histogram(self.histogram) / queries.denominator - n * answers.fractions
        scores = np.concatenate([gaps, -gaps]) if signed else np.abs(gaps)
        if self.unit.is_pure:
            return int(
                np.argmax(np.ceil(scores) * float(price) / 2 + self._rng.exponential(size=len(scores)))
            )
        return int(np.argmax(np.ceil(scores) * math.sqrt(2 * price) + self._rng.gumbel(size=len(scores))))

    def largest_error(
        self, queries: Queries, answers: Answers, *, groups: Sequence[Group] | None = None, price: Fraction
    ) -> LargestError:
        raise NotImplementedError("certificates are tested through the real gate")

    def class_errors(
        self, classes: Sequence[str], released: ReleasedTables, *, price: Fraction
    ) -> LargestError:
        raise NotImplementedError("certificates are tested through the real gate")

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
