"""`maquette domain`: drafting and checking the declared schema."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maquette.cli import console
from maquette.cli.options import AsJson, Delimiter, Encoding, TableName, TableQuery
from maquette.errors import DomainError

app = typer.Typer(help="Draft and check domain files.", no_args_is_help=True, rich_markup_mode=None)


@app.command("draft")
def draft(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="The private table.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where to write; stdout if absent.")
    ] = None,
    delimiter: Delimiter = ",",
    encoding: Encoding = "utf-8",
    table: TableName = None,
    query: TableQuery = None,
) -> None:
    """Write a first domain file for a table, marked as unreviewed.

    The draft is read off the private rows, so it is not public: check that every list and bound is public knowledge,
    correct it, then set "reviewed": true. Until then no release is made with it.

    \b
    Example:
      maquette domain draft people.csv -o people.domain.json
    """
    import json

    from maquette.gate.handle import draft_domain
    from maquette.results.folder import write_text

    drafted = draft_domain(source, delimiter=delimiter, encoding=encoding, table=table, query=query)
    text = json.dumps(drafted.to_dict(), indent=1, ensure_ascii=False) + "\n"
    if output is None:
        console.say(text.rstrip())
        return
    if output.exists():
        raise DomainError(f"{output} exists; choose another place, a reviewed file is not to be lost")
    write_text(output, text)
    console.say(f'wrote {output}: an unreviewed draft. Check it, then set "reviewed": true in it')


@app.command("check")
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The domain file.")],
    table: Annotated[
        Path | None, typer.Option("--table", help="Also count what of this table fits no cell. NOT PRIVATE.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="The table inside a DuckDB file given by --table.")
    ] = None,
    query: TableQuery = None,
    delimiter: Delimiter = ",",
    encoding: Encoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Explain what is wrong or risky in a domain file. Exit code 2 if something is wrong.

    With --table it also counts, per column of the private table, the records that no declared cell holds: exactly and
    unpaid, so this part is NOT PRIVATE, NOT FOR RELEASE: keep what it prints as you keep the table.

    \b
    Example:
      maquette domain check people.domain.json --table people.csv
    """
    from maquette.domain import Domain
    from maquette.domain.file import check as review

    domain = Domain.load(file)
    findings = review(domain)
    fit = None
    if table is not None:
        from maquette.gate.handle import fit_report

        fit = fit_report(
            table, domain=domain, table=name, query=query, delimiter=delimiter, encoding=encoding
        )
    if as_json:
        told = [{"severity": f.severity, "attribute": f.attribute, "text": f.text} for f in findings]
        document = {
            "attributes": len(domain),
            "size": str(domain.size),
            "reviewed": domain.reviewed,
            "findings": told,
        }
        console.say_json(document | ({} if fit is None else {"fit": fit.to_dict()}))
    else:
        console.say(repr(domain))
        for finding in findings:
            place = f"{finding.attribute}: " if finding.attribute else ""
            console.say(f"  {finding.severity:<5}  {place}{finding.text}")
        if fit is not None:
            console.say(str(fit))
    if any(finding.severity == "error" for finding in findings):
        raise typer.Exit(2)
