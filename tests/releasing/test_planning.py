# type: ignore  (annotations of tests are not checked)
"""The planner: ranks from public inputs, agrees with what runs then state, and can be asked backwards."""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

from maquette.core.budget import UNITS, Budget
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import MechanismError, ParameterError
from maquette.mechanisms.base import MECHANISMS, Task
from maquette.queries import marginals, prefixes, ranges, weights
from maquette.releasing import ranking
from maquette.releasing.certify import SHARE
from maquette.releasing.planning import plan, required
from support.fake_curator import FakeCurator

DIRECT = [
    "laplace",
    "linf",
    "gaussian",
    "histogram-laplace",
    "histogram-gaussian",
    "residual",
    "residual-cells",
]


def domain_of(*sizes: int) -> Domain:
    names = "abcdefgh"
    return Domain(tuple(Attribute(names[i], Kind.ORDINAL, codes=size) for i, size in enumerate(sizes)))


DOMAIN = domain_of(6, 4, 3)
WORKLOAD = marginals(DOMAIN, k=2)


def test_every_mechanism_is_known_by_its_name():
    assert set(DIRECT) <= set(MECHANISMS)
    assert all(name == mechanism.name for name, mechanism in MECHANISMS.items())


def test_best_first_and_refused_last():
    ranked = plan(WORKLOAD, n=10_000, epsilon=1.0, mechanisms=DIRECT)
    able = [f.guaranteed for f in ranked.forecasts if f.refusal is None]
    assert able == sorted(able)
    refused = [f.refusal is not None for f in ranked.forecasts]
    assert refused == sorted(refused)
    assert {f.mechanism for f in ranked.forecasts if f.refusal} == {
        "gaussian",
        "histogram-gaussian",
        "residual",
        "residual-cells",
    }


def test_best_by_either_error():
    ranked = plan(WORKLOAD, n=10_000, epsilon=1.0, delta=1e-6, mechanisms=DIRECT)
    able = [f for f in ranked.forecasts if f.refusal is None]
    assert ranked.best(by="guaranteed").guaranteed == min(f.guaranteed for f in able)
    assert ranked.best(by="expected").expected == min(f.expected for f in able)
    assert ranked.best() == ranked.best(by="expected")
    with pytest.raises(ParameterError, match="by"):
        ranked.best(by="luck")


def test_expected_errors_lie_below_the_guaranteed_ones():
    for delta in (0.0, 1e-6):
        for f in plan(WORKLOAD, n=10_000, epsilon=1.0, delta=delta, mechanisms=DIRECT).forecasts:
            assert f.refusal or 0 < f.expected < f.guaranteed <= 1


def test_sums_of_noise_decide_as_the_theory_says():
    """Many queries over a small universe: the histogram; few over a large one: L-infinity noise."""
    many = ranges(domain_of(8, 8), "a", "b")
    public = {"n": 10_000, "epsilon": 1.0, "relation": "replace-one", "mechanisms": DIRECT}
    assert plan(many, **public).best(by="guaranteed").mechanism == "histogram-laplace"
    few = prefixes(domain_of(6, 2000), "a")
    wide = marginals(domain_of(40, 40, 40, 40), k=1)
    assert plan(few, **public).best(by="guaranteed").mechanism in ("linf", "histogram-laplace")
    assert plan(wide, **public).best(by="guaranteed").mechanism == "laplace"


def test_no_mechanism_left():
    ranked = plan(WORKLOAD, n=100, epsilon=1.0, mechanisms=["gaussian", "residual"])
    with pytest.raises(MechanismError, match="gaussian: Gaussian noise needs a delta"):
        ranked.best()


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_plan_is_kept_by_the_run(relation, delta):
    """What a run states is never above what was planned, up to the noise of the released size."""
    histogram = np.random.default_rng(0).multinomial(20_000, np.full(DOMAIN.size, 1 / DOMAIN.size))
    ranked = plan(
        WORKLOAD,
        n=20_000,
        epsilon=1.0,
        delta=delta,
        relation=relation,
        certificate=0.0,
        mechanisms=DIRECT,
        accounting="zcdp",
    )
    budget = Budget(1.0, delta)
    price = Fraction(budget.total_units, UNITS)
    task = Task(WORKLOAD, relation, budget.unit, price, 0.05)
    for forecast in ranked.forecasts:
        if forecast.refusal is not None:
            continue
        curator = FakeCurator(histogram, DOMAIN, relation=relation, unit=budget.unit, price=price, seed=1)
        prepared = MECHANISMS[forecast.mechanism].prepare(task)
        outcome = prepared.run(curator, rng=np.random.default_rng(0), progress=lambda _w, _s: None)
        assert outcome.guarantee.alpha <= forecast.guaranteed * 1.001
        assert (outcome.database is not None) == forecast.gives_rows


