"""The question about the largest errors of released rows over combinations of values, checked.

`core/any_order.py` defines the families of combinations, finds the largest error over each of them and has the proof
that one record moves it by at most 1. Here a question about them is checked, by public arguments only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from maquette.core import any_order, bounds
from maquette.core.any_order import Axis, Codes, Family, Statistic
from maquette.core.errors import ParameterError
from maquette.core.forms import Margin
from maquette.core.universe import Universe


def axes_of(domain: Universe, names: Iterable[str]) -> list[Axis]:
    """The columns as the search takes them; null and other values lie behind the declared cells."""
    columns = (domain[name] for name in names)
    return [Axis(column.size, column.cells, column.ordered) for column in columns]


@dataclass(frozen=True, slots=True, eq=False)
class ReleasedRows:
    """Rows that are public, by their columns: what the errors of combinations are measured against."""

    names: Margin
    codes: Codes
    """Rows by columns."""

    def check(self, domain: Universe) -> tuple[Axis, ...]:
        """Refuses what are no rows over columns of a domain; the columns as a search takes them."""
        bounds.check_list([self.names], tuple, "names of columns in a tuple")
        bounds.check_margins(domain, [(name,) for name in self.names])
        if tuple(name for name in domain.names if name in self.names) != self.names:
            raise ParameterError("expected the columns in the order of the domain, each once")
        axes = tuple(axes_of(domain, self.names))
        any_order.check_axes(axes)
        _check_codes(self.codes, axes)
        return axes

    def request(self) -> dict[str, Any]:
        """What the ledger remembers of them."""
        rows = np.ascontiguousarray(self.codes, dtype="<u2")
        return {
            "columns": list(self.names),
            "rows": hashlib.sha256(rows.data).hexdigest(),
            "number": len(rows),
        }


@dataclass(frozen=True, slots=True, eq=False)
class CombinationQuestion:
    """The largest errors of released rows over several families, checked."""

    released: ReleasedRows
    axes: tuple[Axis, ...]
    statistics: tuple[Statistic, ...]

    @classmethod
    def of(
        cls, domain: Universe, released: ReleasedRows, statistics: Sequence[Statistic]
    ) -> CombinationQuestion:
        """Refuses what the sensitivity of `core/any_order.py` does not hold for. Public arguments only."""
        bounds.check_type(released, ReleasedRows, "released rows with the names of their columns")
        axes = released.check(domain)
        bounds.check_list(statistics, Statistic, "a list of families of combinations")
        for one in statistics:
            bounds.check_type(one.family, Family, "a family of combinations")
            bounds.check_whole(one.order, least=1, most=any_order.MAX_COLUMNS, what="a number of columns")
            bounds.check_whole(one.floor, least=0, most=bounds.RECORDS, what="the least error that is stated")
        if not statistics or len({(one.family, one.order) for one in statistics}) < len(statistics):
            raise ParameterError("expected some families of combinations, each once")
        return cls(released, axes, tuple(statistics))

    def request(self) -> dict[str, Any]:
        """Everything that decides the numbers, for the ledger."""
        return {
            "ask": "combination errors",
            "statistics": [[int(one.family), one.order, one.floor] for one in self.statistics],
        } | self.released.request()


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
