"""Private choices: paid, repeated for free, right where the scores are far apart, and within their regret."""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOperatorIssue=false
# pyright: reportOptionalMemberAccess=false, reportPossiblyUnboundVariable=false

from __future__ import annotations

import math

import numpy as np
import pytest

import maquette as mq
from maquette.domain import Domain, Relation
from maquette.errors import BudgetExceeded, KeyReused, LedgerError, ParameterError, WorkloadError
from maquette.models.answers import SmallDatabase
from maquette.queries import marginals, points, prefixes, weights
from maquette.tools.choose import regret
from support.cli_files import call, desk, refused
from support.privacy_doubles import ledger_for

DOMAIN = Domain.from_dict(
    {
        "attributes": [
            {"name": "age", "kind": "ordinal", "size": 10, "nullable": False},
            {"name": "region", "kind": "ordinal", "size": 4, "nullable": False},
        ]
    }
)
AGES = np.repeat(np.arange(10), 100)
REGIONS = np.array([0] * 700 + [1] * 200 + [2] * 60 + [3] * 40)


def table() -> mq.Table:
    import polars as pl

    return mq.open(pl.DataFrame({"age": AGES, "region": REGIONS}), domain=DOMAIN)


def book(epsilon: float = 10.0, delta: float = 0.0, relation: Relation = Relation.ADD_REMOVE) -> mq.Ledger:
    return ledger_for(DOMAIN, budget=mq.Budget(epsilon, delta), relation=relation)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), (2.0, 1e-6)])
@pytest.mark.parametrize("relation", list(Relation))
def test_the_largest_count_is_chosen_where_it_is_far_ahead(epsilon, delta, relation):
    ledger = book(10.0, delta, relation)
    chosen = mq.choose(
        table(), points(DOMAIN, ["region"]), epsilon=epsilon, delta=delta, ledger=ledger, relation=relation
    )
    assert chosen.index == 0  # 500 records ahead: another one has a chance below 1e-40
    assert chosen.candidate == "region = 0"
    assert chosen.method == ("exponential" if delta else "permute-and-flip")
    assert chosen.regret < 60
    assert "none is better by more than" in str(chosen)
    charged = ledger.balance().charged_units / 1e12
    assert charged == pytest.approx(
        epsilon if not delta else mq.Budget(epsilon, delta).total_units / 1e12, rel=1e-6
    )


def test_predicates_quantiles_errors_and_nearest_answers():
    ledger = book(100.0)
    pay = {"epsilon": 5.0, "ledger": ledger}
    assert mq.choose(table(), ["age < 2", "age < 8"], **pay).candidate == "age < 8"
    median = mq.choose(table(), "age", score="quantile", quantile=0.5, **pay)
    assert median.index == 4  # prefixes up to cell 4 hold half of the records
    shares = points(DOMAIN, ["region"])
    released = [0.7, 0.2, 0.9, 0.04]
    assert mq.choose(table(), shares, score="error", answers=released, **pay).index == 2
    off = [0.2, 0.9, 0.06, 0.9]
    assert mq.choose(table(), shares, score="nearest", answers=off, **pay).index == 2
    weighed = weights(DOMAIN, [[1, 0, 0, 0], [0.5, 0.5, 0.5, 0.5]], attributes=["region"])
    assert mq.choose(table(), weighed, **pay).index == 0


def test_the_same_request_again_is_free_and_the_same():
    ledger = book(1.0)
    first = mq.choose(table(), points(DOMAIN), epsilon=1.0, ledger=ledger)
    again = mq.choose(table(), points(DOMAIN), epsilon=1.0, ledger=ledger)
    assert again == first
    with pytest.raises(BudgetExceeded, match="this choice needs"):
        mq.choose(table(), points(DOMAIN), epsilon=0.5, ledger=ledger)
    with pytest.raises(KeyReused):
        mq.choose(table(), prefixes(DOMAIN, "age"), epsilon=1.0, ledger=ledger, key=first.key)


