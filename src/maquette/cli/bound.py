"""`maquette bound`: every bound on the error for sizes_by_hand sizes, from public numbers only."""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maquette.cli import console, options
from maquette.errors import ParameterError
from maquette.requests import Beta, Delta, Epsilon, RelationWord, WorkloadWords

if TYPE_CHECKING:
    from maquette.theory.existence import Facts
    from maquette.theory.overview import Axis, Needs, Setting


def register(app: typer.Typer) -> None:
    app.command("bound")(options.grouped(bound))


@dataclass(frozen=True, kw_only=True)
class PublicSetting:
    """The number of records, the budget and the confidence."""

    n: Annotated[str, typer.Option("--n", help="Number of records of the table, a public figure.")]
    epsilon: Epsilon
    delta: Delta = 0.0
    beta: Beta = 0.05
    relation: RelationWord = "replace-one"


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The sizes that decide the bounds, where no domain file says them."""

    universe: Annotated[str | None, typer.Option(help="|X|, such as 1000000, 1e6 or 2^24.")] = None
    queries: Annotated[
        str | None, typer.Option(help="How many queries, such as 1e9; inf for a class without end.")
    ] = None
    vc: Annotated[int | None, typer.Option(help="VC dimension of the class, if known.")] = None
    fat: Annotated[
        int | None, typer.Option(help="Fat-shattering dimension of a class of real weights, with --gamma.")
    ] = None
    gamma: Annotated[str | None, typer.Option(help="The margin of --fat, such as 1/100.")] = None
    shape: Annotated[str | None, typer.Option(help="thresholds or intervals of one ordered attribute.")] = (
        None
    )
    span: Annotated[
        float | None, typer.Option(help="D: the largest difference of one query's weights, 1 if absent.")
    ] = None


def bound(
    *,
    setting: PublicSetting,
    sizes: Sizes,
    domain: Annotated[
        Path | None, typer.Option("--domain", "-d", help="A domain file, with queries as in `plan`.")
    ] = None,
    workload: WorkloadWords,
    alpha: Annotated[
        float | None,
        typer.Option(help="Also print how many records, which epsilon, how many queries this error allows."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw error against n, epsilon and queries: .svg, .png, .html, .json.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Print every proved bound on the largest error over all queries: SmallDB, noise, multiplicative weights, online.

    Give the sizes as numbers (--universe, --queries), or a domain file with queries. A class without end needs its VC
    or fat-shattering dimension instead of a number of queries. No table is opened.

    \b
    Example:
      maquette bound --universe 2^24 --queries 1e6 --n 100000 --epsilon 1 --plot bounds.svg
      maquette bound --universe 2^1000 --queries inf --vc 10 --n 1e9 --epsilon 1 --alpha 0.1
      maquette bound --universe 65536 --queries 65535 --shape thresholds --n 100000 --epsilon 1
      maquette bound --domain people.domain.json --prefixes age --n 20000 --epsilon 1
    """
    from maquette.domain import Domain, Relation
    from maquette.theory import overview

    between = Relation.named(setting.relation)
    shattered = _fat(sizes.fat, sizes.gamma)
    if plot is not None:
        console.check_plot(plot)
    if domain is not None:
        sizes_by_hand = sizes.universe, sizes.queries, sizes.shape, sizes.span
        if sizes_by_hand != (None, None, None, None):
            raise ParameterError("give either --domain with queries, or --universe and --queries, not both")
        class_of_queries = options.read_workload(workload, Domain.load(domain))
        from maquette.theory.existence import facts_of

        facts = facts_of(class_of_queries, vc=sizes.vc)
    else:
        facts = _facts(sizes, shattered)
    public = overview.Setting(
        facts=facts,
        n=whole(setting.n, "n"),
        epsilon=setting.epsilon,
        delta=setting.delta,
        beta=setting.beta,
        relation=between,
        fat=shattered,
    )
    _say(public, alpha=alpha, plot=plot, as_json=as_json)


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


