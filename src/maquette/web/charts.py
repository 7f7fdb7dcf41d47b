"""Charts as plain HTML and SVG, drawn on the server: bars, heat maps, small multiples, a line of steps.

A chart is a table first: a reader without eyes or without colours gets the same figures and errors. Bars and cells are
links to what lies behind them. No style is written into the page, so that the content security policy can forbid it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from maquette.domain import Attribute
from maquette.results import wording
from maquette.results.pairs import CrossTable
from maquette.web import plain
from maquette.web.plain import Said

TONES = 5
"""Steps of colour in a heat map."""
WIDTH, HEIGHT = 640, 220
"""The plane on which lines are drawn; the page scales it."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A bar, or a cell of a map: whose it is, its figure and error, where it leads, and its place on a scale to 100."""

    label: str
    said: Said
    href: str | None
    length: float
    low: float | None
    high: float | None
    is_sure: bool

    @property
    def tone(self) -> int:
        """The step of colour in a map."""
        return min(math.ceil(TONES * self.length / 100), TONES)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of steps on a plane of WIDTH by HEIGHT: places of its corners, and words for both ends of each axis."""

    points: str
    top: str
    first: str
    last: str


Link = Callable[[tuple[int, ...]], "str | None"]
"""Where a mark leads, by the codes of its cells."""


@dataclass(frozen=True, slots=True)
class Chart:
    """What the marks of one table have in common."""

    figure: str
    top: float
    """The end of the scale."""
    cells: Mapping[str, Mapping[str, tuple[int, str]]]
    """By attribute and the text of a cell in a table: its code, and how people say it."""
    link: Link

    @classmethod
    def of(
        cls, rows: Sequence[Mapping[str, Any]], attributes: Sequence[Attribute], figure: str, link: Link
    ) -> Chart:
        """With room for all errors."""
        ends = [row["value"] if row["upper"] is None else row["upper"] for row in rows]
        cells = {
            a.name: {a.label(code): (code, plain.cell(a, code)) for code in range(a.size)} for a in attributes
        }
        return cls(figure, max((end for end in ends if end is not None), default=0.0) or 1.0, cells, link)

    def bars(self, rows: Sequence[Mapping[str, Any]], name: str) -> list[Mark]:
        """The rows of a table over one attribute; figures below zero start at zero."""
        return [self.mark(row, name, (name,)) for row in rows]

    def heat_map(self, rows: Sequence[Mapping[str, Any]], down: str, across: str) -> CrossTable[Mark]:
        """The rows of a table over two attributes as a map."""
        columns, lines = (tuple(dict.fromkeys(self._said(row, n) for row in rows)) for n in (across, down))
        cells = {
            (self._said(row, down), self._said(row, across)): self.mark(row, across, (down, across))
            for row in rows
        }
        empty = Mark("", Said("-", ""), None, 0.0, None, None, False)
        table = tuple((line, tuple(cells.get((line, c), empty) for c in columns)) for line in lines)
        return CrossTable(down, across, columns, table)

    def multiples(
        self, rows: Sequence[Mapping[str, Any]], name: str, panel: str
    ) -> list[tuple[str, list[Mark]]]:
        """Bars over one attribute for each cell of another, all on one scale."""
        panels: dict[str, list[Mark]] = {}
        for row in rows:
            panels.setdefault(self._said(row, panel), []).append(self.mark(row, name, (name, panel)))
        return list(panels.items())

    def mark(self, row: Mapping[str, Any], name: str, names: tuple[str, ...]) -> Mark:
        codes = tuple(self.cells[n].get(str(row[n]), (-1, ""))[0] for n in names)
        return Mark(
            label=self._said(row, name),
            said=plain.figure(self.figure, row["value"], row["error"]),
            href=None if -1 in codes else self.link(codes),
            length=_place(row["value"], self.top),
            low=None if row["lower"] is None else _place(row["lower"], self.top),
            high=None if row["upper"] is None else _place(row["upper"], self.top),
            is_sure=not row["below_noise"],
        )

    def _said(self, row: Mapping[str, Any], name: str) -> str:
        text = str(row[name])
        return self.cells[name].get(text, (-1, text))[1]


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


def _place(value: float | None, top: float) -> float:
    return 0.0 if value is None else round(100 * min(max(value / top, 0.0), 1.0), 2)
