"""A hypothesis that holds one weight for every cell of its attributes."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.core import _check
from maquette.domain import Domain
from maquette.errors import WorkloadError
from maquette.models.answers import SmallDatabase, even_steps, generator
from maquette.models.fits import answer_histogram
from maquette.models.hypothesis import Prior, Released, extend_digest
from maquette.models.refit import MAX_MULTIPLIER, FittedAnswer, fit_answers, logit
from maquette.models.tilting import BlockLayout, Compiled, Counting, compile_query, tilt, total_of
from maquette.queries import canonical_hash
from maquette.queries.base import Queries, TableQueries
from maquette.queries.condition import Runs, attributes, codes, product, table_mask
from maquette.queries.predicates import SetQueries
from maquette.queries.rows import Margin

Floats = NDArray[np.float64]

# Limits of memory of the cache:
_MAX_QUERIES = 4096
_MAX_BLOCKS = 2**26
_MAX_CACHED_CELLS = 2**23
_SMALL = 1e-60
"""A total outside of this and its inverse is set to 1 again."""
_STEPS = 60
"""Of a projection on fractional weights."""


class Target(NamedTuple):
    """A released answer and how far it may be off."""

    queries: Queries
    value: float
    width: float = 0.0


class Table:
    """Weights in blocks, tilted in place, with their running sum."""

    def __init__(self, cells: Floats, total: float) -> None:
        self.cells = cells
        self.total = total

    def share(self, query: Compiled) -> float:
        return min(1.0, max(0.0, total_of(self.cells, query) / self.total))

    def tilt(self, query: Compiled, step: float) -> None:
        self.total += tilt(self.cells, query, step)[1]
        if not _SMALL < self.total < 1 / _SMALL:
            self.normalise()

    def normalise(self) -> None:
        """Compute the sum again, so that roundings do not add up."""
        self.cells /= self.cells.sum()
        self.total = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Dense:
    """A distribution over the cells of some attributes, as a table of weights that need not add up to 1.

    Cost: an update is one pass over the table; an answer one pass over the cells that it counts, or none where a
        table over the same few attributes was asked before.
    """

    layout: BlockLayout
    cells: Floats
    """Blocks by cells; see `tilting.BlockLayout`."""
    total: float
    origin: str
    """Digest of everything but the released answers."""
    released: tuple[str, ...] = ()
    """Keys of the answers that it is fitted to, in order."""
    fit: tuple[FittedAnswer, ...] = ()
    prior: Prior | None = None
    """What it started from; None for the uniform distribution."""
    _cache: _Cache = field(default_factory=lambda: _Cache())

    @classmethod
    def uniform(cls, domain: Domain, attributes: Margin) -> Dense:
        layout = BlockLayout.of(domain, attributes)
        cells = np.full((layout.blocks, layout.cells), 1.0 / (layout.blocks * layout.cells))
        return cls(layout, cells, 1.0, extend_digest("dense", domain.fingerprint, *attributes))

    @classmethod
    def starting(cls, domain: Domain, attributes: Margin, prior: Prior | None) -> Dense:
        """The start of a session: the rows of a release, or uniform."""
        if prior is None:
            return cls.uniform(domain, attributes)
        layout = BlockLayout.of(domain, attributes)
        cells = np.ascontiguousarray(prior.table(attributes)).reshape(layout.blocks, layout.cells)
        origin = extend_digest("dense", domain.fingerprint, *attributes, "prior", prior.digest)
        return cls(layout, cells, float(cells.sum()), origin, prior=prior)

    @property
    def domain(self) -> Domain:
        return self.layout.domain

    @property
    def attributes(self) -> Margin:
        return self.layout.attributes

    @property
    def weights(self) -> Floats:
        """The distribution, shaped by the attributes; a copy."""
        return (self.cells / self.total).reshape(self.layout.shape)

    def answer(self, queries: Queries) -> Floats:
        """Fractions in [0, 1], one per query."""
        check_covered(self.domain, self.attributes, queries)
        if queries.count == 1:
            return np.array([self._one(queries)])
        parts = [self._part(part) for part in queries.classes]
        return np.clip(np.concatenate(parts), 0.0, 1.0)

    def step(self, queries: Queries, value: float, *, step: float) -> Dense:
        """Textbook multiplicative weights: h exp(step s q) / Z, s the sign of value minus answer.

        Accuracy: relative entropy to the table falls by step |gap| - step^2 / 8 at least, where the sign is right.
        """
        _check.positive(step=step)
        share = float(self.answer(queries)[0])
        return self._tilted(queries, math.copysign(step, value - share), "step")

    def project(self, targets: Sequence[Target], *, passes: int = 1) -> Dense:
        """Project to one target after the other, several times over: to the closest distribution, in relative entropy,
        whose answer is the target's value shrunk by its width towards the own answer.

        Accuracy: each lowers the relative entropy to the table by 2 (|value - answer| - width)^2 at least, where value
            is within `width` of the table's answer. Nothing moves if it is within `width` of this one's.
        """
        table = Table(self.cells.copy(), self.total)
        compiled = [self._compiled(target.queries) for target in targets]
        changes = False
        for _ in range(passes):
            steps = [_project(table, q, t) for q, t in zip(compiled, targets, strict=True)]
            if not any(steps):
                break
            changes = True
        if not changes:
            return self
        table.normalise()
        words = [f"{canonical_hash(t.queries)} {t.value.hex()} {t.width.hex()}" for t in targets]
        return self._after(table, "project", str(passes), *words)

    def refit(self, released: Sequence[Released]) -> Dense:
        """Fitted to all released answers, in their order (`models/refit.py`): one more at a time, all fitted again
        after each. A list that extends the one it is fitted to goes on from here, with the same result."""
        keys = tuple(answer.key for answer in released)
        done = len(self.released)
        if self.released != keys[:done] or (not done and self.origin != self._start_origin()):
            return Dense.starting(self.domain, self.attributes, self.prior).refit(released)
        if done == len(keys):
            return self
        table = Table(self.cells.copy(), self.total)
        answers = [copy.copy(answer) for answer in self.fit]
        for answer in released[done:]:
            query = self._compiled(answer.queries)
            answers.append(FittedAnswer.of(answer, query, counting=isinstance(query, Counting)))
            fit_answers(table, answers, records=table.cells.size)
            table.normalise()
        return Dense(
            self.layout,
            table.cells,
            table.total,
            self.origin,
            keys,
            tuple(answers),
            self.prior,
            self._cache.queries_only(),
        )

    def _start_origin(self) -> str:
        words = [] if self.prior is None else ["prior", self.prior.digest]
        return extend_digest("dense", self.domain.fingerprint, *self.attributes, *words)

    def digest(self) -> str:
        return extend_digest(self.origin, *self.released)

    def synthetic(self, m: int, *, key: str) -> SmallDatabase:
        """m rows of its attributes, at even steps through the distribution.

        Accuracy: a query that counts r runs of consecutive cells changes by at most r / m.
        """
        _check.whole(m=m)
        chosen = even_steps(self.cells, m, rng=generator(f"{self.digest()} {key}"))
        codes = np.unravel_index(chosen, self.layout.shape) if self.attributes else ()
        return coded_rows(self.domain, dict(zip(self.attributes, codes, strict=True)))

    def _compiled(self, queries: Queries) -> Compiled:
        check_covered(self.domain, self.attributes, queries)
        compiled = self._cache.queries
        name = canonical_hash(queries)
        if name not in compiled:
            if len(compiled) >= min(_MAX_QUERIES, max(64, _MAX_BLOCKS // self.layout.blocks)):
                compiled.clear()
            compiled[name] = compile_query(self.layout, queries)
        return compiled[name]

    def _one(self, queries: Queries) -> float:
        """From the table over the query's attributes if that was asked about before, else in one pass."""
        names = queries.attributes
        margins = self._cache.margins
        if names in self._cache.tables or (
            names in margins and self.domain.cells(names) <= _MAX_CACHED_CELLS
        ):
            return min(1.0, max(0.0, float(self._part(queries)[0])))
        margins.add(names)
        return Table(self.cells, self.total).share(self._compiled(queries))

    def _part(self, part: Queries) -> Floats:
        return answer_from_tables(part, self._table)

    def _table(self, margin: Margin) -> Floats:
        tables = self._cache.tables
        if margin not in tables:
            if sum(t.size for t in tables.values()) + self.domain.cells(margin) > _MAX_CACHED_CELLS:
                tables.clear()
            gone = tuple(i for i, name in enumerate(self.attributes) if name not in margin)
            tables[margin] = self.cells.reshape(self.layout.shape).sum(axis=gone) / self.total
        return tables[margin]

    def _tilted(self, queries: Queries, step: float, word: str) -> Dense:
        out = np.empty_like(self.cells)
        _, grown = tilt(self.cells, self._compiled(queries), step, out)
        table = Table(out, self.total + grown)
        if not _SMALL < table.total < 1 / _SMALL:
            table.normalise()
        return self._after(table, word, canonical_hash(queries), step.hex())

    def _after(self, table: Table, *words: str) -> Dense:
        """Earlier answers become a part of the origin: what follows is not a refit from the uniform start."""
        origin = extend_digest(self.digest(), *words)
        cache = self._cache.queries_only()
        return Dense(self.layout, table.cells, table.total, origin, (), (), self.prior, cache)


