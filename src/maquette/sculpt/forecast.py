"""How large the errors tend to be, from public inputs alone. No promise.

Where whole marginals are measured in the residual basis its own formula is used. Elsewhere the expectation is a power
law in public sizes, fitted to releases of generated tables (`python -m benchmarks calibrate`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maquette.mechanisms import shape
from maquette.mechanisms.base import Task
from maquette.mechanisms.residual import RESIDUAL
from maquette.queries.base import Queries
from maquette.queries.ranges import Prefixes, Ranges
from maquette.sculpt import allocation
from maquette.sculpt.allocation import Exchange, Interests
from maquette.theory import existence

_NEARER = 4.0
_DEVIATIONS, _LOOSE = 4.0, 0.5
"""Where no two attributes are looked at together, which was not simulated, or without a delta, which was too rarely."""


@dataclass(frozen=True, slots=True)
class Form:
    """The sizes that the expectation goes by where tables are measured in bins."""

    noise: float
    """The deviation of one cell of a two-way table at an equal share of the price, as a fraction of the records."""
    n: int
    cells: float
    """Cells of a typical marginal of the workload: the median."""
    tables: int
    """Pairs of attributes that queries look at."""
    third: bool

    @property
    def terms(self) -> tuple[float, ...]:
        """What the logarithm of an error is linear in."""
        return (
            1.0,
            math.log(self.noise),
            math.log(self.n),
            math.log(self.cells),
            math.log(self.tables),
            float(self.third),
            math.log1p(1 / (self.noise * self.cells)),
            math.log1p(self.n / self.cells),
        )


@dataclass(frozen=True, slots=True)
class Clear:
    """Errors by formula where whole marginals are measured: of independent noise."""

    largest: float
    mean_l1: float
    filling: float
    """Records for every cell of a typical marginal."""

    @property
    def largest_terms(self) -> tuple[float, ...]:
        return 1.0, math.log(self.largest)

    @property
    def mean_terms(self) -> tuple[float, ...]:
        return 1.0, math.log(self.mean_l1), math.log1p(self.filling)


@dataclass(frozen=True, slots=True)
class Expected:
    """Typical errors of a release, as fractions; no promise."""

    largest: float
    mean_l1: float | None
    """Mean over marginals of the L1 distance; None for other queries, where nothing was fitted."""
    within: tuple[float, float] | None
    """Between which multiples of the largest error nine of ten simulated tables lay; None where none were."""

    def __str__(self) -> str:
        if self.within is None:
            return "expected by a rough formula"
        low, high = self.within
        spread = f"expected by simulation, 90 % of tables within {low:g} to {high:g} times"
        return spread if self.mean_l1 is None else f"{spread}; mean L1 of a marginal about {self.mean_l1:.2g}"


def expected(task: Task, wanted: Interests, *, n: int) -> Expected:
    """The largest error over the workload and the mean L1 distance of its marginals."""
    seen = form(task, wanted, n=n)
    if isinstance(seen, Clear):
        largest = power(allocation.CLEAR_LARGEST, seen.largest_terms)
        mean = power(allocation.CLEAR_MEAN_L1, seen.mean_terms)
        return Expected(min(1.0, largest), min(2.0, mean), allocation.CLEAR_LARGEST_WITHIN)
    if not wanted.pairs or task.unit.is_pure:
        rough = _sums(task.queries) * (_DEVIATIONS * seen.noise + _LOOSE / math.sqrt(n))
        return Expected(min(1.0, rough), None, None)
    largest = _sums(task.queries) * power(allocation.LARGEST, seen.terms)
    mean = min(2.0, power(allocation.MEAN_L1, seen.terms)) if shape.is_marginals(task.queries) else None
    return Expected(min(1.0, largest), mean, allocation.LARGEST_WITHIN)


def power(exponents: Sequence[float], terms: Sequence[float]) -> float:
    """The error whose logarithm is linear in the terms."""
    return math.exp(sum(e * t for e, t in zip(exponents, terms, strict=True)))


def form(task: Task, wanted: Interests, *, n: int) -> Form | Clear:
    """What the expectation goes by, from public sizes."""
    whole = allocation.clear_noise(task, n=n, price=task.price)
    if whole is not None:
        return Clear(
            RESIDUAL.prepare(task, n=n).forecast.expected or 1.0,
            _typical_l1(whole / n),
            n / _typical_cells(task.queries, wanted),
        )
    exchange = Exchange.of(task.unit, task.relation)
    tables = max(len(wanted.pairs), len(wanted.attributes), 1)
    noise = math.sqrt(exchange.variance(float(task.price) / tables)) / n
    return Form(noise, n, _typical_cells(task.queries, wanted), tables, bool(wanted.triples))


def small_rows(task: Task, wanted: Interests, *, n: int) -> int:
    """The fewest rows that keep the largest error: ln(2|Q|) / (2 alpha^2), at most as many as there are records.

    Accuracy: so many rows drawn at random would be within alpha, `_NEARER` times the expected error; rows that are
        carved come that much nearer (`python -m benchmarks sizes`).
    """
    alpha = min(1.0, _NEARER * expected(task, wanted, n=n).largest)
    log_queries = math.log(max(shape.distinct(task.queries), 1))
    return max(1, min(existence.sampling_rows(alpha=alpha, log_queries=log_queries), n))


def _typical_l1(noise: NDArray[np.float64]) -> float:
    """The mean over marginals of the L1 norm of their noise; rows keep marginals that do not stand clear from more."""
    absolute = math.sqrt(2 / math.pi) * noise
    return float(np.mean(absolute / (1 + allocation.CLEAR * noise)))


def _typical_cells(queries: Queries, wanted: Interests) -> float:
    asked = shape.margins_of(queries)
    domain = queries.domain
    if asked:
        return float(np.median([domain.cells(a.margin) for a in asked]))
    names = domain.names
    return float(np.median([domain.cells(names[i] for i in pair) for pair in wanted.pairs] or [1.0]))


def _sums(queries: Queries) -> float:
    """Prefixes and ranges add up cells: fitted to 32 releases over one attribute of 16 to 4,096 cells."""
    summed = [part for part in queries.classes if isinstance(part, (Prefixes, Ranges))]
    cells = max((part.domain[name].cells for part in summed for name in part.attributes), default=1)
    return max(1.0, math.sqrt(cells) / 9)
