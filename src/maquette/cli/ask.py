"""`maquette ask`: one question, a file of them, or a prompt, on one durable budget."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maquette.cli import console
from maquette.cli.console import complain
from maquette.cli.options import (
    AsJson,
    Beta,
    Delimiter,
    Delta,
    DomainFile,
    Encoding,
    Epsilon,
    LedgerPlace,
    Quiet,
    RelationName,
    Source,
    TableName,
    TableQuery,
    TotalDelta,
    TotalEpsilon,
    open_table,
)
from maquette.cli.release import check_ledger
from maquette.errors import BudgetExceeded, MaquetteError, ParameterError, UselessAnswer, WorkloadError

if TYPE_CHECKING:
    from maquette.domain import Domain
    from maquette.sessions import Forecast, Refusal, Session, SessionAnswer


# The prompt of `maquette ask`: questions from a terminal or a pipe, one per line.

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
            console.say_json(_document(answer))
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


AT_ONCE = 64
"""Questions that are asked before the next answers are printed."""


def register(app: typer.Typer) -> None:
    app.command("ask")(ask)


def ask(
    source: Source,
    domain: DomainFile,
    epsilon: Epsilon,
    predicates: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PREDICATE]...", help="SQL conditions; without any, a prompt."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="A file of SQL conditions, one per line; # comments.")
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
    any_error: Annotated[
        bool, typer.Option("--any-error", help="Pay also for answers whose error says nothing.")
    ] = False,
    relation: RelationName = "add-remove",
    ledger: LedgerPlace = None,
    total_epsilon: TotalEpsilon = None,
    total_delta: TotalDelta = None,
    analyst: Annotated[
        str | None,
        typer.Option(
            help="Who asks, for the books: sessions are kept apart by name, and nobody is kept out."
        ),
    ] = None,
    share: Annotated[
        float | None,
        typer.Option(
            help="Share of the ledger's total that is set aside for the analyst: bookkeeping, no access control."
        ),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="The session's name in the ledger, to go on with it.")
    ] = None,
    forecast: Annotated[
        bool, typer.Option("--forecast", help="Only say what the questions would cost.")
    ] = False,
    delimiter: Delimiter = ",",
    encoding: Encoding = "utf-8",
    table: TableName = None,
    query: TableQuery = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Ask a private table one question after the other.

    The budget is set aside when the session opens, and what was asked before is free. The same command again goes
    on with the same session. Questions that are refused are told so in their places; exit code 3 if the budget does
    not cover one, 2 if the error of one would say nothing.

    \b
    Example:
      maquette ask people.csv --domain people.domain.json --epsilon 1 --ledger people.ledger \\
        "age between 30 and 40"
    """
    from maquette import _check as check
    from maquette.accounting.budget import Budget
    from maquette.domain import Domain, Relation
    from maquette.sessions import session
    from maquette.sessions.rules import MECHANISMS

    declared = Domain.load(domain)
    Budget(epsilon, delta)
    Relation.named(relation)
    check.one_of(MECHANISMS, mechanism=mechanism)
    texts = _questions(declared, predicates or [], file)
    if ledger is not None:
        check_ledger(ledger, Path(ledger))
    with console.progress(quiet=quiet) as tell:
        handle = open_table(
            source, declared, delimiter=delimiter, encoding=encoding, table=table, query=query, tell=tell
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
    if not texts and file is None:
        code = Prompt(opened, as_json=as_json, any_error=any_error).run()
    elif forecast:
        code = _forecast_each(opened, texts, as_json=as_json, any_error=any_error)
    else:
        code = _ask_each(opened, texts, as_json=as_json, any_error=any_error)
    if code:
        raise typer.Exit(code)


def _questions(declared: Domain, predicates: Sequence[str], file: Path | None) -> list[str]:
    """Everything that is asked; what cannot be read is refused before the table is opened."""
    from maquette.queries import where

    for text in predicates:
        where(declared, text)
    return [*predicates, *([] if file is None else _read(declared, file))]


def _read(declared: Domain, file: Path) -> list[str]:
    from maquette.queries import where

    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ParameterError(f"cannot read the questions in {file}: {why}") from None
    found: list[str] = []
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        try:
            where(declared, text)
        except MaquetteError as error:
            raise WorkloadError(f"line {number} of {file}: {error}") from None
        found.append(text)
    return found


def _forecast_each(opened: Session, texts: Sequence[str], *, as_json: bool, any_error: bool) -> int:
    found = [opened.forecast(text, any_error=any_error) for text in texts]
    if as_json:
        console.say_json({"session": opened.key, "forecasts": [asdict(told) for told in found]})
        return 0
    for text, told in zip(texts, found, strict=True):
        console.say(text)
        console.say(f"  {words(told)}")
    say_budget(opened)
    return 0


def _ask_each(opened: Session, texts: Sequence[str], *, as_json: bool, any_error: bool) -> int:
    """Answers as they come; the exit code of the worst refusal."""
    found: list[dict[str, Any]] = []
    code = 0
    try:
        for start in range(0, len(texts), AT_ONCE):
            some = texts[start : start + AT_ONCE]
            for text, told in zip(some, opened.ask_many(some, any_error=any_error), strict=True):
                found.append(_document(told))
                code = max(code, _say(text, told, as_json=as_json))
    finally:
        if as_json:
            console.say_json({"session": opened.key, "answers": found})
        elif any("value" in told for told in found):
            say_budget(opened)
    return code


def _document(told: SessionAnswer | Refusal) -> dict[str, Any]:
    """An answer or a refusal for scripts; its receipt has the keys of an entry of the ledger."""
    document = asdict(told)
    if document.get("receipt") is not None:
        document["receipt"] = {"seq": document["receipt"]["sequence"], "head": document["receipt"]["head"]}
    return document


def _say(text: str, told: SessionAnswer | Refusal, *, as_json: bool) -> int:
    """One answer or refusal; its exit code."""
    from maquette.sessions import Refusal

    if isinstance(told, Refusal):
        complain(f"{text}: {told}")
        return told.exit_code
    if not as_json:
        console.say(text)
        console.say(f"  {words(told)}")
        for note in told.notes:
            console.say(f"  note: {note}")
    return 0
