"""The plot of `maquette bound`: guaranteed error against n, epsilon and the number of queries."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maquette.errors import ParameterError

if TYPE_CHECKING:
    from maquette.theory.overview import Axis, Setting

KINDS = (".svg", ".png", ".html", ".json")
TITLES = {"n": "rows of the table", "epsilon": "epsilon", "queries": "queries"}
TONES = {
    "smalldb": "#c2410c",
    "laplace": "#1d4ed8",
    "linf": "#0891b2",
    "k-norm": "#0e7490",
    "histogram-laplace": "#15803d",
    "tree": "#4d7c0f",
    "advanced-composition": "#6366f1",
    "gaussian": "#7c3aed",
    "histogram-gaussian": "#a16207",
    "mw": "#be123c",
    "mwem": "#db2777",
    "pmw": "#111827",
    "median": "#6b7280",
    "roth": "#fb923c",
}
DASHED = ("k-norm", "advanced-composition", "mwem", "median", "roth")
"""Lines that lie on or near another one."""
FLOOR = 1e-5
"""Errors below are not drawn."""


def check_place(path: Path) -> None:
    """Refuse a kind of file that cannot be written, before anything is computed."""
    if path.suffix not in KINDS:
        raise ParameterError(f"expected a plot file that ends in {', '.join(KINDS)}, got {path.name}")


def draw(setting: Setting, path: Path) -> None:
    """Write the plot in the form that the file's name asks for."""
    write(specification(setting), path)


def write(spec: dict[str, Any], path: Path) -> None:
    """A specification as a file of the kind that its name says."""
    content = rendered(spec, path.suffix)
    try:
        path.write_bytes(content)
    except OSError as error:
        raise ParameterError(f"cannot write the plot to {path}: {error.strerror}") from None


def rendered(spec: dict[str, Any], kind: str) -> bytes:
    """A specification as the contents of a file of this kind."""
    import vl_convert

    match kind:
        case ".svg":
            return vl_convert.vegalite_to_svg(spec).encode()
        case ".png":
            return vl_convert.vegalite_to_png(spec, scale=2)
        case ".html":
            return vl_convert.vegalite_to_html(spec, bundle=True).encode()
        case _:
            return json.dumps(spec, indent=1).encode()


def specification(setting: Setting) -> dict[str, Any]:
    """Panels of lines on logarithmic scales, the setting marked in each; 1 is no guarantee.

    The legend is one column to the right of the last panel, where it meets neither an axis nor a title.
    """
    from maquette.theory.guarantees import guarantee
    from maquette.theory.overview import curve, mechanisms

    shown = {name: guarantee(name).title for name in mechanisms(setting)}
    axes: list[Axis] = ["n", "epsilon"]
    if setting.facts.log_queries < 500:
        axes.append("queries")
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "title": {
            "text": "Guaranteed largest error over all queries",
            "subtitle": _subtitle(setting),
            "anchor": "start",
        },
        "hconcat": [_panel(axis, curve(setting, axis), _here(setting, axis), shown) for axis in axes],
        "config": {
            "font": "system-ui, sans-serif",
            "background": "white",
            "view": {"stroke": None},
            "axis": {"gridColor": "#e5e7eb", "labelFontSize": 11, "titleFontSize": 12},
            "title": {"fontSize": 15, "subtitleFontSize": 12, "subtitleColor": "#4b5563"},
            "legend": {"labelFontSize": 12, "orient": "right", "labelLimit": 240, "symbolSize": 300},
        },
    }


def _panel(axis: str, points: list[dict[str, Any]], here: float, shown: dict[str, str]) -> dict[str, Any]:
    values = [
        {"value": p["value"], "mechanism": shown[p["mechanism"]], "alpha": max(p["alpha"], FLOOR)}
        for p in points
        if p["alpha"] <= 1
    ]
    x = {
        "field": "value",
        "type": "quantitative",
        "scale": {"type": "log", "nice": False},
        "title": TITLES[axis],
        "axis": {"format": "~s" if axis != "epsilon" else "~g", "tickCount": 4, "grid": False},
    }
    y = {
        "field": "alpha",
        "type": "quantitative",
        "scale": {"type": "log", "domain": [FLOOR * 10, 1], "clamp": True},
        "title": "error (share of the rows)" if axis == "n" else None,
        "axis": {"format": ".4~g", "tickCount": 5},
    }
    names = list(shown.values())
    colours = {"domain": names, "range": [TONES[name] for name in shown]}
    dashes = {"domain": names, "range": [[5, 3] if name in DASHED else [1, 0] for name in shown]}
    legend = {"title": None, "columns": 1}
    return {
        "width": 250,
        "height": 260,
        "layer": [
            {
                "data": {"values": [{"value": here}]},
                "mark": {"type": "rule", "color": "#9ca3af", "strokeDash": [4, 3]},
                "encoding": {"x": x},
            },
            {
                "data": {"values": values},
                "mark": {"type": "line", "strokeWidth": 2.2, "interpolate": "monotone"},
                "encoding": {
                    "x": x,
                    "y": y,
                    "color": {
                        "field": "mechanism",
                        "type": "nominal",
                        "scale": colours,
                        "legend": legend,
                    },
                    "strokeDash": {
                        "field": "mechanism",
                        "type": "nominal",
                        "scale": dashes,
                        "legend": legend,
                    },
                },
            },
        ],
    }


def _here(setting: Setting, axis: str) -> float:
    if axis == "queries":
        return math.exp(setting.facts.log_queries)
    return float(setting.n if axis == "n" else setting.epsilon)


def _subtitle(setting: Setting) -> str:
    size, log_queries = setting.facts.universe, setting.facts.log_queries
    endless = "without end" if math.isinf(log_queries) else f"e^{log_queries:.3g}"
    parts = [
        f"n = {setting.n:,}",
        f"epsilon = {setting.epsilon:g}",
        *([f"delta = {setting.delta:g}"] if setting.delta else []),
        f"|X| = {size:,}" if size < 10**7 else f"|X| = 2^{math.log2(size):.3g}",
        f"queries = {endless}" if log_queries > 30 else f"queries = {math.exp(log_queries):,.0f}",
        *([f"VC dimension {setting.facts.vc}"] if setting.facts.vc is not None else []),
        f"except with probability {setting.beta:g}",
    ]
    return "; ".join(parts)
