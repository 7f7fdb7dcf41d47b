"""From noisy answers to a release: consistent answers, rows where they fit, and the error that is then true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.core.answers import GRID
from maquette.core.measurement import Size
from maquette.domain import Domain
from maquette.mechanisms import shape
from maquette.mechanisms.base import START_SECONDS, Guarantee, Outcome, Task
from maquette.models import constraints
from maquette.models import constraints as forbidden
from maquette.models.answers import (
    Answers,
    SmallDatabase,
    Unlisted,
    database,
    generator,
    largest_remainder,
    systematic,
)
from maquette.models.fits import fit_entropic, fit_largest, fit_squares, histogram_map, simplex_shift
from maquette.queries.base import Queries
from maquette.queries.merging import Merged
from maquette.theory import direct, ratios

MAX_ROWS = 10**7
"""Rows of a small database unless another number is asked for."""
EXPECTED_NOTE = (
    "expected: median of the largest noise plus median error of a private size, before post-processing"
)

ANSWERS_ONLY = (
    "answers only, no rows: the universe that the queries look at is too large for a histogram, the class of "
    "queries too large to fit one, or no histogram was asked for"
)


@dataclass(frozen=True, slots=True, eq=False)
class NoisyAnswers:
    """Measured answers before post-processing, with what is proved about them."""

    counts: NDArray[np.float64]
    level: float
    """No measured answer is off by more than this, in counts."""
    size_error: float
    """The released size is not off by more than this."""
    size: Size
    law: str
    """The noise in words."""
    weights: NDArray[Any] | float = 1.0
    """Importance of each answer in a least-squares fit."""
    deviations: NDArray[np.floating[Any]] | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    model: Any = None
    gap: ratios.Gap | None = None
    """How far any answer may lie from its share of the number of records, where both are judged together."""


def method_for(task: Task) -> str:
    """Which post-processing a task gets: none, simplex, lp or l2. Public inputs only.

    Least squares wherever a histogram can be fitted; for marginals over a larger universe each by itself.
    """
    if task.post in ("none", "lp", "l2"):
        return task.post
    if shape.gives_rows(task.queries):
        return "l2"
    return "simplex" if shape.is_marginals(task.queries) else "none"


def refusal(task: Task) -> str | None:
    """Why the asked post-processing cannot be done, or None."""
    if task.post in ("lp", "l2") and not shape.gives_rows(task.queries):
        return (
            f"post-processing '{task.post}' fits a histogram, here of {shape.universe(task.queries):,} cells: the "
            "cells are too many, or the class of queries is too large; use post='auto' or 'none'"
        )
    if task.post == "consistent" and not (shape.is_marginals(task.queries) or shape.gives_rows(task.queries)):
        return "no consistent answers can be made for this class over so large a universe; use post='auto'"
    return None


def error_after(level: float, size_error: float, method: str) -> float:
    """The error in counts that can be stated in advance, after post-processing."""
    match method:
        case "none":
            return level + size_error
        case "simplex":
            return direct.consistent_error(noise=level, size_error=size_error)
        case _:
            return direct.fitted_error(noise=level, size_error=size_error)


def in_advance(level: float, size_error: float, method: str, *, n: int) -> float:
    """The stated error as a fraction of n records, for the lowest size that may be released; 1 if vacuous."""
    least = n - size_error
    return 1.0 if least < 1 else min(1.0, error_after(level, size_error, method) / least + 0.5 / GRID)


def guarantee(error: float, size: Size, beta: float, words: str) -> Guarantee:
    """An error in counts as a fraction of the released size; rounding to the grid of answers included."""
    alpha = error / size.divisor + 0.5 / GRID
    if alpha >= 1 or size.value < 1:
        return Guarantee(1.0, beta, f"vacuous: {words}")
    return Guarantee(alpha, beta, words)


def finish(task: Task, noisy: NoisyAnswers) -> Outcome:
    """Post-process, make rows, and state the error of the answers that are released.

    Accuracy: measured answers are within level + size_error (as fractions of the released size); projected ones within
        2 level + size_error, and within level + size_error + how far they really moved. Answers of a fitted
        histogram are released only if they stay within level + size_error of the measured ones. Where the noise of
        counts and size is judged together, every answer is as near as the farther end of its interval.
    """
    method = method_for(task)
    histogram = _fit(task, noisy, method) if method != "none" and shape.gives_rows(task.queries) else None
    adjusted = None
    if histogram is not None and method in ("lp", "l2"):
        adjusted = _from_fit(task, noisy, histogram)
    if adjusted is None and method != "none" and shape.is_marginals(task.queries):
        method, adjusted = "simplex", _each_margin(task, noisy)
    if adjusted is None:
        method, adjusted = "none", (np.clip(noisy.counts, 0.0, noisy.size.divisor), 0.0)
    values, shift = adjusted
    own = values if method in ("simplex", "none") else None  # a fit's answers may be the histogram itself
    answers = Answers.from_fractions(np.divide(values, noisy.size.divisor, out=own))
    del adjusted, values, own
    error = direct.shifted_error(noise=noisy.level, shift=shift, size_error=noisy.size_error)
    error = min(error, error_after(noisy.level, noisy.size_error, method))
    rows, facts = _rows(task, noisy, histogram, answers)
    words = f"{noisy.law}; {_METHODS[method]}"
    return Outcome(
        answers=answers,
        database=rows,
        size=noisy.size,
        guarantee=guarantee(error, noisy.size, task.beta, words)
        if noisy.gap is None
        else _together(noisy, noisy.gap, answers, task.beta, words),
        deviations=noisy.deviations,
        parameters=noisy.parameters
        | facts
        | {
            "post": method,
            "noise_level_counts": noisy.level,
            "size_drift_counts": noisy.size_error,
            "moved_counts": shift,
        },
        notes=noisy.notes if rows is not None else (*noisy.notes, ANSWERS_ONLY),
        model=noisy.model,
    )


def _together(noisy: NoisyAnswers, gap: ratios.Gap, answers: Answers, beta: float, words: str) -> Guarantee:
    """How far any released answer may lie from its share, by the interval of each (`theory.ratios`)."""
    low, high = ratios.share_between(noisy.counts, noisy.size.value, gap=gap)
    alpha = float(np.maximum(answers.fractions - low, high - answers.fractions).max())
    if alpha >= 1:
        return Guarantee(1.0, beta, f"vacuous: {words}")
    return Guarantee(alpha, beta, words)


_METHODS = {
    "none": "answers as measured, clipped to [0, 1]",
    "simplex": "each marginal projected to non-negative cells of the released size",
    "lp": "answers of a histogram with the smallest largest deviation",
    "l2": "answers of a histogram with the smallest squared deviation",
}


def _each_margin(task: Task, noisy: NoisyAnswers) -> tuple[NDArray[np.float64], float]:
    """Every margin by itself; returns the answers and the largest shift."""
    margins = shape.margins_of(task.queries)
    assert margins is not None
    values = np.empty_like(noisy.counts)
    shifts = [0.0]
    for _, place, _ in margins:
        theta = simplex_shift(noisy.counts[place], total=noisy.size.divisor)
        np.maximum(noisy.counts[place] - theta, 0.0, out=values[place])
        shifts.append(abs(theta))
    return values, max(shifts)


def _from_fit(
    task: Task, noisy: NoisyAnswers, histogram: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float] | None:
    """The histogram's answers, or None if they are so far from the measured ones that the bound would suffer."""
    mapped = histogram_map(task.queries)
    assert mapped is not None
    values = mapped.forward(histogram)
    shift = float(np.abs(values - np.clip(noisy.counts, 0.0, noisy.size.divisor)).max())
    return (values, shift) if shift <= noisy.level + noisy.size_error else None


