"""`maquette start`: from a table of one's own to a private release, each step with the plain command that does it."""

from __future__ import annotations

import json
import math
import shlex
import sys
import webbrowser
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from maquette.cli import console, options
from maquette.errors import DomainError, MaquetteError, ParameterError
from maquette.requests import TableFormat, TotalEpsilon

if TYPE_CHECKING:
    from maquette.domain import Domain
    from maquette.mechanisms.base import Forecast
    from maquette.queries import Queries

T = TypeVar("T")

COMMANDS = ["start", "domain", "plan", "release", "answer"]
"""What it needs to be there: itself, and the plain commands that it runs."""
EPSILONS = (0.1, 0.3, 1.0, 3.0)
"""The choices of the third step; any other number may be typed."""
GOOD_ENOUGH, USUAL = 0.02, 1.0
"""The smallest epsilon is recommended whose expected error is not larger, but no epsilon above the usual one."""
LARGE = 0.05
"""An expected error from which fewer questions are proposed."""
GAIN = 0.8
"""Fewer questions are proposed only where they are expected to state at most so much of the error."""
DELTA = 1e-9
ROOM = 2
"""A new ledger has room for so many releases of this size, unless somebody says otherwise."""
ODD_SHARE = 0.05
"""The share of a column's values without a declared cell from which the owner is told of it."""
MAX_ANSWERS = 50
"""Answers to one question, after which nobody seems to be there who reads it."""


_apps: list[typer.Typer] = []
"""Which program this command is one of: the steps call the others."""


def register(app: typer.Typer) -> None:
    _apps[:] = [app]
    app.command("start")(options.grouped(start))


@dataclass(frozen=True)
class Paths:
    """The table, how it is read, and the files that the steps leave."""

    source: str
    place: TableFormat
    domain: Path
    release: Path
    ledger: str

    @property
    def consent(self) -> Path:
        """What was agreed to, from the consent until the release is there."""
        return self.release.with_suffix(".start.json")

    @property
    def reading(self) -> list[str]:
        """The options that say how the table is read."""
        values = {one.name: getattr(self.place, one.name) for one in fields(self.place)}
        return [
            word
            for one in fields(self.place)
            if values[one.name] != one.default
            for word in (f"--{one.name}", str(values[one.name]))
        ]

    @property
    def is_released(self) -> bool:
        return (self.release / "release.json").exists()


@dataclass(frozen=True)
class Agreement:
    """What a release may cost, and what it answers."""

    epsilon: float
    total_epsilon: float | None
    """Of a ledger that is new; None where there is one."""
    marginals: int
    n: int

    def words(self, paths: Paths) -> list[str]:
        """The plain command."""
        total = [] if self.total_epsilon is None else ["--total-epsilon", f"{self.total_epsilon:.12g}"]
        return [
            *("release", paths.source, *paths.reading, "--domain", str(paths.domain)),
            *("--marginals", str(self.marginals), "--epsilon", f"{self.epsilon:.12g}"),
            *("--delta", f"{DELTA:g}", "--typical-rows", str(self.n)),
            *("--ledger", paths.ledger, *total, "-o", str(paths.release)),
        ]


