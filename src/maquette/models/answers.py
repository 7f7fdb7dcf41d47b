"""Released answers: fractions on a fixed grid, so that their error can be scored in whole numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.errors import ReleaseError
from maquette.queries.base import Queries
from maquette.queries.limits import MOST_ANSWERS, check_size
from maquette.queries.pieces import LONG, pieces

GRID = 2**30
"""Answers that do not come from rows are rounded to multiples of 1/GRID."""


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """One fraction in [0, 1] for every query of a workload, in its order: `numerators` / `denominator`."""

    numerators: NDArray[np.signedinteger[Any]]
    """In 64 bits; those of rows to a long class in 32 bits, where they fit."""
    denominator: int

    @classmethod
    def from_fractions(cls, values: NDArray[Any]) -> Answers:
        """Round to the grid; outside [0, 1] is clipped, which can only lower an error."""
        scaled = np.nan_to_num(np.asarray(values, dtype=np.float64))  # a copy; the rest happens in place
        np.clip(scaled, 0.0, 1.0, out=scaled)
        scaled *= GRID
        return cls(np.rint(scaled, out=scaled).astype(np.int64), GRID)

    @property
    def fractions(self) -> NDArray[np.float64]:
        return self.numerators / self.denominator

    def __len__(self) -> int:
        return len(self.numerators)


class Unlisted(Answers):
    """Answers of a small database to a class too large to list: each is read from the rows when it is asked for."""

    __slots__ = ()

    def __init__(self, denominator: int) -> None:
        super().__init__(np.zeros(0, dtype=np.int64), denominator)

    @property
    def fractions(self) -> NDArray[np.float64]:
        raise ReleaseError(
            "this class has too many queries to list their answers: ask for single ones with release.answer(...), or "
            "count on release.rows"
        )


@dataclass(frozen=True, slots=True, eq=False)
class SmallDatabase:
    """Coded rows that stand for the table: the maquette. Columns by attribute name, all of length `m`."""

    columns: dict[str, NDArray[Any]]

    @property
    def m(self) -> int:
        return len(next(iter(self.columns.values())))

    def answer(self, queries: Queries) -> Answers:
        """Exact fractions of the rows."""
        check_size(queries.count)
        denominator = queries.denominator * max(self.m, 1)
        long = queries.count > LONG and denominator < 2**31
        numerators = np.empty(queries.count, dtype=np.int32 if long else np.int64)
        for start, piece in pieces(queries):
            found = piece.on_rows(self.columns)
            place = numerators[start : start + piece.count]
            np.multiply(found, queries.denominator // piece.denominator, out=place, casting="unsafe")
        return Answers(numerators, denominator)

    def answer_all(self, queries: Queries) -> Answers:
        """The same, or answers on demand where there are too many to list."""
        if queries.count > MOST_ANSWERS:
            return Unlisted(queries.denominator * max(self.m, 1))
        return self.answer(queries)
