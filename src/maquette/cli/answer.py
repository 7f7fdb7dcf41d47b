"""`maquette answer`, `report`, `table`, `sql`, `export`, `replicates` and `plot`: what is taken out of a release."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maquette.cli import console
from maquette.cli.options import AsJson, grouped
from maquette.core import _check
from maquette.errors import ParameterError, WorkloadError

if TYPE_CHECKING:
    from maquette.results.statements import Answer

AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV.")]
Folder = Annotated[Path, typer.Argument(metavar="RELEASE", help="A release folder.")]
Of = Annotated[
    str | None,
    typer.Option(
        "--of",
        metavar="TABLE",
        help="Of several tables, the one whose rows are counted. Default: the first one that has all the columns.",
    ),
]
PaidBy = Annotated[
    str | None,
    typer.Option(
        "--ledger", help="The ledger that paid for it, to check it against. Default: a ledger file beside it."
    ),
]


def register(app: typer.Typer) -> None:
    app.command("answer")(answer)
    app.command("report")(report)
    app.command("table")(table)
    app.command("sql")(sql)
    app.command("export")(grouped(export))
    app.command("replicates")(replicates)
    app.command("plot")(plot)


def answer(
    folder: Folder,
    predicates: Annotated[
        list[str], typer.Argument(metavar="PREDICATE...", help="SQL conditions, one or more.")
    ],
    of: Of = None,
    ledger: PaidBy = None,
    as_json: AsJson = False,
) -> None:
    """Answer questions from a release. Costs nothing and needs no access to the table.

    A question that cannot be answered is refused in its place and the others go on; the exit code is then 2.

    \b
    Example:
      maquette answer people.maquette "age >= 60 and sex = 'female'"
    """
    from maquette.linked.loading import load
    from maquette.results.select import is_select

    release, named = load(folder, ledger=ledger), _named(folder, of)
    answers: list[Answer] = []
    for text in predicates:
        try:
            if is_select(text):
                raise WorkloadError("expected a condition, got a SELECT; maquette sql answers it")
            answers.append(release.answer(text, **named))
        except WorkloadError as error:
            console.complain(f"{_check.shown(text)}: refused: {error}")
            continue
        if not as_json:
            _say(answers[-1])
    if as_json:
        console.say_json([asdict(one) for one in answers])
    if len(answers) < len(predicates):
        raise typer.Exit(WorkloadError.exit_code)


def _named(folder: Path, of: str | None) -> dict[str, Any]:
    """The table that is named, for a release of several."""
    from maquette.linked.files import is_folder

    if of is not None and not is_folder(folder):
        raise ParameterError("--of is for a release of several tables, and this is one of one table")
    return {} if of is None else {"of": of}


def _say(one: Answer) -> None:
    console.say(one.query)
    console.say(f"  {one}")
    if one.statement is not None:
        console.say(f"  {one.statement}")
    for note in one.notes:
        console.say(f"  note: {note}")


def report(
    folder: Folder,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File to write. Default: RELEASE/report.html.")
    ] = None,
    ledger: PaidBy = None,
) -> None:
    """Write the report of a release again, as one HTML file.

    \b
    Example:
      maquette report people.maquette -o people.html
    """
    from maquette.results.folder import REPORT
    from maquette.results.loading import load

    target = output if output is not None else folder / REPORT
    load(folder, ledger=ledger).report(target)
    console.say(f"wrote {target}")


def plot(
    folder: Folder,
    names: Annotated[list[str], typer.Argument(metavar="ATTRIBUTE [ATTRIBUTE]", help="What to show.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="The file to write: .html (the default), .png, .svg or .json.",
        ),
    ] = None,
    ledger: PaidBy = None,
) -> None:
    """Draw one attribute of a release as bars with their errors, or two as a heat map. Costs nothing.

    \b
    Example:
      maquette plot people.maquette region sex -o region-sex.html
    """
    from maquette.results.loading import load

    chart = load(folder, ledger=ledger).plot(*names)
    place = output or Path(re.sub(r"[^\w-]+", "_", "-".join(names)) + ".html")
    console.say(f"wrote {chart.save(place)}")


def table(
    folder: Folder,
    names: Annotated[list[str] | None, typer.Argument(metavar="ATTRIBUTE...", help="To group by.")] = None,
    values: Annotated[
        str | None,
        typer.Option(
            "--values", help="What to show: count(*), share(), sum(x), mean(x), median(x), quantile(x, 0.9)."
        ),
    ] = None,
    where: Annotated[
        str | None, typer.Option("--where", help="Count only records that meet this condition.")
    ] = None,
    of: Of = None,
    ledger: PaidBy = None,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """A table of figures from a release, each with its error. Costs nothing and needs no access to the table.

    \b
    Example:
      maquette table people.maquette region --values "mean(age)" --where "sex = 'female'"
    """
    from maquette.linked.loading import load

    release = load(folder, ledger=ledger)
    result = release.table(*(names or ()), values=values, where=where, **_named(folder, of))
    _show(result, as_csv=as_csv, as_json=as_json)


def sql(
    folder: Folder,
    statement: Annotated[
        str, typer.Argument(metavar="SELECT", help="One SELECT; several tables are joined by key.")
    ],
    ledger: PaidBy = None,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Answer a SELECT from a release: counts, shares, sums, means and quantiles by groups, each with its error.

    \b
    Example:
      maquette sql people.maquette "select region, count(*), avg(age) from people group by region order by 2 desc"
    """
    from maquette.linked.loading import load

    _show(load(folder, ledger=ledger).sql(statement), as_csv=as_csv, as_json=as_json)