def test_directions():
    base = {"n": 5000, "epsilon": 1.0, "delta": 1e-6, "beta": 0.05, "certificate": 0.05, "mechanisms": DIRECT}

    def errors(**changed) -> dict[str, float]:
        return {f.mechanism: f.guaranteed for f in plan(WORKLOAD, **base | changed).forecasts}

    usual = errors()
    for better in ({"n": 9000}, {"epsilon": 1.5}, {"beta": 0.2}, {"delta": 1e-3}, {"certificate": 0.0}):
        changed = errors(**better)
        assert all(changed[name] <= usual[name] for name in DIRECT), better
        assert any(changed[name] < usual[name] for name in DIRECT), better


def test_a_plan_needs_no_data_and_reads_well():
    ranked = plan(WORKLOAD, n=10_000, epsilon=1.0, mechanisms=DIRECT)
    text = repr(ranked)
    for word in ("mechanism", "guaranteed", "expected", "laplace", "10,000", "epsilon = 1", "not for this"):
        assert word in text
    assert "delta" not in text.splitlines()[0]
    able = [one for one in ranked.forecasts if one.refusal is None]
    assert len(able) < len(ranked.forecasts)
    html = ranked._repr_html_()
    assert html.count("<tr>") == 1 + len(able)
    assert (
        json.loads(json.dumps(ranked.to_dict()))["forecasts"][0]["mechanism"] == ranked.forecasts[0].mechanism
    )
    vacuous = repr(plan(WORKLOAD, n=2, epsilon=0.001, mechanisms=["laplace"]))
    assert "none" in vacuous


def test_names_are_escaped_in_html():
    odd = Domain((Attribute("<i>", Kind.ORDINAL, codes=3),))
    assert "<i>" not in plan(prefixes(odd, "<i>"), n=10, epsilon=1.0, mechanisms=["laplace"])._repr_html_()


@pytest.mark.parametrize("by", ["guaranteed", "expected"])
def test_records_needed(by):
    found = required(WORKLOAD, alpha=0.02, epsilon=1.0, mechanisms=DIRECT, by=by)
    able = [r for r in found if r.refusal is None]
    assert [r.n for r in able] == sorted(r.n for r in able)
    for need in able:

        def error(n: int, name: str = need.mechanism) -> float:
            planned = plan(WORKLOAD, n=n, epsilon=1.0, mechanisms=[name], certificate=SHARE)
            return getattr(planned.forecasts[0], by)

        assert error(need.n) <= 0.02 < error(need.n - 1)


@pytest.mark.slow
def test_epsilon_needed():
    """Of the plan with the certificate that `required` sets aside; by default a plan takes the best share."""
    for need in required(WORKLOAD, alpha=0.02, n=20_000, delta=1e-6, mechanisms=DIRECT):
        enough, less = (
            plan(WORKLOAD, n=20_000, epsilon=e, delta=1e-6, mechanisms=[need.mechanism], certificate=SHARE)
            .forecasts[0]
            .guaranteed
            for e in (need.epsilon, need.epsilon * 0.99)
        )
        assert enough <= 0.02 < less


def test_a_budget_that_cannot_be_divided_is_not_enough():
    """So many records would need next to nothing, of which the number of records would get nothing at all."""
    (need,) = required(WORKLOAD, alpha=0.1, n=10**30, mechanisms=["laplace"])
    assert 0 < need.epsilon < 1e-10


def test_targets_out_of_reach():
    (none,) = required(WORKLOAD, alpha=1e-12, n=10, mechanisms=["laplace"])
    assert none.epsilon is None
    (refused,) = required(WORKLOAD, alpha=0.1, n=10, mechanisms=["gaussian"])
    assert "delta" in refused.refusal


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: plan(WORKLOAD, n=0, epsilon=1.0), "n"),
        (lambda: plan(WORKLOAD, n=10, epsilon=0.0), "epsilon"),
        (lambda: plan(WORKLOAD, n=10, epsilon=1.0, delta=1.0), "delta"),
        (lambda: plan(WORKLOAD, n=10, epsilon=1.0, beta=1.0), "beta"),
        (lambda: plan(WORKLOAD, n=10, epsilon=1.0, relation="cousins"), "relation"),
        (lambda: plan(WORKLOAD, n=10, epsilon=1.0, post="magic"), "post"),
        (lambda: plan(WORKLOAD, n=10, epsilon=1.0, certificate=1.0), "certificate"),
        (lambda: plan(WORKLOAD, n=10, epsilon=1.0, mechanisms=["oracle"]), "mechanism"),
        (lambda: required(WORKLOAD, alpha=0.1), "either n"),
        (lambda: required(WORKLOAD, alpha=0.1, n=10, epsilon=1.0), "either n"),
        (lambda: required(WORKLOAD, alpha=0.0, n=10), "alpha"),
        (lambda: required(WORKLOAD, alpha=0.1, n=0), "n"),
        (lambda: required(WORKLOAD, alpha=0.1, n=10, by="luck"), "by"),
        (lambda: required(WORKLOAD, alpha=0.1, n=10, relation="cousins"), "relation"),
    ],
)
def test_impossible_plans_are_refused(call, words):
    with pytest.raises(ParameterError, match=words):
        call()


