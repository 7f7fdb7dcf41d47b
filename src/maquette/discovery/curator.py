"""Every question that can be asked of raw columns, one method each: pay, look, return."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from maquette.core import _check
from maquette.core.answers import cell_sensitivity
from maquette.core.barrier import Barrier, Exact
from maquette.core.budget import Budget
from maquette.core.ledger.ledger import Ledger
from maquette.core.measurement import NoisyCounts
from maquette.core.neighbours import rows_of
from maquette.core.noise import add_noise
from maquette.core.prices import Counts
from maquette.discovery.findings import KINDS, YEARS, FoundValues, from_bytes, numbers_request, to_bytes
from maquette.discovery.prices import common_values
from maquette.discovery.raw import RawTable


class DiscoveryCurator(Barrier):
    """Looks at the raw columns of one table, out of one allowance of a ledger that was made before the domain.

    It goes by public structure only: kinds of values, a public ladder of borders, and the texts that occur with at
    least so many records that no single person's values come out but with a chance delta.
    """

    def __init__(self, table: RawTable, ledger: Ledger, *, key: str, budget: Budget) -> None:
        ledger.require_raw(persons=table.persons)
        ledger.bind_raw(table.columns, table.commitment(ledger.salt))
        self._raw = table
        self._begin(ledger, key=key, budget=budget, persons=table.persons)

    def _cells(
        self, ask: str, column: str, cells: int, price: Fraction, exact: Exact, **facts: Any
    ) -> NoisyCounts:
        """Counts in disjoint cells; `facts` are what the request says beside its column, public too."""
        _check.one_of(self._raw.columns, column=column)
        request: dict[str, Any] = {"ask": ask, "column": column, **facts}
        one_cell = cell_sensitivity(self.relation)
        return self._noisy_at(request, one_cell, price, exact, coordinates=cells, note={"column": column})

    def kinds(self, column: str, *, price: Fraction) -> NoisyCounts:
        """How many values of a column are whole numbers, fractions, days, other texts, missing; plus noise.

        Guarantee: `price`; a record is counted in one cell.
        """
        return self._cells("kinds of values", column, len(KINDS), price, lambda: self._raw.kinds(column))

    def numbers(
        self, column: str, *, price: Fraction, borders: tuple[float, ...] | None = None
    ) -> NoisyCounts:
        """Numbers of a column that lie between the borders of `discovery/findings.py` or other public ones, with noise.

        Guarantee: `price`; a record is counted in one cell, beyond the borders and without a number too.
        """
        ask, cells, facts = numbers_request(borders)
        return self._cells(ask, column, cells, price, lambda: self._raw.numbers(column, borders), **facts)

    def years(self, column: str, *, price: Fraction) -> NoisyCounts:
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
        _check.one_of(self._raw.columns, column=column)
        rows = rows_of(self._ledger.persons)
        plan = common_values(self._prices, price, delta, cell_sensitivity(self.relation), rows=rows)

        def look() -> list[Counts]:
            texts, exact = self._raw.spellings(column)
            noisy = add_noise(exact, plan.law, source=self._noise)
            common = np.flatnonzero(noisy >= plan.threshold)
            return [to_bytes(tuple(texts[i] for i in common)), noisy[common]]

        request = {"ask": "common values", "column": column, "threshold": plan.threshold}
        (texts, counts), receipt = self._ask(plan.event, request, look, note={"column": column})
        return FoundValues(from_bytes(texts), counts, plan.threshold, plan.law, delta, receipt)
