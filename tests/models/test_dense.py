"""The dense hypothesis: answers, updates and refits against brute force and the specification's figures."""

import math

import numpy as np
import pytest

from maquette.errors import MaquetteError, ParameterError, WorkloadError
from maquette.models.dense import Dense, Target
from maquette.models.hypothesis import Released
from maquette.models.start import hypothesis_for
from maquette.queries import boxes, marginals, prefixes, union
from support.online_universe import entropy, exact, kinds_of_query, lumpy, random_box, universe

DOMAIN = universe(3, 4, 5)
FOUR = universe(4)
HALF = boxes(FOUR, [{"x0": (0, 1)}])
WIDE = universe(700, 3)
"""One block per value of the first attribute would be short: its cells all lie in one."""


def with_weights(domain, weights):
    start = hypothesis_for(domain)
    return Dense(start.layout, np.asarray(weights).reshape(start.cells.shape).copy(), 1.0, "test")


@pytest.mark.parametrize("domain", [DOMAIN, WIDE, universe(2, 3, 4, 100, 6)], ids=str)
def test_answers_are_those_of_the_histogram(domain):
    table = lumpy(domain, 1)
    found = with_weights(domain, table)
    for queries in [*kinds_of_query(domain), marginals(domain, k=2), prefixes(domain, "x0")]:
        for _ in range(3):  # the first pass over the cells, later ones from a kept table
            assert found.answer(queries) == pytest.approx(exact(queries, table), abs=1e-12)
    both = union(*kinds_of_query(domain), marginals(domain, k=1))
    assert found.answer(both) == pytest.approx(exact(both, table), abs=1e-12)


def test_one_step_of_multiplicative_weights_as_in_the_specification():
    moved = hypothesis_for(FOUR).step(HALF, 0.9, step=0.5)
    expected = [0.31122967, 0.31122967, 0.18877033, 0.18877033]
    assert moved.weights == pytest.approx(expected, abs=1e-8)
    table = np.array([0.7, 0.2, 0.1, 0.0])
    assert entropy(table, hypothesis_for(FOUR).weights) == pytest.approx(0.5844758086, abs=1e-10)
    assert entropy(table, moved.weights) == pytest.approx(0.4154056122, abs=1e-10)


def test_the_projection_as_in_the_specification():
    moved = hypothesis_for(FOUR).project([Target(HALF, 0.9)])
    assert moved.weights == pytest.approx([0.45, 0.45, 0.05, 0.05])
    table = np.array([0.7, 0.2, 0.1, 0.0])
    drop = entropy(table, hypothesis_for(FOUR).weights) - entropy(table, moved.weights)
    assert drop == pytest.approx(0.3680642072, abs=1e-10)


@pytest.mark.parametrize("width", [0.0, 0.02])
def test_projections_reach_the_shrunk_target_and_lose_the_promised_entropy(width):
    table = lumpy(DOMAIN, 2)
    for queries in kinds_of_query(DOMAIN)[:3]:
        start = hypothesis_for(DOMAIN)
        truth, own = exact(queries, table)[0], start.answer(queries)[0]
        noisy = truth + width * math.copysign(0.9, truth - own)
        moved = start.project([Target(queries, noisy, width)])
        gap = abs(noisy - own) - width
        assert abs(moved.answer(queries)[0] - own) == pytest.approx(max(gap, 0), abs=1e-9)
        drop = entropy(table, start.weights) - entropy(table, moved.weights)
        assert drop >= 2 * max(gap, 0) ** 2 - 1e-12
        assert start.project([Target(queries, own + width / 2, width)]) is start or not width


def test_updates_leave_the_old_hypothesis_alone():
    start = hypothesis_for(DOMAIN)
    before = start.cells.copy()
    query = kinds_of_query(DOMAIN)[0]
    start.step(query, 1.0, step=0.3)
    start.project([Target(query, 0.9)])
    start.refit([Released(query, 0.9, 0.01)])
    assert np.array_equal(start.cells, before)


def released_for(domain, table, count, *, seed, deviation=0.002):
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        query = random_box(domain, rng)
        found.append(Released(query, float(exact(query, table)[0] + deviation * rng.normal()), deviation))
    return found


