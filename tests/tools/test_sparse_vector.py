"""A stream against a threshold: what is above and below is said right, only positives are used up, restarts go on."""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOperatorIssue=false
# pyright: reportOptionalMemberAccess=false, reportPossiblyUnboundVariable=false

from __future__ import annotations

import math

import numpy as np
import pytest

import maquette as mq
from maquette.core.budget import Unit
from maquette.core.noise import TableNoise
from maquette.errors import BudgetExceeded, ParameterError
from maquette.queries import points, weights
from maquette.theory import online
from maquette.tools.sparse_vector import Fraction, plan_stream
from support.cli_files import call, desk
from support.priced import priced
from support.seeded import SeededBits
from tools.test_choose import DOMAIN, book, table


@pytest.mark.parametrize(("epsilon", "delta"), [(2.0, 0.0), (3.0, 1e-6)])
def test_counts_far_from_the_threshold_are_told_apart(epsilon, delta):
    ledger = book(10.0, delta)
    stream = mq.above_threshold(
        table(), threshold=400, epsilon=epsilon, delta=delta, positives=2, values=True, ledger=ledger
    )
    assert stream.accuracy.width < 200
    for _ in range(20):
        assert not stream.ask("region = 3").above  # 40 records
    first = stream.ask("region = 0")  # 700 records
    assert first.above
    far = 4 * stream.accuracy.value_width  # one width is exceeded now and then, four are not
    assert first.value == pytest.approx(700, abs=far)
    assert first.number == 21
    assert stream.positives_left == 1
    assert stream.ask(weights(DOMAIN, [[1, 0.5, 0, 0]], attributes=["region"])).above  # 800
    with pytest.raises(BudgetExceeded, match="all that was paid for"):
        stream.ask("region = 0")
    charged = ledger.balance()
    assert charged.charged_units + charged.reserved_units <= mq.Budget(epsilon, delta).total_units
    stream.close()


def test_a_stream_goes_on_where_it_stopped():
    ledger = book()
    options = {"threshold": 400, "epsilon": 2.0, "positives": 2, "questions": 5, "ledger": ledger}
    stream = mq.above_threshold(table(), **options)
    stream.ask("region = 3")
    assert stream.ask("region = 0").above
    spent = ledger.balance().charged_units
    again = mq.above_threshold(table(), **options)
    assert again.key == stream.key
    assert (again.positives_left, again.questions_left) == (1, 3)
    assert repr(again) == "SparseVector(2 asked, 1 above; left: 3 questions, 1 above)"
    assert not again.ask("region = 2").above
    assert ledger.balance().charged_units == spent  # tests are free once the epoch is open
    for _ in range(2):
        again.ask("region = 3")
    with pytest.raises(BudgetExceeded, match="all were asked"):
        again.ask("region = 3")


def test_what_is_not_used_goes_back():
    ledger = book(5.0)
    with mq.above_threshold(table(), threshold=10, epsilon=2.0, ledger=ledger):
        pass
    assert ledger.balance().charged_units == 0
    with mq.above_threshold(table(), threshold=11, epsilon=2.0, ledger=ledger) as stream:
        stream.ask("region = 0")
    assert ledger.balance().charged_units == pytest.approx(2e12, rel=1e-6)


@pytest.mark.parametrize("unit", [Unit.EPSILON, Unit.RHO])
@pytest.mark.parametrize("values", [False, True])
def test_the_whole_stream_costs_no_more_than_its_price(unit, values):
    price = Fraction(1, 10)
    plan = plan_stream(price, unit, threshold=5, positives=3, values=values, questions=100, beta=0.05)
    cost, _ = priced(unit).epoch_cost(plan.terms)
    epochs = 1 if unit is Unit.EPSILON else 3
    assert epochs * cost.units <= price * 10**12
    assert epochs * cost.units >= price * 10**12 * 0.999


