"""One table over all attributes before the first question, in sessions with a delta over few cells."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from maquette.core.binned import Binned, table_sensitivity
from maquette.core.budget import Budget
from maquette.core.measurement import NoisyTable
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import ParameterError
from maquette.mechanisms.strategies import JOINT_SHARE, plan_joint
from maquette.models import survey as models
from maquette.models.survey import Joint, Survey, description_length
from maquette.queries import weights, where
from maquette.queries.predicates import boxes
from support.online_cases import PEOPLE, book, people, seeded_session, truth

SMALL = Domain(
    (
        Attribute("a", Kind.ORDINAL, codes=3),
        Attribute("b", Kind.CATEGORICAL, codes=2),
        Attribute("c", Kind.ORDINAL, codes=2),
    )
)
WHOLE = Binned(("a", "b", "c"), ((0, 1, 2), (0, 1), (0, 1)))
COUNTS = np.array([[[40, 3], [0, 25]], [[7, 7], [90, 1]], [[0, 0], [12, 15]]])


def subsets(size: int) -> list[np.ndarray]:
    return [np.array(bits, dtype=bool) for bits in itertools.product((False, True), repeat=size)]


def survey_of(values, variance, *, total=200.0, total_variance=0.0, reach=0.0, failure=0.1) -> Survey:
    table = NoisyTable(WHOLE, np.asarray(values, dtype=np.int64).ravel(), Fraction(variance), None)
    return Survey(SMALL, (table,), total, total_variance, reach, failure)


def products() -> list[str]:
    """Every product of non-empty sets as a condition, but that of everything."""
    found = []
    for chosen in itertools.product(*([s for s in subsets(size) if s.any()] for size in (3, 2, 2))):
        parts = [
            f"{name} in ({', '.join(str(i) for i in np.flatnonzero(s))})"
            for name, s in zip("abc", chosen, strict=True)
            if not s.all()
        ]
        if parts:
            found.append(" and ".join(parts))
    return found


@pytest.mark.parametrize("total_variance", [0.0, 3.0, 500.0])
def test_estimates_are_least_squares_with_the_total(total_variance):
    """The coefficients of the cells and of the total give the stated variance, and no others give a smaller one."""
    joint = Joint(("a", "b", "c"), COUNTS.astype(float), 4.0)
    for sets in itertools.product(subsets(3), subsets(2), subsets(2)):
        member = np.zeros(COUNTS.shape)
        member[np.ix_(*sets)] = 1
        estimate, variance = joint.sum(sets, total=200.0, total_variance=total_variance)

        def noise(c, member=member):
            return 4.0 * ((member - c) ** 2).sum() + total_variance * c**2

        best = 4.0 * member.sum() / (4.0 * member.size + total_variance)
        assert variance == pytest.approx(noise(best), abs=1e-9)
        assert noise(best) <= min(noise(best + 0.01), noise(best - 0.01)) + 1e-12
        assert estimate == pytest.approx(((member - best) * COUNTS).sum() + best * 200.0)
        assert variance <= (4.0 * member.size + total_variance) / 4 + 1e-9  # what the plan reckons with


def test_descriptions_of_all_products_share_the_chance_of_failure():
    total = 0.0
    for chosen in itertools.product(*([None, *subsets(size)] for size in (3, 2, 2))):
        length = 3 * math.log(2) + sum(description_length(s) for s in chosen if s is not None)
        total += math.exp(-length)
    assert total <= 1


def share_outside(rng, *, failure: float, runs: int = 300) -> float:
    """How often some product is outside of its bounds, over tables with fresh noise."""
    conditions = [where(SMALL, text) for text in products()]
    exact = [(q.columns_of(_cells()) @ COUNTS.ravel())[0] / 200 for q in conditions]
    failed = 0
    for _ in range(runs):
        noisy = COUNTS + np.rint(rng.normal(0, 6.0, COUNTS.shape)).astype(int)
        own = survey_of(noisy, 36, failure=failure)
        ends = [own.share(query) for query in conditions]
        failed += any(not e.low <= x <= e.high for e, x in zip(ends, exact, strict=True))
    return failed / runs


def _cells():
    codes = np.indices(COUNTS.shape).reshape(3, -1)
    return dict(zip("abc", codes, strict=True))


def test_all_products_hold_at_once(monkeypatch):
    assert share_outside(np.random.default_rng(3), failure=0.2, runs=40) <= 0.2
    # without the price of a description a product chosen after looking would be outside
    monkeypatch.setattr(models, "description_length", lambda bins: -0.6)
    assert share_outside(np.random.default_rng(3), failure=0.99, runs=15) > 0.5


def test_what_the_table_does_not_say_is_left_open():
    own = survey_of(COUNTS, 4)
    assert own.share(where(SMALL, "a = 1 or b = 1")) is not None  # the complement is a product
    assert own.share(where(SMALL, "(a = 1 and b = 1) or (a = 0 and c = 1)")) is None
    assert own.share(weights(SMALL, [[0.5, 1.0]], attributes=["b"])) is None
    assert survey_of(COUNTS, 4, reach=300.0).share(where(SMALL, "a = 1")) is None
    coarse = NoisyTable(Binned(("a", "b"), ((0, 1), (0, 1))), np.zeros(4, dtype=np.int64), Fraction(4), None)
    with pytest.raises(ParameterError, match="a count for every cell"):
        Survey(SMALL, (coarse,), 200.0, 0.0, 0.0, 0.1)


@pytest.mark.parametrize("relation", list(Relation))
def test_the_plan_answers_every_product_of_intervals(relation):
    price, failure, reach = Fraction(1, 50), 0.005, 400.0
    variance = 0.0 if relation is Relation.REPLACE_ONE else 900.0
    plan = plan_joint(
        PEOPLE,
        PEOPLE.names,
        price=price,
        reach=reach,
        total_variance=variance,
        relation=relation,
        failure=failure,
    )
    assert plan is not None
    assert plan.price <= price * JOINT_SHARE
    assert 0 <= plan.price - table_sensitivity(relation) / (2 * plan.one_variance) < Fraction(1, 10**11)
    table = NoisyTable(plan.ones[0], np.full(64, 100, dtype=np.int64), plan.one_variance, None)
    own = Survey(PEOPLE, (table,), 6400.0, variance, 0.0, failure)
    widest = 0.0
    for low, high in itertools.combinations_with_replacement(range(8), 2):
        for job in (None, 0, 3):
            for sex in (None, 0, 1):
                codes = {"sex": sex, "job": job}
                box = {"age": (low, high)} | {name: (c, c) for name, c in codes.items() if c is not None}
                if box == {"age": (0, 7)}:
                    continue
                ends = own.share(boxes(PEOPLE, [box]))
                assert ends is not None
                widest = max(widest, (ends.high - ends.low) / 2 * 6400)
    assert 0.5 * reach < widest <= reach  # the promise, and not much more than it needs
    facts = {"total_variance": variance, "relation": relation, "failure": failure}
    assert plan_joint(PEOPLE, PEOPLE.names, price=price, reach=reach / 20, **facts) is None
    assert plan_joint(PEOPLE, ("age",), price=price, reach=reach, **facts) is None


OPTIONS = {"epsilon": 1.0, "delta": 1e-6, "alpha": 0.05}


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_a_session_answers_whatever_is_a_product_after_one_payment(monkeypatch, relation):
    table = people()
    ledger = book(Budget(1.0, 1e-6), relation=Relation(relation))
    own = seeded_session(monkeypatch, 4, table, ledger=ledger, relation=relation, **OPTIONS)
    texts = [
        f"age between {low} and {low + 2} and job = {job} and sex = {sex}"
        for low in range(5)
        for job in range(4)
        for sex in range(2)
    ]
    own.buy_size()
    forecast = own.forecast(texts[0])
    before = own.left
    answers = own.ask_many(["(age = 1 and job = 2) or (age = 3 and sex = 1)", *texts])
    assert [answer.kind for answer in answers] == ["paid"] + ["free"] * len(texts)
    assert before - own.left == pytest.approx(answers[0].cost)
    assert answers[0].cost <= forecast.cost
    for text, answer in zip(texts, answers[1:], strict=True):
        assert abs(answer.value - truth(table, text)) <= answer.error <= 0.05
    assert [past.what for past in own.history() if past.kind == "survey"] == ["a survey of 1 tables"]
    again = seeded_session(monkeypatch, 9, table, ledger=ledger, relation=relation, **OPTIONS)
    assert again.ask("age between 1 and 6 and sex = 0").kind == "free"
    assert again.left == own.left
    rows = again.synthetic(2000)
    for sex in (0, 1):
        share = float(np.mean(np.asarray(rows["sex"]) == sex))
        assert abs(share - truth(table, f"sex = {sex}")) <= 0.05


def test_without_alpha_few_cells_get_a_smaller_error(monkeypatch):
    table, ledger = people(), book(Budget(1.0, 1e-6))
    own = seeded_session(monkeypatch, 4, table, ledger=ledger, epsilon=1.0, delta=1e-6)
    answer = own.ask("age between 1 and 6 and sex = 0")
    assert abs(answer.value - truth(table, "age between 1 and 6 and sex = 0")) <= answer.error
    assert own._planner.settings().survey is not None
    assert own._planner.settings().measure_error < 0.02
