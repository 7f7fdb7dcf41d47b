"""The mechanism: measure, carve, answer.

Its privacy is the gate's; everything here is a choice of what to ask next, or post-processing. No error can be
promised in advance (the rows are found by search), so a release states what the certificate has measured.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Relation
from maquette.mechanisms import postprocess, shape
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
from maquette.mechanisms.residual import RESIDUAL
from maquette.models import constraints
from maquette.models.answers import Answers, SmallDatabase
from maquette.queries.base import Queries
from maquette.queries.marginals import Marginals
from maquette.questions.measurement import Measurement, Size
from maquette.questions.noise import NoiseRequest, independent
from maquette.sculpt import allocation, fit, stages
from maquette.sculpt.allocation import Exchange, Interests, interests, one_way_share
from maquette.sculpt.fit import Polished, polish
from maquette.sculpt.forecast import expected, small_rows
from maquette.sculpt.measurements import Found
from maquette.sculpt.model import SculptModel
from maquette.sculpt.rows import exchange, goals, precisions
from maquette.sculpt.sampler import Carving
from maquette.sculpt.stages import Purse, Triples, looked_at
from maquette.sculpt.targets import WIDEST, Shape

# The stages of one run in order, with the rows carved where a stage needs to know them.

GRIPS = (0.0, 0.02, 0.1)
"""Of the sweeps that rows need at least; rows that met most of the tables before begin with the second."""
MORE_SWEEPS = 5
MOST_ROWS = 250_000
"""Rows of a small database unless another number is asked for."""
MOST_TRIPLES = 20_000
"""Three-way tables that are compared with the rows to choose a few."""
_COMPARED = 1e10
"""Pairs of a record and a triple that are counted in a round: half a minute."""
MOST_MEASURED = 5_000
"""Three-way tables that are measured all at once; every visit of a row costs as much again for each."""


@dataclass(slots=True)
class Run:
    """One run: what it may spend, what it has found, the rows so far."""

    curator: Curator
    task: Task
    wanted: Interests
    rng: np.random.Generator
    progress: Progress

    def measured(self, size: Size, purse: Purse, exchange: Exchange) -> tuple[Found, Polished]:
        """All stages in order; the rows are carved between them where a stage needs to know them."""
        pairs, domain = self.wanted.pairs, self.curator.domain
        cells = domain.shape
        sizes = [math.prod(cells[a] for a in triple) for triple in self.triples(MOST_MEASURED)]
        third = stages.third_order(exchange, size, sizes, price=purse.whole)
        first = one_way_share(size.divisor, purse.whole, sum(cells), exchange)
        if not pairs:
            first = float(purse.left) / purse.whole
        self.progress("measuring one-way tables", 0.0)
        found = stages.measure_singles(self.curator, purse, exchange, size, self.wanted, share=first)
        found.barred = _barred(found)
        if pairs:
            self.progress("measuring two-way tables", 0.05)
            scores, doubt = stages.measure_scores(self.curator, purse, found, list(pairs))
            price = float(purse.left) - third.share * purse.whole
            stages.measure_pairs(self.curator, exchange, found, pairs, scores, doubt, price=price)
        if not third.share:
            return found, self.carve(found)
        carving = fit.begin(found, m=self.rows(found), rng=self.rng)
        carving = self.carved(carving, GRIPS[:2], 0)
        if third.everything:
            self.progress("measuring three-way tables", 0.4)
            stages.measure_triples(
                self.curator,
                exchange,
                found,
                self.triples(MOST_MEASURED, found.scores),
                partial(_believed, carving, found),
                price=float(purse.left),
            )
        else:
            carving = self.in_rounds(found, carving, purse, exchange)
        grips = GRIPS if third.everything else GRIPS[1:]
        return found, self.finished(fit.extend(carving, found, rng=self.rng), grips)

    def in_rounds(self, found: Found, carving: Carving, purse: Purse, exchange: Exchange) -> Carving:
        """Two rounds, each of which chooses tables by what the rows so far get wrong.

        The second can hardly find more than the first did. Where a second look at the pairs is worth more than
        that, it gets what is left.
        """
        triples = self.triples(_comparable(found.total), found.scores)
        candidates = [*triples, *self.wanted.pairs]
        for last in (False, True):
            self.progress("choosing three-way tables", 0.4 if last else 0.3)
            surplus = stages.measure_worst(
                self.curator,
                exchange,
                found,
                candidates,
                partial(_believed, carving, found),
                price=purse.left if last else purse.left * stages.FIRST_ROUND,
            )
            if last:
                break
            price = float(purse.left)
            if surplus < len(triples) * stages.worth_of_pairs(exchange, found, price=price):
                stages.measure_pairs_again(self.curator, exchange, found, price=price)
                break
            carving = self.carved(fit.extend(carving, found, rng=self.rng), GRIPS[:2], 0)
        return carving

    def carve(self, found: Found, *, as_measured: bool = False) -> Polished:
        """Rows for tables that are all measured already."""
        begun = fit.begin(found, m=self.rows(found), rng=self.rng)
        return self.finished(begun, GRIPS, as_measured=as_measured)

    def finished(self, carving: Carving, grips: tuple[float, ...], *, as_measured: bool = False) -> Polished:
        """Rows carved to everything measured, and polished."""
        polished = polish(
            self.carved(carving, grips, MORE_SWEEPS),
            self.wanted.pairs,
            grip=GRIPS[-1],
            rng=self.rng,
            tell=lambda share: self.progress("polishing rows", share),
        )
        if as_measured or not fit.is_close(carving, polished.rows):
            self.repair(carving, polished, as_measured=as_measured)
        return polished

    def repair(self, carving: Carving, polished: Polished, *, as_measured: bool) -> None:
        """Move tied columns together, where values one by one did not reach the tables."""
        self.progress("repairing rows", 0.0)
        layout, targets, rows = carving.layout, carving.targets, polished.rows
        average = layout.count(polished.pool) * (len(rows) / len(polished.pool))
        wanted = goals(targets, average, as_measured=as_measured)
        exchange(layout, rows, wanted, precisions(targets), rng=self.rng)
        self.progress("repairing rows", 1.0)

    def carved(self, carving: Carving, grips: tuple[float, ...], more: int) -> Carving:
        fit.sweep(carving, grips=grips, more=more, tell=lambda share: self.progress("carving rows", share))
        return carving

    def triples(self, most: int, scores: Mapping[tuple[int, ...], float] | None = None) -> Triples:
        """The triples of interest, as many as can be looked at."""
        return looked_at(self.wanted.triples, self.curator.domain.names, most=most, scores=scores)

    def rows(self, found: Found) -> int:
        """How many rows: as asked, else the noisy number of records up to a limit."""
        return self.task.rows or max(1, min(round(found.total), MOST_ROWS))


def size_of(curator: Curator, purse: Purse) -> Size:
    """The number of records, where it is private for a small share of the price."""
    if curator.relation is Relation.REPLACE_ONE:
        return curator.size(price=Fraction(0))
    return curator.size(price=purse.part(stages.SIZE_SHARE))


def _comparable(total: float) -> int:
    """How many triples are compared in a round, by the released number of records."""
    return min(MOST_TRIPLES, max(MOST_MEASURED, int(_COMPARED / total)))


def _believed(carving: Carving, found: Found, shapes: list[Shape]) -> list[NDArray[np.float64]]:
    """What the rows so far say of further tables, in counts of the table."""
    scale = found.total / max(len(carving.rows), 1)
    return [counts.astype(np.float64) * scale for counts in fit.counts_of(carving, shapes)]


def _barred(found: Found) -> list[tuple[Shape, NDArray[np.bool_]]]:
    """Declared combinations that no record has, as tables over at most three attributes that rows hold in full."""
    hierarchy = found.hierarchy
    barred: list[tuple[Shape, NDArray[np.bool_]]] = []
    for rule in hierarchy.domain.rules:
        places = [hierarchy.domain.index(name) for name in rule.names]
        whole = all(hierarchy.bins(a, 0) == hierarchy.domain.attributes[a].size for a in places)
        if rule.target is None and len(places) <= WIDEST and whole:
            barred.append((Shape(tuple(places), (0,) * len(places)), rule.allowed.ravel()))
    return barred


# Queries that are no marginals, measured in their own terms where that is no worse than reading them off
# rows.
#
# The noisy answers are not used to carve rows; they are combined with the rows' answers, weighted by how
# far the rows turn out to lie from them (empirical Bayes).

SHARE = 0.2
"""Of the whole price, for all such parts together."""
_MOST = 100_000
"""Queries of a part that may be measured directly."""
_WORSE = 2.0
"""How much noisier than a two-way table, in deviations, a direct answer may be."""


@dataclass(frozen=True, slots=True, eq=False)
class Direct:
    """Noisy answers to one part of the workload, and where it stands."""

    place: slice
    measured: Measurement


def measure(
    curator: Curator, purse: Purse, exchange: Exchange, wanted: Interests, queries: Queries
) -> list[Direct]:
    """Measure those parts that look at several attributes in another way than a marginal, if the noise allows."""
    parts = queries.classes
    able = [i for i, part in enumerate(parts) if _wanted(part)]
    if not able:
        return []
    share = SHARE / len(able)
    typical = exchange.variance(purse.whole * (1 - SHARE) / max(len(wanted.pairs), 1))
    starts = np.cumsum([0, *(part.count for part in parts)])
    found: list[Direct] = []
    for i in able:
        price = purse.part(share)
        if _variance(parts[i], curator, price) > _WORSE**2 * typical:
            continue
        noise = NoiseRequest.at(price, curator.unit)
        place = slice(int(starts[i]), int(starts[i + 1]))
        found.append(Direct(place, curator.measure(parts[i], noise=noise)))
    return found


def combined(queries: Queries, database: SmallDatabase, directly: list[Direct], size: Size) -> Answers:
    """The rows' answers; where direct ones exist, both by their precision."""
    answers = database.answer(queries)
    if not directly:
        return answers
    fractions = answers.fractions
    for part in directly:
        noise = independent(part.measured.noise).deviation / size.divisor
        fractions[part.place] = _mixed(
            fractions[part.place], part.measured.counts / size.divisor, variance=noise**2
        )
    return Answers.from_fractions(fractions)


