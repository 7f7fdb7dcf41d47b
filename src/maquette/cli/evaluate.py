"""`maquette evaluate`: a release against the truth, for whoever holds the table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maquette.cli import console
from maquette.cli.answer import PaidBy
from maquette.cli.options import (
    AsJson,
    Delimiter,
    Encoding,
    Memory,
    Quiet,
    TableName,
    TableQuery,
    file_name,
    open_table,
)

if TYPE_CHECKING:
    from maquette.audit.evaluate import Errors, Evaluation


SUFFIX = ".evaluation-not-private.html"


def register(app: typer.Typer) -> None:
    app.command("evaluate")(evaluate)


def evaluate(
    folder: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release folder.")],
    source: Annotated[str, typer.Argument(metavar="TABLE", help="The private table that it was made from.")],
    domain: Annotated[
        Path | None,
        typer.Option("--domain", "-d", help="The domain file. Default: the domain of the release."),
    ] = None,
    delimiter: Delimiter = ",",
    encoding: Encoding = "utf-8",
    memory: Memory = None,
    table: TableName = None,
    query: TableQuery = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help=f"The page with plots. Default: TABLE{SUFFIX}."),
    ] = None,
    ledger: PaidBy = None,
    page: Annotated[bool, typer.Option(help="Write the page.")] = True,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Print and plot the true errors of a release. NOT PRIVATE, NOT FOR RELEASE: for whoever holds the table.

    It looks at the private table without noise and without payment. The ledger and the release folder stay as
    they are; keep what it prints and writes as you keep the table.

    \b
    Example:
      maquette evaluate people.maquette people.csv
    """
    from maquette.audit.evaluate import check_default_page_place, check_page_place, write_page
    from maquette.audit.evaluate import evaluate as compare
    from maquette.domain import Domain
    from maquette.results.binding import payer_beside
    from maquette.results.folder import load

    release = load(folder, ledger=ledger)
    payer = ledger if ledger is not None else payer_beside(folder, release)
    place = output if output is not None else Path(f"{file_name(source, table)}{SUFFIX}")
    if page:
        check_page_place(place)
    if page and output is None:
        check_default_page_place(place)
    declared = release.domain if domain is None else Domain.load(domain)
    with console.progress(quiet=quiet) as tell:
        handle = open_table(
            source,
            declared,
            delimiter=delimiter,
            encoding=encoding,
            table=table,
            query=query,
            tell=tell,
            person=None if release.persons is None else release.persons.column,
            rows_per_person=None if release.persons is None else release.persons.rows,
            memory=memory,
        )
        tell("comparing with the truth", 0.0)
        evaluation = compare(release, handle, ledger=payer)
        tell("comparing with the truth", 1.0)
        if page:
            write_page(evaluation, place)
    if as_json:
        console.say_json(evaluation.to_dict() | {"page": str(place) if page else None})
        return
    _say(evaluation)
    if page:
        console.say(f"wrote {place}: keep it as you keep the table")


def _say(evaluation: Evaluation) -> None:
    console.say(evaluation.warning)
    console.say(f"{evaluation.workload}, {evaluation.mechanism}, {evaluation.records:,} records")
    console.say(f"table: {evaluation.table}")
    console.say("errors in points (percent of all records); L1 is the sum over a whole marginal")
    head = ("group", "of", "largest", "mean", "mean L1", "stated", "within it", "intervals that held")
    rows: list[tuple[str, ...]] = []
    for group in evaluation.groups:
        checks = group.intervals
        intervals = (
            "–"
            if checks.held is None
            else f"{100 * checks.held:.1f} % of {checks.asked}, stated {_share(checks.promised)}"
        )
        rows.append(
            (
                group.name,
                "answers",
                *_figures(group.answers),
                _cell(group.stated),
                _share(group.held),
                intervals,
            )
        )
        if group.rows is not None:
            rows.append(("", "rows", *_figures(group.rows), "–", "–", "–"))
    console.table(head, rows, right=(2, 3, 4, 5, 6))
    for one in evaluation.worst[:3]:
        worse = one.answers if one.rows is None else one.rows
        console.say(
            f"  among the worst: {', '.join(one.attributes)}: L1 {_cell(worse.l1)}, largest {_cell(worse.largest)}"
        )


def _figures(errors: Errors) -> tuple[str, str, str]:
    return _cell(errors.largest), _cell(errors.mean), _cell(errors.l1)


def _cell(value: float | None) -> str:
    """An error in points (percent of all records)."""
    return "–" if value is None else f"{100 * value:.4g}"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.4g} %"
