"""From the table to the population: sums of two errors, and what a theorem says of questions chosen after answers."""

import math

import numpy as np
import pytest

import maquette as mq
from maquette.core.budget import Budget
from maquette.domain import Attribute, Kind, Relation
from maquette.queries import marginals
from maquette.results.statements import ADAPTIVE, FIXED, WORKLOAD, of_session_answer
from maquette.theory import population
from support.online_cases import PEOPLE, book, people, seeded_session

SHARES = np.array([0.4, 0.3, 0.2, 0.1])


def release_of(table, relation="replace-one", **more):
    options = {"epsilon": 1.0, "mechanism": "laplace", "certificate": 0.0} | more
    ledger = book(Budget(options["epsilon"]), relation=Relation(relation))
    return mq.release(table, marginals(PEOPLE, 1), relation=relation, ledger=ledger, **options)


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_a_release_states_both_errors_together(relation):
    release = release_of(people(5000), relation)
    whole, one = release.population(), release.population("age >= 3")
    assert whole.holds_for == WORKLOAD
    assert whole.error > release.guarantee.alpha + math.sqrt(math.log(2 * 14 / release.beta) / (2 * 5200))
    assert whole.chance == pytest.approx(release.guarantee.beta + release.beta)
    answer = release.answer("age >= 3")
    if answer.error is None:
        assert one.vacuous
    else:
        assert one.holds_for == FIXED
        assert answer.error < one.error < answer.error + 0.03
    assert "of the population, except with probability" in str(whole)


def test_an_answer_without_an_error_says_nothing():
    release = release_of(people(40), epsilon=0.01)
    assert release.population().vacuous
    assert "nothing can be said" in str(release.population())


def test_the_transfer_theorem_at_its_best_split():
    best = population.adaptive_error(alpha=0.01, epsilon=0.02, delta=1e-8, beta=1e-5, chance=0.01)
    options = []
    for c in np.geomspace(1e-5, 1, 400):
        if 1e-5 / c < 0.01:
            d = 1e-8 / (0.01 - 1e-5 / c)
            options.append(0.01 + math.expm1(0.02) + c + 2 * d)
    assert best <= min(options) + 1e-12
    assert best == pytest.approx(min(options), rel=1e-3)


def test_a_session_takes_the_smaller_statement():
    facts = {"error": 0.01, "n": 10_000, "relation": Relation.REPLACE_ONE, "chance": 0.05}
    usual = of_session_answer(beta=0.04, budget=Budget(1.0), **facts)
    assert usual.holds_for == FIXED
    assert usual.error == pytest.approx(0.01 + math.sqrt(math.log(2 / 0.01) / 20_000))
    careful = of_session_answer(beta=1e-5, budget=Budget(0.001), **(facts | {"n": 100}))
    assert careful.holds_for == ADAPTIVE
    assert careful.error == pytest.approx(0.01 + math.expm1(0.001) + 1e-5 / 0.05)
    twice = of_session_answer(
        beta=1e-5, budget=Budget(0.001), **(facts | {"n": 100, "relation": Relation.ADD_REMOVE})
    )
    assert twice.error == pytest.approx(0.01 + math.expm1(0.002) + 1e-5 / 0.05)
    hopeless = of_session_answer(beta=0.2, budget=Budget(1.0), **facts)
    assert hopeless.vacuous


def test_answers_of_a_session(monkeypatch):
    table = people(20_000)
    session = seeded_session(
        monkeypatch, 1, table, ledger=book(Budget(1.0)), epsilon=1.0, alpha=0.05, beta=0.01
    )
    answer = session.ask("age >= 3")
    stated = session.population(answer)
    assert answer.error < stated.error < answer.error + 0.02
    assert stated.chance == 0.05


@pytest.mark.accuracy
def test_workloads_are_near_the_population_as_often_as_stated():
    rng, outside = np.random.default_rng(3), 0
    domain = mq.Domain((Attribute("x", Kind.CATEGORICAL, codes=4),))
    for _ in range(40):
        codes = rng.choice(4, size=400, p=SHARES)
        release = mq.release(
            mq.open({"x": codes.tolist()}, domain=domain), marginals(domain, 1), epsilon=1.0, beta=0.05,
            relation="replace-one", mechanism="laplace", certificate=0.0, ledger="memory",
        )  # fmt: skip
        stated = release.population()
        outside += np.abs(release.answers.fractions - SHARES).max() > stated.error
        assert stated.error < 0.2
    assert outside <= 8  # of 40 at 0.1: more has a chance of 2 %, and both bounds are far from tight
