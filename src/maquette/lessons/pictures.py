"""Pictures of laws and runs, as Vega-Lite: a value that a notebook shows, or that `maquette learn` writes to a file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from maquette.errors import ParameterError
from maquette.lessons.laws import Law
from maquette.lessons.runs import Attack, Round, Sampling
from maquette.lessons.traces import Question, Test

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
POTENTIAL = "potential, KL(table || hypothesis)"
TABLES = {"here": "this table", "there": "a neighbour"}
_CONFIG = {"font": "system-ui, sans-serif", "background": "white", "view": {"stroke": None}}


Shown = Law | Sampling | Sequence[Round] | Sequence[Attack] | Sequence[Test] | Sequence[Question]


def picture(what: Shown, *, title: str = "") -> dict[str, Any]:
    """A law with its neighbour's, a run or trace, samples against their bound, or an attack."""
    if isinstance(what, Law):
        panels = [_law(what), _ratios(what)]
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
        found = _line(
            [{"x": a.noise, "y": a.recovered} for a in attacks],
            "standard deviation of the noise, in records",
            "share of the secret bits that are found",
        )
        panels = [_layers(found, _rule("y", 0.5, "guessing", dy=-6, x=316, align="right"))]
    elif what and isinstance(what[0], Test):
        panels = [_tests([one for one in what if isinstance(one, Test)])]
    elif what and isinstance(what[0], Question):
        questions = [one for one in what if isinstance(one, Question)]
        panels = [
            _answers(questions),
            _line([{"x": q.number, "y": q.potential} for q in questions], "question", POTENTIAL),
        ]
    else:
        raise ParameterError("expected a law, a sampling, rounds, a trace or attacks to draw")
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
        for what, value in (("guess", q.guess), ("answer", q.answer))
    ]
    return _panel(
        values,
        {"type": "point", "filled": True},
        x={"field": "question", "type": "quantitative"},
        y={"field": "error", "type": "quantitative"},
        more={"color": {"field": "what", "type": "nominal", "title": None}},
    )


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