def start(
    *,
    source: options.Source,
    place: TableFormat,
    domain: Annotated[
        Path | None,
        typer.Option("--domain", "-d", help="The domain file. Default: TABLE.domain.json, drafted."),
    ] = None,
    by: Annotated[str | None, typer.Option("--by", help="Who reviews it; asked for if absent.")] = None,
    n: Annotated[
        int | None, typer.Option("--n", help="About how many records the table has, as a public number.")
    ] = None,
    marginals: Annotated[
        int, typer.Option("--marginals", metavar="K", help="All tables over K columns.", min=1)
    ] = 2,
    epsilon: Annotated[
        float | None, typer.Option(help="Privacy budget. Default: asked for, with a recommendation.")
    ] = None,
    total_epsilon: TotalEpsilon = None,
    ledger: Annotated[
        str | None, typer.Option(help="Path or URL of the ledger. Default: beside the table.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The release folder. Default: TABLE.maquette.")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Ask nothing: the domain is reviewed, and --n is given.")
    ] = False,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the report at the end, in a terminal.")
    ] = True,
) -> None:
    """Lead from a table to a private release, in five steps that show the plain command for each.

    Drafts the domain file, reviews it with you, shows what an epsilon buys, asks for your consent, releases, and opens
    the report. Nothing is paid before you agree. Stop whenever you like: the same command goes on where it was.

    \b
    Example:
      maquette start people.csv
      maquette start people.csv --domain people.domain.json --n 20000 --epsilon 1 --yes
    """
    paths = _paths(source, place, domain=domain, ledger=ledger, output=output)
    try:
        if not paths.is_released:
            _release(
                paths,
                _agreement(
                    paths,
                    by=by,
                    n=n,
                    marginals=marginals,
                    epsilon=epsilon,
                    total=total_epsilon,
                    is_scripted=yes,
                ),
                is_scripted=yes,
            )
        _finish(paths, is_scripted=yes, opens=browser)
    except (KeyboardInterrupt, typer.Abort):
        console.complain("stopped. Nothing is lost: the same command goes on from here")
        raise typer.Exit(console.INTERRUPTED) from None


def _paths(
    source: str, place: TableFormat, *, domain: Path | None, ledger: str | None, output: Path | None
) -> Paths:
    from maquette.cli.release import default_folder
    from maquette.owner import ledger_beside

    folder = output if output is not None else default_folder(source, place.table)
    beside = ledger_beside(source)
    return Paths(
        source=source,
        place=place,
        domain=domain if domain is not None else folder.with_suffix(".domain.json"),
        release=folder,
        ledger=ledger or str(beside if beside is not None else folder.with_suffix(".ledger")),
    )


def _agreement(
    paths: Paths,
    *,
    by: str | None,
    n: int | None,
    marginals: int,
    epsilon: float | None,
    total: float | None,
    is_scripted: bool,
) -> Agreement:
    """The steps before anything is paid; an agreement that was interrupted stands."""
    if paths.consent.exists():
        earlier = Agreement(**json.loads(paths.consent.read_text("utf-8")))
        console.say(
            f"You agreed to epsilon {earlier.epsilon:g} before; this goes on with it and pays nothing twice."
        )
        return earlier
    declared = _reviewed(paths, by=by, is_scripted=is_scripted)
    n = _records(paths, declared, n=n, is_scripted=is_scripted)
    from maquette.queries import marginals as all_tables

    order = min(marginals, len(declared))
    queries = all_tables(declared, k=order)
    chosen, sentence = _epsilon(paths, queries, order, n=n, epsilon=epsilon, is_scripted=is_scripted)
    return _agreed(
        paths,
        Agreement(epsilon=chosen, total_epsilon=total, marginals=order, n=n),
        sentence=sentence,
        is_scripted=is_scripted,
    )


# --- the steps ---


def _reviewed(paths: Paths, *, by: str | None, is_scripted: bool) -> Domain:
    """Steps 1 and 2: the domain file, drafted where there is none, and confirmed by a person."""
    from maquette.domain import Domain

    if is_scripted and not (paths.domain.exists() and Domain.load(paths.domain).reviewed):
        raise DomainError(
            f"--yes asks nothing, so it needs a reviewed domain file at {paths.domain}; start without --yes"
        )
    if not paths.domain.exists():
        _head(1, "what the columns are", "a draft is read off your table, and stays with you")
        _run("domain", "draft", paths.source, *paths.reading, "-o", str(paths.domain))
    if not Domain.load(paths.domain).reviewed:
        _head(
            2,
            "what is public about them",
            "lists and bounds will be published: they must be known without the table",
        )
        _run("domain", "review", str(paths.domain), "--usual", *(["--by", by] if by else []))
        _leave_out_rest(paths)
    return Domain.load(paths.domain)


