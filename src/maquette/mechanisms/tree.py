"""A noisy tree of counts over one ordered attribute, made consistent: prefixes and ranges from few noisy nodes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.core.binned import Binned, table_sensitivity
from maquette.core.drawing import DrawnDatabase
from maquette.core.laws import IndependentLaw, law_of_variance
from maquette.core.measurement import NoisyTable, Size
from maquette.domain import Attribute, Relation
from maquette.mechanisms import postprocess, shape, sizing
from maquette.mechanisms.base import Curator, Forecast, Mechanism, Outcome, Prepared, Progress, Task, Traits
from maquette.models import fits
from maquette.models.answers import Answers, SmallDatabase, database, systematic
from maquette.models.fits import answer_histogram
from maquette.queries.base import Queries
from maquette.queries.ranges import Prefixes, Ranges
from maquette.samplers.structures import Draw, Intervals
from maquette.theory import direct as theory
from maquette.theory import quantiles

_HAIR = Fraction(1, 2**50)
"""Left of the price, so that the gate's rounding of the cost upwards stays inside it."""
BRANCHES = 16
"""Children of a node: of 2 and 16, the better one in sweeps over four shapes of data."""
TYPICAL, GROWTH, RISING = 4.0, 0.55, 2.5
"""Largest error of all prefixes over the noise's deviation: about 4 levels^0.55; as a fraction e of the records it
shrinks to e / (1 + 2.5 e), because the answers rise. Fitted to 180 simulations (16 to 2^20 cells; 100, 1,000 and
10,000 records at epsilon 1; uniform data, two bumps, Zipf, spikes) and 96 releases of 2^20 cells."""

NO_ROWS = "answers only, no rows: the noisy tree holds no record"


@dataclass(frozen=True, eq=False)
class PreparedTree(Prepared):
    """A tree for one workload."""

    def _refuse(self) -> str | None:
        return refuse_line(self.task, most=shape.LARGEST_HISTOGRAM) or _refuse_unlisted(self.task)

    @property
    def megabytes(self) -> float:
        return postprocess.holding(3 * shape.universe(self.task.queries) + _answers_held(self.task))

    @cached_property
    def _parts(self) -> sizing.Split:
        task = self.task
        return sizing.split(
            task, lambda price: _level(task, _law(task, price)), lambda e, t: _error_in_counts(task, e, t)
        )

    @property
    def size_price(self) -> Fraction:
        return self._parts.size

    def _foresee(self) -> Forecast:
        task, parts, n = self.task, self._parts, self.n
        cells, count = shape.universe(task.queries), _answers_held(task)
        law = _law(task, parts.answers)
        level, size_error = _level(task, law), parts.size_error(task)
        rounding = 0.0 if is_listed(task.queries) else 1 / _most_rows(task, n)
        typical = _typical(task, law) / n
        typical = typical / (1 + RISING * typical) + parts.size_error(task, beta=0.5) / n
        return Forecast(
            self.mechanism.name,
            postprocess.in_advance(
                _error_in_counts(task, level, size_error)
                + _read_from_rows(task, level, size_error, n=n)
                - size_error,
                size_error,
                "none",
                n=n,
            ),
            min(typical + rounding, 1.0),
            postprocess.measuring(n=n, cells=2 * cells, tables=len(_widths(task)), answers=2 * cells + count),
            self.megabytes,
            True,
            None,
            (_describe(task, law), "expected: from simulation, no promise"),
        )

    @property
    def stage_parts(self) -> tuple[tuple[str, float], ...]:
        return ("measuring the tree", 0.5), ("fitting the tree", 0.5)

    def _run(self, curator: Curator, rng: np.random.Generator, progress: Progress) -> Outcome:
        """Buy the size where it is private, measure every level, fit, answer."""
        task, parts = self.task, self._parts
        progress("measuring the tree", 0.0)
        size = sizing.released_size(curator, task, parts)
        variance = variance_parameter(task, parts.answers)
        levels = curator.measure_tables(_tables(task), variances=[variance] * len(_widths(task)))
        progress("fitting the tree", 0.5)
        done = _release(task, levels, size)
        progress("fitting the tree", 1.0)
        return done


@dataclass(frozen=True, slots=True)
class Tree(Mechanism):
    """Measure every level of a 16-ary tree over the cells with the same noise, fit the closest tree, let prefixes rise.

    Guarantee: the task's price, through the gate: one record lies in one node of every level (replace-one: two).
        Laplace noise for a pure price, Gaussian noise for a price in rho.
    Accuracy: `theory/direct.py`: least squares are no farther off than adding up at most 8 nodes per level; a rising
        sequence is never farther from a rising truth than what it was made of; a range is a difference of two prefixes.
    Holds when: prefixes or ranges of one ordered attribute.
    Cost: one draw per node; up to 2^22 cells. Ranges of more than 23,000 cells are read from rows when they are asked.
    """

    prepared_by = PreparedTree
    name: str = "tree"
    traits: Traits = Traits(gaussian=True)

    def l2_shift(self, queries: Queries, relation: Relation) -> Fraction:
        """One record moves one node of every level, two where it is replaced."""
        return Fraction(
            table_sensitivity(relation) * len(fits.tree_widths(shape.universe(queries), BRANCHES))
        )


