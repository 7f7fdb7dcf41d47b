"""A hypothesis of weighted rows, for universes too large to hold: a small database that is refitted to every answer.

Rows begin as independent uniform records. A released answer is met by tilting the weights of the rows that it
counts; where too few rows carry them, the lightest rows elsewhere are given up and become copies of typical rows,
changed to be counted. All of it is public arithmetic on released answers, with pseudo-random choices that are a
function of those answers.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.core import _check
from maquette.core import _lazy_numba as numba
from maquette.domain import Domain
from maquette.models.answers import SmallDatabase, even_steps, generator, uniform_codes
from maquette.models.dense import check_covered, coded_rows
from maquette.models.hypothesis import Prior, Released, extend_digest
from maquette.models.refit import FittedAnswer, fit_answers
from maquette.queries import canonical_hash, condition
from maquette.queries.base import Queries
from maquette.queries.condition import Leaf, Runs, product
from maquette.queries.predicates import SetQueries
from maquette.queries.rows import Margin

Floats = NDArray[np.float64]
Columns = dict[str, NDArray[Any]]

ROWS = 2**14
"""Rows of a hypothesis."""
_MIN_EFFECTIVE = 64
"""Effective rows that should stand for a counted part, however small."""
_MAX_TRIES = 40


@dataclass(frozen=True, slots=True, eq=False)
class RowNumbers:
    """The rows that a 0/1 query counts."""

    rows: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class RowWeights:
    """The weight of every row in a query with fractional weights."""

    weights: Floats


class TiltedRows:
    """Weights of rows that add up to 1 at first, tilted in place, with their running sum."""

    def __init__(self, weights: Floats) -> None:
        self.weights = weights
        self.total = 1.0

    def share(self, query: RowNumbers | RowWeights) -> float:
        counting = isinstance(query, RowNumbers)
        total = _sum_at(self.weights, query.rows) if counting else _dot(self.weights, query.weights)
        return min(1.0, max(0.0, total / self.total))

    def tilt(self, query: RowNumbers | RowWeights, step: float) -> None:
        if isinstance(query, RowNumbers):
            self.total += _tilt_at(self.weights, query.rows, math.exp(step))
        else:
            self.weights *= np.exp(step * query.weights)
            self.total = float(self.weights.sum())

    def normalise(self) -> None:
        self.weights /= self.weights.sum()
        self.total = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class WeightedRows:
    """A distribution on some ten thousand rows over the attributes that may be asked about.

    Accuracy: no guarantee; the sparse vector finds an answer that is far off, which is then paid for.
    Cost: an answer looks at every row once; a refit at the counted rows of every released answer, a few times.
    """

    domain: Domain
    attributes: Margin
    columns: Columns
    weights: Floats
    origin: str
    released: tuple[str, ...] = ()
    fit: tuple[FittedAnswer, ...] = ()
    queries: tuple[Queries, ...] = ()
    prior: Prior | None = None
    """What it started from; None for uniform records."""
    _matrix: list[NDArray[Any]] = field(default_factory=list)
    """The columns of `_looked_up` as one array, made when first needed."""

    @classmethod
    def uniform(cls, domain: Domain, attributes: Margin, *, rows: int = ROWS) -> WeightedRows:
        """Independent uniform records of equal weight."""
        _check.whole(rows=rows)
        origin = extend_digest("rows", domain.fingerprint, str(rows), *attributes)
        rng = generator(origin)
        columns = {name: uniform_codes(rng, domain[name].size, rows) for name in attributes}
        return cls(domain, attributes, columns, np.full(rows, 1.0 / rows), origin)

    @classmethod
    def starting(cls, domain: Domain, attributes: Margin, prior: Prior) -> WeightedRows:
        """The rows of a release and a few uniform ones."""
        columns, weights = prior.rows(attributes)
        origin = extend_digest("rows", domain.fingerprint, *attributes, "prior", prior.digest)
        return cls(domain, attributes, columns, weights, origin, prior=prior)

    def answer(self, queries: Queries) -> Floats:
        """Fractions in [0, 1], one per query."""
        check_covered(self.domain, self.attributes, queries)
        if queries.count == 1:
            factors = product(queries.conditions[0]) if isinstance(queries, SetQueries) else None
            looked_up = factors and all(leaf.attribute in self._looked_up for leaf in factors)
            share = (
                self._count(factors) if factors and looked_up else _dot(self.weights, self._weigh(queries))
            )
            return np.array([min(1.0, max(0.0, share))])
        return np.clip(queries.on_rows(self.columns, self.weights) / queries.denominator, 0.0, 1.0)

    def step(self, queries: Queries, value: float, *, step: float) -> WeightedRows:
        """Textbook multiplicative weights on the rows: exp(step s q), s the sign of value minus answer."""
        _check.positive(step=step)
        weigh = self._weigh(queries)
        signed = math.copysign(step, value - float(self.answer(queries)[0]))
        weights = self.weights * np.exp(signed * weigh)
        origin = extend_digest(self.digest(), "step", canonical_hash(queries), signed.hex())
        weights = weights / weights.sum()
        return WeightedRows(self.domain, self.attributes, self.columns, weights, origin, prior=self.prior)

    def refit(self, released: Sequence[Released]) -> WeightedRows:
        """Fitted to all released answers, in their order: one more at a time, with new rows where there are too few.

        A list that extends the one it is fitted to goes on from here, with the same result.
        """
        keys = tuple(answer.key for answer in released)
        done = len(self.released)
        if self.released != keys[:done] or (not done and self.origin != self._start().origin):
            return self._start().refit(released)
        if done == len(keys):
            return self
        work = _Work.of(self)
        for place, answer in enumerate(released[done:], start=done):
            check_covered(self.domain, self.attributes, answer.queries)
            work.add(answer, extend_digest(self.origin, *keys[: place + 1]))
        return replace(
            self,
            columns=work.columns,
            weights=work.rows.weights,
            released=keys,
            fit=tuple(work.fit),
            queries=tuple(work.queries),
            _matrix=[],
        )

    def digest(self) -> str:
        return extend_digest(self.origin, *self.released)

    def synthetic(self, m: int, *, key: str) -> SmallDatabase:
        """m rows of its attributes, at even steps through the weights."""
        _check.whole(m=m)
        chosen = even_steps(self.weights, m, rng=generator(f"{self.digest()} {key}"))
        return coded_rows(self.domain, {name: codes[chosen] for name, codes in self.columns.items()})

    @property
    def _looked_up(self) -> Margin:
        """The attributes with few enough cells for a mask over them."""
        small = condition.MAX_LOOKUP_CELLS
        return tuple(name for name in self.attributes if self.domain[name].size <= small)

    def _count(self, factors: Sequence[Leaf]) -> float:
        """The weight of the rows in a product of sets, in one pass."""
        if not self._matrix:
            self._matrix.append(np.stack([self.columns[name] for name in self._looked_up]))
        masks = [condition.mask(leaf.runs, self.domain[leaf.attribute].size) for leaf in factors]
        starts = np.cumsum([0, *(len(mask) for mask in masks)])
        places = np.array([self._looked_up.index(leaf.attribute) for leaf in factors])
        return _sum_product(
            self.weights, self._matrix[0], places, starts, np.concatenate(masks).view(np.uint8)
        )

    def _start(self) -> WeightedRows:
        if self.prior is not None:
            return WeightedRows.starting(self.domain, self.attributes, self.prior)
        return WeightedRows.uniform(self.domain, self.attributes, rows=len(self.weights))

    def _weigh(self, queries: Queries) -> Floats:
        return _weigh(self.domain, self.columns, queries)


@dataclass(slots=True)
class _Work:
    """A refit on its way."""

    domain: Domain
    columns: Columns
    rows: TiltedRows
    fit: list[FittedAnswer]
    queries: list[Queries]

    @classmethod
    def of(cls, start: WeightedRows) -> _Work:
        columns = {name: codes.copy() for name, codes in start.columns.items()}
        fit = [copy.copy(answer) for answer in start.fit]
        return cls(start.domain, columns, TiltedRows(start.weights.copy()), fit, list(start.queries))

    def add(self, answer: Released, key: str) -> None:
        """One more answer."""
        weigh = _weigh(self.domain, self.columns, answer.queries)
        counting = answer.queries.denominator == 1
        query = RowNumbers(np.flatnonzero(weigh)) if counting else RowWeights(weigh)
        self.fit.append(FittedAnswer.of(answer, query, counting=counting))
        self.queries.append(answer.queries)
        if counting:
            self._recruit(answer.queries, generator(key))
        fit_answers(self.rows, self.fit, records=len(self.rows.weights))
        self.rows.normalise()

    def _recruit(self, queries: Queries, rng: np.random.Generator) -> None:
        """More rows for a counted part that too few stand for: copies of typical rows in place of the lightest."""
        newest = self.fit[-1]
        weights, count = self.rows.weights, len(self.rows.weights)
        enough = max(_MIN_EFFECTIVE, math.ceil(newest.value * count / 2))
        effective = _effective(weights[newest.query.rows])
        if effective >= enough / 2:
            return
        outside = np.ones(count, dtype=bool)
        outside[newest.query.rows] = False
        spare = np.flatnonzero(outside)
        number = min(enough - int(effective), len(spare) // 2)
        if number < 1:
            return
        copies = self._counted_copies(queries, number, rng)
        number = len(next(iter(copies.values()))) if copies else 0
        lightest = spare[np.argsort(weights[spare], kind="stable")[:number]]
        for name, codes in copies.items():
            self.columns[name][lightest] = codes
        # as heavy as the answer says, and no heavier; the fit does the rest
        share = max(newest.value, 1.0 / count)
        weights[lightest] = share * self.rows.total / (number + effective)
        self.rows.total = float(weights.sum())
        self._recount(lightest)

    def _counted_copies(self, queries: Queries, number: int, rng: np.random.Generator) -> Columns:
        """Copies of rows, chosen by weight, changed in the query's attributes only so that it counts them."""
        chosen = even_steps(self.rows.weights, number, rng=rng)
        copies = {name: codes[chosen] for name, codes in self.columns.items()}
        factors = product(queries.conditions[0]) if isinstance(queries, SetQueries) else None
        if factors is not None:
            for leaf in factors:
                size = self.domain[leaf.attribute].size
                wrong = np.flatnonzero(~condition.holds(leaf.runs, copies[leaf.attribute], size))
                copies[leaf.attribute][wrong] = _members(leaf.runs, rng, len(wrong))
            return copies
        for _ in range(_MAX_TRIES):
            wrong = np.flatnonzero(_weigh(self.domain, copies, queries) == 0)
            if not len(wrong):
                break
            for name in queries.attributes:
                copies[name][wrong] = uniform_codes(rng, self.domain[name].size, len(wrong))
        right = np.flatnonzero(_weigh(self.domain, copies, queries))
        return {name: codes[right] for name, codes in copies.items()} if len(right) else {}

    def _recount(self, changed: NDArray[np.int64]) -> None:
        """Which answers count the changed rows now."""
        part = {name: codes[changed] for name, codes in self.columns.items()}
        flags = np.zeros(len(self.rows.weights), dtype=bool)
        flags[changed] = True
        for answer, queries in zip(self.fit, self.queries, strict=True):
            weigh = _weigh(self.domain, part, queries)
            if isinstance(answer.query, RowNumbers):
                others = answer.query.rows[~flags[answer.query.rows]]
                answer.query = RowNumbers(np.concatenate([others, changed[weigh != 0]]))
            else:
                weights = answer.query.weights.copy()
                weights[changed] = weigh
                answer.query = RowWeights(weights)


