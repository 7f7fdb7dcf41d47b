"""The version space of the median mechanism: the small databases that no released answer has ruled out.

Every small database of m rows starts as possible. A question is answered by the lower median of the answers of those
that are possible; an answer that was paid for because that median is far off rules out the half on its wrong side
(Roth and Roughgarden 2010; any linear queries: Roth 2010). Built from released answers only: it costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.core import _check
from maquette.domain import Domain
from maquette.errors import ParameterError
from maquette.models.answers import SmallDatabase, generator, systematic, uniform_codes
from maquette.models.dense import check_covered, coded_rows
from maquette.models.fits import cell_weights
from maquette.models.hypothesis import MIXING, Hypothesis, Prior, Released, extend_digest
from maquette.models.start import chosen_margin
from maquette.queries.base import Queries
from maquette.queries.rows import Margin

Floats = NDArray[np.float64]

MAX_ENTRIES = 2**25
"""Small databases times cells (16 at least) that are listed one by one; beyond, the space is sampled."""
_MAX_ROWS = 2**16 - 1
"""Of a listed database, so that its counts fit 16 bits."""


def version_space_for(
    domain: Domain,
    *,
    rows: int,
    kind: str = "auto",
    attributes: Iterable[str] | None = None,
    prior: Prior | None = None,
) -> Hypothesis:
    """All small databases of so many rows over the attributes that may be asked about (or all).

    They have equal weight, or with a `prior` the weight with which its rows would give them, mixed with equal ones.

    `exact` lists them, `sampled` holds a few hundred that fit; `auto` lists where that is possible. Only for an exact
    space is it proved that c positives suffice (`theory.online.median`).
    """
    _check.whole(rows=rows)
    _check.one_of(("auto", "exact", "sampled"), kind=kind)
    margin = chosen_margin(domain, attributes)
    cells = domain.cells(margin)
    fits = _entries(cells, rows) <= MAX_ENTRIES
    if kind == "exact" and not fits:
        raise ParameterError(
            f"the small databases of {rows} rows over {cells:,} cells are too many to list; use kind='sampled'"
        )
    if kind != "sampled" and fits:
        return VersionSpace.whole(domain, margin, rows, prior)
    return VersionSample.whole(domain, margin, rows, prior)


@dataclass(frozen=True, slots=True, eq=False)
class VersionSpace:
    """Every small database that is still possible, as the number of its rows in each cell.

    Cost: an answer weighs every database; memory for all that were possible at the start.
    """

    domain: Domain
    attributes: Margin
    rows: int
    counts: NDArray[np.uint16]
    """Databases down, cells across."""
    origin: str
    released: tuple[str, ...] = ()
    prior: Prior | None = None
    weights: Floats | None = None
    """Of the databases; None where all have the same. Every positive removes half of what is left of their sum."""

    @classmethod
    def whole(cls, domain: Domain, attributes: Margin, rows: int, prior: Prior | None = None) -> VersionSpace:
        """All of them, the one with every row in the first cell first."""
        counts = _compositions(rows, domain.cells(attributes))
        if prior is None:
            origin = extend_digest("version space", domain.fingerprint, str(rows), *attributes)
            return cls(domain, attributes, rows, counts, origin)
        words = (*attributes, "prior", prior.digest)
        origin = extend_digest("version space", domain.fingerprint, str(rows), *words)
        chances = np.exp(prior.log_chances(counts, attributes))
        mixed = (1 - MIXING) * chances / chances.sum() + MIXING / len(counts)
        return cls(domain, attributes, rows, counts, origin, prior=prior, weights=mixed)

    @property
    def size(self) -> int:
        """How many small databases are left."""
        return len(self.counts)

    def answer(self, queries: Queries) -> Floats:
        """Lower medians of the answers of the possible databases, one per query."""
        check_covered(self.domain, self.attributes, queries)
        return np.array([lower_median(fractions, self.weights) for fractions in self._fractions(queries)])

    def refit(self, released: Sequence[Released]) -> VersionSpace:
        """The databases that these answers leave possible, one answer after the other.

        Each was paid for because the median was far off. Where none would be left, the half closest to it stays.
        """
        keys = tuple(answer.key for answer in released)
        count = len(self.released)
        if self.released != keys[:count]:
            return VersionSpace.whole(self.domain, self.attributes, self.rows, self.prior).refit(released)
        current = self
        for answer in released[count:]:
            current = current._prune(answer.queries, answer.value)
        return replace(current, released=keys)

    def step(self, queries: Queries, value: float, *, step: float) -> VersionSpace:
        """Prune by one answer; there is no step size."""
        pruned = self._prune(queries, value)
        return replace(pruned, origin=extend_digest(self.digest(), "step", float(value).hex()), released=())

    def digest(self) -> str:
        return extend_digest(self.origin, *self.released)

    def synthetic(self, m: int, *, key: str) -> SmallDatabase:
        """m rows that stand for the average of the possible databases."""
        _check.whole(m=m)
        cells = self.counts.sum(axis=0) if self.weights is None else self.weights @ self.counts
        chosen = np.repeat(np.arange(self.counts.shape[1]), systematic(cells, m))
        codes = np.unravel_index(chosen, self._shape) if self.attributes else ()
        return coded_rows(self.domain, dict(zip(self.attributes, codes, strict=True)))

    @property
    def _shape(self) -> tuple[int, ...]:
        return tuple(self.domain[name].size for name in self.attributes)

    def _fractions(self, queries: Queries) -> Floats:
        """The answers of all databases: queries down, databases across.

        `tables` holds the margin of every database over the attributes of the queries, databases down, cells across.
        """
        names = queries.attributes
        other_axes = tuple(1 + i for i, name in enumerate(self.attributes) if name not in names)
        tables = self.counts.reshape(-1, *self._shape).sum(axis=other_axes).reshape(self.size, -1)
        return np.asarray(cell_weights(queries) @ tables.T / self.rows)

    def _prune(self, queries: Queries, value: float) -> VersionSpace:
        check_covered(self.domain, self.attributes, queries)
        fractions = self._fractions(queries)[0]
        stay = still_possible(fractions, value, self.weights)
        weights = None if self.weights is None else self.weights[stay]
        return replace(self, counts=self.counts[stay], weights=weights)


def lower_median(fractions: Floats, weights: Floats | None = None) -> float:
    """The middle value, the lower of the two where there are two; by weight where weights are given."""
    if weights is not None:
        order = np.argsort(fractions, kind="stable")
        sums = np.cumsum(weights[order])
        place = int(np.searchsorted(sums, sums[-1] / 2))
        return float(fractions[order[min(place, len(order) - 1)]])
    middle = (len(fractions) - 1) // 2
    return float(np.partition(fractions, middle)[middle])


def still_possible(fractions: Floats, value: float, weights: Floats | None = None) -> NDArray[np.bool_]:
    """Which databases stay, by their answers: those on the side of the median where the released value lies.

    Where that side is empty, the half whose answers are closest to the value.
    """
    median = lower_median(fractions, weights)
    side = fractions > median if value > median else fractions < median
    if side.any():
        return side
    distances = np.abs(fractions - value)
    return distances <= lower_median(distances, weights)


def _compositions(rows: int, cells: int) -> NDArray[np.uint16]:
    """Every way to put so many rows into cells, falling; cell by cell, by what is left of the rows."""
    left, counts = np.array([rows]), np.zeros((1, 0), dtype=np.uint16)
    for _ in range(cells - 1):
        ways = left + 1
        chosen = np.repeat(np.arange(len(left)), ways)
        after = np.arange(len(chosen)) - np.repeat(np.cumsum(ways) - ways, ways)
        counts = np.column_stack([counts[chosen], (left[chosen] - after).astype(np.uint16)])
        left = after
    return np.column_stack([counts, left.astype(np.uint16)])


def listable_rows(cells: int) -> int:
    """The most rows whose small databases over so many cells are listed one by one; 0 where not even one row's are."""
    if _entries(cells, 1) > MAX_ENTRIES:
        return 0
    low, high = 1, _MAX_ROWS + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _entries(cells, middle) <= MAX_ENTRIES else (low, middle)
    return low


