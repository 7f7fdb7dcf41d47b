"""`maquette learn`: short tours of the theory in the terminal, on made-up numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from maquette.cli import bound_plot, console
from maquette.errors import ParameterError


def register(app: typer.Typer) -> None:
    app.command("learn")(learn)


def learn(
    topic: Annotated[
        str | None, typer.Argument(metavar="[TOPIC]", help="Which tour; without one, a list.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Also draw what is shown: .svg, .png, .html or .json.")
    ] = None,
) -> None:
    """Watch a mechanism of the theory on a made-up table: its whole law, or a run step by step.

    \b
    Example:
      maquette learn
      maquette learn sparse-vector
      maquette learn exponential --plot law.svg
    """
    if topic is None:
        console.facts({name: about for name, (about, _) in TOURS.items()})
        console.say("\nmaquette learn TOPIC shows one; the lectures are in the documentation")
        return
    if topic not in TOURS:
        raise ParameterError(f"expected a topic, one of {', '.join(TOURS)}, got {topic!r}")
    if plot is not None:
        bound_plot.check_place(plot)
    about, tour = TOURS[topic]
    console.say(about)
    shown = tour()
    if plot is not None:
        from maquette.lessons import picture

        bound_plot.write(picture(shown, title=about), plot)
        console.say(f"wrote {plot}")


def _law(law: Any, epsilon: float) -> None:
    console.table(
        ["outcome", "table", "neighbour", "log-ratio"],
        [
            [r["outcome"], f"{r['here']:.4f}", f"{r['there']:.4f}", f"{r['log ratio']:+.3f}"]
            for r in law.table()
        ],
        right=(1, 2, 3),
    )
    console.say(f"largest |log-ratio| {law.worst:.3f}, epsilon {epsilon:g}")


def _exponential() -> Any:
    from maquette.lessons import exponential

    law = exponential([12, 10, 9, 4], [11, 10, 10, 4], epsilon=1.0)
    console.say("Four candidates with counts 12, 10, 9, 4; one record moves from the first to the third.")
    _law(law, 1.0)
    return law


def _smalldb() -> Any:
    from maquette.lessons import smalldb

    law = smalldb([3, 1, 0], [2, 1, 1], [[1, 0, 0], [1, 1, 0]], rows=2, epsilon=1.0)
    console.say("Three cells, two prefixes, four people; every database of two rows, as counts per cell.")
    _law(law, 1.0)
    return law


def _sparse_vector() -> Any:
    from maquette.lessons import sparse_vector
    from maquette.lessons.laws import VARIANTS

    console.say(
        "Counts 0,0,0,0,0,0 and 1,1,1,-1,-1,-1 against the threshold 0, three answers above at most, epsilon 1:"
    )
    for variant in VARIANTS:
        loss = sparse_vector([0] * 6, [1] * 3 + [-1] * 3, cap=3, variant=variant).worst
        console.say(f"  {variant:30} loss {loss:.3f}{'' if loss <= 1 else '  NOT PRIVATE'}")
    console.say("and with a long quiet stream, the value that was compared on show:")
    for length in (3, 6, 12):
        law = sparse_vector([0] * (length - 1) + [1], [1] * (length - 1) + [0], variant=VARIANTS[-1])
        console.say(f"  {length:3} questions: loss {law.worst:.3f}")
    return sparse_vector([0] * 4, [1, 1, -1, -1], cap=2)


def _weights() -> Any:
    from maquette.lessons import multiplicative_weights

    trace = multiplicative_weights([7, 2, 1, 0], [[1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1]], gap=0.05)
    console.table(
        ["update", "query", "gap", "potential"],
        [[str(r.number), str(r.query + 1), f"{r.gap:+.3f}", f"{r.potential:.4f}"] for r in trace],
        right=(0, 1, 2, 3),
    )
    return trace


def _sampling() -> Any:
    from maquette.lessons import sampling

    prefixes = [[1] * i + [0] * (20 - i) for i in range(1, 20)]
    run = sampling(range(1, 21), prefixes, rows=100)
    console.say(
        f"100 rows of a table, 200 times, 19 prefixes: some sample is within {run.bound:.3f}, says the bound;"
    )
    console.say(
        f"{100 * run.share_within(run.bound):.0f} % of them are; the worst of all is {max(run.largest):.3f}"
    )
    return run


def _reconstruction() -> Any:
    from maquette.lessons import reconstruction

    attacks = reconstruction()
    console.say("160 random counts of a secret bit of 40 people, attacked by least squares:")
    for one in attacks:
        console.say(f"  noise {one.noise:4g}: {100 * one.recovered:3.0f} % of the bits are found")
    return attacks


TOURS: dict[str, tuple[str, Callable[[], Any]]] = {
    "exponential": ("The law of the exponential mechanism, and a neighbour's beside it", _exponential),
    "smalldb": ("SmallDB: the law over all small databases", _smalldb),
    "sampling": ("The sampling argument: few rows stand for many", _sampling),
    "sparse-vector": ("The sparse vector, and its four famous wrong variants", _sparse_vector),
    "multiplicative-weights": ("Multiplicative weights, update by update", _weights),
    "reconstruction": ("A reconstruction attack meets noise", _reconstruction),
}