def _fit(task: Task, noisy: NoisyAnswers, method: str) -> NDArray[np.float64] | None:
    mapped = histogram_map(task.queries)
    if mapped is None:
        return None
    total = float(noisy.size.divisor)
    if method == "lp":
        solved = fit_largest(mapped, noisy.counts, total=total)
        if solved is not None:
            return solved[0]
    exact = shape.fits_exactly(task.queries)
    fit = fit_squares if exact else fit_entropic
    return fit(
        mapped, noisy.counts, total=total, weights=noisy.weights, rounds=shape.fit_rounds(task.queries)
    )


def _rows(
    task: Task, noisy: NoisyAnswers, histogram: NDArray[np.float64] | None, answers: Answers
) -> tuple[SmallDatabase | None, dict[str, Any]]:
    """Rows of the fitted histogram, and how far their answers lie from the released ones."""
    if histogram is None:
        return None, {}
    mapped = histogram_map(task.queries)
    assert mapped is not None
    return make_rows(task, histogram, noisy.size, answers, mapped.forward)


def make_rows(
    task: Task,
    weights: NDArray[np.float64],
    size: Size,
    answers: Answers,
    evaluate: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> tuple[SmallDatabase, dict[str, Any]]:
    """Rows from weights by the rounding that stays closer to the released answers; both are free to try."""
    m = task.rows or min(size.divisor, MAX_ROWS)
    weights = allowed_only(task, weights)

    def gap(counts: NDArray[np.int64]) -> float:
        return float(np.abs(evaluate(counts.astype(float)) / m - answers.fractions).max())

    tried = [(gap(counts), counts) for counts in (systematic(weights, m), largest_remainder(weights, m))]
    counts = min(tried, key=lambda pair: pair[0])[1]
    rows = database(task.queries.domain, task.queries.attributes, counts)
    return rows, {"rows": m}


def allowed_only(task: Task, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights on cells, with nothing where a declared constraint forbids a record."""
    if not task.queries.domain.constraints:
        return weights
    from maquette.models import constraints

    attributes = task.queries.attributes
    cells = constraints.compile(task.queries.domain, attributes).on_cells(attributes)
    allowed = np.where(cells, weights.reshape(cells.shape), 0.0)
    return (allowed if (allowed > 0).any() else cells.astype(np.float64)).reshape(weights.shape)


# What a mechanism made, brought to the domain's constraints, whatever it knows of them. Post-processing:
# free.


def meeting(outcome: Outcome, queries: Queries, *, key: str) -> Outcome:
    """The same outcome with rows and answers that meet the domain's constraints; `key` seeds the mending of rows."""
    if not queries.domain.constraints:
        return outcome
    return _with_zeros(_with_mended_rows(outcome, queries.domain, key), queries)


def _with_mended_rows(outcome: Outcome, domain: Domain, key: str) -> Outcome:
    if outcome.database is None:
        return outcome
    compiled = constraints.compile(domain, outcome.database.columns)
    rows = compiled.mend(outcome.database, rng=generator(f"{key}/constraints"))
    if rows is outcome.database:
        return outcome
    note = (
        "some rows were changed to meet the constraints of the domain; answers only where they are forbidden"
    )
    return replace(outcome, database=rows, notes=(*outcome.notes, note))


def _with_zeros(outcome: Outcome, queries: Queries) -> Outcome:
    """Zero for the cells of marginals that no record has; the promise grows by how far an answer was moved."""
    if outcome.scored_draw is not None or isinstance(outcome.answers, Unlisted):
        return outcome  # what is judged or read from rows as they are
    answers, shift = forbidden.cleared(outcome.answers, queries)
    promised = outcome.guarantee
    return replace(
        outcome, answers=answers, guarantee=replace(promised, alpha=min(1.0, promised.alpha + shift))
    )


# From the queries that were asked back to those of the workload: copies, complements and constants too.


def expanded(outcome: Outcome, merged: Merged) -> Outcome:
    """The outcome for the whole workload. Post-processing: free.

    Accuracy: that of the outcome. As a share of the records a complement is off by as much as the query itself,
        whatever the number of records is, and a constant is exact.
    """
    if merged.source is None:
        return outcome
    denominator = outcome.answers.denominator
    answers = Answers(merged.expand(outcome.answers.numerators, denominator), denominator)
    deviations = outcome.deviations
    notes = outcome.notes
    if merged.saved:
        repeats = f"{merged.saved:,} of {len(merged.source):,} queries"
        notes = (
            *notes,
            f"{repeats} repeat another one, are its complement or count all records or none: not asked again",
        )
    return replace(
        outcome,
        answers=answers,
        deviations=None if deviations is None else merged.expand_errors(deviations),
        notes=notes,
        parameters=outcome.parameters | {"merged": merged.saved},
    )


# Rough time and memory, so that a plan can say "minutes, not hours". Rates measured on two shared cores.


_COUNTS_PER_SECOND = 1e8
"""Cell increments per second while counting rows."""
_DRAWS_PER_SECOND = 5e6
"""Noisy values per second: drawn, compressed and stored in the ledger."""
_ELEMENTS_PER_SECOND = 3e8
"""Elements per second of plain array passes."""
_PASSES = 25
_ARRAYS = 9
LIBRARIES = 250
"""Megabytes of Python with its libraries."""


def seconds(task: Task, *, n: int, cells: int, tables: int) -> float:
    """Counting the tables, noise for the cells, and post-processing with a fit where there is one."""
    fit = 0.0
    if method_for(task) != "none" and shape.gives_rows(task.queries):
        fit = shape.fit_rounds(task.queries) * shape.fit_pass(task.queries) / _ELEMENTS_PER_SECOND
    return measuring(n=n, cells=cells, tables=tables, answers=cells) + fit


def measuring(*, n: int, cells: int, tables: int, answers: int) -> float:
    """Counting the tables, noise for the cells, a few passes over the answers."""
    return (
        START_SECONDS
        + n * tables / _COUNTS_PER_SECOND
        + cells / _DRAWS_PER_SECOND
        + _PASSES * answers / _ELEMENTS_PER_SECOND
    )


def megabytes(task: Task, *, cells: int) -> float:
    """The tables and answers at their peak, and the histogram where one is fitted."""
    histogram = shape.universe(task.queries) if shape.gives_rows(task.queries) else 0
    return holding(cells + histogram)


def holding(cells: int) -> float:
    """Megabytes for this many cells of eight bytes in every array that is held at once, and the libraries."""
    return LIBRARIES + _ARRAYS * 8e-6 * cells
