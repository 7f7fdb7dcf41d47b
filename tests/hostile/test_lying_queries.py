"""Classes of queries that lie, asked of neighbouring tables: refused, or charged for what a record moves."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

import maquette.queries as q
from maquette.core.answers import Answers
from maquette.core.forms import Conditions, Scores
from maquette.core.laws import NoiseRequest
from maquette.errors import MaquetteError
from support.gate_arguments import CLASSES
from support.gate_world import DOMAIN, Pair
from support.lying_queries import LIES, Lying

pytestmark = pytest.mark.privacy
TRUTHS = [
    *CLASSES["good"],
    q.boxes(DOMAIN, [{"d": (0, last)} for last in range(4)]),
    q.halfspaces(DOMAIN, ["a", "d"], [(1, 1), (1, 2), (-1, 3), (2, 1)], [0, 1, 1, 2]),
]


def ask(lie: str, seeds: range) -> Counter[str]:
    """Every question that takes queries, of pairs of neighbouring tables; AssertionError where privacy notices."""
    tally: Counter[str] = Counter()
    for seed in seeds:
        pair, rng = Pair(seed), np.random.default_rng([seed, 7])
        for truth in TRUTHS:
            queries = Lying(truth, LIES[lie], seed)
            guessed = rng.integers(0, 4, queries.count).astype(np.int64)
            released = Answers(guessed, 4)
            kind = "laplace" if pair.curator.unit.is_pure else "gaussian"
            for method, arguments in (
                ("measure", {"queries": queries, "noise": NoiseRequest(kind, Fraction(1, 1000))}),
                ("select", {"queries": queries, "answers": released, "price": Fraction(1, 1000)}),
                ("largest_error", {"queries": queries, "answers": released, "price": Fraction(1, 1000)}),
            ):
                outcome = pair.ask(method, arguments)
                if outcome.error is not None:
                    assert issubclass(outcome.error[0], MaquetteError)
                tally["answered" if outcome.error is None else "refused"] += 1
    return tally


@pytest.mark.parametrize("lie", LIES)
def test_no_lie_of_a_class_of_queries_costs_privacy(lie):
    tally = ask(lie, range(6))
    assert tally["answered"] + tally["refused"] == 6 * 3 * len(TRUTHS)
    assert tally["answered"] or lie in ("no forms", "something else")


def test_a_gate_that_believed_claims_would_be_noticed(monkeypatch):
    for form in (Conditions, Scores):
        monkeypatch.setattr(form, "is_enforced", lambda self, sizes: False)
        monkeypatch.setattr(form, "listed", lambda self, sizes: None)
    with pytest.raises(AssertionError, match="charged"):
        ask("claims", range(20))
