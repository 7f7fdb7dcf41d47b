"""`maquette ask`: one question, a file of them, or a prompt, on one durable budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maquette.cli import console
from maquette.cli.console import complain
from maquette.cli.options import Shown, TableFile, TableReading, grouped
from maquette.cli.prompt import Prompt, describe, document, say_answer, say_budget
from maquette.cli.release import check_ledger
from maquette.core import _check
from maquette.errors import BudgetExceeded, MaquetteError, ParameterError, UselessAnswer, WorkloadError
from maquette.requests import Payer, SessionRequest

if TYPE_CHECKING:
    from maquette.cli.prompt import Outcome
    from maquette.domain import Domain
    from maquette.sessions import Session


AT_ONCE = 64
"""Questions that are asked before the next answers are printed."""


def register(app: typer.Typer) -> None:
    app.command("ask")(grouped(ask))


@dataclass(frozen=True, kw_only=True)
class Questions:
    """What is wish, and how."""

    predicates: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PREDICATE]...",
            help="SQL conditions, or SELECTs of counts; without any, a prompt opens.",
        ),
    ] = None
    sql: Annotated[
        list[str] | None,
        typer.Option(
            "--sql", metavar="SELECT", help="Figures by groups: a cell is one question or more; repeatable."
        ),
    ] = None
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", "-f", help="A file of SQL conditions and SELECTs, one per line; # starts a comment."
        ),
    ] = None
    prior: Annotated[
        Path | None,
        typer.Option(metavar="RELEASE", help="Start guesses from the rows of this release, for free."),
    ] = None
    forecast: Annotated[bool, typer.Option("--forecast", help="Only show what the questions would cost.")] = (
        False
    )
    allow_useless: Annotated[
        bool,
        typer.Option("--allow-useless", help="Pay even for answers with an error of 50 points or more."),
    ] = False


def ask(
    *,
    table: TableFile,
    wish: SessionRequest,
    questions: Questions,
    payer: Payer,
    reading: TableReading,
    shown: Shown,
) -> None:
    """Ask a private table one question after the other.

    The budget is reserved when the session opens, and repeating a question is free. The same command again continues
    the same session. A question that cannot be answered is refused in its place and the others go on; the exit code is
    3 if the budget does not cover a question, 2 if the error of an answer would be so large that it says nothing.

    \b
    Example:
      maquette ask people.csv --domain people.domain.json --epsilon 1 --ledger people.ledger \\
        "age between 30 and 40"
      maquette ask people.csv --domain people.domain.json --epsilon 1 --ledger people.ledger --forecast \\
        "select sex, count(*) from people where age >= 30 group by sex"
    """
    from maquette.core import _check as check
    from maquette.core.budget import Budget
    from maquette.domain import Domain, Relation
    from maquette.results.loading import load
    from maquette.sessions.opening import open_session
    from maquette.sessions.rules import AUTO, MECHANISMS

    declared = Domain.load(table.domain)
    Budget(wish.epsilon, wish.delta)
    Relation.named(wish.relation)
    check.one_of((AUTO, *MECHANISMS), mechanism=wish.mechanism)
    prior = None if questions.prior is None else load(questions.prior)
    texts = _questions(declared, [*(questions.predicates or []), *(questions.sql or [])], questions.file)
    if payer.place is not None:
        check_ledger(payer.place, Path(payer.place))
    with console.progress(quiet=shown.quiet) as tell:
        handle = reading.open(table.source, declared, tell)
        opened = open_session(handle, wish, payer, prior=prior)
    if not shown.as_json and not shown.quiet:
        complain(f"{opened.plan}.")
    as_json, allow_useless = shown.as_json, questions.allow_useless
    if not texts and questions.file is None:
        code = Prompt(opened, as_json=as_json, allow_useless=allow_useless).run()
    elif questions.forecast:
        code = _forecast_each(opened, texts, as_json=as_json, allow_useless=allow_useless)
    else:
        code = _ask_each(opened, texts, as_json=as_json, allow_useless=allow_useless)
    if code:
        raise typer.Exit(code)


def _questions(declared: Domain, texts: Sequence[str], file: Path | None) -> list[str]:
    """Everything that is asked; what cannot be read is refused before the table is opened."""
    for text in texts:
        _check_readable(declared, text)
    return [*texts, *([] if file is None else _read(declared, file))]


def _check_readable(declared: Domain, text: str) -> None:
    """Refuse what is neither a condition nor a SELECT that a session answers."""
    from maquette.queries import where
    from maquette.results.select import is_select

    if is_select(text):
        from maquette.sessions.grouped import read_select
        from maquette.sessions.question import QuestionReader

        read_select(QuestionReader(declared), text)
    else:
        where(declared, text)


def _read(declared: Domain, file: Path) -> list[str]:
    try:
        lines = _check.read_text(file, encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ParameterError(f"cannot read the questions in {file}: {why}") from None
    texts: list[str] = []
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        try:
            _check_readable(declared, text)
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
        for some in _portions(texts):
            for text, answer in zip(some, _answers(opened, some, allow_useless=allow_useless), strict=True):
                answers.append(document(answer))
                code = max(code, _say(text, answer, total=opened.total, as_json=as_json))
    finally:
        if as_json:
            console.say_json({"session": opened.key, "answers": answers})
        elif any("value" in answer or "rows" in answer for answer in answers):
            say_budget(opened)
    return code


def _portions(texts: Sequence[str]) -> Iterator[list[str]]:
    """Conditions that are asked together, at most so many; every SELECT by itself."""
    from maquette.results.select import is_select

    waiting: list[str] = []
    for text in texts:
        if is_select(text) or len(waiting) == AT_ONCE:
            if waiting:
                yield waiting
            waiting = []
        if is_select(text):
            yield [text]
        else:
            waiting.append(text)
    if waiting:
        yield waiting


def _answers(opened: Session, texts: list[str], *, allow_useless: bool) -> list[Outcome]:
    from maquette.results.select import is_select
    from maquette.sessions import Refusal

    if not is_select(texts[0]):
        return [*opened.ask_many(texts, allow_useless=allow_useless)]
    try:
        return [opened.sql(texts[0], allow_useless=allow_useless)]
    except (BudgetExceeded, UselessAnswer) as error:
        return [Refusal(texts[0], str(error), error.exit_code)]


def _say(text: str, answer: Outcome, *, total: float, as_json: bool) -> int:
    """One answer, table or refusal; its exit code."""
    from maquette.sessions import Refusal

    if isinstance(answer, Refusal):
        complain(f"{text}: {answer}")
        return answer.exit_code
    if not as_json:
        console.say(text)
        say_answer(answer, total=total)
    return 0
