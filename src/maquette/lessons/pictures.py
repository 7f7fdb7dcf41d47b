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
            _line([{"x": r.number, "y": r.potential} for r in rounds], "update", "potential"),
        ]
    elif what and isinstance(what[0], Attack):
        attacks = [one for one in what if isinstance(one, Attack)]
        panels = [_line([{"x": a.noise, "y": a.recovered} for a in attacks], "noise", "share recovered")]
    elif what and isinstance(what[0], Test):
        panels = [_tests([one for one in what if isinstance(one, Test)])]
    elif what and isinstance(what[0], Question):
        questions = [one for one in what if isinstance(one, Question)]
        panels = [
            _answers(questions),
            _line([{"x": q.number, "y": q.potential} for q in questions], "question", "potential"),
        ]
    else:
        raise ParameterError("expected a law, a sampling, rounds, a trace or attacks to draw")
    return {"$schema": SCHEMA, "title": title, "hconcat": panels, "config": _CONFIG}


def _law(law: Law) -> dict[str, Any]:
    values = [
        {"outcome": line["outcome"], "probability": line[table], "table": table}
        for line in law.table()
        for table in ("here", "there")
    ]
    return _panel(
        values,
        "bar",
        x={"field": "outcome", "type": "nominal", "sort": None},
        y={"field": "probability", "type": "quantitative"},
        more={"xOffset": {"field": "table"}, "color": {"field": "table", "type": "nominal"}},
    )


def _ratios(law: Law) -> dict[str, Any]:
    values = [
        {"outcome": line["outcome"], "ratio": line["log ratio"]}
        for line in law.table()
        if math.isfinite(line["log ratio"])
    ]
    return _panel(
        values,
        "bar",
        x={"field": "outcome", "type": "nominal", "sort": None},
        y={"field": "ratio", "type": "quantitative", "title": "log-ratio"},
    )


def _sampling(run: Sampling) -> dict[str, Any]:
    bars = _panel(
        [{"error": one} for one in run.largest],
        "bar",
        x={"field": "error", "bin": {"maxbins": 30}, "title": "largest error"},
        y={"aggregate": "count", "title": "trials"},
    )
    mark = {
        "data": {"values": [{"bound": run.bound}]},
        "mark": {"type": "rule", "color": "#c2410c"},
        "encoding": {"x": {"field": "bound", "type": "quantitative"}},
    }
    return {"width": 320, "height": 200, "layer": [bars, mark]}


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
    threshold = {
        "data": {"values": [{"threshold": tests[0].threshold}]},
        "mark": {"type": "rule", "color": "#c2410c"},
        "encoding": {"y": {"field": "threshold", "type": "quantitative"}},
    }
    return {"width": 320, "height": 200, "layer": [points, threshold]}


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
