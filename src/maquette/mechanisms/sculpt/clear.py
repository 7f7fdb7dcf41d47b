"""Where every cell of the workload stands out of the noise: measure all of it at once in the residual basis."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain
from maquette.mechanisms import consistent, shape
from maquette.mechanisms.base import Outcome, Task
from maquette.mechanisms.residual import RESIDUAL, allocate
from maquette.mechanisms.sculpt.interests import Interests
from maquette.models.answers import Answers, SmallDatabase
from maquette.models.measurement import NoisyTable, Receipt, Size
from maquette.models.residual import ResidualModel, cell_variance
from maquette.models.sculpt.bins import Hierarchy
from maquette.models.sculpt.found import Found
from maquette.models.sculpt.layout import Shape
from maquette.models.simplex import simplex_shift
from maquette.queries.base import Margin
from maquette.theory import postprocess

_TRUSTED, _PLAIN = 2.5, 5.0
"""Deviations that the rows' answers may lie from the measured ones, and from which on a cell is plainly not empty."""
_SMALL_UNIVERSE = 2**13
"""Up to this many cells rows come from a fitted histogram; beyond, carved ones are closer."""
CLEAR = 15.0
"""Mean count of a cell, in deviations of its noise, from which on whole marginals are measured."""


def everything(task: Task, size: Size, *, price: Fraction) -> bool:
    """Does the median marginal stand clear of its noise? From public sizes and the released number of records."""
    return clear_noise(task, n=size.divisor, price=price) is not None


def clear_noise(task: Task, *, n: int, price: Fraction) -> NDArray[np.float64] | None:
    """Cells times the deviation of each, for every marginal measured whole; None where they do not stand clear."""
    asked = shape.margins_of(task.queries)
    if (
        not asked
        or _hopeless(task, asked, n=n, price=price)
        or RESIDUAL.refusal(rest(task, price)) is not None
    ):
        return None
    domain = task.queries.domain
    plan = allocate(domain, asked, relation=task.relation, price=price, per="marginal")
    variances = {(): 0.0} | dict(zip(plan.parts, map(float, plan.variances), strict=True))
    noise = [domain.cells(a.margin) * math.sqrt(cell_variance(domain, variances, a.margin)) for a in asked]
    return np.array(noise) if n >= CLEAR * float(np.median(noise)) else None


def _hopeless(task: Task, asked: list[shape.Asked], *, n: int, price: Fraction) -> bool:
    """Would the cells not even stand clear if each marginal had the whole price? Saves planning for all of them."""
    least = 0.5 * math.sqrt(1 / (2 * float(price)))
    cells = float(np.median([task.queries.domain.cells(a.margin) for a in asked]))
    return n < CLEAR * cells * least


def rest(task: Task, price: Fraction) -> Task:
    """The same task with what is left of its price; no histogram is fitted where rows will be carved."""
    return replace(task, price=price, post=task.post if fits_histogram(task) else "none")


def fits_histogram(task: Task) -> bool:
    """Do the rows come from a histogram over all attributes of the workload?"""
    return shape.universe(task.queries) <= _SMALL_UNIVERSE


def as_found(domain: Domain, outcome: Outcome, wanted: Interests) -> Found:
    """Residual tables as targets for rows: the one-, two- and three-way tables of the workload.

    Pairs inside a triple say nothing new, but rows begin along them, and hold to them more firmly than to many small
    cells.
    """
    model = outcome.model
    assert isinstance(model, ResidualModel)
    total = float(outcome.size.divisor)
    singles = [_single(model, name, total) for name in domain.names]
    deviations = [_deviation(model, (name,)) for name in domain.names]
    found = Found(
        size=outcome.size,
        hierarchy=Hierarchy.from_counts(domain, singles),
        total=total,
        singles=singles,
        single_variances=[deviation**2 for deviation in deviations],
        single_tables=[],
    )
    for key in [*wanted.pairs, *wanted.triples]:
        _add(found, model, key)
    return found


def with_rows(task: Task, outcome: Outcome, database: SmallDatabase, answering: SmallDatabase) -> Outcome:
    """The rows, and answers: full cells as measured, the others as the rows that answer have them.

    Accuracy: the rows know which cells are empty, the measurement how full the others are. A rows' answer is moved to
        within a few deviations of the measured one; all stay within the noise level plus how far they were moved.
    """
    model = outcome.model
    assert isinstance(model, ResidualModel)
    n = outcome.size.divisor
    fractions = answering.answer(task.queries).fractions
    moved = 0.0
    for margin, place, _ in shape.margins_of(task.queries) or ():
        measured, deviation = model.table(margin).ravel() / n, model.deviation(margin) / n
        width = _TRUSTED * deviation
        np.clip(fractions[place], measured - width, measured + width, out=fractions[place])
        np.copyto(fractions[place], measured, where=measured > _PLAIN * deviation)
        np.clip(fractions[place], 0.0, 1.0, out=fractions[place])
        kept = np.clip(measured, 0.0, 1.0)  # the truth lies there too
        moved = max(moved, float(np.abs(fractions[place] - kept).max()) * n)
    level, drift = (outcome.parameters[key] for key in ("noise_level_counts", "size_drift_counts"))
    words = "discrete Gaussian noise in the residual basis; cells near zero as carved rows have them"
    error = postprocess.moved(noise=level, shift=moved, drift=drift)
    return replace(
        outcome,
        answers=Answers.from_fractions(fractions),
        database=database,
        guarantee=consistent.guarantee(error, outcome.size, task.beta, words),
        notes=(),
        parameters=outcome.parameters | {"rows": database.m, "post": "rows", "moved_counts": moved},
    )


def _single(model: ResidualModel, name: str, total: float) -> NDArray[np.float64]:
    """A one-way table of the given total, even where no query looks at the attribute."""
    if not model.covers((name,)):
        size = model.domain[name].size
        return np.full(size, total / size)
    table = model.table((name,)).ravel()
    return np.maximum(table - simplex_shift(table, total=total), 0.0)


def _deviation(model: ResidualModel, margin: Margin) -> float:
    return max(model.deviation(margin), 0.5) if model.covers(margin) else 1e6


def _add(found: Found, model: ResidualModel, key: tuple[int, ...]) -> None:
    """One table of the residual basis as a target at full resolution."""
    hierarchy = found.hierarchy
    if any(hierarchy.bins(a, 0) < hierarchy.domain.attributes[a].size for a in key):
        return
    shape = Shape(key, (0,) * len(key))
    asked = hierarchy.table(*shape)
    values = np.rint(model.table(asked.margin)).astype(np.int64).ravel()
    variance = Fraction(_deviation(model, asked.margin) ** 2)
    found.add(shape, NoisyTable(asked, values, variance, _NOWHERE), found.product(shape))


_NOWHERE = Receipt(-1, "")
"""Put together from paid residuals, not itself in the ledger."""
