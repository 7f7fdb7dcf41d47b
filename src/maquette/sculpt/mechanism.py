"""The mechanism: measure tables in stages, fit synthetic rows to them, answer by the rows.

Its privacy is the gate's; everything here is a choice of what to ask next, or post-processing. There is no guarantee
of accuracy before the run (the rows come from a search), so a release states what the certificate has measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np

from maquette.core.laws import independent
from maquette.core.measurement import Size
from maquette.mechanisms import postprocess, shape, sizing
from maquette.mechanisms.base import (
    Curator,
    Forecast,
    Guarantee,
    Mechanism,
    Outcome,
    Prepared,
    Progress,
    Task,
    Traits,
)
from maquette.mechanisms.residual import RESIDUAL_FOR_ROWS
from maquette.models.answers import Answers, SmallDatabase
from maquette.models.residual import ResidualModel
from maquette.queries.base import Queries
from maquette.sculpt import allocation, rounds, stages
from maquette.sculpt.allocation import AttributeSets, TableNoise, attribute_sets
from maquette.sculpt.finish import FittedRows, dense_outcome, finish, fit_many, growth, is_long
from maquette.sculpt.measurements import Measurements, from_residuals
from maquette.sculpt.model import SculptModel
from maquette.sculpt.rounds import Rounds
from maquette.sculpt.rows import MIN_GAINS, begin, decode, extend, sweep
from maquette.sculpt.sampler import RowSampler
from maquette.sculpt.stages import SCORE_SHARE, BudgetView, DirectPart, measure_scores, part_of
from maquette.sculpt.targets import predict, structural_zeros

# Limits of time and memory:
MAX_PAIRS = 25_000
MAX_ROWS = 250_000
"""Synthetic rows that are fitted unless another number is asked for, whatever the number of records."""
MAX_COMPARED = 20_000
"""Three-way tables that are compared with the rows to choose a few."""
_COMPARED_RECORDS = 1e10
"""Pairs of a record and a triple that are counted in a round: half a minute."""
MAX_MEASURED_TRIPLES = 5_000
"""Three-way tables that are measured all at once; each adds as much to every draw of a value."""
_MAX_CODES = 2**20
_MIN_PRICE = Fraction(1, 10**6)
# Of the forecast of time:
_SWEEPS = 10
_VISITS = 1.2e7
"""Pairs of a row and a table that one second visits: by processor seconds in benchmarks/results/sculpt.jsonl."""
NO_GUARANTEE = "no guarantee before the run: the rows come from a search; see the certificate"


_ROW_PARTS = (
    ("fitting the synthetic rows", 0.3),
    ("making more synthetic rows", 0.05),
    ("averaging the synthetic rows", 0.3),
    ("repairing the synthetic rows", 0.12),
)
"""What follows the tables, in parts of the time of a run. Released numbers decide whether more rows are made or those
that are there are averaged, and whether they are repaired."""


@dataclass(slots=True)
class Run:
    """One run: the stages of measuring in order, with rows fitted where a stage needs to know them."""

    curator: Curator
    task: Task
    sets: AttributeSets
    rng: np.random.Generator
    progress: Progress

    def measure(
        self, size: Size, budget: BudgetView, table_noise: TableNoise, turns: Rounds | None
    ) -> tuple[Measurements, FittedRows]:
        """All stages, and the rows that are fitted to them."""
        pairs, cells = self.sets.pairs, self.curator.domain.shape
        count = len(self.triples(MAX_MEASURED_TRIPLES))
        third = rounds.plan_third_order(table_noise, size, count, price=budget.total)
        first = allocation.one_way_share(size.divisor, budget.total, sum(cells), table_noise)
        if turns:
            first *= rounds.ONE_WAY_FACTOR
        if not pairs:
            first = float(budget.left) / budget.total
        self.progress("measuring one-way tables", 0.0)
        measurements = stages.measure_one_way(self.curator, budget, table_noise, size, self.sets, share=first)
        measurements.structural_zeros = structural_zeros(measurements.hierarchy)
        if turns:
            rounds.measure_in_rounds(
                self.curator,
                budget,
                table_noise,
                measurements,
                rounds.candidate_sets(pairs, self.triples(_comparable(measurements.total)), cells),
                rounds=turns,
                rows=self.row_count(measurements),
                rng=self.rng,
                progress=partial(self.progress, "choosing tables"),
            )
            return measurements, self.fit(measurements)
        if pairs:
            self.progress("measuring two-way tables", 0.05)
            scores = measure_scores(self.curator, measurements, [*pairs], price=budget.part(SCORE_SHARE))
            rest = float(budget.left) - third.price(budget)
            stages.measure_pairs(self.curator, table_noise, measurements, pairs, scores, price=rest)
            measurements.reconcile()
        if not third.share:
            return measurements, self.fit(measurements)
        sampler = begin(measurements, m=self.row_count(measurements), rng=self.rng)
        self.sweep(sampler, MIN_GAINS[:2], 0)
        self.progress("measuring three-way tables", 0.3)
        if not rounds.measure_triples(
            self.curator,
            budget,
            table_noise,
            measurements,
            self.triples(MAX_MEASURED_TRIPLES, measurements),
            partial(predict, measurements, sampler.rows),
            rows=len(sampler.rows),
            all_tables=third.all_tables,
        ):
            sampler = self.select_in_rounds(measurements, sampler, budget, table_noise)
        measurements.reconcile()
        sampler = extend(sampler, measurements, rng=self.rng)
        return measurements, self.finish(sampler, measurements, MIN_GAINS[1:])

    def select_in_rounds(
        self, measurements: Measurements, sampler: RowSampler, budget: BudgetView, table_noise: TableNoise
    ) -> RowSampler:
        """Two rounds, each of which chooses tables by what the rows so far get wrong.

        The second can hardly gain more than the first: where a further look at the pairs would, it gets the rest.
        """
        triples = self.triples(_comparable(measurements.total), measurements)
        candidates = [*triples, *self.sets.pairs]
        for last in (False, True):
            self.progress("choosing three-way tables", 0.4 if last else 0.3)
            surplus = stages.measure_worst(
                self.curator,
                table_noise,
                measurements,
                candidates,
                partial(predict, measurements, sampler.rows),
                price=budget.left if last else budget.left * stages.FIRST_ROUND,
                last=last,
            )
            if last:
                break
            price = float(budget.left)
            if surplus < len(triples) * rounds.worth_of_pairs(table_noise, measurements, price=price):
                rounds.measure_pairs_again(self.curator, table_noise, measurements, price=price)
                break
            measurements.reconcile()
            sampler = extend(sampler, measurements, rng=self.rng)
            self.sweep(sampler, MIN_GAINS[:2], 0)
        return sampler

    def fit(self, measurements: Measurements, *, dense: bool = False) -> FittedRows:
        """Rows for tables that are all measured already."""
        m = self.row_count(measurements)
        if dense and is_long(measurements, m=m):
            progress = partial(self.progress, "fitting the synthetic rows")
            return fit_many(measurements, m=m, rng=self.rng, progress=progress)
        sampler = begin(measurements, m=m, rng=self.rng)
        return self.finish(sampler, measurements, MIN_GAINS, dense=dense)

    def finish(
        self,
        sampler: RowSampler,
        measurements: Measurements,
        min_gains: tuple[float, ...],
        *,
        dense: bool = False,
    ) -> FittedRows:
        """Sweep to everything measured, and what follows the sweeps."""
        return finish(
            sampler,
            self.sets.pairs,
            min_gains=min_gains,
            times=self.growth(measurements, len(sampler.rows)),
            rng=self.rng,
            progress=self.progress,
            dense=dense,
        )

    def sweep(self, sampler: RowSampler, min_gains: tuple[float, ...], more: int) -> None:
        progress = partial(self.progress, "fitting the synthetic rows")
        sweep(sampler, min_gains=min_gains, more=more, progress=progress)

    def triples(self, limit: int, measurements: Measurements | None = None) -> list[tuple[int, ...]]:
        """The triples of the workload, at most so many."""
        scores = None if measurements is None else measurements.scores
        return rounds.candidate_triples(
            self.sets.triples, self.curator.domain.names, limit=limit, scores=scores
        )

    def row_count(self, measurements: Measurements) -> int:
        """How many rows are fitted: as asked for, else the noisy number of records up to a limit."""
        return self.task.rows or max(1, min(round(measurements.total), MAX_ROWS))

    def growth(self, measurements: Measurements, m: int) -> int:
        """How many times as many are made of them, by released and public numbers; as many as were asked for."""
        if self.task.rows:
            return 1
        expected = allocation.typical_error(self.task, self.sets, n=measurements.size.divisor).mean_l1
        return growth(measurements, self.sets, m=m, max_rows=MAX_ROWS, expected=expected)


def _comparable(total: float) -> int:
    """How many triples are compared in a round, by the released number of records."""
    return min(MAX_COMPARED, max(MAX_MEASURED_TRIPLES, int(_COMPARED_RECORDS / total)))


@dataclass(frozen=True, eq=False)
class PreparedSculpt(Prepared):
    """Sculpt for one workload."""

    @cached_property
    def _sets(self) -> AttributeSets:
        return attribute_sets(self.task.queries)

    def _refuse(self) -> str | None:
        task, pairs = self.task, len(self._sets.pairs)
        if pairs > MAX_PAIRS:
            return f"the workload looks at {pairs:,} pairs of attributes, more than {MAX_PAIRS:,}"
        if max(task.queries.domain.shape) > _MAX_CODES:
            return f"an attribute has more than {_MAX_CODES:,} cells; declare coarser ones"
        if task.price < _MIN_PRICE:
            return f"a price of {float(task.price):.3g} cannot be divided into its stages"
        if task.post not in ("auto", "consistent", "none"):
            return f"its answers come from rows, post-processing '{task.post}' does not apply"
        return shape.too_many(task.queries)

    def _foresee(self) -> Forecast:
        """What it costs, and by simulation how large its errors tend to be."""
        task, sets, n = self.task, self._sets, self.n
        rows = self._with_rows(n=n).rows or min(n, MAX_ROWS)
        tables = len(sets.pairs) + len(sets.triples)
        typical = allocation.typical_error(task, sets, n=n)
        return Forecast(
            self.mechanism.name,
            None,
            typical.largest,
            postprocess.measuring(n=n, cells=task.queries.count, tables=tables, answers=task.queries.count)
            + _SWEEPS * rows * max(len(sets.pairs), 1) / _VISITS,
            allocation.estimated_megabytes(task.queries, tables=tables, rows=rows),
            True,
            None,
            (str(typical), NO_GUARANTEE),
        )

    @property
    def stage_parts(self) -> tuple[tuple[str, float], ...]:
        """As measured for two-way and three-way marginals of Adult; by the public guess of the number of records."""
        return self._measuring_parts() + _ROW_PARTS

    def _measuring_parts(self) -> tuple[tuple[str, float], ...]:
        task, sets, price = self.task, self._sets, self._parts.answers
        one_way = ("measuring one-way tables", 0.01)
        if allocation.dense_noise(task, n=self.n, price=price) is not None:
            return RESIDUAL_FOR_ROWS.prepare(allocation.residual_task(task, price)).stage_parts
        size = Size(self.n, None, None)
        if rounds.plan_rounds(TableNoise.of(task.unit, task.relation), size, sets, price=float(price)):
            return one_way, ("choosing tables", 0.35)
        if not sets.pairs:
            return (one_way,)
        if not allocation.pairs_can_stand_out(task, sets, n=self.n, price=price):
            return RESIDUAL_FOR_ROWS.prepare(allocation.one_way_task(task, sets, price)).stage_parts
        two_way = ("measuring two-way tables", 0.2)
        if not sets.triples:
            return one_way, two_way
        return one_way, two_way, ("measuring three-way tables", 0.15), ("choosing three-way tables", 0.15)

    def _run(self, curator: Curator, rng: np.random.Generator, progress: Progress) -> Outcome:
        """Measure in stages, fit rows between and after them."""
        size = sizing.released_size(curator, self.task, self._parts)
        budget = BudgetView(curator, replace(self.task, price=self._parts.answers))
        table_noise = TableNoise.of(self.task.unit, self.task.relation)
        task = self._with_rows(n=size.divisor)
        run = Run(curator, task, self._sets, rng, progress)
        if allocation.dense_noise(task, n=size.divisor, price=budget.left) is not None:
            return _run_dense(run, price=budget.left)
        turns = rounds.plan_rounds(table_noise, size, self._sets, price=budget.total)
        if not turns and not allocation.pairs_can_stand_out(
            task, self._sets, n=size.divisor, price=budget.left
        ):
            return _run_independent(run, price=budget.left)
        parts = stages.measure_direct_parts(curator, budget, table_noise, run.sets, task.queries)
        measurements, result = run.measure(size, budget, table_noise, turns)
        database = decode(measurements, result.rows, task.queries.domain.names, rng=rng)
        answering = _answering(task, measurements, result, database, rng)
        return Outcome(
            answers=_combine(task.queries, answering, parts, size),
            database=database,
            size=size,
            guarantee=Guarantee(1.0, task.beta, f"vacuous: {NO_GUARANTEE}"),
            parameters=_parameters(measurements, database, parts),
            model=_model(measurements, database, task, run.sets),
        )

    @property
    def size_price(self) -> Fraction:
        return self._parts.size

    @cached_property
    def _parts(self) -> sizing.Split:
        """A little for the number of records, where it is not there yet: one-way tables will say it better."""
        size = part_of(self.task.price, 0.0 if sizing.has_size(self.task) else stages.SIZE_SHARE)
        return sizing.Split(size, self.task.price - size)

    def slack_units(self, *, planned: bool) -> int:
        """What the residual basis takes of whole marginals, or of one-way tables alone, after the number of records."""
        task, left = self.task, self._parts.answers
        plans = [RESIDUAL_FOR_ROWS.prepare(allocation.residual_task(task, left), n=self.n)]
        if self._sets.pairs:
            plans.append(RESIDUAL_FOR_ROWS.prepare(allocation.one_way_task(task, self._sets, left), n=self.n))
        return max(plan.slack_units(planned=planned) for plan in plans)

    def _with_rows(self, *, n: int) -> Task:
        """The same task with its number of rows, where a small one is asked for."""
        if not self.task.small:
            return self.task
        return replace(self.task, rows=min(allocation.small_rows(self.task, self._sets, n=n), MAX_ROWS))


@dataclass(frozen=True, slots=True)
class Sculpt(Mechanism):
    """Measure one-way tables, the two-way and some three-way tables of the workload in bins, and fit rows to them.

    Guarantee: the task's price, through the gate.
    Accuracy: none before the run; the certificate measures it.
    Cost: counting the tables; sweeps of rows x tables, whatever the universe.
    """

    prepared_by = PreparedSculpt
    name: str = "sculpt"
    traits: Traits = Traits(gaussian=True, projects_noise=True, chooses_few_rows=True, answers_from_rows=True)


SCULPT = Sculpt()


def _run_dense(run: Run, *, price: Fraction) -> Outcome:
    """Where every cell of the workload stands out of the noise: the residual basis, and rows fitted to it.

    Pairs inside a triple say nothing new, but rows begin along them, and hold to them more firmly than to many small
    cells.
    """
    task, sets = run.task, run.sets
    residual = RESIDUAL_FOR_ROWS.prepare(allocation.residual_task(task, price))
    outcome = residual.run(run.curator, rng=run.rng, progress=run.progress)
    if allocation.fits_histogram(task):
        return outcome
    model = outcome.model
    assert isinstance(model, ResidualModel)
    measurements = from_residuals(task.queries.domain, model, outcome.size, [*sets.pairs, *sets.triples])
    result = run.fit(measurements, dense=True)
    # only the workload's attributes were measured here; the others were uniform while rows were fitted
    database = decode(measurements, result.rows, task.queries.attributes, rng=run.rng)
    answering = _answering(task, measurements, result, database, run.rng)
    return dense_outcome(task, outcome, measurements, database, answering)


def _run_independent(run: Run, *, price: Fraction) -> Outcome:
    """Where no pair could stand out of its noise: one-way tables at the whole price, and rows that are independent."""
    task, residual = run.task, RESIDUAL_FOR_ROWS.prepare(allocation.one_way_task(run.task, run.sets, price))
    outcome = residual.run(run.curator, rng=run.rng, progress=run.progress)
    assert isinstance(outcome.model, ResidualModel)
    measurements = from_residuals(task.queries.domain, outcome.model, outcome.size, [], smooth=True)
    measurements.structural_zeros = structural_zeros(measurements.hierarchy)
    result = run.fit(measurements)
    database = decode(measurements, result.rows, task.queries.attributes, rng=run.rng)
    answering = _answering(task, measurements, result, database, run.rng)
    return replace(
        outcome,
        answers=answering.answer(task.queries),
        database=database,
        guarantee=Guarantee(1.0, task.beta, f"vacuous: {NO_GUARANTEE}"),
        notes=(),
        deviations=None,
        parameters=_parameters(measurements, database, ()),
    )


def _answering(
    task: Task,
    measurements: Measurements,
    result: FittedRows,
    database: SmallDatabase,
    rng: np.random.Generator,
) -> SmallDatabase:
    """The rows that answer the workload: of all the last sweeps, or the database alone where its size was asked for
    or it has more rows than were fitted."""
    alone = bool(task.rows) or result.all_sweeps is result.rows
    return database if alone else decode(measurements, result.all_sweeps, database.columns, rng=rng)


def _combine(queries: Queries, database: SmallDatabase, parts: list[DirectPart], size: Size) -> Answers:
    """The rows' answers; where direct ones exist, these shrunk to the rows' by empirical Bayes.

    The part of their squared distance that noise does not explain is signal.
    """
    answers = database.answer(queries)
    if not parts:
        return answers
    fractions = answers.fractions
    for part in parts:
        variance = (independent(part.measurement.noise).deviation / size.divisor) ** 2
        rows, noisy = fractions[part.place], part.measurement.counts / size.divisor
        signal = max(float(np.mean((noisy - rows) ** 2)) - variance, 0.0)
        fractions[part.place] = rows + signal / max(signal + variance, 1e-300) * (noisy - rows)
    return Answers.from_fractions(fractions)


def _model(
    measurements: Measurements, database: SmallDatabase, task: Task, sets: AttributeSets
) -> SculptModel:
    pure = task.unit.is_pure
    count = 1 + (measurements.rounds or bool(sets.pairs) + 2 * bool(sets.triples))
    tables = [*measurements.one_way_tables, *(table.noisy for table in measurements.tables)]
    domain = measurements.hierarchy.domain
    return SculptModel.of(domain, tables, database.columns, measurements.size, pure=pure, stages=count)


def _parameters(
    measurements: Measurements, database: SmallDatabase, parts: Sequence[DirectPart]
) -> dict[str, Any]:
    orders = Counter(len(shape.attributes) for shape in measurements.estimates())
    tables = [*measurements.one_way_tables, *(table.noisy for table in measurements.tables)]
    return {
        "rows": database.m,
        "two_way_tables": orders[2],
        "three_way_tables": orders[3],
        "measured_bins": sum(table.binned.cells for table in tables),
        "parts_measured_directly": len(parts),
    }
