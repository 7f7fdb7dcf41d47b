"""Ranges that are too many to list: the tree's rows answer them, and what is stated holds for every one of them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow
import pytest

import maquette as mq
from maquette.core.budget import Unit
from maquette.domain import Attribute, Domain, Kind, Never, Relation
from maquette.errors import MechanismError
from maquette.mechanisms.base import Task
from maquette.mechanisms.smalldb import SMALLDB
from maquette.mechanisms.tree import MAX_ROWS, TREE
from maquette.queries import ranges
from maquette.queries.rows import MAX_ANSWERS

CELLS, N = 30_000, 4_000


def domain(**options) -> Domain:
    return Domain((Attribute("x", Kind.ORDINAL, codes=CELLS, **options),))


def codes(seed: int, *, missing: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.where(rng.random(N) < missing, CELLS, rng.beta(2, 5, N) * CELLS).astype(np.int64)


def released(seed: int, relation: str, *, nullable: bool = False, **options) -> tuple[mq.Release, np.ndarray]:
    declared = domain(nullable=nullable)
    column = codes(seed, missing=0.1 if nullable else 0.0)
    values = pyarrow.array(column, mask=column == CELLS)
    table = mq.open(pyarrow.table({"x": values}), domain=declared)
    options = {"epsilon": 1.0, "mechanism": "tree"} | options
    ledger = mq.Ledger.memory(
        budget=mq.Budget(options["epsilon"], options.get("delta", 0.0)),
        relation=Relation(relation),
        domain_fingerprint=declared.fingerprint,
        name="x",
    )
    return mq.release(table, ranges(declared, "x"), relation=relation, ledger=ledger, **options), column


def largest(release: mq.Release, column: np.ndarray) -> float:
    """Over all intervals of declared cells, exactly: the spread of the differences of all prefixes."""
    rows = release.database.columns["x"].astype(np.int64)
    shares = [np.bincount(some, minlength=CELLS + 1)[:CELLS].cumsum() / len(some) for some in (column, rows)]
    gaps = np.append(shares[0] - shares[1], 0.0)
    return float(gaps.max() - gaps.min())


CASES = [
    ("replace-one", {}),
    ("replace-one", {"nullable": True}),
    ("add-remove", {}),
    ("add-remove", {"nullable": True, "delta": 1e-9}),
]


@pytest.mark.parametrize(("relation", "options"), CASES)
def test_what_is_stated_holds_for_all_ranges(relation, options):
    release, column = released(3, relation, **options)
    assert release.workload.count > MAX_ANSWERS
    assert not release.listed
    assert len(release.database.columns["x"]) == min(release.size.divisor, MAX_ROWS)
    worst = largest(release, column)
    assert worst <= release.guarantee.alpha  # at beta 0.05 from a bound that is far from tight
    assert worst <= 1.5 * release.certificate.alpha
    low, high = 3_000, 20_000
    truth = ((column >= low) & (column <= high)).mean()
    answer = release.answer(f"x between {low} and {high}")
    assert answer.error is not None
    assert abs(answer.value - truth) <= worst + 1e-12


def test_a_certificate_is_measured_on_all_ranges():
    """Of 40 certificates at beta 0.3 no more lie below the largest error than would in 1 of 10,000 cases."""
    below = 0
    for seed in range(40):
        release, column = released(seed, "replace-one", beta=0.3, epsilon=2.0)
        below += release.certificate.alpha < largest(release, column)
    assert below <= 23


def test_it_is_saved_and_read_again(tmp_path):
    release, _ = released(1, "replace-one")
    release.save(tmp_path / "r")
    again = mq.load(tmp_path / "r")
    assert again.answer("x <= 9000").value == release.answer("x <= 9000").value
    assert again.headline == release.headline


def task(queries, **options) -> Task:
    return Task(queries, Relation.REPLACE_ONE, Unit.EPSILON, Fraction(1), 0.05, **options)


def test_rows_that_are_asked_for_are_taken_and_their_rounding_is_stated():
    queries = ranges(domain(), "x")
    exact, rounded = (TREE.prepare(task(queries, rows=m), n=N).forecast for m in (4_000, 50))
    assert rounded.guaranteed - exact.guaranteed == pytest.approx(1 / 50 - 1 / 4_000, abs=1e-6)
    assert rounded.expected > exact.expected
    release, _ = released(2, "replace-one", rows=50)
    assert len(release.database.columns["x"]) == 50
    with pytest.raises(MechanismError, match="fewer rows"):
        released(2, "replace-one", rows=MAX_ROWS + 1)


def test_the_planner_takes_the_better_of_tree_and_smalldb():
    queries = ranges(Domain((Attribute("x", Kind.ORDINAL, codes=2**20),)), "x")
    plans = [mq.plan(queries, n=n, epsilon=1.0, relation="replace-one") for n in (300, 50_000)]
    assert [plan.best("expected").mechanism for plan in plans] == ["smalldb", "tree"]
    beyond = ranges(Domain((Attribute("x", Kind.ORDINAL, codes=2**32),)), "x")
    assert "more than" in TREE.prepare(task(beyond), n=N).forecast.refusal
    assert SMALLDB.prepare(task(beyond), n=N).forecast.refusal is None


def test_constraints_of_the_domain_are_refused():
    first = Attribute("x", Kind.ORDINAL, codes=CELLS)
    constrained = Domain(
        (first, Attribute("y", Kind.BOOLEAN, codes=2)), constraints=(Never({"x": [0], "y": [1]}),)
    )
    assert "constraints" in TREE.prepare(task(ranges(constrained, "x")), n=N).forecast.refusal
