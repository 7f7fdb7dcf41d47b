"""Quick bounds hold the exact mass, and a draw does not depend on them."""

from __future__ import annotations

from collections import Counter as Tally
from fractions import Fraction

import numpy as np
import pytest
import scipy

from maquette.samplers import brackets, trees
from maquette.samplers.brackets import Bracket, Scale, Uniform
from maquette.samplers.lists import Column
from maquette.samplers.ordered import Thresholds, float_mass
from maquette.samplers.slices import Slices
from support.draw_cases import CASES, law
from support.seeded import SeededBits


def shapes(size: int, n: int) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    spread = rng.random(n)
    bumps = np.concatenate([rng.normal(0.3, 0.02, n // 2), rng.normal(0.7, 0.1, n - n // 2)]).clip(0, 0.999)
    spikes = rng.choice(rng.random(5), n)
    return [(v * float(size) * 0.999).astype(np.uint64) for v in (spread, bumps, spikes)]


def column_of(values: np.ndarray, size: int) -> Column:
    codes, counts = np.unique(values, return_counts=True)
    return Column.of(codes, counts, cells=size, size=size)


def value(mass: Bracket) -> tuple[Fraction, Fraction]:
    unit = Fraction(2) ** mass.exponent
    return mass.low * unit, mass.high * unit


@pytest.mark.slow
@pytest.mark.parametrize("base", ["flat", "tree"])
@pytest.mark.parametrize("size", [37, 4096, 2**64])
def test_bounds_hold_the_exact_mass_closely(base, size):
    for values in shapes(size, 300):
        counter = Thresholds(column_of(values, size), Scale(20, 1), base)
        for level in (0, 8, 12, 20, 40, 90):
            exact = counter.mass(level, exact=True)
            low, high = value(counter.mass(level, exact=False))
            assert low <= exact.low <= high
            assert (high - low) * 10**9 <= high


@pytest.mark.slow
def test_a_wrong_operation_count_would_be_seen(monkeypatch):
    monkeypatch.setattr(brackets, "_BITS", 73)
    counter = Thresholds(column_of(shapes(2**64, 300)[0], 2**64), Scale(20, 1), "tree")
    outside = 0
    for level in range(8, 40):
        exact = counter.mass(level, exact=True).low
        low, high = value(counter.mass(level, exact=False))
        outside += not low <= exact <= high
    assert outside > 0


def test_entries_too_far_apart_give_up_the_quick_bounds_and_not_the_draw():
    size = 2**64
    values = np.array([5] * 40 + [6] * 40, dtype=np.uint64)
    counter = Thresholds(column_of(values, size), Scale(12, 1), "flat")
    band = counter.column.band(12, -200, 200)
    assert band is not None
    assert float_mass(band, "flat") is None
    rows = Slices(counter, decay=Fraction(3, 4), report=lambda _: None).draw(Uniform(SeededBits(1)))
    assert len(rows) == 12


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [c for c in CASES if c.name.split("-")[1] in ("flat", "tree")][:6], ids=lambda c: c.name
)
def test_draws_keep_their_law_when_the_quick_bounds_are_loose(case, monkeypatch):
    """Bounds a thousand times wider than they are: whole numbers then decide most buckets."""
    monkeypatch.setattr(brackets, "_BITS", 13)
    table = tuple([3, 0, 2, 1, 4][: case.universe])
    counter = case.counter(table)
    exact_counts = 0
    original = type(counter).mass

    def counting(self, level, *, exact):
        nonlocal exact_counts
        exact_counts += exact
        return original(self, level, exact=exact)

    monkeypatch.setattr(type(counter), "mass", counting)
    uniform, draws, base = Uniform(SeededBits(5)), 2000, Fraction(3, 4)
    slices = Slices(counter, decay=base, report=lambda _: None)
    drawn = Tally(tuple(sorted(case.rows(slices.draw(uniform)))) for _ in range(draws))
    expected = law(case, table, base)
    total = sum(expected.values())
    statistic = sum((drawn[s] - w / total * draws) ** 2 / (w / total * draws) for s, w in expected.items())  # type: ignore[index]
    assert scipy.stats.chi2.sf(statistic, len(expected) - 1) > 1e-6
    if not case.name.startswith("listed"):
        assert exact_counts > 0


@pytest.mark.slow
@pytest.mark.parametrize("size", [37, 2**64])
def test_tables_that_are_not_kept_give_the_same_masses_and_draws(size, monkeypatch):
    band = column_of(shapes(size, 300)[1], size).band(20, -300, 300)
    assert band is not None
    kept = trees.TreePaths(band)
    monkeypatch.setattr(trees, "MAX_TABLE_NUMBERS", 0)
    anew = trees.TreePaths(band)
    assert anew.count == kept.count
    assert kept._tables
    assert not anew._tables
    for seed in range(5):
        assert anew.draw(Uniform(SeededBits(seed))) == kept.draw(Uniform(SeededBits(seed)))
