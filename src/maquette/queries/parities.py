"""Parities of binary attributes: is an odd number of a set of them 1? All sets, or all of few attributes; no list."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from maquette.core import forms
from maquette.core._arguments import checks_arguments
from maquette.core.forms import Sensitivity
from maquette.core.parities import MAX_BITS, most_odd, odd_sets, parity_counts, parity_places
from maquette.domain import Domain, Relation
from maquette.errors import WorkloadError
from maquette.queries import condition, names
from maquette.queries.base import TableQueries
from maquette.queries.conjunctions import nth_combination
from maquette.queries.rows import Columns, Margin, Norms, check_index, check_whole


@dataclass(frozen=True, slots=True, repr=False)
class Parities(TableQueries):
    """The parities of all sets of 0 .. width attributes with two cells; small sets first, the empty one is never odd.

    No exact largest error over all parities of more than 24 bits is known that is not as hard as learning parities with
    noise, so that more bits are refused.
    """

    kind: ClassVar[str] = "parities"
    domain: Domain
    width: int
    over: Margin

    def __post_init__(self) -> None:
        over = names.margin(self.domain, self.over)
        if not 1 <= len(over) <= MAX_BITS or any(self.domain[name].size != 2 for name in over):
            raise WorkloadError(
                f"expected 1 to {MAX_BITS} attributes with two cells each for parities, got {', '.join(self.over)}"
            )
        check_whole(self.width, least=1, most=len(over), what="a width (of so many binary attributes)")
        object.__setattr__(self, "over", over)

    @property
    def attributes(self) -> Margin:
        return self.over

    @property
    def margins(self) -> tuple[Margin, ...]:
        return (self.over,)

    @property
    def count(self) -> int:
        return sum(math.comb(len(self.over), size) for size in range(self.width + 1))

    def distinct(self) -> int:
        """No two parities are alike or complements; that of the empty set is constant."""
        return self.count - 1

    @checks_arguments
    def sensitivity(self, relation: Relation) -> Sensitivity:
        """As many parities are odd on one record as tell two records apart, at most."""
        del relation
        distance = Fraction(most_odd(len(self.over), self.width))
        return Sensitivity(distance, distance, Fraction(1))

    @property
    def pair_cost(self) -> int:
        return len(self.over)

    def columns_of(self, rows: Columns) -> NDArray[Any]:
        sets = parity_places(len(self.over), self.width)
        return (np.bitwise_count(sets[:, None] & self._cells(rows)) & 1).astype(np.int8)

    def norms(self, rows: Columns) -> Norms:
        counts = self._odd(self._cells(rows))
        return Norms(counts, counts)

    def distances(self, left: Columns, right: Columns) -> Norms:
        distance = self._odd(self._cells(left)[:, None] ^ self._cells(right))
        return Norms(distance, distance)

    def from_margins(self, tables: Mapping[Margin, NDArray[Any]]) -> NDArray[Any]:
        return parity_counts(np.asarray(tables[self.over]), self.width)

    def form(self) -> forms.Parities:
        return forms.Parities(self.over, self.width)

    def query_keys(self) -> Iterator[condition.Key | None]:
        """By the sets themselves: other classes hardly ever ask for a parity."""
        yield None
        for chosen in self._chosen():
            yield ("parity", *chosen)

    def text(self, index: int) -> str:
        check_index(index, self.count)
        for size in range(self.width + 1):
            here = math.comb(len(self.over), size)
            if index < here:
                chosen = nth_combination(self.over, size, index)
                return f"odd number of ones in {', '.join(chosen)}" if chosen else "never"
            index -= here
        raise AssertionError("the sizes hold fewer queries than they count")

    def spec(self) -> dict[str, Any]:
        return {"kind": self.kind, "width": self.width, "attributes": list(self.over)}

    def describe(self) -> str:
        few = "" if self.width == len(self.over) else f"up to {self.width} of "
        return f"{self.count:,} parities of {few}{len(self.over)} attributes"

    def _chosen(self) -> Iterator[Margin]:
        sizes = range(1, self.width + 1)
        return (chosen for size in sizes for chosen in combinations(self.over, size))

    def _cells(self, rows: Columns) -> NDArray[np.int64]:
        """Each record as a whole number, the first attribute the highest bit."""
        cells = np.zeros(len(next(iter(rows.values()))), dtype=np.int64)
        for name in self.over:
            cells = 2 * cells + rows[name]
        return cells

    def _odd(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.array(odd_sets(len(self.over), self.width), dtype=np.int64)[np.bitwise_count(cells)]
