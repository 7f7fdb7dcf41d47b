"""The hypothesis of an online mechanism: a distribution over the universe, fitted to released answers.

A hypothesis is public. It decides which questions are free, never what is private.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from maquette import _check
from maquette.domain import Domain
from maquette.errors import ParameterError
from maquette.models.answers import SmallDatabase
from maquette.queries import canonical_hash
from maquette.queries.base import Margin, Queries

if TYPE_CHECKING:
    from maquette.models.prior import Prior

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


def hypothesis_for(
    domain: Domain,
    *,
    kind: str = "auto",
    attributes: Iterable[str] | None = None,
    prior: Prior | None = None,
) -> Hypothesis:
    """The start of a session over the attributes that may be asked about (or all): uniform, or from a `prior`.

    `dense` has a weight for every cell, up to 2^26 cells; `rows` has a few ten thousand weighted rows, for universes of
    any size; `auto` takes the first where it fits.
    """
    _check.one_of(("auto", "dense", "rows"), kind=kind)
    margin = chosen_margin(domain, attributes)
    cells = domain.cells(margin)
    if kind == "rows" or (kind == "auto" and cells > MAX_DENSE_CELLS):
        from maquette.models.weighted import WeightedRows

        if prior is not None:
            return WeightedRows.starting(domain, margin, prior)
        return WeightedRows.uniform(domain, margin)
    if cells > MAX_DENSE_CELLS:
        raise ParameterError(
            f"the {cells:,} cells of {', '.join(margin)} are more than a dense hypothesis may have "
            f"({MAX_DENSE_CELLS:,}); use kind='rows' or fewer attributes"
        )
    from maquette.models.dense import Dense

    return Dense.starting(domain, margin, prior)


def chosen_margin(domain: Domain, attributes: Iterable[str] | None) -> Margin:
    """The attributes that may be asked about, in the order of the domain; all of them for None."""
    names = set(domain.names if attributes is None else attributes)
    for name in names:
        domain[name]  # refuses an unknown attribute
    return tuple(name for name in domain.names if name in names)


def extend_digest(digest: str, *parts: str) -> str:
    """A chain of digests: the one before, and one update."""
    return hashlib.sha256(" ".join([digest, *parts]).encode()).hexdigest()
