"""Quantiles in a session: between their ends, at most at the forecast price, free again, private like any question."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from maquette.core.budget import UNITS, Budget
from maquette.core.rows.engine import MemoryEngine
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import BudgetExceeded, WorkloadError
from maquette.owner import Table
from maquette.queries.predicates import where
from maquette.queries.weights import GRID
from maquette.sessions.grouped import read_select
from maquette.sessions.question import QuestionReader
from maquette.sessions.sums import Search, border_query
from support.online_cases import seeded_session
from support.online_tape import TEST, charges, taped
from support.privacy_doubles import histograms, ledger_for, neighbours, table_of

DOMAIN = Domain(
    (
        Attribute("age", Kind.NUMERIC, bounds=(17.0, 97.0), bins=80, integer=True),
        Attribute("income", Kind.NUMERIC, edges=(0.0, 10.0, 20.0, 30.0, 50.0, 100.0), nullable=True),
        Attribute("sex", Kind.CATEGORICAL, categories=("f", "m")),
    )
)
N = 20_000
STATEMENT = "select sex, median(age), quantile(income, 0.9), count(*) from t where age >= 20 group by sex"


def values(n: int = N) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(4)
    sex = rng.random(n) < 0.4
    income = np.where(rng.random(n) < 0.1, np.nan, np.minimum(rng.gamma(2.0, 8.0 + 4 * sex), 99.0))
    return {"age": np.minimum(17 + rng.poisson(25 + 9 * sex), 97), "income": income, "sex": sex}


def table(people: dict[str, np.ndarray]) -> Table:
    codes = {name: DOMAIN[name].bin_index(people[name]) for name in ("age", "income")}
    codes["income"] = np.where(np.isnan(people["income"]), DOMAIN["income"].null_cell, codes["income"])
    whole = {
        name: np.asarray(column, dtype=np.uint8) for name, column in (codes | {"sex": people["sex"]}).items()
    }
    return Table(MemoryEngine(DOMAIN, whole), name="people", source="test")


def opened(monkeypatch, *, delta=0.0, relation=Relation.ADD_REMOVE, **options):
    ledger = ledger_for(DOMAIN, budget=Budget(8.0, delta), relation=relation)
    facts = {"epsilon": 8.0, "delta": delta, "relation": relation, "ledger": ledger, "queries": 300} | options
    return seeded_session(monkeypatch, 1, table(values()), **facts)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"alpha": 0.02},
        {"alpha": 0.02, "delta": 1e-6},
        {"mechanism": "direct", "alpha": 0.02, "relation": Relation.REPLACE_ONE},
        {"alpha": 0.05, "measure_first": False},
    ],
    ids=["pmw", "with a delta", "direct, public size", "tests only"],
)
def test_quantiles_are_between_their_ends_at_no_more_than_the_forecast(monkeypatch, options):
    own, people = opened(monkeypatch, **options), values()
    own.buy_size()
    forecast = own.forecast(STATEMENT)
    assert forecast.questions == 2 * (
        1 + 2 * 7 + 2 * 3
    )  # by sex: a count, and both searches over 80 and 5 cells
    before = own.left
    result = own.sql(STATEMENT, at_most=forecast.cost)
    assert before - own.left == pytest.approx(result.cost)
    assert result.cost <= forecast.cost
    for row in result:
        inside = (people["sex"] == (row["sex"] == "m")) & (people["age"] >= 20)
        for name, level, figure in (
            ("age", 0.5, "median(age)"),
            ("income", 0.9, "quantile(income, 0.9)"),
        ):
            own_values = people[name][inside & ~np.isnan(people[name])]
            exact = np.quantile(own_values, level, method="inverted_cdf")
            assert row[f"{figure} lower"] <= exact <= row[f"{figure} upper"]
            assert row[f"{figure} lower"] <= row[figure] <= row[f"{figure} upper"]
        assert row["median(age) upper"] - row["median(age) lower"] <= 12  # it says something
    assert own.forecast(STATEMENT).new_questions == 0
    assert own.sql(STATEMENT, at_most=0.0).to_pylist()[0]["known_by"] == "answered before"


def test_a_median_of_everybody_is_a_search_of_plain_shares(monkeypatch):
    own = opened(monkeypatch, alpha=0.02)
    row = own.sql("select median(age) from t").to_pylist()[0]
    exact = np.median(values()["age"])
    assert row["median(age) lower"] <= exact <= row["median(age) upper"]
    asked = [past.what for past in own.history() if past.kind != "size" and past.value is not None]
    assert 7 <= len(asked) <= 14
    assert "age < 57" in asked  # the border in the middle, asked first
    assert own.forecast("age >= 57").kind == "cached"


def test_what_cannot_be_paid_in_whole_is_not_begun(monkeypatch):
    own = opened(monkeypatch, mechanism="direct", queries=13, relation=Relation.REPLACE_ONE)
    with pytest.raises(BudgetExceeded):
        own.sql("select median(age) from t")
    assert own.left == own.total
    reader = QuestionReader(DOMAIN)
    with pytest.raises(WorkloadError, match="a search for each quantile"):
        read_select(reader, "select age, median(age) from t group by age")
    one = Domain((Attribute("x", Kind.NUMERIC, bounds=(0.0, 1.0), bins=1), *DOMAIN.attributes))
    with pytest.raises(WorkloadError, match="one cell"):
        read_select(QuestionReader(one), "select median(x) from t")


@pytest.mark.parametrize("cells", [2, 3, 5, 64, 100])
def test_a_search_ends_within_its_bound_at_the_nearest_borders(cells):
    """Answers without error: both ends are the cell that holds the quantile, for every place of it."""
    attribute = Attribute("x", Kind.NUMERIC, bounds=(0.0, float(cells)), bins=cells)
    for place in range(cells):
        search = Search(attribute, Fraction(1, 2), lambda border: border)  # pyright: ignore
        while (border := search.pending) is not None:
            search.take(0.4 if border <= place else 0.6, 0.01)
        value, lower, upper = search.ends
        assert (lower, upper) == (place, place + 1)
        assert lower <= value <= upper
        assert len(search.gaps) <= search.most_questions


def test_answers_that_say_nothing_leave_the_bounds():
    attribute = Attribute("x", Kind.NUMERIC, bounds=(0.0, 9.0), bins=9)
    search = Search(attribute, Fraction(1, 3), lambda border: border)  # pyright: ignore
    while search.pending is not None:
        search.take(0.3, 0.6)
    assert search.ends[1:] == (0.0, 9.0)


# --- privacy --------------------------------------------------------------------------------------------------------

SMALL = Domain(
    (
        Attribute("x", Kind.NUMERIC, edges=(0.0, 10.0, 25.0, 100.0), nullable=True),
        Attribute("y", Kind.CATEGORICAL, codes=2),
    )
)


def border_queries():
    for level in (Fraction(1, 2), Fraction(9, 10), Fraction(0)):
        for text in ("y = 0", "x >= 10", "x >= 0"):
            for border in ("x < 10", "x < 25"):
                group = where(SMALL, f"({text}) and x >= 0")
                below = where(SMALL, f"({text}) and {border}")
                yield level, group, below, border_query(SMALL, group, below, SMALL["x"], level)


@pytest.mark.privacy
@pytest.mark.parametrize("relation", list(Relation))
def test_no_pair_of_tiny_tables_moves_a_border_question_beyond_its_sensitivity(relation):
    queries = [query for *_, query in border_queries()]
    exact = {}
    for one in histograms(SMALL.size, most=2):
        engine = table_of(SMALL, one)._engine
        exact[one] = np.array([int(engine.answer(query.to_forms())[0]) for query in queries])
    moved = np.max([np.abs(exact[a] - exact[b]) for a, b in neighbours(list(exact), relation)], axis=0)
    for query, most in zip(queries, moved, strict=True):
        assert Fraction(int(most), GRID) == query.sensitivity(relation).linf <= 1


def test_an_answer_is_the_gap_and_the_level():
    """B + p (1 - C), on a table that is not small."""
    counts = np.random.default_rng(2).integers(0, 50, SMALL.size)
    engine = table_of(SMALL, tuple(counts))._engine
    for level, group, below, query in border_queries():
        inside, first = (int(engine.answer(one.to_forms())[0]) / counts.sum() for one in (group, below))
        found = int(engine.answer(query.to_forms())[0]) / GRID / counts.sum()
        assert found == pytest.approx(first + float(level) * (1 - inside), abs=1 / GRID)


def run(monkeypatch, people, tape, relation):
    ledger = ledger_for(DOMAIN, budget=Budget(4.0), relation=relation)
    options = {"epsilon": 4.0, "mechanism": "direct", "queries": 30}
    session, noise = taped(monkeypatch, tape, table(people), ledger, relation=relation, **options)
    statement = "select quantile(income, 0.75), median(age) from t where sex = 'm'"
    return (
        repr((session.sql(statement, allow_useless=True).to_pylist(), charges(ledger))),
        noise.calls,
        ledger,
    )


@pytest.mark.privacy
@pytest.mark.parametrize("relation", list(Relation))
def test_a_search_on_a_neighbour_asks_the_same_and_loses_no_more_than_was_charged(monkeypatch, relation):
    people = values(600)
    first, calls, ledger = run(monkeypatch, people, None, relation)
    heaviest = {"age": 97, "income": 99.0, "sex": True}
    if relation is Relation.ADD_REMOVE:
        other = {name: np.append(column, heaviest[name]) for name, column in people.items()}
    else:
        other = {name: np.append(column[1:], heaviest[name]) for name, column in people.items()}
    second, replayed, _ = run(monkeypatch, other, calls, relation)
    assert second == first
    lost = 0.0
    for a, b in zip(calls, replayed, strict=True):
        assert a.method != TEST
        moved = float(np.abs(np.asarray(a.exact) - np.asarray(b.exact)).sum())
        lost += moved / float(dict(a.parameters)["scale"])
    paid = sum(e.units for e in ledger.entries(kind="reserve") if e.tag != "session") / UNITS
    assert 0 < lost <= paid + 1e-9


def test_an_end_that_forgets_the_error_is_seen(monkeypatch):
    """A planted bug: the side of a border by the sign of the answer alone. Such answers are certain about nothing."""

    def ends():
        attribute = Attribute("x", Kind.NUMERIC, bounds=(0.0, 8.0), bins=8)
        search = Search(attribute, Fraction(1, 2), lambda border: border)  # pyright: ignore
        while (border := search.pending) is not None:
            search.take(0.49 if border <= 5 else 0.51, 0.3)
        return search.ends[1:]

    assert ends() == (0.0, 8.0)
    monkeypatch.setattr(Search, "_is_not_below", lambda self, border: self.gaps[border][0] < 0)
    monkeypatch.setattr(Search, "_is_not_above", lambda self, border: self.gaps[border][0] >= 0)
    assert ends() != (0.0, 8.0)