def test_the_width_is_that_of_the_theorem_and_holds_in_simulation():
    plan = plan_stream(
        Fraction(1), Unit.EPSILON, threshold=0, positives=2, values=False, questions=50, beta=0.1
    )
    first, second = float(plan.terms.threshold_price), float(plan.terms.test_price)
    continuous = online.svt_accuracy(first=first, second=second, c=2, k=50, beta=0.1)
    assert plan.accuracy.width == pytest.approx(continuous, rel=0.05)
    width = online.sparse_width(threshold_scale=1 / first, test_scale=4 / second, epochs=1, k=50, beta=0.1)
    assert width == plan.accuracy.width
    rng = np.random.default_rng(3)

    def noise(scale, size):
        p = -math.expm1(-1 / scale)
        return rng.geometric(p, size) - rng.geometric(p, size)

    largest = np.abs(noise(1 / first, 4000)) + np.abs(noise(4 / second, (4000, 50))).max(axis=1)
    assert (largest > width).mean() <= 0.1
    assert (largest > 0.5 * width).mean() > 0.1  # the bound is not idle


@pytest.mark.parametrize(("unit", "price"), [(Unit.EPSILON, Fraction(1)), (Unit.RHO, Fraction(1, 20))])
def test_values_are_within_their_width_as_often_as_stated(unit, price):
    """With the law that the gate draws a value from, and its sampler: a third of beta for all values together."""
    plan = plan_stream(price, unit, threshold=0, positives=3, values=True, questions=50, beta=0.3)
    law = priced(unit).epoch(plan.terms).answer_noise
    source, streams = TableNoise(SeededBits(9)), 4000
    zeros = np.zeros(3 * streams, dtype=np.int64)
    drawn = (
        source.laplace(zeros, scale=law.scale)
        if unit is Unit.EPSILON
        else source.gaussian(zeros, sigma=float(law.sigma_squared) ** 0.5)
    )
    largest = np.abs(drawn).reshape(streams, 3).max(axis=1)
    outside = (largest > plan.accuracy.value_width).mean()
    assert outside <= 0.1 + 4 * math.sqrt(0.1 * 0.9 / streams)
    assert (largest > 0.8 * plan.accuracy.value_width).mean() > 0.1  # the bound is not idle


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"threshold": 1.5}, "whole number"),
        ({"positives": 0}, "positives"),
        ({"questions": 0}, "questions"),
        ({"beta": 1}, "beta"),
    ],
)
def test_what_is_refused(options, words):
    with pytest.raises(ParameterError, match=words):
        mq.above_threshold(table(), **({"threshold": 1, "epsilon": 1.0, "ledger": book()} | options))


def test_one_query_at_a_time():
    stream = mq.above_threshold(table(), threshold=1, epsilon=1.0, ledger=book())
    with pytest.raises(ParameterError, match="one query"):
        stream.ask(points(DOMAIN))


def test_the_command(tmp_path):
    own = desk(tmp_path)
    words = (
        "above",
        own.table,
        "-d",
        own.domain,
        "--ledger",
        tmp_path / "x.ledger",
        "--epsilon",
        5,
        "--total-epsilon",
        20,
        "-q",
    )
    told = call(*words, "--threshold", -1000, "--positives", 1, "--json", "age < 200", "age < 30")
    assert told.code == 3
    assert [one["above"] for one in told.json["outcomes"]] == [True]
    assert "all that was paid for" in told.json["refusal"]
    text = call(*words, "--threshold", 10**6, "age < 200").out
    assert text.startswith("not above: age < 200")
    assert "except with probability 0.05" in text


def test_tools_pay_for_all_records_of_a_person():
    """A question is priced for one record and charged for a person's two: what is left is what fits."""
    regions = [i // 2 % 4 if i < 600 else 0 for i in range(1000)]
    rows = {"id": [i // 2 for i in range(1000)], "age": [0] * 1000, "region": regions}
    persons = {"person": "id", "rows_per_person": 2}
    chosen = mq.choose(
        mq.open(rows, domain=DOMAIN, **persons), points(DOMAIN, ["region"]), epsilon=1.0, ledger="memory"
    )
    assert chosen.epsilon == pytest.approx(0.5)
    stream = mq.above_threshold(
        mq.open(rows, domain=DOMAIN, **persons), threshold=300, epsilon=4.0, values=True, ledger="memory"
    )
    single = mq.above_threshold(
        mq.open(rows, domain=DOMAIN), threshold=300, epsilon=2.0, values=True, ledger="memory"
    )
    assert stream.accuracy.value_width == pytest.approx(single.accuracy.value_width)
    assert stream.ask("region = 0").above  # 550 records
