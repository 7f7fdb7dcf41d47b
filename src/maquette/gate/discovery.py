"""What questions about a column need before its domain is declared; the questions are in `gate/curator.py`.

They go by public structure only: kinds of values, a public ladder of borders, and the texts that occur with at least
so many records that no single person's values come out but with a chance delta.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.accounting.budget import Budget
from maquette.accounting.ledger import Ledger
from maquette.domain import Persons
from maquette.gate.barrier import Barrier
from maquette.queries.base import Sensitivity
from maquette.queries.marginals import table_sensitivity
from maquette.questions.findings import CellCounts
from maquette.vault.raw import RawTable, columns_of, open_raw

Counts = NDArray[np.int64]


class RawBarrier(Barrier):
    """The raw columns of one table, and one allowance of a ledger that was made before the domain."""

    def __init__(self, table: RawTable, ledger: Ledger, *, key: str, budget: Budget) -> None:
        ledger.bind_raw(table.columns, table.commitment(ledger.salt))
        self._raw = table
        self._begin(ledger, key=key, budget=budget)

    def _cells(
        self, ask: str, column: str, cells: int, price: Fraction, exact: Callable[[], Counts], **facts: Any
    ) -> CellCounts:
        """Counts in disjoint cells; `facts` are what the request says beside its column, public too."""
        request: dict[str, Any] = {"ask": ask, "column": column, **facts}
        values, law, receipt = self._noisy_at(
            request, self._one_cell(), price, exact, coordinates=cells, note={"column": column}
        )
        return CellCounts(values, law, receipt)

    def _one_cell(self) -> Sensitivity:
        """Of counts in disjoint cells: a record is in one of them, an exchanged one in two."""
        shift = Fraction(table_sensitivity(self.relation))
        return Sensitivity(shift, shift, Fraction(1))


def raw_columns(source: Any, **options: Any) -> dict[str, bool]:
    """The header of a source, and which columns have a type that can be declared: public structure."""
    return columns_of(source, **options)


def open_columns(
    source: Any, columns: list[str], *, na_values: tuple[str, ...], persons: Persons | None, **options: Any
) -> RawTable:
    """The raw columns of a source, for a curator of discovery alone."""
    return open_raw(source, columns, na_values=na_values, persons=persons, **options)
