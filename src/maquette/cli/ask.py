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

HELP = """PREDICATE            ask this question; you see its price first
:forecast PREDICATE  show what the question would cost, without asking it
:budget              show what is left of the budget
:history             list the questions and payments so far
:synthetic M FILE    write M synthetic rows to a CSV file; this is free
:help                show this list
:quit                leave; the same command continues this session"""
_REFUSALS = {
    "questions": "the session has answered as many questions as it takes",
    "epochs": "the session has used up the epochs that it planned",
    "budget": "the budget does not cover it",
    "error": "its error would be so large that the answer says nothing",
}


_FORECASTS = {
    "free": "needs no look at the table, free",
    "cached": "answered before, free",
    "test": "tested, and measured only if it fails",
    "measure": "measured",
}


def describe(outcome: SessionAnswer | Forecast, *, total: float) -> str:
    """An answer, or the forecast of one, in a line; `total` is the session's budget, of which prices are parts."""
    from maquette.sessions import SessionAnswer

    cost = _part(outcome.cost, total)
    if isinstance(outcome, SessionAnswer):
        price = f", {cost} of the budget" if outcome.cost else ""
        return f"{outcome}{price}" + (f", receipt {outcome.receipt}" if outcome.receipt else "")
    error = "" if outcome.error is None else f", within {100 * outcome.error:.2f} points"
    if outcome.refusal is not None:
        return f"would be refused: {_REFUSALS[outcome.refusal]} ({cost} of the budget{error})"
    if outcome.kind == "size":
        return (
            f"the number of records has to be bought first, for {_part(outcome.size_cost, total)} of the budget; the "
            f"price of the question depends on it, and both together cost at most {cost}"
        )
    price = f": at most {cost} of the budget" if outcome.cost else ""
    return f"{_FORECASTS[outcome.kind]}{price}{error}"


def _part(amount: float, total: float) -> str:
    from maquette.accounting.affordable import percent_of
    from maquette.accounting.budget import UNITS

    return percent_of(round(amount * UNITS), round(total * UNITS))


def say_budget(opened: Session) -> None:
    """What is left, as a bar and in numbers."""
    left, total = opened.left, opened.total
    console.say(
        f"  {console.bar(1 - left / total)} {_part(left, total)} of the session's budget left ({opened.budget}), "
        f"{opened.questions_left:,} questions left"
    )


