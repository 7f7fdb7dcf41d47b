"""Pictures of laws and runs, as Vega-Lite: a value that a notebook shows, or that `maquette learn` writes to a file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from maquette.core._arguments import checks_arguments
from maquette.errors import ParameterError
from maquette.lessons.laws import Law
from maquette.lessons.plane import HalfPlanes
from maquette.lessons.traces import Attack, Puzzle, Question, Round, Sampling, Test

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
POTENTIAL = "potential, KL(table || hypothesis)"
TABLES = {"here": "this table", "there": "a neighbour"}
_CONFIG = {"font": "system-ui, sans-serif", "background": "white", "view": {"stroke": None}}


Shown = (
    Law
    | Sampling
    | HalfPlanes
    | Sequence[Round]
    | Sequence[Attack]
    | Sequence[Test]
    | Sequence[Question]
    | Sequence[Puzzle]
)


@checks_arguments
def picture(what: Shown, *, title: str = "", lines: Mapping[str, float] | None = None) -> dict[str, Any]:
    """A law with its neighbour's, a run or trace, samples against their bound, half-planes, puzzles or an attack.

    `lines` are values to be marked across the first panel of a trace, by their words: the threshold, the proved bound.
    """
    if isinstance(what, Law):
        panels = [_law(what), _ratios(what)]
    elif isinstance(what, HalfPlanes):
        panels = [_half_planes(what)]
    elif isinstance(what, Sampling):
        panels = [_sampling(what)]
    elif what and isinstance(what[0], Round):
        rounds = [one for one in what if isinstance(one, Round)]
        panels = [
            _line([{"x": r.number, "y": abs(r.gap)} for r in rounds], "update", "gap"),
            _line([{"x": r.number, "y": r.potential} for r in rounds], "update", POTENTIAL),
        ]
    elif what and isinstance(what[0], Attack):
        attacks = [one for one in what if isinstance(one, Attack)]
        line = _line(
            [{"x": a.noise, "y": a.recovered} for a in attacks],
            "standard deviation of the noise, in records",
            "share of the secret bits that are found",
        )
        panels = [_layers(line, _rule("y", 0.5, "guessing", dy=-6, x=316, align="right"))]
    elif what and isinstance(what[0], Test):
        panels = [_tests([one for one in what if isinstance(one, Test)])]
    elif what and isinstance(what[0], Question):
        questions = [one for one in what if isinstance(one, Question)]
        panels = [
            _marked(_answers(questions), lines),
            _line([{"x": q.number, "y": q.potential} for q in questions], "question", POTENTIAL),
        ]
    elif what and isinstance(what[0], Puzzle):
        puzzles = [one for one in what if isinstance(one, Puzzle)]
        counts = [{"x": float(p.bits), "y": math.log2(p.tries)} for p in puzzles]
        panels = [_line(counts, "bits of the check", "tries until a row passed, log2")]
    else:
        raise ParameterError("expected a law, a sampling, half-planes, rounds, a trace or attacks to draw")
    return {"$schema": SCHEMA, "title": title, "hconcat": panels, "config": _CONFIG}


def _law(law: Law) -> dict[str, Any]:
    values = [
        {"outcome": line["outcome"], "probability": line[table], "table": words}
        for line in law.table()
        for table, words in TABLES.items()
    ]
    order = list(TABLES.values())
    return _panel(
        values,
        "bar",
        x={"field": "outcome", "type": "nominal", "sort": None, "title": law.reading},
        y={"field": "probability", "type": "quantitative"},
        more={
            "xOffset": {"field": "table", "sort": order},
            "color": {"field": "table", "type": "nominal", "title": None, "scale": {"domain": order}},
        },
    )


def _ratios(law: Law) -> dict[str, Any]:
    values = [
        {"outcome": line["outcome"], "ratio": line["log ratio"]}
        for line in law.table()
        if math.isfinite(line["log ratio"])
    ]
    bars = _panel(
        values,
        "bar",
        x={"field": "outcome", "type": "nominal", "sort": None, "title": law.reading},
        y={"field": "ratio", "type": "quantitative", "title": "log-ratio"},
    )
    if law.epsilon is None:
        return bars
    ends = {"epsilon": law.epsilon, "-epsilon": -law.epsilon}
    rules = [_rule("y", place, words, dy=-6, x=316, align="right") for words, place in ends.items()]
    return _layers(bars, *rules)


def _sampling(run: Sampling) -> dict[str, Any]:
    bars = _panel(
        [{"error": one} for one in run.largest],
        "bar",
        x={
            "field": "error",
            "bin": {"maxbins": 30},
            "title": f"largest error of {run.rows} sampled rows",
            "axis": {"values": [i / 20 for i in range(21)], "format": ".2f"},
        },
        y={"aggregate": "count", "title": "trials"},
    )
    return _layers(bars, _rule("x", run.bound, "bound", dx=4, y=6, align="left"))


def _tests(tests: list[Test]) -> dict[str, Any]:
    """Noisy counts against the noisy threshold."""
    points = _panel(
        [
            {"question": t.number, "count": t.noisy, "said": "above" if t.above else "not above"}
            for t in tests
        ],
        {"type": "point", "filled": True, "size": 60},
        x={"field": "question", "type": "quantitative"},
        y={"field": "count", "type": "quantitative", "title": "count with noise"},
        more={"color": {"field": "said", "type": "nominal", "title": None}},
    )
    return _layers(points, _rule("y", tests[0].threshold, "noisy threshold", dy=-6, x=4, align="left"))


def _answers(questions: list[Question]) -> dict[str, Any]:
    """How far every guess and every answer was from the truth."""
    values = [
        {"question": q.number, "error": abs(value - q.truth), "what": what}
        for q in questions
        for what, value in (
            (("guess, far off", q.guess), ("answer, paid for", q.answer))
            if q.is_paid
            else (("guess, free answer", q.guess),)
        )
    ]
    return _panel(
        values,
        {"type": "point", "filled": True},
        x={"field": "question", "type": "quantitative"},
        y={"field": "error", "type": "quantitative"},
        more={"color": {"field": "what", "type": "nominal", "title": None}},
    )


def _marked(panel: dict[str, Any], lines: Mapping[str, float] | None) -> dict[str, Any]:
    """A panel with lines across it, each with its words."""
    if not lines:
        return panel
    rules = [_rule("y", place, words, dy=-6, x=316, align="right") for words, place in lines.items()]
    return _layers(panel, *rules)


def _half_planes(planes: HalfPlanes) -> dict[str, Any]:
    """A small picture for every labelling; where the points are not shattered, for every one that is missing."""
    shown = planes.missing or sorted(tuple(sorted(one)) for one in planes.labellings)
    head = "no half-plane has inside" if planes.missing else "inside a half-plane"
    values = [
        {
            "x": x,
            "y": y,
            "what": "inside" if i in chosen else "outside",
            "set": _set(chosen),
            "point": str(i + 1),
        }
        for chosen in shown
        for i, (x, y) in enumerate(planes.points)
    ]
    axis = {"type": "quantitative", "axis": None, "scale": {"zero": False, "padding": 12}}
    place = {"x": {"field": "x"} | axis, "y": {"field": "y"} | axis}
    order = ["inside", "outside"]
    dots = {
        "mark": {"type": "point", "filled": True, "size": 90, "opacity": 1},
        "encoding": place | {"color": {"field": "what", "title": None, "scale": {"domain": order}}},
    }
    names = {"mark": {"type": "text", "dx": 10, "dy": -8}, "encoding": place | {"text": {"field": "point"}}}
    return {
        "data": {"values": values},
        "facet": {"field": "set", "type": "nominal", "sort": None, "title": head},
        "columns": 4,
        "spec": {"width": 90, "height": 90, "layer": [dots, names]},
    }


def _set(chosen: Sequence[int]) -> str:
    return "{" + ", ".join(str(i + 1) for i in chosen) + "}"


def _rule(axis: str, place: float, words: str, **text: Any) -> dict[str, Any]:
    """A line across a panel at a value of one axis, with words beside it."""
    encoding = {axis: {"field": "place", "type": "quantitative"}}
    return {
        "data": {"values": [{"place": place, "words": words}]},
        "layer": [
            {"mark": {"type": "rule", "color": "#c2410c"}, "encoding": encoding},
            {
                "mark": {"type": "text", "color": "#c2410c"} | text,
                "encoding": encoding | {"text": {"field": "words"}},
            },
        ],
    }


def _layers(*layers: dict[str, Any]) -> dict[str, Any]:
    return {"width": 320, "height": 200, "layer": list(layers)}


def _line(values: list[dict[str, float]], x: str, y: str) -> dict[str, Any]:
    return _panel(
        values,
        {"type": "line", "point": True},
        x={"field": "x", "type": "quantitative", "title": x},
        y={"field": "y", "type": "quantitative", "title": y},
    )


def _panel(
    values: list[Any], mark: Any, *, x: dict[str, Any], y: dict[str, Any], more: dict[str, Any] | None = None
) -> dict[str, Any]:
    encoding = {"x": x, "y": y} | (more or {})
    return {"width": 320, "height": 200, "data": {"values": values}, "mark": mark, "encoding": encoding}


# Traces as animated pictures: SVG whose parts change by themselves in any browser, without scripts.
#
# Written by hand because Vega-Lite, which draws the other pictures, has no animation in its files.

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 640, 320, 40, 50, 36
SECONDS = 0.7
"""How long a step is shown."""
MAX_STEPS = 200
"""A longer trace is no picture any more."""
_INK, _BAR, _GOAL, _ALERT = "#334155", "#60a5fa", "#0f172a", "#c2410c"


@checks_arguments
def animation(
    trace: Sequence[Round] | Sequence[Question] | Sequence[Test],
    *,
    table: Sequence[float] | None = None,
    title: str = "",
) -> str:
    """A trace as an animated SVG: the hypothesis step by step, or counts against a noisy threshold.

    `table` is the made-up table: where it is given, its shares are marked on the bars of the hypothesis.
    """
    steps = list(trace)
    if not steps or len(steps) > MAX_STEPS:
        raise ParameterError(f"expected a trace of 1 to {MAX_STEPS} steps to animate, got {len(steps)}")
    tests = [one for one in steps if isinstance(one, Test)]
    if tests:
        return _page(title, _test_frames(tests), [_test_words(one) for one in tests])
    hypotheses = [one.hypothesis for one in steps if not isinstance(one, Test)]
    words = [_words(one) for one in steps if not isinstance(one, Test)]
    return _page(title, _bars(hypotheses, table), words)


def _words(step: Round | Question) -> str:
    if isinstance(step, Round):
        off = f"query {step.query + 1} was off by {step.gap:+.3f}"
        return f"update {step.number}: {off}; potential {step.potential:.3f}"
    what = "far off: paid for" if step.is_paid else "near enough: free"
    return (
        f"question {step.number}: guess {step.guess:.3f}, {what}; {step.paid} paid so far, potential "
        f"{step.potential:.3f}"
    )


def _test_words(step: Test) -> str:
    verdict = "above" if step.above else "not above"
    return f"question {step.number}: count {step.count}, with noise {step.noisy}: {verdict}; {step.left} left"


def _page(title: str, drawing: list[str], words: Sequence[str]) -> str:
    """The frame, the drawing, and a line of words for every step."""
    shown = [
        _text(LEFT, 40, line, more=_blink(i, len(words)), opacity=1 if i == len(words) - 1 else 0)
        for i, line in enumerate(words)
    ]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        ' font-family="system-ui, sans-serif">',
        f"<title>{escape(title or 'a run, step by step')}</title>",
        f"<desc>{escape(words[-1])}</desc>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, 20, title, size=15),
        *shown,
        *drawing,
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _bars(hypotheses: Sequence[Sequence[float]], table: Sequence[float] | None) -> list[str]:
    """One bar per cell, whose height follows the hypothesis; a mark where the table's share is."""
    cells = len(hypotheses[0])
    if table is not None and (len(table) != cells or min(table) < 0 or not 0 < sum(table) < math.inf):
        raise ParameterError(f"expected the table of this run: counts of {cells} cells, not all of them 0")
    shares = [] if table is None else [one / sum(table) for one in table]
    top = max([max(one) for one in hypotheses] + shares)
    room, floor = HEIGHT - TOP - BOTTOM, HEIGHT - BOTTOM
    step = (WIDTH - 2 * LEFT) / cells
    parts = [_stroke(LEFT, floor, WIDTH - LEFT, floor)]
    for cell in range(cells):
        heights = [room * one[cell] / top for one in hypotheses]
        x = LEFT + cell * step + step * 0.1
        parts.append(
            f'<rect x="{x:.1f}" y="{floor - heights[-1]:.1f}" width="{step * 0.8:.1f}" height="{heights[-1]:.1f}"'
            f' fill="{_BAR}">{_frames("height", heights)}{_frames("y", [floor - h for h in heights])}</rect>'
        )
        if shares:
            y = floor - room * shares[cell] / top
            parts.append(_stroke(x, y, x + step * 0.8, y, ink=_GOAL, width=2))
        parts.append(_text(x + step * 0.4, floor + 16, str(cell + 1), size=10, anchor="middle"))
    legend = "bars: hypothesis" + ("; lines: the table" if shares else "") + "; one bar a cell"
    return [*parts, _text(LEFT, HEIGHT - 6, legend, size=11)]


