"""What commands print and draw: text or JSON on stdout, progress on stderr, plots as files."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from maquette.core._check import is_writable, shown
from maquette.errors import MaquetteError, MaquetteWarning, ParameterError, ReleaseError, presentable
from maquette.progress import SILENT, Progress, Stage


def say(text: str = "") -> None:
    """A line for the reader."""
    typer.echo(text)


def say_json(value: Any) -> None:
    """One JSON document on stdout and nothing else."""
    from maquette.results.document import plain

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
    waiting = round(width * min(max(share + reserved, 0.0), 1.0)) - full
    return "█" * full + "▒" * waiting + "░" * (width - full - waiting)


PLOT_KINDS = (".svg", ".png", ".html", ".json")


def check_plot(path: Path) -> None:
    """Refuse a kind of file that cannot be written, before anything is computed."""
    if path.suffix not in PLOT_KINDS:
        raise ParameterError(f"expected a plot file that ends in {', '.join(PLOT_KINDS)}, got {path.name}")


def write_plot(specification: dict[str, Any], path: Path, *, title: str) -> None:
    """A Vega-Lite specification as a file of the kind that its name says."""
    from maquette.results.charts import Chart

    check_plot(path)
    try:
        Chart(specification, title).save(path)
    except ReleaseError as error:
        raise ParameterError(f"cannot write the plot to {str(error).removeprefix('cannot write ')}") from None


@contextmanager
def progress(*, quiet: bool) -> Generator[Progress]:
    """Progress of long work on stderr: a bar in a terminal, one line per step elsewhere, silence if `quiet`."""
    if quiet:
        yield SILENT
    elif sys.stderr.isatty():
        with _live() as tell:
            yield tell
    else:
        yield _Lines()


SPOKEN_EVERY = 10.0
"""Seconds between two lines about the same stage, where there is no terminal."""


def duration(seconds: float) -> str:
    """A time in words: 8 s, 3 min, 2.5 h."""
    if seconds < 100:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _split(what: str) -> tuple[str, str]:
    """The name of a stage and what it says about itself, which changes as it goes on."""
    name, _, detail = what.partition(": ")
    return name, detail


class _Lines(Progress):
    """One line when a stage begins, and one every ten seconds while it goes on."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._schedule = Schedule()
        self._spoken: dict[str, float] = {}

    def expect(self, stages: Sequence[Stage]) -> None:
        self._schedule.expect(stages)

    def __call__(self, what: str, share: float) -> None:
        (name, detail), now = _split(what), self._clock()
        stage = self._schedule.reach(name, share, now)
        if name not in self._spoken:
            self._spoken[name] = now
            typer.echo(f"{_numbered(self._schedule, name)} ...{_whole(self._schedule, now)}", err=True)
        if now - self._spoken[name] < SPOKEN_EVERY or share >= 1:
            return
        self._spoken[name] = now
        rest = stage.remaining(now)
        left = "" if rest is None else f", about {duration(rest)} left"
        words = detail or f"{100 * share:.0f} %"
        typer.echo(f"{_numbered(self._schedule, name)}: {words}{left}{_whole(self._schedule, now)}", err=True)


def _numbered(schedule: Schedule, name: str) -> str:
    """A stage with its number among all, where they are known."""
    place = schedule.place(name)
    return name if place is None else f"[{place[0]}/{place[1]}] {name}"


def _whole(schedule: Schedule, now: float) -> str:
    rest = schedule.remaining(now)
    return "" if rest is None or rest < 1 else f" (about {duration(rest)} for all that is left)"


class _Bars(Progress):
    """A bar for every stage, under one clock for all; a stage that says nothing of its share moves all the same."""

    def __init__(self, bars: Any) -> None:
        self._bars = bars
        self._tasks: dict[str, Any] = {}
        self._schedule = Schedule()
        self._all = bars.add_task("in all", total=None, rest="")

    def expect(self, stages: Sequence[Stage]) -> None:
        self._schedule.expect(stages)

    def __call__(self, what: str, share: float) -> None:
        (name, detail), now = _split(what), time.monotonic()
        stage = self._schedule.reach(name, share, now)
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(_numbered(self._schedule, name), total=None, rest="")
            self._finish_others(name)
        rest = stage.remaining(now)
        words = detail if rest is None else f"about {duration(rest)} left"
        self._bars.update(self._tasks[name], total=1.0 if share > 0 else None, completed=share, rest=words)
        self._bars.update(self._all, rest=self._in_all(name, now))

    def _in_all(self, name: str, now: float) -> str:
        place, rest = self._schedule.place(name), self._schedule.remaining(now)
        if place is None:
            return f"stage {len(self._tasks)}"
        left = "" if rest is None else f", about {duration(rest)} left"
        return f"stage {place[0]} of {place[1]}{left}"

    def _finish_others(self, name: str) -> None:
        for other, task in self._tasks.items():
            if other != name and not self._bars.tasks[self._bars.task_ids.index(task)].finished:
                self._bars.update(task, total=1.0, completed=1.0, rest="done")


@contextmanager
def _live() -> Generator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[rest]}"),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        yield _Bars(bars)


# How a command ends when something goes wrong: one clean message on stderr, and nothing private in it.

# typer may carry its own copy of click, so the class is found through one of its children
UsageProblem: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")

INTERRUPTED = 130
INTERNAL = 1

_INTERRUPTED = (
    "interrupted. What was paid so far is in the ledger, with its answers; the same command continues from there; of "
    "what was paid, only a question that was being answered is paid again"
)
_INTERNAL = (
    "internal error ({kind}). Nothing further was spent: what the ledger has already paid for stays stored there, and "
    "the same command continues from there. To see where it happened, run again with MAQUETTE_DEBUG=1"
)
_NOT_FOR_SHARING = (
    "the traceback below can contain values of the private table: read it yourself, do not share it"
)