def _mixed(rows: NDArray[np.float64], noisy: NDArray[np.float64], *, variance: float) -> NDArray[np.float64]:
    """Shrink the noisy answers to the rows' by the part of their distance that noise explains."""
    apart = float(np.mean((noisy - rows) ** 2))
    real = max(apart - variance, 0.0)
    return rows + real / max(real + variance, 1e-300) * (noisy - rows)


def _wanted(part: Queries) -> bool:
    return not isinstance(part, Marginals) and len(part.attributes) > 1 and part.count <= _MOST


def _variance(part: Queries, curator: Curator, price: Fraction) -> float:
    moved = part.sensitivity(curator.relation)
    if curator.unit.is_pure:
        return 2 * float(moved.l1 / price) ** 2
    return float(moved.l2_squared / (2 * price))


MOST_PAIRS = 10_000
NO_PROMISE = "no error is promised in advance: the rows are found by search; see the certificate"


@dataclass(frozen=True, eq=False)
class PreparedSculpt(Prepared):
    """Sculpt for one workload."""

    @cached_property
    def _wanted(self) -> Interests:
        return interests(self.task.queries)

    def _refuse(self) -> str | None:
        task, domain, pairs = self.task, self.task.queries.domain, len(self._wanted.pairs)
        if pairs > MOST_PAIRS:
            return f"the workload looks at {pairs:,} pairs of attributes, more than {MOST_PAIRS:,}"
        if max(domain.shape) > _LARGEST_ATTRIBUTE:
            return f"an attribute has more than {_LARGEST_ATTRIBUTE:,} cells; declare coarser ones"
        if task.price < _LEAST_PRICE:
            return f"a price of {float(task.price):.3g} cannot be divided into its stages"
        if task.post not in ("auto", "consistent", "none"):
            return f"its answers come from rows, post-processing '{task.post}' does not apply"
        return shape.too_many(task.queries)

    def _foresee(self) -> Forecast:
        """What it costs, and by simulation how large its errors tend to be."""
        task, wanted, n = self.task, self._wanted, self.n
        rows = self._sized(n=n).rows or min(n, MOST_ROWS)
        tables = len(wanted.pairs) + len(wanted.triples)
        typical = expected(task, wanted, n=n)
        return Forecast(
            self.mechanism.name,
            None,
            typical.largest,
            postprocess.measuring(n=n, cells=task.queries.count, tables=tables, answers=task.queries.count)
            + _SWEEPS * rows * max(len(wanted.pairs), 1) / _VISITED,
            _LIBRARIES + 8e-6 * task.queries.count + 2e-6 * rows * len(task.queries.domain),
            True,
            None,
            (str(typical), NO_PROMISE),
        )

    def _run(self, curator: Curator, rng: np.random.Generator, progress: Progress) -> Outcome:
        """Measure in stages, carve between and after them."""
        purse = Purse(curator, self.task)
        exchange = Exchange.of(self.task.unit, self.task.relation)
        size = size_of(curator, purse)
        task = self._sized(n=size.divisor)
        if allocation.everything(task, size, price=purse.left):
            return self._everything(curator, task, purse, rng, progress)
        wanted, domain = self._wanted, task.queries.domain
        directly = measure(curator, purse, exchange, wanted, task.queries)
        run = Run(curator, task, wanted, rng, progress)
        found, carved = run.measured(size, purse, exchange)
        database = _database(found, carved.rows, rng, domain.names)
        answers = combined(task.queries, _answering(task, found, carved, database, rng), directly, size)
        return Outcome(
            answers=answers,
            database=database,
            size=size,
            guarantee=Guarantee(1.0, task.beta, f"vacuous: {NO_PROMISE}"),
            parameters=_facts(found, database, directly),
            model=_model(found, database, task, wanted),
        )

    def slack_units(self, *, planned: bool) -> int:
        """What the residual basis takes, where whole marginals are measured."""
        return RESIDUAL.prepare(self.task, n=self.n).slack_units(planned=planned)

    def _sized(self, *, n: int) -> Task:
        """The same task with its number of rows, where a small one is asked for."""
        if not self.task.small:
            return self.task
        return replace(self.task, rows=min(small_rows(self.task, self._wanted, n=n), MOST_ROWS))

    def _everything(
        self, curator: Curator, task: Task, purse: Purse, rng: np.random.Generator, progress: Progress
    ) -> Outcome:
        """Where every cell of the workload stands out of the noise, the residual basis; rows are carved to it."""
        rest = allocation.rest(task, purse.left)
        outcome = RESIDUAL.prepare(rest).run(curator, rng=rng, progress=progress)
        if allocation.fits_histogram(task):
            return outcome
        found = allocation.as_found(task.queries.domain, outcome, self._wanted)
        carved = Run(curator, task, self._wanted, rng, progress).carve(found, as_measured=True)
        # only the workload's attributes were measured here; the others were uniform while rows were carved
        database = _database(found, carved.rows, rng, task.queries.attributes)
        return allocation.with_rows(task, outcome, database, _answering(task, found, carved, database, rng))


