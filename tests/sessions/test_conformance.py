"""Whole sessions in the conformance table: on neighbouring tables the loss of the transcript is within its charge.

A session is run on one table and played again, with its draws and outcomes, on tables with one record more, one less or
one replaced. What went into the draws gives the exact log-ratio of the transcript's probabilities: noisy
values by their law, epochs summed over the secret threshold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytest

from maquette.core import events, sparse
from maquette.core.budget import UNITS, Budget, Cost, Unit
from maquette.domain import Relation
from maquette.errors import BudgetExceeded
from support.online_tape import TEST, charges, check_inputs, taped
from support.online_variants import probability
from support.priced import priced
from support.privacy_conformance import TINY
from support.privacy_doubles import Call, Divergence, ledger_for, table_of

pytestmark = pytest.mark.privacy

Histogram = tuple[int, ...]

BASE = (0, 3, 150, 0, 60, 1, 9, 200, 0, 2, 55, 0)
CASES: dict[str, dict[str, Any]] = {
    "as needed": {"epsilon": 8.0, "alpha": 0.45, "measure_first": False},
    "bypass": {"epsilon": 1.0, "alpha": 0.3},
    "few": {"epsilon": 1.0},
    "direct": {"epsilon": 1.0, "queries": 12, "mechanism": "direct"},
    "textbook": {"epsilon": 8.0, "alpha": 0.45, "update": "step"},
}
TEXTS = [f"a = {a} and b = {b}" for a in range(3) for b in range(2)]
TEXTS += ["a <= 1", "b = 1 and c = 0", "not a <= 1", "c = 1 or a = 2", "a >= 1 and c = 0"]


@dataclass(frozen=True)
class Played:
    """One run: what went into the draws, what was seen, what was charged."""

    calls: tuple[Call, ...]
    seen: Any
    charges: Any
    steps: tuple[Any, ...]


def play(monkeypatch, histogram, tape, relation, options) -> Played:
    ledger = ledger_for(TINY, budget=Budget(options["epsilon"]), relation=relation)
    session, noise = taped(monkeypatch, tape, table_of(TINY, histogram), ledger, relation=relation, **options)
    seen: list[Any] = []
    for number, text in enumerate(TEXTS):
        try:
            if number % 3 == 2:
                told = session.ask_many([text, TEXTS[number - 1]], allow_useless=True)
                seen += [(getattr(t, "value", None), str(t)) for t in told]
            else:
                answer = session.ask(text, allow_useless=True)
                seen.append((answer.value, answer.error, answer.kind, answer.cost, answer.left))
        except BudgetExceeded as error:
            seen.append((str(error), error.needed, error.left))
    if tape is not None:
        noise.check_finished()
    steps = tuple(e.body for e in ledger.children(session.key))
    return Played(tuple(noise.calls), seen, charges(ledger), steps)


def loss(one: Played, other: Played) -> float:
    """The log-ratio of the probabilities of what was seen, on the one table and on the other."""
    total = 0.0
    for a, b in zip(one.calls, other.calls, strict=True):
        if a.method != TEST:
            scale = float(dict(a.parameters)["scale"])
            # noise around each table's exact values at the released ones
            total += float((abs(a.output - b.exact).sum() - abs(a.output - a.exact).sum()) / scale)
    for plan, threshold, here, there, outcome in _epochs(one, other):
        ratio = probability(here, outcome, threshold=threshold, plan=plan, reach=4000) / probability(
            there, outcome, threshold=threshold, plan=plan, reach=4000
        )
        total += math.log(ratio)
    return total


def _epochs(one: Played, other: Played):
    tests = iter([(a, b) for a, b in zip(one.calls, other.calls, strict=True) if a.method == TEST])
    found: list[tuple[Any, int, list[int], list[int], list[int]]] = []
    for body in one.steps:
        if body["ask"] == "epoch":
            terms = sparse.terms_from_dict(body["terms"])
            found.append((priced(Unit.EPSILON).epoch(terms), terms.threshold, [], [], []))
        elif body["ask"] == "test":
            a, b = next(tests)
            found[-1][2].append(int(a.exact[0]))
            found[-1][3].append(int(b.exact[0]))
            found[-1][4].append(int(a.output))
    return [(p, t, tuple(x), tuple(y), tuple(o)) for p, t, x, y, o in found if o]


def charged(one: Played) -> float:
    return sum(units for tag, units, _ in one.charges if tag != "session") / UNITS


def worst(monkeypatch, base, relation, options) -> tuple[float, float]:
    """The largest loss over all neighbours in both directions, and the charge; everything public is the same."""
    first = play(monkeypatch, base, None, relation, options)
    found = 0.0
    for table in neighbours_of(base, relation):
        second = play(monkeypatch, table, first.calls, relation, options)
        assert (second.seen, second.charges) == (first.seen, first.charges)
        check_inputs(first.calls, second.calls)
        found = max(found, loss(first, second), loss(second, first))
    return found, charged(first)


def neighbours_of(base: Histogram, relation: Relation) -> list[Histogram]:
    """A record more in each of some cells, less in others, or moved between them."""
    if relation is Relation.ADD_REMOVE:
        moves = [{0: 1}, {3: 1}, {6: -1}, {7: -1}, {10: 1}, {2: -1}]
    else:
        moves = [{2: -1, 11: 1}, {7: -1, 0: 1}, {4: -1, 5: 1}, {10: -1, 8: 1}]
    return [tuple(c + move.get(i, 0) for i, c in enumerate(base)) for move in moves]


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("name", CASES)
def test_no_neighbour_makes_a_transcript_lose_more_than_was_charged(monkeypatch, name, relation):
    found, paid = worst(monkeypatch, BASE, relation, CASES[name])
    assert found <= paid + 1e-9
    assert found > 0  # the tables do differ in what is asked


def test_a_measurement_that_is_charged_too_little_is_seen(monkeypatch):
    real = events.LaplaceEvent.cost
    monkeypatch.setattr(events.LaplaceEvent, "cost", lambda self, unit: Cost(real(self, unit).units // 20))
    found, paid = worst(monkeypatch, BASE, Relation.ADD_REMOVE, CASES["direct"])
    assert found > paid


def test_a_score_that_moves_too_far_is_seen(monkeypatch):
    monkeypatch.setattr(sparse, "score", lambda exact, guess: 3 * abs(exact - guess))
    with pytest.raises(Divergence, match="moved by 3"):
        worst(monkeypatch, BASE, Relation.ADD_REMOVE, CASES["as needed"])
