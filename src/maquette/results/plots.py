"""The plots of a report: Vega-Lite specifications, drawn to SVG that takes its colours from the page."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.util import find_spec
from typing import Any

from maquette.errors import ParameterError

INK = "currentColor"
QUIET = "var(--quiet)"
GRID = "var(--line)"
BAR = "var(--bar)"
TONES = ("var(--tone-1)", "var(--tone-2)", "var(--tone-3)", "var(--tone-4)", "var(--tone-5)", "var(--tone-6)")
FONT = "Arial, Helvetica, Liberation Sans, sans-serif"
"""Widths are laid out before the reader's machine is known: a family with the same widths nearly everywhere."""
SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
WIDE = 740
"""Width of a plot that takes the whole page, in pixels, without its labels."""
LABELS = 118
"""Room for the labels of a small plot, the same in all of them."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One stated error of one group of queries, in points (percent of all records)."""

    group: str
    statement: str
    points: float


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a marginal, in per cent, with its interval where one is proved."""

    label: str
    value: float
    low: float | None
    high: float | None


def errors(marks: Sequence[Mark], statements: Sequence[str], *, label: str) -> str:
    """Error per group of queries: one line per group, one sign per statement, on a logarithmic scale."""
    shapes = ["square", "circle", "triangle-up"]
    tones = [TONES[0], TONES[1], TONES[2]]
    groups = list(dict.fromkeys(mark.group for mark in marks))
    scale = {"domain": list(statements), "range": tones[: len(statements)]}
    spec = {
        "data": {"values": [{"group": m.group, "statement": m.statement, "points": m.points} for m in marks]},
        "width": WIDE,
        "height": {"step": 44},
        "encoding": {
            "y": {"field": "group", "type": "nominal", "sort": groups, "title": None},
            "x": {
                "field": "points",
                "type": "quantitative",
                "scale": {"type": "log", "nice": False, "padding": 24},
                "title": "error in points (percent of all records, logarithmic scale)",
                "axis": {"format": ".4~g", "tickCount": 5},
            },
        },
        "layer": [
            {
                "mark": {"type": "rule", "strokeWidth": 2, "color": GRID},
                "encoding": {
                    "x": {"aggregate": "min", "field": "points"},
                    "x2": {"aggregate": "max", "field": "points"},
                },
            },
            {
                "mark": {"type": "point", "filled": True, "size": 150, "opacity": 1},
                "encoding": {
                    "color": {
                        "field": "statement",
                        "type": "nominal",
                        "scale": scale,
                        "legend": {
                            "title": None,
                            "orient": "top",
                            "symbolSize": 130,
                            "symbolOpacity": 1,
                            "columnPadding": 48,
                        },
                    },
                    "shape": {
                        "field": "statement",
                        "type": "nominal",
                        "scale": {"domain": list(statements), "range": shapes[: len(statements)]},
                    },
                },
            },
        ],
    }
    return _draw(spec, label)


def marginal(bars: Sequence[Bar], *, label: str) -> str:
    """The shares of one attribute as horizontal bars, with whiskers where an error is proved."""
    return _draw(marginal_spec(bars, width=150), label)


def marginal_spec(bars: Sequence[Bar], *, width: int) -> dict[str, Any]:
    """The same as a specification, in the colours of a page."""
    values = [{"label": b.label, "value": b.value, "low": b.low, "high": b.high} for b in bars]
    order = [bar.label for bar in bars]
    top = max((bar.value if bar.high is None else bar.high for bar in bars), default=1.0)
    spec: dict[str, Any] = {
        "data": {"values": values},
        "width": width,
        "height": {"step": 19},
        "encoding": {
            "y": {
                "field": "label",
                "type": "nominal",
                "sort": order,
                "title": None,
                "axis": {
                    "ticks": False,
                    "domain": False,
                    "labelLimit": LABELS - 8,
                    "labelPadding": 6,
                    "minExtent": LABELS,
                    "maxExtent": LABELS,
                },
            },
            "x": {
                "type": "quantitative",
                "title": None,
                "scale": {"domain": [0, max(top, 1e-6) * 1.02], "nice": False},
                "axis": {
                    "format": ".4~g",
                    "labelExpr": "datum.value ? datum.label + ' %' : '0'",
                    "values": ticks(top),
                },
            },
        },
        "layer": [
            {
                "mark": {"type": "bar", "color": BAR, "height": 13, "cornerRadiusEnd": 2},
                "encoding": {"x": {"field": "value"}},
            }
        ],
    }
    if any(bar.low is not None for bar in bars):
        ends = {"x": {"field": "low"}, "x2": {"field": "high"}}
        spec["layer"] += [
            {"mark": {"type": "rule", "color": INK, "strokeWidth": 1.2}, "encoding": ends},
            *[
                {
                    "mark": {"type": "tick", "color": INK, "thickness": 1.2, "height": 7},
                    "encoding": {"x": {"field": end}},
                }
                for end in ("low", "high")
            ],
        ]
    return spec


def ticks(top: float) -> list[float]:
    """Zero and up to three round numbers not above the top, so that labels keep apart."""
    if not top > 0:
        return [0.0]
    unit = 10.0 ** math.floor(math.log10(top))
    step = next(unit * k for k in (0.5, 1, 2, 5) if top / (unit * k) < 4)
    return [round(i * step, 12) for i in range(math.floor(top / step) + 1)]


def _draw(spec: dict[str, Any], label: str) -> str:
    """As SVG for a page, or in words where nothing is installed that draws."""
    if not can_draw():
        return f'<p class="quiet">{escape(label)}. Pictures need the extra maquette-dp[plots].</p>'
    return _responsive(drawing().vegalite_to_svg(whole_spec(spec)), label)


def can_draw() -> bool:
    """Is the library there that draws?"""
    return find_spec("vl_convert") is not None


def drawing() -> Any:
    """The library that draws, of the extra `plots`."""
    try:
        import vl_convert
    except ImportError:
        raise ParameterError(
            "drawing needs the extra maquette-dp[plots]: pip install 'maquette-dp[plots]'"
        ) from None
    return vl_convert


def whole_spec(spec: dict[str, Any]) -> dict[str, Any]:
    """With the version of the language and the look that all plots share."""
    return {"$schema": SCHEMA, "config": _config(), **spec}


def _config() -> dict[str, Any]:
    return {
        "background": None,
        "font": FONT,
        "view": {"stroke": None},
        "axis": {
            "labelColor": INK,
            "titleColor": QUIET,
            "titleFontWeight": "normal",
            "titleFontSize": 12,
            "labelFontSize": 12,
            "gridColor": GRID,
            "domainColor": GRID,
            "tickColor": GRID,
            "titlePadding": 10,
        },
        "legend": {"labelColor": INK, "labelFontSize": 12, "titleColor": QUIET},
    }


def _responsive(svg: str, label: str) -> str:
    """Scales with the page, and says in one sentence what it shows: single marks need no labels of their own."""
    svg = re.sub(r' (?:role|aria-[a-z]+|xmlns(?::\w+)?)="[^"]*"', "", svg)
    size = re.search(r'width="([\d.]+)" height="([\d.]+)"', svg)
    assert size is not None
    opening = f'role="img" aria-label="{escape(label)}" style="max-width:{size[1]}px"'
    return svg.replace(size[0], opening, 1)
