"""A question that cuts cells: asked from both sides, both or neither, and stated so that it covers both."""

from __future__ import annotations

import numpy as np
import pytest

from maquette.accounting.ledger import Ledger
from maquette.core.budget import Budget
from maquette.core.rows.engine import MemoryEngine
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import BudgetExceeded, KeyReused, WorkloadError
from maquette.owner import Table
from maquette.sessions import Refusal
from support.online_cases import seeded_session

DOMAIN = Domain(
    (
        Attribute("age", Kind.NUMERIC, bounds=(0, 90), bins=9, nullable=True),
        Attribute("sex", Kind.CATEGORICAL, codes=2),
    )
)
N = 50_000


@pytest.fixture
def ages() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 90, N).astype(float)


def opened(monkeypatch, ages, seed=0, **options):
    columns = {
        "age": DOMAIN["age"].bin_index(ages).astype(np.uint8),
        "sex": (np.arange(N) % 2).astype(np.uint8),
    }
    table = Table(MemoryEngine(DOMAIN, columns), name="people", source="test")
    ledger = Ledger.memory(
        budget=Budget(1.0), relation=Relation.ADD_REMOVE, domain_fingerprint=DOMAIN.fingerprint, name="people"
    )
    settings = {"epsilon": 1.0, "queries": 20} | options
    return seeded_session(monkeypatch, seed, table, ledger=ledger, **settings)


@pytest.mark.parametrize(
    "text", ["age <= 30", "age > 30", "NOT age > 30", "age = 30", "age > 200", "age < 0"]
)
def test_the_stated_interval_covers_both_sides(monkeypatch, ages, text):
    session = opened(monkeypatch, ages)
    truth = {
        "age <= 30": ages <= 30,
        "age > 30": ages > 30,
        "NOT age > 30": ages <= 30,
        "age = 30": ages == 30,
        "age > 200": ages > 200,
        "age < 0": ages < 0,
    }[text].mean()
    answer = session.ask(text)
    assert answer.query == text
    assert abs(answer.value - truth) <= answer.error
    assert answer.error >= 0.05  # a ninth of the records is in the cell that is cut
    assert "cuts the cell" in answer.notes[0]
    assert "the error covers both" in answer.notes[-1]


def test_it_costs_what_both_sides_cost_and_is_free_again(monkeypatch, ages):
    one, other = opened(monkeypatch, ages), opened(monkeypatch, ages)
    answer = one.ask("age <= 30")
    low, high = other.ask("age < 30"), other.ask("age < 40")
    assert (one.left, one.questions_left) == (other.left, other.questions_left)
    assert answer.cost == pytest.approx(low.cost + high.cost)
    assert answer.value == pytest.approx((low.value + high.value) / 2)
    assert answer.low == pytest.approx(low.low)
    assert answer.high == pytest.approx(high.high)
    again = one.ask("NOT age > 30")
    assert (again.value, again.error, again.cost) == (answer.value, answer.error, 0.0)
    assert again.kind == "cached"
    assert one.ask("age < 40").cost == 0.0


@pytest.mark.slow
def test_many_at_once_are_the_same_as_one_by_one(monkeypatch, ages):
    texts = ["sex = 1", "age <= 30", "age < 30", "age = 30 AND sex = 1", "TRUE", "age <= 30"]
    single, many = opened(monkeypatch, ages), opened(monkeypatch, ages)
    for one, other in zip([single.ask(text) for text in texts], many.ask_many(texts), strict=True):
        assert not isinstance(other, Refusal)
        assert (one.value, one.error, one.notes, one.kind) == (
            other.value,
            other.error,
            other.notes,
            other.kind,
        )
        assert one.cost == pytest.approx(other.cost)


def test_a_key_names_one_question(monkeypatch, ages):
    session = opened(monkeypatch, ages)
    first = session.ask("age <= 30", key="a")
    assert session.ask("age <= 30", key="a").value == first.value
    with pytest.raises(KeyReused):
        session.ask("age <= 50", key="a")


def test_both_sides_or_neither(monkeypatch, ages):
    session = opened(monkeypatch, ages, queries=3)
    session.ask("sex = 1")
    session.ask("age < 10")
    assert session.questions_left == 1
    before = session.left
    told = session.forecast("age <= 30")
    assert told.refusal == "questions"
    with pytest.raises(BudgetExceeded):
        session.ask("age <= 30")
    assert isinstance(session.ask_many(["age <= 30"])[0], Refusal)
    assert (session.questions_left, session.left) == (1, before)


def test_the_forecast_is_not_exceeded(monkeypatch, ages):
    session = opened(monkeypatch, ages)
    session.ask("sex = 1")  # the number of records is known from here on
    for text in ("age <= 30", "age = 50", "age > 70 AND sex = 0"):
        told = session.forecast(text)
        assert told.error is None
        assert session.ask(text).cost <= told.cost * (1 + 1e-9)


def test_a_session_about_some_attributes_sees_what_both_ends_are_about(monkeypatch, ages):
    session = opened(monkeypatch, ages, attributes=["sex"])
    with pytest.raises(WorkloadError, match="questions about sex"):
        session.ask("age > 200")  # as it is read it is about nothing
