"""From noisy answers to a release: consistent answers, rows where they fit, and the error that is then true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.mechanisms import shape
from maquette.mechanisms.base import Guarantee, Outcome, Task
from maquette.models.answers import GRID, Answers, SmallDatabase
from maquette.models.fit import fit_entropic, fit_largest, fit_squares
from maquette.models.linear import histogram_map
from maquette.models.measurement import Size
from maquette.models.rows import database, largest_remainder, systematic
from maquette.models.simplex import simplex_shift
from maquette.theory import postprocess

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
            return postprocess.consistent(noise=level, drift=drift)
        case _:
            return postprocess.fitted(noise=level, drift=drift)


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
    error = postprocess.moved(noise=draft.level, shift=moved, drift=draft.drift)
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