@dataclass(frozen=True, kw_only=True)
class ExportForms:
    """What is written of a release, in which forms."""

    csv: Annotated[bool, typer.Option("--csv", help="CSV files (the default).")] = False
    parquet: Annotated[bool, typer.Option("--parquet", help="Parquet files.")] = False
    xlsx: Annotated[bool, typer.Option("--xlsx", help="One Excel workbook.")] = False
    duckdb: Annotated[
        bool, typer.Option("--duckdb", help="One DuckDB database, of a release of several tables.")
    ] = False
    sqlite: Annotated[
        bool, typer.Option("--sqlite", help="One SQLite database, of a release of several tables.")
    ] = False
    tables: Annotated[
        list[str] | None,
        typer.Option("--table", metavar="A,B", help="A table as a file of its own; repeatable."),
    ] = None
    all_tables: Annotated[
        bool, typer.Option("--all-tables", help="Every table of one and of two attributes that was measured.")
    ] = False

    def chosen(self, able: Sequence[str]) -> list[str]:
        """The forms that are asked for, of those that there are for such a release."""
        forms = [form for form in ("csv", "parquet", "xlsx", "duckdb", "sqlite") if getattr(self, form)]
        for form in forms:
            if form not in able:
                raise ParameterError(f"--{form} is not for this release; choose of {', '.join(able)}")
        return forms or ["csv"]


def export(
    folder: Folder,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="The folder to write.")],
    parts: ExportForms,
    replace: Annotated[bool, typer.Option("--replace", help="Replace an earlier export.")] = False,
    ledger: PaidBy = None,
) -> None:
    """Write a release as plain files: rows, answers and tables with their errors, a dictionary of the columns.

    \b
    Example:
      maquette export people.maquette -o people-files --csv --table region,sex
    """
    from maquette.linked import LinkedRelease
    from maquette.linked import files as tables
    from maquette.linked.loading import load
    from maquette.results.export import FORMS
    from maquette.results.export import export as write

    release = load(folder, ledger=ledger)
    if isinstance(release, LinkedRelease):
        if parts.tables or parts.all_tables:
            raise ParameterError(
                "--table and --all-tables are for one table; export the release folder of one, which is "
                + " or ".join(str(folder / name) for name in release.views)
            )
        forms = parts.chosen(tables.FORMS)
        _say_written(release.export(output, forms=forms, replace=replace))  # pyright: ignore[reportArgumentType]
        return
    chosen = [tuple(part.strip() for part in text.split(",")) for text in parts.tables or ()]
    if any(not all(names) for names in chosen):
        raise ParameterError("expected --table with attributes joined by commas, such as --table region,sex")
    if parts.all_tables:
        chosen = list(dict.fromkeys([*chosen, *release.small_tables()]))
    forms = parts.chosen(FORMS)
    _say_written(write(release, output, forms=forms, tables=chosen, replace=replace))  # pyright: ignore[reportArgumentType]


def _say_written(place: Path) -> None:
    written = sorted(path for path in place.rglob("*") if path.is_file())
    console.say(f"wrote {place}: {len(written)} files")
    for path in written:
        console.say(f"  {path.relative_to(place)}  {path.stat().st_size:,} bytes")


def replicates(
    folder: Folder,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="The folder to write.")],
    count: Annotated[int, typer.Option("-k", "--count", help="How many sets of rows.")] = 20,
    ledger: PaidBy = None,
) -> None:
    """Further sets of rows, each fitted to the released tables with as much noise again: for standard errors.

    \b
    Example:
      maquette replicates people.maquette -k 20 -o people-replicates
    """
    from maquette.results.loading import load

    sets = load(folder, ledger=ledger).replicates(count)
    place = sets.save(output)
    console.say(
        f"wrote {place}: {count} files of {sets.databases[0].m:,} rows; docs/replicates.md has the rule"
    )


def _show(result: object, *, as_csv: bool, as_json: bool) -> None:
    import io

    import pyarrow.csv

    from maquette.results.export import plain_texts
    from maquette.results.tables import ResultTable

    assert isinstance(result, ResultTable)
    if as_json:
        console.say_json({"rows": result.to_pylist(), "notes": list(result.notes)})
    elif as_csv:
        buffer = io.BytesIO()
        pyarrow.csv.write_csv(plain_texts(result.arrow), buffer)
        console.say(buffer.getvalue().decode().rstrip("\n"))
        for note in result.notes:
            typer.echo(note, err=True)
    else:
        console.say(repr(result))
