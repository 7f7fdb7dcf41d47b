"""The stated error holds in at least 1 - beta of many runs, and is not far from what happens.

Each check fails by chance with probability at most 1e-6: the number of runs beyond the stated error is compared with
a binomial law. The noise is that of a test double with the same laws as the gate's; the gate's own samplers are
tested for their laws elsewhere.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from maquette.core.budget import Unit
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.mechanisms.base import MECHANISMS, Task
from maquette.queries import marginals, prefixes
from support.fake_curator import FakeCurator

pytestmark = pytest.mark.accuracy

RUNS = 300
BETA = 0.2
FALSE_ALARM = 1e-6
PURE = ["laplace", "linf", "histogram-laplace"]
NOISY = ["gaussian", "histogram-gaussian", "residual", "residual-cells"]

DOMAIN = Domain(
    tuple(Attribute(name, Kind.ORDINAL, codes=size) for name, size in zip("abc", (4, 3, 2), strict=True))
)
HISTOGRAM = np.random.default_rng(0).multinomial(900, np.random.default_rng(1).dirichlet(np.full(24, 0.3)))
WORKLOADS = {"marginals": marginals(DOMAIN, k=2), "prefixes": prefixes(DOMAIN, "a")}


def too_many(failures: int, runs: int = RUNS, beta: float = BETA) -> bool:
    """Would this many failures be a surprise of less than one in a million if each had probability beta?"""
    return bool(binom.sf(failures - 1, runs, beta) < FALSE_ALARM)


def errors_and_statements(name: str, task: Task, runs: int = RUNS) -> tuple[np.ndarray, np.ndarray]:
    truth = task.queries.on_histogram(HISTOGRAM.reshape(DOMAIN.shape)) / HISTOGRAM.sum()
    errors, stated = [], []
    for seed in range(runs):
        curator = FakeCurator(
            HISTOGRAM, DOMAIN, relation=task.relation, unit=task.unit, price=task.price, seed=seed
        )
        prepared = MECHANISMS[name].prepare(task)
        outcome = prepared.run(curator, rng=np.random.default_rng(seed), progress=lambda _what, _share: None)
        errors.append(np.abs(outcome.answers.fractions - truth).max())
        stated.append(outcome.guarantee.alpha)
    return np.array(errors), np.array(stated)


def task_for(name: str, workload: str, relation: Relation, post: str) -> Task:
    pure = name in PURE
    unit, price = (Unit.EPSILON, Fraction(2)) if pure else (Unit.RHO, Fraction(1, 5))
    return Task(WORKLOADS[workload], relation, unit, price, BETA, post)


CASES = [
    (name, workload)
    for name in (*PURE, *NOISY)
    for workload in WORKLOADS
    if not (name.startswith("residual") and workload == "prefixes")
]


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("post", ["none", "auto"])
@pytest.mark.parametrize(("name", "workload"), CASES)
def test_the_stated_error_holds(name, workload, post, relation):
    errors, stated = errors_and_statements(name, task_for(name, workload, relation, post))
    assert not too_many(int((errors > stated).sum()))
    assert stated.max() < 1


@pytest.mark.parametrize("name", ["laplace", "linf", "gaussian"])
def test_exact_quantiles_are_not_loose(name):
    """Public size, no post-processing: failures come about as often as stated, up to clipping at 0 and the grid."""
    task = task_for(name, "marginals", Relation.REPLACE_ONE, "none")
    errors, stated = errors_and_statements(name, task, runs=600)
    failures = int((errors > stated).sum())
    assert not too_many(failures, runs=600)
    assert failures > 0.25 * BETA * 600


@pytest.mark.parametrize("name", ["histogram-laplace", "histogram-gaussian", "residual"])
def test_chernoff_bounds_are_not_absurd(name):
    task = task_for(name, "marginals", Relation.REPLACE_ONE, "none")
    errors, stated = errors_and_statements(name, task, runs=200)
    assert np.median(stated) < 2.5 * np.quantile(errors, 1 - BETA)


def test_the_check_sees_a_statement_that_is_too_small():
    task = task_for("laplace", "marginals", Relation.REPLACE_ONE, "none")
    errors, stated = errors_and_statements("laplace", task)
    assert not too_many(int((errors > stated).sum()))
    assert too_many(int((errors > 0.7 * stated).sum()))


def test_the_check_sees_a_forgotten_size():
    """With a public-size bound in place of a private one the statement breaks: the drift is really needed."""
    task = replace(task_for("linf", "prefixes", Relation.ADD_REMOVE, "none"), price=Fraction(1, 4))
    errors, _ = errors_and_statements("linf", task)
    public = (
        MECHANISMS["linf"]
        .prepare(replace(task, relation=Relation.REPLACE_ONE), n=int(HISTOGRAM.sum()))
        .forecast
    )
    assert too_many(int((errors > public.guaranteed).sum()))
