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
    console,
    demo,
    dimension,
    domain,
    evaluate,
    export,
    learn,
    ledger,
    plot,
    release,
    serve,
    source,
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
app.add_typer(domain.app, name="domain")
app.add_typer(ledger.app, name="ledger")
app.add_typer(audit.app, name="audit")
app.add_typer(source.app, name="source")
release.register(app)
answer.register(app)
export.register(app)
plot.register(app)
ask.register(app)
choose.register(app)
evaluate.register(app)
bound.register(app)
dimension.register(app)
demo.register(app)
learn.register(app)
serve.register(app)


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
