"""`maquette domain discover`: a domain that is found privately, and paid for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from maquette.cli import console
from maquette.cli.options import (
    AsJson,
    Delimiter,
    Delta,
    Encoding,
    Epsilon,
    PersonColumn,
    RelationName,
    RowsPerPerson,
    Source,
    TableName,
    TableQuery,
    TotalDelta,
    TotalEpsilon,
)
from maquette.errors import DomainError, ParameterError


def discover(
    source: Source,
    epsilon: Epsilon,
    ledger: Annotated[
        str, typer.Option(help="Path or URL of the ledger, made before the domain at first use.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write the domain file.")],
    delta: Delta = 0.0,
    declared: Annotated[
        Path | None,
        typer.Option(
            "--declared", metavar="DOMAIN", help="A domain file: its columns are declared, not found."
        ),
    ] = None,
    number: Annotated[
        list[str] | None, typer.Option("--number", metavar="COLUMN", help="It holds numbers; repeatable.")
    ] = None,
    text: Annotated[
        list[str] | None, typer.Option("--text", metavar="COLUMN", help="It holds texts; repeatable.")
    ] = None,
    date: Annotated[
        list[str] | None,
        typer.Option("--date", metavar="COLUMN", help="It holds days or moments; repeatable."),
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option("--drop", metavar="COLUMN", help="Leave it out; repeatable.")
    ] = None,
    relation: RelationName = "add-remove",
    person: PersonColumn = None,
    rows_per_person: RowsPerPerson = None,
    total_epsilon: TotalEpsilon = None,
    total_delta: TotalDelta = None,
    na_values: Annotated[
        list[str] | None,
        typer.Option(
            "--na", metavar="TEXT", help="A text that means missing, instead of the usual; repeatable."
        ),
    ] = None,
    delimiter: Delimiter = ",",
    encoding: Encoding = "utf-8",
    table: TableName = None,
    query: TableQuery = None,
    key: Annotated[
        str | None, typer.Option(help="A name for this run in the ledger; a new key pays again.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find kinds, lists and bounds privately and pay for each finding. The domain may be published.

    Columns that are declared, dropped or of a given kind cost nothing or less. Lists of values need a delta. The first
    release from the ledger declares the domain for good. The same command again costs nothing.

    \b
    Example:
      maquette domain discover people.csv --epsilon 0.2 --delta 1e-9 --ledger people.ledger --total-epsilon 2 \\
        --total-delta 1e-6 -o people.domain.json
    """
    from maquette.domain import Domain
    from maquette.domain.file import to_text
    from maquette.releasing.discovery import MISSING_WORDS
    from maquette.releasing.discovery import discover as find
    from maquette.results.folder import write_text

    if output.exists():
        raise DomainError(f"{output} exists; choose another place, a domain that is in use is not to be lost")
    columns: dict[str, Any] = {}
    for kind, names in (("number", number), ("text", text), ("date", date), ("drop", drop)):
        for name in names or []:
            if name in columns:
                raise ParameterError(f"column '{name}' is named twice")
            columns[name] = kind
    if declared is not None:
        columns |= {attribute.name: attribute for attribute in Domain.load(declared)}
    result = find(
        source,
        epsilon=epsilon,
        delta=delta,
        ledger=ledger,
        columns=columns,
        na_values=MISSING_WORDS if na_values is None else na_values,
        relation=relation,
        person=person,
        rows_per_person=rows_per_person,
        total_epsilon=total_epsilon,
        total_delta=total_delta,
        key=key,
        table=table,
        query=query,
        delimiter=delimiter,
        encoding=encoding,
    )
    write_text(output, to_text(result.domain))
    if as_json:
        console.say_json({"domain": str(output), "columns": result.domain.notes["columns"]})
        return
    console.say(f"wrote {output}: {len(result.domain)} columns")
    for one in result.findings:
        console.say(f"  {one.name}: {one.how}: {one.text}")
