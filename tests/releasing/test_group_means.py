# type: ignore  (annotations of tests are not checked)
"""The certificate of all group means: what is bought, where it is used, and that it holds for the worst group."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import maquette as mq
from maquette.core.combinations import axes_of
from maquette.core.group_means import GroupMeans, largest_error
from maquette.owner import engine_of
from maquette.queries.quality import ANY_MEAN, numbers_of, rounding
from maquette.releasing.certify import share_of_beta
from maquette.results.report import render

DOMAIN = mq.Domain.from_dict(
    {
        "attributes": [
            {"name": "hours", "kind": "numeric", "bounds": [0, 80], "bins": 8, "nullable": True},
            {"name": "region", "kind": "categorical", "size": 3},
            {"name": "member", "kind": "boolean", "size": 2},
            {"name": "age", "kind": "numeric", "edges": [18, 20, 30, 45, 90]},
        ]
    }
)
PAIRS = mq.marginals(DOMAIN, k=2)
CERTIFIED = ["workload", "any combination", "any combination and a range", ANY_MEAN]


def columns(n, seed=0):
    rng = np.random.default_rng(seed)
    region, member = rng.integers(0, 3, n), rng.integers(0, 2, n)
    hours = np.clip(rng.normal(25 + 10 * region + 8 * member, 12), 0, 79.9)
    age = np.clip(rng.gamma(4, 8, n) + 18 + 3 * region, 18, 89.9)
    return {
        "hours": [None if rng.random() < 0.1 else float(h) for h in hours],
        "region": region,
        "member": member,
        "age": age,
    }


def made(n, *, relation="add-remove", **options):
    book = mq.Ledger.memory(
        budget=mq.Budget(1.0, 1e-6, "gaussian"),
        relation=mq.Relation(relation),
        domain_fingerprint=DOMAIN.fingerprint,
        name="test",
    )
    table = mq.open(columns(n), domain=DOMAIN, name="people")
    given = {"epsilon": 1.0, "delta": 1e-6, "mechanism": "sculpt", "certificate": CERTIFIED} | options
    return mq.release(table, PAIRS, ledger=book, relation=relation, **given)


@pytest.fixture(scope="module")
def release():
    return made(40_000)


def test_it_is_bought_by_name_and_stored(release, tmp_path):
    (one,) = release.quality
    assert one.name == ANY_MEAN
    assert one.over == 4
    assert 0 < one.alpha < 0.05
    again = mq.load(release.save(tmp_path / "one", report=True))
    assert again.quality == release.quality
    assert "any group mean within " in str(again)
    assert " % of its column's range for " in str(again)
    page = render(release)
    assert "any group mean" in page, "else the page says nothing of it"
    assert "questions taken together" not in page, "it holds for each group"


def test_numbers_follow_the_middles_of_the_cells():
    hours, region, member, age = numbers_of(DOMAIN, DOMAIN.names)
    assert hours == tuple(range(8))
    assert region == member == ()
    low, high = DOMAIN["age"].ends()
    middles = (low + high) / 2
    exact = (middles - middles[0]) / (middles[-1] - middles[0])
    assert np.abs(np.array(age) / 4096 - exact).max() <= rounding(DOMAIN["age"]) / 2
    assert age[0] == 0
    assert age[-1] == 4096


def truth(n, name, by):
    """The true mean of the middles of the cells, of every group."""
    engine = engine_of(mq.open(columns(n), domain=DOMAIN))
    codes, times = engine.distinct_records(DOMAIN.names)
    low, high = DOMAIN[name].ends()
    middles, place = (low + high) / 2, DOMAIN.index(name)
    declared = codes[:, place] < len(middles)
    means = {}
    for group in itertools.product(*(range(DOMAIN[one].size) for one in by)):
        inside = declared & np.all(
            [codes[:, DOMAIN.index(b)] == v for b, v in zip(by, group, strict=True)], axis=0
        )
        if inside.any():
            means[group] = float(np.average(middles[codes[inside, place]], weights=times[inside]))
    return means


@pytest.mark.parametrize(
    ("name", "by"), [("hours", ("region", "member")), ("age", ("region",)), ("hours", ("age",))]
)
def test_tables_are_narrower_and_hold(release, name, by):
    table = release.table(by=list(by), values=f"mean({name})")
    without = replace(release, quality=()).table(by=list(by), values=f"mean({name})")
    own, before = widths(table), widths(without)
    stated = ~np.isnan(before)
    assert (own[stated] <= before[stated] * (1 + 1e-9)).all()
    assert (own < before).any()
    assert any("certified for the means of all groups" in text for text in table["known_by"].to_pylist())
    means = truth(40_000, name, by)
    lower, upper = ends(table)
    for (group, mean), low, high in zip(sorted(means.items()), lower, upper, strict=True):
        assert np.isnan(low) or low <= mean <= high, group


def ends(table):
    """NaN where nothing is stated."""
    return [np.array(table[name].to_pylist(), dtype=float) for name in ("lower", "upper")]


def widths(table):
    lower, upper = ends(table)
    return upper - lower


def test_sql_and_sums_use_it(release):
    text = "SELECT region, member, AVG(hours), SUM(hours) FROM records GROUP BY region, member"
    table, without = release.sql(text).to_pandas(), replace(release, quality=()).sql(text).to_pandas()
    widths = [one.filter(like="error").sum() for one in (table, without)]
    assert (widths[0] <= widths[1] * (1 + 1e-9)).all()
    assert (widths[0] < 0.97 * widths[1]).any()


def test_conditions_that_are_no_values_do_not_use_it(release):
    where = "age >= 30"
    table = release.table(by=["region"], values="mean(hours)", where=where)
    assert not any("means of all groups" in text for text in table["known_by"].to_pylist())


def true_error(release, records):
    codes, times = records
    released = release.distribution.rows()
    asked = GroupMeans(numbers_of(DOMAIN, released.names), release.quality[0].over)
    return (
        largest_error(axes_of(DOMAIN, released.names), codes, released.codes, asked, times=times)
        / times.sum()
    )


@pytest.mark.slow
@pytest.mark.accuracy
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_the_worst_group_is_off_by_more_no_more_often_than_stated(relation):
    """Over 400 releases at beta = 0.2, with the largest error of all groups known."""
    runs, beta, n = 400, 0.2, 1_000
    records, failed = engine_of(mq.open(columns(n), domain=DOMAIN)).distinct_records(DOMAIN.names), 0
    for _ in range(runs):
        one = made(n, beta=beta, relation=relation)
        failed += true_error(one, records) > one.quality[0].alpha + 1 / n  # errors are rounded up
    each = share_of_beta(beta, len(CERTIFIED)) * runs
    assert failed <= each + 3 * np.sqrt(each)


def test_a_bound_that_forgot_the_rows_would_be_exceeded(release):
    """Planted: the largest error against other rows is not covered."""
    records = engine_of(mq.open(columns(40_000), domain=DOMAIN)).distinct_records(DOMAIN.names)
    assert true_error(release, records) <= release.quality[0].alpha
    zeros = {name: np.zeros_like(column) for name, column in release.database.columns.items()}
    other = replace(release, database=type(release.database)(zeros))
    assert true_error(other, records) > release.quality[0].alpha
