"""`maquette plot`: a chart of one or two attributes of a release, as a file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from maquette.cli import console
from maquette.cli.answer import Folder, PaidBy


def register(app: typer.Typer) -> None:
    app.command("plot")(plot)


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
    from maquette.results.folder import load

    chart = load(folder, ledger=ledger).plot(*names)
    place = output or Path(re.sub(r"[^\w-]+", "_", "-".join(names)) + ".html")
    console.say(f"wrote {chart.save(place)}")
