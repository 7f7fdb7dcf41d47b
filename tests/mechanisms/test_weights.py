"""mw and mwem: stated errors hold, prices are kept, odd workloads are taken or refused; and the public lesson."""

from fractions import Fraction

import numpy as np
import pytest

import maquette as mq
from maquette.core.budget import Unit
from maquette.domain import Relation
from maquette.errors import MechanismError, ParameterError
from maquette.mechanisms.base import MECHANISMS, Task
from maquette.mechanisms.weights import MW, MWEM, MultiplicativeWeights, Mwem
from maquette.queries import marginals, prefixes, union, weights, where
from support.fake_curator import FakeCurator
from support.online_universe import lumpy, universe

DOMAIN = universe(4, 4, 3)
PRICES = {Unit.EPSILON: Fraction(1), Unit.RHO: Fraction(1, 40)}


def quiet(what, share):
    pass


def run(mechanism, queries, *, relation, unit, n, seed, domain=DOMAIN):
    rng = np.random.default_rng(seed)
    table = rng.multinomial(n, lumpy(domain, seed).ravel()).reshape(domain.shape)
    curator = FakeCurator(table, domain, relation=relation, unit=unit, price=PRICES[unit], seed=seed)
    task = Task(queries, relation, unit, PRICES[unit], 0.05)
    outcome = mechanism.prepare(task).run(curator, rng=rng, progress=quiet)
    truth = queries.on_histogram(table) / queries.denominator / n
    return outcome, float(np.abs(outcome.answers.fractions - truth).max()), curator, task


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [MW, MWEM], ids=["mw", "mwem"])
@pytest.mark.parametrize("unit", PRICES)
@pytest.mark.parametrize("relation", list(Relation))
def test_stated_errors_hold_and_the_price_is_kept(mechanism, unit, relation):
    queries = union(marginals(DOMAIN, k=2), prefixes(DOMAIN, "x0"))
    for seed in range(3):
        outcome, error, curator, task = run(
            mechanism, queries, relation=relation, unit=unit, n=4_000, seed=seed
        )
        assert error <= outcome.guarantee.alpha < 1
        assert 0 <= curator.left < PRICES[unit] / 100
        # what was said in advance is not exceeded afterwards; the plan knew n, the run its estimate
        promised = mechanism.prepare(task, n=4_000).forecast.guaranteed
        assert outcome.guarantee.alpha <= promised * 1.02
        # something was learnt: the uniform guess is worse
        uniform = np.abs(
            queries.on_histogram(curator.histogram / curator.histogram.sum())
            - queries.on_histogram(np.full(DOMAIN.shape, 1 / DOMAIN.size))
        ).max()
        assert error < uniform
        assert outcome.database is not None
        rows = outcome.database.answer(queries).fractions
        assert np.abs(rows - outcome.answers.fractions).max() < 0.01


@pytest.mark.slow
def test_both_learn_more_with_more_budget():
    queries = marginals(DOMAIN, k=2)
    for mechanism in (MW, MWEM):
        errors = [
            run(mechanism, queries, relation=Relation.REPLACE_ONE, unit=Unit.EPSILON, n=n, seed=7)[1]
            for n in (300, 100_000)
        ]
        assert errors[1] < errors[0] / 2


@pytest.mark.parametrize("mechanism", [MultiplicativeWeights(fixed=5), Mwem(fixed=5)], ids=["mw", "mwem"])
def test_fractional_weights_constants_and_tiny_tables(mechanism):
    matrix = np.random.default_rng(1).random((3, 16))
    queries = union(weights(DOMAIN, matrix, attributes=["x0", "x1"]), where(DOMAIN, "x2 >= 0"))
    for n in (1, 500):
        for relation in Relation:
            outcome, error, _, _ = run(mechanism, queries, relation=relation, unit=Unit.RHO, n=n, seed=2)
            assert error <= outcome.guarantee.alpha
            assert outcome.parameters["rounds"] == 5
            assert outcome.answers.fractions[-1] == pytest.approx(1.0, abs=1e-6)
            assert n > 1 or "vacuous" in outcome.guarantee.bound


