"""`maquette audit` and `maquette evaluate`: attacks that must fail on a release, and its true errors. Not private."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maquette.cli import console
from maquette.cli.answer import Folder, PaidBy
from maquette.cli.options import (
    AsJson,
    Delimiter,
    Delta,
    Memory,
    Place,
    Quiet,
    RelationName,
    file_name,
    grouped,
)
from maquette.errors import ParameterError

if TYPE_CHECKING:
    from maquette.audit.attacks import Attack, Finding, Method
    from maquette.audit.evaluate import Errors, Evaluation
    from maquette.domain import Relation

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


@app.command("reconstruct")
def reconstruct(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="[RELEASE]", help="A release folder. Default: attack releases of invented people."
        ),
    ] = None,
    people_file: Annotated[
        Path | None,
        typer.Option(
            "--people", help="With RELEASE: a CSV file of the people in the table, with the secret attribute."
        ),
    ] = None,
    hidden: Annotated[
        str | None, typer.Option("--secret", help="With RELEASE: the attribute to guess; it has two values.")
    ] = None,
    delimiter: Delimiter = ",",
    attack: Annotated[
        str, typer.Option(help="shattered set, least squares, linear program, or all.")
    ] = "all",
    epsilon: Annotated[float, typer.Option(help="Privacy budget of the releases that are attacked.")] = 1.0,
    delta: Delta = 0.0,
    relation: RelationName = "add-remove",
    mechanism: Annotated[str, typer.Option(help="A mechanism by name, or auto.")] = "auto",
    bits: Annotated[int, typer.Option(help="Secret bits per trial, for linear reconstruction.")] = 48,
    points: Annotated[int, typer.Option(help="Points of the shattered set, an even number.")] = 8,
    trials: Annotated[int, typer.Option(help="How many invented tables are attacked.")] = 5,
    as_json: AsJson = False,
    quiet: Quiet = False,
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
    from maquette.domain import Relation

    _check.one_of(["all", *ATTACKS], attack=attack)
    between = Relation.named(relation)
    chosen: list[Attack] = [one for one in ATTACKS if attack in ("all", one)]
    if folder is not None:
        findings = _published(folder, people_file, hidden, delimiter, chosen)
    else:
        if people_file is not None or hidden is not None:
            raise ParameterError("--people and --secret go with a RELEASE folder")
        findings = _made_up(
            chosen,
            epsilon=epsilon,
            delta=delta,
            relation=between,
            mechanism=mechanism,
            bits=bits,
            points=points,
            trials=trials,
            quiet=quiet,
        )
    warning = PRIVATE if folder is not None else None
    if as_json:
        console.say_json({"warning": warning, "note": REFUTES, "findings": [asdict(one) for one in findings]})
    else:
        _show(findings, warning=warning)


def _made_up(
    attacks: list[Attack],
    *,
    epsilon: float,
    delta: float,
    relation: Relation,
    mechanism: str,
    bits: int,
    points: int,
    trials: int,
    quiet: bool,
) -> list[Finding]:
    from maquette.audit import attacks as trial
    from maquette.core.budget import Budget

    Budget(epsilon, delta)
    limit = trial.limit_for(relation, epsilon=epsilon, delta=delta)
    releasing = trial.releasing(epsilon=epsilon, delta=delta, relation=relation, mechanism=mechanism)
    findings: list[Finding] = []
    with console.progress(quiet=quiet) as tell:
        for i, attack in enumerate(attacks):
            people = points if attack == "shattered set" else bits
            for name, answering, bound in (("exact", trial.exact, None), (mechanism, releasing, limit)):
                tell(f"{attack}, {name} answers", i / len(attacks))
                findings.append(
                    trial.run(attack, answering, people=people, trials=trials, name=name, limit=bound)
                )
    return findings


def _published(
    folder: Path, people_file: Path | None, hidden: str | None, delimiter: str, attacks: list[Attack]
) -> list[Finding]:
    from maquette.audit import attacks as published
    from maquette.audit.attacks import METHODS, read_people
    from maquette.results.loading import load

    if people_file is None or hidden is None:
        raise ParameterError("an attack on a release needs --people FILE and --secret ATTRIBUTE")
    methods: list[Method] = [method for method in METHODS if method in attacks]
    if not methods:
        raise ParameterError(f"a finished release is attacked by {' or '.join(METHODS)}")
    release = load(folder)
    people = read_people(people_file, release.domain, delimiter=delimiter)
    return published.attack(release, people, hidden=hidden, methods=methods)


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


def evaluate(
    *,
    folder: Folder,
    source: Annotated[str, typer.Argument(metavar="TABLE", help="The private table that it was made from.")],
    domain: Annotated[
        Path | None,
        typer.Option("--domain", "-d", help="The domain file. Default: the domain of the release."),
    ] = None,
    place: Place,
    memory: Memory = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help=f"The page with plots. Default: TABLE{SUFFIX}."),
    ] = None,
    ledger: PaidBy = None,
    page: Annotated[bool, typer.Option(help="Write the page.")] = True,
    as_json: AsJson = False,
    quiet: Quiet = False,
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
    target = output if output is not None else Path(f"{file_name(source, place.table)}{SUFFIX}")
    if page:
        check_page_place(target)
    if page and output is None:
        check_default_page_place(target)
    declared = release.domain if domain is None else Domain.load(domain)
    persons = {}
    if release.persons is not None:
        persons = {"person": release.persons.column, "rows_per_person": release.persons.rows}
    with console.progress(quiet=quiet) as tell:
        handle = place.open(source, declared, tell, memory=memory, **persons)
        tell("comparing with the truth", 0.0)
        evaluation = compare(release, handle, ledger=payer)
        tell("comparing with the truth", 1.0)
        if page:
            write_page(evaluation, target)
    if as_json:
        console.say_json(evaluation.to_dict() | {"page": str(target) if page else None})
        return
    _say(evaluation)
    if page:
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
