"""The square root of the matrix of prefixes: what it is, what it gains on the tree, and that its statement holds."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
import scipy

import maquette as mq
from maquette.core.budget import Unit
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.mechanisms.base import Forecast, Task
from maquette.mechanisms.square_root import MAX_CELLS, SQUARE_ROOT, reconstruction, strategy
from maquette.mechanisms.tree import TREE
from maquette.models.fits import tree_widths
from maquette.queries import marginals, prefixes, ranges
from maquette.releasing.ranking import Comparison, preferred


def _domain(cells: int, **options: bool) -> Domain:
    return Domain((Attribute("age", Kind.ORDINAL, codes=cells, **options),))


AGE = _domain(40)


def _task(queries, relation=Relation.ADD_REMOVE, price=Fraction(1, 100)) -> Task:
    return Task(queries, relation, Unit.RHO, price, 0.05)


@pytest.mark.parametrize("cells", [1, 2, 7, 40, 300])
def test_it_is_the_square_root_on_the_grid(cells):
    root = strategy(_domain(cells), ("age",))
    matrix = root.numerators / root.grid
    triangle = np.tril(np.ones((cells, cells)))
    assert np.abs(matrix @ matrix - triangle).max() < 1e-4
    # prefixes are exact all the same: the reconstruction is that of the rounded weights
    assert np.abs(reconstruction(root) @ matrix - triangle).max() < 1e-9
    norms = (root.numerators.astype(object) ** 2).sum(axis=0)
    assert root.sensitivity(Relation.ADD_REMOVE).l2_squared == Fraction(int(max(norms)), root.grid**2)


@pytest.mark.parametrize(("cells", "part"), [(16, 0.55), (100, 0.65), (256, 0.5)])
def test_the_worst_prefix_is_less_noisy_than_in_the_tree(cells, part):
    domain = _domain(cells)
    root = strategy(domain, ("age",))
    ours = np.linalg.norm(reconstruction(root), axis=1).max() ** 2 * float(
        root.sensitivity(Relation.ADD_REMOVE).l2_squared
    )
    widths = tree_widths(cells, 16)
    nodes = np.array(
        [[s <= leaf < s + w for leaf in range(cells)] for w in widths for s in range(0, cells, w)], float
    )
    sums = np.tril(np.ones((cells, cells)))
    tree = len(widths) * np.diag(sums @ np.linalg.inv(nodes.T @ nodes) @ sums.T).max()
    assert np.sqrt(ours / tree) < part


@pytest.mark.parametrize("make", [prefixes, ranges])
def test_the_planner_states_less_than_for_the_tree(make):
    task = _task(make(_domain(100), "age"))
    ours, tree = (m.prepare(task, n=5_000).forecast for m in (SQUARE_ROOT, TREE))
    assert ours.guaranteed < 0.7 * tree.guaranteed
    assert ours.expected < 0.85 * tree.expected
    assert ours.expected < ours.guaranteed


@pytest.mark.slow
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("make", [prefixes, ranges])
def test_the_statement_holds(make, relation):
    rng = np.random.default_rng(3)
    domain = _domain(24, nullable=True)
    codes = np.minimum(rng.geometric(0.15, 900) - 1, 23)
    column = pa.array(codes, mask=rng.random(900) < 0.1)
    table = mq.open(pa.table({"age": column}), domain=domain)
    queries = make(domain, "age")
    cells = np.append(np.bincount(codes[~column.is_null().to_numpy(zero_copy_only=False)], minlength=24), 0)
    cells[24] = 900 - cells.sum()
    truth = queries.on_histogram(cells) / 900
    runs, misses, errors = 30, 0, []
    for run in range(runs):
        made = mq.release(
            table.for_another_ledger(), queries, epsilon=1.0, delta=1e-6, relation=relation, mechanism="square-root",
            certificate=0.0, key=f"{run}", total_epsilon=60.0, total_delta=1e-4,
            ledger=_ledger(domain, relation),
        )  # fmt: skip
        errors.append(float(np.abs(made.answers.fractions - truth).max()))
        misses += errors[-1] > made.guarantee.alpha
        assert made.guarantee.alpha < 1
        assert made.rows.num_rows
    assert scipy.stats.binom.sf(misses - 1, runs, 0.05) > 1e-4
    assert max(errors) > 0.02 * made.guarantee.alpha


def _ledger(domain, relation):
    return mq.Ledger.memory(
        budget=mq.Budget(60.0, 1e-4), relation=relation, domain_fingerprint=domain.fingerprint, name="t"
    )


def test_what_it_does_not_do_is_refused_in_words():
    for queries, word in (
        (marginals(AGE, k=1), "one ordered attribute"),
        (prefixes(_domain(MAX_CELLS + 1), "age"), "more than 1,024"),
    ):
        assert word in SQUARE_ROOT.prepare(_task(queries)).refusal
    pure = replace(_task(prefixes(AGE, "age")), unit=Unit.EPSILON)
    assert "delta" in SQUARE_ROOT.prepare(pure).refusal
    assert "least squares" in SQUARE_ROOT.prepare(replace(_task(prefixes(AGE, "age")), post="lp")).refusal


@pytest.mark.slow
def test_plans_leave_it_out_where_it_cannot_run():
    pairs, ages = marginals(AGE, k=1), prefixes(AGE, "age")

    def names(queries, **options):
        plan = mq.plan(queries, n=1_000, epsilon=1.0, **options)
        return {f.mechanism: f.refusal for f in plan.forecasts}

    assert "square-root" not in names(pairs, delta=1e-9)
    assert "square-root" not in names(ages)
    assert names(ages, delta=1e-9)["square-root"] is None
    assert "one ordered attribute" in names(pairs, delta=1e-9, mechanisms=["square-root"])["square-root"]
    needs = {r.mechanism for r in mq.required(pairs, alpha=0.1, epsilon=1.0, delta=1e-9)}
    assert "square-root" not in needs


def test_auto_takes_it_where_it_is_best():
    """Where the delta is used; a tree of pure noise is as good there."""
    plan = mq.plan(prefixes(_domain(100), "age"), n=50_000, epsilon=1.0, delta=1e-9, accounting="gaussian")
    assert preferred(plan, prefixes(_domain(100), "age")) == "square-root"


def test_auto_prefers_a_guarantee_where_it_is_as_good():
    def plan(*forecasts: Forecast) -> Comparison:
        return Comparison("w", 1, 100, 1.0, 1e-9, Relation.ADD_REMOVE, 0.05, None, forecasts)

    def one(name: str, guaranteed: float | None, expected: float) -> Forecast:
        return Forecast(name, guaranteed, expected, 1.0, 1.0, True)

    queries = prefixes(AGE, "age")
    near, far = one("tree", 0.2, 0.104), one("tree", 0.2, 0.106)
    assert preferred(plan(one("mw", None, 0.1), near), queries) == "tree"
    assert preferred(plan(one("mw", None, 0.1), far), queries) == "mw"
    assert preferred(plan(one("mw", 0.5, 0.1), near), queries) == "mw"
