"""`maquette demo`: the whole way of the data in under a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maquette.cli import console
from maquette.cli.options import Quiet


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to work in.")] = Path(
        "demo-output"
    ),
    quiet: Quiet = False,
) -> None:
    """Invent a census table, release it, ask the release questions and write the report.

    \b
    Example:
      maquette demo -o demo-output
    """
    from maquette import demo as show
    from maquette.results import wording
    from maquette.results.folder import REPORT

    console.say("1. An invented table of 20,000 people, and the domain that declares its columns")
    source, declared = show.write(output)
    console.say(f"   {source}\n   {declared}")
    console.say(f"2. All 1-, 2- and 3-way marginals for epsilon = {show.EPSILON:g}, delta = {show.DELTA:g}")
    with console.progress(quiet=quiet) as tell:
        result = show.release(source, declared, progress=tell)
        place = result.save(output / "people.maquette")
    console.say(f"   {result.headline}")
    console.facts(result.facts(), indent="   ")
    console.say(
        "3. Questions to the release, which cost nothing more (the table is invented, so true values can be shown)"
    )
    for question in show.QUESTIONS:
        console.say(f"   {question}")
        console.say(f"      {result.answer(question)}; truth {wording.percent(show.truth(question))}")
    console.say("4. The same by hand")
    console.say(f"   maquette answer {place} \"age >= 60 and work = 'retired'\"")
    console.say(f"   maquette ledger show {output / show.LEDGER}")
    console.say(f"The report, for a browser: {place / REPORT}")
