"""What somebody who asks has to say of linear queries: over which universe they are, and their forms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from maquette.core.forms import QueryForms


class LinearQueries(ABC):
    """Linear queries in a fixed order. All of it is called before payment, on public cells; none of it in a look."""

    domain: Any
    """The universe that they are over: a `Universe`, with whatever its owner has declared beside it."""

    @property
    @abstractmethod
    def count(self) -> int:
        """How many there are."""

    @property
    @abstractmethod
    def denominator(self) -> int:
        """Their answers are whole numbers over this."""

    @abstractmethod
    def to_forms(self) -> QueryForms:
        """The queries in plain arrays, under the name by which a ledger knows them again."""


@dataclass(frozen=True, slots=True)
class Group:
    """A named, contiguous part of the queries, for reports and per-group certificates."""

    name: str
    start: int
    stop: int
