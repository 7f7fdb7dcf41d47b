"""Sessions of the median mechanism: small databases that can be listed, and a class that all questions come from."""

from __future__ import annotations

import numpy as np
import pytest

import maquette as mq
from maquette.errors import ParameterError
from maquette.mechanisms.strategies import LISTED_ERROR, median_plan
from maquette.models.version_space import VersionSpace, listable_rows, version_space_for
from maquette.theory import existence, online
from support.privacy_doubles import ledger_for

CELLS, N, QUESTIONS = 4, 80_000, 150


def domain_of(cells: int) -> mq.Domain:
    return mq.Domain.from_dict(
        {"attributes": [{"name": "v", "kind": "ordinal", "size": cells, "nullable": False}]}
    )


def ledger(domain: mq.Domain, epsilon: float = 1.0) -> mq.Ledger:
    return ledger_for(domain, budget=mq.Budget(epsilon), relation=mq.Relation.ADD_REMOVE)


def plan(cells: int, n: int, **more: object) -> online.Median:
    return median_plan(
        unit="epsilon", price=0.95, n=n, universe=cells, k=QUESTIONS, beta=0.045, grid=1.0, **more
    )


def test_as_many_rows_are_taken_as_can_be_listed_where_the_error_stays_good():
    for cells in (2, 3, 4, 5, 6):
        for n in (2000, 80_000, 1_000_000):
            found = plan(cells, n)
            free = online.median(
                unit="epsilon", price=0.95, n=n, universe=cells, k=QUESTIONS, beta=0.045, grid=1.0
            )
            if free.rows > listable_rows(cells):
                assert found.rows <= listable_rows(cells)
                assert found.run.certain
                assert found.run.error <= max(LISTED_ERROR, 2 * free.run.error)
            else:
                assert found == free
    # many cells: listed, hardly anything could be stated
    assert plan(16, 10**6).rows > listable_rows(16)


@pytest.mark.parametrize("cells", [1, 2, 3, 4, 7, 16, 64, 5000])
def test_the_listable_rows_are_the_most_that_are_listed(cells):
    most = listable_rows(cells)
    domain = domain_of(cells)
    if cells == 7:  # the border itself
        assert isinstance(version_space_for(domain, rows=most), VersionSpace)
        assert not isinstance(version_space_for(domain, rows=most + 1), VersionSpace)
    with pytest.raises(ParameterError, match="too many to list"):
        version_space_for(domain, rows=most + 1, kind="exact")


@pytest.mark.slow
def test_a_session_over_four_cells_answers_all_its_questions():
    """Weighted questions: with the best number of rows, sampled, such a session ended after 21 of 150."""
    rng = np.random.default_rng(0)
    domain = domain_of(CELLS)
    codes = rng.choice(CELLS, size=N, p=rng.dirichlet(np.full(CELLS, 0.5)))
    session = mq.session(
        mq.open({"v": codes.tolist()}, domain=domain),
        epsilon=1.0,
        mechanism="median",
        queries=QUESTIONS,
        ledger=ledger(domain),
    )
    kinds = []
    for weights in rng.random((QUESTIONS, CELLS)).round(3):
        answer = session.ask(mq.weights(domain, [weights.tolist()]))
        kinds.append(answer.kind)
        assert answer.error is not None
        assert abs(answer.value - weights[codes].mean()) <= answer.error
    assert 5 <= kinds.count("paid") <= 18  # log2 of the number of small databases


def test_a_class_needs_fewer_rows_than_the_number_of_questions():
    """Thresholds, by their shape: nine rows over 16 cells can be listed, and so the budget provably lasts."""
    facts = existence.facts_of(mq.prefixes(domain_of(16), "v"))
    plain, of_class = plan(16, 100_000), plan(16, 100_000, facts=facts)
    assert plain.rows > listable_rows(16) >= of_class.rows
    assert of_class.run.certain
    assert of_class.run.error <= LISTED_ERROR
    assert of_class.best == pytest.approx(1 / (2 * of_class.rows))
    # and however many questions are asked: only the union bound over the tests grows
    at = {
        "unit": "epsilon",
        "price": 0.95,
        "n": 1e6,
        "universe": 16,
        "beta": 0.045,
        "facts": facts,
        "rows": 9,
    }
    few, many = (online.median(k=k, **at) for k in (150, 10**6))
    assert many.best == few.best
    assert many.run.c == few.run.c
    by_vc = existence.Facts(universe=16, log_queries=float("inf"), vc=1)
    endless = online.median(
        k=10**9, unit="epsilon", price=1.0, n=1e9, universe=16, beta=0.05, facts=by_vc, rows=900
    )
    assert endless.best < existence.sampling(rows=900, log_queries=np.log(10**9))


def test_a_session_of_a_class_asks_about_its_attributes():
    domain = mq.Domain.from_dict(
        {
            "attributes": [
                {"name": "v", "kind": "ordinal", "size": 12, "nullable": False},
                {"name": "w", "kind": "ordinal", "size": 3, "nullable": False},
            ]
        }
    )
    codes = np.random.default_rng(1).integers(0, 12, 60_000)
    table = mq.open({"v": codes.tolist(), "w": (codes % 3).tolist()}, domain=domain)
    book = ledger(domain, 3.0)
    prefixes = mq.prefixes(domain, "v")
    told = {"epsilon": 1.0, "mechanism": "median", "queries": 40, "ledger": book}
    session = mq.session(table, **told, workload=prefixes)
    for cut in range(11):
        answer = session.ask(f"v <= {cut}")
        assert abs(answer.value - (codes <= cut).mean()) <= answer.error
    with pytest.raises(mq.MaquetteError, match="questions about v"):
        session.ask("w = 1")
    assert mq.session(table, **told, workload=prefixes).key == session.key
    assert mq.session(table, **told, attributes=["v"]).key != session.key
    other = domain_of(9)
    with pytest.raises(ParameterError, match="another domain"):
        mq.session(table, **told, workload=mq.prefixes(other, "v"))
    with pytest.raises(ParameterError, match="all that the workload looks at"):
        mq.session(table, **told, workload=prefixes, attributes=["w"])
    with pytest.raises(ParameterError, match="median"):
        mq.session(table, epsilon=1.0, ledger=book, workload=prefixes)