def _members(runs: Runs, rng: np.random.Generator, number: int) -> NDArray[np.int64]:
    """So many codes out of runs of them, all equally likely; a run may be too long to list."""
    low, high = np.array(runs, dtype=np.int64).T
    ends = np.cumsum(high - low + 1)
    numbers = rng.integers(0, int(ends[-1]), number)
    run = np.searchsorted(ends, numbers, side="right")
    return high[run] + 1 + numbers - ends[run]


def _weigh(domain: Domain, columns: Columns, queries: Queries) -> Floats:
    """The weight of every row in one query."""
    if not queries.attributes:  # a constant, which no column decides
        one = {name: np.zeros(1, dtype=np.uint32) for name in domain.names}
        constant = queries.columns_of(one)[0] / queries.denominator
        return np.full(len(next(iter(columns.values()))), float(constant[0]))
    return np.asarray(queries.columns_of(columns)[0] / queries.denominator, dtype=np.float64)


def _effective(weights: Floats) -> float:
    """How many equal weights are worth as much: (sum)^2 / sum of squares."""
    squares = _dot(weights, weights)
    return float(weights.sum()) ** 2 / squares if squares > 0 else 0.0


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "nsz", "contract"})
def _dot(weights: Any, query: Any) -> float:
    """The sum of `weights` (rows) times `query` (rows).

    Without the threads of a linear-algebra library, which cost more than so short a sum.
    """
    total = 0.0
    for i in range(weights.shape[0]):
        total += weights[i] * query[i]
    return total


