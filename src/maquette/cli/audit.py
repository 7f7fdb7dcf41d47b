"""`maquette audit` and `maquette evaluate`: attacks that must fail on a release, and its true errors. Not private."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maquette.cli import console
from maquette.cli.answer import Folder, PaidBy
from maquette.cli.options import (
    Memory,
    Shown,
    TableReading,
    file_name,
    grouped,
)
from maquette.errors import ParameterError
from maquette.requests import Delimiter, Delta, RelationWord, TableFormat

if TYPE_CHECKING:
    from maquette.audit.attacks import Attack, Finding, Method
    from maquette.audit.evaluate import Errors, Evaluation

app = typer.Typer(
    help="Attack releases, to test what they protect.", no_args_is_help=True, rich_markup_mode=None
)

PRIVATE = "These shares were computed from private rows without noise: for the owner's eyes only."
REFUTES = (
    "An attack that fails proves nothing; one that beats its limit over many trials refutes the guarantee."
)


def register(root: typer.Typer) -> None:
    root.command("evaluate")(grouped(evaluate))


@app.callback()
def group() -> None:
    """Attack releases, to test what they protect."""


@dataclass(frozen=True, kw_only=True)
class Published:
    """A release that is attacked, by somebody who knows all but a secret; none for invented people."""

    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="[RELEASE]", help="A release folder. Default: attack releases of invented people."
        ),
    ] = None
    people_file: Annotated[
        Path | None,
        typer.Option(
            "--people", help="With RELEASE: a CSV file of the people in the table, with the secret attribute."
        ),
    ] = None
    hidden: Annotated[
        str | None, typer.Option("--secret", help="With RELEASE: the attribute to guess; it has two values.")
    ] = None
    delimiter: Delimiter = ","


@dataclass(frozen=True, kw_only=True)
class Invented:
    """Tables of invented people, and how they are released."""

    epsilon: Annotated[float, typer.Option(help="Privacy budget of the releases that are attacked.")] = 1.0
    delta: Delta = 0.0
    relation: RelationWord = "add-remove"
    mechanism: Annotated[str, typer.Option(help="A mechanism by name, or auto.")] = "auto"
    bits: Annotated[int, typer.Option(help="Secret bits per trial, for linear reconstruction.")] = 48
    points: Annotated[int, typer.Option(help="Points of the shattered set, an even number.")] = 8
    trials: Annotated[int, typer.Option(help="How many invented tables are attacked.")] = 5


@app.command("reconstruct")
@grouped
def reconstruct(
    *,
    published: Published,
    attack: Annotated[
        str, typer.Option(help="shattered set, least squares, linear program, or all.")
    ] = "all",
    invented: Invented,
    shown: Shown,
) -> None:
    """Try to reconstruct secret bits from answers, and print the share that was recovered.

    Without a RELEASE, tables of invented people are attacked twice: once through exact answers, where the attack
    must succeed, and once through private releases, where it must fail. With a RELEASE the attacker knows everything
    about the people in the table but the secret; the result depends on private rows and is for the owner only.

    \b
    Example:
      maquette audit reconstruct --epsilon 0.5 --mechanism laplace
      maquette audit reconstruct people.maquette --people people.csv --secret sex
    """
    from maquette.audit.attacks import ATTACKS
    from maquette.core import _check

    _check.one_of(["all", *ATTACKS], attack=attack)
    chosen: list[Attack] = [one for one in ATTACKS if attack in ("all", one)]
    if published.folder is not None:
        findings = _published(published, published.folder, chosen)
    else:
        if published.people_file is not None or published.hidden is not None:
            raise ParameterError("--people and --secret go with a RELEASE folder")
        findings = _made_up(chosen, invented, quiet=shown.quiet)
    warning = PRIVATE if published.folder is not None else None
    if shown.as_json:
        console.say_json({"warning": warning, "note": REFUTES, "findings": [asdict(one) for one in findings]})
    else:
        _show(findings, warning=warning)


def _made_up(attacks: list[Attack], invented: Invented, *, quiet: bool) -> list[Finding]:
    from maquette.audit import attacks as trial
    from maquette.core.budget import Budget
    from maquette.domain import Relation

    relation, mechanism = Relation.named(invented.relation), invented.mechanism
    Budget(invented.epsilon, invented.delta)
    limit = trial.limit_for(relation, epsilon=invented.epsilon, delta=invented.delta)
    releasing = trial.releasing(
        epsilon=invented.epsilon, delta=invented.delta, relation=relation, mechanism=mechanism
    )
    findings: list[Finding] = []
    with console.progress(quiet=quiet) as tell:
        for i, attack in enumerate(attacks):
            people = invented.points if attack == "shattered set" else invented.bits
            for name, answering, bound in (("exact", trial.exact, None), (mechanism, releasing, limit)):
                tell(f"{attack}, {name} answers", i / len(attacks))
                findings.append(
                    trial.run(
                        attack, answering, people=people, trials=invented.trials, name=name, limit=bound
                    )
                )
    return findings


def _published(target: Published, folder: Path, attacks: list[Attack]) -> list[Finding]:
    from maquette.audit import attacks as published
    from maquette.audit.attacks import METHODS, read_people
    from maquette.results.loading import load

    if target.people_file is None or target.hidden is None:
        raise ParameterError("an attack on a release needs --people FILE and --secret ATTRIBUTE")
    methods: list[Method] = [method for method in METHODS if method in attacks]
    if not methods:
        raise ParameterError(f"a finished release is attacked by {' or '.join(METHODS)}")
    release = load(folder)
    people = read_people(target.people_file, release.domain, delimiter=target.delimiter)
    return published.attack(release, people, hidden=target.hidden, methods=methods)


def _show(findings: list[Finding], *, warning: str | None) -> None:
    console.table(
        ["attack", "answers", "secrets", "queries", "recovered", "by chance", "at most if private"],
        [
            [
                one.attack,
                one.answers,
                f"{one.people:,}" if one.trials == 1 else f"{one.trials} x {one.people:,}",
                f"{one.queries:,}",
                f"{one.recovered:.1%}",
                f"{one.chance:.1%}",
                "-" if one.limit is None else f"{one.limit:.1%}",
            ]
            for one in findings
        ],
        right=(2, 3, 4, 5, 6),
    )
    for sentence in (warning, REFUTES):
        if sentence is not None:
            console.say(sentence)


# `maquette evaluate`: a release against the truth, for whoever holds the table.


SUFFIX = ".evaluation-not-private.html"


@dataclass(frozen=True, kw_only=True)
class HowRead(TableFormat):
    """How the table is read; whose rows are in it, the release says."""

    memory: Memory = None


@dataclass(frozen=True, kw_only=True)
class Page:
    """The page with plots."""

    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help=f"The page with plots. Default: TABLE{SUFFIX}."),
    ] = None
    page: Annotated[bool, typer.Option(help="Write the page.")] = True


def evaluate(
    *,
    folder: Folder,
    source: Annotated[str, typer.Argument(metavar="TABLE", help="The private table that it was made from.")],
    domain: Annotated[
        Path | None,
        typer.Option("--domain", "-d", help="The domain file. Default: the domain of the release."),
    ] = None,
    reading: HowRead,
    ledger: PaidBy = None,
    written: Page,
    shown: Shown,
) -> None:
    """Print and plot the true errors of a release. NOT PRIVATE, NOT FOR RELEASE: for whoever holds the table.

    It looks at the private table without noise and without payment. The ledger and the release folder stay as
    they are; keep what it prints and writes as you keep the table.

    \b
    Example:
      maquette evaluate people.maquette people.csv
    """
    from maquette.audit.evaluate import check_default_page_place, check_page_place, write_page
    from maquette.audit.evaluate import evaluate as compare
    from maquette.domain import Domain
    from maquette.results.binding import payer_beside
    from maquette.results.loading import load

    release = load(folder, ledger=ledger)
    payer = ledger if ledger is not None else payer_beside(folder, release)
    target = written.output or Path(f"{file_name(source, reading.table)}{SUFFIX}")
    if written.page:
        check_page_place(target)
    if written.page and written.output is None:
        check_default_page_place(target)
    declared = release.domain if domain is None else Domain.load(domain)
    values = asdict(reading)
    if release.persons is not None:
        values |= {"person": release.persons.column, "rows_per_person": release.persons.rows}
    with console.progress(quiet=shown.quiet) as tell:
        handle = TableReading(**values).open(source, declared, tell)
        tell("comparing with the truth", 0.0)
        evaluation = compare(release, handle, ledger=payer)
        tell("comparing with the truth", 1.0)
        if written.page:
            write_page(evaluation, target)
    if shown.as_json:
        console.say_json(evaluation.to_dict() | {"page": str(target) if written.page else None})
        return
    _say(evaluation)
    if written.page:
        console.say(f"wrote {target}: keep it as you keep the table")


def _say(evaluation: Evaluation) -> None:
    console.say(evaluation.warning)
    console.say(f"{evaluation.workload}, {evaluation.mechanism}, {evaluation.records:,} records")
    console.say(f"table: {evaluation.table}")
    console.say("errors in points (percent of all records); L1 is the sum over a whole marginal")
    head = ("group", "of", "largest", "mean", "mean L1", "stated", "within it", "intervals that held")
    rows: list[tuple[str, ...]] = []
    for group in evaluation.groups:
        checks = group.intervals
        intervals = (
            "–"
            if checks.held is None
            else f"{100 * checks.held:.1f} % of {checks.asked}, stated {_share(checks.promised)}"
        )
        rows.append(
            (
                group.name,
                "answers",
                *_figures(group.answers),
                _cell(group.stated),
                _share(group.held),
                intervals,
            )
        )
        if group.rows is not None:
            rows.append(("", "rows", *_figures(group.rows), "–", "–", "–"))
    console.table(head, rows, right=(2, 3, 4, 5, 6))
    for one in evaluation.worst[:3]:
        worse = one.answers if one.rows is None else one.rows
        console.say(
            f"  among the worst: {', '.join(one.attributes)}: L1 {_cell(worse.l1)}, largest {_cell(worse.largest)}"
        )


def _figures(errors: Errors) -> tuple[str, str, str]:
    return _cell(errors.largest), _cell(errors.mean), _cell(errors.l1)


def _cell(value: float | None) -> str:
    """An error in points (percent of all records)."""
    return "–" if value is None else f"{100 * value:.4g}"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.4g} %"
