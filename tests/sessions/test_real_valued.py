"""Real-valued linear queries in sessions: weights in [0, 1] instead of conditions (Roth 2010), in every mechanism."""

import numpy as np
import pytest

from maquette.core.budget import Budget
from maquette.domain import Relation
from maquette.queries import weights
from support.online_cases import PEOPLE, book, columns, people, seeded_session

N = 20_000
RNG = np.random.default_rng(8)
QUESTIONS = [
    weights(PEOPLE, RNG.random((1, 16)), attributes=["age", "sex"]),
    weights(PEOPLE, RNG.random((1, 32)) ** 3, attributes=["age", "job"]),
    weights(PEOPLE, np.linspace(0, 1, 8)[None, :], attributes=["age"]),
    weights(PEOPLE, 1 - RNG.random((1, 8)) / 3, attributes=["sex", "job"]),
    weights(PEOPLE, RNG.random((1, 4)), attributes=["job"]),
    weights(PEOPLE, RNG.random((1, 64)), attributes=["age", "sex", "job"]),
]
TRUTH = [float(q.columns_of(columns(N))[0].mean()) / q.denominator for q in QUESTIONS]
OPTIONS = {
    "pmw": {"alpha": 0.05},
    "always testing": {"alpha": 0.05, "measure_first": False},
    "textbook": {"alpha": 0.1, "update": "step"},
    "lasting": {"budget_for_all": True, "queries": 20},
    "median": {"mechanism": "median", "queries": 20},
    "direct": {"mechanism": "direct", "queries": 20},
    "with a delta": {"alpha": 0.05, "delta": 1e-6},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_answers_are_within_what_they_state(name, relation, monkeypatch):
    options = {"epsilon": 4.0, "relation": relation} | OPTIONS[name]
    ledger = book(Budget(4.0, options.get("delta", 0.0)), relation=Relation(relation))
    # each answer may be outside with a chance of beta / 20; with seed 5 one of fresh noise is
    session = seeded_session(monkeypatch, 6, people(N), ledger=ledger, **options)
    answers = session.ask_many(QUESTIONS)
    for answer, share in zip(answers, TRUTH, strict=True):
        assert abs(answer.value - share) <= answer.error < 0.5
    left = session.left
    again = session.ask(QUESTIONS[2])
    assert again.kind == "cached"
    complement = weights(PEOPLE, 1 - np.linspace(0, 1, 8)[None, :], attributes=["age"])
    assert session.ask(complement).value == pytest.approx(1 - again.value, abs=2e-6)
    assert session.left <= left


def test_a_mean_is_one_real_valued_question(monkeypatch):
    """Cells of 0 to 7 as values: the mean age is 7 times the answer to the weights age / 7."""
    session = seeded_session(monkeypatch, 2, people(N), ledger=book(Budget(2.0)), epsilon=2.0, alpha=0.02)
    answer = session.ask(QUESTIONS[2])
    mean = float(columns(N)["age"].mean())
    assert abs(7 * answer.value - mean) <= 7 * answer.error
    assert 7 * answer.error < 0.2
