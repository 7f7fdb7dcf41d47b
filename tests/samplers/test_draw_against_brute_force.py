"""Every sampler against full enumeration: levels, masses at every level, and the law of its draws."""

from __future__ import annotations

from collections import Counter as Tally
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from maquette.samplers.brackets import Bracket, Uniform
from maquette.samplers.slices import Slices
from support.draw_cases import CASES, Case, law
from support.seeded import SeededBits

pytestmark = pytest.mark.privacy

FALSE_ALARM = 1e-6
DRAWS = 3000
BASE = Fraction(3, 4)


def some_tables(case: Case, count: int) -> list[tuple[int, ...]]:
    rng = np.random.default_rng(7)
    drawn = [tuple(rng.multinomial(n, rng.dirichlet(np.full(case.universe, 0.6)))) for n in range(1, count)]
    return [tuple(int(x) for x in table) for table in [np.zeros(case.universe, dtype=int), *drawn]]


def whole(mass: Bracket) -> int:
    assert mass.low == mass.high
    value = Fraction(mass.low) * Fraction(2) ** mass.exponent
    assert value.denominator == 1
    return int(value)


def p_value(case: Case, table: tuple[int, ...], drawn: Tally[tuple[int, ...]]) -> float:
    expected = law(case, table, BASE)
    total, draws = sum(expected.values()), sum(drawn.values())
    likely = {s: Fraction(w, total) * draws for s, w in expected.items() if Fraction(w, total) * draws >= 5}
    rest = draws - sum(likely.values())
    statistic = sum((drawn[s] - float(e)) ** 2 / float(e) for s, e in likely.items())  # type: ignore[index]
    freedom = len(likely) - 1
    if rest >= 5:
        seen = draws - sum(drawn[s] for s in likely)  # type: ignore[index]
        statistic += (seen - float(rest)) ** 2 / float(rest)
        freedom += 1
    assert set(drawn) <= set(expected)
    return float(chi2.sf(statistic, max(freedom, 1)))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_levels_are_the_errors_of_the_definition(case):
    for table in some_tables(case, 9):
        counter = case.counter(table)
        for small, level in zip(case.smalls, case.levels(table), strict=True):
            assert counter.level(case.given(small)) == level
            assert level <= counter.top


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_masses_equal_brute_force_at_every_level(case):
    for table in some_tables(case, 12):
        counter, levels = case.counter(table), case.levels(table)
        assert whole(counter.total) == sum(case.weights)
        for level in range(counter.top + 1):
            near = sum(w for w, at in zip(case.weights, levels, strict=True) if at <= level)
            if case.counts_more:
                near = whole(counter.mass(level, exact=True))
            assert whole(counter.mass(level, exact=True)) == near
            quick = counter.mass(level, exact=False)
            assert Fraction(quick.low) * Fraction(2) ** quick.exponent <= near
            assert near <= Fraction(quick.high) * Fraction(2) ** quick.exponent


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_draws_have_the_stated_law(case):
    for seed, table in enumerate(some_tables(case, 8)[::3]):
        uniform = Uniform(SeededBits(seed))
        slices = Slices(case.counter(table), decay=BASE, report=lambda _: None)
        drawn = Tally(tuple(sorted(case.rows(slices.draw(uniform)))) for _ in range(DRAWS))
        assert p_value(case, table, drawn) > FALSE_ALARM


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_draws_inside_a_level_follow_the_base(case):
    table = some_tables(case, 8)[-1]
    counter, levels = case.counter(table), case.levels(table)
    level = sorted(levels)[len(levels) // 2]
    inside = {s: w for s, w, at in zip(case.smalls, case.weights, levels, strict=True) if at <= level}
    uniform = Uniform(SeededBits(11))
    tries = [counter.draw(level, uniform) for _ in range(DRAWS * (4 if case.counts_more else 1))]
    drawn = Tally(tuple(sorted(case.rows(small))) for small in tries if small is not None)
    assert set(drawn) <= set(inside)
    mass = whole(counter.mass(level, exact=True))
    expected = {s: w / mass * len(tries) for s, w in inside.items()}
    statistic = sum((drawn[s] - e) ** 2 / e for s, e in expected.items())
    if case.counts_more:
        nothing = len(tries) - sum(expected.values())
        statistic += (len(tries) - sum(drawn.values()) - nothing) ** 2 / nothing
        expected[()] = nothing
    assert chi2.sf(statistic, max(len(expected) - 1, 1)) > FALSE_ALARM


def test_the_check_sees_a_draw_at_another_base():
    case = CASES[0]
    table = (1, 5, 0, 2)
    uniform = Uniform(SeededBits(3))
    slices = Slices(case.counter(table), decay=BASE**2, report=lambda _: None)
    drawn = Tally(tuple(sorted(case.rows(slices.draw(uniform)))) for _ in range(DRAWS))
    assert p_value(case, table, drawn) < FALSE_ALARM
