"""`maquette bound`: every bound on the error for given sizes, from public numbers only."""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maquette.cli import console, options
from maquette.errors import ParameterError

if TYPE_CHECKING:
    from maquette.theory.existence import Facts
    from maquette.theory.overview import Axis, Setting


def register(app: typer.Typer) -> None:
    app.command("bound")(bound)


def bound(
    n: Annotated[str, typer.Option("--n", help="Number of records of the table, a public figure.")],
    epsilon: options.Epsilon,
    delta: options.Delta = 0.0,
    beta: options.Beta = 0.05,
    relation: options.RelationName = "replace-one",
    universe: Annotated[str | None, typer.Option(help="|X|, such as 1000000, 1e6 or 2^24.")] = None,
    queries: Annotated[str | None, typer.Option(help="How many queries, such as 1e9.")] = None,
    vc: Annotated[int | None, typer.Option(help="VC dimension of the class, if known.")] = None,
    shape: Annotated[
        str | None, typer.Option(help="thresholds or intervals of one ordered attribute.")
    ] = None,
    domain: Annotated[
        Path | None, typer.Option("--domain", "-d", help="A domain file, with queries as in `plan`.")
    ] = None,
    marginals: options.MarginalOrders = None,
    prefixes: options.PrefixNames = None,
    ranges: options.RangeNames = None,
    where: options.Predicates = None,
    workload: options.WorkloadFile = None,
    alpha: Annotated[
        float | None, typer.Option(help="Also print how many records this largest error needs.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw error against n, epsilon and queries: .svg, .png, .html, .json.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Print every bound on the largest error over all queries: SmallDB, direct noise, textbooks, the lower bound.

    Give the sizes as numbers (--universe, --queries), or a domain file with queries. No table is opened.

    \b
    Example:
      maquette bound --universe 2^24 --queries 1e6 --n 100000 --epsilon 1 --plot bounds.svg
      maquette bound --universe 65536 --queries 65535 --shape thresholds --n 100000 --epsilon 1
      maquette bound --domain people.domain.json --prefixes age --n 20000 --epsilon 1
    """
    from maquette.domain import Domain, Relation
    from maquette.theory import overview

    between = Relation.named(relation)
    if plot is not None:
        check_place(plot)
    if domain is not None:
        if universe is not None or queries is not None or shape is not None:
            raise ParameterError("give either --domain with queries, or --universe and --queries, not both")
        class_of_queries = options.read_workload(
            Domain.load(domain),
            marginals=marginals,
            prefixes=prefixes,
            ranges=ranges,
            where=where,
            workload=workload,
        )
        from maquette.theory.existence import facts_of

        facts = facts_of(class_of_queries, vc=vc)
    else:
        facts = _facts(universe, queries, vc, shape)
    setting = overview.Setting(
        facts=facts,
        n=whole(n, "n"),
        epsilon=epsilon,
        delta=delta,
        beta=beta,
        relation=between,
    )
    _say(setting, alpha=alpha, plot=plot, as_json=as_json)


def whole(text: str, name: str) -> int:
    """A whole number as people write it: 1000000, 1_000_000, 1e6, 2^24."""
    tidy = text.strip().replace("_", "").replace(",", "").replace("**", "^")
    power = re.fullmatch(r"(\d{1,9})\^(\d{1,5})", tidy)
    if power is not None:
        return int(power[1]) ** int(power[2])
    scaled = re.fullmatch(r"(\d{1,9})(?:\.(\d{1,9}))?[eE]\+?(\d{1,4})", tidy)
    if scaled is not None and int(scaled[3]) >= len(scaled[2] or ""):
        decimals = scaled[2] or ""
        return int(scaled[1] + decimals) * 10 ** (int(scaled[3]) - len(decimals))
    if re.fullmatch(r"\d{1,4000}", tidy):
        return int(tidy)
    raise ParameterError(f"expected {name} to be a whole number such as 1000000, 1e6 or 2^24, got {text!r}")


def _facts(universe: str | None, queries: str | None, vc: int | None, shape: str | None) -> Facts:
    from maquette.theory.existence import Facts

    if universe is None or queries is None:
        raise ParameterError("a bound needs --universe and --queries, or --domain with queries")
    count = whole(queries, "queries")
    if count < 1:
        raise ParameterError("expected at least one query, got queries=0")
    return Facts(
        universe=whole(universe, "universe"),
        log_queries=math.log(count),
        vc=vc,
        shape=shape,  # pyright: ignore[reportArgumentType]
    )


def _say(setting: Setting, *, alpha: float | None, plot: Path | None, as_json: bool) -> None:
    from maquette.theory import overview

    lines = overview.bounds(setting)
    needed = {} if alpha is None else overview.records(setting, alpha=alpha)
    if plot is not None:
        draw(setting, plot)
    if as_json:
        document: dict[str, Any] = {"bounds": [asdict(line) for line in lines]}
        if alpha is not None:
            document |= {"alpha": alpha, "rows_needed": needed}
        console.say_json(document | ({"plot": str(plot)} if plot is not None else {}))
        return
    console.say(
        f"Largest error over all queries in percentage points, except with probability {100 * setting.beta:g} %"
    )
    console.table(
        ["", "bound", "error", "m", "remark"],
        [
            [
                line.group if line.group != lines[i - 1].group or i == 0 else "",
                line.name,
                _error(line.alpha, in_counts=line.in_counts),
                "" if line.rows is None else f"{line.rows:,}",
                line.remark,
            ]
            for i, line in enumerate(lines)
        ],
        right=(2, 3),
    )
    if alpha is not None:
        console.say(f"\nRows needed for an error of {100 * alpha:g} percentage points")
        shown = {name: "none suffices" if n is None else f"{n:,}" for name, n in needed.items()}
        console.facts(shown)
    if plot is not None:
        console.say(f"\nwrote {plot}")


def _error(alpha: float, *, in_counts: bool) -> str:
    if in_counts:
        return f"{alpha:,.0f} rows"
    return f"{100 * alpha:.4g}" if alpha < 1 else "none"


# The plot of `maquette bound`: guaranteed error against n, epsilon and the number of queries.

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
    parts = [
        f"n = {setting.n:,}",
        f"epsilon = {setting.epsilon:g}",
        *([f"delta = {setting.delta:g}"] if setting.delta else []),
        f"|X| = {size:,}" if size < 10**7 else f"|X| = 2^{math.log2(size):.3g}",
        f"queries = e^{setting.facts.log_queries:.3g}"
        if setting.facts.log_queries > 30
        else f"queries = {math.exp(setting.facts.log_queries):,.0f}",
        f"except with probability {setting.beta:g}",
    ]
    return "; ".join(parts)
