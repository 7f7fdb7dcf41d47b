"""`maquette domain`: discovering, drafting, reviewing and checking a schema; `maquette source`: where the table is."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from maquette.cli import console
from maquette.cli.options import (
    AsJson,
    Source,
    grouped,
)
from maquette.errors import DomainError, ParameterError
from maquette.requests import Delimiter, Privacy, Protected, TableFormat, TableQuery, TextEncoding, Totals

app = typer.Typer(
    help="Discover, draft, review and check domain files.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("draft")
@grouped
def draft(
    *,
    source: Annotated[str, typer.Argument(metavar="TABLE", help="The private table.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where to write; stdout if absent.")
    ] = None,
    reading: TableFormat,
    na_values: Annotated[
        list[str] | None,
        typer.Option(
            "--na", metavar="TEXT", help="A text that means missing, besides the usual; repeatable."
        ),
    ] = None,
) -> None:
    """Write a first domain file for a table, marked as unreviewed.

    The draft is read off the private rows, so it is not public: go through it with `maquette domain review`, where
    every list and bound is confirmed to be public knowledge or corrected. Until then no release is made with it.

    \b
    Example:
      maquette domain draft people.csv -o people.domain.json
    """
    from maquette.domain.entries import to_text
    from maquette.domain.review import usual
    from maquette.owner import draft as draft_domain
    from maquette.results.folder import write_domain

    domain = draft_domain(source, **asdict(reading), na_values=na_values or ())
    if output is None:
        console.say(to_text(domain.to_dict()).rstrip())
        return
    if output.exists():
        raise DomainError(
            f"{output} exists and may be reviewed already, so it is not overwritten; choose another place"
        )
    write_domain(output, domain)
    columns, left_out = domain.notes["columns"], domain.notes.get("left_out", {})
    kinds = usual(domain)
    risky = [name for name, note in (columns | left_out).items() if "risk" in note and name not in kinds]
    console.say(f"wrote {output}: an unreviewed draft of {len(domain)} columns")
    for name, note in columns.items():
        console.say(f"  {name}: {domain[name].kind}, from {note['from']}")
    for name, note in left_out.items():
        console.say(f"  {name}: left out; {note['why']}")
    if risky:
        console.say(
            f"the lists or bounds of {len(risky)} columns were read from private rows and may identify people: "
            + ", ".join(risky)
        )
    console.say(f"next: maquette domain review {output}")


@app.command("review")
def review(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The drafted domain file.")],
    by: Annotated[str | None, typer.Option("--by", help="Who reviews it; asked for if absent.")] = None,
    accept: Annotated[
        list[str] | None,
        typer.Option(
            "--accept", metavar="COLUMN=WHY", help="Confirm a column and say why it is public; repeatable."
        ),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option("--drop", metavar="COLUMN", help="Take a column out; repeatable."),
    ] = None,
    usual: Annotated[
        bool, typer.Option("--usual", help="Ask about all columns of usual kinds (ages, yes or no) at once.")
    ] = False,
) -> None:
    """Go through a drafted domain column by column. Each answer is written to the file at once.

    A column is confirmed with the reason why its list or bounds are public knowledge, edited, taken out or skipped.
    When every column is confirmed, the file counts as reviewed. With --accept or --drop nothing is asked.

    \b
    Example:
      maquette domain review people.domain.json --by "J. Doe"
      maquette domain review people.domain.json --by "J. Doe" --accept "age=bounds of the code book" --drop id
    """
    from maquette.cli.review import review_columns, review_without_asking

    if accept or drop:
        review_without_asking(file, by=by or "", accept=accept or [], drop=drop or [])
    else:
        review_columns(file, by=by, usual=usual)


@app.command("check")
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The domain file.")],
    table: Annotated[
        str | None, typer.Option("--table", help="Also count what of this table fits no cell. NOT PRIVATE.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="The table inside a database given by --table.")
    ] = None,
    query: TableQuery = None,
    delimiter: Delimiter = ",",
    encoding: TextEncoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Explain what is wrong or risky in a domain file. Exit code 2 if something is wrong.

    With --table it also counts, per column of the private table, the records that no declared cell holds, and those
    that break a declared constraint, and says if the table is empty or a column holds nothing that is declared: exactly
    and unpaid, so this part is NOT PRIVATE, NOT FOR RELEASE: keep what it prints as you keep the table. It does not
    change the exit code.

    \b
    Example:
      maquette domain check people.domain.json --table people.csv
    """
    from maquette.domain import Domain
    from maquette.domain.remarks import check as review

    domain = Domain.load(file)
    findings = review(domain)
    fit = None
    if table is not None:
        from maquette.owner import fit_report

        fit = fit_report(
            table, domain=domain, table=name, query=query, delimiter=delimiter, encoding=encoding
        )
    if as_json:
        listed = [{"severity": f.severity, "attribute": f.attribute, "text": f.text} for f in findings]
        document = {
            "attributes": len(domain),
            "size": str(domain.size),
            "reviewed": domain.reviewed,
            "findings": listed,
        }
        if fit is not None:
            broken = [{"constraint": said, "records": count} for said, count in fit.broken]
            more = {"constraints": broken, "records_over_lines": fit.over_lines, "remarks": list(fit.remarks)}
            document["fit"] = fit.to_dict() | more
        console.say_json(document)
    else:
        console.say(repr(domain))
        for finding in findings:
            place = f"{finding.attribute}: " if finding.attribute else ""
            console.say(f"  {finding.severity:<5}  {place}{finding.text}")
        if fit is not None:
            console.say(str(fit))
    if any(finding.severity == "error" for finding in findings):
        raise typer.Exit(2)


