"""Adaptive analysts: answers keep their errors, repeats stay the same, and the ledger holds the whole loss."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from maquette.core.budget import UNITS, Budget
from maquette.errors import BudgetExceeded
from support.online_adversaries import ADVERSARIES
from support.online_cases import book, people, seeded_session, truth

pytestmark = pytest.mark.accuracy

RUNS = 204
BETA = 0.05
OPTIONS = [
    {"epsilon": 2.0, "alpha": 0.12, "measure_first": False},
    {"epsilon": 0.5, "alpha": 0.12},
    {"epsilon": 2.0, "delta": 1e-6, "alpha": 0.12, "relation": "replace-one"},
    {"epsilon": 0.3, "alpha": 0.15, "mechanism": "direct"},
]


def attack(monkeypatch, number: int) -> Counter[str]:
    """One run; counts what happened, with `wrong` answers beyond their error."""
    options = {**OPTIONS[number // len(ADVERSARIES) % len(OPTIONS)], "beta": BETA, "queries": 40}
    strategy = list(ADVERSARIES.values())[number % len(ADVERSARIES)]
    table = people(3000, seed=number % 5)
    ledger = book(
        Budget(options["epsilon"], options.get("delta", 0.0)), relation=options.get("relation", "add-remove")
    )
    session = seeded_session(monkeypatch, number, table, ledger=ledger, **options)
    given, seen, paid = {}, Counter(), 0.0

    def ask(text: str) -> Any:
        """An analyst may also look at an answer before this test does."""
        nonlocal paid
        answer = session.ask(text)
        paid += answer.cost
        return answer

    try:
        for text in strategy(ask, session.forecast, np.random.default_rng(number)):
            answer = ask(text)
            seen[answer.kind] += 1
            seen["wrong"] += abs(answer.value - truth(table, text)) > answer.error
            assert given.setdefault(text, answer.value) == answer.value, "a repeat changed its answer"
    except BudgetExceeded:
        seen["refused"] += 1
    steps = list(ledger.children(session.key))
    assert paid == pytest.approx(sum(e.units for e in steps) / UNITS, abs=1e-12)
    assert ledger.spent_units == round(session.total * UNITS)
    ledger.verify()
    assert session.left == pytest.approx(session.total - paid, abs=1e-12)
    return seen


def test_answers_to_adaptive_analysts_keep_their_errors_and_the_ledger_its_sum(monkeypatch):
    failed, seen = 0, Counter()
    for number in range(RUNS):
        found = attack(monkeypatch, number)
        failed += found["wrong"] > 0
        seen += found
    assert failed <= BETA * RUNS
    assert min(seen[kind] for kind in ("free", "cached", "paid", "refused")) > 10, seen


def test_the_suite_sees_answers_that_miss_their_error(monkeypatch):
    from maquette.core.laws import Laplace, NoiseRequest
    from maquette.theory import quantiles

    right = quantiles.reach

    def too_short(noise, beta):
        if isinstance(noise, Laplace):
            return 0.05 * float(noise.scale)
        return 0.05 / float(noise.price) if isinstance(noise, NoiseRequest) else right(noise, beta)

    monkeypatch.setattr(quantiles, "reach", too_short)
    failed = sum(attack(monkeypatch, number)["wrong"] > 0 for number in range(18, 24))
    assert failed >= 4


def test_complements_and_repeats_buy_nothing(monkeypatch):
    for number, name in ((2, "repeat"), (3, "complements")):
        assert list(ADVERSARIES)[number] == name
        found = attack(monkeypatch, number)
        assert found["cached"] >= 5
