"""The mechanism: measure, carve, answer.

Its privacy is the gate's; everything here is a choice of what to ask next, or post-processing. No error can be
promised in advance (the rows are found by search), so a release states what the certificate has measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.mechanisms import costs, shape, trivial
from maquette.mechanisms.base import Curator, Forecast, Guarantee, Outcome, Progress, Task
from maquette.mechanisms.residual import RESIDUAL
from maquette.mechanisms.sculpt import clear, own
from maquette.mechanisms.sculpt.allot import Exchange
from maquette.mechanisms.sculpt.expect import expected, small_rows
from maquette.mechanisms.sculpt.interests import Interests, interests
from maquette.mechanisms.sculpt.run import MOST_ROWS, Run, size_of
from maquette.mechanisms.sculpt.stages import Purse
from maquette.models import constraints
from maquette.models.answers import SmallDatabase
from maquette.models.sculpt import fit
from maquette.models.sculpt.found import Found
from maquette.models.sculpt.model import SculptModel
from maquette.models.sculpt.polish import Polished

MOST_PAIRS = 10_000
NO_PROMISE = "no error is promised in advance: the rows are found by search; see the certificate"


@dataclass(frozen=True, slots=True)
class Sculpt:
    """Measure one-way tables, the two-way and some three-way tables of the workload in bins, and carve rows to them.

    Guarantee: the task's price, through the gate.
    Accuracy: none promised in advance; the certificate measures it.
    Cost: counting the tables; sweeps of rows x tables, whatever the universe.
    """

    name: str = "sculpt"

    def refusal(self, task: Task) -> str | None:
        """Why it cannot run, or None."""
        domain = task.queries.domain
        wanted = interests(task.queries)
        if len(wanted.pairs) > MOST_PAIRS:
            return (
                f"the workload looks at {len(wanted.pairs):,} pairs of attributes, more than {MOST_PAIRS:,}"
            )
        if max(domain.shape) > _LARGEST_ATTRIBUTE:
            return f"an attribute has more than {_LARGEST_ATTRIBUTE:,} cells; declare coarser ones"
        if task.price < _LEAST_PRICE:
            return f"a price of {float(task.price):.3g} cannot be divided into its stages"
        if task.post not in ("auto", "consistent", "none"):
            return f"its answers come from rows, post-processing '{task.post}' does not apply"
        return shape.too_many(task.queries)

    def forecast(self, task: Task, *, n: int) -> Forecast:
        """What it costs, and by simulation how large its errors tend to be."""
        refused = self.refusal(task)
        if refused is not None:
            return Forecast(self.name, None, None, 0.0, 0.0, False, refused)
        wanted = interests(task.queries)
        rows = self._sized(task, n=n).rows or min(n, MOST_ROWS)
        tables = len(wanted.pairs) + len(wanted.triples)
        typical = expected(task, wanted, n=n)
        return Forecast(
            self.name,
            None,
            typical.largest,
            costs.measuring(n=n, cells=task.queries.count, tables=tables, answers=task.queries.count)
            + _SWEEPS * rows * max(len(wanted.pairs), 1) / _VISITED,
            _LIBRARIES + 8e-6 * task.queries.count + 2e-6 * rows * len(task.queries.domain),
            True,
            None,
            (str(typical), NO_PROMISE),
        )

    def run(self, curator: Curator, task: Task, *, rng: np.random.Generator, progress: Progress) -> Outcome:
        """Measure in stages, carve between and after them."""
        if trivial.constant(task):
            return trivial.constant_outcome(curator, task)
        purse = Purse(curator, task)
        exchange = Exchange.of(task.unit, task.relation)
        size = size_of(curator, purse)
        task = self._sized(task, n=size.divisor)
        if clear.everything(task, size, price=purse.left):
            return self._everything(curator, task, purse, rng, progress)
        wanted, domain = interests(task.queries), task.queries.domain
        directly = own.measure(curator, purse, exchange, wanted, task.queries)
        run = Run(curator, task, wanted, rng, progress)
        found, carved = run.measured(size, purse, exchange)
        database = _database(found, carved.rows, rng, domain.names)
        answers = own.combined(task.queries, _answering(task, found, carved, database, rng), directly, size)
        return Outcome(
            answers=answers,
            database=database,
            size=size,
            guarantee=Guarantee(1.0, task.beta, f"vacuous: {NO_PROMISE}"),
            parameters=_facts(found, database, directly),
            model=_model(found, database, task, wanted),
        )

    def _sized(self, task: Task, *, n: int) -> Task:
        """The same task with its number of rows, where a small one is asked for."""
        if not task.small:
            return task
        return replace(task, rows=min(small_rows(task, interests(task.queries), n=n), MOST_ROWS))

    def _everything(
        self, curator: Curator, task: Task, purse: Purse, rng: np.random.Generator, progress: Progress
    ) -> Outcome:
        """Where every cell of the workload stands out of the noise, the residual basis; rows are carved to it."""
        rest = clear.rest(task, purse.left)
        outcome = RESIDUAL.run(curator, rest, rng=rng, progress=progress)
        if clear.fits_histogram(task):
            return outcome
        found = clear.as_found(task.queries.domain, outcome, interests(task.queries))
        carved = Run(curator, task, interests(task.queries), rng, progress).carve(found, as_measured=True)
        # only the workload's attributes were measured here; the others were uniform while rows were carved
        database = _database(found, carved.rows, rng, task.queries.attributes)
        return clear.with_rows(task, outcome, database, _answering(task, found, carved, database, rng))


SCULPT = Sculpt()

_LARGEST_ATTRIBUTE = 2**20
_LEAST_PRICE = Fraction(1, 10**6)
_LIBRARIES = 350.0
"""Megabytes of Python with its libraries; an answer takes four bytes, and as many while pieces are compared."""
_SWEEPS = 10
_VISITED = 1.2e7
"""Pairs of a row and a table that one second visits."""


def _database(
    found: Found, rows: NDArray[np.uint16], rng: np.random.Generator, measured: Iterable[str]
) -> SmallDatabase:
    columns = fit.codes(found, rows, rng=rng).columns
    made = SmallDatabase({name: columns[name] for name in measured})
    compiled = constraints.compile(found.hierarchy.domain, made.columns)
    return compiled.mend(made, rng=rng) if compiled else made


def _answering(
    task: Task, found: Found, carved: Polished, database: SmallDatabase, rng: np.random.Generator
) -> SmallDatabase:
    """The rows that answer the workload: of all the last sweeps, or just the database where its size was asked for."""
    return database if task.rows else _database(found, carved.pool, rng, database.columns)


def _model(found: Found, database: SmallDatabase, task: Task, wanted: Interests) -> SculptModel:
    pure = task.unit == "epsilon"
    stages = 1 + bool(wanted.pairs) * (1 if pure else 2) + 2 * bool(wanted.triples)
    measured = [*found.single_tables, *found.tables]
    domain = found.hierarchy.domain
    return SculptModel.of(domain, measured, database.columns, found.size, pure=pure, stages=stages)


def _facts(found: Found, database: SmallDatabase, directly: Sequence[own.Direct]) -> dict[str, Any]:
    orders = Counter(len(known.shape.attributes) for known in found.known())
    return {
        "rows": database.m,
        "two_way_tables": orders[2],
        "three_way_tables": orders[3],
        "measured_bins": sum(table.asked.cells for table in [*found.single_tables, *found.tables]),
        "parts_measured_directly": len(directly),
    }