def attribute_of(queries: Queries) -> Attribute | None:
    """The one ordered attribute whose prefixes or ranges are asked for."""
    match queries:
        case Prefixes(attribute=name) | Ranges(over=(name,)):
            return queries.domain[name]
        case _:
            return None


def refuse_line(task: Task, *, most: int) -> str | None:
    """Why a mechanism for one ordered attribute of at most so many cells does not take a workload, or None."""
    if attribute_of(task.queries) is None:
        return "it is for prefixes or ranges of one ordered attribute"
    if (cells := shape.universe(task.queries)) > most:
        return f"the queries look at {cells:,} cells, more than {most:,}"
    if task.post == "lp":
        return "its answers are fitted by least squares; use post='auto' or 'none'"
    return None


def variance_parameter(task: Task, price: Fraction) -> Fraction:
    """Of the noise in every node: 2 scale^2 with levels * D / scale = price, or levels * D / (2 variance) = price."""
    shift = len(_widths(task)) * table_sensitivity(task.relation)
    paid = price * (1 - _HAIR)
    return task.unit.variance(paid, shift=shift)


def _widths(task: Task) -> list[int]:
    return fits.tree_widths(shape.universe(task.queries), BRANCHES)


def _tables(task: Task) -> list[Binned]:
    """One table per level, from the leaves up."""
    size = shape.universe(task.queries)
    return [Binned(task.queries.attributes, (tuple(range(0, size, width)),)) for width in _widths(task)]


def _law(task: Task, price: Fraction) -> IndependentLaw:
    variance = variance_parameter(task, price) + task.unit.smoothing
    return law_of_variance(variance, pure=task.unit.is_pure, price=price)


def _released_law(task: Task, levels: tuple[NoisyTable, ...]) -> IndependentLaw:
    """The law that was really drawn."""
    return law_of_variance(levels[0].variance, pure=task.unit.is_pure, up=True)


def _level(task: Task, law: IndependentLaw) -> float:
    """The largest noise of any answer before it is made to rise, in counts; a range is two prefixes."""
    public = task.relation is Relation.REPLACE_ONE
    level = quantiles.tree_quantile(
        law,
        nodes=theory.tree_nodes(levels=len(_widths(task)), branches=BRANCHES, total_is_public=public),
        log_queries=math.log(shape.universe(task.queries)),
        beta=sizing.beta_for_answers(task.beta, task.relation),
    )
    return level * _prefixes_per_answer(task)


def _error_in_counts(task: Task, level: float, size_error: float) -> float:
    """The error in counts of the released size.

    Accuracy: a prefix is off by its noise, by what the total adds to the fit (at most its own error), and by the
        division by the released size (once more); a range by twice that.
    """
    return level + 2 * size_error * _prefixes_per_answer(task)


def _prefixes_per_answer(task: Task) -> int:
    return 1 if isinstance(task.queries, Prefixes) else 2


def _typical(task: Task, law: IndependentLaw) -> float:
    many = 1.0 if isinstance(task.queries, Prefixes) else 1.5
    return many * TYPICAL * len(_widths(task)) ** GROWTH * law.deviation


def _release(task: Task, levels: tuple[NoisyTable, ...], size: Size) -> Outcome:
    leaves = _leaves(task, levels, size)
    if not is_listed(task.queries):
        return _release_rows(task, levels, size, leaves)
    answers = Answers.from_fractions(answer_histogram(task.queries, leaves) / size.divisor)
    law, size_error = _released_law(task, levels), sizing.size_error(size, task.beta)
    level = _level(task, law)
    rows, facts = _rows(task, leaves, size, answers)
    return Outcome(
        answers=answers,
        database=rows,
        size=size,
        guarantee=postprocess.guarantee(
            _error_in_counts(task, level, size_error),
            size,
            task.beta,
            f"{_describe(task, law)}; least squares, made to rise",
        ),
        parameters={
            "levels": len(levels),
            "branches": BRANCHES,
            "noise_level_counts": level,
            "size_drift_counts": size_error,
        }
        | facts,
        notes=() if rows is not None else (NO_ROWS,),
    )


# Ranges that are too many to list: the rows hold them, and each is read from them when it is asked for.

