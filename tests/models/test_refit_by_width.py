"""The refit by width: its potential rises as promised, so that c positives suffice; the refit by variance may not."""

import itertools
import math

import numpy as np
import pytest

from maquette.domain import Attribute, Domain, Kind
from maquette.errors import ParameterError
from maquette.models.dense import Dense
from maquette.models.hypothesis import Released
from maquette.queries import boxes, weights

DOMAIN = Domain(tuple(Attribute(n, Kind.ORDINAL, codes=s) for n, s in (("a", 4), ("b", 3), ("c", 2))))
CELLS = np.array(list(itertools.product(range(4), range(3), range(2))))
WIDTH = 0.02


def counting(rng):
    box = {name: tuple(sorted(rng.integers(0, DOMAIN[name].size, 2).tolist())) for name in "abc"}
    return boxes(DOMAIN, [box])


def fractional(rng):
    return weights(DOMAIN, rng.random((1, 24)))


def weigh(queries):
    rows = {name: CELLS[:, i] for i, name in enumerate("abc")}
    return queries.columns_of(rows)[0] / queries.denominator


def table(rng):
    found = rng.dirichlet(np.full(24, 0.3))
    return found / found.sum()


def dual(hypothesis, released):
    """D by brute force, from the multipliers and the weights of all cells."""
    multipliers = np.array([answer.multiplier for answer in hypothesis.fit])
    values = np.array([answer.value for answer in hypothesis.fit])
    exponent = multipliers @ np.array([weigh(answer.queries) for answer in released])
    level = math.log(np.exp(exponent - exponent.max()).mean()) + exponent.max()
    return float(multipliers @ values - WIDTH * np.abs(multipliers).sum() - level)


def released(queries, truth, rng, *, width):
    value = float(weigh(queries) @ truth) + rng.uniform(-WIDTH, WIDTH)
    return Released(queries, value, WIDTH / 4, width)


def rises(seed, make, *, width):
    """What every answer added to the potential, and what it had to add; the last potential and its bound."""
    rng = np.random.default_rng(seed)
    truth = table(rng)
    now, known, before, told = Dense.uniform(DOMAIN, DOMAIN.names), [], 0.0, []
    for _ in range(15):
        one = released(make(rng), truth, rng, width=width)
        clipped = min(max(one.value, 0.0), 1.0)
        miss = abs(clipped - float(now.answer(one.queries)[0]))
        if weigh(one.queries).min() == weigh(one.queries).max():
            continue
        known.append(one)
        now = now.refit(known)
        after = dual(now, known)
        told.append((after - before, 2 * max(miss - WIDTH, 0.0) ** 2))
        before = after
    entropy = float(np.sum(truth * np.log(np.maximum(truth, 1e-300) * 24)))
    return told, before, entropy


@pytest.mark.slow
@pytest.mark.parametrize("make", [counting, fractional])
def test_every_answer_raises_the_potential_by_what_it_was_missed_by(make):
    for seed in range(12):
        told, last, entropy = rises(seed, make, width=WIDTH)
        assert all(rise >= needed - 1e-9 for rise, needed in told)
        assert last <= entropy + 1e-9 <= math.log(24) + 1e-9


def test_the_refit_by_variance_keeps_no_such_promise():
    broken = [
        rise < needed - 1e-9 for seed in range(12) for rise, needed in rises(seed, counting, width=None)[0]
    ]
    assert any(broken)


def worst_miss(now, truth, asked):
    gaps = [abs(float(weigh(q) @ truth) - float(now.answer(q)[0])) for q in asked]
    return int(np.argmax(gaps)), max(gaps)


@pytest.mark.parametrize("seed", range(3))
def test_an_analyst_who_looks_for_the_largest_miss_finds_no_more_than_the_bound(seed):
    rng = np.random.default_rng(seed)
    truth, gap = table(rng), 0.1
    asked = [counting(rng) for _ in range(60)]
    most = math.log(24) / (2 * (gap - 2 * WIDTH) ** 2)
    now, known = Dense.uniform(DOMAIN, DOMAIN.names), []
    while True:
        place, miss = worst_miss(now, truth, asked)
        if miss < gap:
            break
        known.append(released(asked[place], truth, rng, width=WIDTH))
        assert len(known) <= most
        now = now.refit(known)
    assert len(known) >= 2


def test_answers_within_their_width_move_nothing():
    start = Dense.uniform(DOMAIN, DOMAIN.names)
    one = Released(boxes(DOMAIN, [{"a": (0, 1)}]), 0.51, 0.005, WIDTH)
    assert start.refit([one]).answer(one.queries)[0] == pytest.approx(0.5, abs=1e-12)
    narrow = Released(one.queries, 0.6, 0.005, WIDTH)
    assert start.refit([narrow]).answer(one.queries)[0] == pytest.approx(0.58, abs=1e-6)


def test_a_width_is_part_of_the_name_and_is_checked():
    query = boxes(DOMAIN, [{"a": (0, 1)}])
    assert Released(query, 0.5, 0.01).key != Released(query, 0.5, 0.01, 0.02).key
    for width in (-0.1, math.inf, math.nan):
        with pytest.raises(ParameterError, match="width"):
            Released(query, 0.5, 0.01, width)
