"""How a command ends when something goes wrong: one clean message on stderr, and nothing private in it."""

from __future__ import annotations

import os
import traceback
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from maquette.errors import MaquetteError, MaquetteWarning

# typer may carry its own copy of click, so the class is found through one of its children
UsageProblem: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")

INTERRUPTED = 130
INTERNAL = 1

_INTERRUPTED = (
    "interrupted. What was paid so far is in the ledger, with its answers; the same command continues from there "
    "and pays nothing twice"
)
_INTERNAL = (
    "internal error ({kind}). Nothing further was spent: what the ledger has already paid for stays stored there, and "
    "the same command continues at no cost. To see where it happened, run again with MAQUETTE_DEBUG=1"
)
_NOT_FOR_SHARING = (
    "the traceback below can contain values of the private table: read it yourself, do not share it"
)


class Guarded(TyperGroup):
    """The root command: turns every failure into a message and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with _warnings_in_words():
                return super().invoke(ctx)
        except (UsageProblem, typer.Exit):
            raise
        except MaquetteError as error:
            complain(f"error: {error}")
            raise typer.Exit(error.exit_code) from None
        except (KeyboardInterrupt, typer.Abort):
            complain(_INTERRUPTED)
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            _drop_stdout()
            raise typer.Exit(INTERNAL) from None
        except Exception as error:
            _explain(error)
            raise typer.Exit(INTERNAL) from None


@contextmanager
def _warnings_in_words() -> Generator[None]:
    """Warnings of this package as messages, each once; others stay as they are."""
    told: set[str] = set()
    with warnings.catch_warnings():
        shown = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *more: Any) -> None:
            if not issubclass(category, MaquetteWarning):
                shown(message, category, *more)
            elif str(message) not in told:
                told.add(str(message))
                complain(f"warning: {message}")

        warnings.showwarning = show
        warnings.simplefilter("always", MaquetteWarning)
        yield


def complain(message: str) -> None:
    """One message on stderr."""
    typer.echo(message, err=True)


def _explain(error: Exception) -> None:
    # the text of an unforeseen error may quote a row, so only its kind is shown
    complain(_INTERNAL.format(kind=type(error).__name__))
    if os.environ.get("MAQUETTE_DEBUG") == "1":
        complain(_NOT_FOR_SHARING)
        complain("".join(traceback.format_exception(error)))


def _drop_stdout() -> None:
    """The reader has gone; keep the interpreter from complaining about it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
