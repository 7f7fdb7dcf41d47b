"""Means and sums of columns with a unit: measured by themselves, stated between ends that hold."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import maquette as mq
from maquette.core.laws import Gaussian, Laplace
from maquette.core.measurement import Receipt
from maquette.domain import Attribute, Domain, Kind
from maquette.errors import ReleaseError
from maquette.releasing import means
from maquette.releasing.plan import asked_for, prices_of
from maquette.releasing.request import Request
from maquette.results import sums
from maquette.results.sums import ColumnSum, Records

pytestmark = pytest.mark.filterwarnings("ignore::maquette.MemoryLedgerWarning")

DOMAIN = Domain(
    (
        Attribute("age", Kind.NUMERIC, bounds=(0, 120), integer=True),
        Attribute("income", Kind.NUMERIC, bounds=(0, 10_000), unit=0.01, nullable=True),
        Attribute("sex", Kind.BOOLEAN, codes=2),
    )
)
RECEIPT = Receipt(1, "0" * 64)
RUNS = 400


def people(rng: np.random.Generator, n: int) -> dict[str, list]:
    income = np.round(np.minimum(rng.lognormal(6, 1.2, n), 10_000), 2)
    return {
        "age": rng.integers(18, 90, n).tolist(),
        "income": [None if rng.random() < 0.1 else float(v) for v in income],
        "sex": rng.integers(0, 2, n).tolist(),
    }


@pytest.fixture(scope="module")
def released():
    rows = people(np.random.default_rng(1), 20_000)
    table = mq.open(rows, DOMAIN)
    return rows, mq.release(table, mq.marginals(DOMAIN, 2), epsilon=1.0, delta=1e-9, ledger="memory")


def test_a_mean_of_all_records_is_stated_by_its_own_noise(released):
    rows, release = released
    (row,) = release.sql("SELECT avg(age), sum(age), avg(income), sum(income) FROM t").to_pylist()
    incomes = [v for v in rows["income"] if v is not None]
    true = {
        "avg(age)": np.mean(rows["age"]),
        "sum(age)": np.sum(rows["age"]),
        "avg(income)": np.mean(incomes),
        "sum(income)": np.sum(incomes),
    }
    for name, value in true.items():
        assert abs(row[name] - value) < 2 * row[f"{name} error"]
    assert row["avg(age) error"] < 0.6
    assert row["known_by"] == sums.STATEMENT
    grouped = release.table("sex", values="mean(age)").to_pylist()
    assert min(group["error"] for group in grouped) > row["avg(age) error"]


def test_they_are_paid_for_stored_and_read_back(released, tmp_path):
    _, release = released
    assert [column.name for column in release.sums] == ["age", "income"]
    assert [p.asked for p in release.spending].count("sums") == 2
    release.save(tmp_path / "people.maquette")
    again = mq.load(tmp_path / "people.maquette")
    assert again.sums == release.sums
    assert (
        again.sql("SELECT avg(age) FROM t").to_pylist() == release.sql("SELECT avg(age) FROM t").to_pylist()
    )


def test_sums_of_other_columns_are_refused():
    other = ColumnSum("age", 0, None, 7, Gaussian(Fraction(1), Fraction(1)), RECEIPT)
    with pytest.raises(ReleaseError, match="expected the sum of a column with a unit"):
        sums.check([other], {"age": DOMAIN["age"].grid})
    missing = ColumnSum("income", 0, None, 2 * 10**6, Gaussian(Fraction(1), Fraction(1)), RECEIPT)
    with pytest.raises(ReleaseError, match="declared values"):
        sums.check([missing], {"income": DOMAIN["income"].grid})


def test_the_budget_is_divided_and_never_exceeded():
    request = Request(queries=mq.marginals(DOMAIN, 2), epsilon=1.0, delta=1e-9, certificate="workload")
    prices = prices_of(request, asked_for(request))
    assert prices.sums > 0
    assert sum(prices) * 10**12 <= request.budget.total_units
    plain = Domain((Attribute("age", Kind.NUMERIC, bounds=(0, 120), bins=12), DOMAIN["sex"]))
    assert means.share_of(mq.marginals(plain, 2)) == 0


LAWS = {
    "Gaussian": Gaussian(Fraction(1, 1000), Fraction(30**2)),
    "Laplace": Laplace(Fraction(1, 10), Fraction(20)),
}


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
@pytest.mark.parametrize("name", ["age", "income"])
@pytest.mark.parametrize("n", [40, 400, 20_000])
def test_stated_intervals_hold(name, law, n):
    """400 releases each of the mean and the sum, with the number of records exact and noisy: at most beta fail."""
    attribute, beta, rng = DOMAIN[name], 0.1, np.random.default_rng(3)
    fine = attribute.grid
    assert fine is not None
    values = np.array([v for v in people(rng, n)[name] if v is not None], dtype=np.float64)
    codes = fine.codes(values)
    exact, count, denominator = int((2 * codes - fine.steps).sum()), len(codes), 2 * fine.steps
    failed = {"mean": 0, "sum": 0, "mean, noisy n": 0, "sum, noisy n": 0}
    for _ in range(RUNS):
        noise = draws(law, rng, 3)
        halves = None if name == "age" else round((count / 2 + noise[1]) * denominator)
        column = ColumnSum(name, exact + round(noise[0] * denominator), halves, denominator, law, RECEIPT)
        seen = count + float(np.rint(noise[2]))
        reach = column.noise_of(1.0, beta=beta * 0.1) + 1
        known = {
            "": Records(count, count, count, is_public=True),
            ", noisy n": Records(
                max(seen - reach, 0.0),
                max(seen, 1.0),
                seen + reach,
                is_public=False,
                variance=law.deviation**2 if isinstance(law, Gaussian) else None,
            ),
        }
        for words, records in known.items():
            mean = sums.mean_of(column, attribute, records, beta=beta)
            total = sums.sum_of(column, attribute, records, beta=beta)
            failed["mean" + words] += not mean.lower <= values.mean() <= mean.upper
            failed["sum" + words] += not total.lower <= values.sum() <= total.upper
            assert mean.lower <= mean.value <= mean.upper
    # a binomial tail: with a chance of one in ten, 62 of 400 or more fail less than once in three thousand times
    assert max(failed.values()) < 62, failed


def draws(law: Gaussian | Laplace, rng: np.random.Generator, count: int) -> np.ndarray:
    if isinstance(law, Gaussian):
        return rng.normal(0, law.deviation, count)
    return rng.laplace(0, float(law.scale), count)


def test_nothing_is_known_of_a_mean_where_noise_hides_the_records():
    attribute = DOMAIN["income"]
    assert attribute.grid is not None
    law = LAWS["Gaussian"]
    column = ColumnSum("income", 5, -3, 2 * attribute.grid.steps, law, RECEIPT)
    between = sums.mean_of(column, attribute, Records(0, 0, 0, is_public=True), beta=0.05)
    assert (between.lower, between.upper) == (0.0, 10_000.0)
    assert math.isfinite(between.value)
