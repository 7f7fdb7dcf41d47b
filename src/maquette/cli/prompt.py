"""The prompt of `maquette ask`: questions from a terminal or a pipe, one per line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from maquette.cli import console
from maquette.cli.guard import complain
from maquette.errors import BudgetExceeded, MaquetteError, ParameterError, UselessAnswer

if TYPE_CHECKING:
    from maquette.sessions import Forecast, Session, SessionAnswer

HELP = """a predicate       ask it, after a look at its price
:forecast PREDICATE  what it would cost, and nothing else
:budget           what is left
:history          what was asked
:synthetic M FILE rows drawn from what is believed, as CSV
:help             this list
:quit             leave; the same command goes on from here"""
_REFUSED = {
    "questions": "all questions that this session takes are asked",
    "epochs": "all epochs that this session plans are used up",
    "budget": "the budget does not cover it",
    "error": "its error would say nothing",
}


def words(told: SessionAnswer | Forecast) -> str:
    """An answer, or what one would be, in a line."""
    from maquette.sessions import SessionAnswer

    if isinstance(told, SessionAnswer):
        cost = f", {told.unit} {told.cost:.4g}" if told.cost else ""
        return f"{told}{cost}" + (f", receipt {told.receipt}" if told.receipt else "")
    error = "" if told.error is None else f", within {100 * told.error:.2f} points"
    if told.refusal is not None:
        return f"would be refused: {_REFUSED[told.refusal]} ({told.unit} {told.cost:.4g}{error})"
    if told.kind == "size":
        return (
            f"first the number of records, {told.unit} {told.size_cost:.4g}; what the question takes depends on it, "
            f"altogether at most {told.unit} {told.cost:.4g}"
        )
    return f"{told.kind}: at most {told.unit} {told.cost:.4g}{error}"


def say_budget(opened: Session) -> None:
    """A gauge of what is left."""
    left, total = opened.left, opened.total
    console.say(
        f"  {console.bar(1 - left / total)} {opened.unit} {left:.4g} left of {total:.4g}, "
        f"{opened.questions_left:,} questions left"
    )


class Prompt:
    """Questions from a terminal, with a look at the price first; or from a pipe, one per line."""

    def __init__(
        self,
        opened: Session,
        *,
        as_json: bool,
        any_error: bool = False,
        read: Callable[[], str] | None = None,
    ) -> None:
        self._session = opened
        self._as_json = as_json
        self._any_error = any_error
        self._code = 0
        self._interactive = sys.stdin.isatty() and not as_json
        self._read = read or self._line

    def run(self) -> int:
        """Until the end; the exit code, which for a pipe is that of the worst line."""
        if self._interactive:
            console.say(f"session {self._session.key}; :help for help, :quit to leave")
            say_budget(self._session)
        while True:
            try:
                line = self._read().strip()
            except EOFError:
                return self._code
            if line in (":quit", ":q", "quit", "exit"):
                return self._code
            if line:
                self._take(line)

    def _take(self, line: str) -> None:
        try:
            self._command(line) if line.startswith(":") else self._ask(line)
        except MaquetteError as error:
            refused = isinstance(error, (BudgetExceeded, UselessAnswer))
            complain(f"{'refused' if refused else 'error'}: {error}")
            if not self._interactive:
                self._code = max(self._code, error.exit_code)

    def _ask(self, text: str) -> None:
        told = self._session.forecast(text, any_error=self._any_error)
        if self._interactive and told.kind == "size" and told.refusal is None:
            if not typer.confirm(f"  {words(told)}. Buy the number of records?", default=True):
                return
            self._session.buy_size()
            told = self._session.forecast(text, any_error=self._any_error)
        if self._interactive and told.cost > 0 and told.refusal is None and not self._agrees(told):
            return
        answer = self._session.ask(text, any_error=self._any_error, at_most=told.cost)
        if self._as_json:
            console.say_json(asdict(answer))
            return
        console.say(f"  {words(answer)}")
        for note in answer.notes:
            console.say(f"  note: {note}")
        if self._interactive:
            say_budget(self._session)

    def _agrees(self, told: Forecast) -> bool:
        return typer.confirm(f"  {words(told)}. Ask?", default=True)

    def _command(self, line: str) -> None:
        word, _, rest = line[1:].partition(" ")
        match word:
            case "forecast":
                console.say(f"  {words(self._session.forecast(rest, any_error=self._any_error))}")
            case "budget":
                say_budget(self._session)
            case "history":
                self._history()
            case "synthetic":
                self._synthetic(rest)
            case "help":
                console.say(HELP)
            case _:
                raise ParameterError(f"no command :{word}; :help lists them")

    def _history(self) -> None:
        rows = [
            (
                str(past.sequence),
                past.when[:19].replace("T", " "),
                past.what,
                ""
                if past.value is None
                else f"{past.value:.4f}"
                if past.kind != "size"
                else f"{past.value:.0f}",
                past.kind,
                f"{past.cost:.4g}",
            )
            for past in self._session.history()
        ]
        console.table(("entry", "when (UTC)", "question", "value", "kind", "cost"), rows, right=(0, 3, 5))

    def _synthetic(self, rest: str) -> None:
        from pyarrow import csv

        count, _, name = rest.partition(" ")
        if not count.isdigit() or not name:
            raise ParameterError("expected :synthetic M FILE, such as :synthetic 1000 rows.csv")
        try:
            csv.write_csv(self._session.synthetic(int(count)), Path(name))
        except OSError as error:
            raise ParameterError(f"cannot write {name}: {error.strerror}") from None
        console.say(f"  wrote {int(count):,} rows to {name}")

    def _line(self) -> str:
        if not self._interactive:
            line = sys.stdin.readline()
            if not line:
                raise EOFError
            return line
        return input("? ")