def test_a_wrong_sign_is_noticed():
    """The accuracy test has power: weights that move away from the table end beyond the stated error."""

    class Contrary(FakeCurator):
        def select(self, queries, answers, *, price, signed=False):
            chosen = super().select(queries, answers, price=price, signed=signed)
            return (chosen + queries.count) % (2 * queries.count) if signed else chosen

    queries = marginals(DOMAIN, k=2)
    table = np.zeros(DOMAIN.shape, dtype=np.int64)
    table[0, 0, 0] = 100_000
    task = Task(queries, Relation.REPLACE_ONE, Unit.EPSILON, Fraction(1), 0.05)
    curator = Contrary(table, DOMAIN, relation=task.relation, unit=Unit.EPSILON, price=Fraction(1), seed=1)
    outcome = MW.prepare(task).run(curator, rng=np.random.default_rng(1), progress=quiet)
    truth = queries.on_histogram(table) / 100_000
    assert np.abs(outcome.answers.fractions - truth).max() > outcome.guarantee.alpha


def test_nothing_is_expected_where_nothing_is_promised():
    task = Task(marginals(DOMAIN, k=2), Relation.ADD_REMOVE, Unit.EPSILON, Fraction(1), 0.05)
    for mechanism in (MW, MWEM):
        tiny, large = mechanism.prepare(task, n=3).forecast, mechanism.prepare(task, n=10**6).forecast
        assert tiny.guaranteed == tiny.expected == 1.0
        assert large.expected < large.guaranteed < 0.2


def test_what_cannot_be_held_is_refused():
    wide = universe(*[40] * 5)
    task = Task(marginals(wide, k=2), Relation.ADD_REMOVE, Unit.RHO, Fraction(1, 40), 0.05)
    for mechanism in (MW, MWEM):
        forecast = mechanism.prepare(task, n=1000).forecast
        assert "weight for every cell" in str(forecast.refusal)
        with pytest.raises(MechanismError, match="weight for every cell"):
            mechanism.prepare(task).run(None, rng=np.random.default_rng(0), progress=quiet)
    small = Task(marginals(DOMAIN, k=1), Relation.ADD_REMOVE, Unit.RHO, Fraction(1, 40), 0.05, post="lp")
    assert "post='auto'" in str(MW.prepare(small, n=1000).forecast.refusal)
    with pytest.raises(ParameterError, match="rounds"):
        Mwem(fixed=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mw", "mwem"])
def test_a_release_through_the_gate(name, tmp_path):
    assert name in MECHANISMS
    domain = universe(4, 3)
    rng = np.random.default_rng(3)
    frame = {"x0": rng.integers(0, 4, 1500) ** 2 // 3, "x1": rng.integers(0, 3, 1500)}
    lines = ["x0,x1", *(f"{a},{b}" for a, b in zip(frame["x0"], frame["x1"], strict=True))]
    (tmp_path / "t.csv").write_text("\n".join(lines), encoding="utf-8")
    table = mq.open(tmp_path / "t.csv", domain=domain)
    queries = marginals(domain, k=2)
    ledger = mq.Ledger.memory(
        budget=mq.Budget(1.0, 1e-6),
        relation=Relation.ADD_REMOVE,
        domain_fingerprint=domain.fingerprint,
        name="test",
    )
    release = mq.release(table, queries, epsilon=1.0, delta=1e-6, mechanism=name, ledger=ledger)
    truth = queries.on_rows(frame) / 1500
    assert np.abs(release.answers.fractions - truth).max() <= release.guarantee.alpha
    assert release.exactness == "exact"
    assert sum(s.amount for s in release.spending) <= mq.Budget(1.0, 1e-6).total_units / 1e12 + 1e-12
