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
    "histogram-laplace": "#15803d",
    "gaussian": "#7c3aed",
    "histogram-gaussian": "#a16207",
}
NAMES = {
    "smalldb": "SmallDB",
    "laplace": "Laplace per query",
    "linf": "L-infinity noise",
    "histogram-laplace": "Laplace histogram",
    "gaussian": "Gaussian per query",
    "histogram-gaussian": "Gaussian histogram",
}
FLOOR = 1e-5
"""Errors below are not drawn."""


def check_place(path: Path) -> None:
    """Refuse a kind of file that cannot be written, before anything is computed."""
    if path.suffix not in KINDS:
        raise ParameterError(f"expected a plot file that ends in {', '.join(KINDS)}, got {path.name}")


def draw(setting: Setting, path: Path) -> None:
    """Write the plot in the form that the file's name asks for."""
    content = rendered(specification(setting), path.suffix)
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
    """Three panels of lines on logarithmic scales, the setting marked in each; 1 is no guarantee."""
    from maquette.theory.overview import curve, mechanisms

    shown = list(mechanisms(setting))
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
            "legend": {"labelFontSize": 12},
        },
    }


def _panel(axis: str, points: list[dict[str, Any]], here: float, shown: list[str]) -> dict[str, Any]:
    scale = {"domain": [NAMES[name] for name in shown], "range": [TONES[name] for name in shown]}
    values = [
        {"value": p["value"], "mechanism": NAMES[p["mechanism"]], "alpha": max(p["alpha"], FLOOR)}
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
    return {
        "width": 250,
        "height": 240,
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
                        "scale": scale,
                        "legend": {"title": None, "orient": "bottom", "columns": 3},
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
    size = setting.facts.universe
    told = [
        f"n = {setting.n:,}",
        f"epsilon = {setting.epsilon:g}",
        *([f"delta = {setting.delta:g}"] if setting.delta else []),
        f"|X| = {size:,}" if size < 10**7 else f"|X| = 2^{math.log2(size):.3g}",
        f"queries = e^{setting.facts.log_queries:.3g}"
        if setting.facts.log_queries > 30
        else f"queries = {math.exp(setting.facts.log_queries):,.0f}",
        f"except with probability {setting.beta:g}",
    ]
    return "; ".join(told)
