"""`maquette ask`: one question, or a prompt for many, on one durable budget."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maquette.cli import console
from maquette.cli.guard import complain
from maquette.cli.options import (
    AsJson,
    Beta,
    Delimiter,
    Delta,
    DomainFile,
    Epsilon,
    Quiet,
    RelationName,
    TableName,
    TableQuery,
)
from maquette.errors import BudgetExceeded, MaquetteError, ParameterError

if TYPE_CHECKING:
    from maquette.sessions import Forecast, Session, SessionAnswer

HELP = """a predicate       ask it, after a look at its price
:forecast PREDICATE  what it would cost, and nothing else
:budget           what is left
:history          what was asked
:synthetic M FILE rows drawn from what is believed, as CSV
:help             this list
:quit             leave; the same command goes on from here"""


def register(app: typer.Typer) -> None:
    app.command("ask")(ask)


def ask(
    source: Annotated[
        str, typer.Argument(metavar="TABLE", help="The private table: CSV, Parquet, Arrow, DuckDB.")
    ],
    domain: DomainFile,
    epsilon: Epsilon,
    predicates: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PREDICATE]...", help="SQL conditions; without any, a prompt."),
    ] = None,
    delta: Delta = 0.0,
    beta: Beta = 0.05,
    alpha: Annotated[
        float | None, typer.Option(help="Wanted error of every answer; one that suits the budget if absent.")
    ] = None,
    mechanism: Annotated[str, typer.Option(help="pmw, median or direct.")] = "pmw",
    queries: Annotated[int, typer.Option(help="How many new questions the session takes.")] = 10_000,
    lasting: Annotated[
        bool, typer.Option("--lasting", help="The smallest error at which the budget lasts for all of them.")
    ] = False,
    relation: RelationName = "add-remove",
    ledger: Annotated[
        str | None, typer.Option(help="Ledger path or URL; made on first use. Beside the table if absent.")
    ] = None,
    total_epsilon: Annotated[
        float | None, typer.Option(help="Total of a new ledger; this session's epsilon if absent.")
    ] = None,
    total_delta: Annotated[
        float | None, typer.Option(help="Total of a new ledger; this session's delta if absent.")
    ] = None,
    analyst: Annotated[
        str | None, typer.Option(help="Who asks; each analyst has sessions of their own.")
    ] = None,
    share: Annotated[
        float | None, typer.Option(help="Share of the ledger's total that is set aside for the analyst.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="The session's name in the ledger, to go on with it.")
    ] = None,
    forecast: Annotated[
        bool, typer.Option("--forecast", help="Only say what the questions would cost.")
    ] = False,
    delimiter: Delimiter = ",",
    table: TableName = None,
    query: TableQuery = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Ask a private table one question after the other. Exit code 3 if the budget does not cover one.

    The budget is set aside when the session opens, and what was asked before is free. The same command again goes
    on with the same session.

    \b
    Example:
      maquette ask people.csv --domain people.domain.json --epsilon 1 --ledger people.ledger \\
        "age between 30 and 40"
    """
    from maquette.accounting.budget import Budget
    from maquette.domain import Domain
    from maquette.gate import owner
    from maquette.queries import where
    from maquette.sessions import session

    declared = Domain.load(domain)
    Budget(epsilon, delta)
    for text in predicates or []:  # what cannot be read is refused before the table is opened
        where(declared, text)
    with console.progress(quiet=quiet) as tell:
        handle = owner.open(
            source,
            domain=declared,
            delimiter=delimiter,
            table=table,
            query=query,
            progress=lambda part: tell("reading the table", part),
        )
        opened = session(
            handle,
            epsilon=epsilon,
            delta=delta,
            beta=beta,
            alpha=alpha,
            mechanism=mechanism,
            queries=queries,
            lasting=lasting,
            relation=relation,
            ledger=ledger,
            total_epsilon=total_epsilon,
            total_delta=total_delta,
            analyst=analyst,
            share=share,
            key=key,
        )
    if predicates:
        _ask_each(opened, predicates, forecast=forecast, as_json=as_json)
    else:
        Prompt(opened, as_json=as_json).run()


def _ask_each(opened: Session, predicates: list[str], *, forecast: bool, as_json: bool) -> None:
    found: list[dict[str, Any]] = []
    try:
        for text in predicates:
            told = opened.forecast(text) if forecast else opened.ask(text)
            found.append(asdict(told))
            if not as_json:
                console.say(text)
                console.say(f"  {_words(told)}")
                for note in getattr(told, "notes", ()):
                    console.say(f"  note: {note}")
    finally:
        if as_json:
            console.say_json({"session": opened.key, "forecasts" if forecast else "answers": found})
        elif found:
            _say_budget(opened)


def _words(told: SessionAnswer | Forecast) -> str:
    from maquette.sessions import SessionAnswer

    if isinstance(told, SessionAnswer):
        cost = f", {told.unit} {told.cost:.4g}" if told.cost else ""
        return f"{told}{cost}" + (f", receipt {told.receipt}" if told.receipt else "")
    error = "" if told.error is None else f", within {100 * told.error:.2f} points"
    if told.refusal is not None:
        return f"would be refused: {told.refusal}"
    return f"{told.kind}: at most {told.unit} {told.cost:.4g}{error}"


def _say_budget(opened: Session) -> None:
    left, total = opened.left, opened.total
    console.say(
        f"  {console.bar(1 - left / total)} {opened.unit} {left:.4g} left of {total:.4g}, "
        f"{opened.questions_left:,} questions left"
    )


class Prompt:
    """Questions from a terminal, with a look at the price first; or from a pipe, one per line."""

    def __init__(self, opened: Session, *, as_json: bool, read: Callable[[], str] | None = None) -> None:
        self._session = opened
        self._as_json = as_json
        self._interactive = sys.stdin.isatty() and not as_json
        self._read = read or self._line

    def run(self) -> None:
        if self._interactive:
            console.say(f"session {self._session.key}; :help for help, :quit to leave")
            _say_budget(self._session)
        while True:
            try:
                line = self._read().strip()
            except EOFError:
                return
            if line in (":quit", ":q", "quit", "exit"):
                return
            if line:
                self._take(line)

    def _take(self, line: str) -> None:
        try:
            self._command(line) if line.startswith(":") else self._ask(line)
        except BudgetExceeded as error:
            if not self._interactive:
                raise
            complain(f"refused: {error}")
        except MaquetteError as error:
            complain(f"error: {error}")

    def _ask(self, text: str) -> None:
        told = self._session.forecast(text)
        if self._interactive and told.cost > 0 and told.refusal is None and not self._agrees(told):
            return
        answer = self._session.ask(text)
        if self._as_json:
            console.say_json(asdict(answer))
            return
        console.say(f"  {_words(answer)}")
        for note in answer.notes:
            console.say(f"  note: {note}")
        if self._interactive:
            _say_budget(self._session)

    def _agrees(self, told: Forecast) -> bool:
        return typer.confirm(f"  {_words(told)}. Ask?", default=True)

    def _command(self, line: str) -> None:
        word, _, rest = line[1:].partition(" ")
        match word:
            case "forecast":
                console.say(f"  {_words(self._session.forecast(rest))}")
            case "budget":
                _say_budget(self._session)
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
