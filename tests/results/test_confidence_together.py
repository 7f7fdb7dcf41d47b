"""What a confidence is about: all workload answers of a release hold together as often as they say."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from tests.support.fake_curator import FakeCurator
from tests.support.made_release import toy_release

import maquette as mq
from maquette.core.budget import Budget, Unit
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.mechanisms.base import MECHANISMS, Task
from maquette.models.answers import generator
from maquette.queries import where
from maquette.results import Guarantee, Release
from maquette.results.answering import estimate

pytestmark = pytest.mark.accuracy

BETA, RUNS, FALSE_ALARM = 0.3, 60, 1e-6
DOMAIN = Domain(
    tuple(Attribute(name, Kind.ORDINAL, codes=size) for name, size in zip("abc", (4, 3, 2), strict=True))
)
WORKLOAD = mq.marginals(DOMAIN, k=[1, 2])
HISTOGRAM = np.random.default_rng(1).multinomial(800, np.random.default_rng(2).dirichlet(np.full(24, 0.5)))
TEXTS = [WORKLOAD.text(i) for i in range(WORKLOAD.count)]
QUERIES = [where(DOMAIN, text) for text in TEXTS]
TRUTH = np.asarray(WORKLOAD.on_histogram(HISTOGRAM.reshape(DOMAIN.shape))) / 800
TOGETHER, ALONE = "all answers of the release together", "this question alone"


def released(seed: int, mechanism: str, relation: Relation) -> Release:
    """A release on the double of the gate."""
    unit = Unit.EPSILON if mechanism == "histogram-laplace" else Unit.RHO
    task = Task(WORKLOAD, relation, unit, Fraction(1, 10), BETA)
    curator = FakeCurator(HISTOGRAM, DOMAIN, relation=relation, unit=unit, price=task.price, seed=seed)
    made = (
        MECHANISMS[mechanism]
        .prepare(task)
        .run(curator, rng=generator("x"), progress=lambda _what, _share: None)
    )
    return Release(
        workload=WORKLOAD,
        answers=made.answers,
        mechanism=mechanism,
        relation=relation,
        budget=Budget(1.0, 0.0 if unit == "epsilon" else 1e-6),
        beta=BETA,
        size=made.size,
        guarantee=Guarantee(made.guarantee.alpha, made.guarantee.beta, made.guarantee.bound),
        model=made.model,
        database=made.database,
    )


def seldom(failures: int) -> bool:
    return bool(binom.sf(failures - 1, RUNS, BETA) >= FALSE_ALARM)


@cache
def outcomes(mechanism: str, relation: Relation) -> tuple[int, int, int]:
    """In how many releases some stated error failed, that of the most surprising answer did, and some error would
    have if each were stated for its query alone."""
    some = surprising = alone = 0
    for seed in range(RUNS):
        release = released(seed, mechanism, relation)
        found: list[Any] = [estimate(release, query) for query in QUERIES]
        assert all(one is not None and one.source == "model" and not one.alone for one in found)
        values = np.array([one.value for one in found])
        errors = np.array([1.0 if one.error is None else one.error for one in found])
        held = np.abs(values - TRUTH) <= errors
        some += not held.all()
        # what a reader would pick: the answer farthest from what equal cells would give
        sizes = np.array([len(query.attributes) for query in QUERIES])
        surprising += not held[np.argmax(np.abs(values - np.median(values)) * sizes)]
        single = [release.model.estimate(query, beta=BETA) for query in QUERIES]
        alone += any(abs(value - truth) > error for (value, error), truth in zip(single, TRUTH, strict=True))
    return some, surprising, alone


@pytest.mark.parametrize(
    ("mechanism", "relation"),
    [
        ("residual", Relation.ADD_REMOVE),
        ("residual", Relation.REPLACE_ONE),
        ("histogram-gaussian", Relation.ADD_REMOVE),
        ("histogram-laplace", Relation.REPLACE_ONE),
    ],
)
def test_all_workload_answers_hold_together_and_so_does_the_most_surprising(mechanism, relation):
    some, surprising, _ = outcomes(mechanism, relation)
    assert seldom(some)
    assert seldom(surprising)


def test_errors_that_hold_for_one_question_each_would_not_hold_together():
    """The test sees the difference: so the workload's answers were stated before."""
    assert not seldom(outcomes("residual", Relation.REPLACE_ONE)[2])


def test_an_answer_says_what_its_confidence_is_about():
    release: Any = released(1, "residual", Relation.REPLACE_ONE)
    for text in ("a = 1", "a != 1", "a = 1 and b = 2"):
        assert release.answer(text).holds_for == TOGETHER, text
    alone = release.answer("a = 1 or a = 3")
    assert alone.holds_for == ALONE
    assert str(alone).endswith("confidence, for this question alone")
    assert alone.error < release.answer("a = 1").error * 2
    assert json.loads(json.dumps({"holds_for": alone.holds_for}))["holds_for"] == ALONE
    rows = toy_release(mq.marginals(toy_release().domain, k=1)).answer("age >= 60 or sex = 'Male'")
    assert rows.holds_for is None


def test_sums_of_certified_answers_hold_together():
    release = toy_release()
    assert release.answer("age >= 40").holds_for == TOGETHER
    assert release.answer("sex = 'Male'").holds_for == TOGETHER


def test_the_report_says_it_of_its_whiskers():
    together = released(1, "residual", Relation.REPLACE_ONE)
    assert "all of them together" in together.report()
    only_pairs = replace(
        together,
        workload=mq.marginals(DOMAIN, k=2),
        answers=together.answers.__class__(together.answers.numerators[9:], together.answers.denominator),
    )
    assert (
        "each for its own bar alone" in only_pairs.report()
    )  # a share of one attribute is none of its queries


def test_a_session_answer_says_it_too():
    private = mq.open({"a": [0, 1] * 50, "b": [0] * 100, "c": [1] * 100}, domain=DOMAIN)
    session = mq.session(private, epsilon=20.0, mechanism="direct", queries=3, ledger="memory")
    assert session.ask("a = 1", allow_useless=True).holds_for == "all answers of the session together"
