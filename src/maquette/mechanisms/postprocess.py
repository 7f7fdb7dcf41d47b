"""From noisy answers to a release: consistent answers, rows where they fit, and the error that is then true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain
from maquette.mechanisms import shape
from maquette.mechanisms.base import START_SECONDS, Guarantee, Outcome, Task
from maquette.models import constraints
from maquette.models import constraints as forbidden
from maquette.models.answers import GRID, Answers, SmallDatabase, Unlisted
from maquette.models.fits import fit_entropic, fit_largest, fit_squares, histogram_map, simplex_shift
from maquette.models.rows import database, generator, largest_remainder, systematic
from maquette.queries.base import Queries
from maquette.queries.merging import Merged
from maquette.questions.measurement import Size
from maquette.theory import direct

MOST_ROWS = 10**7
"""Rows of a small database unless another number is asked for."""
EXPECTED = "expected: median of the largest noise plus median error of a private size, before post-processing"

ANSWERS_ONLY = (
    "answers only, no rows: the universe that the queries look at is too large for a histogram, the class of "
    "queries too large to fit one, or no histogram was asked for"
)


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """Measured answers before post-processing, with what is proved about them."""

    counts: NDArray[np.float64]
    level: float
    """No measured answer is off by more than this, in counts."""
    drift: float
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


def route(task: Task) -> str:
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
            f"post-processing '{task.post}' fits a histogram, and the queries look at "
            f"{shape.universe(task.queries):,} cells in a class too large for that; use post='auto' or 'none'"
        )
    if task.post == "consistent" and not (shape.is_marginals(task.queries) or shape.gives_rows(task.queries)):
        return "no consistent answers can be made for this class over so large a universe; use post='auto'"
    return None


def stated(level: float, drift: float, way: str) -> float:
    """The error in counts that can be stated in advance, after post-processing."""
    match way:
        case "none":
            return level + drift
        case "simplex":
            return direct.consistent_error(noise=level, drift=drift)
        case _:
            return direct.fitted_error(noise=level, drift=drift)


def in_advance(level: float, drift: float, way: str, *, n: int) -> float:
    """The stated error as a fraction of n records, for the lowest size that may be released; 1 if vacuous."""
    least = n - drift
    return 1.0 if least < 1 else min(1.0, stated(level, drift, way) / least + 0.5 / GRID)


def guarantee(error: float, size: Size, beta: float, words: str) -> Guarantee:
    """An error in counts as a fraction of the released size; rounding to the grid of answers included."""
    alpha = error / size.divisor + 0.5 / GRID
    if alpha >= 1 or size.value < 1:
        return Guarantee(1.0, beta, f"vacuous: {words}")
    return Guarantee(alpha, beta, words)


def finish(task: Task, draft: Draft) -> Outcome:
    """Post-process, make rows, and state the error of the answers that are released.

    Accuracy: measured answers are within level + drift (as fractions of the released size); projected ones within
        2 level + drift, and within level + drift + how far they really moved. Answers of a fitted histogram are
        released only if they stay within level + drift of the measured ones.
    """
    way = route(task)
    fitted = _fit(task, draft, way) if way != "none" and shape.gives_rows(task.queries) else None
    found = None
    if fitted is not None and way in ("lp", "l2"):
        found = _from_fit(task, draft, fitted)
    if found is None and way != "none" and shape.is_marginals(task.queries):
        way, found = "simplex", _each_margin(task, draft)
    if found is None:
        way, found = "none", (np.clip(draft.counts, 0.0, draft.size.divisor), 0.0)
    values, moved = found
    answers = Answers.from_fractions(values / draft.size.divisor)
    error = direct.shifted_error(noise=draft.level, shift=moved, drift=draft.drift)
    error = min(error, stated(draft.level, draft.drift, way))
    rows, facts = _rows(task, draft, fitted, answers)
    words = f"{draft.law}; {_WAYS[way]}"
    return Outcome(
        answers=answers,
        database=rows,
        size=draft.size,
        guarantee=guarantee(error, draft.size, task.beta, words),
        deviations=draft.deviations,
        parameters=draft.parameters
        | facts
        | {
            "post": way,
            "noise_level_counts": draft.level,
            "size_drift_counts": draft.drift,
            "moved_counts": moved,
        },
        notes=draft.notes if rows is not None else (*draft.notes, ANSWERS_ONLY),
        model=draft.model,
    )


_WAYS = {
    "none": "answers as measured, clipped to [0, 1]",
    "simplex": "each marginal projected to non-negative cells of the released size",
    "lp": "answers of a histogram with the smallest largest deviation",
    "l2": "answers of a histogram with the smallest squared deviation",
}


def _each_margin(task: Task, draft: Draft) -> tuple[NDArray[np.float64], float]:
    """Every margin by itself; returns the answers and the largest shift."""
    asked = shape.margins_of(task.queries)
    assert asked is not None
    values = np.empty_like(draft.counts)
    shifts = [0.0]
    for _, place, _ in asked:
        theta = simplex_shift(draft.counts[place], total=draft.size.divisor)
        np.maximum(draft.counts[place] - theta, 0.0, out=values[place])
        shifts.append(abs(theta))
    return values, max(shifts)


def _from_fit(
    task: Task, draft: Draft, fitted: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float] | None:
    """The histogram's answers, or None if they are so far from the measured ones that the bound would suffer."""
    mapped = histogram_map(task.queries)
    assert mapped is not None
    values = mapped.forward(fitted)
    moved = float(np.abs(values - np.clip(draft.counts, 0.0, draft.size.divisor)).max())
    return (values, moved) if moved <= draft.level + draft.drift else None


