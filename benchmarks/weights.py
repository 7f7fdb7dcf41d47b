"""Hypotheses of the online mechanisms: an update beside one pass over the weights, and free answers per second.

The pass is numpy's multiplication in place (read and write every weight once) for updates in place, and its copy for
updates into a new table; both are timed between the updates, in turn, so that a busy machine disturbs both alike.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import maquette as mq
from maquette.domain import Attribute, Domain, Kind
from maquette.models.hypothesis import Hypothesis, Released
from maquette.models.start import hypothesis_for
from maquette.models.tilting import compile_query, tilt
from maquette.queries import boxes, where
from maquette.queries.base import Queries

TURNS = 15
QUESTIONS = 5_000


def run(data: Path | None) -> list[dict[str, Any]]:
    """Updates at three sizes; answers from 2^20 dense cells, and from weighted rows over the Adult domain."""
    figures = [figure for bits in (20, 24, 26) for figure in _updates(bits)]
    figures.append(_answers("dense, 2^20 cells in 5 attributes", _universe(20), released=50))
    if data is not None:
        domain = mq.Domain.load(data / "adult.domain.json")
        figures.append(_answers("weighted rows, Adult's 14 attributes, 6e17 cells", domain, released=100))
        figures.append(_answers("dense, Adult's age, sex, race, hours and income", _few(domain), released=50))
    return figures


def _universe(bits: int) -> Domain:
    sizes = [16] * (bits // 4) + ([2 ** (bits % 4)] if bits % 4 else [])
    return Domain(tuple(Attribute(f"x{i}", Kind.ORDINAL, codes=s) for i, s in enumerate(sizes)))


def _few(domain: Domain) -> Domain:
    kept = [n for n in ("age", "sex", "race", "hours-per-week", "income>50K") if n in domain]
    return domain.project(kept)


def _updates(bits: int) -> Iterable[dict[str, Any]]:
    domain = _universe(bits)
    start = hypothesis_for(domain, kind="dense")
    cells: Any = start.cells  # pyright: ignore[reportAttributeAccessIssue]
    out = np.empty_like(cells)
    queries = {
        "half of the blocks": boxes(domain, [{"x0": (0, 7)}]),
        "half of every block": boxes(domain, [{domain.names[-2]: (0, 7)}]),
        "three attributes": boxes(domain, [{"x0": (2, 9), "x2": (3, 12), "x4": (1, 8)}]),
        "all cells but a few": where(domain, "x0 <> 3 OR x1 <> 2 OR x4 <> 5"),
    }
    for name, query in queries.items():
        compiled = compile_query(start.layout, query)  # pyright: ignore[reportAttributeAccessIssue]
        timed = _in_turn(
            {
                "update": lambda q=compiled: tilt(cells, q, 1e-9),
                "pass": lambda: np.multiply(cells, 1.000000001, out=cells),
                "update into": lambda q=compiled: tilt(cells, q, 1e-9, out),
                "copy": lambda: np.copyto(out, cells),
            }
        )
        yield {
            "what": f"one multiplicative update, 2^{bits} cells, {name}",
            "milliseconds in place": round(1e3 * timed["update"], 3),
            "milliseconds of one pass in place": round(1e3 * timed["pass"], 3),
            "ratio": round(timed["update"] / timed["pass"], 2),
            "milliseconds into a new table": round(1e3 * timed["update into"], 3),
            "milliseconds of one copy": round(1e3 * timed["copy"], 3),
            "ratio into": round(timed["update into"] / timed["copy"], 2),
        }


def _in_turn(works: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Medians; each work once before it counts."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(TURNS + 1):
        for name, work in works.items():
            started = time.perf_counter()
            work()
            if turn:
                seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(times) for name, times in seconds.items()}


def _answers(what: str, domain: Domain, *, released: int) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    hypothesis = hypothesis_for(domain)
    answers = [Released(_ask(domain, rng), float(rng.random() * 0.2), 0.002) for _ in range(released)]
    started = time.perf_counter()
    for count in range(1, released + 1):
        hypothesis = hypothesis.refit(answers[:count])
    refits = time.perf_counter() - started
    questions = [_ask(domain, rng) for _ in range(QUESTIONS)]
    hypothesis.answer(questions[0])
    first, later = _per_second(hypothesis, questions[: QUESTIONS // 5]), _per_second(hypothesis, questions)
    return {
        "what": f"free answers, {what}",
        "released before": released,
        "milliseconds per refit": round(1e3 * refits / released, 2),
        "answers per second, first thousand": round(first),
        "answers per second, after that": round(later),
    }


def _per_second(hypothesis: Hypothesis, questions: list[Queries]) -> float:
    started = time.perf_counter()
    for question in questions:
        hypothesis.answer(question)
    return len(questions) / (time.perf_counter() - started)


def _ask(domain: Domain, rng: np.random.Generator) -> Queries:
    """A conjunction of three: intervals of ordered attributes, single values of the others."""
    box: dict[str, tuple[int, int]] = {}
    for place in rng.choice(len(domain), 3, replace=False):
        attribute = domain.attributes[int(place)]
        low, high = sorted(int(end) for end in rng.integers(0, attribute.cells, 2))
        box[attribute.name] = (low, high) if attribute.ordered else (low, low)
    return boxes(domain, [box])
