"""The page of an evaluation: the report's looks, and the warning on every screen of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maquette.release import plots, words
from maquette.release.page import template

if TYPE_CHECKING:
    from maquette.release.evaluation import Evaluation

ANSWERS, ROWS, STATED = "answers", "rows", "stated for all at once"
MOST_GROUPS = 16


def render(evaluation: Evaluation) -> str:
    """The whole page as text."""
    page = template("evaluation.html.j2").render(
        evaluation=evaluation,
        words=words,
        largest=_plot(evaluation, "largest"),
        mean=_plot(evaluation, "mean"),
    )
    return page.lstrip()


def _plot(evaluation: Evaluation, figure: str) -> str | None:
    """One line per group, in percentage points; errors of zero cannot stand on a logarithmic scale."""
    marks: list[plots.Mark] = []
    for group in evaluation.groups[:MOST_GROUPS]:
        found = [(ANSWERS, getattr(group.answers, figure))]
        if group.rows is not None:
            found.append((ROWS, getattr(group.rows, figure)))
        if figure == "largest":
            found.append((STATED, group.stated))
        marks += [plots.Mark(group.name, word, 100 * value) for word, value in found if value]
    if not marks:
        return None
    told = [word for word in (ANSWERS, ROWS, STATED) if any(mark.statement == word for mark in marks)]
    label = "; ".join(f"{m.group}: {m.statement} {m.points:.3g} percentage points" for m in marks)
    name = "Largest" if figure == "largest" else "Mean absolute"
    return plots.errors(marks, told, label=f"Not private. {name} true error per group. {label}")
