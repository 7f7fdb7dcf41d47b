"""How commands open the private table and choose its ledger: options with one wording, one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from maquette.cli.console import Progress
from maquette.errors import ParameterError

if TYPE_CHECKING:
    from maquette.domain import Domain
    from maquette.gate.owner import Table

Source = Annotated[
    str, typer.Argument(metavar="TABLE", help="The private table: CSV, Parquet, Arrow, DuckDB.")
]


def _durable(place: str | None) -> str | None:
    if place == "memory":
        raise ParameterError(
            "a ledger in memory would end with this command, and the next one would start a second budget for the same "
            "people; give --ledger a file, such as people.ledger (./memory for a file of this name)"
        )
    return place


LedgerPlace = Annotated[
    str | None,
    typer.Option(
        help="Ledger path or URL; made on first use. Beside the table if absent.", callback=_durable
    ),
]
TotalEpsilon = Annotated[
    float | None, typer.Option(help="Total of a new ledger; this command's epsilon if absent.")
]
TotalDelta = Annotated[
    float | None, typer.Option(help="Total of a new ledger; this command's delta if absent.")
]
Accounting = Annotated[
    str | None,
    typer.Option(
        help="How a new ledger counts a delta: gaussian or zcdp; by default what suits the mechanism."
    ),
]


def open_table(
    source: str,
    declared: Domain,
    *,
    delimiter: str,
    encoding: str,
    table: str | None,
    query: str | None,
    tell: Progress,
) -> Table:
    """The table behind its barrier, with progress while it is read."""
    from maquette.gate import owner

    return owner.open(
        source,
        domain=declared,
        delimiter=delimiter,
        encoding=encoding,
        table=table,
        query=query,
        progress=lambda share: tell("reading the table", share),
    )
