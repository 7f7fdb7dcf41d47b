"""Every combination of values of any number of columns: families of questions that one number certifies, by name.

`core/any_order.py` defines the families, finds the largest error over each of them and has the proof that one record
moves it by at most 1; `core/combination_errors.py` checks a question about them. Here they have words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from maquette.core import any_order
from maquette.core.any_order import Axis, Family
from maquette.domain import Domain
from maquette.queries.base import Margin
from maquette.queries.condition import Runs, complement, meet
from maquette.queries.condition import count as count_cells

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
    more = "" if order is None else ", one column" if order == 1 else f", up to {order} columns"
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
