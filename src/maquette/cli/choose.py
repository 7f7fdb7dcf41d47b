"""`maquette choose`, `above` and `stream`: a private choice, tests against a threshold, running counts over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maquette.cli import console
from maquette.cli.options import Shown, TableFile, TableReading, grouped, read_workload
from maquette.errors import BudgetExceeded, ParameterError
from maquette.requests import AnswerTerms, Payer, WorkloadWords

if TYPE_CHECKING:
    from maquette.domain import Domain


def register(app: typer.Typer) -> None:
    app.command("choose")(grouped(choose))
    app.command("above")(grouped(above))
    app.command("stream")(grouped(stream))


@dataclass(frozen=True, kw_only=True)
class CandidateOptions:
    """What is chosen among, beside queries, and how."""

    attribute: Annotated[
        str | None,
        typer.Option(help="With --quantile: the ordered attribute whose cells are the candidates."),
    ] = None
    quantile: Annotated[
        float | None, typer.Option(help="Choose the cell at which this share of the records is reached.")
    ] = None
    method: Annotated[str, typer.Option(help="auto, permute-and-flip, exponential or noisy-max.")] = "auto"


def choose(
    *,
    table: TableFile,
    terms: AnswerTerms,
    wish: CandidateOptions,
    workload: WorkloadWords,
    payer: Payer,
    reading: TableReading,
    shown: Shown,
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

    declared = Domain.load(table.domain)
    if (wish.attribute is None) != (wish.quantile is None):
        raise ParameterError("a quantile needs both --attribute and --quantile")
    candidates: Any = wish.attribute
    if wish.attribute is None:
        candidates = read_workload(workload, declared)
    with console.progress(quiet=shown.quiet) as tell:
        handle = reading.open(table.source, declared, tell)
        chosen = make(
            handle,
            candidates,
            score="count" if wish.quantile is None else "quantile",
            quantile=wish.quantile,
            method=wish.method,  # pyright: ignore[reportArgumentType]
            **vars(terms),
            **asdict(payer),
        )
    if shown.as_json:
        console.say_json(asdict(chosen))
    else:
        console.say(str(chosen))


@dataclass(frozen=True, kw_only=True)
class Tests:
    """What is tested against which threshold."""

    predicates: Annotated[list[str], typer.Argument(metavar="PREDICATE...", help="SQL conditions, in order.")]
    threshold: Annotated[int, typer.Option(help="The threshold, a number of records.")]
    positives: Annotated[int, typer.Option(help="How many questions may be above it.")] = 1
    values: Annotated[
        bool, typer.Option("--values", help="Also show a noisy count for each answer above.")
    ] = False
    questions: Annotated[int, typer.Option(help="How many questions the stated accuracy covers.")] = 1000


def above(
    *,
    table: TableFile,
    terms: AnswerTerms,
    wish: Tests,
    payer: Payer,
    reading: TableReading,
    shown: Shown,
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

    declared = Domain.load(table.domain)
    _check_readable(declared, wish.predicates)
    with console.progress(quiet=shown.quiet) as tell:
        handle = reading.open(table.source, declared, tell)
        stream = above_threshold(
            handle,
            threshold=wish.threshold,
            positives=wish.positives,
            values=wish.values,
            questions=wish.questions,
            **vars(terms),
            **asdict(payer),
        )
    outcomes: list[dict[str, Any]] = []
    refusal = None
    for text in wish.predicates:
        try:
            outcomes.append(asdict(stream.ask(text)))
        except BudgetExceeded as error:
            refusal = str(error)
            break
    if shown.as_json:
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
    table: TableFile,
    terms: AnswerTerms,
    time: Annotated[str, typer.Option(help="The ordered attribute whose cells are the steps of time.")],
    condition: Annotated[
        str | None, typer.Option("--where", help="Count the records of this SQL condition only.")
    ] = None,
    payer: Payer,
    reading: TableReading,
    shown: Shown,
) -> None:
    """Running counts over time, with an error that holds for all steps together.

    The same command again shows the stored counts and costs nothing.

    \b
    Example:
      maquette stream visits.csv --domain visits.domain.json --epsilon 1 --ledger visits.ledger --time day
    """
    from maquette.domain import Domain
    from maquette.tools.stream import count_stream

    declared = Domain.load(table.domain)
    with console.progress(quiet=shown.quiet) as tell:
        handle = reading.open(table.source, declared, tell)
        counts = count_stream(
            handle,
            time,
            condition=condition,
            **vars(terms),
            **asdict(payer),
        )
    if shown.as_json:
        steps = [asdict(step) for step in counts]
        console.say_json({"key": counts.key, "error": counts.error, "beta": counts.beta, "steps": steps})
        return
    for step in counts:
        console.say(f"{step.time}: {step.count:,.0f}")
    console.say(f"every count is within {counts.error:,.0f} records, except with probability {counts.beta:g}")


def _check_readable(declared: Domain, texts: Sequence[str]) -> None:
    """What cannot be read is refused before the table is opened."""
    from maquette.queries import where

    for text in texts:
        where(declared, text)
