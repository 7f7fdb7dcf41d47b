"""A fast double of the gate: the same questions at the same prices, noise of the same laws by numpy, no ledger.

It is the production curator with three things replaced: what a question pays is added up in memory, exact counts of a
table are kept between runs, and noise is drawn in floating point. Nothing here is private; the tables are public. That
prices and laws agree with the real gate is held by `tests/surface/test_benchmark_families.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import maquette as mq
from maquette.core.answering import joined, parts_of
from maquette.core.binned import Binned
from maquette.core.budget import Budget
from maquette.core.curator import Curator
from maquette.core.events import Event, Receipt
from maquette.core.forms import QueryForms
from maquette.core.noise import Counts, Selection
from maquette.core.rows.engine import Engine
from maquette.domain import Domain, Relation
from maquette.queries.rows import Margin
from maquette.samplers.draw import EXACT_DRAWS

MAX_STORED_CELLS = 2**24
"""Cells of exact tables that are kept between runs."""
MAX_FOLDED_CELLS = 2**18
"""Cells of a full table from which tables in bins are added up; larger ones are counted in their bins."""
NARROW = 12.0
"""Sigma up to which the discrete law is inverted; a wider one is a rounded normal of the same variance."""


class FastNoise:
    """The laws of the gate's noise, by numpy in doubles."""

    watermark: str | None = "a double for benchmarks: nothing here is private"

    def __init__(self, seed: Sequence[int]) -> None:
        self._rng = np.random.default_rng(seed)

    @property
    def bits(self) -> Any:
        raise NotImplementedError("the double draws no small databases")

    def laplace(self, exact: Counts, *, scale: Fraction) -> Counts:
        chance = -np.expm1(-1 / float(scale))
        first, second = self._rng.geometric(chance, (2, len(exact)))
        return exact + first - second

    def gaussian(self, exact: Counts, *, sigma: float) -> Counts:
        if sigma > NARROW:  # rounding adds 1/12 to the variance
            drawn = np.rint(self._rng.normal(scale=np.sqrt(sigma**2 - 1 / 12), size=len(exact)))
            return exact + drawn.astype(np.int64)
        reach = int(np.ceil(9 * sigma)) + 1
        places = np.arange(-reach, reach + 1)
        law = np.exp(-(places**2) / (2 * sigma**2))
        borders = np.cumsum(law / law.sum())[:-1]
        return exact + places[np.searchsorted(borders, self._rng.random(len(exact)))]

    def cube(self, exact: Counts, *, base: Fraction) -> Counts:
        raise NotImplementedError("the double draws no L-infinity noise")

    def select(self, scores: Counts, *, scale: float, method: Selection) -> int:
        lifted = np.asarray(scores, dtype=np.float64) / scale
        draw = self._rng.gumbel if method == "exponential" else self._rng.exponential
        return int(np.argmax(lifted + draw(size=len(lifted))))


class StoredCounts:
    """An engine that keeps the exact tables it has counted, and adds up tables in bins from them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._size = engine.size()
        self._tables: dict[Margin, NDArray[np.int64]] = {}
        self._cells = 0

    def __getattr__(self, name: str) -> Any:
        """Everything else is the engine's."""
        return getattr(self._engine, name)

    @property
    def domain(self) -> Domain:
        return self._engine.domain

    def size(self) -> int:
        return self._size

    def margins(self, margins: Sequence[Margin]) -> dict[Margin, NDArray[np.int64]]:
        missing = [margin for margin in margins if margin not in self._tables]
        counted = self._engine.margins(missing) if missing else {}
        for margin, table in counted.items():
            if self._cells + table.size <= MAX_STORED_CELLS:
                self._tables[margin] = table
                self._cells += table.size
        return {margin: counted[margin] if margin in counted else self._tables[margin] for margin in margins}

    def binned(self, tables: Sequence[Binned]) -> list[NDArray[np.int64]]:
        small = [t for t in tables if self.domain.cells(t.margin) <= MAX_FOLDED_CELLS]
        full = self.margins([t.margin for t in small]) if small else {}
        others = [t for t in tables if t.margin not in full]
        counted = iter(self._engine.binned(others) if others else [])
        return [_fold(t, full[t.margin]) if t.margin in full else next(counted) for t in tables]

    def answer(self, asked: QueryForms) -> NDArray[np.int64]:
        parts = parts_of(asked, self.domain.sizes)
        if any(part.names for part in parts):
            return self._engine.answer(asked)
        tables = self.margins([margin for part in parts for margin in part.margins])
        return joined(asked, [part.answers(tables, part.zeros()) for part in parts])


def _fold(table: Binned, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    for axis, cut in enumerate(table.cuts):
        if len(cut) < counts.shape[axis]:
            counts = np.add.reduceat(counts, np.asarray(cut), axis=axis)
    return counts.reshape(-1)


class FastCurator(Curator):
    """The production curator over counts that are kept, with quick noise and without a ledger."""

    def __init__(
        self, engine: StoredCounts, *, budget: Budget, relation: Relation, seed: Sequence[int]
    ) -> None:
        # no call of the parent: there is no ledger to open and no table to bind to it
        ledger: Any = SimpleNamespace(budget=budget, relation=relation, persons=None)
        self._engine: Any = engine
        self._begin(ledger, key="double", budget=budget, persons=None)
        self._noise: Any = FastNoise(seed)
        self._draws = EXACT_DRAWS
        self._watch = lambda levels: None
        self.events: list[Event] = []

    def _ask(
        self,
        event: Event,
        request: dict[str, Any],
        look: Callable[[], list[NDArray[np.int64]]],
        *,
        note: Mapping[str, Any] | None = None,
        is_empty: bool = False,
    ) -> tuple[list[NDArray[np.int64]], Receipt]:
        """Refuse what the budget does not cover, as the barrier does; then look."""
        del request, note, is_empty
        self._spent = self._spent_with(event.cost(self._budget.unit))
        self.events.append(event)
        self._step += 1
        return look(), Receipt(self._step, "0" * 64)


def engine_of(table: mq.Table) -> StoredCounts:
    """The counts of an opened public table."""
    return StoredCounts(table._engine)
