"""`maquette claim`: errors of all thresholds on grids of 2^4 to 2^64 cells of a public table, as figures and a plot."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maquette.cli import console
from maquette.cli.options import Shown, grouped
from maquette.requests import Beta, Delta, Epsilon

if TYPE_CHECKING:
    from maquette.audit.claim import Point


def register(app: typer.Typer) -> None:
    app.command("claim")(grouped(claim))


@dataclass(frozen=True, kw_only=True)
class ColumnOfTable:
    """A column of numbers in a public table, and the grids that are laid over it."""

    source: Annotated[Path, typer.Argument(metavar="TABLE", help="A public table, as a CSV or Parquet file.")]
    column: Annotated[str, typer.Option("--column", help="A column of numbers.")]
    low: Annotated[float, typer.Option("--low", help="Where the grids begin.")]
    high: Annotated[float, typer.Option("--high", help="Where they end.")]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The budget and the confidence of the comparison."""

    epsilon: Epsilon = 1.0
    delta: Delta = 1e-9
    beta: Beta = 0.05


def claim(
    *,
    column: ColumnOfTable,
    at: Setting,
    plot: Annotated[Path | None, typer.Option(help="Draw it: .svg, .png, .html, .json.")] = None,
    shown: Shown,
) -> None:
    """Compare errors of all thresholds of a column on grids of 2^4 to 2^64 cells. NOT PRIVATE: for public tables.

    Independent Laplace noise and advanced composition as they state it, SmallDB as it states it and as it is, and
    what no private mechanism can fall below.

    \b
    Example:
      maquette claim census.csv --column weight --low 0 --high 2097152 --plot claim.svg
    """
    from maquette.audit import claim as subject

    if plot is not None:
        console.check_plot(plot)
    values = subject.read_column(column.source, column.column)
    with console.progress(quiet=shown.quiet) as tell:
        points = subject.claim(values, low=column.low, high=column.high, **asdict(at), progress=tell)
    if plot is not None:
        what = f"{column.column} in {column.source.name}"
        chart = subject.specification(
            points, records=len(values), epsilon=at.epsilon, delta=at.delta, what=what
        )
        console.write_plot(chart, plot, title="Errors of all thresholds on finer and finer grids")
    if shown.as_json:
        listed = [{name: _finite(value) for name, value in asdict(point).items()} for point in points]
        console.say_json({"warning": subject.WARNING, "records": len(values), "points": listed})
        return
    console.say(subject.WARNING)
    _say(points, beta=at.beta)
    if plot is not None:
        console.say(f"\nwrote {plot}")


def _say(points: tuple[Point, ...], *, beta: float) -> None:
    console.say(
        "Largest error over all thresholds in points (percent of all records), "
        f"except with probability {100 * beta:g} %"
    )
    console.table(
        (
            "thresholds",
            "Laplace",
            "composition",
            "SmallDB stated",
            "SmallDB true",
            "not below",
            "rows",
            "CPU s",
        ),
        [
            (
                f"2^{point.bits}",
                *(
                    _points(error)
                    for error in (point.laplace, point.composed, point.bound, point.true, point.lower)
                ),
                f"{point.rows:,}",
                f"{point.seconds:.1f}",
            )
            for point in points
        ],
        right=range(1, 8),
    )


def _finite(value: float) -> float | None:
    """For JSON, which has no infinity."""
    return value if math.isfinite(value) else None


def _points(error: float) -> str:
    return f"{100 * error:.3g}" if error <= 1 else "none"
