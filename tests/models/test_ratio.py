"""Shares whose total is noisy too: the truth is inside as often as stated, and nothing is spent on the total."""

import math

import numpy as np
import pytest

from maquette.models import histogram as ratio

RUNS = 4000


def draws(rng, *, n, share, of_rest, of_total, lean):
    """Counts and totals: the count has its own noise and `lean` times that of the total."""
    total_noise = rng.normal(0, math.sqrt(of_total), RUNS)
    count = share * n + rng.normal(0, math.sqrt(of_rest), RUNS) + lean * total_noise
    return count, n + total_noise


CASES = [
    (share, of_total, lean)
    for share in (0.0, 0.02, 0.5, 1.0)
    for of_total in (0.0, 400.0)
    for lean in (0.0, 0.5)
]


def failures(share, of_total, lean, *, beta, forgotten=False):
    rng = np.random.default_rng(1)
    n, of_rest = 300, 25.0
    failed = 0
    for count, total in zip(
        *draws(rng, n=n, share=share, of_rest=of_rest, of_total=of_total, lean=lean), strict=True
    ):
        low, high = ratio.ends_by_variance(
            count,
            total,
            of_count=of_rest + lean**2 * (0 if forgotten else of_total),
            of_total=0.0 if forgotten else of_total,
            common=0.0 if forgotten else lean * of_total,
            beta=beta,
        )
        failed += not low - 1e-12 <= share <= high + 1e-12
    return failed


@pytest.mark.accuracy
@pytest.mark.parametrize(("share", "of_total", "lean"), CASES)
def test_the_share_is_inside_as_often_as_stated(share, of_total, lean):
    assert failures(share, of_total, lean, beta=0.5) <= 0.5 * RUNS


def test_a_total_whose_noise_is_forgotten_would_be_caught():
    assert failures(0.9, 400.0, 0.0, beta=0.5, forgotten=True) > 0.55 * RUNS


def test_noise_of_a_total_that_the_count_shares_cancels():
    """Half of all records by a count that has half of the total's noise: as if the total were exact."""
    noisy = ratio.ends_by_variance(150, 300, of_count=25 + 100, of_total=400, common=200, beta=0.05)
    exact = ratio.ends_by_variance(150, 300, of_count=25, of_total=0, common=0, beta=0.05)
    apart = ratio.ends_by_variance(150, 300, of_count=25 + 100, of_total=400, common=0, beta=0.05)
    width, least = noisy[1] - noisy[0], exact[1] - exact[0]
    assert least <= width < 1.2 * least < apart[1] - apart[0]


def test_an_exact_total_leaves_the_noise_of_the_count():
    low, high = ratio.ends_by_variance(30, 100, of_count=4.0, of_total=0.0, common=0.0, beta=0.05)
    reach = 2 * math.sqrt(2 * math.log(40)) / 100
    assert (low, high) == pytest.approx((0.3 - reach, 0.3 + reach))


def test_a_total_that_could_be_nothing_says_nothing():
    assert ratio.ends_by_variance(3, 10, of_count=1.0, of_total=25.0, common=0.0, beta=0.05) == (0.0, 1.0)
    assert ratio.ends_by_bounds(3, 0, noise=1.0, size_error=1.0, lean=0.0) == (0.0, 1.0)


def test_bounds_hold_for_all_noise_that_they_allow():
    rng = np.random.default_rng(2)
    for _ in range(3000):
        n, share, lean = int(rng.integers(1, 200)), rng.random(), rng.random()
        noise, size_error = 20 * rng.random(), 30 * rng.random()
        of_count, of_total = rng.choice([-1, 1, rng.uniform(-1, 1)], 2) * (noise, size_error)
        count, total = share * n + of_count + lean * of_total, n + of_total
        low, high = ratio.ends_by_bounds(count, total, noise=noise, size_error=size_error, lean=lean)
        assert low - 1e-9 <= share <= high + 1e-9


def test_bounds_count_the_error_of_the_total_by_the_share():
    small = ratio.ends_by_bounds(10, 1000, noise=5.0, size_error=100.0, lean=0.0)
    assert small[1] - small[0] < 0.02  # five records and a hundredth of the hundred, not a hundred
    beyond = ratio.ends_by_bounds(-50, 1000, noise=5.0, size_error=0.0, lean=0.0)
    assert beyond == (0.0, 0.0)