def _entries(cells: int, rows: int) -> float:
    """Small databases times cells, or times 16 where the answers take more room; infinite beyond counting."""
    if min(cells - 1, rows) > 60 or cells > MAX_ENTRIES or rows > _MAX_ROWS:
        return math.inf
    return math.comb(cells + rows - 1, rows) * max(cells, 16)


# A sampled version space: a few hundred small databases that fit the released answers, for universes of any
# size.
#
# The databases walk: one row at a time gets another value, and the change stays unless it breaks a released
# answer more than before. Here sequences of rows have equal weight, not multisets. It is not proved that every
# positive halves the space; the stated error of an answer does not depend on that.


Columns = dict[str, NDArray[Any]]

SAMPLE_SIZE, MIN_SAMPLE_SIZE = 200, 20
"""Small databases in the sample, at most and at least. Set by hand, like WALK: no benchmark compares others."""
MAX_SAMPLE_ROWS = 2**22
"""Rows of all of them together; with more rows each, the sample is smaller."""
WALK = 300
"""Changes that each database tries after a new answer."""


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """What a released answer leaves possible: fractions on one side of a border."""

    queries: Queries
    border: float
    above: bool

    def excess(self, fractions: Floats) -> Floats:
        """By how much each fraction is on the wrong side; 0 where it is not."""
        return np.maximum(self.border - fractions if self.above else fractions - self.border, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class VersionSample:
    """Some small databases that are still possible."""

    domain: Domain
    attributes: Margin
    rows: int
    columns: Columns
    """By attribute: databases down, rows across."""
    origin: str
    released: tuple[str, ...] = ()
    sides: tuple[Side, ...] = ()
    prior: Prior | None = None

    @classmethod
    def whole(
        cls, domain: Domain, attributes: Margin, rows: int, prior: Prior | None = None
    ) -> VersionSample:
        """Independent rows: uniform, or drawn from a prior and a few uniform ones among them."""
        words = attributes if prior is None else (*attributes, "prior", prior.digest)
        origin = extend_digest("version sample", domain.fingerprint, str(rows), *words)
        rng = generator(origin)
        size = max(MIN_SAMPLE_SIZE, min(SAMPLE_SIZE, MAX_SAMPLE_ROWS // rows))
        columns = {n: uniform_codes(rng, domain[n].size, (size, rows)) for n in attributes}
        if prior is not None:
            chosen, stays = rng.integers(0, prior.m, (size, rows)), rng.random((size, rows)) < MIXING
            for name in set(attributes) & set(prior.columns):
                columns[name] = np.where(stays, columns[name], prior.columns[name][chosen]).astype(
                    columns[name].dtype
                )
        return cls(domain, attributes, rows, columns, origin, prior=prior)

    @property
    def size(self) -> int:
        return len(next(iter(self.columns.values())))

    def answer(self, queries: Queries) -> Floats:
        """Lower medians of the answers of the sampled databases, one per query."""
        check_covered(self.domain, self.attributes, queries)
        return np.array([lower_median(fractions) for fractions in self._fractions(queries)])

    def refit(self, released: Sequence[Released]) -> VersionSample:
        """Prune by these answers, one after the other; the sample walks on after each."""
        keys = tuple(answer.key for answer in released)
        count = len(self.released)
        if self.released != keys[:count]:
            return VersionSample.whole(self.domain, self.attributes, self.rows, self.prior).refit(released)
        current = self
        for place, answer in enumerate(released[count:], start=count):
            current = replace(current._prune(answer.queries, answer.value), released=keys[: place + 1])
        return current

    def step(self, queries: Queries, value: float, *, step: float) -> VersionSample:
        """Prune by one answer; there is no step size."""
        pruned = self._prune(queries, value)
        origin = extend_digest(self.digest(), "step", float(value).hex())
        return replace(pruned, origin=origin, released=(), sides=())

    def digest(self) -> str:
        return extend_digest(self.origin, *self.released)

    def synthetic(self, m: int, *, key: str) -> SmallDatabase:
        """m rows drawn evenly from all sampled databases."""
        _check.whole(m=m)
        rng = generator(f"{self.digest()} {key}")
        pool = self.size * self.rows
        chosen = np.sort(rng.permutation(pool)[:m]) if m <= pool else rng.integers(0, pool, m)
        return coded_rows(self.domain, {n: c.ravel()[chosen] for n, c in self.columns.items()})

    def _fractions(self, queries: Queries) -> Floats:
        """The answers of all databases: queries down, databases across."""
        flat = {name: codes.ravel() for name, codes in self.columns.items()}
        weights = self._weigh(queries, flat)
        return weights.reshape(queries.count, self.size, self.rows).mean(axis=2)

    def _weigh(self, queries: Queries, rows: Columns) -> Floats:
        """The weight that every query gives to every row: queries down, rows across."""
        if queries.attributes:
            return np.asarray(queries.columns_of(rows) / queries.denominator)
        one = {name: np.zeros(1, dtype=np.uint32) for name in self.domain.names}
        constant = queries.columns_of(one) / queries.denominator
        return np.repeat(constant, len(next(iter(rows.values()))), axis=1)

    def _prune(self, queries: Queries, value: float) -> VersionSample:
        """Copy the databases that stay, drawn at random until the sample is full again, and let all of them walk."""
        check_covered(self.domain, self.attributes, queries)
        fractions = self._fractions(queries)[0]
        median = lower_median(fractions)
        rng = generator(extend_digest(self.digest(), "prune", float(value).hex()))
        half_a_row = 0.5 / self.rows
        above = value > median
        side = Side(queries, median + half_a_row if above else median - half_a_row, above)
        survivors = np.flatnonzero(still_possible(fractions, value))
        chosen = survivors[rng.integers(0, len(survivors), self.size)]
        columns = {name: codes[chosen].copy() for name, codes in self.columns.items()}
        return replace(self, columns=columns, sides=(*self.sides, side))._walk(rng)

    def _walk(self, rng: np.random.Generator) -> VersionSample:
        """Change one value of one row in every database, WALK times; a change that breaks the answers more is undone.

        Arrays, each with one entry per database: `row` is the row that the step changes; `old` and `new` hold the
        values of that row by attribute, before and after; `fractions[i]` is the share of the rows that the query of
        side i counts; `worse` adds up, over all sides, how much farther beyond their borders the fractions get.
        A step draws a row of each database and one attribute for all of them, draws new values, updates the fractions
        by the two rows alone, and writes the values back where `worse` is not above 0.
        """
        columns = {name: codes.copy() for name, codes in self.columns.items()}
        fractions = [replace(self, columns=columns)._fractions(side.queries)[0] for side in self.sides]
        databases = np.arange(self.size)
        for _ in range(WALK):
            row = rng.integers(0, self.rows, self.size)
            name = self.attributes[int(rng.integers(0, len(self.attributes)))]
            old = {n: codes[databases, row] for n, codes in columns.items()}
            new = old | {name: uniform_codes(rng, self.domain[name].size, self.size)}
            proposals: dict[int, Floats] = {}
            worse = np.zeros(self.size)
            for i, side in enumerate(self.sides):
                if name in side.queries.attributes:
                    change = self._weigh(side.queries, new)[0] - self._weigh(side.queries, old)[0]
                    proposals[i] = fractions[i] + change / self.rows
                    worse += side.excess(proposals[i]) - side.excess(fractions[i])
            accepted = worse <= 1e-12  # the rounding of sums of fractions
            columns[name][databases[accepted], row[accepted]] = new[name][accepted]
            for i, proposal in proposals.items():
                fractions[i] = np.where(accepted, proposal, fractions[i])
        return replace(self, columns=columns)
