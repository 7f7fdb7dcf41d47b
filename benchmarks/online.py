"""Online answering: what sessions spend on 20,000 questions from 4,000 conjunctions, uniform and popular.

    python -m benchmarks online
    python -m benchmarks.online --plot docs/online.svg        # draws what was measured last

Repeated questions are free in every design, from the ledger; so only the first of each is asked, and all are
counted. Budgets and errors are those that the sessions state; largest errors are measured, the tables being public.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import maquette as mq
from benchmarks._online import ASKED, N, conjunction, made, open_session
from maquette.errors import BudgetExceeded
from maquette.queries import canonical_hash

SHAPES = {128: (2, 2, 2, 4, 4), 1728: (12,) * 3, 16384: (4,) * 7}
ALPHA, POOL = 0.05, 4_000
DESIGNS: dict[str, dict[str, Any]] = {
    "exact-match caching": {"mechanism": "direct"},
    "textbook PMW": {"update": "step"},
    "PMW with refit": {"measure_first": False},
    "PMW with refit and bypass": {},
}
LARGE = 60.0
"""A budget that is meant to last, so that spending can be compared; a design that exhausts it says so."""


def run(data: Path | None) -> list[dict[str, Any]]:
    """Every universe, popularity and design, in one run."""
    return [
        figure
        for cells in SHAPES
        for popularity in ("uniform", "zipf")
        for figure in _grid(cells, popularity)
    ]


def _grid(cells: int, popularity: str) -> list[dict[str, Any]]:
    rng = np.random.default_rng([cells, len(popularity)])
    table, truth = made(SHAPES[cells], rng)
    pool = _pool(table.domain, rng)
    order = _order(popularity, rng)
    return [
        {"what": name, "cells": cells, "popularity": popularity} | _spend(table, truth, pool, order, options)
        for name, options in DESIGNS.items()
    ]


def _pool(domain: mq.Domain, rng: np.random.Generator) -> list[Any]:
    """Conjunctions that differ in meaning."""
    found: dict[str, Any] = {}
    while len(found) < POOL:
        one = conjunction(domain, rng)
        found[canonical_hash(one)] = one
    return list(found.values())


def _order(popularity: str, rng: np.random.Generator) -> list[int]:
    """Places in the pool, each once, in the order of their first occurrence among all questions."""
    weights = np.ones(POOL) if popularity == "uniform" else 1 / np.arange(1, POOL + 1)
    drawn = rng.choice(POOL, size=ASKED, p=weights / weights.sum())
    return list(dict.fromkeys(drawn.tolist()))


def _spend(
    table: mq.Table, truth: np.ndarray, pool: list[Any], order: list[int], options: dict[str, Any]
) -> dict[str, Any]:
    session = open_session(table, mq.Budget(LARGE), alpha=ALPHA, **options)
    started, errors, kinds = time.process_time(), [0.0], []
    for place in order:
        try:
            answer = session.ask(pool[place])
        except BudgetExceeded:
            break
        errors.append(abs(answer.value - int(pool[place].on_histogram(truth)[0]) / N))
        kinds.append(answer.kind)
    return {
        "questions": ASKED,
        "distinct": len(order),
        "answered": len(kinds),
        "epsilon spent": round(session.total - session.left, 4),
        "largest error": round(max(errors), 4),
        "stated error": ALPHA,
        "paid": kinds.count("paid"),
        "processor seconds": round(time.process_time() - started, 1),
    }


def newest(lines: list[str]) -> list[dict[str, Any]]:
    """The last figure of every design, universe and popularity."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for line in lines:
        figure = json.loads(line)["figures"]
        if figure["what"] in DESIGNS and "answered" in figure:
            found[figure["cells"], figure["popularity"], figure["what"]] = figure
    return list(found.values())


def draw(figures: list[dict[str, Any]]) -> str:
    """Epsilon spent by design, one panel per universe and popularity, on a logarithmic scale."""
    import vl_convert

    values = [
        {
            "design": f["what"],
            "epsilon": f["epsilon spent"],
            "panel": f"{f['cells']:,} cells, {f['popularity']}",
            "place": f["cells"] + (f["popularity"] == "zipf") / 2,
        }
        for f in figures
    ]
    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "background": "white",
        "data": {"values": values},
        "facet": {
            "field": "panel",
            "type": "nominal",
            "title": None,
            "sort": {"field": "place", "op": "min"},
        },
        "columns": 2,
        "spec": {
            "width": 260,
            "height": 90,
            "mark": {"type": "point", "filled": True, "size": 90, "opacity": 1, "color": "#1f5f8b"},
            "encoding": {
                "y": {"field": "design", "type": "nominal", "title": None, "sort": list(DESIGNS)},
                "x": {
                    "field": "epsilon",
                    "type": "quantitative",
                    "title": "epsilon spent",
                    "scale": {"type": "log", "domainMin": 0.1},
                },
            },
        },
        "config": {"font": "Arial, Helvetica, sans-serif", "view": {"stroke": None}},
    }
    return vl_convert.vegalite_to_svg(spec)


def main() -> None:
    from benchmarks.__main__ import RESULTS

    parser = argparse.ArgumentParser(prog="python -m benchmarks.online", description=__doc__)
    parser.add_argument(
        "--plot", type=Path, required=True, help="draw the figures measured last into this file"
    )
    lines = (RESULTS / "online.jsonl").read_text(encoding="utf-8").splitlines()
    parser.parse_args().plot.write_text(draw(newest(lines)), encoding="utf-8")


if __name__ == "__main__":
    main()