def test_times_grow_with_the_work():
    small = plan(WORKLOAD, n=1000, epsilon=1.0, mechanisms=["laplace"]).forecasts[0]
    large = plan(
        marginals(domain_of(*[20] * 8), k=4), n=10**7, epsilon=1.0, mechanisms=["laplace"]
    ).forecasts[0]
    assert large.seconds > small.seconds
    assert large.megabytes > small.megabytes
    assert ranking._duration(0.2) == "< 1 s"
    assert ranking._duration(30) == "30 s"
    assert ranking._duration(600) == "10 min"


@pytest.mark.slow
def test_a_plan_loads_no_compiler_no_database_and_no_table_library():
    heavy = ("numba", "scipy", "pandas", "pyarrow", "duckdb", "sqlalchemy", "opendp", "polars")
    code = (
        "import sys, maquette as mq\n"
        "domain = mq.Domain.from_dict({'attributes': [{'name': 'a', 'kind': 'boolean'}]})\n"
        "mq.plan(mq.marginals(domain, k=1), n=1000, epsilon=1.0)\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def narrow(least: float, span: float, cells: int = 4):
    """Queries with weights between `least` and `least + span`."""
    bits = np.array([[(row + 2) >> cell & 1 for cell in range(cells)] for row in range(4)])
    return weights(domain_of(cells), least + span * bits)


EXPECTED_CLASSES = {
    "counting weights": narrow(0.0, 1.0),
    "quarters": narrow(0.5, 0.25),
    "thousandths": narrow(0.25, 2**-10),
    "one-way tables of bits": marginals(domain_of(2, 2, 2), k=1),
    "two-way tables": WORKLOAD,
    "prefixes": prefixes(domain_of(64), "a"),
    "ranges": ranges(domain_of(16), "a"),
    "wide tables": marginals(domain_of(10, 20, 30, 6), k=2),
}


@pytest.mark.law
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("queries", EXPECTED_CLASSES.values(), ids=EXPECTED_CLASSES)
def test_no_more_is_expected_than_is_guaranteed(queries, relation, delta):
    """Both are about one mechanism with the same D: what bounds 99 of 100 runs bounds a typical one."""
    seen = 0
    for n in (1, 30, 300, 10**6):
        for epsilon in (0.05, 1.0, 10.0):
            for beta in (0.01, 0.5):
                asked = {"n": n, "epsilon": epsilon, "delta": delta, "relation": relation, "beta": beta}
                made = plan(queries, certificate=0.0, **asked)
                for forecast in made.forecasts:
                    if forecast.guaranteed is not None and forecast.expected is not None:
                        seen += 1
                        assert forecast.expected <= min(1.0, forecast.guaranteed) * (1 + 1e-12), forecast
    assert seen >= 72


def test_narrow_weights_are_expected_to_be_off_by_as_much_less():
    """The draw of `smalldb` knows D, and so does its forecast."""
    wide, quarters = (
        plan(
            narrow(0.5 - span / 2, span), n=200, epsilon=0.5, mechanisms=["smalldb"], certificate=0
        ).forecasts[0]
        for span in (1.0, 0.25)
    )
    assert quarters.expected == pytest.approx(wide.expected / 4)
    assert quarters.guaranteed == pytest.approx(wide.guaranteed / 4)


def test_a_certificate_is_expected_to_state_more_than_the_error_and_less_at_larger_budgets():
    queries = WORKLOAD
    expected = []
    for epsilon in (0.5, 2.0):
        asked = {"n": 4000, "epsilon": epsilon, "delta": 1e-9}
        forecast = plan(queries, mechanisms=["gaussian"], **asked).forecasts[0]
        assert forecast.stated == "certificate"
        assert forecast.expected < forecast.certified < forecast.guaranteed
        expected.append(forecast.certified)
    assert expected[1] < expected[0]
    promised = plan(queries, mechanisms=["gaussian"], certificate=0, **asked).forecasts[0]
    assert promised.certified is None
