"""Draws for classes of queries that lie about their weights: refused before the look, or of sensitivity 1."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from maquette.errors import MaquetteError
from maquette.samplers import draw as sampler
from maquette.samplers import structures as public
from support.gate_world import Pair, draws_on_tape
from support.lying_draws import CLASSES, WEIGHTS, LyingOnCells, drawn, structures
from support.lying_queries import LIES

pytestmark = pytest.mark.privacy
PRICE = Fraction(1, 1000)


def ask(weights: str, lie: str, seeds: range) -> Counter[str]:
    """All draws for all classes from neighbouring tables, and errors of databases; AssertionError where it shows."""
    tally: Counter[str] = Counter()
    with draws_on_tape():
        for seed in seeds:
            pair, rng = Pair(seed), np.random.default_rng([seed, 11])
            for truth in CLASSES:
                queries = LyingOnCells(truth, LIES[lie], seed, WEIGHTS[weights])
                for make in structures(queries, rng, 2):
                    try:
                        question = public.Draw(make(), "flat", 2)
                        given = drawn(question, rng)
                    except (MaquetteError, TypeError, ValueError, OverflowError):
                        tally["not made"] += 1  # by the public value itself: no table is there
                        continue
                    calls: dict[str, dict[str, Any]] = {
                        "draw": {"question": question, "price": PRICE},
                        "score_of": {"draw": given, "price": PRICE},
                    }
                    for method, arguments in calls.items():
                        outcome = pair.ask(method, arguments)
                        tally["answered" if outcome.error is None else "refused"] += 1
    return tally


@pytest.mark.parametrize("weights", WEIGHTS)
def test_no_lie_about_weights_costs_privacy(weights):
    tally = ask(weights, "nothing but the sensitivity", range(4))
    assert sum(tally.values()) > 0
    assert tally["answered"] or weights != "the true ones"


@pytest.mark.parametrize("lie", LIES)
def test_no_lie_of_the_forms_behind_a_draw_costs_privacy(lie):
    assert sum(ask("the true ones", lie, range(4)).values()) > 0


SHAPES: dict[str, Any] = {
    "as asked": lambda values: values,
    "more rows": lambda values: [np.concatenate([column] * 3) for column in values],
    "no rows": lambda values: [column[:0] for column in values],
    "more columns": lambda values: [*values, *values],
    "no columns": lambda values: [],
    "codes beyond their limit": lambda values: [column + np.uint64(2**63) for column in values],
    "two axes": lambda values: [np.stack([column, column]) for column in values],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_sampler_that_returns_another_shape_tells_nothing_by_it(shape, monkeypatch):
    """What is stored has the public shape, and so is no longer or shorter for one table than for its neighbour."""
    real = sampler.run
    monkeypatch.setattr(sampler, "run", lambda *args, **options: SHAPES[shape](real(*args, **options)))
    questions = [
        public.Draw(public.Thresholds("d"), "flat", 3),
        public.Draw(public.Forest(("b", "c"), (("b", "c"),)), "sequence", 2),
        public.Draw(public.Listed(CLASSES[0]), "flat", 2),
        public.Draw(public.Candidates(CLASSES[0], {n: np.zeros((4, 2), np.int64) for n in "bc"}), "flat", 2),
    ]
    for seed in range(3):
        pair = Pair(seed, real=True)
        for question in questions:
            outcome = pair.ask("draw", {"question": question, "price": PRICE})
            assert outcome.error is None
            rows = 1 if isinstance(question.structure, public.Candidates) else question.m
            limits = [4] if isinstance(question.structure, (public.Thresholds, public.Candidates)) else [2, 2]
            limits = (
                [CLASSES[0].domain.cells(("b", "c"))]
                if isinstance(question.structure, public.Listed)
                else limits
            )
            drawn_values = outcome.result.values
            assert [column.shape for column in drawn_values] == [(rows,)] * len(limits)
            assert all((column < size).all() for column, size in zip(drawn_values, limits, strict=True))
