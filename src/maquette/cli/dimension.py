"""`maquette dimension`: how rich a class of queries is, with a shattered set as proof."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maquette.cli import console
from maquette.cli.options import AsJson, grouped, read_workload
from maquette.core import _check
from maquette.errors import WorkloadError
from maquette.requests import WorkloadWords

if TYPE_CHECKING:
    from maquette.queries.base import Queries
    from maquette.queries.dimension import Dimension
    from maquette.queries.dimension_interval import DimensionInterval


MAX_SHOWN = 16


def register(app: typer.Typer) -> None:
    app.command("dimension")(grouped(dimension))


def dimension(
    *,
    domain: Annotated[
        Path | None, typer.Option("--domain", "-d", help="The domain file: the declared public schema.")
    ] = None,
    workload: WorkloadWords,
    matrix: Annotated[
        Path | None, typer.Option(help="A CSV file of weights instead: a line per query, a column per cell.")
    ] = None,
    gamma: Annotated[
        str | None,
        typer.Option(help="Margin of the fat-shattering dimension, such as 1/8. Default: the VC dimension."),
    ] = None,
    effort: Annotated[
        int, typer.Option(help="How long to search before an interval is given: comparisons of sets.")
    ] = 3_000_000,
    as_json: AsJson = False,
) -> None:
    """Compute the VC or fat-shattering dimension of a class of queries, or an interval around it. No table is opened.

    \b
    Example:
      maquette dimension --domain people.domain.json --ranges age,hours
      maquette dimension --domain people.domain.json --class "halfspaces:age + 2*hours >= 60; age >= 30"
      maquette dimension --domain people.domain.json --class halfspaces:age,hours
      maquette dimension --domain people.domain.json --workload scores.json --gamma 1/8
      maquette dimension --matrix weights.csv --gamma 1/4
    """
    from maquette.domain import Domain
    from maquette.queries.dimension_interval import dimension_interval

    if matrix is not None:
        if domain is not None:
            raise WorkloadError("give either --domain with queries or --matrix, not both")
        queries: Queries | list[list[str]] = _read_matrix(matrix)
    elif domain is None:
        raise WorkloadError("a dimension needs --domain with queries, or --matrix")
    else:
        queries = read_workload(workload, Domain.load(domain))
    result = dimension_interval(queries, gamma, effort=effort)
    if as_json:
        console.say_json(_document(queries, result))
        return
    _say(queries, result, is_vc=gamma is None)


def _say(queries: Queries | list[list[str]], result: DimensionInterval, *, is_vc: bool) -> None:
    low = result.low
    kind = "VC dimension" if is_vc else f"fat-shattering dimension at {low.gamma}"
    about = f"{len(queries)} queries" if isinstance(queries, list) else queries.describe()
    if result.is_exact:
        console.say(f"{kind} {low.value}, by {low.method}: {about}")
    else:
        console.say(f"{kind} from {low.value} to {result.high}: {about}")
        console.say(f"Not above {result.high}: {result.reason}.")
    count = len(queries) if isinstance(queries, list) else queries.count
    console.say(
        f"The lemma of finite classes: 2^d labellings need as many queries, so d <= log2 {count:,} "
        f"= {_log2(count)}."
    )
    if low.value > 0:
        _show(queries, low)


def _log2(count: int) -> str:
    import math

    return f"{math.log2(count):.4g}" if count else "nothing"


def _read_matrix(path: Path) -> list[list[str]]:
    try:
        lines = _check.read_text(path).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise WorkloadError(f"cannot read the matrix {path}: {error}") from None
    return [[entry.strip() for entry in line.split(",")] for line in lines if line.strip()]


def _document(queries: Queries | list[list[str]], result: DimensionInterval) -> dict[str, Any]:
    low = result.low
    return {
        "queries": f"{len(queries)} queries" if isinstance(queries, list) else queries.describe(),
        "value": low.value if result.is_exact else None,
        "at_least": low.value,
        "at_most": result.high,
        "reason": result.reason,
        "gamma": str(low.gamma),
        "method": low.method,
        "attributes": list(low.attributes),
        "points": [point if isinstance(point, int) else list(point) for point in low.points],
        "levels": [str(level) for level in low.levels],
        "witnesses": list(low.witnesses),
    }


def _show(queries: Queries | list[list[str]], result: Dimension) -> None:
    over = ", ".join(result.attributes) or "columns of the matrix, from 0"
    console.say(f"Shattered cells ({over}):")
    for i, point in enumerate(result.points):
        console.say(f"  {i + 1}. {_cells(queries, result, point)}" + _level(result, i))
    shown = result.witnesses[:MAX_SHOWN]
    if not shown:
        return
    console.say("A query for each labelling:")
    for position, witness in enumerate(shown):
        labels = "".join(str(label) for label in result.labelling(position))
        said = f"line {witness + 1}" if isinstance(queries, list) else queries.text(witness)
        console.say(f"  {labels}  {said}")
    if len(result.witnesses) > MAX_SHOWN:
        console.say(f"  and {len(result.witnesses) - MAX_SHOWN:,} more; --json lists them")


def _cells(queries: Queries | list[list[str]], result: Dimension, point: Any) -> str:
    if isinstance(queries, list):
        return str(point)
    return ", ".join(_value(queries, name, code) for name, code in zip(result.attributes, point, strict=True))


def _value(queries: Queries, name: str, code: int) -> str:
    from maquette.queries.names import code_text

    return code_text(queries.domain[name], code)


def _level(result: Dimension, i: int) -> str:
    from fractions import Fraction

    return "" if result.levels[i] == Fraction(1, 2) == result.gamma else f"  (level {result.levels[i]})"
