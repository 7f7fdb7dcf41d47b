"""`maquette serve`: releases, or tables with their ledgers, as a web site."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from maquette.cli import console
from maquette.errors import ParameterError

NEEDS = "the service needs more packages: pip install 'maquette[serve]'"


def register(app: typer.Typer) -> None:
    app.command("serve")(serve)


def serve(
    places: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RELEASE...]", help="Release folders, or folders that hold some."),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.")] = 8765,
    name: Annotated[
        list[str] | None,
        typer.Option("--name", help="A host name that the site answers to; may be repeated."),
    ] = None,
    title: Annotated[str, typer.Option(help="What the site is called.")] = "maquette",
    behind_tls: Annotated[
        bool, typer.Option("--behind-tls", help="A proxy that speaks TLS is in front of a public address.")
    ] = False,
) -> None:
    """Show releases as a web site: tables, charts, SQL and files with their errors. No table is behind it.

    \b
    Example:
      maquette serve people.maquette
    """
    try:
        from maquette.web.app import LOCAL, public_site
        from maquette.web.server import check_address, run
    except ImportError as error:
        raise ParameterError(f"{NEEDS} ({error.name} is missing)") from None
    from maquette.web.catalog import Catalog

    check_address(host, behind_tls=behind_tls)
    if not places:
        raise ParameterError("expected at least one release folder to serve")
    catalog = Catalog.of(places)
    app = public_site(catalog, title=title, hosts=(*LOCAL, host, *(name or [])))
    count = len(catalog.names())
    run(app, host=host, port=port, on_start=lambda at: _say(host, at, f"{count} release{'s'[: count > 1]}"))


def _say(host: str, port: int, what: str) -> None:
    console.say(f"serving {what} at http://{host}:{port}/ (process {os.getpid()}, Ctrl-C ends it)")