MAX_ROWS = 2**12
"""Rows that stand for answers that are not listed, as many as the gate certifies: rounding to them moves no range by
more than one row."""


def is_listed(queries: Queries) -> bool:
    """Are the answers few enough to be held?"""
    return shape.too_many(queries) is None


def _answers_held(task: Task) -> int:
    return task.queries.count if is_listed(task.queries) else 0


def _refuse_unlisted(task: Task) -> str | None:
    """Why answers cannot be read from rows instead of a list, or None."""
    if is_listed(task.queries):
        return None
    if task.queries.domain.constraints:
        return (
            "its answers are too many to list and are read from its rows, which constraints of the domain would move; "
            "leave the constraints out of the domain"
        )
    if (task.rows or 0) > MAX_ROWS:
        return (
            f"its answers are too many to list and are read from its rows, of which there may be {MAX_ROWS:,}; "
            "ask for fewer rows"
        )
    return None


def _most_rows(task: Task, n: int) -> int:
    return task.rows or max(1, min(n, MAX_ROWS))


def _read_from_rows(task: Task, level: float, size_error: float, *, n: int) -> float:
    """What reading the answers from rows adds at most, in counts: a row, and that all rows together are the whole.

    Accuracy: with L the error of a fitted prefix, the declared cells of the fit add up to their true number within L,
        each cell of missing or unknown values (two at most) is a difference of two prefixes, and the released size is
        within its own error. Nothing of this where the total is public and all cells are declared.
    """
    attribute = attribute_of(task.queries)
    if is_listed(task.queries) or attribute is None:
        return 0.0
    row = n / _most_rows(task, n)
    is_whole = task.relation is Relation.REPLACE_ONE and attribute.cells == attribute.size
    return row if is_whole else row + 5 * level / _prefixes_per_answer(task) + 6 * size_error


def _release_rows(
    task: Task, levels: tuple[NoisyTable, ...], size: Size, leaves: NDArray[np.float64]
) -> Outcome:
    """Rows by rounding the running total, so that every prefix is kept within half a row.

    Accuracy: `_error_in_counts`, a row, and by how much the leaves miss the released size.
    """
    law, size_error = _released_law(task, levels), sizing.size_error(size, task.beta)
    level, m = _level(task, law), _most_rows(task, size.divisor)
    counts = systematic(leaves, m)
    rows = database(task.queries.domain, task.queries.attributes, counts)
    missed = abs(float(leaves.sum()) - size.divisor)
    error = _error_in_counts(task, level, size_error) + size.divisor / m + missed
    (name,) = task.queries.attributes
    scored = DrawnDatabase(
        Draw(Intervals(name), "tree", m),
        [rows.columns[name].astype(np.uint64)],
        Fraction(0),
        Fraction(1),
        levels[0].receipt,
    )
    return Outcome(
        answers=rows.answer_all(task.queries),
        database=rows,
        size=size,
        guarantee=postprocess.guarantee(
            error,
            size,
            task.beta,
            f"{_describe(task, law)}; least squares, made to rise, read from {m:,} rows",
        ),
        parameters={
            "levels": len(levels),
            "branches": BRANCHES,
            "noise_level_counts": level,
            "size_drift_counts": size_error,
            "rows": m,
        },
        scored_draw=scored,
    )


def _leaves(task: Task, levels: tuple[NoisyTable, ...], size: Size) -> NDArray[np.float64]:
    """Counts of the cells whose prefixes rise from 0 to the released size."""
    attribute = attribute_of(task.queries)
    assert attribute is not None
    counts = fits.fit_tree(
        [table.values.astype(np.float64) for table in levels],
        [float(table.variance) for table in levels],
        branches=BRANCHES,
        total=float(size.value),
        total_variance=0.0 if size.noise is None else size.noise.variance,
    )
    sums = np.cumsum(counts)
    rising = fits.rising(sums[: attribute.cells]).clip(0.0, size.divisor)
    rest = counts[attribute.cells :].clip(0.0, None)  # missing and unknown values are in no prefix
    return np.concatenate([np.diff(rising, prepend=0.0), rest])


def _rows(
    task: Task, leaves: NDArray[np.float64], size: Size, answers: Answers
) -> tuple[SmallDatabase | None, dict[str, Any]]:
    if not leaves.sum():
        return None, {}
    return postprocess.make_rows(
        task, leaves, size, answers, lambda counts: answer_histogram(task.queries, counts)
    )


def _describe(task: Task, law: IndependentLaw) -> str:
    return (
        f"discrete {law.name} noise of deviation {law.deviation:.4g} counts in every node of a {BRANCHES}-ary tree of "
        f"{len(_widths(task))} levels"
    )


TREE = Tree()
