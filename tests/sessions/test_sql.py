"""A SELECT in a session: each cell is one question, all or none, at most what was forecast."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import maquette as mq
from maquette.cli.ask import Prompt
from maquette.cli.prompt import describe
from maquette.core.budget import Budget
from maquette.core.rows.engine import MemoryEngine
from maquette.domain import Attribute, Domain, Kind
from maquette.errors import BudgetExceeded, UselessAnswer, WorkloadError
from maquette.owner import Table
from maquette.sessions.grouped import MAX_CELLS, mixed_price
from maquette.sessions.opening import session
from support.online_cases import PEOPLE, book, people, seeded_session, truth
from support.privacy_doubles import Untouchable

TWO = "select sex, job, count(*), share() from t where age >= 2 group by sex, job"
KINDS = {
    "direct": {"mechanism": "direct", "alpha": 0.05},
    "usual": {"alpha": 0.05},
    "without alpha": {},
    "tests only": {"measure_first": False, "alpha": 0.1},
    "budget for all": {"budget_for_all": True},
    "median": {"mechanism": "median", "queries": 40},
    "survey": {"delta": 1e-9, "alpha": 0.03},
}


def opened(table=None, **options):
    budget = Budget(1.0, options.get("delta", 0.0))
    own = people() if table is None else table
    return session(own, ledger=book(budget), epsilon=1.0, **({"queries": 200} | options))


def test_every_cell_is_a_question_within_its_error(monkeypatch):
    table = people()
    own = seeded_session(monkeypatch, 1, table, epsilon=1.0, alpha=0.05, ledger=book())
    result = own.sql(TWO)
    assert result.column_names == [
        "sex",
        "job",
        *(f"{name}{end}" for name in ("count(*)", "share()") for end in ("", " error", " lower", " upper")),
        "known_by",
    ]
    assert len(result) == 8
    n = table._engine.size()
    for row in result:
        exact = truth(table, f"sex = {row['sex']} and job = {row['job']} and age >= 2")
        assert row["share() lower"] <= exact <= row["share() upper"]
        assert row["count(*) lower"] <= exact * n <= row["count(*) upper"]
        answer = own.ask(f"sex = {row['sex']} and job = {row['job']} and age >= 2")
        assert answer.kind == "cached"
        assert answer.value == row["share()"]
        assert answer.error == pytest.approx(row["share() error"])
    assert result.cost == pytest.approx(1.0 - own.left)
    again = own.sql(TWO)
    assert again.cost == 0
    assert set(again["known_by"].to_pylist()) == {"answered before"}


@pytest.mark.parametrize("name", KINDS)
def test_it_takes_no_more_than_its_forecast(name):
    own = opened(**KINDS[name])
    for text in (TWO, "select age, count(*) from t group by age", "select count(*) from t", TWO):
        before = own._planner.curator.left
        forecast = own.forecast(text)
        assert own._planner.curator.left == before
        try:
            result = own.sql(text, at_most=forecast.cost)
        except (BudgetExceeded, UselessAnswer):
            if forecast.kind == "size":  # bought, and the rest is refused
                forecast = own.forecast(text)
            assert forecast.refusal is not None
            continue
        assert float(before - own._planner.curator.left) <= forecast.cost
        if forecast.error is not None:
            assert max(answer.error for answer in result.answers) <= forecast.error * (1 + 1e-9)


def test_a_limit_refuses_all_cells_before_any_is_paid():
    own = opened(alpha=0.05)
    own.buy_size()
    before, forecast = own.left, own.forecast(TWO)
    with pytest.raises(BudgetExceeded, match=r"these 8 questions together may take .* % .* was allowed"):
        own.sql(TWO, at_most=forecast.cost * 0.99)
    assert own.left == before
    assert own.history()[-1].kind == "size"
    assert own.sql(TWO, at_most=forecast.cost).cost <= forecast.cost


def test_what_does_not_fit_is_refused_in_whole_before_the_table_is_touched(monkeypatch):
    few = opened(queries=5, alpha=0.05)
    few.buy_size()
    poor = opened(mechanism="direct", alpha=0.006)
    poor.buy_size()
    for own, why in ((few, "5 are left, of 8 that it needs"), (poor, "these 16 questions together may take")):
        monkeypatch.setattr(own._planner.curator, "_engine", Untouchable(PEOPLE))
        before = own.left
        text = TWO if own is few else "select age, sex, count(*) from t group by age, sex"
        with pytest.raises(BudgetExceeded, match=why):
            own.sql(text)
        assert own.left == before


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("select sex, sum(age) from t group by sex", "sum|not numeric"),
        ("select * from t", "SELECT \\* would list people"),
        ("select sex, count(distinct job) from t group by sex", "DISTINCT"),
        ("select sex, count(*) from t group by sex having count(*) > 3", "HAVING"),
        ("select nobody, count(*) from t group by nobody", "unknown attribute"),
        ("delete from t", "expected one SELECT"),
    ],
)
def test_other_shapes_are_refused_by_name(text, why):
    own = opened(alpha=0.05)
    with pytest.raises(WorkloadError, match=why):
        own.sql(text)
    assert not own.history()


NUMBERS = Domain.from_dict(
    {
        "attributes": [
            {"name": "age", "kind": "numeric", "bounds": [0, 100], "bins": 10},
            {
                "name": "it's",
                "kind": "categorical",
                "categories": ["o'x", "y"],
                "overflow": True,
                "nullable": True,
            },
        ]
    }
)


def numbers():
    rng = np.random.default_rng(0)
    columns = {"age": rng.integers(0, 10, 5000), "it's": rng.integers(0, 4, 5000)}
    coded = {name: codes.astype(np.uint8) for name, codes in columns.items()}
    return Table(MemoryEngine(NUMBERS, coded), name="numbers", source="test")


def test_cut_cells_are_refused_and_all_cells_are_there():
    own = mq.session(numbers(), epsilon=5.0, alpha=0.1, queries=50, ledger="memory")
    with pytest.raises(WorkloadError, match="borders of cells"):
        own.sql("""select "it's", count(*) from t where age > 15 group by 1""")
    result = own.sql(
        """select "it's" as x, count(*) from t where age >= 10 group by 1 order by 2 desc limit 3"""
    )
    assert len(result) == 3
    assert len(result.answers) == 4
    declared = own.sql("""select count("it's") from t""").to_pylist()[0]
    truth = 2500
    assert declared['count("it\'s") lower'] <= truth * 1.1
    assert declared['count("it\'s") upper'] >= truth * 0.9


def test_too_many_cells_are_refused():
    domain = Domain((Attribute("code", Kind.CATEGORICAL, codes=MAX_CELLS + 1),))
    engine = MemoryEngine(domain, {"code": np.zeros(9, dtype=np.uint16)})
    table = Table(engine, name="codes", source="test")
    with pytest.raises(WorkloadError, match="1,001 questions"):
        mq.session(table, epsilon=1.0, ledger="memory").sql("select code, count(*) from t group by code")


@pytest.mark.parametrize("cap", [1, 2, 3])
def test_the_most_that_questions_take_is_that_of_the_worst_order(cap):
    """Against every order of measuring and of opening epochs that are used up at once."""
    price, each = Fraction(5), Fraction(2)
    for new, first, epochs in product(range(1, 7), range(3), range(1, 4)):
        worst = max(_orders(new, first, epochs, cap, price, each))
        stated = mixed_price(new, first=first, epochs=epochs, cap=cap, price=price, each=each)
        assert stated >= worst
        assert stated <= worst + price  # it is not far above


def _orders(new, first, epochs, cap, price, each, place=0, tests=0):
    if place == new:
        return [Fraction(0)]
    if tests:
        return _orders(new, first, epochs, cap, price, each, place + 1, tests - 1)
    found = [each + rest for rest in _orders(new, first, epochs, cap, price, each, place + 1)]
    if epochs and place >= first:
        after = _orders(new, first, epochs - 1, cap, price, each, place + 1, cap - 1)
        found += [price + rest for rest in after]
    return found


def test_the_prompt_asks_for_consent_twice_and_shows_the_table(monkeypatch, capsys):
    own = opened(alpha=0.05)
    lines, consents = iter([f":forecast {TWO}", TWO, ":quit"]), []
    prompt = Prompt(own, as_json=False, read=lambda: next(lines))
    prompt._interactive = True
    monkeypatch.setattr("typer.confirm", lambda text, default: consents.append(text) or True)
    assert prompt.run() == 0
    assert "number of records has to be bought first" in consents[0]
    assert "8 questions, 8 of them new" in consents[1]
    assert "at most" in consents[1]
    assert "is left" in consents[1]
    assert "count(*) lower" in capsys.readouterr().out
    assert "all of them free" in own.sql(TWO).notes[0]
    assert "answered before, free" in describe(own.forecast(TWO), total=own.total)
