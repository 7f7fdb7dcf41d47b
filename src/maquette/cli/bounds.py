"""`maquette bound`: every bound on the error for given sizes, from public numbers only."""

from __future__ import annotations

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
    from maquette.theory.overview import Setting


def register(app: typer.Typer) -> None:
    app.command("bound")(bound)


def bound(
    n: Annotated[str, typer.Option("--n", help="Rows of the table, as far as publicly known.")],
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
        float | None, typer.Option(help="Also say how many rows this largest error needs.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw error against n, epsilon and queries: .svg, .png, .html, .json.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Print every bound on the largest error over all queries: SmallDB's forms, direct noise, textbooks, the floor.

    Sizes are given as numbers (--universe, --queries) or by a domain file with queries. No table is opened.

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
        from maquette.cli.bound_plot import check_place

        check_place(plot)
    if domain is not None:
        if universe is not None or queries is not None or shape is not None:
            raise ParameterError("give either --domain with queries, or --universe and --queries, not both")
        asked = options.read_workload(
            Domain.load(domain),
            marginals=marginals,
            prefixes=prefixes,
            ranges=ranges,
            where=where,
            workload=workload,
        )
        from maquette.theory.facts import facts_of

        facts = facts_of(asked, vc=vc)
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
    asked = whole(queries, "queries")
    if asked < 1:
        raise ParameterError("expected at least one query, got queries=0")
    return Facts(
        universe=whole(universe, "universe"),
        log_queries=math.log(asked),
        vc=vc,
        shape=shape,  # pyright: ignore[reportArgumentType]
    )


def _say(setting: Setting, *, alpha: float | None, plot: Path | None, as_json: bool) -> None:
    from maquette.theory import overview

    lines = overview.bounds(setting)
    needed = {} if alpha is None else overview.records(setting, alpha=alpha)
    if plot is not None:
        from maquette.cli.bound_plot import draw

        draw(setting, plot)
    if as_json:
        told: dict[str, Any] = {"bounds": [asdict(line) for line in lines]}
        if alpha is not None:
            told |= {"alpha": alpha, "rows_needed": needed}
        console.say_json(told | ({"plot": str(plot)} if plot is not None else {}))
        return
    console.say(f"Largest error over all queries, except with probability {setting.beta:g}")
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
        console.say(f"\nRows needed for an error of {alpha:g}")
        shown = {name: "none suffices" if n is None else f"{n:,}" for name, n in needed.items()}
        console.facts(shown)
    if plot is not None:
        console.say(f"\nwrote {plot}")


def _error(alpha: float, *, in_counts: bool) -> str:
    if in_counts:
        return f"{alpha:,.0f} rows"
    return f"{alpha:.4g}" if alpha < 1 else f"none ({alpha:.3g})"