@numba.njit(cache=True, nogil=True)
def _sum_product(weights: Any, matrix: Any, places: Any, starts: Any, masks: Any) -> float:
    """The weight of the rows in a product of sets.

    `weights` (rows); `matrix` (attributes, rows) are codes; set j is over the attribute `places[j]`, its mask over the
    codes begins at `starts[j]` of `masks` (0 or 1, flat). One step takes 1,024 rows, set by set and without a branch
    per row: rows in and out of a set follow no order.
    """
    total = 0.0
    inside = np.empty(1024, dtype=np.uint8)
    for first in range(0, weights.shape[0], 1024):
        length = min(1024, weights.shape[0] - first)
        inside[:] = 1
        for j in range(places.shape[0]):
            column, start = matrix[places[j]], starts[j]
            for i in range(length):
                inside[i] &= masks[start + column[first + i]]
        for i in range(length):
            total += weights[first + i] * inside[i]
    return total


@numba.njit(cache=True, nogil=True)
def _sum_at(weights: Any, rows: Any) -> float:
    """The sum of `weights` (all rows) over some row numbers."""
    total = 0.0
    for i in range(rows.shape[0]):
        total += weights[rows[i]]
    return total


@numba.njit(cache=True, nogil=True)
def _tilt_at(weights: Any, rows: Any, factor: float) -> float:
    """Multiply the weights of some row numbers, in place; returns by how much the sum of all grew."""
    grown = 0.0
    for i in range(rows.shape[0]):
        old = weights[rows[i]]
        weights[rows[i]] = old * factor
        grown += old * factor - old
    return grown
