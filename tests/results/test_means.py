"""Means by the noise of measured tables: Fieller's interval, the bins that it uses, and what a release states by it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy

import maquette as mq
from maquette.core.binned import Binned
from maquette.core.measurement import Size
from maquette.domain import Attribute, Domain, Kind
from maquette.results import figures
from maquette.results.figures import MEANS
from maquette.results.means import _bins, ends_by_noise, fieller
from maquette.sculpt.model import MeasuredTable, SculptModel

DOMAIN = Domain(
    (
        Attribute("x", Kind.NUMERIC, bounds=(0.0, 40.0), bins=8, nullable=True),
        Attribute("g", Kind.CATEGORICAL, codes=3),
    )
)
LOW, HIGH = DOMAIN["x"].ends()
COUNTS = np.array([400, 300, 120, 60, 30, 20, 9, 1], dtype=np.float64)


@pytest.mark.accuracy
@pytest.mark.parametrize("side", [0.0, 0.5, 1.0], ids=["least values", "middles", "largest values"])
@pytest.mark.parametrize("deviation", [2.0, 60.0])
def test_a_mean_is_between_its_ends_as_often_as_stated(side, deviation):
    """Values at the lower end, the middle or the upper end of their cells: the worst that bins can hide."""
    rng, beta, runs = np.random.default_rng(3), 0.1, 100
    exact = float(COUNTS @ (LOW + side * (HIGH - LOW)) / COUNTS.sum())
    reach = deviation * math.sqrt(2 * math.log(2 / beta))
    failures = 0
    for _ in range(runs):
        noisy = COUNTS + rng.normal(0, deviation, len(COUNTS))
        low, high = fieller(noisy, LOW, HIGH, reach=reach, within=(0.0, 40.0))
        failures += not low <= exact <= high
    assert scipy.stats.binomtest(failures, runs, beta, alternative="greater").pvalue > 1e-9


def test_without_noise_the_ends_are_those_of_the_cells():
    low, high = fieller(COUNTS, LOW, HIGH, reach=0.0, within=(0.0, 40.0))
    assert low == pytest.approx(COUNTS @ LOW / COUNTS.sum())
    assert high == pytest.approx(COUNTS @ HIGH / COUNTS.sum())


def test_noise_that_hides_the_group_leaves_the_bounds():
    assert fieller(COUNTS / 100, LOW, HIGH, reach=500.0, within=(0.0, 40.0)) == (0.0, 40.0)


def test_an_interval_that_forgets_the_cells_is_seen():
    """A planted bug: middles in the place of both ends. Values at the lower ends are then outside nearly always."""
    middle = (LOW + HIGH) / 2
    low, high = fieller(COUNTS, middle, middle, reach=5.0, within=(0.0, 40.0))
    assert not low <= float(COUNTS @ LOW / COUNTS.sum()) <= high


def measured(margin, cuts, counts, variance=4.0, groups=None):
    flat = np.asarray(counts, dtype=np.float64).ravel()
    return MeasuredTable(Binned(margin, cuts), flat, flat / flat.sum(), variance, groups)


def test_only_bins_that_tell_the_group_apart_are_used():
    table = measured(("x", "g"), ((0, 2, 8), (0, 1)), np.arange(6))
    bins = _bins(table, {"g": (0, 3)}, DOMAIN["x"])
    assert bins is not None
    counts, low, high = bins
    assert (counts.tolist(), low.tolist(), high.tolist()) == ([0, 2], [0.0, 10.0], [10.0, 40.0])
    assert _bins(table, {"g": (1, 3)}, DOMAIN["x"]) is None  # in one bin with the next code
    assert _bins(table, {}, DOMAIN["x"]) is None  # a table with a further attribute
    mixed = measured(("x",), ((0, 4),), np.arange(2))
    assert _bins(mixed, {}, DOMAIN["x"]) is None  # missing values in one bin with declared ones
    together = measured(("x",), (tuple(range(9)),), np.arange(8), groups=(0, 0, *range(1, 8)))
    assert _bins(together, {}, DOMAIN["x"]) is None  # bins counted together
    last = measured(("x", "g"), ((0, 8), (0, 1, 2)), np.arange(6))
    bins = _bins(last, {"g": (2, 3)}, DOMAIN["x"])
    assert bins is not None
    assert bins[0].tolist() == [2]


def test_tables_share_beta_and_their_ends_meet():
    one = measured(("x",), (tuple(range(9)),), [*COUNTS, 5])
    coarse = measured(("x",), ((0, 2, 8),), [700, 240, 5])
    size = Size(945, None, None)
    alone = ends_by_noise(SculptModel(DOMAIN, (one,), size, False, 1), {}, DOMAIN["x"], beta=0.05)
    both = ends_by_noise(SculptModel(DOMAIN, (one, coarse), size, False, 1), {}, DOMAIN["x"], beta=0.05)
    staged = ends_by_noise(SculptModel(DOMAIN, (one,), size, False, 2), {}, DOMAIN["x"], beta=0.05)
    half = ends_by_noise(SculptModel(DOMAIN, (one,), size, False, 1), {}, DOMAIN["x"], beta=0.025)
    assert alone is not None
    assert both is not None
    assert staged == half == both  # the coarse table says nothing more, and takes its share
    assert both[0] < alone[0] < COUNTS @ ((LOW + HIGH) / 2) / COUNTS.sum() < alone[1] < both[1]
    assert ends_by_noise(SculptModel(DOMAIN, (one,), size, True, 1), {}, DOMAIN["x"], beta=0.05) is None


@pytest.mark.slow
def test_a_release_states_the_narrower_ends_and_says_by_what(monkeypatch):
    rng = np.random.default_rng(5)
    group = rng.choice(3, 2000, p=[0.7, 0.2, 0.1])
    x = np.minimum(rng.gamma(2.0, 3.0 + 2 * group), 39.9)
    release = mq.release(
        mq.open({"x": x.tolist(), "g": group.tolist()}, domain=DOMAIN),
        mq.marginals(DOMAIN, k=2),
        epsilon=2.0,
        delta=1e-6,
        mechanism="sculpt",
        certificate=["workload", "one attribute", "two attributes"],
        ledger="memory",
    )
    one = measured(("x",), (tuple(range(9)),), [*COUNTS, 5])
    release = replace(release, model=SculptModel(DOMAIN, (one,), release.size, False, 1))
    statement = "select g, avg(x) from t group by g"
    beta = release.beta * release.knowledge.part_of_beta
    assert beta == release.beta / 4
    asked = []

    def ends(model, cell, attribute, *, beta):
        asked.append((cell, attribute.name, beta))
        return answer

    monkeypatch.setattr(figures, "ends_by_noise", ends)
    answer = None
    certified = release.sql(statement).to_pylist()
    assert asked == [({"g": code}, "x", beta) for code in range(3)]
    answer = (0.0, 40.0)  # nothing that was not known
    assert release.sql(statement).to_pylist() == certified
    middle = certified[0]["avg(x) lower"] + 0.01
    answer = (middle, middle + 0.01)
    first = release.sql(statement).to_pylist()[0]
    assert (first["avg(x) lower"], first["avg(x) upper"]) == pytest.approx(answer)
    assert answer[0] <= first["avg(x)"] <= answer[1]
    assert MEANS in first["known_by"]
    answer = (certified[0]["avg(x) upper"] + 1, certified[0]["avg(x) upper"] + 2)  # one of the two is wrong
    first = release.sql(statement).to_pylist()[0]
    assert (first["avg(x) lower"], first["avg(x) upper"]) == pytest.approx(
        (certified[0]["avg(x) lower"], answer[1])
    )
    assert (
        release.sql("select g, count(x) from t group by g").to_pylist()[0]["known_by"]
        in certified[0]["known_by"]
    )
