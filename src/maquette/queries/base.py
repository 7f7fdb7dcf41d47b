"""What every class of linear queries knows about itself.

A query is a weight in [0, 1] for every cell of the universe; its answer on a table is the weighted count.
Answers are whole numbers over a public `denominator` (1 for counting queries), so that nothing between the
rows and the noise is a floating-point number. Sensitivities are exact, computed from public structure, and
trusted: the family of classes is closed, foreign weights enter through `weights.py` only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain, Relation

Margin = tuple[str, ...]
"""Names of attributes, in domain order: the table over them."""
Columns = Mapping[str, NDArray[Any]]
"""Coded columns of equal length, by attribute name."""


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """How far the answers (as counts, denominator divided out) of two neighbouring tables can lie apart."""

    l1: Fraction
    l2_squared: Fraction
    linf: Fraction

    def __add__(self, other: Sensitivity) -> Sensitivity:
        """For two classes whose worst cases meet in one record."""
        return Sensitivity(self.l1 + other.l1, self.l2_squared + other.l2_squared, max(self.linf, other.linf))


@dataclass(frozen=True, slots=True)
class Group:
    """A named, contiguous part of the queries, for reports and per-group certificates."""

    name: str
    start: int
    stop: int


class Queries(ABC):
    """A class of linear queries over a domain. Frozen; `count` queries in a fixed order."""

    kind: ClassVar[str]
    """The stable word for this class in JSON."""
    domain: Domain

    @property
    @abstractmethod
    def count(self) -> int:
        """|Q| as asked, an exact int."""

    def __len__(self) -> int:
        return self.count

    @abstractmethod
    def distinct(self) -> int:
        """|Q| after merging duplicates and complements and dropping constants: the k of every bound."""

    @property
    def denominator(self) -> int:
        """Answers are whole numbers over this."""
        return 1

    @property
    @abstractmethod
    def attributes(self) -> Margin:
        """The attributes that the queries look at, in domain order."""

    @abstractmethod
    def sensitivity(self, relation: Relation) -> Sensitivity:
        """Exact sensitivities of the whole vector of answers, in counts."""

    @abstractmethod
    def on_rows(self, columns: Columns, weights: NDArray[Any] | None = None) -> NDArray[Any]:
        """Numerators of all answers on coded rows (each of weight 1, or of the given weights). Additive in rows."""

    @abstractmethod
    def on_histogram(self, histogram: NDArray[Any]) -> NDArray[Any]:
        """Numerators of all answers on a histogram of shape `domain.shape`."""

    @abstractmethod
    def text(self, index: int) -> str:
        """One query in words (SQL where it can be said so)."""

    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """The JSON form, with `kind`; the domain is stored beside it, not in it."""

    def groups(self) -> tuple[Group, ...]:
        """Named parts, for reports. By default one."""
        return (Group(self.describe(), 0, self.count),)

    def describe(self) -> str:
        """The class in a few words."""
        return f"{self.count:,} {self.kind}"


class TableQueries(Queries):
    """Queries that can be answered from tables over a few attributes each (`margins`)."""

    @property
    @abstractmethod
    def margins(self) -> tuple[Margin, ...]:
        """The tables that are needed; each small enough to hold."""

    @abstractmethod
    def from_margins(self, tables: Mapping[Margin, NDArray[Any]]) -> NDArray[Any]:
        """Numerators of all answers, given every table of `margins` (shaped by its attributes' sizes)."""

    @property
    def attributes(self) -> Margin:
        used = {name for margin in self.margins for name in margin}
        return tuple(name for name in self.domain.names if name in used)

    def on_rows(self, columns: Columns, weights: NDArray[Any] | None = None) -> NDArray[Any]:
        from maquette.queries.counting import count_margins

        return self.from_margins(count_margins(self.domain, columns, self.margins, weights))

    def on_histogram(self, histogram: NDArray[Any]) -> NDArray[Any]:
        return self.from_margins(
            {margin: sum_margin(self.domain, histogram, margin) for margin in self.margins}
        )


def sum_margin(domain: Domain, histogram: NDArray[Any], margin: Margin) -> NDArray[Any]:
    """The table over some attributes, from a histogram over all of them."""
    gone = tuple(i for i, name in enumerate(domain.names) if name not in margin)
    return np.asarray(histogram).reshape(domain.shape).sum(axis=gone)
