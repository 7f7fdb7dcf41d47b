"""Questions about a column before its domain is declared: pay, look, return, as for every other question.

What they ask goes by public structure only: kinds of values, a public ladder of borders, and the texts that occur with
at least so many records that no single person's values come out but with a chance delta.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.accounting.budget import Budget
from maquette.accounting.events import GaussianEvent
from maquette.accounting.ledger import Ledger
from maquette.domain import Persons
from maquette.domain.persons import rows_of
from maquette.errors import MechanismError
from maquette.gate import prices
from maquette.gate.barrier import Barrier
from maquette.queries.base import Sensitivity
from maquette.queries.marginals import table_sensitivity
from maquette.questions import bounds
from maquette.questions.findings import CellCounts, FoundValues, from_bytes, threshold_for, to_bytes
from maquette.questions.ladder import KINDS, NUMBERS, YEARS
from maquette.questions.noise import Gaussian
from maquette.vault.raw import RawTable, columns_of, open_raw

Counts = NDArray[np.int64]


class DiscoveryCurator(Barrier):
    """Looks at the raw columns of one table, out of one allowance of a ledger that was made before the domain."""

    def __init__(self, table: RawTable, ledger: Ledger, *, key: str, budget: Budget) -> None:
        ledger.bind_raw(table.columns, table.commitment(ledger.salt))
        self._raw = table
        self._begin(ledger, key=key, budget=budget)

    def kinds(self, column: str, *, price: Fraction) -> CellCounts:
        """How many values of a column are whole numbers, fractions, days, other texts, missing; plus noise.

        Guarantee: `price`; a record is counted in one cell.
        """
        return self._cells("kinds of values", column, len(KINDS), price, lambda: self._raw.kinds(column))

    def numbers(self, column: str, *, price: Fraction) -> CellCounts:
        """How many numbers of a column lie between the public borders of `questions/ladder.py`, plus noise.

        Guarantee: `price`; a record is counted in one cell.
        """
        return self._cells(
            "numbers by ladder", column, len(NUMBERS) + 1, price, lambda: self._raw.numbers(column)
        )

    def years(self, column: str, *, price: Fraction) -> CellCounts:
        """How many days of a column lie in each public year, plus noise.

        Guarantee: `price`; a record is counted in one cell.
        """
        return self._cells("days by year", column, len(YEARS) + 2, price, lambda: self._raw.years(column))

    def common_values(self, column: str, *, price: Fraction, delta: Fraction) -> FoundValues:
        """The values whose number of records, plus noise, reaches a public threshold; with those noisy numbers.

        Noise is drawn for the values that occur, each by itself, and for no others: that is what delta pays for.

        Guarantee: `price` in rho, but for a total variation of `delta`. Let a neighbour have one person more, whose
            records have values that others have too, and new ones. The noisy counts of the former are the Gaussian
            mechanism on a vector that moves by at most k; a new one, of which there are at most k, passes the threshold
            with a chance of at most delta altogether, independently of them. Where none does, both tables give the same
            law on the rest; thresholds are post-processing.
        """
        bounds.check_price(price)
        if self.unit.is_pure or self._ledger.budget.unit.is_gaussian or not delta:
            raise MechanismError(
                "values are found by thresholds, which need a delta and a ledger that counts rho; give a delta, and "
                "make the ledger with discover or with accounting 'zcdp'"
            )
        sensitivity = self._one_cell()
        plan = prices.gaussian(sensitivity, rho=price, denominator=1)
        assert isinstance(plan.law, Gaussian)
        variance = Fraction(plan.law.sigma_squared)
        threshold = threshold_for(variance, delta, rows=rows_of(self._ledger.persons))
        event = GaussianEvent(
            sigma_squared=variance, l2_squared=sensitivity.l2_squared, total_variation=delta
        )

        def look() -> list[Counts]:
            texts, exact = self._raw.spellings(column)
            noisy = plan.add(exact, self._noise)
            common = np.flatnonzero(noisy >= threshold)
            return [to_bytes(tuple(texts[i] for i in common)), noisy[common]]

        request = {"ask": "common values", "column": column, "threshold": threshold}
        (texts, counts), receipt = self._ask(event, request, look, note={"column": column})
        return FoundValues(from_bytes(texts), counts, threshold, plan.law, delta, receipt)

    def _cells(
        self, ask: str, column: str, cells: int, price: Fraction, exact: Callable[[], Counts]
    ) -> CellCounts:
        request: dict[str, Any] = {"ask": ask, "column": column}
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
