"""Charts as plain HTML and SVG, drawn on the server: a table of bars, a heat map, a line of steps.

A chart is a table first: a reader without eyes or without colours gets the same figures. No style is written into the
page, so that the content security policy can forbid it. Where scripts run, `specification` is drawn by Vega-Lite in
place of bars and heat maps, and says the error of whatever is below the pointer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from maquette.results import wording
from maquette.results.pairs import CrossTable

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
class ShadedCell:
    """One cell of a heat map: its figure, its error, its step of colour."""

    text: str
    error: str
    tone: int
    is_sure: bool


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


def heat_map(rows: Sequence[Mapping[str, Any]], down: str, across: str) -> CrossTable[ShadedCell]:
    """The rows of a table over two attributes as a map."""
    columns = tuple(dict.fromkeys(str(row[across]) for row in rows))
    lines = tuple(dict.fromkeys(str(row[down]) for row in rows))
    top = max((row["value"] for row in rows if row["value"] is not None), default=0.0) or 1.0
    cells = {(str(row[down]), str(row[across])): _heat_cell(row, top) for row in rows}
    empty = ShadedCell("-", "", 0, False)
    return CrossTable(
        down,
        across,
        columns,
        tuple((line, tuple(cells.get((line, c), empty) for c in columns)) for line in lines),
    )


def specification(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], figure_name: str
) -> dict[str, Any]:
    """Bars with their stated errors over one attribute, or a heat map over two, in the language of Vega-Lite.

    Names and values of a table are data and titles here, never names of fields or expressions.
    """
    parts = ("down", "across")[: len(names)]
    tooltip = [{"field": part, "title": name} for part, name in zip(parts, names, strict=True)]
    tooltip += [
        {"field": field, "title": title}
        for field, title in (
            ("text", figure_name),
            ("error", "stated error"),
            ("between", "between"),
            ("known_by", "known by"),
        )
    ]
    values = [
        {part: str(row[name]) for part, name in zip(parts, names, strict=True)}
        | {name: _finite(row[name]) for name in ("value", "lower", "upper")}
        | {"text": figure(row["value"]), "error": error_text(row), "known_by": str(row["known_by"])}
        | {"between": _between(row), "is_sure": not row["below_noise"]}
        for row in rows
    ]
    down = {"field": "down", "type": "nominal", "sort": None, "title": names[0]}
    sure = {"condition": {"test": "datum.is_sure", "value": 1}, "value": 0.45}
    whole = {
        "description": f"{figure_name} by {' and '.join(names)}",
        "data": {"values": values},
        "height": {"step": 26},
    }
    if len(names) == 2:
        across = {"field": "across", "type": "nominal", "sort": None, "title": names[1]}
        colour = {"field": "value", "type": "quantitative", "title": figure_name}
        return whole | {
            "encoding": {"y": down, "x": across, "tooltip": tooltip},
            "layer": [
                {"mark": "rect", "encoding": {"color": colour, "opacity": sure}},
                {"name": "figures", "mark": "text", "encoding": {"text": {"field": "text"}}},
            ],
        }
    length = {"field": "value", "type": "quantitative", "title": figure_name, "axis": {"grid": False}}
    ends = {"x": length | {"field": "lower"}, "x2": {"field": "upper"}}
    return whole | {
        "encoding": {"y": down, "tooltip": tooltip},
        "layer": [
            {"mark": "bar", "encoding": {"x": length, "opacity": sure}},
            {"mark": "rule", "encoding": ends},
            {"mark": {"type": "tick", "size": 9}, "encoding": {"x": length | {"field": "lower"}}},
            {"mark": {"type": "tick", "size": 9}, "encoding": {"x": length | {"field": "upper"}}},
        ],
    }


def _finite(value: Any) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _between(row: Mapping[str, Any]) -> str:
    if row["lower"] is None or row["upper"] is None:
        return "not known"
    return f"{figure(row['lower'])} and {figure(row['upper'])}"


def steps(values: Sequence[float], *, top: float, first: str, last: str, top_text: str) -> Line:
    """Values over time as a line of steps that ends at the right."""
    shown = list(values) or [0.0]
    width = WIDTH / max(len(shown), 1)
    corners: list[tuple[float, float]] = []
    for i, value in enumerate(shown):
        y = HEIGHT * (1 - min(value / top if top > 0 else 0.0, 1.0))
        corners += [(i * width, y), ((i + 1) * width, y)]
    return Line(" ".join(f"{x:.1f},{y:.1f}" for x, y in corners), top_text, first, last)


@dataclass(frozen=True, slots=True)
class Curve:
    """Errors over epsilon on a plane of WIDTH by HEIGHT, both axes logarithmic: places of points, words for ends."""

    expected: str
    certified: str
    marks: tuple[tuple[float, float | None, float | None], ...]
    """The places of each point: across, and down for the expected and the certified error."""
    top: str
    bottom: str


def curve(points: Sequence[tuple[float, float | None, float | None]]) -> Curve | None:
    """(epsilon, expected error, certified error) as two lines; None where there is nothing to draw."""
    errors = [one for _, *pair in points for one in pair if one is not None and 0 < one < 1]
    if len(points) < 2 or not errors:
        return None
    across, up = scale([epsilon for epsilon, *_ in points]), scale(errors)

    def down(error: float | None) -> float | None:
        return None if error is None or not 0 < error < 1 else round(HEIGHT * (1 - up(error)), 1)

    marks = tuple(
        (round(WIDTH * across(epsilon), 1), down(first), down(last)) for epsilon, first, last in points
    )
    lines = [" ".join(f"{one[0]},{one[i]}" for one in marks if one[i] is not None) for i in (1, 2)]
    return Curve(lines[0], lines[1], marks, wording.points(max(errors)), wording.points(min(errors)))


def scale(values: Sequence[float]) -> Callable[[float], float]:
    """From positive values to places between 0.02 and 0.98 by their logarithms."""
    low, high = min(values), max(values)
    width = math.log(high / low) or 1.0
    return lambda value: 0.02 + 0.96 * min(max(math.log(value / low) / width, 0.0), 1.0)


@dataclass(frozen=True, slots=True)
class Span:
    """From the expected to the guaranteed error, on a scale from 0 to 100."""

    expected: float
    guaranteed: float | None


def spans(pairs: Sequence[tuple[float | None, float | None]]) -> list[Span | None]:
    """Pairs of expected and guaranteed errors on one logarithmic scale; None where no error is expected."""
    errors = [one for pair in pairs for one in pair if one is not None and 0 < one < 1]
    if not errors:
        return [None] * len(pairs)
    across = scale(errors)
    return [
        None
        if expected is None or not 0 < expected < 1
        else Span(
            round(100 * across(expected), 2),
            None if not guaranteed or guaranteed >= 1 else round(100 * across(guaranteed), 2),
        )
        for expected, guaranteed in pairs
    ]


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


def _heat_cell(row: Mapping[str, Any], top: float) -> ShadedCell:
    value = row["value"]
    tone = 0 if value is None else min(math.ceil(TONES * max(value, 0.0) / top), TONES)
    return ShadedCell(figure(value), error_text(row), tone, not row["below_noise"])