@pytest.mark.accuracy
def test_the_regret_holds_as_often_as_it_says():
    """40 candidates with counts 0, 1, 2, ...: P(worse than the regret) <= beta."""
    import polars as pl

    domain = Domain.from_dict(
        {"attributes": [{"name": "a", "kind": "ordinal", "size": 40, "nullable": False}]}
    )
    counts = np.arange(40)
    opened = mq.open(pl.DataFrame({"a": np.repeat(counts, counts)}), domain=domain)
    ledger = ledger_for(domain, budget=mq.Budget(100.0), relation=Relation.ADD_REMOVE)
    worse, far = 0, 0
    for run in range(60):
        chosen = mq.choose(opened, points(domain), epsilon=0.5, beta=0.2, ledger=ledger, key=f"run{run}")
        worse += 39 - chosen.index > chosen.regret
        far += chosen.index < 39
    assert worse <= 20  # 12 expected at most
    assert far > 5  # and it is no plain maximum


def test_one_of_several_small_databases():
    near = _release(np.repeat(np.arange(10), 10), np.array([0] * 70 + [1] * 20 + [2] * 6 + [3] * 4))
    apart = _release(np.zeros(50, dtype=int), np.zeros(50, dtype=int))
    workload = marginals(DOMAIN, k=1)
    chosen = mq.choose(
        table(), [apart, near], score="database", workload=workload, epsilon=1.0, ledger=book()
    )
    assert chosen.index == 1
    assert chosen.candidate is near
    with pytest.raises(ParameterError, match="a list of Releases"):
        mq.choose(table(), [1, 2], score="database", workload=workload, epsilon=1.0, ledger=book())


def _release(ages: np.ndarray, regions: np.ndarray):
    import warnings
    from dataclasses import replace

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = mq.release(table(), marginals(DOMAIN, k=1), epsilon=1.0, ledger="memory", mechanism="laplace")
    rows = SmallDatabase({"age": ages, "region": regions})
    return replace(
        made, workload=points(DOMAIN), answers=rows.answer(points(DOMAIN)), database=rows, deviations=None
    )


def test_regret_in_numbers():
    assert regret(1.0, 100, beta=0.05) == pytest.approx(2 * math.log(2000) + 1)
    assert regret(1.0, 100, beta=0.05, monotone=True) == pytest.approx(math.log(2000) + 1)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"score": "best"}, ParameterError, "score"),
        ({"method": "guess"}, ParameterError, "method"),
        ({"method": "permute-and-flip", "delta": 1e-6}, ParameterError, "no good price in rho"),
        ({"score": "nearest"}, ParameterError, "needs answers="),
        ({"score": "error", "answers": [1500.0] * 3}, ParameterError, "as fractions of the records"),
        ({"score": "nearest", "answers": [float("nan")] * 3}, ParameterError, "a list with NaN"),
        ({"answers": [0.5]}, ParameterError, "takes no answers"),
        ({"score": "quantile", "quantile": 1.5}, ParameterError, "0 < quantile < 1"),
        ({"score": "quantile", "quantile": 0.5}, WorkloadError, "one ordered attribute"),
        ({"beta": 0}, ParameterError, "beta"),
        ({"delta": 1e-6}, LedgerError, "cannot pay for a delta"),
    ],
)
def test_what_is_refused_costs_nothing(options, error, words):
    ledger = book()
    with pytest.raises(error, match=words):
        mq.choose(table(), points(DOMAIN), **({"epsilon": 1.0, "ledger": ledger} | options))
    assert ledger.balance().charged_units == ledger.balance().reserved_units == 0


def test_the_command(tmp_path):
    own = desk(tmp_path)
    words = ("choose", own.table, "-d", own.domain, "--ledger", tmp_path / "x.ledger", "--epsilon", 5, "-q")
    sexes = ("--where", "sex = 'Male'", "--where", "sex = 'Female'")
    told = call(*words, *sexes, "--json").json
    assert (told["index"], told["candidates"]) == (1, 2)  # 240 against 160
    assert call(*words, *sexes).out.startswith("sex = 'Female' (candidate 2 of 2")
    refused(call(*words, "--quantile", 0.5), "both --attribute and --quantile")


@pytest.mark.slow
def test_the_command_takes_the_options_that_it_advises(tmp_path):
    own = desk(tmp_path)
    usual = ["choose", own.table, "-d", own.domain, "--epsilon", 1, "--ledger", own.ledger, "-q"]
    refused(call(*usual), "give at least one of --marginals K")
    assert call(*usual, "--marginals", 1).code == 0
