"""Copies, complements and constants of a workload: asked once or not at all, answered alike."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import maquette as m
import maquette.queries as mq
from maquette.core.budget import Unit
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.mechanisms import shape
from maquette.mechanisms.base import MECHANISMS
from maquette.queries import merging
from maquette.queries.condition import all_cells
from maquette.queries.merging import Merged, merge
from support.query_cases import SCALE, any_queries, domains, plain_sensitivity, queries

DOMAIN = Domain(
    (
        Attribute("age", Kind.ORDINAL, codes=6),
        Attribute("sex", Kind.BOOLEAN, codes=2),
        Attribute("job", Kind.CATEGORICAL, codes=3, nullable=True),
    )
)
COPIES = [
    "age < 3",
    "NOT age >= 3",
    "age BETWEEN 0 AND 2",
    "age >= 3",
    "NOT age < 3",
    "age < 3 AND TRUE",
    "age IN (0, 1, 2)",
    "age > 2",
    "TRUE",
    "FALSE",
]


def table(n: int = 4000) -> m.Table:
    rng = np.random.default_rng(1)
    codes = {a.name: rng.integers(0, a.cells, n) for a in DOMAIN}
    return m.open(codes, domain=DOMAIN, name="people")


def release(workload: mq.Queries, **options) -> m.Release:
    given = {"epsilon": 0.5, "certificate": 0, "ledger": "memory", "post": "none"} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", m.MemoryLedgerWarning)
        return m.release(table(), workload, **given)


def weights_of(workload: mq.Queries) -> np.ndarray:
    """The weight of every query on every cell of the universe, times SCALE."""
    cells = all_cells(workload.domain.shape, workload.domain.names)
    return np.asarray(workload.columns_of(cells)).astype(np.int64) * (SCALE // workload.denominator)


def check_way_back(workload: mq.Queries) -> Merged:
    """What is asked, mapped back, is what the workload asks, on every record; and its sensitivity is not too small."""
    found = merge(workload)
    full, asked = weights_of(workload), weights_of(found.queries)
    back = np.stack([found.expand(column, SCALE) for column in asked.T], axis=1)
    assert (back == full).all()
    for relation in Relation:
        stated, least = found.queries.sensitivity(relation), plain_sensitivity(asked, relation)
        assert stated.l1 >= least.l1
        assert stated.l2_squared >= least.l2_squared
        assert stated.linf >= least.linf
        if found.queries.exact_sensitivity:
            assert (stated.l1, stated.l2_squared) == (least.l1, least.l2_squared)
        assert stated.l1 <= workload.sensitivity(relation).l1
    return found


@pytest.mark.slow
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(workload=any_queries())
def test_the_way_back_is_the_workload(workload):
    check_way_back(workload)


@pytest.mark.slow
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_the_way_back_from_copies_and_complements(data):
    domain = data.draw(domains(most_cells=24))
    first = data.draw(queries(domain))
    parts = [first, data.draw(queries(domain)), first]
    rows = weights_of(parts[1])
    over = domain.names
    if all(
        set(row.tolist()) <= {0, SCALE} for row in rows
    ):  # the complements of a class, as explicit weights
        parts.append(mq.weights(domain, 1.0 - rows / SCALE, attributes=over))
    workload = mq.union(*parts)
    found = check_way_back(workload)
    if workload.distinct():  # else nothing is asked at all
        assert found.queries.count <= workload.count - first.count


@pytest.mark.parametrize(("weight", "other"), [(0.25, 0.75), (0.25, 0.25), (0.5, 0.5), (1.0, 0.0)])
def test_copies_of_one_weight_for_all_records_are_asked_once(weight, other):
    domain = Domain((Attribute("a", Kind.NUMERIC, bounds=(0, 3), bins=3),))
    rows = [[0.0, 0.5, 1.0], [weight] * 3, [other] * 3]
    found = check_way_back(mq.weights(domain, rows))
    assert found.queries.count == (1 if weight == 1.0 else 2)


def test_ten_copies_are_one_query():
    found = check_way_back(mq.predicates(DOMAIN, COPIES))
    assert found.queries.count == 1
    assert found.saved == 9
    assert found.queries.sensitivity(Relation.ADD_REMOVE).l1 == 1
    assert found.expand(np.array([30]), 100).tolist() == [30, 30, 30, 70, 70, 30, 30, 70, 100, 0]
    assert found.expand_errors(np.array([0.5])).tolist() == [0.5] * 8 + [0.0, 0.0]


@pytest.mark.parametrize(
    ("parts", "asked"),
    [
        ([mq.marginals(DOMAIN, k=1), mq.marginals(DOMAIN, k=[1, 2])], 6 + 2 + 4 + 12 + 24 + 8),
        ([mq.prefixes(DOMAIN, "age"), mq.ranges(DOMAIN, "age")], 21),
        ([mq.where(DOMAIN, "age = 3"), mq.marginals(DOMAIN, k=1)], 12),
        ([mq.where(DOMAIN, "age = 3 AND sex = 1"), mq.points(DOMAIN, ["age", "sex"])], 12),
        ([mq.where(DOMAIN, "age <> 3"), mq.marginals(DOMAIN, k=1)], 12),
        ([mq.boxes(DOMAIN, [{"age": (0, 2)}, {"age": (1, 4)}]), mq.prefixes(DOMAIN, "age")], 7),
        ([mq.prefixes(DOMAIN, "age"), mq.prefixes(DOMAIN, "age")], 6),
        ([mq.where(DOMAIN, "TRUE"), mq.prefixes(DOMAIN, "age")], 6),
        ([mq.marginals(DOMAIN, k=1), mq.prefixes(DOMAIN, "age")], 18),
    ],
)
def test_what_is_found_across_classes(parts, asked):
    assert check_way_back(mq.union(*parts)).queries.count == asked


def test_a_workload_without_repeats_is_asked_as_it_stands():
    for workload in (
        mq.marginals(DOMAIN, k=2),
        mq.union(mq.marginals(DOMAIN, k=1), mq.where(DOMAIN, "age = 3 OR sex = 1")),
    ):
        assert merge(workload) == Merged(workload) or merge(workload).queries is workload
    constant = mq.predicates(DOMAIN, ["TRUE", "FALSE"])
    assert merge(constant).queries is constant


def test_columns_of_any_size_are_compared():
    huge = Domain((Attribute("x", Kind.ORDINAL, codes=2**64),))
    found = merge(mq.predicates(huge, ["x < 7", "x >= 7", "NOT x >= 7"]))
    assert found.queries.count == 1
    assert found.expand(np.array([3]), 10).tolist() == [3, 7, 3]


def test_long_classes_are_compared_by_their_margins_only(monkeypatch):
    monkeypatch.setattr(merging, "MAX_COMPARED_QUERIES", 10)
    copies = mq.predicates(DOMAIN, ["age = 3", "age = 3"])
    found = check_way_back(mq.union(mq.marginals(DOMAIN, k=1), mq.marginals(DOMAIN, k=1), copies))
    assert found.queries.count == 12 + 1


@pytest.mark.parametrize("mechanism", ["laplace", "linf", "gaussian"])
def test_copies_get_one_answer_with_the_noise_of_one(mechanism):
    options = {"mechanism": mechanism, "delta": 1e-6 if mechanism == "gaussian" else 0.0}
    many = release(mq.predicates(DOMAIN, COPIES), **options)
    one = release(mq.where(DOMAIN, COPIES[0]), **options)
    share = many.answers.fractions
    assert share[8:].tolist() == [1.0, 0.0]
    same = np.array([0, 1, 2, 5, 6])
    assert len(set(share[same].tolist())) == 1
    assert np.allclose(share[[3, 4, 7]], 1 - share[0], atol=1e-9)
    assert many.guarantee.alpha == pytest.approx(
        one.guarantee.alpha, rel=0.05
    )  # the released size differs a little
    if one.deviations is not None and many.deviations is not None:
        assert many.deviations[:8] == pytest.approx(one.deviations[0], rel=0.05)
        assert many.deviations[8:].tolist() == [0.0, 0.0]
    assert any("not asked again" in note for note in many.notes)
    assert many.answer("age >= 3").value == pytest.approx(share[3])


def test_forecasts_follow_what_is_asked():
    options = {"n": 10_000, "epsilon": 1.0, "mechanisms": ["laplace", "linf", "histogram-laplace"]}
    one = m.plan(mq.where(DOMAIN, COPIES[0]), **options)
    ten = m.plan(mq.predicates(DOMAIN, COPIES), **options)
    for alone, many in zip(one.forecasts, ten.forecasts, strict=True):
        assert (alone.mechanism, alone.guaranteed, alone.expected) == (
            many.mechanism,
            many.guaranteed,
            many.expected,
        )


def test_without_merging_copies_differ(monkeypatch):
    """What the tests above would see if copies were asked one by one."""
    monkeypatch.setattr(shape, "merged", Merged)
    many = release(mq.predicates(DOMAIN, COPIES), mechanism="laplace")
    assert len(set(many.answers.fractions[[0, 1, 2, 5, 6]].tolist())) > 1
    assert (
        many.guarantee.alpha > 3 * release(mq.where(DOMAIN, COPIES[0]), mechanism="laplace").guarantee.alpha
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_identical_questions_have_identical_answers_whatever_the_mechanism(name):
    repeated = mq.predicates(DOMAIN, ["age < 3", "sex = 1", "age >= 3", "NOT sex = 1"])
    workloads = [
        mq.union(mq.marginals(DOMAIN, k=1), mq.marginals(DOMAIN, k=1), repeated, repeated),
        mq.union(mq.marginals(DOMAIN, k=[1, 2]), mq.marginals(DOMAIN, k=2)),
        mq.union(mq.prefixes(DOMAIN, "age"), mq.prefixes(DOMAIN, "age")),
    ]
    if name == "smalldb":
        workloads = workloads[2:]
    ran = 0
    for workload in workloads:
        pure = MECHANISMS[name].prepare(_task(workload), n=4000).forecast.refusal is None
        options = {"mechanism": name, "post": "auto", "delta": 0.0 if pure else 1e-6}
        try:
            made = release(workload, **options)
        except m.MechanismError:
            continue
        ran += 1
        found: dict[str, float] = {}
        for index, share in enumerate(made.answers.fractions.tolist()):
            text = workload.text(index)
            assert found.setdefault(text, share) == share, text
        if "age < 3" in found:
            assert found["age < 3"] + found["age >= 3"] == pytest.approx(1.0)
    assert ran or name in ("roth",)


def _task(workload: mq.Queries):
    from fractions import Fraction

    from maquette.mechanisms.base import Task

    return Task(shape.merged(workload).queries, Relation.ADD_REMOVE, Unit.EPSILON, Fraction(1, 2), 0.05)
