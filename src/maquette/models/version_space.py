"""The version space of the median mechanism: the small databases that no released answer has ruled out.

Every small database of m rows starts as possible. A question is answered by the lower median of what the possible
ones say; an answer that was paid for because that median is far off rules out the half on the wrong side of it
(Roth and Roughgarden 2010; any linear queries: Roth 2010). Built from released answers only: it costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette import _check
from maquette.domain import Domain
from maquette.errors import ParameterError
from maquette.models.answers import SmallDatabase
from maquette.models.dense import check_covered, coded_rows
from maquette.models.fits import cell_weights
from maquette.models.hypothesis import Hypothesis, Released, extend_digest
from maquette.models.rows import generator, systematic
from maquette.queries.base import Margin, Queries

Floats = NDArray[np.float64]

MOST_ENTRIES = 2**25
"""Small databases times cells that are listed one by one; beyond, the space is sampled."""


def version_space_for(
    domain: Domain, *, rows: int, kind: str = "auto", attributes: Iterable[str] | None = None
) -> Hypothesis:
    """All small databases of so many rows over the attributes that may be asked about (or all).

    `exact` lists them, `sampled` keeps a few hundred that fit; `auto` lists where that is possible. Only an exact
    space keeps the promise that c positives suffice (`theory.online.median`).
    """
    _check.whole(rows=rows)
    _check.one_of(("auto", "exact", "sampled"), kind=kind)
    wanted = set(domain.names if attributes is None else attributes)
    for name in wanted:
        domain[name]  # refuses an unknown attribute
    kept = tuple(name for name in domain.names if name in wanted)
    cells = domain.cells(kept)
    fits = _entries(cells, rows) <= MOST_ENTRIES
    if kind == "exact" and not fits:
        raise ParameterError(
            f"the small databases of {rows} rows over {cells:,} cells are too many to list; use kind='sampled'"
        )
    if kind != "sampled" and fits:
        return VersionSpace.whole(domain, kept, rows)

    return VersionSample.whole(domain, kept, rows)


@dataclass(frozen=True, slots=True, eq=False)
class VersionSpace:
    """Every small database that is still possible, as how often it holds each cell.

    Cost: an answer weighs every database; memory for all that were possible at the start.
    """

    domain: Domain
    attributes: Margin
    rows: int
    counts: NDArray[np.uint16]
    """Databases down, cells across."""
    origin: str
    released: tuple[str, ...] = ()

    @classmethod
    def whole(cls, domain: Domain, attributes: Margin, rows: int) -> VersionSpace:
        cells = domain.cells(attributes)
        listed = np.fromiter(
            (cell for chosen in combinations_with_replacement(range(cells), rows) for cell in chosen),
            dtype=np.int64,
        ).reshape(-1, rows)
        counts = np.zeros((len(listed), cells), dtype=np.uint16)
        for column in listed.T:
            counts[np.arange(len(listed)), column] += 1
        origin = extend_digest("version space", domain.fingerprint, str(rows), *attributes)
        return cls(domain, attributes, rows, counts, origin)

    @property
    def size(self) -> int:
        """How many small databases are left."""
        return len(self.counts)

    def answer(self, queries: Queries) -> Floats:
        """Lower medians of what the possible databases say, one per query."""
        check_covered(self.domain, self.attributes, queries)
        return np.array([lower_median(said) for said in self._said(queries)])

    def refit(self, released: Sequence[Released]) -> VersionSpace:
        """What these answers leave possible, one after the other; each was paid for because the median was far off.

        Where none would be left, those closest to the answer stay: the better half.
        """
        keys = tuple(answer.key for answer in released)
        known = len(self.released)
        if self.released != keys[:known]:
            return VersionSpace.whole(self.domain, self.attributes, self.rows).refit(released)
        now = self
        for answer in released[known:]:
            now = now._pruned(answer.queries, answer.value)
        return replace(now, released=keys)

    def step(self, queries: Queries, value: float, *, step: float) -> VersionSpace:
        """Prune by one answer; there is no step size."""
        pruned = self._pruned(queries, value)
        return replace(pruned, origin=extend_digest(self.digest(), "step", float(value).hex()), released=())

    def digest(self) -> str:
        return extend_digest(self.origin, *self.released)

    def synthetic(self, m: int, *, key: str) -> SmallDatabase:
        """m rows that stand for the average of the possible databases."""
        _check.whole(m=m)
        chosen = np.repeat(np.arange(self.counts.shape[1]), systematic(self.counts.sum(axis=0), m))
        codes = np.unravel_index(chosen, self._shape) if self.attributes else ()
        return coded_rows(self.domain, dict(zip(self.attributes, codes, strict=True)))

    @property
    def _shape(self) -> tuple[int, ...]:
        return tuple(self.domain[name].size for name in self.attributes)

    def _said(self, queries: Queries) -> Floats:
        """The fraction that every database gives to every query."""
        names = queries.attributes
        gone = tuple(1 + i for i, name in enumerate(self.attributes) if name not in names)
        tables = self.counts.reshape(-1, *self._shape).sum(axis=gone).reshape(self.size, -1)
        return np.asarray(cell_weights(queries) @ tables.T / self.rows)

    def _pruned(self, queries: Queries, value: float) -> VersionSpace:
        check_covered(self.domain, self.attributes, queries)
        said = self._said(queries)[0]
        return replace(self, counts=self.counts[still_possible(said, value)])


def lower_median(said: Floats) -> float:
    """The middle value, the lower of the two where there are two."""
    middle = (len(said) - 1) // 2
    return float(np.partition(said, middle)[middle])


def still_possible(said: Floats, value: float) -> NDArray[np.bool_]:
    """Those on the side of the median where the answer lies; the closest half where that side is empty."""
    median = lower_median(said)
    side = said > median if value > median else said < median
    if side.any():
        return side
    away = np.abs(said - value)
    return away <= lower_median(away)


def _entries(cells: int, rows: int) -> float:
    """Small databases times the longer of rows and cells; infinite where that is beyond counting."""
    if min(cells - 1, rows) > 60 or cells > MOST_ENTRIES:
        return math.inf
    return math.comb(cells + rows - 1, rows) * max(cells, rows)


# A sampled version space: a few hundred small databases that fit the released answers, for universes of any
# size.
#
# The databases walk: one row at a time gets another value, and the change stays if it breaks no answer that
# was kept before. Sequences of rows weigh the same here, not multisets. What is lost is the promise that
# every positive halves the space; the error of an answer never depends on it.


Columns = dict[str, NDArray[Any]]

KEPT = 200
"""Small databases in the sample."""
MOST_VALUES = 2**22
"""Rows of all of them together; with more rows each, fewer are kept."""
WALK = 300
"""Changes that each database tries after a new answer."""


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """What a released answer rules out: fractions on the other side of a border."""

    queries: Queries
    border: float
    above: bool

    def broken(self, said: Floats) -> Floats:
        """By how much each fraction is on the wrong side; 0 where it is not."""
        return np.maximum(self.border - said if self.above else said - self.border, 0.0)


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

    @classmethod
    def whole(cls, domain: Domain, attributes: Margin, rows: int) -> VersionSample:
        """Independent uniform rows."""
        origin = extend_digest("version sample", domain.fingerprint, str(rows), *attributes)
        rng = generator(origin)
        kept = max(20, min(KEPT, MOST_VALUES // rows))
        columns = {n: rng.integers(0, domain[n].size, (kept, rows), dtype=np.uint32) for n in attributes}
        return cls(domain, attributes, rows, columns, origin)

    @property
    def size(self) -> int:
        return len(next(iter(self.columns.values())))

    def answer(self, queries: Queries) -> Floats:
        """Lower medians of what the sampled databases say, one per query."""
        check_covered(self.domain, self.attributes, queries)
        return np.array([lower_median(said) for said in self._said(queries)])

    def refit(self, released: Sequence[Released]) -> VersionSample:
        """What these answers leave possible, one after the other; the sample walks on after each."""
        keys = tuple(answer.key for answer in released)
        known = len(self.released)
        if self.released != keys[:known]:
            return VersionSample.whole(self.domain, self.attributes, self.rows).refit(released)
        now = self
        for place, answer in enumerate(released[known:], start=known):
            now = replace(now._pruned(answer.queries, answer.value), released=keys[: place + 1])
        return now

    def step(self, queries: Queries, value: float, *, step: float) -> VersionSample:
        """Prune by one answer; there is no step size."""
        pruned = self._pruned(queries, value)
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

    def _said(self, queries: Queries) -> Floats:
        flat = {name: codes.ravel() for name, codes in self.columns.items()}
        weights = self._weigh(queries, flat)
        return weights.reshape(queries.count, self.size, self.rows).mean(axis=2)

    def _weigh(self, queries: Queries, rows: Columns) -> Floats:
        if queries.attributes:
            return np.asarray(queries.columns_of(rows) / queries.denominator)
        one = {name: np.zeros(1, dtype=np.uint32) for name in self.domain.names}
        constant = queries.columns_of(one) / queries.denominator
        return np.repeat(constant, len(next(iter(rows.values()))), axis=1)

    def _pruned(self, queries: Queries, value: float) -> VersionSample:
        """Survivors, copied to fill the sample, and walked apart."""
        check_covered(self.domain, self.attributes, queries)
        said = self._said(queries)[0]
        median = lower_median(said)
        rng = generator(extend_digest(self.digest(), "prune", float(value).hex()))
        half_a_row = 0.5 / self.rows
        above = value > median
        side = Side(queries, median + half_a_row if above else median - half_a_row, above)
        survivors = np.flatnonzero(still_possible(said, value))
        chosen = survivors[rng.integers(0, len(survivors), self.size)]
        columns = {name: codes[chosen].copy() for name, codes in self.columns.items()}
        moved = replace(self, columns=columns, sides=(*self.sides, side))
        return moved._walked(rng)

    def _walked(self, rng: np.random.Generator) -> VersionSample:
        """Each database tries changes of one value of one row; one that breaks the answers more is undone."""
        columns = {name: codes.copy() for name, codes in self.columns.items()}
        shares = [replace(self, columns=columns)._said(side.queries)[0] for side in self.sides]
        every = np.arange(self.size)
        for _ in range(WALK):
            row = rng.integers(0, self.rows, self.size)
            name = self.attributes[int(rng.integers(0, len(self.attributes)))]
            old = {n: codes[every, row] for n, codes in columns.items()}
            new = old | {name: rng.integers(0, self.domain[name].size, self.size, dtype=np.uint32)}
            touched = [name in side.queries.attributes for side in self.sides]
            after = [
                share + (self._weigh(s.queries, new)[0] - self._weigh(s.queries, old)[0]) / self.rows
                if hit
                else share
                for s, share, hit in zip(self.sides, shares, touched, strict=True)
            ]
            worse = np.zeros(self.size)
            for side, share, moved, hit in zip(self.sides, shares, after, touched, strict=True):
                if hit:
                    worse += side.broken(moved) - side.broken(share)
            taken = worse <= 1e-12
            columns[name][every[taken], row[taken]] = new[name][taken]
            shares = [
                np.where(taken, b, a) if hit else a for a, b, hit in zip(shares, after, touched, strict=True)
            ]
        return replace(self, columns=columns)