@dataclass(frozen=True, slots=True)
class Sculpt(Mechanism):
    """Measure one-way tables, the two-way and some three-way tables of the workload in bins, and carve rows to them.

    Guarantee: the task's price, through the gate.
    Accuracy: none promised in advance; the certificate measures it.
    Cost: counting the tables; sweeps of rows x tables, whatever the universe.
    """

    prepared_by = PreparedSculpt
    name: str = "sculpt"
    traits: Traits = Traits(gaussian=True, projects_noise=True, chooses_few_rows=True)


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
    pure = task.unit.is_pure
    stages = 1 + bool(wanted.pairs) * (1 if pure else 2) + 2 * bool(wanted.triples)
    measured = [*found.single_tables, *found.tables]
    domain = found.hierarchy.domain
    return SculptModel.of(domain, measured, database.columns, found.size, pure=pure, stages=stages)


def _facts(found: Found, database: SmallDatabase, directly: Sequence[Direct]) -> dict[str, Any]:
    orders = Counter(len(known.shape.attributes) for known in found.known())
    return {
        "rows": database.m,
        "two_way_tables": orders[2],
        "three_way_tables": orders[3],
        "measured_bins": sum(table.asked.cells for table in [*found.single_tables, *found.tables]),
        "parts_measured_directly": len(directly),
    }
