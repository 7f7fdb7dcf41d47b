"""Roth's mechanism (2010): SmallDB for tables whose records weigh, and for queries with real weights.

A database is a non-negative weight per element of the universe, the sum of what its records weigh. Neighbours are all
pairs within L1 distance 1, which includes a record more or less, a record of another weight, and a record replaced.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from maquette.core.measurement import Size
from maquette.core.weighting import MAX_WEIGHTED_CELLS, Weighting, weighting
from maquette.mechanisms import sizing
from maquette.mechanisms.base import (
    Curator,
    Forecast,
    Guarantee,
    Mechanism,
    Outcome,
    Prepared,
    Progress,
    Traits,
)
from maquette.mechanisms.smalldb import (
    DRAWING,
    EXPECTED_NOTE,
    SMALLDB,
    PreparedSmallDb,
    draw,
    draw_parameters,
    error_bound,
    fill,
    sampler_words,
    typical_error,
)
from maquette.queries.rows import Margin
from maquette.samplers.structures import Forest, Single
from maquette.theory import smalldb as theory


@dataclass(frozen=True, eq=False)
class PreparedRoth(Prepared):
    """Roth's mechanism for one workload and weight: SmallDB's sampler and bound, about the total weight."""

    @cached_property
    def _smalldb(self) -> PreparedSmallDb:
        return PreparedSmallDb(SMALLDB, self.task, self.n)

    @cached_property
    def _weight(self) -> Weighting:
        assert self.task.weight is not None
        return weighting(self.task.queries.domain, self.task.weight)

    def _refuse(self) -> str | None:
        task = self.task
        if task.weight is None:
            return (
                "it weighs records: name the attribute (weight=...); where each counts as one, use 'smalldb'"
            )
        weight = self._weight  # refuses one that is not declared
        if task.weight in task.queries.attributes:
            return f"the queries look at '{task.weight}', which weighs the records"
        undrawable = self._smalldb.undrawable()
        if undrawable is not None:
            return undrawable
        cells = self._widest() * len(weight.numerators)
        if cells > MAX_WEIGHTED_CELLS:
            return (
                f"a table over the queries' attributes and '{task.weight}' has {cells:,} cells (at most "
                f"{MAX_WEIGHTED_CELLS:,}); declare coarser cells"
            )
        return None

    def _widest(self) -> int:
        """The largest table over attributes that are looked at together."""
        route, domain = self._smalldb.route, self.task.queries.domain
        assert route is not None
        tables = [_table(part) for part, _ in route.parts] or [route.structure.attributes]
        return max(domain.cells(names) for names in tables)

    def _foresee(self) -> Forecast:
        """The bound and the typical error for a total weight of n."""
        task, n, parts = self.task, self.n, self._smalldb.parts
        epsilon = float(task.unit.selection_epsilon(parts.answers))
        question, route = self._smalldb.draw_for(n=n, epsilon=epsilon)
        least = max(n - 2 * parts.size_error(task) - 1.0, 1.0)
        return Forecast(
            self.mechanism.name,
            error_bound(question, route, task, n=least, epsilon=epsilon).alpha,
            typical_error(question, route, task, n=n, epsilon=epsilon),
            1.0 if route is None else route.seconds(question.m),
            self.megabytes,
            True,
            None,
            (f"{sampler_words(question)}, m={question.m}, weighed by {task.weight}", EXPECTED_NOTE),
        )

    def run(self, curator: Curator, *, rng: np.random.Generator, progress: Progress) -> Outcome:
        """As every mechanism; the total weight of constant queries stays unknown, as it is never public."""
        outcome = super().run(curator, rng=rng, progress=progress)
        return replace(outcome, size=Size.unknown()) if self.is_constant else outcome

    @property
    def stage_parts(self) -> tuple[tuple[str, float], ...]:
        return ((DRAWING, 1.0),)

    def _run(self, curator: Curator, rng: np.random.Generator, progress: Progress) -> Outcome:
        """Buy the total, draw once, answer every query from the rows."""
        task, weight, parts = self.task, self._weight, self._smalldb.parts
        total = curator.total(weight, price=parts.size)
        epsilon = float(task.unit.selection_epsilon(parts.answers))
        question, route = self._smalldb.draw_for(n=total.divisor, epsilon=epsilon)
        sample = draw(curator, replace(question, weight=weight), price=parts.answers, progress=progress)
        database = fill(sample, task, rng)  # every row stands for the same share of the total
        size_error = sizing.size_error(total, task.beta) + 1.0  # released rounded up
        bound = error_bound(
            question, route, task, n=max(total.value - size_error, 1.0), epsilon=float(sample.epsilon)
        )
        return Outcome(
            answers=database.answer_all(task.queries),
            database=database,
            size=total,
            guarantee=Guarantee(bound.alpha, task.beta, f"{bound.words}; of the total weight"),
            parameters=draw_parameters(sample, total, bound)
            | _usefulness(weight, total, eta=bound.alpha, size_error=size_error, beta=task.beta),
            scored_draw=sample,
        )


@dataclass(frozen=True, slots=True)
class Roth(Mechanism):
    """Buy the noisy total weight, draw y with probability proportional to base(y) exp(-epsilon err(x, y) / (2D)).

    Guarantee: the task's price, pure, under both relations, and for any two weighted databases within L1 distance 1:
        the score has sensitivity D = max (max q - min q) <= 1, so 1/2 is the right constant (the published 1/4
        doubles the noise).
        The total is never public: scaling by the true one would not be private.
    Accuracy: (eta, beta)-relatively useful: every weighted count, read as total times fraction, is within
        eta |x| of the truth plus what the noisy total is off (`theory/smalldb.py`); eta is SmallDB's B(m) at the
        smallest total that the noise allows.
    Holds when: the class has an exact sampler, and its attributes times the weight's cells make at most 2^24 cells.
    Cost: as SmallDB.
    """

    prepared_by = PreparedRoth
    name: str = "roth"
    traits: Traits = Traits(weighs_records=True, chooses_few_rows=True)


def _table(part: Single) -> Margin:
    return part.edges[0] if isinstance(part, Forest) else part.attributes  # a forest looks at pairs of bits


def _usefulness(
    weight: Weighting, total: Size, *, eta: float, size_error: float, beta: float
) -> dict[str, Any]:
    useful_counts = theory.usefulness(
        eta=min(eta, 1.0), total=total.divisor + size_error, size_error=size_error
    )
    return {
        "weight": weight.attribute,
        "unit of weight": weight.bound,
        "grid of weights": str(Fraction(1, weight.grid)),
        "relative usefulness": {"eta": eta, "beta": beta, "counts": useful_counts},
    }


ROTH = Roth()
