"""`maquette learn` and `maquette demo`: tours in the terminal, of the theory and of a release, on made-up numbers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from maquette.cli import console
from maquette.cli.options import Quiet
from maquette.errors import ParameterError


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)
    app.command("learn")(learn)


@dataclass(frozen=True, slots=True)
class Riddle:
    """A question before the tour; `right` is the number of the right answer, from 1."""

    words: str
    answers: tuple[str, ...]
    right: int
    why: str


@dataclass(frozen=True, slots=True)
class Tour:
    """What is shown: a function that prints and returns what can be drawn, and a riddle about it."""

    about: str
    show: Callable[[], Any]
    riddle: Riddle
    is_run: bool = False
    """Does it have steps that can be animated?"""
    table: tuple[int, ...] | None = None
    """Whose shares are marked in the animation."""
    title: str | None = None
    """Of the picture, where that shows a part of the tour only."""
    lines: Callable[[], dict[str, float]] | None = None
    """Values that are marked across the picture, by their words."""


def learn(
    topic: Annotated[
        str | None, typer.Argument(metavar="[TOPIC]", help="Which tour; without one, a list.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Also draw what is shown: .svg, .png, .html or .json.")
    ] = None,
    animate: Annotated[
        Path | None, typer.Option(help="Also write a run, step by step, as an animated .svg.")
    ] = None,
    ask: Annotated[
        bool | None,
        typer.Option("--ask/--no-ask", help="Ask for a guess first; by default in a terminal only."),
    ] = None,
) -> None:
    """Watch a mechanism of the theory on a made-up table: its whole law, or a run step by step.

    In a terminal the tour first asks what you expect.

    \b
    Example:
      maquette learn
      maquette learn sparse-vector
      maquette learn exponential --plot law.svg
      maquette learn private-multiplicative-weights --animate run.svg
    """
    if topic is None:
        console.facts({name: tour.about for name, tour in TOURS.items()})
        console.say("\nmaquette learn TOPIC shows one; the lectures are in the documentation")
        return
    if topic not in TOURS:
        raise ParameterError(f"expected a topic, one of {', '.join(TOURS)}, got {topic!r}")
    tour = TOURS[topic]
    if plot is not None:
        console.check_plot(plot)
    if animate is not None and not (tour.is_run and animate.suffix == ".svg"):
        runs = ", ".join(name for name, one in TOURS.items() if one.is_run)
        raise ParameterError(f"expected a file that ends in .svg, for one of the topics {runs}")
    console.say(tour.about)
    is_asked = sys.stdin.isatty() and sys.stdout.isatty() if ask is None else ask
    guess = _guess(tour.riddle) if is_asked else None
    shown = tour.show()
    if guess is not None:
        verdict = "Right." if guess == tour.riddle.right else f"It is {tour.riddle.right}."
        console.say(f"\n{verdict} {tour.riddle.why}")
    _draw(shown, tour, plot=plot, animate=animate)


def _guess(riddle: Riddle) -> int | None:
    """The number of an answer, asked until it is one; None at the end of the input."""
    console.say(f"\nFirst: {riddle.words}")
    for number, answer in enumerate(riddle.answers, start=1):
        console.say(f"  {number}  {answer}")
    numbers = {str(number): number for number in range(1, len(riddle.answers) + 1)}
    while True:
        typer.echo("your guess [1]: ", nl=False)
        text = sys.stdin.readline()
        if not text or (text.strip() or "1") in numbers:
            console.say()
            return numbers[text.strip() or "1"] if text else None
        console.say(f"please type a number from 1 to {len(numbers)}")


def _draw(shown: Any, tour: Tour, *, plot: Path | None, animate: Path | None) -> None:
    from maquette.lessons import animation, picture

    if plot is not None:
        title = tour.title or tour.about
        lines = None if tour.lines is None else tour.lines()
        console.write_plot(picture(shown, title=title, lines=lines), plot, title=title)
        console.say(f"wrote {plot}")
    if animate is not None:
        try:
            animate.write_text(animation(shown, table=tour.table, title=tour.about), encoding="utf-8")
        except OSError as error:
            raise ParameterError(f"cannot write {animate}: {error.strerror}") from None
        console.say(f"wrote {animate}; a browser plays it")


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

    places = ("north", "south", "east", "west")
    law = exponential([12, 10, 9, 4], [11, 10, 10, 4], epsilon=1.0, names=places)
    console.say("Four regions with counts 12, 10, 9, 4; one record moves from the north to the east.")
    _law(law, 1.0)
    return law


def _laplace() -> Any:
    from maquette.lessons import laplace

    law = laplace(5, 6, epsilon=1.0)
    console.say("Whole numbers r with the score -|r - 5|, and a neighbour's count 6:")
    _law(law, 1.0)
    half = laplace(5, 6, epsilon=1.0, rate="epsilon/2")
    console.say(
        f"with weights exp(epsilon score / 2), the generic rate, the loss is {half.worst:.3f}: twice the noise"
    )
    return law


def _randomised_response() -> Any:
    from maquette.lessons import randomised_response
    from maquette.theory import direct, tails

    console.say(
        "Each of 12 people tells the truth with probability e^epsilon / (1 + e^epsilon), epsilon 1; 4 or 5 mean yes:"
    )
    law = randomised_response(4, 5, people=12, epsilon=1.0)
    _law(law, 1.0)
    local = tails.randomised_response(n=10_000, epsilon=1.0, log_queries=0.0, beta=0.05)
    trusted = direct.laplace(n=10_000, epsilon=1.0, log_queries=0.0, beta=0.05)
    console.say(
        f"of 10,000 people the share is known within {local:.4f}; with a trusted curator within {trusted:.4f}"
    )
    return law


def _half_planes() -> Any:
    from maquette.lessons import half_planes

    corners = [(0, 0), (6, 0), (0, 6)]
    for words, fourth in (("alone", None), ("with a point outside", (6, 6)), ("with a point inside", (2, 2))):
        planes = half_planes([*corners, fourth] if fourth else corners)
        said = "all labellings" if planes.shattered else f"not {' nor '.join(map(_points, planes.missing))}"
        console.say(f"  three corners {words:22} {len(planes.labellings):2} labellings: {said}")
    return half_planes([*corners, (2, 2)])


def _points(chosen: tuple[int, ...]) -> str:
    return "{" + ", ".join(str(i + 1) for i in chosen) + "}"


def _puzzles() -> Any:
    from maquette.lessons import puzzles

    solved = puzzles()
    console.say("A check that a share 2^-b of all rows passes; how many rows were tried until one did:")
    for one in solved:
        console.say(f"  {one.bits:2} bits: {one.tries:6,} tries, {2**one.bits:,} expected")
    return solved


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
        "Counts 0,0,0,0,0,0 and 1,1,1,-1,-1,-1 against the threshold 0, at most three answers above, epsilon 1:"
    )
    for variant in VARIANTS[:4]:
        loss = sparse_vector([0] * 6, [1] * 3 + [-1] * 3, cap=3, variant=variant).worst
        console.say(f"  {variant:30} loss {loss:.3f}{'' if loss <= 1 else '  NOT PRIVATE'}")
    console.say("and with a long stream of small counts, one answer above:")
    for variant in (VARIANTS[0], *VARIANTS[4:]):
        losses = [
            sparse_vector([0] * (k - 1) + [1], [1] * (k - 1) + [0], variant=variant).worst for k in (3, 6, 12)
        ]
        grows = "" if max(losses) <= 1 else "  NOT PRIVATE"
        console.say(
            f"  {variant:30} loss {', '.join(f'{v:.3f}' for v in losses)} for 3, 6, 12 questions{grows}"
        )
    return sparse_vector([0] * 4, [1, 1, -1, -1], cap=2)


def _weights() -> Any:
    from maquette.lessons import multiplicative_weights

    trace = multiplicative_weights(SMALL, [[1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1]], gap=0.05)
    console.table(
        ["update", "query", "gap", "potential"],
        [[str(r.number), str(r.query + 1), f"{r.gap:+.3f}", f"{r.potential:.4f}"] for r in trace],
        right=(0, 1, 2, 3),
    )
    return trace


def _random_questions() -> list[list[int]]:
    import numpy as np

    return np.random.default_rng(0).integers(0, 2, (60, len(LARGE))).tolist()


def _private_lines() -> dict[str, float]:
    from maquette.lessons import pmw_plan

    plan = pmw_plan(LARGE, _random_questions(), epsilon=1.0, beta=0.05)
    return {"threshold": plan.threshold, "proved bound": plan.error}


def _private_weights() -> Any:
    from maquette.lessons import pmw_plan, private_multiplicative_weights

    queries = _random_questions()
    plan = pmw_plan(LARGE, queries, epsilon=1.0, beta=0.05)
    trace = private_multiplicative_weights(LARGE, queries)
    console.say(
        f"{sum(LARGE):,} people, {len(LARGE)} cells, {len(queries)} random questions, epsilon 1; every answer within "
        f"{plan.error:.3f}, says the theorem:"
    )
    console.table(
        ["question", "truth", "guess", "answer", "", "potential"],
        [
            [str(q.number), *(f"{v:.3f}" for v in (q.truth, q.guess, q.answer)), "paid" if q.is_paid else "free",
             f"{q.potential:.3f}"]
            for q in trace[:20]
        ],
        right=(0, 1, 2, 3, 5),
    )  # fmt: skip
    worst = max(abs(q.answer - q.truth) for q in trace)
    console.say(f"... after {len(trace)} questions {trace[-1].paid} were paid for; largest error {worst:.3f}")
    return trace


def _stream() -> Any:
    from maquette.lessons import sparse_vector_run

    trace = sparse_vector_run([3, 8, 2, 25, 5, 48, 2, 12, 70, 30], threshold=40, cap=2, seed=1)
    console.say(
        "Counts against the threshold 40, at most two answers above, epsilon 1. The analyst sees the last column:"
    )
    console.table(
        ["question", "count", "with noise", "noisy threshold", ""],
        [
            [str(t.number), str(t.count), str(t.noisy), str(t.threshold), "ABOVE" if t.above else "not above"]
            for t in trace
        ],
        right=(0, 1, 2, 3),
    )
    return trace


def _sampling() -> Any:
    from maquette.lessons import sampling, witness

    prefixes = [[1] * i + [0] * (20 - i) for i in range(1, 20)]
    run = sampling(range(1, 21), prefixes, rows=100)
    console.say(
        f"100 rows of a table, 200 times, 19 prefixes: some sample is within {run.bound:.3f}, says the bound;"
    )
    console.say(
        f"{100 * run.share_within(run.bound):.0f} % of them are; the worst of all is {max(run.largest):.3f}"
    )
    sample = witness(range(1, 21), prefixes, alpha=0.1)
    console.say(
        f"So there are good rows, and drawing finds some: draw {sample.draws} has {sum(sample.counts)} rows within "
        f"{sample.error:.3f}, 0.1 was asked for"
    )
    return run


def _reconstruction() -> Any:
    from maquette.lessons import reconstruction

    attacks = reconstruction()
    console.say("160 random counts of a secret bit of 40 people, attacked by least squares:")
    for one in attacks:
        console.say(f"  noise {one.noise:4g}: {100 * one.recovered:3.0f} % of the bits are found")
    return attacks


SMALL = (7, 2, 1, 0)
LARGE = tuple(4000 * share for share in (30, 10, 4, 4, 2, 2, 1, 1, 20, 8, 8, 4, 2, 2, 1, 1))
"""Made-up tables, as counts of their cells."""

TOURS = {
    "exponential": Tour(
        "The law of the exponential mechanism, and a neighbour's beside it",
        _exponential,
        Riddle(
            "epsilon is 1 and one record moves between two candidates. How large can a log-ratio get?",
            ("1/2", "1", "2"),
            2,
            "Two scores move by 1 each; with weights exp(epsilon score / 2) numerator and sum both move by epsilon/2.",
        ),
    ),
    "smalldb": Tour(
        "SmallDB: the law over all small databases",
        _smalldb,
        Riddle(
            "Three cells, databases of two rows. How many are there to draw from?",
            ("6", "8", "9"),
            1,
            "Multisets: order does not matter, so there are (3 + 2 - 1 choose 2) = 6.",
        ),
    ),
    "laplace": Tour(
        "Laplace noise as an exponential mechanism",
        _laplace,
        Riddle(
            "The score is -|r - count|. Which rate is epsilon-private?",
            ("epsilon", "epsilon / 2 and no more", "epsilon, but only without the minus"),
            1,
            "The sum of the weights is the same for every count, so that only the numerator moves.",
        ),
    ),
    "randomised-response": Tour(
        "Randomised response: one coin a person, and no curator",
        _randomised_response,
        Riddle(
            "How does the error of the share fall with the number n of people?",
            ("like 1 / n", "like 1 / sqrt(n)"),
            2,
            "n independent coins: the noise of the sum grows like sqrt(n). A trusted curator adds one draw of noise.",
        ),
    ),
    "half-planes": Tour(
        "Half-planes shatter three points of the plane, and no four",
        _half_planes,
        Riddle(
            "A fourth point lies inside the triangle of the others. Which set does no half-plane cut out?",
            ("two corners", "the inner point alone", "none is missing"),
            2,
            "A half-plane without the corners is without their triangle. Outside, it is a pair of opposite corners.",
        ),
        title="Three corners and a point inside: what no half-plane has inside",
    ),
    "puzzles": Tour(
        "Why synthetic rows can be hard to make",
        _puzzles,
        Riddle(
            "All private rows pass a check of b bits. What may it take to make one new row that does?",
            ("b tries", "about 2^b tries"),
            2,
            "A check is quick to run and slow to pass. Answers alone need no rows: only synthetic data is hard.",
        ),
    ),
    "sampling": Tour(
        "The sampling argument: few rows stand for many",
        _sampling,
        Riddle(
            "How does the error of m sampled rows grow with the number of queries k?",
            ("like k", "like the square root of k", "like the square root of ln k"),
            3,
            "Hoeffding for one query, the union bound for all: sqrt(ln(2k) / (2m)).",
        ),
    ),
    "sparse-vector": Tour(
        "The sparse vector, and five famous wrong variants",
        _sparse_vector,
        Riddle(
            "What must grow with the number of answers above?",
            ("the noise of the threshold", "the noise of every test", "neither"),
            2,
            "The threshold's noise is drawn once; each answer above costs a share of the tests' budget.",
        ),
        title="The sparse vector: all transcripts of four questions, two answers above",
    ),
    "sparse-vector-run": Tour(
        "One run of the sparse vector, question by question",
        _stream,
        Riddle(
            "A count of 48 meets the threshold 40. Is it above for sure?",
            ("yes", "no"),
            2,
            "Both sides carry noise; the accuracy statement says from which distance on it is almost sure.",
        ),
        is_run=True,
    ),
    "multiplicative-weights": Tour(
        "Multiplicative weights, update by update",
        _weights,
        Riddle(
            "Four cells, gap 0.05. How many updates at most, whatever the queries?",
            ("277", "4", "there is no limit"),
            1,
            "ln 4 / (2 * 0.05^2): the potential starts at ln|X| at most and falls by 2 gap^2 each time.",
        ),
        is_run=True,
        table=SMALL,
    ),
    "private-multiplicative-weights": Tour(
        "Private multiplicative weights: which answers are paid for",
        _private_weights,
        Riddle(
            "60 questions come. About how many are paid for?",
            ("all 60", "about 17", "none"),
            2,
            "Only where the hypothesis is far off; it learns from each, and later guesses are free.",
        ),
        is_run=True,
        table=LARGE,
        lines=_private_lines,
    ),
    "reconstruction": Tour(
        "A reconstruction attack meets noise",
        _reconstruction,
        Riddle(
            "160 counts of 40 people, noise of deviation 2 on each. How many secret bits does least squares find?",
            ("about half: guessing", "nearly all"),
            2,
            "Noise below the square root of n does not help against many answers (Dinur and Nissim 2003).",
        ),
    ),
}


# `maquette demo`: from a table to a release and its report, in under a minute.


def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to work in.")] = Path(
        "demo-output"
    ),
    quiet: Quiet = False,
) -> None:
    """Invent a census table, release it, ask the release questions and write the report.

    \b
    Example:
      maquette demo -o demo-output
    """
    from maquette import demo as show
    from maquette.results import wording
    from maquette.results.folder import REPORT

    console.say("1. An invented table of 20,000 people, and the domain that declares its columns")
    source, declared = show.write(output)
    console.say(f"   {source}\n   {declared}")
    console.say(f"2. All 1-, 2- and 3-way marginals for epsilon = {show.EPSILON:g}, delta = {show.DELTA:g}")
    with console.progress(quiet=quiet) as tell:
        result = show.release(source, declared, progress=tell)
        place = result.save(output / "people.maquette")
    console.say(f"   {result.headline}")
    console.facts(result.facts(), indent="   ")
    console.say(
        "3. Questions to the release, which cost nothing more (the table is invented, so true values can be shown)"
    )
    for question in show.QUESTIONS:
        console.say(f"   {question}")
        console.say(f"      {result.answer(question)}; truth {wording.percent(show.truth(question))}")
    console.say("4. The same by hand")
    console.say(f"   maquette answer {place} \"age >= 60 and work = 'retired'\"")
    console.say(f"   maquette ledger show {output / show.LEDGER}")
    console.say(f"The report, for a browser: {place / REPORT}")