class Guarded(TyperGroup):
    """The root command: turns every failure into a message and an exit code."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for word in args:
            if not is_writable(word):  # bytes that are no UTF-8
                raise typer.BadParameter(f"{shown(word)} has characters that no file can hold")
        ctx.meta[_WORDS] = [part for word in args for part in (word, word.partition("=")[2])]
        with _bounded_usage():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            with _warnings_in_words(), _bounded_usage():
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
        except OSError as error:
            place = _named_place(error, ctx.meta[_WORDS])
            if place is None:
                _explain(error)
                raise typer.Exit(INTERNAL) from None
            complain(f"error: cannot use {shown(place)}: {error.strerror}; choose another place")
            raise typer.Exit(MaquetteError.exit_code) from None
        except Exception as error:
            _explain(error)
            raise typer.Exit(INTERNAL) from None


_WORDS = "maquette.words"
"""Where a context keeps what was typed, with and without the names of options."""


def _named_place(error: OSError, words: Sequence[str]) -> str | None:
    """The place that an error is about, if the command names it or a folder around it: what was typed may be shown."""
    place = os.fspath(error.filename) if isinstance(error.filename, (str, os.PathLike)) else None
    named = [Path(word) for word in words if word]
    return place if place and any(one in (Path(place), *Path(place).parents) for one in named) else None


@contextmanager
def _bounded_usage() -> Generator[None]:
    """The parser's own messages quote what was typed at any length; ours do not."""
    try:
        yield
    except UsageProblem as error:
        error.__dict__["message"] = presentable(error.__dict__["message"])
        raise


@contextmanager
def _warnings_in_words() -> Generator[None]:
    """Warnings of this package as messages, each once; others stay as they are."""
    shown: set[str] = set()
    with warnings.catch_warnings():
        show_others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *more: Any) -> None:
            if not issubclass(category, MaquetteWarning):
                show_others(message, category, *more)
            elif str(message) not in shown:
                shown.add(str(message))
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


# How far a whole run is: which of its stages it is in, and how long all that is left will take.

SURE_AFTER = 2.0
"""Seconds of a stage after which its speed says something about the rest."""
PRIOR_SECONDS = 3.0
"""The weight of the predictions themselves: a first short stage says little about the rest."""
SLOWEST, FASTEST = 20.0, 0.05
"""Bounds of the pace: seconds that pass for one that was predicted."""


class RunningStage:
    """One stage of long work: how far it is, and how long the rest takes at the speed that was seen so far."""

    def __init__(self, now: float) -> None:
        self.started = self._last_at = now
        self._first: tuple[float, float] | None = None
        self.share = 0.0

    def reach(self, share: float, now: float) -> None:
        """Note how far it is; the speed counts from the first report, which may be above zero."""
        self._first = self._first or (share, now)
        self.share, self._last_at = share, now

    def remaining(self, now: float) -> float | None:
        """Seconds to its end; None while too little was seen to say so honestly."""
        share, since = self._first or (0.0, now)
        passed, done = self._last_at - since, self.share - share
        if now - self.started < SURE_AFTER or passed <= 0 or done <= 0 or self.share >= 1:
            return None
        return max((1 - self.share) * passed / done - (now - self._last_at), 0.0)


@dataclass
class Schedule:
    """The stages that were announced, those that were seen, and the pace at which predictions came true.

    Times are predicted from public sizes before the run, and multiplied by how much longer the stages so far took.
    """

    expected: Sequence[Stage] = ()
    _spans: dict[str, float] = field(default_factory=dict[str, float])
    _current: tuple[str, RunningStage] | None = None

    def expect(self, stages: Sequence[Stage]) -> None:
        """What is to come, with what is done already."""
        self.expected = stages

    def reach(self, name: str, share: float, now: float) -> RunningStage:
        """A report of a stage; a new name ends the one before."""
        if self._current is None or self._current[0] != name:
            if self._current is not None:
                last, stage = self._current
                self._spans[last] = now - stage.started
            self._current = (name, RunningStage(now))
        self._current[1].reach(share, now)
        return self._current[1]

    def place(self, name: str) -> tuple[int, int] | None:
        """Which of how many stages it is; None where nothing was announced, or not this one.

        A stage that comes later than announced has the place of the last one before it: places do not go back.
        """
        names = [stage.name for stage in self.expected]
        if name not in names:
            return None
        farthest = max((names.index(one) for one in self._spans if one in names), default=0)
        return max(names.index(name), farthest) + 1, len(names)

    @property
    def pace(self) -> float:
        """Seconds that passed for each one that was predicted, over the stages that are done."""
        done = [stage for stage in self.expected if stage.name in self._spans]
        predicted = sum(stage.seconds for stage in done)
        passed = sum(self._spans[stage.name] for stage in done)
        pace = (passed + PRIOR_SECONDS) / (predicted + PRIOR_SECONDS)
        return min(max(pace, FASTEST), SLOWEST)

    def remaining(self, now: float) -> float | None:
        """Seconds to the end of everything; None where nothing was announced."""
        place = None if self._current is None else self.place(self._current[0])
        if self._current is None or place is None:
            return None
        stage, prediction = self._current[1], self.expected[place[0] - 1]
        own = stage.remaining(now)
        if own is None:
            own = max(prediction.seconds * self.pace - (now - stage.started), 0.0)
        return own + self.pace * sum(later.seconds for later in self.expected[place[0] :])