# `maquette domain discover`: a domain that is found privately, and paid for.


@dataclass(frozen=True, kw_only=True)
class ColumnsReading(TableFormat, Protected):
    """How the columns are read, and whose rows they hold."""


@dataclass(frozen=True, kw_only=True)
class LedgerToMake(Totals):
    """A ledger that may be made before there is a domain."""

    ledger: Annotated[
        str,
        typer.Option(help="Path or URL of the ledger, which is made at first use, before there is a domain."),
    ]


@dataclass(frozen=True, kw_only=True)
class KnownColumns:
    """What is known of the columns before any of them is looked at."""

    declared: Annotated[
        Path | None,
        typer.Option(
            "--declared", metavar="DOMAIN", help="A domain file: its columns are declared, not found."
        ),
    ] = None
    number: Annotated[
        list[str] | None, typer.Option("--number", metavar="COLUMN", help="A column of numbers; repeatable.")
    ] = None
    text: Annotated[
        list[str] | None, typer.Option("--text", metavar="COLUMN", help="A column of texts; repeatable.")
    ] = None
    date: Annotated[
        list[str] | None,
        typer.Option("--date", metavar="COLUMN", help="A column of dates or times; repeatable."),
    ] = None
    drop: Annotated[
        list[str] | None, typer.Option("--drop", metavar="COLUMN", help="A column to leave out; repeatable.")
    ] = None
    na_values: Annotated[
        list[str] | None,
        typer.Option(
            "--na", metavar="TEXT", help="A text that means missing, instead of the usual; repeatable."
        ),
    ] = None

    def read(self) -> dict[str, Any]:
        """The columns by name, declared or of a kind."""
        from maquette.domain import Domain

        columns: dict[str, Any] = {}
        for kind in ("number", "text", "date", "drop"):
            for name in getattr(self, kind) or []:
                if name in columns:
                    raise ParameterError(f"column '{name}' is named twice")
                columns[name] = kind
        if self.declared is not None:
            columns |= {attribute.name: attribute for attribute in Domain.load(self.declared)}
        return columns


@app.command("discover")
@grouped
def discover(
    *,
    source: Source,
    privacy: Privacy,
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write the domain file.")],
    columns: KnownColumns,
    payer: LedgerToMake,
    reading: ColumnsReading,
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
    from maquette.domain.review import MISSING_WORDS
    from maquette.releasing.discovery import discover as find
    from maquette.results.folder import write_domain

    if output.exists():
        raise DomainError(
            f"{output} exists and may be in use, so it is not overwritten; choose another place"
        )
    result = find(
        source,
        columns=columns.read(),
        na_values=MISSING_WORDS if columns.na_values is None else columns.na_values,
        **asdict(privacy),
        **asdict(payer),
        **asdict(reading),
    )
    write_domain(output, result.domain)
    if as_json:
        console.say_json({"domain": str(output), "columns": result.domain.notes["columns"]})
        return
    console.say(f"wrote {output}: {len(result.domain)} columns")
    for one in result.findings:
        console.say(f"  {one.name}: {one.how}: {one.text}")


# `maquette source`: is the place of the private table set up as it should be?


places = typer.Typer(
    help="Look at the place where a private table is.", no_args_is_help=True, rich_markup_mode=None
)


@places.callback()
def place_group() -> None:
    """Look at the place where a private table is."""


@places.command("check")
@grouped
def check_place(
    *,
    source: Source,
    reading: TableFormat,
    as_json: AsJson = False,
) -> None:
    """Open a table without reading its records, and warn of what its reader could do besides reading.

    For PostgreSQL: whether the role could write, create or own something; `docs/sources.md` has the SQL of a role that
    can do nothing but read one table. Warnings do not change the exit code.

    \b
    Example:
      maquette source check postgresql://reader@host/db --table public.people
    """
    from maquette.owner import check_source

    facts = check_source(source, **asdict(reading))
    if as_json:
        console.say_json(
            {"source": facts.description, "columns": facts.columns, "warnings": list(facts.warnings)}
        )
        return
    console.say(f"{facts.description}: {facts.columns} columns")
    for warning in facts.warnings:
        console.say(f"warning: {warning}")
    if not facts.warnings:
        console.say("no warnings")