def _fat(dimension: int | None, gamma: str | None) -> tuple[int, Fraction] | None:
    """The fat-shattering dimension with its margin, or None; both or neither must be sizes_by_hand."""
    from maquette.queries.dimension import rational

    if dimension is None and gamma is None:
        return None
    if dimension is None or gamma is None or dimension < 1:
        raise ParameterError("expected --fat 1 or more together with --gamma, its margin")
    margin = rational(gamma, "gamma")
    if not 0 < margin <= Fraction(1, 2):
        raise ParameterError(f"expected 0 < gamma <= 1/2, got gamma={gamma}")
    return dimension, margin


def _facts(sizes: Sizes, fat: tuple[int, Fraction] | None) -> Facts:
    from maquette.theory.existence import Facts
    from maquette.theory.lower import fat_cover

    if sizes.universe is None or sizes.queries is None:
        raise ParameterError("a bound needs --universe and --queries, or --domain with queries")
    endless = sizes.queries.strip().lower() in ("inf", "infinite", "endless")
    count = None if endless else whole(sizes.queries, "queries")
    if count is not None and count < 1:
        raise ParameterError("expected at least one query, got queries=0")
    size = whole(sizes.universe, "universe")
    covers = () if fat is None else (fat_cover(dimension=fat[0], gamma=fat[1], points=size),)
    return Facts(
        universe=size,
        log_queries=math.inf if count is None else math.log(count),
        vc=sizes.vc,
        shape=sizes.shape,  # pyright: ignore[reportArgumentType]
        covers=covers,
        span=1.0 if sizes.span is None else sizes.span,
    )


def _say(setting: Setting, *, alpha: float | None, plot: Path | None, as_json: bool) -> None:
    from maquette.theory import overview

    lines = overview.bounds(setting)
    needed = {} if alpha is None else overview.needs(setting, alpha=alpha)
    if plot is not None:
        console.write_plot(specification(setting), plot, title="Guaranteed errors")
    if as_json:
        document: dict[str, Any] = {"bounds": [asdict(line) for line in lines]}
        if alpha is not None:
            document |= {
                "alpha": alpha,
                "rows_needed": {name: one.records for name, one in needed.items()},
                "epsilon_needed": {name: one.epsilon for name, one in needed.items()},
                "queries_log10": {name: _log10(one.log_queries) for name, one in needed.items()},
            }
        console.say_json(document | ({"plot": str(plot)} if plot is not None else {}))
        return
    console.say(
        "Largest error over all queries in points (percent of all records), "
        f"except with probability {100 * setting.beta:g} %"
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
        console.say(f"\nWhat an error of {100 * alpha:g} points needs, one number at a time")
        console.table(
            ["", "records", "or epsilon", "or queries, at most"],
            [[name, *_needs(one)] for name, one in needed.items()],
            right=(1, 2, 3),
        )
    if plot is not None:
        console.say(f"\nwrote {plot}")


def _error(alpha: float, *, in_counts: bool) -> str:
    if in_counts:
        return f"{alpha:,.0f} rows"
    return f"{100 * alpha:.4g}" if alpha < 1 else "none"


def _needs(one: Needs) -> tuple[str, str, str]:
    rows = "none suffices" if one.records is None else f"{one.records:,}"
    epsilon = "none suffices" if one.epsilon is None else f"{one.epsilon:.4g}"
    return rows, epsilon, _queries(one.log_queries)


def _queries(log_queries: float | None) -> str:
    if log_queries is None:
        return "not one"
    if math.isinf(log_queries):
        return "any number"
    if log_queries < 30:
        return f"{math.floor(math.exp(log_queries) * (1 + 1e-9)):,}"
    return f"10^{log_queries / math.log(10):,.0f}"


def _log10(log_queries: float | None) -> float | str | None:
    """For JSON, which has no infinity."""
    if log_queries is None or math.isfinite(log_queries):
        return None if log_queries is None else log_queries / math.log(10)
    return "any"


# The plot of `maquette bound`: guaranteed error against n, epsilon and the number of queries.


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
