"""The one look at a private table that nobody pays for: exact answers, for the person who holds the table anyway.

Whatever is computed from them is as private as the rows. They feed `maquette evaluate` and nothing else: no
mechanism, no release and no ledger may ever see them, and nothing here writes a file.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maquette.accounting.ledger import Ledger
from maquette.errors import ParameterError
from maquette.gate.owner import Table
from maquette.queries.base import Queries


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Truth:
    """Exact answers of a private table: whole numbers over `denominator`, and its number of records."""

    numerators: NDArray[np.int64]
    denominator: int
    records: int

    def __repr__(self) -> str:
        return f"Truth({len(self.numerators):,} private answers)"


def is_table_of(table: Table, ledger: Ledger) -> bool:
    """Does a ledger know this table as the one that it pays for? For the eyes of whoever holds both."""
    known = ledger.commitment
    engine = table._engine  # pyright: ignore[reportPrivateUsage]  (the gate is whom the handle keeps it for)
    same = table.domain.fingerprint == ledger.domain_fingerprint
    return same and known is not None and engine.commitment(ledger.salt, like=known) == known


def exact_answers(table: Table, queries: Queries) -> Truth:
    """Exact answers, without noise and without payment.

    Guarantee: none. For the eyes of whoever holds the table.
    """
    if queries.domain.fingerprint != table.domain.fingerprint:
        raise ParameterError(
            "the release and the table have different domains; open the table with the release's own domain"
        )
    engine = table._engine  # pyright: ignore[reportPrivateUsage]  (the gate is whom the handle keeps it for)
    return Truth(engine.answer(queries), queries.denominator, engine.size())
