"""Guarantees of all mechanisms side by side: figures of the specification, classes without end, what a target needs."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest

from maquette.domain import Relation
from maquette.theory import direct, epochs, guarantees, multiplicative, overview, smalldb
from maquette.theory.existence import Facts
from maquette.theory.guarantees import Setting


def setting(**changes) -> Setting:
    facts = Facts(universe=2**16, log_queries=math.log(1e5), vc=8)
    return Setting(**({"facts": facts, "n": 10**5, "epsilon": 1.0, "delta": 1e-6} | changes))


# --- figures ------------------------------------------------------------------------------------------------------


def test_advanced_composition_as_in_the_specification():
    error = guarantees.composed_laplace(n=10**4, epsilon=1, delta=1e-6, log_queries=math.log(100), beta=0.05)
    assert error == pytest.approx(0.041364, rel=2e-2)  # the specification takes the union bound
    assert error < 0.041364


def test_rho_as_in_the_specification():
    assert guarantees.rho_of(1.0, 1e-6) == pytest.approx(0.024355970, rel=1e-5)
    assert guarantees.rho_of(1.0, 1e-9) == pytest.approx(0.014973058, rel=1e-5)


def test_knorm_is_linf_for_few_queries_and_ends_at_the_universe():
    few = {"n": 10**4, "epsilon": 1.0, "log_queries": math.log(100), "beta": 0.05}
    assert guarantees.knorm(log_universe=math.log(2**20), **few) == pytest.approx(direct.linf(**few))
    many = few | {"log_queries": math.log(1e9)}
    capped = guarantees.knorm(log_universe=math.log(101), **many)
    assert capped == pytest.approx(direct.linf(**few), rel=1e-6)  # |X| - 1 = 100 dimensions


def test_the_rate_of_random_queries():
    terms = {"n": 100, "epsilon": 1.0, "log_universe": math.log(2**20)}
    assert guarantees.hardt_talwar(log_queries=0.0, **terms) == pytest.approx(0.01)
    expected = math.sqrt(1024 * math.log(2**10)) / 100
    assert guarantees.hardt_talwar(log_queries=math.log(1024), **terms) == pytest.approx(expected)
    assert guarantees.hardt_talwar(log_queries=math.log(2**21), **terms) == math.inf


def test_a_tree_beats_one_noise_per_prefix_and_intervals_double_it():
    terms = {"n": 10**4, "epsilon": 1.0, "cells": 2**16, "beta": 0.05}
    prefixes = guarantees.tree(intervals=False, **terms)
    assert prefixes < direct.laplace(n=10**4, epsilon=1.0, log_queries=math.log(2**16 - 1), beta=0.05)
    assert guarantees.tree(intervals=True, **terms) == 2 * prefixes
    assert guarantees.tree(n=1, epsilon=1.0, cells=1, beta=0.05, intervals=False) == 0.0


def test_steps_and_statements_of_multiplicative_weights():
    assert multiplicative.step_size(log_universe=8.0, rounds=16) == pytest.approx(2.0)
    assert multiplicative.mwem_afterwards(n=100, gap=0.1, lost=5) == pytest.approx(0.15)
    assert direct.fitted_error(noise=3.0, size_error=0.5) == pytest.approx(7.0)


PURE = epochs.Inputs(1e5, 1000, 0.05, math.log(256), None, False, 0.0, 0.0)


def test_the_noise_of_pmw_as_in_the_specification():
    pure = epochs.pure_noise(PURE, 1.0, 138, (0.05, 0.85, 0.10))
    assert pure.width == pytest.approx(0.0365433343)
    assert pure.answer_width == pytest.approx(0.1244980558)
    concentrated = epochs.concentrated_noise(PURE, 0.0243559704, 273, (0.4, 0.05))
    assert concentrated.epoch_epsilon == pytest.approx(0.0130196166)
    assert concentrated.width == pytest.approx(0.0468010763)
    assert concentrated.answer_width == pytest.approx(0.0134209660)


def test_shares_of_a_budget_add_up():
    assert sum(epochs.split_pure(PURE, 1.0, 50)) == pytest.approx(1.0)
    assert sum(epochs.median_split_pure(PURE, 1.0, 50, 0.1)) == pytest.approx(1.0)
    for shares in (epochs.split_zcdp(PURE, 0.02, 50), epochs.median_split_zcdp(PURE, 0.02, 50, 0.1)):
        assert all(0 < share < 1 for share in shares)


def test_more_questions_than_a_double_holds_go_on_smoothly():
    just, beyond = (replace(PURE, k=10**p) for p in (299, 301))
    step = 2 * math.log(10)
    assert beyond.log_tests - just.log_tests == pytest.approx(step)
    assert beyond.laplace_of_tests(3.0) - just.laplace_of_tests(3.0) == pytest.approx(3 * step)


# --- classes without end ------------------------------------------------------------------------------------------


def test_a_class_without_end_has_as_many_behaviours_as_the_universe_leaves():
    endless = setting(facts=Facts(universe=1000, log_queries=math.inf, vc=2))
    listed = setting(facts=Facts(universe=1000, log_queries=math.log(1 + 1000 + 499500), vc=2))
    assert endless.log_queries == pytest.approx(listed.log_queries)
    for name in ("mw", "pmw", "histogram-laplace", "linf"):
        one = guarantees.guarantee(name)
        assert one.error(endless) == pytest.approx(one.error(listed), rel=1e-6)


def test_every_bound_at_a_universe_of_2_to_the_1000():
    vast = Setting(facts=Facts(universe=2**1000, log_queries=math.inf, vc=10), n=10**9, epsilon=1.0)
    lines = {line.name: line.alpha for line in overview.bounds(vast)}
    assert {"best of all forms", "mw", "mwem", "pmw", "median", "roth", "shattered set"} <= set(lines)
    assert all(math.isfinite(alpha) for alpha in lines.values())
    assert lines["best of all forms"] < lines["mw"] < lines["mwem"] < lines["pmw"] < 1


def test_a_cover_adds_twice_its_radius():
    plain = setting(facts=Facts(universe=2**16, log_queries=math.log(1e5)))
    covered = setting(facts=Facts(universe=2**16, log_queries=math.inf, covers=((0.01, math.log(1e5)),)))
    for name in ("mw", "laplace", "histogram-laplace", "median"):
        one = guarantees.guarantee(name)
        assert one.error(covered) == pytest.approx(one.error(plain) + 0.02, rel=1e-6)


def test_the_floor_takes_the_better_of_the_two_dimensions():
    pure = setting(delta=0.0, facts=Facts(universe=2**16, log_queries=5.0, vc=10))
    by_vc = guarantees.floor_of(pure)
    assert by_vc is not None
    assert by_vc[1] == "VC dimension 10"
    wide = guarantees.floor_of(replace(pure, fat=(400, Fraction(1, 2))))
    assert wide is not None
    assert wide[0] > by_vc[0]
    assert wide[1] == "fat-shattering dimension 400 at 1/2"
    assert guarantees.floor_of(setting()) is None  # with a delta nothing is known


# --- what applies, and what a target needs ------------------------------------------------------------------------


def test_leaving_out_form_e_changes_nothing_that_is_stated():
    one = setting()
    assert "e" not in guarantees.useful_forms(one)
    terms = {"n": one.n, "epsilon": one.epsilon, "beta": one.beta}
    assert guarantees.best_smalldb(one).alpha == smalldb.best(one.facts, **terms).alpha
    endless = setting(facts=Facts(universe=2**16, log_queries=math.inf, vc=8))
    assert "e" in guarantees.useful_forms(endless)
    private = setting(relation=Relation.ADD_REMOVE)
    assert "c" not in guarantees.useful_forms(private)


def test_other_numbers_of_queries_keep_what_is_known():
    one = setting()
    more = guarantees.with_queries(one, 20.0)
    assert more.facts.vc == 8
    assert more.facts.log_queries == 20.0
    assert {g.name for g, _ in guarantees.applicable(one)} == set(overview.mechanisms(one))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["laplace", "linf", "mw", "gaussian", "smalldb", "histogram-laplace"])
def test_what_a_target_needs_reaches_it_and_less_does_not(name):
    one = setting()
    needs = overview.needs(one, alpha=0.1)[name]
    error = guarantees.guarantee(name).error
    assert needs.epsilon is not None
    assert error(replace(one, epsilon=needs.epsilon)) <= 0.1
    assert error(replace(one, epsilon=needs.epsilon * 0.999)) > 0.1
    if needs.log_queries is None:
        assert error(guarantees.with_queries(one, 0.0)) > 0.1
    elif math.isinf(needs.log_queries):
        assert error(guarantees.with_queries(one, 1e6)) <= 0.1
    else:
        assert error(guarantees.with_queries(one, needs.log_queries)) <= 0.1
        assert error(guarantees.with_queries(one, needs.log_queries * 1.01)) > 0.1


def test_pmw_overtakes_fresh_noise_at_the_stated_number_of_questions():
    one = setting(delta=0.0, n=10**6, facts=Facts(universe=2**16, log_queries=0.0))
    crossing = overview.crossover(one)
    assert crossing.questions is not None
    errors = {}
    for k in (crossing.questions - 1, crossing.questions):
        at = replace(one, facts=Facts(universe=2**16, log_queries=math.log(k)))
        errors[k] = [guarantees.guarantee(name).error(at) for name in ("pmw", "laplace")]
    assert errors[crossing.questions][0] < errors[crossing.questions][1]
    assert errors[crossing.questions - 1][0] >= errors[crossing.questions - 1][1]
    assert [line[0] for line in crossing.lines] == [10**i for i in range(7)]
    needs = overview.needs_of(guarantees.guarantee("pmw"), one, alpha=0.5)
    assert needs.log_queries is not None
