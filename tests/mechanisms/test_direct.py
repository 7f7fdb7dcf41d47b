"""The direct mechanisms over a test double of the gate: what they ask, what they pay, what they hand back."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from maquette.core.budget import Unit
from maquette.core.laws import Cube, Gaussian, Laplace, NoiseRequest
from maquette.core.measurement import Size
from maquette.core.residuals import projected_axes, shift_squared
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import MechanismError
from maquette.mechanisms import postprocess, shape, sizing
from maquette.mechanisms.base import Task
from maquette.mechanisms.direct import CUBE, GAUSSIAN, HISTOGRAM_GAUSSIAN, HISTOGRAM_LAPLACE, LAPLACE
from maquette.mechanisms.residual import RESIDUAL, RESIDUAL_CELLS, allocate
from maquette.models.histogram import HistogramModel
from maquette.models.residual import ResidualModel
from maquette.queries import marginals, points, prefixes, ranges, union, weights
from maquette.theory import quantiles
from support.fake_curator import FakeCurator

PURE = [LAPLACE, CUBE, HISTOGRAM_LAPLACE]
NOISY = [GAUSSIAN, HISTOGRAM_GAUSSIAN]
RESIDUALS = [RESIDUAL, RESIDUAL_CELLS]
ALL = [*PURE, *NOISY, *RESIDUALS]
PRICES = {Unit.EPSILON: Fraction(1), Unit.RHO: Fraction(1, 20)}


def domain_of(*sizes: int) -> Domain:
    names = "abcdefgh"
    return Domain(tuple(Attribute(names[i], Kind.ORDINAL, codes=size) for i, size in enumerate(sizes)))


DOMAIN = domain_of(5, 3, 2)
HISTOGRAM = np.random.default_rng(0).multinomial(4000, np.random.default_rng(1).dirichlet(np.full(30, 0.4)))


def quiet(_what: str, _share: float) -> None:
    """Nobody watches."""


def task_for(queries, *, unit=Unit.EPSILON, relation=Relation.ADD_REMOVE, **more) -> Task:
    return Task(queries, relation, unit, PRICES[unit], 0.05, **more)


def run(mechanism, task: Task, *, histogram=HISTOGRAM, seed=0):
    curator = FakeCurator(
        histogram,
        task.queries.domain,
        relation=task.relation,
        unit=task.unit,
        price=task.price,
        seed=seed,
    )
    outcome = mechanism.prepare(task).run(curator, rng=np.random.default_rng(0), progress=quiet)
    return outcome, curator


def unit_of(mechanism) -> str:
    return Unit.EPSILON if mechanism in PURE else Unit.RHO


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("mechanism", ALL, ids=lambda m: m.name)
def test_marginals_are_answered_consistently_within_the_budget(mechanism, relation):
    task = task_for(marginals(DOMAIN, k=2), unit=unit_of(mechanism), relation=relation)
    outcome, curator = run(mechanism, task)
    assert 0 <= curator.left < task.price / 10**6  # all of it, and never more
    assert len(outcome.answers) == task.queries.count
    for place in task.queries.slices.values():
        assert outcome.answers.fractions[place].sum() == pytest.approx(1, abs=1e-6)
    assert outcome.size.public == (relation is Relation.REPLACE_ONE)
    assert outcome.guarantee.beta == 0.05
    assert 0 < outcome.guarantee.alpha < 1
    truth = task.queries.on_histogram(HISTOGRAM.reshape(DOMAIN.shape)) / HISTOGRAM.sum()
    assert np.abs(outcome.answers.fractions - truth).max() <= outcome.guarantee.alpha
    json.dumps(outcome.parameters)


@pytest.mark.parametrize("mechanism", ALL, ids=lambda m: m.name)
def test_rows_are_made_as_many_as_asked_for(mechanism):
    task = task_for(marginals(DOMAIN, k=2), unit=unit_of(mechanism), rows=777)
    outcome, _ = run(mechanism, task)
    assert outcome.database.m == 777
    by_default, _ = run(mechanism, replace(task, rows=None))
    assert by_default.database.m == by_default.size.value


@pytest.mark.parametrize("mechanism", [*PURE, *NOISY], ids=lambda m: m.name)
@pytest.mark.parametrize("make", [lambda: prefixes(DOMAIN, "a"), lambda: ranges(DOMAIN, "a", "b")])
def test_rows_hold_the_attributes_of_the_queries_and_no_others(mechanism, make):
    task = task_for(make(), unit=unit_of(mechanism))
    outcome, _ = run(mechanism, task)
    assert tuple(outcome.database.columns) == task.queries.attributes != DOMAIN.names
    assert mechanism.prepare(task, n=4000).forecast.gives_rows
    whole = task_for(union(make(), points(DOMAIN)), unit=unit_of(mechanism))
    assert tuple(run(mechanism, whole)[0].database.columns) == DOMAIN.names
    assert mechanism.prepare(whole, n=4000).forecast.gives_rows


@pytest.mark.parametrize("mechanism", [LAPLACE, GAUSSIAN, CUBE, RESIDUAL], ids=lambda m: m.name)
def test_a_large_universe_gives_answers_only_and_says_so(mechanism):
    domain = domain_of(300, 300, 300)
    histogram = np.zeros(domain.size, dtype=np.int8)
    histogram[:500] = 1
    task = task_for(marginals(domain, k=1), unit=unit_of(mechanism))
    outcome, _ = run(mechanism, task, histogram=histogram)
    assert outcome.database is None
    assert postprocess.ANSWERS_ONLY in outcome.notes
    assert not mechanism.prepare(task, n=500).forecast.gives_rows
    assert outcome.parameters["post"] == "simplex"
    for place in task.queries.slices.values():
        assert outcome.answers.fractions[place].sum() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("post", ["none", "consistent", "lp", "l2", "auto"])
@pytest.mark.parametrize("mechanism", [LAPLACE, GAUSSIAN, CUBE, RESIDUAL], ids=lambda m: m.name)
def test_every_way_of_post_processing_keeps_its_statement(mechanism, post):
    task = task_for(marginals(DOMAIN, k=2), unit=unit_of(mechanism), post=post)
    truth = task.queries.on_histogram(HISTOGRAM.reshape(DOMAIN.shape)) / HISTOGRAM.sum()
    for seed in range(5):
        outcome, _ = run(mechanism, task, seed=seed)
        error = np.abs(outcome.answers.fractions - truth).max()
        facts = outcome.parameters
        assert error <= outcome.guarantee.alpha
        assert facts["moved_counts"] <= facts["noise_level_counts"] + facts["size_drift_counts"]
        assert (outcome.database is None) == (post == "none")
    level = postprocess.error_after(facts["noise_level_counts"], facts["size_drift_counts"], facts["post"])
    assert outcome.guarantee.alpha <= level / outcome.size.divisor + 1e-6


def test_a_fit_that_strays_too_far_is_not_released():
    task = task_for(prefixes(DOMAIN, "a"))
    noisy = postprocess.NoisyAnswers(
        counts=np.array([0.0, 4000.0, 0.0, 4000.0, 4000.0])[: task.queries.count],
        level=10.0,
        size_error=0.0,
        size=Size(4000, None, None),
        law="made up",
    )
    outcome = postprocess.finish(task, noisy)
    assert outcome.parameters["post"] == "none"
    assert outcome.answers.fractions == pytest.approx(noisy.counts / 4000, abs=1e-8)
    assert outcome.guarantee.alpha == pytest.approx(10 / 4000, abs=1e-8)


@pytest.mark.parametrize("mechanism", ALL, ids=lambda m: m.name)
def test_a_tiny_budget_gives_a_vacuous_guarantee_and_no_failure(mechanism):
    unit = unit_of(mechanism)
    price = Fraction(1, 10**5 if unit == "epsilon" else 10**8)
    task = replace(task_for(marginals(DOMAIN, k=2), unit=unit), price=price)
    negative = 0
    for seed in range(8):
        outcome, _ = run(mechanism, task, seed=seed)
        assert outcome.guarantee.alpha == 1
        assert outcome.guarantee.bound.startswith("vacuous")
        assert np.isfinite(outcome.answers.fractions).all()
        negative += outcome.size.value <= 0
    assert negative  # the clamp was reached


@pytest.mark.parametrize("mechanism", ALL, ids=lambda m: m.name)
def test_an_empty_table_takes_the_same_way(mechanism):
    task = task_for(marginals(DOMAIN, k=1), unit=unit_of(mechanism))
    outcome, curator = run(mechanism, task, histogram=np.zeros(DOMAIN.size))
    full, other = run(mechanism, task)
    assert curator.asked == other.asked
    assert len(outcome.answers) == len(full.answers)
    assert outcome.database.m >= 1


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("mechanism", ALL, ids=lambda m: m.name)
def test_constant_queries_cost_nothing(mechanism, relation):
    single = domain_of(1, 1)
    for domain, queries in ((single, marginals(single, k=1)), (DOMAIN, marginals(DOMAIN, k=0))):
        task = task_for(queries, unit=unit_of(mechanism), relation=relation)
        outcome, curator = run(mechanism, task, histogram=np.full(domain.size, 7))
        assert curator.asked == []
        assert curator.left == task.price
        assert (outcome.answers.fractions == 1).all()
        assert outcome.guarantee.alpha == 0
        assert outcome.size.unpaid == (relation is Relation.ADD_REMOVE)
        assert (outcome.database is not None) == (domain is single)
        assert mechanism.prepare(task, n=7).forecast.guaranteed == 0


@pytest.mark.parametrize("mechanism", [*NOISY, *RESIDUALS], ids=lambda m: m.name)
def test_gaussian_noise_is_refused_without_delta(mechanism):
    task = task_for(marginals(DOMAIN, k=2))
    assert "delta" in mechanism.prepare(task, n=1000).forecast.refusal
    with pytest.raises(MechanismError, match="delta"):
        run(mechanism, task)


def test_what_does_not_fit_is_refused_before_anything_is_asked():
    fractional = weights(DOMAIN, np.full((2, 5), 0.3) + np.eye(2, 5) * 0.1, attributes=["a"])
    large = domain_of(300, 300, 300)
    cases = [
        (CUBE, task_for(fractional), "counting queries"),
        (RESIDUAL, task_for(prefixes(DOMAIN, "a"), unit=Unit.RHO), "marginals only"),
        (HISTOGRAM_LAPLACE, task_for(marginals(large, k=1)), "cells"),
        (HISTOGRAM_LAPLACE, task_for(marginals(DOMAIN, k=1), post="lp"), "linear program"),
        (LAPLACE, task_for(marginals(large, k=1), post="l2"), "fits a histogram"),
        (LAPLACE, task_for(ranges(domain_of(200, 30), "a", "b"), post="consistent"), "consistent answers"),
        (LAPLACE, task_for(prefixes(domain_of(2**40), "a")), "can be listed"),
    ]
    for mechanism, task, words in cases:
        assert words in mechanism.prepare(task, n=1000).forecast.refusal
        curator = FakeCurator(
            HISTOGRAM, DOMAIN, relation=task.relation, unit=task.unit, price=task.price, seed=0
        )
        with pytest.raises(MechanismError, match=words):
            mechanism.prepare(task).run(curator, rng=np.random.default_rng(0), progress=quiet)
        assert curator.asked == []


def test_fractional_weights_are_answered():
    matrix = np.random.default_rng(3).uniform(0, 1, (6, 5))
    queries = weights(DOMAIN, matrix, attributes=["a"])
    truth = queries.on_histogram(HISTOGRAM.reshape(DOMAIN.shape)) / queries.denominator / HISTOGRAM.sum()
    for mechanism in (LAPLACE, GAUSSIAN, HISTOGRAM_LAPLACE, HISTOGRAM_GAUSSIAN):
        outcome, _ = run(mechanism, task_for(queries, unit=unit_of(mechanism)))
        assert np.abs(outcome.answers.fractions - truth).max() <= outcome.guarantee.alpha < 0.1


@pytest.mark.parametrize("mechanism", PURE, ids=lambda m: m.name)
def test_pure_noise_under_a_rho_budget_spends_at_most_rho(mechanism):
    task = task_for(marginals(DOMAIN, k=1), unit=Unit.RHO)
    outcome, curator = run(mechanism, task)
    assert 0 <= curator.left < task.price / 10**6
    assert outcome.guarantee.alpha < 1


def test_models_answer_further_queries():
    task = task_for(marginals(DOMAIN, k=2), unit=Unit.RHO)
    residual, _ = run(RESIDUAL, task)
    assert isinstance(residual.model, ResidualModel)
    histogram, _ = run(HISTOGRAM_GAUSSIAN, task)
    assert isinstance(histogram.model, HistogramModel)
    table = HISTOGRAM.reshape(DOMAIN.shape)
    for model in (residual.model, histogram.model):
        value, deviation = model.answer({"a": [0, 1], "c": [1]})
        assert abs(value - table[:2, :, 1].sum()) < 6 * deviation


@pytest.mark.accuracy
def test_deviations_are_those_of_the_noise():
    task = task_for(marginals(DOMAIN, k=2), unit=Unit.RHO, post="none")
    for mechanism in (GAUSSIAN, RESIDUAL, HISTOGRAM_GAUSSIAN):
        truth = task.queries.on_histogram(HISTOGRAM.reshape(DOMAIN.shape)) / HISTOGRAM.sum()
        scores = []
        for seed in range(40):
            outcome, _ = run(mechanism, task, seed=seed)
            inner = outcome.answers.fractions > 0.02  # not clipped
            scores.append(((outcome.answers.fractions - truth) / outcome.deviations)[inner])
        # the released size adds a little to what the noise alone would give
        assert np.std(np.concatenate(scores)) == pytest.approx(1, abs=0.15), mechanism.name
    assert run(CUBE, task_for(marginals(DOMAIN, k=1)))[0].deviations is None


# --- the residual allocation ---


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("price", [Fraction(1, 1000), Fraction(1, 10), Fraction(10), Fraction(1000)])
@pytest.mark.parametrize("per", ["marginal", "cell"])
def test_allocation_costs_at_most_its_price_in_rationals(relation, price, per):
    domain = domain_of(7, 2, 10, 1, 3)
    asked = shape.margins_of(union(marginals(domain, k=2), marginals(domain, k=1), weights=[1.0, 3.0]))
    found = allocate(domain, asked, relation=relation, price=price, per=per)
    total = Fraction(0)
    for part, variance in zip(found.parts, found.variances, strict=True):
        sizes = tuple(domain[name].size for name in part)
        total += shift_squared(sizes, relation, projected_axes(sizes, variance)) / (2 * variance)
    assert total <= found.rho <= price
    assert total > price * Fraction(95, 100)  # an axis that is only just projected out can leave a little


def test_allocation_is_the_best_of_its_kind():
    """No other variances of the same cost have a smaller weighted sum: the closed form against random rivals."""
    domain = domain_of(6, 4, 3)
    queries = marginals(domain, k=2)
    asked = shape.margins_of(queries)
    found = allocate(domain, asked, relation=Relation.ADD_REMOVE, price=Fraction(1, 100), per="marginal")
    from maquette.models.residual import cell_variance

    def objective(variances: np.ndarray) -> float:
        named = {(): 0.0} | dict(zip(found.parts, variances, strict=True))
        return sum(cell_variance(domain, named, a.margin) for a in asked)

    def cost(variances: np.ndarray) -> float:
        shifts = [np.prod([1 - 1 / domain[n].size for n in part]) for part in found.parts]
        return float((np.array(shifts) / (2 * variances)).sum())

    best = np.array([float(s) for s in found.variances])
    rng = np.random.default_rng(0)
    for _ in range(200):
        rival = best * np.exp(rng.normal(0, 0.1, len(best)))
        rival *= cost(rival) / cost(best)
        assert objective(rival) >= objective(best) * (1 - 1e-9)


def test_weight_per_cell_helps_the_large_tables():
    domain = domain_of(20, 20, 2)
    asked = shape.margins_of(marginals(domain, k=2))
    from maquette.models.residual import cell_variance

    spread = {}
    for per in ("marginal", "cell"):
        found = allocate(domain, asked, relation=Relation.ADD_REMOVE, price=Fraction(1, 100), per=per)
        named = {(): 0.0} | {p: float(s) for p, s in zip(found.parts, found.variances, strict=True)}
        spread[per] = [cell_variance(domain, named, a.margin) for a in asked]
    assert spread["cell"][0] < spread["marginal"][0]
    assert max(spread["marginal"]) < max(spread["cell"])


def test_residual_noise_beats_plain_noise_on_marginals():
    domain = domain_of(10, 8, 6, 5, 4)
    task = Task(marginals(domain, k=3), Relation.ADD_REMOVE, Unit.RHO, Fraction(1, 50), 0.05)
    assert (
        RESIDUAL.prepare(task, n=10**5).forecast.guaranteed
        < GAUSSIAN.prepare(task, n=10**5).forecast.guaranteed
    )


# --- laws ---


def test_planned_laws_are_those_that_the_gate_draws():
    from maquette.core import prices

    sensitivity = marginals(DOMAIN, k=2).sensitivity(Relation.REPLACE_ONE)
    price = Fraction(1, 3)
    planned = [
        quantiles.law_of(noise, sensitivity)
        for noise in (
            NoiseRequest("laplace", price),
            NoiseRequest("gaussian", price),
            NoiseRequest("cube", price),
        )
    ]
    drawn = [
        prices.laplace(sensitivity, epsilon=price, denominator=1).law.scale,
        prices.gaussian(sensitivity, rho=price, denominator=1).law.sigma_squared,
        prices.cube(epsilon=price).law.base,
    ]
    for law, exact in zip(planned, drawn, strict=True):
        value = {Laplace: "scale", Gaussian: "sigma_squared", Cube: "base"}[type(law)]
        assert float(getattr(law, value)) == pytest.approx(float(exact), rel=1e-9)


def test_the_split_buys_the_size_only_where_it_is_private():
    queries = marginals(DOMAIN, k=1)
    public = sizing.split(task_for(queries, relation=Relation.REPLACE_ONE), lambda p: 1 / float(p), max)
    assert public == sizing.Split(Fraction(0), Fraction(1))
    private = sizing.split(task_for(queries), lambda p: 1000 / float(p), lambda e, t: e + t)
    assert private.size == Fraction(1, 20)
    assert private.size + private.answers == 1
    cheap = sizing.split(task_for(queries), lambda p: 0.001 / float(p), lambda e, t: e + t)
    assert cheap.size == Fraction(1, 2)


def test_pure_epsilon_of_a_rho_price_is_rounded_down():
    epsilon = Unit.RHO.pure_epsilon(Fraction(1, 20))
    assert epsilon**2 / 2 <= Fraction(1, 20) < (epsilon + Fraction(1, 10**12)) ** 2 / 2
