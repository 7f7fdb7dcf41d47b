"""The K-norm mechanism: the body holds what a record moves, the stated error holds, and it is the least."""

from fractions import Fraction

import numpy as np
import pytest

import maquette as mq
from maquette.core.budget import Unit
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.mechanisms import knorm
from maquette.mechanisms.base import Task
from maquette.mechanisms.direct import CUBE, HISTOGRAM_LAPLACE, LAPLACE
from maquette.mechanisms.knorm import (
    KNORM,
    Plan,
    body_of,
    combinations,
    independent_rows,
    moves_of,
    plan_for,
    uniform_points,
)
from maquette.queries import prefixes, ranges, weights
from maquette.theory import draws, quantiles
from support.seeded import SeededNoise


def line(cells):
    return Domain((Attribute("age", Kind.ORDINAL, codes=cells),))


FEW = weights(line(24), (np.random.default_rng(6).random((4, 24)) < 0.5).astype(float))
SUMS = weights(line(12), np.random.default_rng(7).random((3, 12)))
WORKLOADS = [prefixes(line(5), "age"), ranges(line(4), "age"), FEW, SUMS]


def task(queries, relation=Relation.REPLACE_ONE, price=Fraction(1, 2)):
    return Task(queries, relation, Unit.EPSILON, price, 0.05, post="none")


def planned(queries, relation):
    plan = plan_for(queries, relation)
    assert isinstance(plan, Plan), plan
    return plan


@pytest.mark.law
@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("queries", WORKLOADS, ids=str)
def test_the_body_holds_every_move_and_is_no_larger_than_their_hull(queries, relation):
    plan = planned(queries, relation)
    assert plan.body.shift(plan.measured.to_forms(), relation) == 1
    moves = moves_of(plan.measured, relation)
    # every facet touches a move, and all points of the body are combinations of moves with weights of at most 1
    points = uniform_points(plan.body)[0][:20]
    from scipy.optimize import linprog

    for point in points:
        both = np.vstack([moves, -moves]).T / 2**20
        found = linprog(np.ones(both.shape[1]), A_eq=both, b_eq=point / 2**20)
        assert found.fun <= 1 + 2e-3


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("queries", WORKLOADS, ids=str)
def test_all_answers_follow_from_what_is_measured(queries, relation):
    plan = planned(queries, relation)
    cells = np.random.default_rng(3).integers(0, 50, queries.domain.size)
    exact = np.asarray(queries.on_histogram(cells)) / queries.denominator
    measured = plan.measured.on_histogram(cells) / plan.measured.denominator
    assert plan.reconstruction @ measured + plan.constants * cells.sum() == pytest.approx(exact, abs=1e-3)


def test_rows_that_follow_from_others_are_not_measured():
    matrix = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [1, 1, 1, 1.0]])
    assert len(independent_rows(matrix, replaced=False)) == 3
    rows = independent_rows(matrix, replaced=True)
    assert len(rows) == 2
    found, constants = combinations(matrix, rows, replaced=True)
    assert found @ matrix[rows] + constants[:, None] == pytest.approx(matrix)


@pytest.mark.accuracy
@pytest.mark.parametrize("relation", Relation)
def test_the_stated_level_holds_and_is_not_far_above_what_happens(relation):
    plan = planned(prefixes(line(4), "age"), relation)
    request = mq_request(plan, Fraction(1))
    sensitivity = request.sensitivity_of(plan.measured.to_forms(), plan.measured.domain, relation)
    noise, law = SeededNoise(2), quantiles.law_of(request, sensitivity)
    zeros = np.zeros(len(plan.body.box), dtype=np.int64)
    drawn = np.array(
        [noise.norm(zeros, body=law.body, resolution=law.resolution, decay=law.decay) for _ in range(1000)]
    )
    largest = np.abs(drawn / 2**20 @ plan.reconstruction.T).max(axis=1)
    level = plan.level(law, beta=0.1)
    assert (largest > level).mean() <= 0.1 + 2 * np.sqrt(0.09 / 1000)
    assert (largest > 0.7 * level).mean() > 0.1
    norms = np.array([float(plan.body.norm(z)) for z in drawn])
    alone = draws.norm_lattice(
        rate=law.rate, dimension=len(zeros), cell=plan.body.cell, step=1 / law.resolution, beta=0.1
    )
    assert 0.05 < (norms > alone).mean() < 0.15, "the norm itself is a Gamma variable, nearly"


def mq_request(plan, price):
    from maquette.core.laws import NoiseRequest

    return NoiseRequest("norm", price, plan.body)


@pytest.mark.parametrize("queries", [prefixes(line(5), "age"), ranges(line(5), "age")], ids=str)
def test_it_states_less_than_noise_on_every_answer_or_cell(queries):
    stated = {
        m.name: m.prepare(task(queries), n=10_000).forecast for m in (KNORM, LAPLACE, CUBE, HISTOGRAM_LAPLACE)
    }
    least = stated.pop("knorm")
    assert all(least.guaranteed < 0.85 * other.guaranteed for other in stated.values())
    assert all(least.expected < other.expected for other in stated.values())


@pytest.mark.parametrize(
    ("queries", "relation", "why"),
    [
        (prefixes(line(12), "age"), Relation.ADD_REMOVE, "histogram-laplace"),
        (prefixes(line(7), "age"), Relation.ADD_REMOVE, "1/2000 of the box"),
        (prefixes(line(5000), "age"), Relation.ADD_REMOVE, "5,000"),
        (weights(line(400), np.random.default_rng(1).random((7, 400))), Relation.ADD_REMOVE, "ways or more"),
        (weights(line(600), np.random.default_rng(1).random((2, 600))), Relation.REPLACE_ONE, "ways or more"),
    ],
    ids=["cells", "thin", "large", "moves", "differences"],
)
def test_what_it_cannot_do_is_refused_with_the_reason(queries, relation, why):
    assert why in KNORM.prepare(task(queries, relation)).refusal


def test_a_hull_of_too_many_facets_is_refused(monkeypatch):
    moves = moves_of(planned(FEW, Relation.ADD_REMOVE).measured, Relation.ADD_REMOVE)  # plans are cached
    monkeypatch.setattr(knorm, "MAX_FACETS", 3)
    assert "facets" in body_of(moves)


def test_thin_boxes_and_one_dimension_have_bodies_too():
    thin = body_of(np.array([[1, 2**19], [0, 2**20]]))
    assert max(abs(entry) for normal in thin.normals for entry in normal) <= 2**24
    assert body_of(np.array([[5], [-7]])).box == (7,)


def test_a_release_by_name():
    domain = line(4)
    ages = np.random.default_rng(3).integers(0, 4, 3000).tolist()
    release = mq.release(
        mq.open({"age": ages}, domain=domain),
        mq.ranges(domain, "age"),
        epsilon=1.0,
        mechanism="knorm",
        relation="replace-one",
        ledger="memory",
    )
    exact = np.asarray(mq.ranges(domain, "age").on_rows({"age": np.array(ages)})) / 3000
    assert np.abs(release.answers.fractions - exact).max() <= release.guarantee.alpha
    assert "K-norm" in release.guarantee.bound