def _leave_out_rest(paths: Paths) -> None:
    """Columns that nobody confirmed may stay outside; else the review goes on another time."""
    from maquette.domain import Domain
    from maquette.domain.review import remaining

    rest = remaining(declared := Domain.load(paths.domain))
    if not rest:
        return
    them = "it" if len(rest) == 1 else f"these {len(rest)} columns"
    if len(rest) < len(declared) and typer.confirm(
        f"Leave {them} out of the release and go on (no: stop here)?"
    ):
        _run("domain", "review", str(paths.domain), *(word for name in rest for word in ("--drop", name)))
        return
    console.say("The same command goes on with the columns that are left.")
    raise typer.Exit


def _records(paths: Paths, declared: Domain, *, n: int | None, is_scripted: bool) -> int:
    """About how many records there are; the owner sees the exact number, and decides which one is public."""
    if n is not None:
        if n < 1:
            raise ParameterError(f"expected --n 1 or more, got {n}")
        return n
    if is_scripted:
        raise ParameterError("--yes asks nothing, so it needs --n, about how many records the table has")
    from dataclasses import asdict

    from maquette.owner import fit_report

    fit = fit_report(paths.source, declared, **asdict(paths.place))
    if not fit.records:
        raise ParameterError(f"{paths.source} has no records; there is nothing to release")
    odd = [c for c in fit.columns if c.undeclared > ODD_SHARE * fit.records]
    for column in odd:
        console.say(
            f"  for your eyes only: {100 * column.undeclared / fit.records:.0f} % of the values of {column.name} are "
            f"not declared ({column.undeclared_go})"
        )
    if odd:
        console.say(
            f"  the lists or bounds of these columns may be wrong; edit {paths.domain}, then start again"
        )
    console.say(
        f"The table has {fit.records:,} records. That number is for your eyes only; a plan needs a round one that may "
        "be public."
    )
    return _ask("About how many records", _rounded(fit.records), _whole)


def _epsilon(
    paths: Paths, queries: Queries, order: int, *, n: int, epsilon: float | None, is_scripted: bool
) -> tuple[float, str]:
    """Step 3: what an epsilon buys, and the choice of one; with the sentence that the release is expected to say."""
    if is_scripted and epsilon is not None:
        return epsilon, ""
    _head(
        3,
        "how much privacy, how much error",
        "epsilon is the price: the smaller, the better people are protected, and the larger the error",
    )
    choices: list[float] = sorted({*EPSILONS, *([] if epsilon is None else [epsilon])})
    outlook = {one: _forecast(queries, n=n, epsilon=one) for one in choices}
    recommended = epsilon if epsilon is not None else _recommended(outlook)
    rows = [
        (
            "→" if one == recommended else "",
            f"{one:g}",
            f"{math.exp(one):.3g} times",
            _points(outlook[one]),
            f"{n * outlook[one]:,.0f}" if outlook[one] < 1 else "-",
        )
        for one in choices
    ]
    head = ("", "epsilon", "odds about a person change", "expected error, in points", f"of {n:,} records")
    console.table(head, rows, right=(1, 2, 3, 4))
    console.say(
        f"The release answers {queries.count:,} questions: all tables over {order} columns. The error is the largest "
        "of all, in points (percent of all records). It is typical, no promise; the release states its own."
    )
    console.say(
        "Odds: whatever somebody believes about a person in the table, the release changes the odds of it by this much "
        f"at most (up to a chance of {DELTA:g})."
    )
    if order > 1 and outlook[recommended] > LARGE:
        from maquette.queries import marginals

        less = _forecast(marginals(queries.domain, k=1), n=n, epsilon=recommended)
        fewer = ""
        if less < GAIN * outlook[recommended]:
            fewer = (
                " Tables over one column alone (start again with --marginals 1) are expected to state "
                f"{_points(less)} points."
            )
        console.say(f"That is a large error: the table is small for so many questions.{fewer}")
    _say_command(
        *("plan", "--domain", str(paths.domain), "--marginals", str(order), "--n", str(n)),
        *("--epsilon", f"{recommended:g}", "--delta", f"{DELTA:g}"),
    )
    chosen = recommended if is_scripted else _ask("Epsilon", recommended, _positive)
    expected = outlook[chosen] if chosen in outlook else _forecast(queries, n=n, epsilon=chosen)
    said = "no useful bound" if expected >= 1 else f"an error of about {_points(expected)} points"
    return chosen, f"It is expected to state {said} for all {queries.count:,} answers together."


