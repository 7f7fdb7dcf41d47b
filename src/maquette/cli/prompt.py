"""The prompt of `maquette ask`: questions from a terminal or a pipe, one per line, and how answers are said."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from maquette.cli import console
from maquette.cli.console import complain
from maquette.errors import BudgetExceeded, MaquetteError, ParameterError, UselessAnswer

if TYPE_CHECKING:
    from maquette.domain import Attribute, Domain
    from maquette.sessions import Forecast, Refusal, Session, SessionAnswer
    from maquette.sessions.grouped import SessionTable

    Outcome = SessionAnswer | SessionTable | Refusal

HELP = """PREDICATE            ask this question; you see its price first
SELECT ...           counts by groups, such as select sex, count(*) from t group by sex
:forecast QUESTION   show what a condition or SELECT would cost, without asking it
:budget              show what is left of the budget
:history             list the questions and payments so far
:columns             list the columns and their values
:synthetic M FILE    write M synthetic rows to a CSV file; this is free
:help                show this list
:quit                leave; the same command continues this session"""
COMMANDS = ("forecast", "budget", "history", "columns", "synthetic", "help", "quit")
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
    from maquette.sessions.question import SelectForecast

    if isinstance(outcome, SessionAnswer):
        cost = _part(outcome.cost, total)
        price = f", {cost} of the budget" if outcome.cost else ""
        return f"{outcome}{price}" + (f", receipt {outcome.receipt}" if outcome.receipt else "")
    cost = _part(outcome.cost, total, up=True)  # at most means at most
    error = "" if outcome.error is None else f", within {100 * outcome.error:.2f} points"
    if outcome.refusal is not None:
        return f"would be refused: {_REFUSALS[outcome.refusal]} ({cost} of the budget{error})"
    if outcome.kind == "size":
        size = _part(outcome.size_cost, total, up=True)
        return (
            f"the number of records has to be bought first, for {size} of the budget; the "
            f"price of the question depends on it, and both together cost at most {cost}"
        )
    price = f": at most {cost} of the budget" if outcome.cost else ""
    many = left = ""
    if isinstance(outcome, SelectForecast):
        many = f"{outcome.questions:,} questions, {outcome.new_questions:,} of them new, "
        left = f"; {_part(outcome.left, total)} is left"
    return f"{many}{_FORECASTS[outcome.kind]}{price}{error}{left}"


def say_answer(answer: SessionAnswer | SessionTable, *, total: float) -> None:
    """An answer with its notes, or a table."""
    from maquette.results.tables import ResultTable

    if isinstance(answer, ResultTable):
        console.say(repr(answer))
        return
    console.say(f"  {describe(answer, total=total)}")
    for note in answer.notes:
        console.say(f"  note: {note}")


def _part(amount: float, total: float, *, up: bool = False) -> str:
    from maquette.core.budget import UNITS, percent_of

    return percent_of(round(amount * UNITS), round(total * UNITS), up=up)


def say_budget(opened: Session) -> None:
    """What is left, as a bar and in numbers."""
    left, total = opened.left, opened.total
    console.say(
        f"  {console.bar(1 - left / total)} {_part(left, total)} of the session's budget left ({opened.budget}), "
        f"{opened.questions_left:,} questions left"
    )


def say_columns(opened: Session) -> None:
    """The columns that can be asked about, with their kinds and values."""
    rows = [(a.name, str(a.kind), a.values_in_words) for a in opened.domain]
    console.table(("column", "kind", "values"), rows)


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
            earlier = [past.what for past in self._session.history() if past.kind != "size"]
            LineEditor(self._session.domain, COMMANDS, earlier)
            console.say(
                f"session {self._session.key}; :help for help, :columns for what can be asked, Tab completes, :quit "
                "leaves"
            )
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
            said = str(error)
            complain(f"{'refused' if refused else 'error'}: {said}")
            if not self._interactive:
                self._code = max(self._code, error.exit_code)

    def _ask(self, text: str) -> None:
        from maquette.results.select import is_select

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
        ask = self._session.sql if is_select(text) else self._session.ask
        answer = ask(text, allow_useless=self._allow_useless, at_most=forecast.cost)
        if self._as_json:
            console.say_json(document(answer))
            return
        say_answer(answer, total=self._session.total)
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
            case "columns":
                say_columns(self._session)
            case "synthetic":
                self._synthetic(rest)
            case "help":
                console.say(HELP)
            case _:
                raise ParameterError(f"there is no command :{word}; :help lists the commands")

    def _history(self) -> None:
        rows: list[tuple[str, ...]] = []
        for past in self._session.history():
            value = "" if past.value is None else f"{past.value:,.0f}"
            if past.value is not None and past.kind != "size":
                value = f"{100 * past.value:.2f} %"
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


def document(answer: Outcome) -> dict[str, Any]:
    """An answer, a table or a refusal for scripts; a receipt has the keys of an entry of the ledger."""
    from maquette.results.tables import ResultTable

    if isinstance(answer, ResultTable):
        return {
            "rows": answer.to_pylist(),
            "answers": [document(one) for one in answer.answers],
            "cost": answer.cost,
            "left": answer.left,
            "unit": answer.unit,
            "notes": list(answer.notes),
        }
    fields = asdict(answer)
    if fields.get("receipt") is not None:
        fields["receipt"] = {"seq": fields["receipt"]["sequence"], "head": fields["receipt"]["head"]}
    return fields


# What a prompt knows of a domain: completions of columns and values, and hints for questions that cannot
# be read.


WORDS = ("AND", "OR", "NOT", "BETWEEN", "IN", "IS NULL")
MAX_VALUES = 200
"""Values of one column that are offered."""

_OPEN_QUOTE = re.compile(r"^(?:[^']|'(?:[^']|'')*'(?!'))*('(?:[^']|'')*)$")
_COMPARED = re.compile(
    r"""(?:"([^"]+)"|([^\W\d]\w*))\s*(?:(?:=|<>|!=)|\bIN\s*\((?:\s*(?:'(?:[^']|'')*'|[\w.]+)\s*,)*)\s*$""",
    re.IGNORECASE,
)


