"""Really small databases: how many rows `rows="small"` takes, and that they still do."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import maquette as mq
from maquette.core.budget import Unit
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import MechanismError, ParameterError
from maquette.mechanisms.base import Task
from maquette.sculpt import allocation
from maquette.sculpt.allocation import attribute_sets
from support.cli_files import call, desk

DOMAIN = Domain(tuple(Attribute(name, Kind.ORDINAL, codes=12) for name in "abcdef"))
N = 20_000
QUERIES = mq.marginals(DOMAIN, k=2)


def opened() -> mq.Table:
    rng = np.random.default_rng(2)
    first = rng.integers(0, 12, N)
    columns = {"a": first} | {
        name: np.where(rng.random(N) < 0.5, first, rng.binomial(11, 0.3, N)) for name in "bcdef"
    }
    return mq.open(pd.DataFrame(columns), domain=DOMAIN)


def task(price: float) -> Task:
    return Task(QUERIES, Relation.ADD_REMOVE, Unit.RHO, Fraction(price), 0.05, small=True)


def test_the_number_of_rows_is_the_theorem_at_a_multiple_of_the_expected_error():
    wanted = attribute_sets(QUERIES)
    asked = task(0.01)
    alpha = allocation._NEARER * allocation.typical_error(asked, wanted, n=N).largest
    rows = allocation.small_rows(asked, wanted, n=N)
    k = QUERIES.distinct()
    assert rows == math.ceil(math.log(2 * k) / (2 * alpha**2)) < N
    assert allocation.small_rows(task(0.001), wanted, n=N) < rows
    assert allocation.small_rows(task(10.0), wanted, n=N) == N


@pytest.mark.slow
def test_a_small_release_keeps_the_largest_error():
    private = opened()
    small, whole = (
        mq.release(
            private.for_another_ledger(), QUERIES, epsilon=0.3, delta=1e-6, rows=rows, ledger=ledger(private)
        )
        for rows in ("small", None)
    )
    assert small.database.m < 0.5 * whole.database.m
    true = private._engine.answer(QUERIES.to_forms()) / N
    largest = [np.abs(made.database.answer(QUERIES).fractions - true).max() for made in (small, whole)]
    assert largest[0] < 2.5 * largest[1]
    assert largest[0] < math.sqrt(math.log(2 * QUERIES.distinct()) / (2 * small.database.m))


def ledger(private: mq.Table) -> mq.Ledger:
    return mq.Ledger.memory(
        budget=mq.Budget(0.3, 1e-6),
        relation=Relation.ADD_REMOVE,
        domain_fingerprint=private.domain.fingerprint,
        name="small",
    )


def test_other_mechanisms_and_other_words_are_refused_before_anything_is_paid():
    private = opened()
    with pytest.raises(MechanismError, match="rows='small' is for the mechanisms sculpt"):
        mq.release(
            private, QUERIES, epsilon=1.0, delta=1e-6, rows="small", mechanism="residual", ledger="memory"
        )
    with pytest.raises(ParameterError, match="rows"):
        mq.release(private, QUERIES, epsilon=1.0, delta=1e-6, rows="tiny", ledger="memory")


@pytest.mark.slow
def test_the_command_line_takes_the_word(tmp_path):
    own = desk(tmp_path)
    ended = own.release("--rows", "small", "--delta", "1e-6", "--mechanism", "sculpt")
    assert ended.code == 0, ended
    refused = own.release("--rows", "tiny")
    assert refused.code == 2
    assert "or small" in refused.err
    assert "small" in call("release", "--help").out
