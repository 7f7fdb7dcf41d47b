"""Coarse and fine effects of a table: what hundreds of cells share is not lost by shrinking each of them."""

import numpy as np
import pytest

from maquette.domain import Attribute, Domain, Kind
from maquette.models.answers import generator
from maquette.sculpt import effects
from maquette.sculpt.bins import Hierarchy, Shape
from maquette.sculpt.effects import effects_of
from maquette.sculpt.measurements import TableEstimate, prior_variances, shrink

DAYS, FLAGS, DEVIATION = 366, 3, 46.0
DOMAIN = Domain((Attribute("day", Kind.ORDINAL, codes=DAYS), Attribute("flag", Kind.ORDINAL, codes=FLAGS)))
SHAPE = Shape((0, 1), (0, 0))


def asked_from_a_day():
    """Half of the year the flag is missing: cells hold 47 on average, and the coarse effect thousands."""
    table = np.full((DAYS, FLAGS), 70.0)
    table[: DAYS // 2] = 140.0, 0.0, 0.0
    return table


def estimate_of(table, seed, *, deviation=DEVIATION):
    """The table with its margins and noise on its interaction, as estimates are once reconciled."""
    noise = generator(f"effects {seed}").normal(0, deviation, table.shape)
    noise += noise.mean() - noise.mean(axis=0) - noise.mean(axis=1, keepdims=True)
    prior = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    own = np.prod([1 - 1 / size for size in table.shape])
    variances = np.full(table.size, deviation**2 * own)
    hierarchy = Hierarchy.from_counts(DOMAIN, [table.sum(axis=1), table.sum(axis=0)])
    return hierarchy, TableEstimate(SHAPE, (table + noise).ravel(), variances, prior.ravel())


def worst_range(found, table):
    gaps = np.cumsum(found.reshape(table.shape) - table, axis=0)
    return float((np.maximum(gaps.max(axis=0), 0) - np.minimum(gaps.min(axis=0), 0)).max() / table.sum())


def shrunk_alone(estimate):
    taus = prior_variances(estimate.counts, estimate.prior, variance=estimate.variances)
    return shrink(estimate.counts, estimate.prior, taus, variance=estimate.variances)


def test_an_effect_that_many_cells_share_is_known_though_each_of_them_drowns():
    table = asked_from_a_day()
    hierarchy, estimate = estimate_of(table, 0)
    by_levels = worst_range(effects_of(hierarchy, estimate)[-1].posterior, table)
    assert by_levels < 0.03
    assert worst_range(shrunk_alone(estimate), table) > 3 * by_levels


def test_without_coarser_levels_it_would_be_lost(monkeypatch):
    table = asked_from_a_day()
    hierarchy, estimate = estimate_of(table, 0)
    monkeypatch.setattr(effects, "_CELLS", ())
    assert worst_range(effects_of(hierarchy, estimate)[-1].posterior, table) > 0.06


@pytest.mark.parametrize("seed", range(4))
def test_where_nothing_depends_on_anything_levels_add_little(seed):
    table = np.outer(1 + generator("margin").random(DAYS), [30.0, 60.0, 90.0])
    hierarchy, estimate = estimate_of(table, seed)
    by_levels, alone = (
        np.abs(found - table.ravel()).sum() / table.sum()
        for found in (effects_of(hierarchy, estimate)[-1].posterior, shrunk_alone(estimate))
    )
    assert by_levels < alone + 0.02


def test_effects_of_single_cells_are_not_taken_for_coarse_ones():
    rng = generator("single cells")
    table = np.full((DAYS, FLAGS), 400.0) * np.exp(0.5 * rng.normal(size=(DAYS, FLAGS)))
    *coarse, fine = effects_of(*estimate_of(table, 1, deviation=10.0))
    found = np.median(fine.deviations)
    assert 0.3 < found < 0.7
    assert all(np.median(level.deviations) < 0.4 * found for level in coarse)


def test_sums_have_the_variance_of_their_part_of_the_interaction():
    table = asked_from_a_day()
    gaps = {}
    for seed in range(60):
        hierarchy, estimate = estimate_of(table, seed)
        for level in effects_of(hierarchy, estimate)[:-1]:
            sizes = [hierarchy.bins(a, at) for a, at in zip(*level.table.shape, strict=True)]
            cuts = [hierarchy.cuts[a][at] for a, at in zip(*level.table.shape, strict=True)]
            exact = np.add.reduceat(np.add.reduceat(table, cuts[0], axis=0), cuts[1], axis=1).ravel()
            assert level.table.counts.sum() == pytest.approx(table.sum())
            gaps.setdefault(tuple(sizes), []).append(
                (level.table.counts - exact) ** 2 / level.table.variances
            )
    for sizes, squares in gaps.items():
        assert np.mean(squares) == pytest.approx(1.0, abs=0.2), sizes