@dataclass(slots=True)
class _Cache:
    """What was computed before; may be dropped at any time."""

    queries: dict[str, Compiled] = field(default_factory=dict)
    tables: dict[Margin, Floats] = field(default_factory=dict)
    margins: set[Margin] = field(default_factory=set)
    """Sets of attributes that a query was answered on."""

    def queries_only(self) -> _Cache:
        return _Cache(queries=self.queries)


def check_covered(domain: Domain, attributes: Margin, queries: Queries) -> None:
    """A hypothesis answers queries over its own attributes only."""
    if queries.domain != domain:
        raise WorkloadError("expected queries over the domain of the hypothesis")
    outside = [name for name in queries.attributes if name not in attributes]
    if outside:
        raise WorkloadError(
            f"the hypothesis knows about {', '.join(attributes) or 'no attribute'}, not about {outside[0]}"
        )


def answer_from_tables(part: Queries, table: Any) -> Floats:
    """Fractions of one plain class, given a function from attributes to their table of fractions."""
    if isinstance(part, TableQueries):
        tables: Mapping[Margin, Floats] = {margin: table(margin) for margin in part.margins}
        return part.from_margins(tables) / part.denominator
    if isinstance(part, SetQueries):
        values: list[float] = []
        for one in part.conditions:
            names = attributes(part.domain, one)
            factors = product(one)
            if factors is None:
                values.append(float(np.sum(table(names), where=table_mask(part.domain, one, names))))
            else:
                values.append(_sum_box(table(names), {leaf.attribute: leaf.runs for leaf in factors}, names))
        return np.array(values)
    return answer_histogram(part, table(part.attributes))


