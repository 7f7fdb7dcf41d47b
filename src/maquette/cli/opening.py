"""How commands open the private table and choose its ledger: options with one wording, one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from maquette.cli.console import Progress

if TYPE_CHECKING:
    from maquette.domain import Domain
    from maquette.gate.owner import Table

Source = Annotated[
    str, typer.Argument(metavar="TABLE", help="The private table: CSV, Parquet, Arrow, DuckDB.")
]
LedgerPlace = Annotated[
    str | None, typer.Option(help="Ledger path or URL; made on first use. Beside the table if absent.")
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
    source: str, declared: Domain, *, delimiter: str, table: str | None, query: str | None, tell: Progress
) -> Table:
    """The table behind its barrier, with progress while it is read."""
    from maquette.gate import owner

    return owner.open(
        source,
        domain=declared,
        delimiter=delimiter,
        table=table,
        query=query,
        progress=lambda share: tell("reading the table", share),
    )
