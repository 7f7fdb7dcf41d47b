"""All commands under one name."""

from __future__ import annotations

from typing import Annotated

import typer

from maquette.cli import (
    answer,
    ask,
    audit,
    bound,
    choose,
    claim,
    console,
    dimension,
    domain,
    learn,
    ledger,
    plan,
    release,
    schema,
    serve,
    start,
)
from maquette.cli.console import Guarded

app = typer.Typer(
    cls=Guarded,
    name="maquette",
    help="Differentially private query release: one small database that answers very many queries.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for name, group in (
    ("domain", domain.app),
    ("schema", schema.app),
    ("ledger", ledger.app),
    ("audit", audit.app),
    ("source", domain.places),
):
    app.add_typer(group, name=name)
for part in (start, plan, release, answer, ask, choose, audit, bound, claim, dimension, learn, serve):
    part.register(app)


def leave_only(names: list[str]) -> None:
    """Of all commands only these, where there are such: typer builds every one before it runs one."""
    if names == ["start"]:
        names = start.COMMANDS
    commands = [command for command in app.registered_commands if command.name in names]
    groups = [group for group in app.registered_groups if group.name in names]
    if commands or groups:
        app.registered_commands, app.registered_groups = commands, groups


def _say_version(is_wanted: bool = True) -> None:
    from maquette import __version__

    if is_wanted:
        console.say(f"maquette {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_say_version, help="Print the version.")
    ] = False,
) -> None:
    """Differentially private query release: one small database that answers very many queries."""


@app.command("version")
def version_command() -> None:
    """Print the version.

    \b
    Example:
      maquette version
    """
    _say_version()
