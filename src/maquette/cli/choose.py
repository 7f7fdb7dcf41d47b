"""`maquette choose`, `above` and `stream`: a private choice, tests against a threshold, running counts over time."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maquette.cli import console
from maquette.cli.options import (
    AsJson,
    DomainFile,
    Payer,
    Place,
    Privacy,
    Quiet,
    Source,
    Workload,
    grouped,
)
from maquette.errors import BudgetExceeded, ParameterError

if TYPE_CHECKING:
    from maquette.domain import Domain

Key = Annotated[
    str | None,
    typer.Option(help="A name for this run in the ledger; the same name repeats it or continues it."),
]


def register(app: typer.Typer) -> None:
    app.command("choose")(grouped(choose))
    app.command("above")(grouped(above))
    app.command("stream")(grouped(stream))


def choose(
    *,
    source: Source,
    domain: DomainFile,
    privacy: Privacy,
    workload: Workload,
    attribute: Annotated[
        str | None,
        typer.Option(help="With --quantile: the ordered attribute whose cells are the candidates."),
    ] = None,
    quantile: Annotated[
        float | None, typer.Option(help="Choose the cell at which this share of the records is reached.")
    ] = None,
    method: Annotated[str, typer.Option(help="auto, permute-and-flip, exponential or noisy-max.")] = "auto",
    payer: Payer,
    key: Key = None,
    place: Place,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Choose privately: the query that counts most among several, or the cell of a quantile.

    \b
    Example:
      maquette choose people.csv --domain people.domain.json --epsilon 0.5 --ledger people.ledger \\
        --class points:region
      maquette choose people.csv --domain people.domain.json --epsilon 0.5 --ledger people.ledger \\
        --attribute age --quantile 0.5
    """
    from maquette.domain import Domain
    from maquette.tools.choose import choose as make

    declared = Domain.load(domain)
    if (attribute is None) != (quantile is None):
        raise ParameterError("a quantile needs both --attribute and --quantile")
    candidates: Any = attribute
    if attribute is None:
        candidates = workload.read(declared)
    with console.progress(quiet=quiet) as tell:
        handle = place.open(source, declared, tell)
        chosen = make(
            handle,
            candidates,
            score="count" if quantile is None else "quantile",
            quantile=quantile,
            method=method,  # pyright: ignore[reportArgumentType]
            **asdict(privacy),
            **asdict(payer),
            key=key,
        )
    if as_json:
        console.say_json(asdict(chosen))
    else:
        console.say(str(chosen))


def above(
    *,
    source: Source,
    domain: DomainFile,
    privacy: Privacy,
    predicates: Annotated[
        list[str], typer.Argument(metavar="PREDICATE...", help="SQL conditions, in order.")
    ],
    threshold: Annotated[int, typer.Option(help="The threshold, a number of records.")],
    positives: Annotated[int, typer.Option(help="How many questions may be above it.")] = 1,
    values: Annotated[
        bool, typer.Option("--values", help="Also show a noisy count for each answer above.")
    ] = False,
    questions: Annotated[int, typer.Option(help="How many questions the stated accuracy covers.")] = 1000,
    payer: Payer,
    key: Key = None,
    place: Place,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Test questions against a threshold, one after the other: the sparse vector.

    Only answers above the threshold use up the budget, which is reserved at the start. The same command again goes on
    with the same stream and asks its questions again.

    \b
    Example:
      maquette above people.csv --domain people.domain.json --epsilon 1 --ledger people.ledger --threshold 500 \\
        --positives 2 "age < 20" "age between 20 and 40" "age > 60"
    """
    from maquette.domain import Domain
    from maquette.tools.sparse_vector import above_threshold

    declared = Domain.load(domain)
    _check_readable(declared, predicates)
    with console.progress(quiet=quiet) as tell:
        handle = place.open(source, declared, tell)
        stream = above_threshold(
            handle,
            threshold=threshold,
            positives=positives,
            values=values,
            questions=questions,
            **asdict(privacy),
            **asdict(payer),
            key=key,
        )
    outcomes: list[dict[str, Any]] = []
    refusal = None
    for text in predicates:
        try:
            outcomes.append(asdict(stream.ask(text)))
        except BudgetExceeded as error:
            refusal = str(error)
            break
    if as_json:
        console.say_json(
            {"key": stream.key, "outcomes": outcomes, "accuracy": asdict(stream.accuracy), "refusal": refusal}
        )
    else:
        for one in outcomes:
            value = "" if one["value"] is None else f", about {one['value']:,.0f}"
            console.say(f"{'above' if one['above'] else 'not above'}{value}: {one['question']}")
        console.say(str(stream.accuracy))
        if refusal is not None:
            console.complain(f"refused: {refusal}")
    if refusal is not None:
        raise typer.Exit(3)


def stream(
    *,
    source: Source,
    domain: DomainFile,
    privacy: Privacy,
    time: Annotated[str, typer.Option(help="The ordered attribute whose cells are the steps of time.")],
    condition: Annotated[
        str | None, typer.Option("--where", help="Count the records of this SQL condition only.")
    ] = None,
    payer: Payer,
    key: Key = None,
    place: Place,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Running counts over time, with an error that holds for all steps together.

    The same command again shows the stored counts and costs nothing.

    \b
    Example:
      maquette stream visits.csv --domain visits.domain.json --epsilon 1 --ledger visits.ledger --time day
    """
    from maquette.domain import Domain
    from maquette.tools.stream import count_stream

    declared = Domain.load(domain)
    with console.progress(quiet=quiet) as tell:
        handle = place.open(source, declared, tell)
        counts = count_stream(
            handle,
            time,
            condition=condition,
            **asdict(privacy),
            **asdict(payer),
            key=key,
        )
    if as_json:
        steps = [asdict(step) for step in counts]
        console.say_json({"key": counts.key, "error": counts.error, "beta": counts.beta, "steps": steps})
        return
    for step in counts:
        console.say(f"{step.time}: {step.count:,.0f}")
    console.say(f"every count is within {counts.error:,.0f} records, except with probability {counts.beta:g}")


def _check_readable(declared: Domain, texts: list[str]) -> None:
    """What cannot be read is refused before the table is opened."""
    from maquette.queries import where

    for text in texts:
        where(declared, text)
