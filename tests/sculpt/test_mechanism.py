"""Whole releases by `sculpt`, through the public interface."""

import numpy as np
import pandas as pd
import pytest

import maquette as mq
from maquette import api
from maquette.core.budget import Unit
from maquette.core.measurement import Size
from maquette.domain import Attribute, Domain, Kind
from maquette.sculpt import mechanism as running
from maquette.sculpt import rounds
from maquette.sculpt.allocation import TableNoise

DOMAIN = Domain(
    (
        Attribute("age", Kind.ORDINAL, codes=60),
        Attribute("job", Kind.CATEGORICAL, codes=8),
        Attribute("region", Kind.CATEGORICAL, codes=5),
        Attribute("owner", Kind.BOOLEAN, codes=2),
    )
)
N = 6000


def frame():
    """Jobs follow ages, ownership follows both."""
    rng = np.random.default_rng(0)
    age = np.clip(rng.normal(28, 12, N), 0, 59).astype(int)
    job = np.where(rng.random(N) < 0.7, age // 8, rng.integers(0, 8, N))
    region = rng.choice(5, N, p=[0.5, 0.2, 0.15, 0.1, 0.05])
    owner = (age + 3 * job + rng.normal(0, 8, N) > 40).astype(int)
    return pd.DataFrame({"age": age, "job": job, "region": region, "owner": owner})


def opened(domain=DOMAIN):
    return mq.open(frame(), domain=domain)


def errors(release, private):
    """Largest and mean error of rows over the workload."""
    true = private._engine.answer(release.workload.to_forms()) / private._engine.size()
    made = np.abs(release.database.answer(release.workload).fractions - true)
    return made.max(), made.mean()


@pytest.mark.slow
def test_a_release_of_marginals_with_a_delta_is_sculpted():
    private = opened()
    made = mq.release(private, mq.marginals(DOMAIN, k=2), epsilon=1.0, delta=1e-6, beta=1e-6, ledger="memory")
    assert made.mechanism == "sculpt"
    assert made.certificate is not None
    assert made.database is not None
    assert abs(made.database.m - N) < 300
    largest, _ = errors(made, private)
    assert largest <= made.certificate.alpha


def test_without_a_delta_the_planner_decides():
    made = mq.release(opened(), mq.marginals(DOMAIN, k=1), epsilon=1.0, ledger="memory")
    assert made.mechanism != "sculpt"


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_rows_know_what_a_product_does_not(relation, delta):
    private = opened()
    made = mq.release(
        private,
        mq.marginals(DOMAIN, k=2),
        epsilon=4.0,
        delta=delta,
        mechanism="sculpt",
        relation=relation,
        ledger="memory",
    )
    counts = [np.bincount(frame()[a.name], minlength=a.size) / N for a in DOMAIN]
    places = [(i, j) for i in range(4) for j in range(i + 1, 4)]
    product = np.concatenate([np.outer(counts[i], counts[j]).ravel() for i, j in places])
    true = private._engine.answer(made.workload.to_forms()) / N
    rows = made.database.answer(made.workload).fractions
    assert np.abs(rows - true).sum() < 0.6 * np.abs(product - true).sum()


def test_ranges_and_marginals_in_one_workload():
    private = opened()
    asked = mq.union(
        mq.marginals(DOMAIN, k=3),
        mq.prefixes(DOMAIN, "age"),
        mq.boxes(DOMAIN, [{"age": (10, 30), "job": (3, 3)}, {"age": (40, 59), "owner": (1, 1)}]),
    )
    made = mq.release(private, asked, epsilon=2.0, delta=1e-6, mechanism="sculpt", ledger="memory")
    assert made.parameters["parts_measured_directly"] == 1
    assert made.answers.numerators.shape == (asked.count,)
    true = private._engine.answer(asked.to_forms()) / N
    steps = slice(asked.parts[0].queries.count, asked.parts[0].queries.count + 60)
    assert np.abs(made.answers.fractions - true)[steps].max() < 0.05


@pytest.mark.slow
def test_the_number_of_rows_is_a_choice():
    made = mq.release(opened(), mq.marginals(DOMAIN, k=2), epsilon=1.0, delta=1e-6, rows=333, ledger="memory")
    assert made.database.m == 333


@pytest.mark.slow
def test_whole_marginals_are_measured_where_they_stand_clear():
    bits = Domain(tuple(Attribute(f"b{i}", Kind.BOOLEAN, codes=2) for i in range(16)))
    rng = np.random.default_rng(3)
    first = rng.random((N, 1)) < 0.4
    rows = pd.DataFrame(
        (first ^ (rng.random((N, 16)) < np.linspace(0.05, 0.5, 16))).astype(int), columns=list(bits.names)
    )
    private = mq.open(rows, domain=bits)
    made = mq.release(private, mq.marginals(bits, k=2), epsilon=10.0, delta=1e-6, beta=1e-6, ledger="memory")
    assert made.mechanism == "sculpt"
    assert made.parameters["post"] == "rows"
    true = private._engine.answer(made.workload.to_forms()) / N
    assert np.abs(made.answers.fractions - true).max() <= made.guarantee.alpha < 0.05
    assert errors(made, private)[0] < 0.02


@pytest.mark.slow
def test_declared_zeros_hold_in_every_row():
    spec = DOMAIN.to_dict() | {"constraints": [{"never": {"job": [0, 1], "owner": [1]}}]}
    domain = Domain.from_dict(spec)
    made = mq.release(
        opened(domain=domain), mq.marginals(domain, k=2), epsilon=1.0, delta=1e-6, ledger="memory"
    )
    columns = made.database.columns
    assert not ((columns["job"] <= 1) & (columns["owner"] == 1)).any()


@pytest.mark.slow
def test_an_interrupted_run_goes_on_from_what_was_paid(tmp_path, monkeypatch):
    private, asked = opened(), mq.marginals(DOMAIN, k=2)
    options = {"epsilon": 1.0, "delta": 1e-6, "ledger": tmp_path / "book.ledger", "mechanism": "sculpt"}

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(running.Run, "finish", interrupted)
        with pytest.raises(KeyboardInterrupt):
            mq.release(private, asked, **options)
    book = mq.Ledger.open(tmp_path / "book.ledger")
    paid = [entry.key for entry in book.entries(kind="answer")]
    book.close()
    assert len(paid) >= 4
    first = mq.release(private, asked, **options)
    again = mq.release(private, asked, **options)
    assert not list(tmp_path.glob("*-wal"))  # closed by the release that opened it
    assert np.array_equal(first.answers.numerators, again.answers.numerators)
    book = mq.Ledger.open(tmp_path / "book.ledger")
    assert [entry.key for entry in book.entries(kind="answer")][: len(paid)] == paid
    assert book.balance().spent_units <= book.balance().total_units
    book.close()


def test_answers_come_with_a_certificate_or_an_interval():
    """An error is the distance to the farther end, so that it equals the certificate's up to rounding."""
    made = mq.release(
        opened(),
        mq.marginals(DOMAIN, k=2),
        epsilon=1.0,
        delta=1e-6,
        mechanism="sculpt",
        beta=1e-6,
        ledger="memory",
    )
    answer = made.answer("owner = 1 and region = 0")
    truth = float(((frame().owner == 1) & (frame().region == 0)).mean())
    # which of the two states less depends on the noise
    assert answer.source in ("workload", "model")
    assert answer.error == pytest.approx(made.certificate.alpha, rel=1e-12) or answer.source == "model"
    assert abs(answer.value - truth) <= answer.error <= made.certificate.alpha * (1 + 1e-12) < 0.2
    summed = made.answer("owner = 1 and job in (1, 4, 6)")
    truth = float(((frame().owner == 1) & frame().job.isin([1, 4, 6])).mean())
    assert summed.statement is not None
    assert abs(summed.value - truth) <= summed.error < 0.2


def test_the_share_of_the_third_order_follows_the_signal():
    table_noise = TableNoise.of(Unit.RHO, mq.Relation.ADD_REMOVE)
    many, some, few = (
        rounds.plan_third_order(table_noise, Size(n, None, None), 20, price=0.01)
        for n in (10**8, 2 * 10**5, 10**3)
    )
    assert many.all_tables
    assert some.all_tables
    assert not few.all_tables
    assert many.share > some.share > few.share > 0
    assert rounds.plan_third_order(table_noise, Size(10**6, None, None), 0, price=0.01).share == 0


def test_too_many_pairs_are_refused_before_the_table_is_opened():
    wide = Domain(tuple(Attribute(f"x{i}", Kind.BOOLEAN, codes=2) for i in range(230)))
    request = api.plan(mq.marginals(wide, k=2), n=1000, epsilon=1.0, delta=1e-6, mechanisms=["sculpt"])
    assert "pairs of attributes" in request.forecasts[0].refusal


def test_a_price_too_small_to_divide_is_refused():
    plan = api.plan(mq.marginals(DOMAIN, k=2), n=1000, epsilon=1e-4, delta=1e-9, mechanisms=["sculpt"])
    assert "cannot be divided" in plan.forecasts[0].refusal
