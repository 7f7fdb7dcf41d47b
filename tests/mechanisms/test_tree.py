"""The consistent tree: least squares against a dense solver, the coefficients behind its bound, the mechanism."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy

import maquette as mq
from maquette.core.budget import UNITS, Unit
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.mechanisms.base import Task
from maquette.mechanisms.tree import TREE, variance_parameter
from maquette.models.fits import fit_tree, rising, tree_widths
from maquette.queries import marginals, prefixes, ranges
from maquette.theory import direct as theory

DOMAIN = Domain(
    (Attribute("age", Kind.ORDINAL, codes=40, nullable=True), Attribute("sex", Kind.BOOLEAN, codes=2))
)
AGE = Domain((Attribute("age", Kind.ORDINAL, codes=40),))


def design(size: int, branches: int) -> np.ndarray:
    """Which leaves every measured node counts, level by level from the leaves up."""
    rows = []
    for width in tree_widths(size, branches):
        for start in range(0, size, width):
            rows.append([start <= leaf < start + width for leaf in range(size)])
    return np.array(rows, dtype=float)


def split_levels(values: np.ndarray, size: int, branches: int) -> list[np.ndarray]:
    counts = [-(-size // width) for width in tree_widths(size, branches)]
    return np.split(values, np.cumsum(counts)[:-1])


def fitted(values: np.ndarray, size: int, branches: int, total: float, variance: float) -> np.ndarray:
    levels = split_levels(values, size, branches)
    return fit_tree(levels, [2.0] * len(levels), branches=branches, total=total, total_variance=variance)


@pytest.mark.parametrize(
    ("size", "branches"), [(1, 16), (7, 3), (16, 16), (17, 16), (30, 3), (64, 4), (61, 2)]
)
@pytest.mark.parametrize("variance", [0.5, 40.0])
def test_the_fit_is_weighted_least_squares(size, branches, variance):
    rng = np.random.default_rng(size)
    nodes = design(size, branches)
    values = nodes @ rng.integers(0, 9, size) + rng.normal(0, 3, len(nodes))
    total = float(values[:size].sum() + 5)
    weights = np.append(np.full(len(nodes), 2.0), variance) ** -0.5
    dense = np.vstack([nodes, np.ones(size)]) * weights[:, None]
    expected = np.linalg.lstsq(dense, np.append(values, total) * weights, rcond=None)[0]
    assert fitted(values, size, branches, total, variance) == pytest.approx(expected, abs=1e-8)


def test_a_public_total_is_kept():
    values = np.random.default_rng(1).normal(3, 4, len(design(30, 3)))
    assert fitted(values, 30, 3, 100.0, 0.0).sum() == pytest.approx(100.0)


@pytest.mark.parametrize(("size", "branches"), [(16, 16), (40, 16), (256, 16), (300, 16), (27, 3), (50, 4)])
@pytest.mark.parametrize("known", [True, False])
def test_the_coefficients_of_every_prefix_stay_below_the_bound(size, branches, known):
    """The fit is linear: sum of squares at most D, none above 1, for every prefix."""
    nodes = len(design(size, branches))
    variance = 0.0 if known else 800.0
    columns = np.array([fitted(unit, size, branches, 0.0, variance) for unit in np.eye(nodes)])
    coefficients = np.cumsum(columns, axis=1)
    bound = theory.tree_nodes(
        levels=len(tree_widths(size, branches)), branches=branches, total_is_public=known
    )
    assert (coefficients**2).sum(axis=0).max() <= bound + 1e-9
    assert np.abs(coefficients).max() <= 1 + 1e-9
    from_total = np.cumsum(fitted(np.zeros(nodes), size, branches, 1.0, variance))
    assert np.abs(from_total).max() <= 1 + 1e-9


def test_rising_values_are_no_farther_from_a_rising_truth():
    rng = np.random.default_rng(0)
    for _ in range(200):
        truth = np.cumsum(rng.integers(0, 3, 30)).astype(float)
        noisy = truth + rng.laplace(0, 4, 30)
        made = rising(noisy)
        assert (np.diff(made) >= 0).all()
        assert np.abs(made - truth).max() <= np.abs(noisy - truth).max() + 1e-9


def test_the_tails_cover_simulated_noise_and_are_not_wild():
    """A sum of D draws of each kind, 20,000 times: the bound for one query at beta = 0.01."""
    rng = np.random.default_rng(2)
    drawn = (
        rng.geometric(1 - math.exp(-1 / 5), (20_000, 24)) - rng.geometric(1 - math.exp(-1 / 5), (20_000, 24))
    ).sum(axis=1)
    level = theory.tree_laplace(scale=5.0, nodes=24, log_queries=0.0, beta=0.01)
    assert scipy.stats.binom.sf((np.abs(drawn) > level).sum() - 1, len(drawn), 0.01) > 1e-6
    assert level < 2 * np.quantile(np.abs(drawn), 0.99)
    assert theory.tree_gaussian(sigma=2.0, nodes=9, log_queries=0.0, beta=0.02) == pytest.approx(
        6 * math.sqrt(2 * math.log(100))
    )


@pytest.mark.parametrize("unit", [Unit.EPSILON, Unit.RHO])
@pytest.mark.parametrize("relation", list(Relation))
def test_all_levels_together_cost_the_price_and_no_more(unit, relation):
    task = Task(prefixes(AGE, "age"), relation, unit, Fraction(1, 3), 0.05)
    variance = variance_parameter(task, Fraction(1, 3))
    moved = 2 * (1 if relation is Relation.ADD_REMOVE else 2)
    cost = moved / math.sqrt(variance / 2) if unit == "epsilon" else moved / (2 * variance)
    assert float(cost) == pytest.approx(1 / 3)


@pytest.mark.parametrize("epsilon", [0.3, 0.7, 1.0, 2.5])
@pytest.mark.parametrize("relation", list(Relation))
def test_no_rounding_of_the_cost_passes_the_price(epsilon, relation):
    domain = Domain((Attribute("x", Kind.ORDINAL, codes=5000),))
    table = mq.open({"x": [1, 2, 3]}, domain=domain)
    for share in (0.0, 0.05):
        made = mq.release(
            table,
            prefixes(domain, "x"),
            epsilon=epsilon,
            relation=relation,
            mechanism="tree",
            certificate=share,
            total_epsilon=10,
            ledger="memory",
        )
        assert made.mechanism == "tree"


def opened(domain: Domain, n: int) -> tuple[mq.Table, dict[str, np.ndarray]]:
    rng = np.random.default_rng(7)
    columns = {a.name: np.minimum(rng.poisson(a.cells / 3, n), a.cells - 1) for a in domain}
    return mq.open({k: v.tolist() for k, v in columns.items()}, domain=domain), columns


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("make", [prefixes, ranges])
def test_releases_stay_within_what_they_state(make, relation, delta):
    table, columns = opened(DOMAIN, 3000)
    queries = make(DOMAIN, "age")
    made = mq.release(
        table,
        queries,
        epsilon=1.0,
        delta=delta,
        relation=relation,
        mechanism="tree",
        beta=1e-8,
        certificate=0.05,
        ledger="memory",
    )
    exact = np.asarray(queries.on_rows(columns)) / 3000
    gap = np.abs(made.answers.fractions - exact).max()
    assert gap <= made.guarantee.alpha
    assert gap <= made.certificate.alpha
    assert made.exactness == ("approximate with a proven bound" if delta else "exact")
    assert set(made.database.columns) == {"age"}
    spent = sum(s.amount for s in made.spending)
    assert spent <= made.budget.total_units / UNITS + 1e-12
    assert spent >= 0.99 * made.budget.total_units / UNITS


def test_a_domain_of_one_attribute_gets_rows():
    table, _ = opened(AGE, 400)
    made = mq.release(table, prefixes(AGE, "age"), epsilon=2.0, mechanism="tree", rows=100, ledger="memory")
    assert made.database.m == 100
    assert made.parameters["levels"] == 2
    assert (np.diff(made.answers.fractions) >= 0).all()


@pytest.mark.slow
def test_the_stated_error_holds_in_many_runs():
    """60 runs at beta = 0.2: violations are rarer than a binomial tail of 1e-6 allows."""
    table, columns = opened(AGE, 200)
    queries = prefixes(AGE, "age")
    exact = np.asarray(queries.on_rows(columns)) / 200
    worse = 0
    for i in range(60):
        made = mq.release(
            table,
            queries,
            epsilon=1.0,
            relation="replace-one",
            mechanism="tree",
            certificate=0.0,
            beta=0.2,
            key=f"k{i}",
            total_epsilon=100,
            ledger="memory",
        )
        worse += np.abs(made.answers.fractions - exact).max() > made.guarantee.alpha
    assert worse <= scipy.stats.binom.isf(1e-6, 60, 0.2)


def task(queries, **options) -> Task:
    return Task(queries, Relation.REPLACE_ONE, Unit.EPSILON, Fraction(1), 0.05, **options)


@pytest.mark.parametrize(
    ("queries", "options", "said"),
    [
        (marginals(DOMAIN, k=1), {}, "one ordered attribute"),
        (prefixes(DOMAIN, "age") + ranges(DOMAIN, "age"), {}, "one ordered attribute"),
        (prefixes(AGE, "age"), {"post": "lp"}, "least squares"),
        (prefixes(Domain((Attribute("x", Kind.ORDINAL, codes=2**23),)), "x"), {}, "more than 4,194,304"),
    ],
)
def test_what_has_no_tree_is_refused(queries, options, said):
    assert said in TREE.prepare(task(queries, **options), n=1000).forecast.refusal


def test_forecasts_fall_with_records_and_the_planner_knows_the_crossover():
    wide = prefixes(Domain((Attribute("x", Kind.ORDINAL, codes=2**20),)), "x")
    found = [TREE.prepare(task(wide), n=n).forecast for n in (1000, 10_000, 100_000)]
    assert [f.expected for f in found] == sorted((f.expected for f in found), reverse=True)
    assert all(f.expected < f.guaranteed or f.guaranteed == 1 for f in found)
    able = ["laplace", "smalldb", "tree"]
    plans = [mq.plan(wide, n=n, epsilon=1.0, mechanisms=able) for n in (100, 10_000)]
    assert [p.best("expected").mechanism for p in plans] == ["smalldb", "tree"]