class Prompt:
    """Questions from a terminal, with a look at the price first; or from a pipe, one per line."""

    def __init__(
        self,
        opened: Session,
        *,
        as_json: bool,
        allow_useless: bool = False,
        read: Callable[[], str] | None = None,
    ) -> None:
        self._session = opened
        self._as_json = as_json
        self._allow_useless = allow_useless
        self._code = 0
        self._interactive = sys.stdin.isatty() and not as_json
        self._read = read or self._line

    def run(self) -> int:
        """Until the end; the exit code, which for a pipe is that of the worst line."""
        if self._interactive:
            console.say(f"session {self._session.key}; type :help for help and :quit to leave")
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
        forecast = self._session.forecast(text, allow_useless=self._allow_useless)
        if self._interactive and forecast.kind == "size" and forecast.refusal is None:
            if not typer.confirm(
                f"  {describe(forecast, total=self._session.total)}. Buy the number of records?", default=True
            ):
                return
            self._session.buy_size()
            forecast = self._session.forecast(text, allow_useless=self._allow_useless)
        if self._interactive and forecast.cost > 0 and forecast.refusal is None:  # noqa: SIM102
            if not typer.confirm(f"  {describe(forecast, total=self._session.total)}. Ask?", default=True):
                return
        answer = self._session.ask(text, allow_useless=self._allow_useless, at_most=forecast.cost)
        if self._as_json:
            console.say_json(_document(answer))
            return
        console.say(f"  {describe(answer, total=self._session.total)}")
        for note in answer.notes:
            console.say(f"  note: {note}")
        if self._interactive:
            say_budget(self._session)

    def _command(self, line: str) -> None:
        word, _, rest = line[1:].partition(" ")
        match word:
            case "forecast":
                forecast = self._session.forecast(rest, allow_useless=self._allow_useless)
                console.say(f"  {describe(forecast, total=self._session.total)}")
            case "budget":
                say_budget(self._session)
            case "history":
                self._history()
            case "synthetic":
                self._synthetic(rest)
            case "help":
                console.say(HELP)
            case _:
                raise ParameterError(f"there is no command :{word}; :help lists the commands")

    def _history(self) -> None:
        rows: list[tuple[str, ...]] = []
        for past in self._session.history():
            digits = 0 if past.kind == "size" else 4
            value = "" if past.value is None else f"{past.value:.{digits}f}"
            when = past.when[:19].replace("T", " ")
            cost = _part(past.cost, self._session.total)
            rows.append((str(past.sequence), when, past.what, value, past.kind, cost))
        console.table(
            ("entry", "when (UTC)", "question", "value", "kind", "of the budget"), rows, right=(0, 3, 5)
        )

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
        typer.Argument(metavar="[PREDICATE]...", help="SQL conditions; without any, a prompt opens."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="A file of SQL conditions, one per line; # starts a comment."),
    ] = None,
    delta: Delta = 0.0,
    beta: Beta = 0.05,
    alpha: Annotated[
        float | None,
        typer.Option(help="The error that every answer may have; by default one that suits the budget."),
    ] = None,
    mechanism: Annotated[str, typer.Option(help="pmw, median or direct.")] = "pmw",
    queries: Annotated[int, typer.Option(help="How many new questions the session takes.")] = 10_000,
    budget_for_all: Annotated[
        bool,
        typer.Option(
            "--budget-for-all",
            help="Take the smallest error at which the budget lasts for all these questions.",
        ),
    ] = False,
    lasting: Annotated[bool, typer.Option("--lasting", hidden=True)] = False,
    allow_useless: Annotated[
        bool,
        typer.Option("--allow-useless", help="Pay even for answers with an error of 50 points or more."),
    ] = False,
    any_error: Annotated[bool, typer.Option("--any-error", hidden=True)] = False,
    relation: RelationName = "add-remove",
    ledger: LedgerPlace = None,
    total_epsilon: TotalEpsilon = None,
    total_delta: TotalDelta = None,
    analyst: Annotated[
        str | None,
        typer.Option(
            help="Who asks. Sessions of different names are separate; this is bookkeeping, not access control."
        ),
    ] = None,
    share: Annotated[
        float | None,
        typer.Option(help="Share of the ledger's total that is reserved for the analyst."),
    ] = None,
    key: Annotated[str | None, typer.Option(help="The session's name in the ledger, to continue it.")] = None,
    forecast: Annotated[
        bool, typer.Option("--forecast", help="Only show what the questions would cost.")
    ] = False,
    delimiter: Delimiter = ",",
    encoding: Encoding = "utf-8",
    table: TableName = None,
    query: TableQuery = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Ask a private table one question after the other.

    The budget is reserved when the session opens, and repeating a question is free. The same command again continues
    the same session. A question that cannot be answered is refused in its place and the others go on; the exit code is
    3 if the budget does not cover a question, 2 if the error of an answer would be so large that it says nothing.

    \b
    Example:
      maquette ask people.csv --domain people.domain.json --epsilon 1 --ledger people.ledger \\
        "age between 30 and 40"
    """
    from maquette import _check as check
    from maquette.accounting.budget import Budget
    from maquette.domain import Domain, Relation
    from maquette.sessions.rules import MECHANISMS
    from maquette.sessions.session import session

    if lasting:
        complain(
            "warning: --lasting is now called --budget-for-all; the old name goes in the next minor version"
        )
    if any_error:
        complain(
            "warning: --any-error is now called --allow-useless; the old name goes in the next minor version"
        )
    allow_useless = allow_useless or any_error
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
            budget_for_all=budget_for_all or lasting,
            relation=relation,
            ledger=ledger,
            total_epsilon=total_epsilon,
            total_delta=total_delta,
            analyst=analyst,
            share=share,
            key=key,
        )
    if not texts and file is None:
        code = Prompt(opened, as_json=as_json, allow_useless=allow_useless).run()
    elif forecast:
        code = _forecast_each(opened, texts, as_json=as_json, allow_useless=allow_useless)
    else:
        code = _ask_each(opened, texts, as_json=as_json, allow_useless=allow_useless)
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
    texts: list[str] = []
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        try:
            where(declared, text)
        except MaquetteError as error:
            raise WorkloadError(f"line {number} of {file}: {error}") from None
        texts.append(text)
    return texts


def _forecast_each(opened: Session, texts: Sequence[str], *, as_json: bool, allow_useless: bool) -> int:
    forecasts = [opened.forecast(text, allow_useless=allow_useless) for text in texts]
    if as_json:
        console.say_json({"session": opened.key, "forecasts": [asdict(one) for one in forecasts]})
        return 0
    for text, forecast in zip(texts, forecasts, strict=True):
        console.say(text)
        console.say(f"  {describe(forecast, total=opened.total)}")
    say_budget(opened)
    return 0


def _ask_each(opened: Session, texts: Sequence[str], *, as_json: bool, allow_useless: bool) -> int:
    """Answers as they come; the exit code of the worst refusal."""
    answers: list[dict[str, Any]] = []
    code = 0
    try:
        for start in range(0, len(texts), AT_ONCE):
            some = texts[start : start + AT_ONCE]
            for text, answer in zip(some, opened.ask_many(some, allow_useless=allow_useless), strict=True):
                answers.append(_document(answer))
                code = max(code, _say(text, answer, total=opened.total, as_json=as_json))
    finally:
        if as_json:
            console.say_json({"session": opened.key, "answers": answers})
        elif any("value" in answer for answer in answers):
            say_budget(opened)
    return code


def _document(answer: SessionAnswer | Refusal) -> dict[str, Any]:
    """An answer or a refusal for scripts; its receipt has the keys of an entry of the ledger."""
    document = asdict(answer)
    if document.get("receipt") is not None:
        document["receipt"] = {"seq": document["receipt"]["sequence"], "head": document["receipt"]["head"]}
    return document


def _say(text: str, answer: SessionAnswer | Refusal, *, total: float, as_json: bool) -> int:
    """One answer or refusal; its exit code."""
    from maquette.sessions import Refusal

    if isinstance(answer, Refusal):
        complain(f"{text}: {answer}")
        return answer.exit_code
    if not as_json:
        console.say(text)
        console.say(f"  {describe(answer, total=total)}")
        for note in answer.notes:
            console.say(f"  note: {note}")
    return 0
