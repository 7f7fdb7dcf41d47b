"""At most means at most: no question takes more than its forecast said, whatever has to be bought on the way."""

import pytest

from maquette.cli.ask import Prompt, describe
from maquette.core.budget import Budget
from maquette.errors import BudgetExceeded, ParameterError
from maquette.sessions.opening import session
from support.online_cases import book, people

KINDS = {
    "direct": {"mechanism": "direct", "alpha": 0.05},
    "usual": {"alpha": 0.05},
    "without alpha": {},
    "tests only": {"measure_first": False, "alpha": 0.1},
    "lasting": {"budget_for_all": True},
    "median": {"mechanism": "median", "queries": 20},
    "survey": {"delta": 1e-9, "alpha": 0.03},
}
QUESTIONS = [
    "age >= 3",
    "sex = 1",
    "age < 3",
    "age >= 3 and job = 2",
    "job = 1",
    "age >= 3",
    "age = 7 and sex = 1",
]


def opened(**options):
    delta = options.get("delta", 0.0)
    options = {"queries": 100} | options
    return session(people(20_000), ledger=book(Budget(1.0, delta)), epsilon=1.0, **options)


@pytest.mark.parametrize("name", KINDS)
def test_no_question_takes_more_than_its_forecast(name):
    own = opened(**KINDS[name])
    for text in QUESTIONS:
        before = own._planner.curator.left
        told = own.forecast(text)
        assert own._planner.curator.left == before, "a forecast spends nothing"
        try:
            own.ask(text)
        except BudgetExceeded:
            assert told.refusal is not None
        assert float(before - own._planner.curator.left) <= told.cost


def test_the_first_question_says_that_the_number_of_records_comes_first():
    own = opened(**KINDS["direct"])
    told = own.forecast("age >= 3")
    assert told.kind == "size"
    assert told.error is None
    assert own.left >= told.cost > told.size_cost > 0
    assert "number of records has to be bought first" in describe(told, total=own.total)
    before = own.left
    assert own.buy_size()
    assert before - own.left == pytest.approx(told.size_cost)
    assert not own.buy_size()
    exact = own.forecast("age >= 3")
    assert exact.kind == "measure"
    assert exact.size_cost == 0
    before = own.left
    own.ask("age >= 3")
    assert before - own.left == pytest.approx(exact.cost)


def test_a_limit_refuses_before_it_is_paid():
    own = opened(**KINDS["direct"])
    told = own.forecast("age >= 3")
    before = own.left
    with pytest.raises(BudgetExceeded, match="was allowed"):
        own.ask("age >= 3", at_most=0.01)
    assert own.left == before
    with pytest.raises(BudgetExceeded, match="the number of records is bought"):
        own.ask("age >= 3", at_most=told.size_cost + 1e-6)
    assert before - own.left == pytest.approx(told.size_cost)
    told = own.forecast("age >= 3")
    assert own.ask("age >= 3", at_most=told.cost).cost <= told.cost
    assert own.ask("age >= 3", at_most=0).kind == "cached"
    for wrong in (-1.0, float("nan"), "much"):
        with pytest.raises(ParameterError, match="at_most"):
            own.ask("sex = 1", at_most=wrong)


def test_the_prompt_asks_for_consent_to_the_size_and_then_to_the_question(monkeypatch, capsys):
    own = opened(**KINDS["direct"])
    lines, consents = iter(["age >= 3", ":quit"]), []
    prompt = Prompt(own, as_json=False, read=lambda: next(lines))
    prompt._interactive = True
    monkeypatch.setattr("typer.confirm", lambda text, default: consents.append((text, own.left)) or True)
    assert prompt.run() == 0
    (first, whole), (second, after) = consents
    assert "number of records has to be bought first" in first
    assert "at most" in second
    assert after == pytest.approx(whole - own.history()[0].cost)
    promised = float(second.split("at most ")[1].split(" %")[0]) / 100 * own.total
    assert after - own.left <= promised * (1 + 1e-9)