def _agreed(paths: Paths, agreement: Agreement, *, sentence: str, is_scripted: bool) -> Agreement:
    """Step 4: the consent. It is written down before anything is paid, so that an interrupted release goes on."""
    from dataclasses import asdict, replace

    _head(4, "your consent", "a ledger remembers what the table has cost; what is paid does not come back")
    if _is_there(paths.ledger):
        console.say(f"The ledger {paths.ledger} is there already, with its total.")
        agreement = replace(agreement, total_epsilon=None)
    else:
        total = agreement.total_epsilon or ROOM * agreement.epsilon
        if not is_scripted and agreement.total_epsilon is None:
            total = _ask(
                f"Total epsilon that this table may ever cost; this release takes {agreement.epsilon:g}",
                total,
                lambda text: _at_least(agreement.epsilon, text),
            )
        agreement = replace(agreement, total_epsilon=total)
        console.say(f"The ledger {paths.ledger} will hold a total of epsilon {total:g}, fixed for good.")
    if sentence:
        console.say(sentence)
    _say_command(*agreement.words(paths))
    if not is_scripted and not typer.confirm(f"Pay epsilon {agreement.epsilon:g} and release?"):
        console.say("Nothing was paid. The same command comes back to this.")
        raise typer.Exit
    try:
        paths.consent.write_text(json.dumps(asdict(agreement)) + "\n", encoding="utf-8")
    except OSError as error:
        raise ParameterError(
            f"cannot write {paths.consent}: {error.strerror}; choose another place (-o)"
        ) from None
    return agreement


def _release(paths: Paths, agreement: Agreement, *, is_scripted: bool) -> None:
    """Step 5; a refusal takes the consent back, an interruption leaves it."""
    _head(5, "the release", "each step is paid for, then the rows are read, then a noisy value comes back")
    code = _call(*agreement.words(paths), *(["--quiet"] if is_scripted else []))
    if code != console.INTERRUPTED:
        paths.consent.unlink(missing_ok=True)
    if code:
        raise typer.Exit(code)


def _finish(paths: Paths, *, is_scripted: bool, opens: bool) -> None:
    """The report, own questions, and what to do next; all of it is free."""
    from maquette.results.folder import REPORT

    report = paths.release / REPORT
    if is_scripted:
        return
    if opens and sys.stdout.isatty():
        webbrowser.open(report.resolve().as_uri())
    example = _example(paths)
    console.say()
    console.say("The release is public and yours to use: every question to it is free.")
    _say_command("answer", str(paths.release), example)
    for _ in range(MAX_ANSWERS):
        question = _line(f"A question, such as {example} (Enter ends)")
        if not question:
            break
        _call("answer", str(paths.release), question)
    console.say("next:")
    _say_command("table", str(paths.release), _columns(paths)[0])
    _say_command("export", str(paths.release), "-o", str(paths.release.with_suffix(".files")), "--csv")
    _say_command("ledger", "show", paths.ledger)


# --- small things ---


