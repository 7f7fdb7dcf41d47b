"""`maquette dimension`: how rich a class of queries is, with a shattered set as proof."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from maquette.cli import console
from maquette.cli.options import (
    AsJson,
    DomainFile,
    MarginalOrders,
    Predicates,
    PrefixNames,
    RangeNames,
    WorkloadFile,
    read_workload,
)

if TYPE_CHECKING:
    from maquette.queries.base import Queries
    from maquette.queries.dimension import Dimension


MAX_SHOWN = 16


def register(app: typer.Typer) -> None:
    app.command("dimension")(dimension)


def dimension(
    domain: DomainFile,
    marginals: MarginalOrders = None,
    prefixes: PrefixNames = None,
    ranges: RangeNames = None,
    where: Predicates = None,
    workload: WorkloadFile = None,
    gamma: Annotated[
        str | None,
        typer.Option(help="Margin of the fat-shattering dimension, such as 1/8. Default: the VC dimension."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compute the VC or fat-shattering dimension of a class of queries, exactly. No table is opened.

    \b
    Example:
      maquette dimension --domain people.domain.json --ranges age,hours
      maquette dimension --domain people.domain.json --workload scores.json --gamma 1/8
    """
    from maquette.domain import Domain
    from maquette.queries.dimension import fat_shattering_dimension, vc_dimension

    queries = read_workload(
        Domain.load(domain),
        marginals=marginals,
        prefixes=prefixes,
        ranges=ranges,
        where=where,
        workload=workload,
    )
    result = vc_dimension(queries) if gamma is None else fat_shattering_dimension(queries, gamma)
    if as_json:
        console.say_json(_document(queries, result))
        return
    kind = "VC dimension" if gamma is None else f"fat-shattering dimension at {result.gamma}"
    console.say(f"{kind} {result.value}, by {result.method}: {queries.describe()}")
    if result.value > 0:
        _show(queries, result)


def _document(queries: Queries, result: Dimension) -> dict[str, Any]:
    return {
        "queries": queries.describe(),
        "value": result.value,
        "gamma": str(result.gamma),
        "method": result.method,
        "attributes": list(result.attributes),
        "points": [list(point) for point in result.points],
        "levels": [str(level) for level in result.levels],
        "witnesses": list(result.witnesses),
    }


def _show(queries: Queries, result: Dimension) -> None:
    console.say(f"Shattered cells ({', '.join(result.attributes)}):")
    for i, point in enumerate(result.points):
        cells = ", ".join(
            _value(queries, name, code) for name, code in zip(result.attributes, point, strict=True)
        )
        console.say(f"  {i + 1}. {cells}" + _level(result, i))
    shown = result.witnesses[:MAX_SHOWN]
    if not shown:
        return
    console.say("A query for each labelling:")
    for position, witness in enumerate(shown):
        labels = "".join(str(label) for label in result.labelling(position))
        console.say(f"  {labels}  {queries.text(witness)}")
    if len(result.witnesses) > MAX_SHOWN:
        console.say(f"  and {len(result.witnesses) - MAX_SHOWN:,} more; --json lists them")


def _value(queries: Queries, name: str, code: int) -> str:
    from maquette.queries.sql_format import code_text

    return code_text(queries.domain[name], code)


def _level(result: Dimension, i: int) -> str:
    from fractions import Fraction

    return "" if result.levels[i] == Fraction(1, 2) == result.gamma else f"  (level {result.levels[i]})"
