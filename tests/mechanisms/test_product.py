"""Strategies that are products over the attributes: that they reconstruct, what noise an answer has, what is stated."""

from fractions import Fraction

import numpy as np
import pytest

import maquette as mq
from maquette.core.budget import Unit
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.mechanisms.base import Task
from maquette.mechanisms.direct import GAUSSIAN, HISTOGRAM_GAUSSIAN
from maquette.mechanisms.product import PRODUCT, factored, is_product, strategy_draws
from maquette.models.fits import cell_weights
from maquette.queries import boxes, marginals, points, prefixes, ranges, union, weights
from maquette.theory import direct as theory

DOMAIN = Domain(
    (
        Attribute("age", Kind.ORDINAL, codes=12, nullable=True),
        Attribute("sex", Kind.CATEGORICAL, codes=2),
        Attribute("region", Kind.CATEGORICAL, codes=3),
    )
)
BY_CATEGORY = boxes(
    DOMAIN,
    [
        {"age": (a, b), "sex": (s, s), "region": (r, r)}
        for a in range(12)
        for b in range(a, 12)
        for s in range(2)
        for r in range(3)
    ],
)
MIXED = union(
    prefixes(DOMAIN, "age"), marginals(DOMAIN, k=2), boxes(DOMAIN, [{"age": (2, 5)}, {"sex": (1, 1)}])
)
PLANE = ranges(
    Domain((Attribute("x", Kind.ORDINAL, codes=6), Attribute("y", Kind.ORDINAL, codes=5))), "x", "y"
)
WORKLOADS = [BY_CATEGORY, MIXED, PLANE]


def task(queries, **more):
    return Task(queries, Relation.REPLACE_ONE, Unit.RHO, Fraction(1, 20), 0.05, post="none", **more)


@pytest.mark.parametrize("queries", WORKLOADS, ids=["by category", "mixed", "plane"])
def test_every_cell_follows_from_the_strategy_exactly(queries):
    factors = factored(queries)
    shape = [queries.domain[name].size for name in queries.attributes]
    table = np.random.default_rng(1).integers(0, 10**6, shape)
    measured = factors.strategy.numerators.astype(np.int64) @ table.ravel() / factors.strategy.grid
    assert factors.cells(measured) == pytest.approx(table, abs=1e-3)


@pytest.mark.parametrize("queries", WORKLOADS, ids=["by category", "mixed", "plane"])
def test_the_noise_of_a_query_is_the_product_of_its_norms(queries):
    """Against the rows of W A^+ on all cells at once."""
    factors = factored(queries)
    strategy = factors.strategy.numerators / factors.strategy.grid
    rows = np.asarray(cell_weights(queries)) @ np.linalg.pinv(strategy)
    assert factors.norms == pytest.approx(np.linalg.norm(rows, axis=1))


def test_cells_alone_are_measured_as_they_are():
    factors = factored(points(DOMAIN, ["sex", "region"]))
    assert factors.norms == pytest.approx(np.ones(6))
    assert (factors.strategy.numerators == 2**20 * np.eye(6)).all()


def test_it_states_less_than_noise_on_cells_or_answers():
    stated = {
        m.name: m.prepare(task(BY_CATEGORY), n=10_000).forecast.guaranteed
        for m in (PRODUCT, GAUSSIAN, HISTOGRAM_GAUSSIAN)
    }
    assert stated["product"] < 0.8 * min(stated["gaussian"], stated["histogram-gaussian"])


def test_the_stated_level_holds_for_all_queries_together():
    factors = factored(BY_CATEGORY)
    rng = np.random.default_rng(2)
    level = theory.linear_gaussian(sigma=3.0, norms=factors.norms, beta=0.2)
    drawn = np.array(
        [
            np.abs(
                BY_CATEGORY.on_histogram(factors.cells(3.0 * rng.normal(size=factors.strategy.count)))
            ).max()
            for _ in range(40)
        ]
    )
    assert (drawn > level).sum() <= 14
    assert np.median(drawn) > 0.5 * level


def test_the_union_over_different_norms_is_solved_and_never_above_that_over_the_largest():
    norms = np.array([0.0, 0.1, 1.0, 2.0, 2.0])
    level = theory.linear_gaussian(sigma=2.0, norms=norms, beta=0.05)
    chance = sum(2 * np.exp(-(level**2) / (2 * (2 * a) ** 2)) for a in norms[1:])
    assert chance == pytest.approx(0.05, rel=1e-4)
    assert level < theory.tree_gaussian(sigma=4.0, nodes=1, log_queries=np.log(4), beta=0.05)
    assert theory.linear_gaussian(sigma=1.0, norms=np.zeros(3), beta=0.05) == 0


@pytest.mark.parametrize(
    ("queries", "why"),
    [
        (weights(DOMAIN, np.eye(13), attributes=["age"]), "products of runs"),
        (prefixes(Domain((Attribute("x", Kind.ORDINAL, codes=3000),)), "x"), "3,000 cells"),
        (prefixes(Domain((Attribute("x", Kind.ORDINAL, codes=300),)), "x"), "more than 256"),
    ],
    ids=["weights", "cells", "axis"],
)
def test_what_it_cannot_do_is_refused_with_the_reason(queries, why):
    assert why in PRODUCT.prepare(task(queries)).refusal


def test_products_are_told_from_other_queries():
    assert is_product(MIXED)
    assert not is_product(union(MIXED, weights(DOMAIN, np.eye(2), attributes=["sex"])))


def test_a_release_by_name():
    rng = np.random.default_rng(3)
    columns = {
        "age": rng.integers(0, 12, 4000),
        "sex": rng.integers(0, 2, 4000),
        "region": rng.integers(0, 3, 4000),
    }
    release = mq.release(
        mq.open({name: codes.tolist() for name, codes in columns.items()}, domain=DOMAIN),
        MIXED,
        epsilon=1.0,
        delta=1e-6,
        mechanism="product",
        relation="replace-one",
        post="none",
        ledger="memory",
    )
    exact = np.asarray(MIXED.on_rows(columns)) / 4000
    assert np.abs(release.answers.fractions - exact).max() <= release.guarantee.alpha < 0.05


def test_many_small_attributes_are_refused_before_their_strategy_is_made():
    """Eleven of two cells each: 2,048 cells, but 3^11 products of sums, some gigabytes."""
    wide = Domain(tuple(Attribute(f"b{i}", Kind.CATEGORICAL, codes=2) for i in range(11)))
    refusal = PRODUCT.prepare(task(marginals(wide, k=[1, 2])), n=10_000).forecast.refusal
    assert refusal is not None
    assert "177,147 products of sums of 2,048 cells" in refusal


@pytest.mark.parametrize("queries", WORKLOADS, ids=["by category", "mixed", "plane"])
def test_the_size_of_a_strategy_is_known_beforehand(queries):
    assert strategy_draws(queries) == factored(queries).strategy.count