def _call(*words: str) -> int:
    """A plain command beside this one, run in this process; its exit code."""
    commands: Any = typer.main.get_command(_apps[0])
    try:
        code = commands(list(words), prog_name="maquette", standalone_mode=False)
    except console.UsageProblem as error:
        console.complain(f"error: {error}")
        return MaquetteError.exit_code
    return code if isinstance(code, int) else 0


def _run(*words: str) -> None:
    """A plain command, shown and then run; what it refuses ends this one with its exit code."""
    _say_command(*words)
    if code := _call(*words):
        raise typer.Exit(code)


def _say_command(*words: str) -> None:
    console.say(f"  $ {' '.join(map(_quoted, ('maquette', *words)))}")


def _quoted(word: str) -> str:
    """A word for a shell; in double quotes where it has single ones, as SQL does."""
    plain = "'" in word and not set(word) & set('"$`\\!')
    return f'"{word}"' if plain else shlex.quote(word)


def _head(number: int, title: str, why: str) -> None:
    console.say()
    console.say(f"Step {number} of 5: {title} ({why})")


def _line(question: str, default: str = "") -> str:
    return str(typer.prompt(question, default=default, show_default=bool(default))).strip()


def _ask(question: str, default: T, read: Callable[[str], T]) -> T:
    """An answer that can be read; Enter takes the default."""
    shown = f"{default:g}" if isinstance(default, float) else str(default)
    for _ in range(MAX_ANSWERS):
        try:
            return read(_line(question, shown))
        except ValueError as error:
            console.say(f"  {error}")
    raise typer.Abort


def _whole(text: str) -> int:
    plain = text.replace(",", "").replace("_", "")
    if not plain.isdecimal() or not plain.isascii() or int(plain) < 1:
        raise ValueError("please type a whole number, 1 or more")
    return int(plain)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise ValueError("please type a number above 0, such as 0.5")
    return value


def _at_least(least: float, text: str) -> float:
    if (value := _positive(text)) < least:
        raise ValueError(f"please type {least:g} or more: this release takes as much")
    return value


def _rounded(count: int) -> int:
    """1, 2 or 5 times a power of ten: the nearest by ratio."""
    powers = [step * 10**power for power in range(len(str(count)) + 1) for step in (1, 2, 5)]
    return min(powers, key=lambda one: abs(math.log(one / count)))


def _forecast(queries: Queries, *, n: int, epsilon: float) -> float:
    """The error that a default release is expected to state; 1 where nothing useful is expected."""
    from maquette.releasing.planning import plan
    from maquette.releasing.ranking import preferred

    ranked = plan(queries, n=n, epsilon=epsilon, delta=DELTA)
    name = preferred(ranked, queries)
    chosen: Forecast = next(one for one in ranked.forecasts if one.mechanism == name)
    bound = chosen.certified if chosen.certified is not None else chosen.guaranteed
    expected = bound if bound is not None else chosen.expected
    return 1.0 if expected is None else min(1.0, expected)


def _recommended(outlook: dict[float, float]) -> float:
    """The smallest epsilon whose error is good enough, and the usual one where none is."""
    good = (one for one in sorted(outlook) if one < USUAL and outlook[one] <= GOOD_ENOUGH)
    return next(good, USUAL)


def _points(error: float) -> str:
    return "nothing useful" if error >= 1 else f"{100 * error:.2g}"


def _is_there(ledger: str) -> bool:
    return "://" in ledger or Path(ledger).exists()


def _columns(paths: Paths) -> Sequence[str]:
    from maquette.domain import Domain

    return Domain.load(paths.release / "domain.json").names


def _example(paths: Paths) -> str:
    """A condition that the release can answer: a value of a column of words, where there is one."""
    from maquette.domain import Domain
    from maquette.queries import marginals

    declared = Domain.load(paths.release / "domain.json")
    worded = [a.name for a in declared if a.categories and isinstance(a.categories[0], str)]
    return marginals(declared, attributes=[((worded or declared.names)[0],)]).text(0)