def completions(domain: Domain, commands: Sequence[str], before: str) -> tuple[int, list[str]]:
    """Where the word before the cursor starts, and what it may become."""
    quoted = _OPEN_QUOTE.match(before)
    start = quoted.start(1) if quoted else len(before) - len(re.split(r"[\s(,=<>!]", before)[-1])
    word = before[start:]
    if before.lstrip().startswith(":") and " " not in before.strip():
        return start, [f":{name}" for name in commands if f":{name}".startswith(word)]
    values = _values_of(domain, before[:start])
    choices = values if quoted or values else [*map(_named, domain.names), *WORDS]
    return start, [choice for choice in choices if choice.lower().startswith(word.lower())]


def _values_of(domain: Domain, before: str) -> list[str]:
    """The values of the column that is compared at the end of a text."""
    compared = _COMPARED.search(before)
    if compared is None:
        return []
    name = (compared[1] or compared[2]).lower()
    attribute = next((a for a in domain if a.name.lower() == name), None)
    return [] if attribute is None else _literals(attribute)


def _literals(attribute: Attribute) -> list[str]:
    values = (attribute.categories or ())[:MAX_VALUES]
    return ["'" + v.replace("'", "''") + "'" if isinstance(v, str) else str(v) for v in values]


def _named(name: str) -> str:
    """A column as a predicate writes it."""
    return name if re.fullmatch(r"[^\W\d]\w*", name) else f'"{name}"'


class LineEditor:
    """Line editing, history and completion by the readline of the platform; plain input where there is none."""

    def __init__(self, domain: Domain, commands: Sequence[str], past: Sequence[str]) -> None:
        self._domain, self._commands = domain, commands
        self._choices: list[str] = []
        try:
            import readline
        except ImportError:  # as on Windows
            return
        self._readline = readline
        for line in past:
            readline.add_history(line)
        readline.set_completer_delims(" \t\n(,=<>!")
        readline.set_completer(self.complete)
        readline.parse_and_bind("tab: complete")

    def complete(self, _word: str, state: int) -> str | None:
        """The choice number `state`, from the place where readline's word begins."""
        if state == 0:
            begin, line = self._readline.get_begidx(), self._readline.get_line_buffer()
            start, choices = completions(self._domain, self._commands, line[: self._readline.get_endidx()])
            self._choices = [choice[max(begin - start, 0) :] for choice in choices]
        return self._choices[state] if state < len(self._choices) else None
