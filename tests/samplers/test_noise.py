"""Samples of the real generators against their exact laws, at a false-alarm rate of 1e-6 each.

Every law is also tested with 0.95 and 1.05 times its scale, which must be rejected: the tests have the power to see
an error of 5 %.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from maquette.core import prices
from maquette.core.inversion import SystemBits
from maquette.core.noise import (
    SMALL,
    STEP,
    WIDE,
    SystemNoise,
    TableNoise,
    _opendp_gaussian,
    _opendp_laplace,
)
from support.privacy_laws import Pmf, cube_norm_pmf, gaussian_pmf, laplace_pmf
from support.privacy_statistics import FALSE_ALARM, chi_square, fits, fits_gaussian, fits_laplace
from support.seeded import SeededNoise

pytestmark = pytest.mark.privacy

MANY = 120_000
FEWER = 60_000
"""opendp's sampler is slower."""
SCORES = np.array([0, -1, -2, -2])
EXPONENTIAL = (0.42693270, 0.25894777, 0.15705976, 0.15705976)
PERMUTE_AND_FLIP = (0.50219918, 0.23572903, 0.13103590, 0.13103590)


def _zeros(count: int) -> np.ndarray:
    return np.zeros(count, dtype=np.int64)


def _in_small_requests(draw, count: int) -> np.ndarray:
    return np.concatenate([draw(_zeros(SMALL)) for _ in range(-(-count // SMALL))])


LAPLACE = {
    "opendp, narrow": (0.4, lambda: _opendp_laplace(_zeros(FEWER), 0.4)),
    "opendp, wide": (250.0, lambda: _opendp_laplace(_zeros(FEWER), 250.0)),
    "table, narrow": (0.4, lambda: SystemNoise().laplace(_zeros(MANY), scale=Fraction(0.4))),
    "table, middle": (20.0, lambda: SystemNoise().laplace(_zeros(MANY), scale=Fraction(20))),
    "two digits": (3.5 * STEP, lambda: SystemNoise().laplace(_zeros(MANY), scale=Fraction(7, 2) * STEP)),
    "seeded": (3.0, lambda: SeededNoise(11).laplace(_zeros(MANY), scale=Fraction(3))),
    "many small requests": (
        2.0,
        lambda: _in_small_requests(lambda z: SystemNoise().laplace(z, scale=Fraction(2)), FEWER),
    ),
}


@pytest.mark.parametrize("path", LAPLACE)
def test_laplace_noise_has_the_stated_scale_and_no_other(path):
    scale, draw = LAPLACE[path]
    sample = draw()
    assert fits_laplace(sample, laplace_pmf(scale))
    assert not fits_laplace(sample, laplace_pmf(0.95 * scale))
    assert not fits_laplace(sample, laplace_pmf(1.05 * scale))


def test_three_digits_of_a_very_wide_laplace_law():
    scale = 2.5 * STEP**2
    sample = SystemNoise().laplace(_zeros(MANY), scale=Fraction(5, 2) * STEP**2)
    assert stats.kstest(sample / scale, "laplace").pvalue > FALSE_ALARM
    for wrong in (0.95, 1.05):
        assert stats.kstest(sample / (wrong * scale), "laplace").pvalue < FALSE_ALARM
    # the lowest digit is as good as uniform
    assert chi_square(np.abs(sample) % STEP // (STEP // 16), Pmf(0, np.full(16, 1 / 16))) > FALSE_ALARM


GAUSSIAN = {
    f"{path}, sigma {sigma}": (sigma, path, count)
    for sigma in (0.5, 3.0, 100.0)
    for path, count in (("opendp", FEWER), ("table", MANY), ("seeded", MANY))
}


def _gaussian(path: str, sigma: float, count: int) -> np.ndarray:
    match path:
        case "opendp":
            return _opendp_gaussian(_zeros(count), sigma)
        case "table":
            return SystemNoise().gaussian(_zeros(count), sigma=sigma)
        case _:
            return SeededNoise(12).gaussian(_zeros(count), sigma=sigma)


@pytest.mark.parametrize("case", GAUSSIAN)
def test_gaussian_noise_has_the_stated_sigma_and_no_other(case):
    sigma, path, count = GAUSSIAN[case]
    sample = _gaussian(path, sigma, count)
    assert fits_gaussian(sample, gaussian_pmf(sigma))
    assert not fits_gaussian(sample, gaussian_pmf(0.95 * sigma))
    assert not fits_gaussian(sample, gaussian_pmf(1.05 * sigma))


@pytest.mark.parametrize("sigma", [0.5, 3.0, 100.0])
def test_both_gaussian_samplers_agree(sigma):
    ours, theirs = _gaussian("table", sigma, FEWER), _gaussian("opendp", sigma, FEWER)
    edges = np.unique(np.quantile(np.concatenate([ours, theirs]), np.linspace(0, 1, 41)[1:-1]))
    counts = [
        np.bincount(np.searchsorted(edges, x, side="right"), minlength=len(edges) + 1) for x in (ours, theirs)
    ]
    table = np.array(counts)[:, np.sum(counts, axis=0) > 10]
    assert stats.chi2_contingency(table).pvalue > FALSE_ALARM


def test_neighbouring_draws_are_independent():
    for sample in (
        SystemNoise().gaussian(_zeros(MANY), sigma=3.0),
        SystemNoise().laplace(_zeros(MANY), scale=Fraction(3)),
    ):
        for lag in (1, 2, 64):
            together = np.corrcoef(sample[:-lag], sample[lag:])[0, 1] * math.sqrt(len(sample) - lag)
            sizes = np.corrcoef(np.abs(sample[:-lag]), np.abs(sample[lag:]))[0, 1] * math.sqrt(
                len(sample) - lag
            )
            assert abs(together) < 5.2
            assert abs(sizes) < 5.2


@pytest.mark.parametrize("k", [1, 2, 3, 10])
def test_cube_noise_has_the_law_of_its_largest_coordinate(k):
    epsilon = 0.7
    base = prices.cube(epsilon=Fraction(7, 10)).law.base
    noise, draws = SystemNoise(), FEWER
    sample = np.array([noise.cube(_zeros(k), base=base) for _ in range(draws)])
    norms = np.abs(sample).max(axis=1)
    assert fits(norms, cube_norm_pmf(k, epsilon), statistic=lambda r: r)
    assert not fits(norms, cube_norm_pmf(k, 0.95 * epsilon), statistic=lambda r: r)
    assert not fits(norms, cube_norm_pmf(k, 1.05 * epsilon), statistic=lambda r: r)
    _assert_uniform_on_shells(sample, norms)


def _assert_uniform_on_shells(sample: np.ndarray, norms: np.ndarray) -> None:
    """On {max|z| = r} every lattice point is as likely as every other."""
    k = sample.shape[1]
    assert abs(np.sign(sample).sum(axis=0)).max() < 5.5 * math.sqrt(len(sample))
    for r in (1, 2):
        shell = sample[norms == r]
        points = (2 * r + 1) ** k - (2 * r - 1) ** k
        if len(shell) < 10 * points:
            continue
        _, counts = np.unique(shell, axis=0, return_counts=True)
        assert len(counts) == points
        assert stats.chisquare(counts).pvalue > FALSE_ALARM
    # whatever k: the first coordinate, given that another one reaches the largest value, is uniform
    if k > 1:
        r = int(np.median(norms))
        inner = sample[(norms == r) & (np.abs(sample[:, 1:]).max(axis=1) == r), 0]
        assert chi_square(inner, Pmf(-r, np.full(2 * r + 1, 1 / (2 * r + 1)))) > FALSE_ALARM


def _choose(noise, method: str) -> np.ndarray:
    return np.bincount(
        [noise.select(SCORES, scale=2.0, method=method) for _ in range(FEWER)], minlength=len(SCORES)
    )


@pytest.mark.parametrize("noise", [SystemNoise(), SeededNoise(3)], ids=["system", "seeded"])
def test_private_choice_follows_its_own_table_and_not_the_other(noise):
    for method, right, wrong in (
        ("exponential", EXPONENTIAL, PERMUTE_AND_FLIP),
        ("permute-and-flip", PERMUTE_AND_FLIP, EXPONENTIAL),
    ):
        counts = _choose(noise, method)
        assert _fits_table(counts, right)
        assert not _fits_table(counts, wrong)


def _fits_table(counts: np.ndarray, probabilities: tuple[float, ...]) -> bool:
    expected = np.array(probabilities) / sum(probabilities) * counts.sum()
    return float(stats.chisquare(counts, expected).pvalue) > FALSE_ALARM


def test_a_choice_with_half_the_scale_is_seen():
    noise = SystemNoise()
    counts = np.bincount(
        [noise.select(SCORES, scale=1.0, method="exponential") for _ in range(5000)], minlength=4
    )
    assert not _fits_table(counts, EXPONENTIAL)


@pytest.mark.parametrize("value", [2**31 + 5, 2**45, -(2**45)])
def test_exact_values_beyond_32_bits_pass_every_sampler(value):
    """A weighted class counts in steps of 2^-20: numerators beyond 32 bits are ordinary."""
    noise, exact = SystemNoise(), np.array([value, value])
    assert np.abs(noise.laplace(exact, scale=Fraction(3)) - value).max() < 1000
    assert np.abs(noise.gaussian(exact, sigma=3.0) - value).max() < 1000
    assert np.abs(noise.gaussian(exact, sigma=2.0 * WIDE) - value).max() < 100 * WIDE
    assert noise.select(np.array([value, value + 1000]), scale=1.0, method="exponential") == 1
    assert noise.select(np.array([value, value + 1000]), scale=1.0, method="permute-and-flip") == 1


def test_noise_is_added_to_the_exact_values():
    exact = np.arange(1000, dtype=np.int64) * 10_000
    noise = SystemNoise()
    for noisy in (
        noise.laplace(exact, scale=Fraction(2)),
        noise.gaussian(exact, sigma=2.0),
        noise.cube(exact, base=Fraction(1, 2)),
    ):
        assert noisy.dtype == np.int64
        assert np.array_equal(np.round(noisy / 10_000).astype(np.int64) * 10_000, exact)
        assert not np.array_equal(noisy, exact)


def test_nothing_asked_nothing_drawn():
    noise = TableNoise(SystemBits())
    for empty in (
        noise.laplace(_zeros(0), scale=Fraction(1)),
        noise.gaussian(_zeros(0), sigma=1.0),
        noise.cube(_zeros(0), base=Fraction(1, 2)),
    ):
        assert len(empty) == 0
