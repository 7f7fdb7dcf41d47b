"""The hypothesis of an online mechanism: a distribution over the universe, fitted to released answers.

A hypothesis is public. It decides which questions are free, never what is private.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain
from maquette.errors import ParameterError
from maquette.models.answers import SmallDatabase, even_steps, generator, uniform_codes
from maquette.queries import canonical_hash
from maquette.queries.base import Queries
from maquette.queries.rows import Margin

MAX_DENSE_CELLS = 2**26
"""Universes up to this size have one weight per cell, half a gigabyte; a limit of memory, not of accuracy."""


@dataclass(frozen=True, slots=True)
class Released:
    """A paid answer: one query, its noisy fraction, and the standard deviation of that fraction's noise."""

    queries: Queries
    value: float
    deviation: float
    width: float | None = None
    """A bound on the error of the value, for a fit that uses nothing else of its noise; see `models/refit.py`."""
    key: str = field(init=False, compare=True, repr=False)
    """Digest of all of it."""

    def __post_init__(self) -> None:
        if self.queries.count != 1:
            raise ParameterError(f"expected one query per released answer, got {self.queries.count}")
        if not math.isfinite(self.value) or not (math.isfinite(self.deviation) and self.deviation >= 0):
            raise ParameterError(
                f"expected a finite value and a deviation >= 0, got {self.value!r} and {self.deviation!r}"
            )
        if self.width is not None and not (math.isfinite(self.width) and self.width >= 0):
            raise ParameterError(f"expected a width >= 0, got {self.width!r}")
        parts = [canonical_hash(self.queries), float(self.value).hex(), float(self.deviation).hex()]
        if self.width is not None:
            parts.append(float(self.width).hex())
        object.__setattr__(self, "key", hashlib.sha256(" ".join(parts).encode()).hexdigest())


class Hypothesis(Protocol):
    """A public distribution over the records that a table could hold. Values never change; updates make new ones."""

    @property
    def domain(self) -> Domain: ...

    @property
    def attributes(self) -> Margin:
        """The attributes that it is a distribution over."""
        ...

    def answer(self, queries: Queries) -> NDArray[np.float64]:
        """Fractions in [0, 1], one per query."""
        ...

    def refit(self, released: Sequence[Released]) -> Hypothesis:
        """The hypothesis for these released answers: a pure function of the list, in its order."""
        ...

    def step(self, queries: Queries, value: float, *, step: float) -> Hypothesis:
        """One textbook update of multiplicative weights towards a released answer."""
        ...

    def digest(self) -> str:
        """Names the hypothesis by what it was made from: equal digests, equal answers in the same version."""
        ...

    def synthetic(self, m: int, *, key: str) -> SmallDatabase:
        """m rows over its attributes; the same for the same key."""
        ...


def extend_digest(digest: str, *parts: str) -> str:
    """A chain of digests: the one before, and one update."""
    return hashlib.sha256(" ".join([digest, *parts]).encode()).hexdigest()


# What a session may start from instead of the uniform distribution: the rows of an earlier release.
#
# A release is public, so starting from it costs nothing. How near it is to the table nobody has proved, so a part of
# the start stays uniform: with a share `MIXING` of it no weight is below MIXING / |X|, and the relative entropy of any
# table to the start is at most ln|X| + ln(1 / MIXING), where it is ln|X| for the uniform start. That is what bounds the
# number of answers that are paid for (`theory/online.py`); what an answer states does not depend on the start at all.

MIXING = 2.0**-10
"""The uniform part of a start. No guess moves by more than this, and ln|X| grows by 6.9."""
LOG_MIXING = -math.log(MIXING)
MAX_ROWS, UNIFORM_ROWS = 2**16, 2**11
"""Rows of a hypothesis of weighted rows: of the release at most, and uniform ones that a fit may change first."""


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """Released rows in codes; attributes that they lack are uniform and independent of the others."""

    domain: Domain
    columns: dict[str, NDArray[Any]]
    digest: str
    """Of the domain and all codes."""

    @classmethod
    def of(cls, domain: Domain, database: SmallDatabase) -> Prior:
        """The rows of a release over this domain."""
        if database.m < 1:
            raise ParameterError("the release has no row to start from")
        columns = {a.name: database.columns[a.name] for a in domain if a.name in database.columns}
        digest = hashlib.sha256(domain.fingerprint.encode())
        for name, codes in columns.items():
            digest.update(f" {name} {len(codes)} ".encode())
            digest.update(np.ascontiguousarray(codes, dtype="<u4").tobytes())
        return cls(domain, columns, digest.hexdigest())

    @property
    def m(self) -> int:
        return len(next(iter(self.columns.values())))

    def table(self, attributes: Margin) -> NDArray[np.float64]:
        """The start as a weight for every cell of these attributes, shaped by them; they add up to 1."""
        shape = tuple(self.domain[name].size for name in attributes)
        names = [name for name in attributes if name in self.columns]
        sizes = tuple(self.domain[name].size for name in names)
        if names:
            codes = tuple(self.columns[name].astype(np.int64) for name in names)
            counts = np.bincount(np.ravel_multi_index(codes, sizes), minlength=math.prod(sizes))
        else:
            counts = np.array([self.m])
        axes = [self.domain[name].size if name in self.columns else 1 for name in attributes]
        cells = math.prod(shape)
        each = (1 - MIXING) * math.prod(sizes) / (self.m * cells)
        mixed = np.broadcast_to(counts.reshape(axes) * each, shape) + MIXING / cells
        return np.asarray(mixed, dtype=np.float64)

    def rows(self, attributes: Margin) -> tuple[dict[str, NDArray[Any]], NDArray[np.float64]]:
        """The start as weighted rows: those of the release (at most `MAX_ROWS`), then a few uniform ones."""
        rng = generator(f"{self.digest} start")
        chosen = np.arange(self.m)
        if self.m > MAX_ROWS:
            chosen = even_steps(np.full(self.m, 1.0 / self.m), MAX_ROWS, rng=rng)
        columns: dict[str, NDArray[Any]] = {}
        for name in attributes:
            uniform = uniform_codes(rng, self.domain[name].size, len(chosen) + UNIFORM_ROWS)
            if name in self.columns:
                uniform[: len(chosen)] = self.columns[name][chosen]
            columns[name] = uniform
        weights = np.full(len(chosen) + UNIFORM_ROWS, MIXING / UNIFORM_ROWS)
        weights[: len(chosen)] = (1 - MIXING) / len(chosen)
        return columns, weights

    def log_chances(self, counts: NDArray[Any], attributes: Margin) -> NDArray[np.float64]:
        """ln of the chance that rows drawn from the start are each of these small databases (databases by cells)."""
        log_cells = np.log(self.table(attributes).ravel())
        log_factorials = np.array([math.lgamma(i + 1) for i in range(int(counts.max(initial=0)) + 1)])
        rows = int(counts[0].sum()) if len(counts) else 0
        return math.lgamma(rows + 1) - log_factorials[counts].sum(axis=1) + counts @ log_cells
