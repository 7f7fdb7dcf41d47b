"""Replicates of a release: rows from released tables with further noise, and the rule for standard errors."""

import numpy as np
import pytest

import maquette as mq
from maquette.domain import Attribute, Domain, Kind
from maquette.errors import ParameterError, ReleaseError
from maquette.models.residual import ResidualModel
from maquette.results.loading import load
from maquette.results.replicates import combine
from maquette.sculpt.model import SculptModel
from maquette.sculpt.refit import clear_pairs, refit
from support.cli_files import call

SIZES = {"age": 30, "job": 4, "owner": 2, "region": 3}
DOMAIN = Domain(tuple(Attribute(name, Kind.ORDINAL, codes=size) for name, size in SIZES.items()))
N = 2_000


def table(n=N):
    rng = np.random.default_rng(5)
    age = rng.binomial(29, 0.4, n)
    job = np.where(rng.random(n) < 0.7, age // 8, rng.integers(0, 4, n))
    owner = (age + 3 * job + rng.normal(0, 6, n) > 16).astype(int)
    columns = {"age": age, "job": job, "owner": owner, "region": rng.integers(0, 3, n)}
    return mq.open({name: column.astype(np.uint8) for name, column in columns.items()}, domain=DOMAIN)


def released(k=2, epsilon=1.0, delta=1e-6, n=N, **options):
    return mq.release(
        table(n),
        mq.marginals(DOMAIN, k=k),
        epsilon=epsilon,
        delta=delta,
        mechanism="sculpt",
        certificate=0.0,
        ledger="memory",
        **options,
    )


@pytest.fixture(scope="module")
def release():
    return released()


def owners(rows):
    """The share of owners with the variance of a share."""
    share = float(np.mean(rows["owner"].to_numpy()))
    return share, share * (1 - share) / len(rows)


def test_replicates_have_the_form_of_the_rows_and_differ(release):
    made = release.replicates(3)
    assert [rows.schema for rows in made.rows] == [release.rows.schema] * 3
    assert [len(rows) for rows in made.rows] == [len(release.rows)] * 3
    assert not made.rows[0].equals(made.rows[1])


def test_a_stored_release_gives_the_same_replicates(release, tmp_path):
    release.save(tmp_path / "r", report=False)
    again = load(tmp_path / "r").replicates(2)
    assert all(a.equals(b) for a, b in zip(again.rows, release.replicates(2).rows, strict=True))


@pytest.mark.parametrize(
    ("k", "epsilon", "delta"),
    [(1, 1.0, 1e-6), (2, 1.0, 0.0), (3, 1.0, 1e-6), (2, 30.0, 1e-6)],
    ids=["one-way", "pure", "triples", "whole marginals"],
)
def test_every_kind_of_measured_tables_has_replicates(k, epsilon, delta):
    release = released(k, epsilon, delta)
    assert isinstance(release.model, ResidualModel if epsilon > 1 or k == 1 else SculptModel)
    made = release.replicates(2)
    found = made.combine(owners)
    assert found.lower < found.estimate < found.upper
    for rows in made.rows:
        assert owners(rows)[0] == pytest.approx(float(found.estimate), abs=0.3)


def test_rows_of_replicates_are_near_the_tables_they_were_fitted_to(release):
    """As near as twice the noise allows, cell by cell, on average over all tables of one attribute."""
    model = release.model
    assert isinstance(model, SculptModel)
    rows = refit(model, m=20_000, names=DOMAIN.names, rng=np.random.default_rng(1))
    for measured in model.tables:
        if len(measured.bins.margin) == 1:
            counts = np.bincount(rows.columns[measured.bins.margin[0]], minlength=len(measured.counts)) * (
                N / 20_000
            )
            off = np.sqrt(np.mean((counts - measured.counts) ** 2))
            assert off < 4 * np.sqrt(2 * measured.variance) + 5


@pytest.mark.accuracy
def test_the_spread_of_replicates_is_the_noise_of_the_release(release):
    """Of a total of cells of one table the noise is known; replicates spread about as much."""
    model = release.model
    found = release.replicates(12).combine(lambda rows: (owners(rows)[0], 0.0))
    best = min(t.variance for t in model.tables if "owner" in t.bins.margin)
    worst = max(t.variance for t in model.tables if t.bins.margin == ("owner",))
    assert 0.4 * np.sqrt(min(best, worst)) / N < found.error < 3 * np.sqrt(worst) / N


def test_pairs_measured_code_by_code_with_little_noise_are_covered(release):
    """Decided by public numbers: bins, variances and the released size."""
    made = release.replicates(2)
    clear = clear_pairs(release.model)
    assert made.covers("age")
    for table in release.model.tables:
        if len(table.bins.margin) == 2 and table.groups is None:
            in_full = all(
                len(cut) == SIZES[name] for name, cut in zip(table.bins.margin, table.bins.cuts, strict=True)
            )
            quiet = table.variance <= release.size.divisor / table.bins.cells
            assert (table.bins.margin in clear) == (in_full and quiet)
            assert made.covers(*table.bins.margin) == (in_full and quiet)
    assert clear
    assert not made.covers("age", "region")
    assert not made.covers(*DOMAIN.names)
    with pytest.raises(mq.MaquetteError):
        made.covers("nobody")


def test_releases_without_tables_are_refused():
    plain = mq.release(table(), mq.marginals(DOMAIN, k=1), epsilon=1.0, mechanism="laplace", ledger="memory")
    with pytest.raises(ReleaseError, match="mechanism 'sculpt'"):
        plain.replicates(3)


@pytest.mark.parametrize("k", [0, 1, 1001])
def test_numbers_of_replicates_that_make_no_sense(release, k):
    with pytest.raises((ReleaseError, ParameterError)):
        release.replicates(k)


@pytest.mark.parametrize("statistic", [lambda _: 1.0, lambda _: (np.nan, 1.0), lambda _: (1.0, -1.0)])
def test_statistics_of_another_form_are_refused(release, statistic):
    with pytest.raises(ReleaseError, match="expected"):
        release.replicates(2).combine(statistic)


def test_replicates_are_written_whole_or_not_at_all(release, tmp_path):
    import pyarrow.parquet

    made = release.replicates(2)
    place = made.save(tmp_path / "sets")
    assert [path.name for path in sorted(place.iterdir())] == ["replicate-1.parquet", "replicate-2.parquet"]
    assert pyarrow.parquet.read_table(place / "replicate-2.parquet").equals(made.rows[1])
    with pytest.raises(ReleaseError, match="exists"):
        made.save(place)


def test_the_command_writes_them(release, tmp_path):
    folder = release.save(tmp_path / "r", report=False)
    made = call("replicates", folder, "-k", "2", "-o", tmp_path / "sets")
    assert made.code == 0
    assert len(list((tmp_path / "sets").iterdir())) == 2
    assert call("replicates", folder, "-o", tmp_path / "sets", "-k", "2").code == 2


def test_the_rule_on_numbers():
    """U = 2 * 4, W = 16/9 * 4.5 = 8, D = 1: t +- (q sqrt(16) + 2) with 2 (1 + 8/8)^2 = 8 degrees of freedom."""
    values = 11.0 + np.array([-1.0, 0.0, 1.0]) * np.sqrt(4.5)
    found = combine(np.array(10.0), np.array(4.0), values, share=2.0, level=0.95)
    assert found.degrees == pytest.approx(8.0)
    assert found.error == pytest.approx(4.0)
    assert found.shift == pytest.approx(2.0)
    assert found.upper - found.estimate == pytest.approx(2.306004 * 4.0 + 2.0, rel=1e-6)
    assert found.estimate - found.lower == pytest.approx(float(found.upper - found.estimate))


@pytest.mark.parametrize(
    ("ratio", "least", "most"), [(0.0, 0.95, 1.0), (0.05, 0.95, 1.0), (0.25, 0.94, 1.0), (4.0, 0.0, 0.8)]
)
def test_the_rule_covers_effects_that_were_shrunk(ratio, least, most):
    """The rule's own model: an effect of variance 1 behind noise of variance `ratio`, shrunk as by its prior.

    Where the noise is larger than the signal the rule promises nothing, and indeed does not hold.
    """
    rng = np.random.default_rng(2)
    runs, k = 4_000, 20
    noise = np.sqrt(max(ratio, 1e-3)) * rng.normal(size=(k + 1, runs))
    estimate = (1 + noise[0]) / (1 + ratio)
    repeated = (1 + noise[0] + noise[1:]) / (1 + 2 * ratio)
    found = combine(estimate, np.zeros(runs), repeated, share=1.0, level=0.95)
    assert least <= np.mean((found.lower <= 1) & (found.upper >= 1)) <= most
