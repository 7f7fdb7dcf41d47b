"""`maquette schema`: drafting, reviewing and checking the declaration of several tables that belong together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maquette.cli import console
from maquette.cli.options import AsJson, grouped
from maquette.errors import DomainError, ParameterError
from maquette.requests import Delimiter, TextEncoding

if TYPE_CHECKING:
    from maquette.domain import Domain
    from maquette.schema import Schema

app = typer.Typer(
    help="Draft, review and check schema files: several tables that belong together.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("draft")
@grouped
def draft(
    tables: Annotated[
        list[str], typer.Option("--table", metavar="NAME=TABLE", help="A private table; repeatable.")
    ],
    keys: Annotated[
        list[str],
        typer.Option(
            "--key", metavar="NAME=COLUMN", help="The column that names a table's rows; repeatable."
        ),
    ],
    links: Annotated[
        list[str],
        typer.Option(
            "--link",
            metavar="NAME.COLUMN=PARENT",
            help="The column that points to another table; repeatable.",
        ),
    ],
    at_most: Annotated[
        list[str],
        typer.Option(
            "--at-most",
            metavar="NAME=NUMBER",
            help="How many rows of a table count under one of its parent: public, not read off; repeatable.",
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where to write; stdout if absent.")
    ] = None,
    delimiter: Delimiter = ",",
    encoding: TextEncoding = "utf-8",
) -> None:
    """Write a first schema file for several tables, marked as unreviewed.

    The columns are drafted as by `maquette domain draft`: read off the private rows, so that the draft is not public.
    The unit, whose privacy a release protects, is a row of the table that points to no other.

    \b
    Example:
      maquette schema draft --table household=household.csv --table person=person.csv --key household=id \\
        --link person.household=household --at-most person=8 -o census.schema.json
    """
    from maquette.owner import draft as draft_domain
    from maquette.results.folder import write_text
    from maquette.schema import Schema

    if output is not None and output.exists():
        raise DomainError(
            f"{output} exists and may be reviewed already, so it is not overwritten; choose another place"
        )
    sources, named, most = _pairs(tables, "--table"), _pairs(keys, "--key"), _pairs(at_most, "--at-most")
    entries: list[dict[str, Any]] = []
    points: dict[str, tuple[str, str]] = {}
    for text, parent in _pairs(links, "--link").items():
        name, _, column = text.partition(".")
        if name in points:
            raise ParameterError(f"table '{name}' points to two tables; it hangs on one")
        points[name] = parent, column
    for name, source in sources.items():
        parent, refers = points.get(name, (None, None))
        domain = draft_domain(source, delimiter=delimiter, encoding=encoding)
        entry: dict[str, Any] = {"name": name, "key": named.get(name), "parent": parent, "refers": refers}
        if parent is not None and name in most:
            entry["at_most"] = _whole(most[name], name)
        entries.append(entry | {"domain": _without(domain, {named.get(name), refers}).to_dict()})
    units = [name for name in sources if name not in points]
    if len(units) != 1:
        raise ParameterError(
            f"expected one table without --link, whose rows are the units, got {len(units)}: {', '.join(units)}"
        )
    schema = Schema.from_dict({"unit": units[0], "tables": entries, "reviewed": False})
    if output is None:
        console.say(schema.to_text().rstrip())
        return
    write_text(output, schema.to_text(), mode=schema.file_mode)
    console.say(f"wrote {output}: an unreviewed draft of {len(schema.links)} tables")
    console.say(str(schema))
    console.say(f"next: maquette schema review {output}")


@app.command("review")
def review(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The drafted schema file.")],
    by: Annotated[str | None, typer.Option("--by", help="Who reviews it; asked for if absent.")] = None,
    accept: Annotated[
        list[str] | None,
        typer.Option(
            "--accept",
            metavar="PLACE=WHY",
            help="Confirm a column (table.column), or a table's key and limit (table), and say why; repeatable.",
        ),
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option("--drop", metavar="PLACE", help="Take a column out; repeatable.")
    ] = None,
) -> None:
    """Go through a drafted schema: each table's key and limit, then its columns. Answers are written at once.

    A limit (at most so many rows under one row of the parent) is public knowledge, or a choice; it is not read off the
    table. With --accept or --drop nothing is asked.

    \b
    Example:
      maquette schema review census.schema.json --by "J. Doe"
      maquette schema review census.schema.json --by "J. Doe" --accept "person=8 is in the questionnaire" \\
        --accept "person.age=code book"
    """
    from maquette.schema import Schema
    from maquette.schema import review as reviews

    schema = Schema.load(file)
    if accept or drop:
        for place in drop or []:
            schema = reviews.drop(schema, place)
        for place, why in _pairs(accept or [], "--accept").items():
            schema = reviews.confirm(schema, place, by=by or "", why=why)
        _write(file, schema)
    else:
        schema = _ask(file, schema, by)
    left = reviews.remaining(schema)
    console.say(
        f"still to be confirmed: {', '.join(left)}"
        if left
        else f"{file} is reviewed; it can be used for releases"
    )


def _ask(file: Path, schema: Schema, by: str | None) -> Schema:
    from maquette.cli.review import answer_to, ask_about_all, ask_who
    from maquette.domain import review as columns
    from maquette.schema import review as reviews

    if not reviews.remaining(schema):
        return schema
    try:
        reviewer = by or ask_who()
        for name in [place for place in reviews.remaining(schema) if "." not in place]:
            link = schema[name]
            points = (
                "each row is a unit, whose privacy is protected"
                if link.parent is None
                else f"column '{link.refers}' points to '{link.parent}'; at most {link.at_most:,} rows count under one"
            )
            console.say(f"table {name}: {points}")
            why = answer_to("Why is that public knowledge, or a choice (Enter: later)")
            if why.strip():
                schema = reviews.confirm(schema, name, by=reviewer, why=why)
                _write(file, schema)
        for name in schema.names:

            def write(domain: Domain, name: str = name, schema: Schema = schema) -> None:
                _write(file, schema.with_domain(name, domain))

            if left := columns.remaining(schema.own(name)):
                console.say(f"table {name}:")
                schema = schema.with_domain(name, ask_about_all(write, schema.own(name), left, reviewer))
    except (KeyboardInterrupt, typer.Abort):
        console.complain(
            f"interrupted. What was answered is in {file}; the same command continues with the rest"
        )
        raise typer.Exit(console.INTERRUPTED) from None
    return schema


@app.command("check")
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The schema file.")],
    as_json: AsJson = False,
) -> None:
    """Explain what is wrong or risky in a schema file, and what its limits cost. Exit code 2 if something is wrong.

    \b
    Example:
      maquette schema check census.schema.json
    """
    from maquette.domain.remarks import check as remarks
    from maquette.schema import Schema

    schema = Schema.load(file)
    findings = [(name, finding) for name in schema.names for finding in remarks(schema.own(name))]
    if as_json:
        console.say_json(
            {
                "unit": schema.unit,
                "tables": [
                    {"name": name, "rows_of_a_unit": rows, "attributes": len(schema.own(name))}
                    for name, rows in schema.unit_rows.items()
                ],
                "reviewed": schema.reviewed,
                "findings": [
                    {"severity": one.severity, "table": name, "attribute": one.attribute, "text": one.text}
                    for name, one in findings
                ],
            }
        )
    else:
        console.say(str(schema))
        for name, rows in schema.unit_rows.items():
            if rows > 1:
                console.say(
                    f"  note   {name}: a unit has up to {rows:,} rows, and noise is {rows:,} times that for one"
                )
        for name, one in findings:
            console.say(
                f"  {one.severity:<5}  {name}{f'.{one.attribute}' if one.attribute else ''}: {one.text}"
            )
    if any(one.severity == "error" for _, one in findings):
        raise typer.Exit(2)


def _write(file: Path, schema: Schema) -> None:
    from maquette.results.folder import write_text

    write_text(file, schema.to_text(), mode=schema.file_mode)


def _without(domain: Domain, keys: set[str | None]) -> Domain:
    from maquette.domain import review as columns

    for key in keys & set(domain.names):
        domain = columns.drop(domain, str(key))
    return domain


def _whole(text: str, name: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ParameterError(f"--at-most {name}: expected a whole number, got '{text}'") from None


def _pairs(texts: list[str], option: str) -> dict[str, str]:
    """What stands before and behind the sign of equality."""
    pairs: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.strip() or not value.strip():
            raise ParameterError(f"expected {option} NAME=VALUE, got '{text}'")
        if name.strip() in pairs:
            raise ParameterError(f"{option} names '{name.strip()}' twice")
        pairs[name.strip()] = value.strip()
    return pairs
