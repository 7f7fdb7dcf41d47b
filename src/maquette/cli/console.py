"""What commands print: text or JSON on stdout, progress on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import typer

Progress = Callable[[str, float], None]


def say(text: str = "") -> None:
    """A line for the reader."""
    typer.echo(text)


def say_json(value: Any) -> None:
    """One JSON document on stdout and nothing else."""
    from maquette.release.document import plain

    typer.echo(json.dumps(plain(value), indent=1, ensure_ascii=False, allow_nan=False))


def facts(lines: Mapping[str, str], *, indent: str = "  ") -> None:
    """Names and values in two columns."""
    width = max((len(name) for name in lines), default=0)
    for name, text in lines.items():
        say(f"{indent}{name:<{width}}  {text}")


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> None:
    """A plain table that survives pipes and narrow terminals; columns in `right` are aligned to the right."""
    widths = [max(len(line[i]) for line in [head, *rows]) for i in range(len(head))]
    for line in [head, *rows]:
        cells = [
            text.rjust(widths[i]) if i in right else text.ljust(widths[i]) for i, text in enumerate(line)
        ]
        say("  " + "  ".join(cells).rstrip())


def bar(share: float, reserved: float = 0.0, *, width: int = 40) -> str:
    """How full something is, and how much of the rest is reserved."""
    full = round(width * min(max(share, 0.0), 1.0))
    held = round(width * min(max(share + reserved, 0.0), 1.0)) - full
    return "█" * full + "▒" * held + "░" * (width - full - held)


@contextmanager
def progress(*, quiet: bool) -> Generator[Progress]:
    """Progress of long work on stderr: a bar in a terminal, one line per step elsewhere, silence if `quiet`."""
    if quiet:
        yield lambda _what, _share: None
    elif sys.stderr.isatty():
        with _live() as tell:
            yield tell
    else:
        yield _lines()


def _lines() -> Progress:
    told: set[str] = set()

    def tell(what: str, _share: float) -> None:
        if what not in told:
            told.add(what)
            typer.echo(f"{what} ...", err=True)

    return tell


@contextmanager
def _live() -> Generator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, Any] = {}

        def tell(what: str, share: float) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=1.0)
            bars.update(tasks[what], completed=share)

        yield tell
