"""`maquette source`: is the place of the private table set up as it should be?"""

from __future__ import annotations

import typer

from maquette.cli import console
from maquette.cli.options import AsJson, Delimiter, Encoding, Source, TableName, TableQuery

app = typer.Typer(
    help="Look at the place where a private table is.", no_args_is_help=True, rich_markup_mode=None
)


@app.callback()
def group() -> None:
    """Look at the place where a private table is."""


@app.command("check")
def check(
    source: Source,
    delimiter: Delimiter = ",",
    encoding: Encoding = "utf-8",
    table: TableName = None,
    query: TableQuery = None,
    as_json: AsJson = False,
) -> None:
    """Open a table without reading its records, and warn of what its reader could do besides reading.

    For PostgreSQL: whether the role could write, create or own something; `docs/sources.md` has the SQL of a role that
    can do nothing but read one table. Warnings do not change the exit code.

    \b
    Example:
      maquette source check postgresql://reader@host/db --table public.people
    """
    from maquette.gate.handle import check_source

    place = check_source(source, table=table, query=query, delimiter=delimiter, encoding=encoding)
    if as_json:
        console.say_json(
            {"source": place.description, "columns": place.columns, "warnings": list(place.warnings)}
        )
        return
    console.say(f"{place.description}: {place.columns} columns")
    for warning in place.warnings:
        console.say(f"warning: {warning}")
    if not place.warnings:
        console.say("nothing to warn of")