def _sum_box(table: Floats, sets: Mapping[str, Runs], names: Margin) -> float:
    """The sum over a product of sets: slices where a set is one run."""
    part = table
    for axis, name in enumerate(names):
        runs = sets[name]
        place = slice(runs[0][0], runs[0][1] + 1) if len(runs) == 1 else np.array(codes(runs))
        part = part[(slice(None),) * axis + (place,)]
    return float(part.sum())


def coded_rows(domain: Domain, columns: Mapping[str, NDArray[Any]]) -> SmallDatabase:
    """Rows of these attributes, in domain order."""
    return SmallDatabase(
        {a.name: columns[a.name].astype(np.min_scalar_type(a.size - 1)) for a in domain if a.name in columns}
    )


def _project(table: Table, query: Compiled, target: Target) -> bool:
    """One I-projection in place; False where nothing had to change."""
    share = table.share(query)
    gap = min(max(target.value, 0.0), 1.0) - share
    if abs(gap) <= target.width or not 0 < share < 1:
        return False
    aim = share + math.copysign(abs(gap) - target.width, gap)
    if isinstance(query, Counting):
        table.tilt(query, min(max(logit(aim) - logit(share), -MAX_MULTIPLIER), MAX_MULTIPLIER))
        return True
    for _ in range(_STEPS):
        if abs(aim - share) <= 1e-12:
            break
        # 1/4 bounds the slope of the answer: no step goes too far, and the first alone drops what is promised
        table.tilt(query, 4 * (aim - share))
        share = table.share(query)
    return True