def _test_frames(tests: Sequence[Test]) -> list[str]:
    """A dot per question, with its noise, as it is asked; the noisy threshold as a line."""
    threshold = tests[0].threshold
    low = min([0, threshold, *(min(one.count, one.noisy) for one in tests)])
    high = max([threshold, *(max(one.count, one.noisy) for one in tests)])
    room, floor = HEIGHT - TOP - BOTTOM, HEIGHT - BOTTOM

    def place(value: float) -> float:
        return floor - room * (value - low) / max(high - low, 1)

    step = (WIDTH - 2 * LEFT) / len(tests)
    y = place(threshold)
    parts = [_stroke(LEFT, y, WIDTH - LEFT, y, ink=_ALERT, width=1.5)]
    for i, one in enumerate(tests):
        x, ink = LEFT + (i + 0.5) * step, _ALERT if one.above else _BAR
        parts.append(
            f'<g>{_appear(i, len(tests))}<line x1="{x:.1f}" y1="{place(one.count):.1f}" x2="{x:.1f}"'
            f' y2="{place(one.noisy):.1f}" stroke="{_INK}" stroke-width="1"/>'
            f'<circle cx="{x:.1f}" cy="{place(one.count):.1f}" r="3" fill="none" stroke="{_INK}"/>'
            f'<circle cx="{x:.1f}" cy="{place(one.noisy):.1f}" r="5" fill="{ink}"/></g>'
        )
    legend = "line: noisy threshold; rings: counts; dots: counts with noise, never shown to the analyst"
    return [*parts, _text(LEFT, HEIGHT - 6, legend, size=11)]


def _frames(attribute: str, values: Sequence[float]) -> str:
    """The values of an attribute one after the other, for ever; a single one does not change."""
    if len(values) < 2:
        return ""
    listed = ";".join(f"{value:.1f}" for value in values)
    return (
        f'<animate attributeName="{attribute}" values="{listed}" dur="{SECONDS * len(values):.1f}s"'
        ' calcMode="discrete" repeatCount="indefinite"/>'
    )


def _blink(place: int, steps: int) -> str:
    """Shown in one step only."""
    return _frames("opacity", [float(i == place) for i in range(steps)])


def _appear(place: int, steps: int) -> str:
    """Shown from one step on."""
    return _frames("opacity", [float(i >= place) for i in range(steps)])


def _stroke(x1: float, y1: float, x2: float, y2: float, *, ink: str = _INK, width: float = 1) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{ink}" stroke-width="{width}"/>'


def _text(
    x: float,
    y: float,
    words: str,
    *,
    size: int = 12,
    anchor: str = "start",
    more: str = "",
    opacity: int = 1,
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{_INK}"'
        f' opacity="{opacity}">{escape(words)}{more}</text>'
    )
