"""SmallDB among candidates of an earlier release: proposals are public, the draw is near the best of them."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import maquette as mq
from maquette.domain import Domain, Relation
from maquette.errors import ParameterError
from maquette.models.answers import SmallDatabase
from maquette.queries import conjunctions, marginals
from maquette.tools.choose import answers_of
from support.privacy_doubles import ledger_for

BITS = 9
DOMAIN = Domain.from_dict(
    {"attributes": [{"name": f"b{i}", "kind": "ordinal", "size": 2, "nullable": False} for i in range(BITS)]}
)


@pytest.fixture(scope="module")
def released():
    rng = np.random.default_rng(4)
    first = rng.random((4000, 1))
    rows = (rng.random((4000, BITS)) < 0.2 + 0.6 * first).astype(int)
    table = mq.open(pl.DataFrame({f"b{i}": rows[:, i] for i in range(BITS)}), domain=DOMAIN)
    ledger = ledger_for(DOMAIN, budget=mq.Budget(4.0), relation=Relation.ADD_REMOVE)
    made = mq.release(
        table, marginals(DOMAIN, k=2), epsilon=2.0, mechanism="sculpt", ledger=ledger, certificate=0.0
    )
    return table, rows, ledger, made


def largest(database, rows, workload) -> float:
    exact = SmallDatabase({f"b{i}": rows[:, i] for i in range(BITS)}).answer(workload)
    return float(np.abs(answers_of(database, workload).fractions - exact.fractions).max())


@pytest.mark.slow
def test_one_draw_decides_among_small_databases_for_conjunctions_beyond_six_bits(released):
    table, rows, ledger, made = released
    workload = conjunctions(DOMAIN, 3)
    proposals = mq.small_databases(made, [50, 200, 1000], each=2, workload=workload)
    assert [one.m for one in proposals] == [50, 50, 200, 200, 1000, 1000]
    spent = ledger.balance().charged_units
    chosen = mq.choose(
        table, proposals, score="database", workload=workload, epsilon=1.0, beta=0.001, ledger=ledger
    )
    assert ledger.balance().charged_units - spent == pytest.approx(1e12, rel=1e-6)
    errors = [largest(one, rows, workload) for one in proposals]
    assert errors[chosen.index] <= min(errors) + (chosen.regret + 1) / len(rows)
    assert max(errors) > min(errors) + chosen.regret / len(rows)  # so that the draw had something to decide
    assert [one.m for one in mq.small_databases(made, [50], each=1)] == [50]
    assert mq.small_databases(made, [50, made.database.m], each=1)[-1] is made.database


def test_a_release_without_rows_proposes_nothing(released):
    table, _, ledger, _ = released
    plain = mq.release(
        table, marginals(DOMAIN, k=1), epsilon=0.5, mechanism="laplace", ledger=ledger, post="none"
    )
    with pytest.raises(ParameterError, match="no rows to propose"):
        mq.small_databases(plain, [10])
