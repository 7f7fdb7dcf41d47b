"""A private table whose records weigh between 0 and 1, seen as a table of whole numbers.

Every count is a sum of numerators over the weighting's grid. One record more or less moves a cell by at most the
grid, so that scores divided by the grid keep their sensitivity of 1: under add/remove-one a residual
q(x) - |x| f moves by w (q_z - f), under replace-one by w' (q_z' - f) - w (q_z - f), at most (1 - f) + f = 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain
from maquette.errors import MechanismError, ParameterError
from maquette.models.atoms import Integers
from maquette.models.weighting import MOST_CELLS, Weighting
from maquette.queries.base import Margin, Queries, TableQueries
from maquette.queries.workload import Workload
from maquette.vault.engine import Engine


class Weighed:
    """What a draw asks of a table, in numerators over the grid. Exact, and private."""

    def __init__(self, engine: Engine, weighting: Weighting) -> None:
        _check_fit(engine.domain, weighting)
        self._engine = engine
        self._name = weighting.attribute
        self._weights = weighting.array()

    @property
    def domain(self) -> Domain:
        return self._engine.domain

    def size(self) -> int:
        """The total weight."""
        return int(self.margins([()])[()])

    def values(self, name: str) -> tuple[NDArray[Any], Integers]:
        """Cells of one attribute that hold any weight, increasing, and how much."""
        table = self.margins([(name,)])[(name,)]
        held = np.flatnonzero(table)
        return held.astype(np.uint64), table[held]

    def margins(self, margins: Sequence[Margin]) -> dict[Margin, Integers]:
        """Tables over a few attributes each, the weight summed out."""
        order = self.domain.names
        wide = {m: tuple(name for name in order if name in m or name == self._name) for m in margins}
        for margin in wide.values():
            if self.domain.cells(margin) > MOST_CELLS:
                raise MechanismError(
                    f"a weighted table over {', '.join(margin)} has more than {MOST_CELLS:,} cells"
                )
        tables = self._engine.margins(list(dict.fromkeys(wide.values())))
        return {m: self._summed(tables[margin], margin) for m, margin in wide.items()}

    def answer(self, queries: Queries) -> Integers:
        """Numerators over the queries' denominator times the grid."""
        parts = [part.queries for part in queries.parts] if isinstance(queries, Workload) else [queries]
        found = [self._answer(part) * (queries.denominator // part.denominator) for part in parts]
        return np.concatenate(found)

    def _answer(self, queries: Queries) -> Integers:
        if isinstance(queries, TableQueries):
            return np.asarray(queries.from_margins(self.margins(queries.margins)), dtype=np.int64)
        names = queries.attributes
        table = self.margins([names])[names]
        held = np.nonzero(table)
        rows = dict(zip(names, held, strict=True))
        return np.asarray(queries.on_rows(rows, weights=table[held]), dtype=np.int64)

    def _summed(self, table: Integers, margin: Margin) -> Integers:
        return np.tensordot(table, self._weights, axes=([margin.index(self._name)], [0]))


def _check_fit(domain: Domain, weighting: Weighting) -> None:
    if weighting.attribute not in domain or len(weighting.numerators) != domain[weighting.attribute].size:
        raise ParameterError(f"expected one weight per cell of '{weighting.attribute}'")
