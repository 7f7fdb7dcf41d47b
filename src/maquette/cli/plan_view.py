"""A plan in the terminal: what will be used is marked, and what cannot be used is folded away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maquette.cli import console

if TYPE_CHECKING:
    from maquette.mechanisms.base import ClassForecast, Forecast
    from maquette.queries.base import Queries
    from maquette.releasing.ranking import Plan

MARK = "→"
"""Beside the mechanism that a release takes by itself."""
_HEAD = ("", "mechanism", "guaranteed", "expected", "stated by", "time", "memory", "rows", "remark")


def say_plan(plan: Plan, queries: Queries, *, every: bool) -> None:
    """The mechanisms that can do it, best guarantee first, errors in points; refusals with `every`."""
    from maquette.releasing.ranking import preferred
    from maquette.results import wording

    able = [forecast for forecast in plan.forecasts if forecast.refusal is None]
    refused = [forecast for forecast in plan.forecasts if forecast.refusal is not None]
    chosen = preferred(plan, queries) if able else None
    budget = wording.budget(plan.epsilon, plan.delta)
    persons = f", {plan.rows_per_person} records per person" if plan.rows_per_person > 1 else ""
    console.say(f"Plan for {plan.workload}: n = {plan.n:,}, {budget}, {plan.relation} neighbours{persons}")
    if able:
        rows = [_cells(one, is_chosen=one.mechanism == chosen) for one in able]
        console.table(_HEAD, rows, right=(2, 3, 5, 6))
        console.say(
            f"{MARK} is what a release uses unless you name another. Errors are the largest over all queries, in "
            "points (percent of all records): "
            f"guaranteed except with probability {wording.chance(plan.beta)}; expected is typical, and no promise."
        )
    for one in able:
        if one.mechanism == chosen and one.classes:
            console.say(f"It would certify besides, expected: {'; '.join(map(_class, one.classes))}.")
    if every or not able:
        for one in refused:
            console.say(f"  {one.mechanism} cannot do this: {one.refusal}")
    elif refused:
        names = ", ".join(one.mechanism for one in refused)
        console.say(f"Not for this workload and budget: {names}; --all says why.")


def _cells(forecast: Forecast, *, is_chosen: bool) -> tuple[str, ...]:
    return (
        MARK if is_chosen else "",
        forecast.mechanism,
        _points(forecast.guaranteed),
        _points(forecast.expected),
        forecast.stated or "-",
        "< 1 s" if forecast.seconds < 1 else console.duration(forecast.seconds),
        f"{forecast.megabytes:,.0f} MB",
        "yes" if forecast.gives_rows else "answers only",
        forecast.notes[0] if forecast.notes else "",
    )


def _class(one: ClassForecast) -> str:
    """A class of questions with the bound that it is expected to have."""
    return one.says if one.expected is None else f"{one.says} within {_points(one.expected)} points"


def _points(error: float | None) -> str:
    if error is None:
        return "-"
    return "none" if error >= 1 else f"{100 * error:.2g}"