def _fit(task: Task, draft: Draft, way: str) -> NDArray[np.float64] | None:
    mapped = histogram_map(task.queries)
    if mapped is None:
        return None
    total = float(draft.size.divisor)
    if way == "lp":
        solved = fit_largest(mapped, draft.counts, total=total)
        if solved is not None:
            return solved[0]
    exact = shape.fits_exactly(task.queries)
    fit = fit_squares if exact else fit_entropic
    return fit(
        mapped, draft.counts, total=total, weights=draft.weights, rounds=shape.fit_rounds(task.queries)
    )


def _rows(
    task: Task, draft: Draft, fitted: NDArray[np.float64] | None, answers: Answers
) -> tuple[SmallDatabase | None, dict[str, Any]]:
    """Rows of the fitted histogram, and how far their answers lie from the released ones."""
    if fitted is None:
        return None, {}
    mapped = histogram_map(task.queries)
    assert mapped is not None
    return make_rows(task, fitted, draft.size, answers, mapped.forward)


def make_rows(
    task: Task,
    weights: NDArray[np.float64],
    size: Size,
    answers: Answers,
    evaluate: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> tuple[SmallDatabase, dict[str, Any]]:
    """Rows from weights by the rounding that stays closer to the released answers; both are free to try."""
    m = task.rows or min(size.divisor, MOST_ROWS)
    weights = allowed_only(task, weights)

    def gap(counts: NDArray[np.int64]) -> float:
        return float(np.abs(evaluate(counts.astype(float)) / m - answers.fractions).max())

    tried = [(gap(counts), counts) for counts in (systematic(weights, m), largest_remainder(weights, m))]
    counts = min(tried, key=lambda pair: pair[0])[1]
    made = database(task.queries.domain, task.queries.attributes, counts)
    return made, {"rows": m}


def allowed_only(task: Task, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights on cells, with nothing where a declared constraint forbids a record."""
    if not task.queries.domain.constraints:
        return weights
    from maquette.models import constraints

    attributes = task.queries.attributes
    cells = constraints.compile(task.queries.domain, attributes).on_cells(attributes)
    kept = np.where(cells, weights.reshape(cells.shape), 0.0)
    return (kept if (kept > 0).any() else cells.astype(np.float64)).reshape(weights.shape)


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
    answers, moved = forbidden.cleared(outcome.answers, queries)
    promised = outcome.guarantee
    return replace(
        outcome, answers=answers, guarantee=replace(promised, alpha=min(1.0, promised.alpha + moved))
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
        told = f"{merged.saved:,} of {len(merged.source):,} queries"
        notes = (
            *notes,
            f"{told} repeat another one, are its complement or count all records or none: not asked again",
        )
    return replace(
        outcome,
        answers=answers,
        deviations=None if deviations is None else merged.expand_errors(deviations),
        notes=notes,
        parameters=outcome.parameters | {"merged": merged.saved},
    )


# Rough time and memory, so that a plan can say "minutes, not hours". Rates measured on two shared cores.


COUNTED = 1e8
"""Cell increments per second while counting rows."""
DRAWN = 5e6
"""Noisy values per second: drawn, compressed and stored in the ledger."""
PASSED = 3e8
"""Elements per second of plain array passes."""
_PASSES = 25
_ARRAYS = 9
_LIBRARIES = 250


def seconds(task: Task, *, n: int, cells: int, tables: int) -> float:
    """Counting the tables, noise for the cells, and post-processing with a fit where there is one."""
    fit = 0.0
    if route(task) != "none" and shape.gives_rows(task.queries):
        fit = shape.fit_rounds(task.queries) * shape.fit_pass(task.queries) / PASSED
    return measuring(n=n, cells=cells, tables=tables, answers=cells) + fit


def measuring(*, n: int, cells: int, tables: int, answers: int) -> float:
    """Counting the tables, noise for the cells, a few passes over the answers."""
    return START_SECONDS + n * tables / COUNTED + cells / DRAWN + _PASSES * answers / PASSED


def megabytes(task: Task, *, cells: int) -> float:
    """The tables and answers at their peak, and the histogram where one is fitted."""
    fitted = shape.universe(task.queries) if shape.gives_rows(task.queries) else 0
    return holding(cells + fitted)


def holding(cells: int) -> float:
    """Megabytes for this many cells of eight bytes in every array that is held at once, and the libraries."""
    return _LIBRARIES + _ARRAYS * 8e-6 * cells
