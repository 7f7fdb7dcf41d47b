"""Every combination of values of any number of columns: families of questions that one number certifies, by name.

`core/any_order.py` defines the families, finds the largest error over each of them and has the proof that one record
moves it by at most 1. Here they have words, and a question about them is checked: by public arguments only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from maquette.core import any_order
from maquette.core.any_order import Axis, Codes, Family, Statistic
from maquette.domain import Domain
from maquette.errors import ParameterError
from maquette.queries.base import Margin
from maquette.queries.condition import Runs, complement, meet
from maquette.queries.condition import count as count_cells
from maquette.questions import bounds

_SAYS = {
    Family.CELL: ("any combination", "any combination of values", "any value of one column"),
    Family.RANGE: (
        "any combination and a range",
        "any combination of values with a range of one column",
        "any range of one column",
    ),
    Family.LIST: (
        "any combination and a list",
        "any combination of values with any list of values of one column",
        "any condition on one column",
    ),
}
"""Of each family its name, what it says, and what it says of single columns."""


@dataclass(frozen=True, slots=True)
class Combinations:
    """A family of questions on at most `order` columns; on any number of them where that is None."""

    name: str
    family: Family
    order: int | None

    @property
    def says(self) -> str:
        """The questions of the family, in words."""
        return self.words(self.order)

    def words(self, columns: int | None) -> str:
        """The same where they are about at most so many columns."""
        _, every, single = _SAYS[self.family]
        if columns is None:
            return every
        return single if columns == 1 else f"{every}, on up to {columns} columns together"


def _named(family: Family, order: int | None) -> Combinations:
    name = _SAYS[family][0]
    more = "" if order is None else " on one column" if order == 1 else f" on {order} columns"
    return Combinations(name + more, family, order)


COMBINATIONS = {
    one.name: one for one in (_named(family, order) for order in (None, 1, 2, 3) for family in Family)
}
"""By the words that users say."""


def narrower(one: Combinations, other: Combinations) -> bool:
    """Is every question of one a question of the other?"""
    return one.family <= other.family and (
        other.order is None or (one.order is not None and one.order <= other.order)
    )


def axes_of(domain: Domain, names: Iterable[str]) -> list[Axis]:
    """The columns as the search takes them; null and other values lie behind the declared cells."""
    columns = (domain[name] for name in names)
    return [Axis(column.size, column.cells, column.ordered) for column in columns]


def able(domain: Domain, names: Iterable[str]) -> Margin:
    """Those of some columns that combinations are certified for: not too many values, not too many columns."""
    few = tuple(name for name in names if domain[name].size <= any_order.MAX_VALUES)
    return few if len(few) <= any_order.MAX_COLUMNS else ()


def count(domain: Domain, names: Sequence[str], order: int) -> int:
    """How many cells there are of all sets of 1 to `order` columns."""
    of_order = [1] + [0] * order
    for name in names:
        for k in range(order, 0, -1):
            of_order[k] += of_order[k - 1] * domain[name].size
    return sum(of_order) - 1


def parts(axis: Axis, runs: Runs, family: Family) -> tuple[int, int]:
    """As how many sets of a family of one column, and how many times all records, a set of its values adds up.

    With signs: the values themselves, or all records less the others, whichever are fewer.
    """
    inside = count_cells(runs)
    if inside in (0, axis.size):
        return 0, min(inside, 1)
    if family is Family.LIST:
        return 1, 0
    outside = axis.size - inside
    if family is Family.RANGE and axis.ordered:
        declared = meet(runs, ((0, axis.declared - 1),))
        cells, others = count_cells(declared), complement(declared, axis.declared)
        inside = len(declared) + inside - cells
        outside = len(others) + outside - (axis.declared - cells)
    return (inside, 0) if inside <= outside + 1 else (outside, 1)


@dataclass(frozen=True, slots=True, eq=False)
class ReleasedRows:
    """Rows that are public, by their columns: what the errors of combinations are measured against."""

    names: Margin
    codes: Codes
    """Rows by columns."""


@dataclass(frozen=True, slots=True, eq=False)
class CombinationQuestion:
    """The largest errors of released rows over several families, checked."""

    released: ReleasedRows
    axes: tuple[Axis, ...]
    statistics: tuple[Statistic, ...]

    @classmethod
    def of(
        cls, domain: Domain, released: ReleasedRows, statistics: Sequence[Statistic]
    ) -> CombinationQuestion:
        """Refuses what the sensitivity of `core/any_order.py` does not hold for. Public arguments only."""
        bounds.check_type(released, ReleasedRows, "released rows with the names of their columns")
        bounds.check_list([released.names], tuple, "names of columns in a tuple")
        bounds.check_margins(domain, [(name,) for name in released.names])
        if tuple(name for name in domain.names if name in released.names) != released.names:
            raise ParameterError("expected the columns in the order of the domain, each once")
        axes = tuple(axes_of(domain, released.names))
        any_order.check_axes(axes)
        _check_codes(released.codes, axes)
        bounds.check_list(statistics, Statistic, "a list of families of combinations")
        for one in statistics:
            bounds.check_type(one.family, Family, "a family of combinations")
            bounds.check_whole(one.order, least=1, most=any_order.MAX_COLUMNS, what="a number of columns")
            bounds.check_whole(one.floor, least=0, most=bounds.RECORDS, what="the least error that is told")
        if not statistics or len({(one.family, one.order) for one in statistics}) < len(statistics):
            raise ParameterError("expected some families of combinations, each once")
        return cls(released, axes, tuple(statistics))

    def request(self) -> dict[str, Any]:
        """Everything that decides the numbers, for the ledger."""
        rows = np.ascontiguousarray(self.released.codes, dtype="<u2")
        return {
            "ask": "combination errors",
            "columns": list(self.released.names),
            "statistics": [[int(one.family), one.order, one.floor] for one in self.statistics],
            "rows": hashlib.sha256(rows.data).hexdigest(),
            "number": len(rows),
        }


def _check_codes(codes: object, axes: Sequence[Axis]) -> None:
    """At least one row, every code that of a value."""
    bounds.check_type(codes, np.ndarray, "released rows in an array")
    codes = cast("NDArray[Any]", codes)
    if codes.dtype != np.uint16 or codes.ndim != 2 or codes.shape[1] != len(axes):
        raise ParameterError("expected released rows as an array of 16-bit codes, a column for each name")
    if not 1 <= len(codes) <= any_order.MAX_ROWS:
        raise ParameterError(f"expected 1 to {any_order.MAX_ROWS:,} released rows")
    sizes = np.array([axis.size for axis in axes])
    if (codes.max(axis=0) >= sizes).any():
        raise ParameterError("expected codes of declared values in the released rows")