def test_a_refit_is_a_function_of_the_list_alone():
    released = released_for(DOMAIN, lumpy(DOMAIN, 3), 25, seed=4)
    start = hypothesis_for(DOMAIN)
    one_by_one = start
    for j in range(1, 26):
        one_by_one = one_by_one.refit(released[:j])
    at_once = start.refit(released)
    shorter_first = start.refit(released[:7]).refit(released)
    after_another = start.refit(released[5:]).refit(released)
    after_a_step = start.step(released[0].queries, 1.0, step=0.1).refit(released)
    for other in (one_by_one, shorter_first, after_another, after_a_step):
        assert np.array_equal(other.cells, at_once.cells)
        assert other.digest() == at_once.digest()
    backwards = start.refit(released[::-1])
    assert backwards.digest() != at_once.digest()
    assert start.digest() != at_once.digest() != start.refit(released[:7]).digest()


def test_a_refit_meets_the_answers_and_comes_close_to_the_maximum_entropy():
    table = lumpy(DOMAIN, 5)
    released = released_for(DOMAIN, table, 12, seed=6, deviation=1e-4)
    found = hypothesis_for(DOMAIN).refit(released)
    for answer in released:
        assert abs(found.answer(answer.queries)[0] - answer.value) < 5e-4
    # of the form exp(sum of multipliers): the logarithm lies in the span of the queries
    columns = [np.ones(DOMAIN.size)]
    shape = np.indices(DOMAIN.shape).reshape(3, -1)
    rows = dict(zip(DOMAIN.names, shape, strict=True))
    columns += [answer.queries.columns_of(rows)[0].astype(float) for answer in released]
    logs = np.log(found.weights.ravel())
    solved = np.linalg.lstsq(np.stack(columns, axis=1), logs, rcond=None)[0]
    assert np.stack(columns, axis=1) @ solved == pytest.approx(logs, abs=1e-6)


def test_precise_answers_weigh_more():
    query = kinds_of_query(DOMAIN)[0]
    rough, fine = Released(query, 0.3, 0.1), Released(query, 0.6, 0.001)
    for order in ([rough, fine], [fine, rough]):
        assert hypothesis_for(DOMAIN).refit(order).answer(query)[0] == pytest.approx(0.6, abs=0.01)


def test_contradictions_and_impossible_answers_do_no_harm():
    query = kinds_of_query(DOMAIN)[0]
    released = [Released(query, v, 0.001) for v in (-0.5, 1.7, 0.5, 0.1, 0.9)] * 3
    found = hypothesis_for(DOMAIN).refit(released)
    assert np.isfinite(found.cells).all()
    assert (found.cells >= 0).all()
    assert found.weights.sum() == pytest.approx(1.0)


def test_fractional_weights_are_refitted_too():
    query = kinds_of_query(DOMAIN)[2]
    found = hypothesis_for(DOMAIN).refit([Released(query, 0.61, 0.001)])
    assert found.answer(query)[0] == pytest.approx(0.61, abs=0.002)


def test_synthetic_rows_answer_like_the_hypothesis_and_repeat():
    found = hypothesis_for(DOMAIN, attributes=["x0", "x1"]).refit(
        released_for(universe(3, 4, 5), lumpy(DOMAIN, 7), 0, seed=1)
    )
    query = boxes(DOMAIN, [{"x0": (0, 1), "x1": (2, 2)}])
    moved = found.project([Target(query, 0.7)])
    rows = moved.synthetic(2000, key="a")
    assert rows.m == 2000
    assert set(rows.columns) == {"x0", "x1"}
    assert rows.answer(query).fractions[0] == pytest.approx(0.7, abs=0.01)
    again = moved.synthetic(2000, key="a")
    assert all(np.array_equal(again.columns[n], rows.columns[n]) for n in rows.columns)
    # cells hold no whole numbers of 1,999 rows, so that the start of the steps decides
    made = [moved.synthetic(1999, key=key).columns["x1"].tolist() for key in "abcdef"]
    assert len({tuple(codes) for codes in made}) > 1


def test_what_it_cannot_answer_is_refused():
    found = hypothesis_for(DOMAIN, attributes=["x0"])
    with pytest.raises(WorkloadError, match="not about x2"):
        found.answer(boxes(DOMAIN, [{"x2": (0, 1)}]))
    with pytest.raises(WorkloadError, match="domain of the hypothesis"):
        found.answer(HALF)
    with pytest.raises(ParameterError, match="one query"):
        Released(marginals(DOMAIN, k=1), 0.5, 0.1)
    with pytest.raises(ParameterError, match="finite"):
        Released(HALF, math.nan, 0.1)
    with pytest.raises(ParameterError, match="kind"):
        hypothesis_for(DOMAIN, kind="sparse")
    with pytest.raises(MaquetteError, match="unknown attribute"):
        hypothesis_for(DOMAIN, attributes=["y"])
    with pytest.raises(ParameterError, match="dense hypothesis may have"):
        hypothesis_for(universe(2**14, 2**14), kind="dense")
