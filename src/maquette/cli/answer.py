"""`maquette answer` and `maquette report`: reading a finished release."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from maquette.cli import console
from maquette.cli.completion import with_hint
from maquette.cli.options import AsJson
from maquette.errors import WorkloadError

Folder = Annotated[Path, typer.Argument(metavar="RELEASE", help="A release folder.")]
PaidBy = Annotated[
    str | None,
    typer.Option(
        "--ledger", help="The ledger that paid for it, to check it against. Default: a ledger file beside it."
    ),
]


def register(app: typer.Typer) -> None:
    app.command("answer")(answer)
    app.command("report")(report)


def answer(
    folder: Folder,
    predicates: Annotated[
        list[str], typer.Argument(metavar="PREDICATE...", help="SQL conditions, one or more.")
    ],
    ledger: PaidBy = None,
    as_json: AsJson = False,
) -> None:
    """Answer questions from a release. Costs nothing and needs no access to the table.

    \b
    Example:
      maquette answer people.maquette "age >= 60 and sex = 'female'"
    """
    from maquette.results.folder import load

    release = load(folder, ledger=ledger)
    try:
        answers = [release.answer(text) for text in predicates]
    except WorkloadError as error:
        raise WorkloadError(with_hint(release.domain, str(error))) from None
    if as_json:
        console.say_json([asdict(one) for one in answers])
        return
    for one in answers:
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
    from maquette.results.folder import REPORT, load

    target = output if output is not None else folder / REPORT
    load(folder, ledger=ledger).report(target)
    console.say(f"wrote {target}")
