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


MOST_SHOWN = 16


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
        typer.Option(help="Margin of the fat-shattering dimension, such as 1/8; the VC dimension if absent."),
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
    found = vc_dimension(queries) if gamma is None else fat_shattering_dimension(queries, gamma)
    if as_json:
        console.say_json(_told(queries, found))
        return
    kind = "VC dimension" if gamma is None else f"fat-shattering dimension at {found.gamma}"
    console.say(f"{kind} {found.value}, by {found.method}: {queries.describe()}")
    if found.value > 0:
        _show(queries, found)


def _told(queries: Queries, found: Dimension) -> dict[str, Any]:
    return {
        "queries": queries.describe(),
        "value": found.value,
        "gamma": str(found.gamma),
        "method": found.method,
        "attributes": list(found.attributes),
        "points": [list(point) for point in found.points],
        "levels": [str(level) for level in found.levels],
        "witnesses": list(found.witnesses),
    }


def _show(queries: Queries, found: Dimension) -> None:
    console.say(f"Shattered cells ({', '.join(found.attributes)}):")
    for i, point in enumerate(found.points):
        told = ", ".join(
            _value(queries, name, code) for name, code in zip(found.attributes, point, strict=True)
        )
        console.say(f"  {i + 1}. {told}" + _level(found, i))
    shown = found.witnesses[:MOST_SHOWN]
    if not shown:
        return
    console.say("A query for each labelling:")
    for position, witness in enumerate(shown):
        labels = "".join(str(label) for label in found.labelling(position))
        console.say(f"  {labels}  {queries.text(witness)}")
    if len(found.witnesses) > MOST_SHOWN:
        console.say(f"  and {len(found.witnesses) - MOST_SHOWN:,} more; --json lists them")


def _value(queries: Queries, name: str, code: int) -> str:
    from maquette.queries.sql_format import code_text

    return code_text(queries.domain[name], code)


def _level(found: Dimension, i: int) -> str:
    from fractions import Fraction

    return "" if found.levels[i] == Fraction(1, 2) == found.gamma else f"  (level {found.levels[i]})"
