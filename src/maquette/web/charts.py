"""Charts as plain HTML and SVG, drawn on the server: a table of bars, a heat map, a line of steps.

A chart is a table first: a reader without eyes or without colours gets the same figures. No style is written into the
page, so that the content security policy can forbid it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

TONES = 5
"""Steps of colour in a heat map."""
WIDTH, HEIGHT = 640, 220
"""The plane on which lines are drawn; the page scales it."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: its label, what stands beside it, and its places on a scale from 0 to 100."""

    label: str
    text: str
    error: str
    length: float
    low: float | None
    high: float | None
    is_sure: bool


@dataclass(frozen=True, slots=True)
class HeatCell:
    """One cell of a heat map: its figure, its error, its step of colour."""

    text: str
    error: str
    tone: int
    is_sure: bool


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Two attributes, one down and one across."""

    down: str
    across: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[HeatCell, ...]], ...]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of steps on a plane of WIDTH by HEIGHT: places of its corners, and words for both ends of each axis."""

    points: str
    top: str
    first: str
    last: str


def bars(rows: Sequence[Mapping[str, Any]], name: str) -> list[Bar]:
    """The rows of a table over one attribute as bars; figures below zero start at zero."""
    ends = [row["value"] if row["upper"] is None else row["upper"] for row in rows]
    top = max((end for end in ends if end is not None), default=0.0) or 1.0
    return [
        Bar(
            label=str(row[name]),
            text=figure(row["value"]),
            error=error_text(row),
            length=_place(row["value"], top),
            low=None if row["lower"] is None else _place(row["lower"], top),
            high=None if row["upper"] is None else _place(row["upper"], top),
            is_sure=not row["below_noise"],
        )
        for row in rows
    ]


def heat_map(rows: Sequence[Mapping[str, Any]], down: str, across: str) -> HeatMap:
    """The rows of a table over two attributes as a map."""
    columns = tuple(dict.fromkeys(str(row[across]) for row in rows))
    lines = tuple(dict.fromkeys(str(row[down]) for row in rows))
    top = max((row["value"] for row in rows if row["value"] is not None), default=0.0) or 1.0
    cells = {(str(row[down]), str(row[across])): _heat_cell(row, top) for row in rows}
    empty = HeatCell("-", "", 0, False)
    return HeatMap(
        down,
        across,
        columns,
        tuple((line, tuple(cells.get((line, c), empty) for c in columns)) for line in lines),
    )


def steps(values: Sequence[float], *, top: float, first: str, last: str, top_text: str) -> Line:
    """Values over time as a line of steps that ends at the right."""
    shown = list(values) or [0.0]
    width = WIDTH / max(len(shown), 1)
    corners: list[tuple[float, float]] = []
    for i, value in enumerate(shown):
        y = HEIGHT * (1 - min(value / top if top > 0 else 0.0, 1.0))
        corners += [(i * width, y), ((i + 1) * width, y)]
    return Line(" ".join(f"{x:.1f},{y:.1f}" for x, y in corners), top_text, first, last)


def figure(value: float | None) -> str:
    """A figure for readers: whole from a thousand on, else four digits."""
    if value is None or not math.isfinite(value):
        return "not known"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def error_text(row: Mapping[str, Any]) -> str:
    """The stated error of a row, or that there is none."""
    return "no stated error" if row["error"] is None else f"± {figure(row['error'])}"


def _place(value: float | None, top: float) -> float:
    return 0.0 if value is None else round(100 * min(max(value / top, 0.0), 1.0), 2)


def _heat_cell(row: Mapping[str, Any], top: float) -> HeatCell:
    value = row["value"]
    tone = 0 if value is None else min(math.ceil(TONES * max(value, 0.0) / top), TONES)
    return HeatCell(figure(value), error_text(row), tone, not row["below_noise"])
