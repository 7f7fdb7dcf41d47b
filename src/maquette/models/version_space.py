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

import numpy as np
from numpy.typing import NDArray

from maquette import _check
from maquette.domain import Domain
from maquette.errors import ParameterError
from maquette.models.answers import SmallDatabase
from maquette.models.dense import check_covered, coded_rows
from maquette.models.hypothesis import Hypothesis, Released, extend_digest
from maquette.models.linear import cell_weights
from maquette.models.rows import systematic
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
    from maquette.models.version_sample import VersionSample

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
