"""`maquette bound`: every bound on the error for given sizes, from public numbers only."""

from __future__ import annotations

import math
import re
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maquette.cli import bound_plot, console, options
from maquette.errors import ParameterError

if TYPE_CHECKING:
    from maquette.theory.existence import Facts
    from maquette.theory.overview import Needs, Setting


def register(app: typer.Typer) -> None:
    app.command("bound")(bound)


def bound(
    n: Annotated[str, typer.Option("--n", help="Number of records of the table, a public figure.")],
    epsilon: options.Epsilon,
    delta: options.Delta = 0.0,
    beta: options.Beta = 0.05,
    relation: options.RelationName = "replace-one",
    universe: Annotated[str | None, typer.Option(help="|X|, such as 1000000, 1e6 or 2^24.")] = None,
    queries: Annotated[
        str | None, typer.Option(help="How many queries, such as 1e9; inf for a class without end.")
    ] = None,
    vc: Annotated[int | None, typer.Option(help="VC dimension of the class, if known.")] = None,
    fat: Annotated[
        int | None, typer.Option(help="Fat-shattering dimension of a class of real weights, with --gamma.")
    ] = None,
    gamma: Annotated[str | None, typer.Option(help="The margin of --fat, such as 1/100.")] = None,
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
    classes: options.ClassWords = None,
    workload: options.WorkloadFile = None,
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

    between = Relation.named(relation)
    shattered = _fat(fat, gamma)
    if plot is not None:
        bound_plot.check_place(plot)
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
            classes=classes,
        )
        from maquette.theory.existence import facts_of

        facts = facts_of(class_of_queries, vc=vc)
    else:
        facts = _facts(universe, queries, vc, shape, shattered)
    setting = overview.Setting(
        facts=facts,
        n=whole(n, "n"),
        epsilon=epsilon,
        delta=delta,
        beta=beta,
        relation=between,
        fat=shattered,
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


def _fat(dimension: int | None, gamma: str | None) -> tuple[int, Fraction] | None:
    """The fat-shattering dimension with its margin, or None; both or neither must be given."""
    from maquette.queries.dimension import rational

    if dimension is None and gamma is None:
        return None
    if dimension is None or gamma is None or dimension < 1:
        raise ParameterError("expected --fat 1 or more together with --gamma, its margin")
    margin = rational(gamma, "gamma")
    if not 0 < margin <= Fraction(1, 2):
        raise ParameterError(f"expected 0 < gamma <= 1/2, got gamma={gamma}")
    return dimension, margin


def _facts(
    universe: str | None,
    queries: str | None,
    vc: int | None,
    shape: str | None,
    fat: tuple[int, Fraction] | None,
) -> Facts:
    from maquette.theory.existence import Facts
    from maquette.theory.lower import fat_cover

    if universe is None or queries is None:
        raise ParameterError("a bound needs --universe and --queries, or --domain with queries")
    endless = queries.strip().lower() in ("inf", "infinite", "endless")
    count = None if endless else whole(queries, "queries")
    if count is not None and count < 1:
        raise ParameterError("expected at least one query, got queries=0")
    size = whole(universe, "universe")
    covers = () if fat is None else (fat_cover(dimension=fat[0], gamma=fat[1], points=size),)
    return Facts(
        universe=size,
        log_queries=math.inf if count is None else math.log(count),
        vc=vc,
        shape=shape,  # pyright: ignore[reportArgumentType]
        covers=covers,
    )


def _say(setting: Setting, *, alpha: float | None, plot: Path | None, as_json: bool) -> None:
    from maquette.theory import overview

    lines = overview.bounds(setting)
    needed = {} if alpha is None else overview.needs(setting, alpha=alpha)
    if plot is not None:
        bound_plot.draw(setting, plot)
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
