"""Shares out of a noisy count and a noisy number of records hold as often as they say, and no more often than that."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from maquette.errors import ParameterError
from maquette.theory import ratios

RUNS, BETA = 200_000, 0.1


def held(counts: np.ndarray, sizes: np.ndarray, p: float, gap: ratios.Gap) -> float:
    """How often p lies in the interval: asked at p alone, and checked against the hull on some of the runs."""
    inside = np.abs(np.clip(counts, 0, sizes) - p * sizes) <= gap(np.array(p))
    for count, size, is_inside in zip(counts[:200], sizes[:200], inside, strict=False):
        (low,), (high,) = ratios.share_between(count, size, gap=gap)
        assert not is_inside or low <= p <= high
    return float(inside.mean())


@pytest.mark.parametrize("p", [0.02, 0.22, 0.5, 0.97])
def test_gaussian_noise_is_covered_exactly(p: float):
    rng, n = np.random.default_rng(3), 2000
    gap = ratios.gaussian_gap(deviation=7.0, size_deviation=15.0, beta=BETA, step=0.0)
    counts, sizes = p * n + 7 * rng.standard_normal(RUNS), n + 15 * rng.standard_normal(RUNS)
    assert held(counts, sizes, p, gap) == pytest.approx(1 - BETA, abs=0.004)
    smaller = ratios.gaussian_gap(deviation=6.0, size_deviation=13.0, beta=BETA, step=0.0)
    assert held(counts, sizes, p, smaller) < 1 - BETA - 0.02


@pytest.mark.parametrize("p", [0.02, 0.5, 0.97])
@pytest.mark.parametrize("scales", [(2.0, 9.0), (5.0, 5.0), (9.0, 2.0), (4.0, 0.0)])
def test_laplace_noise_is_covered(p: float, scales: tuple[float, float]):
    rng, n = np.random.default_rng(4), 3000
    gap = ratios.laplace_gap(scale=scales[0], size_scale=scales[1], beta=BETA, step=0.0)
    counts, sizes = p * n + rng.laplace(0, scales[0], RUNS), n + rng.laplace(0, scales[1], RUNS)
    assert held(counts, sizes, p, gap) == pytest.approx(1 - BETA, abs=0.004)


@pytest.mark.parametrize("scale", [0.5, 0.8, 2.0, 6.5])
@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_draws_on_the_whole_numbers_stay_below_the_continuous_bound_and_their_steps(scale: float, p: float):
    """The exact tail of z1 - p z2 for both discrete laws, with noise of half and twice the scale beside it."""
    whole = np.arange(-300, 301)
    for other in (scale / 2 if scale > 1 else scale, 2 * scale):
        laws = {
            ratios.gaussian_gap(deviation=scale, size_deviation=other, beta=0.01): (
                np.exp(-((whole / scale) ** 2) / 2),
                np.exp(-((whole / other) ** 2) / 2),
            ),
            ratios.laplace_gap(scale=scale, size_scale=other, beta=0.01): (
                np.exp(-np.abs(whole) / scale),
                np.exp(-np.abs(whole) / other),
            ),
        }
        for gap, (first, second) in laws.items():
            chances = np.outer(first / first.sum(), second / second.sum())
            off = np.abs(whole[:, None] - p * whole[None, :])
            assert chances[off > gap(np.array(p))].sum() <= 0.01


@pytest.mark.parametrize("sigma", [0.5, 0.7, 1.0, 3.0, 20.0])
def test_a_discrete_draw_is_at_most_a_continuous_one_and_a_step(sigma: float):
    """The order in distribution that the steps rest on, for the Gaussian law."""
    whole = np.arange(0, math.ceil(30 * sigma))
    weights = np.exp(-((whole / sigma) ** 2) / 2)
    tails = np.cumsum(weights[::-1])[::-1] / (2 * weights.sum() - 1)
    assert np.all(tails[1:] <= norm.sf((whole[1:] - 1) / sigma) + 1e-15)
    assert np.all(tails[1:] >= norm.sf(whole[1:] / sigma) - 1e-15)


@pytest.mark.parametrize("deviations", [(3.0, 15.0), (9.0, 12.0), (20.0, 4.0)])
def test_a_share_that_follows_the_noise_is_covered_too(deviations: tuple[float, float]):
    """Against whoever picks the worst share of all once both draws are known, and not by much more than that."""
    rng = np.random.default_rng(5)
    first, second = (one * rng.standard_normal(RUNS) for one in deviations)
    gap = ratios.dependent_gap(deviation=deviations[0], size_deviation=deviations[1], beta=0.05, step=0.0)
    failed, narrow = np.zeros(RUNS, dtype=bool), np.zeros(RUNS, dtype=bool)
    for p in np.linspace(0, 1, 101):
        failed |= first - p * second < -gap(np.array(p))
        narrow |= first - p * second < -0.93 * gap(np.array(p))
    assert failed.mean() <= 0.05 + 0.0015
    assert narrow.mean() > 0.05


def test_shares_that_follow_the_noise_have_a_convex_gap():
    gap = ratios.dependent_gap(deviation=9.0, size_deviation=12.0, beta=0.05)(np.linspace(0, 1, 401))
    assert np.all(np.diff(gap) >= 0)
    assert np.all(np.diff(gap, 2) >= -1e-9)
    alone = ratios.dependent_gap(deviation=9.0, size_deviation=0.0, beta=0.05)
    assert alone(np.array(1.0)) == alone(np.array(0.0))


def test_bounds_on_both_hold_for_every_share_at_once():
    gap = ratios.joint_gap(error=10.0, size_error=40.0)
    low, high = ratios.share_between([0.0, 220.0, 1000.0], 1000.0, gap=gap)
    assert low == pytest.approx([0, 210 / 1040, 990 / 1040])
    assert high == pytest.approx([10 / 960, 230 / 960, 1])


def test_one_question_of_a_survey_in_numbers():
    """Gaussian noise of (1, 1e-9), a fifth of it for n: 22 % of some 65,000 records."""
    gap = ratios.gaussian_gap(deviation=6.2, size_deviation=12.4, beta=0.05, step=0.0)
    (low,), (high,) = ratios.share_between(14_300, 65_000, gap=gap)
    closed = 1.959964 * math.hypot(6.2, 0.22 * 12.4) / 65_000
    assert (high - low) / 2 == pytest.approx(closed, rel=1e-3)
    assert (high - low) / 2 == pytest.approx(0.000204, abs=1e-6)


def test_no_draw_makes_an_interval_empty_or_absurdly_small():
    """A count far below 0 or above the size is a lucky draw: what it states is no narrower than its noise."""
    gap = ratios.gaussian_gap(deviation=5.0, size_deviation=5.0, beta=0.05, step=0.0)
    low, high = ratios.share_between([-400.0, 0.0, 1000.0, 1400.0], 1000.0, gap=gap)
    assert low[0] == low[1] == 0
    assert high[0] == high[1] == pytest.approx(1.96 * 5 / 1000, rel=1e-2)
    assert high[2] == high[3] == 1
    assert low[2] == low[3] < 1 - 1.9 * math.hypot(5, 5) / 1000


def test_a_size_that_noise_hides_leaves_everything_open():
    gap = ratios.gaussian_gap(deviation=1.0, size_deviation=100.0, beta=0.05)
    for size in (0.0, -3.0, float("nan")):
        low, high = ratios.share_between([5.0], size, gap=gap)
        assert (low[0], high[0]) == (0, 1)
    low, high = ratios.share_between([5.0], 50.0, gap=gap)
    assert (low[0], high[0]) == (pytest.approx(0.01, abs=0.1), 1)


def test_many_questions_share_beta():
    few = ratios.gaussian_gap(deviation=1.0, size_deviation=0.0, beta=0.05, step=0.0)
    many = ratios.gaussian_gap(
        deviation=1.0, size_deviation=0.0, beta=0.05, log_queries=math.log(20), step=0.0
    )
    assert many(np.array(0.5)) == pytest.approx(norm.isf(0.05 / 40))
    assert few(np.array(0.5)) == pytest.approx(norm.isf(0.025))


def test_what_is_no_chance_or_no_noise_is_refused():
    with pytest.raises(ParameterError):
        ratios.gaussian_gap(deviation=1.0, size_deviation=1.0, beta=0.0)
    with pytest.raises(ParameterError):
        ratios.laplace_gap(scale=0.0, size_scale=1.0, beta=0.1)
    with pytest.raises(ParameterError):
        ratios.joint_gap(error=-1.0, size_error=0.0)


@pytest.mark.parametrize("count", [-400.0, 0.0, 5.0, 220.0, 1000.0, 1400.0])
@pytest.mark.parametrize("size", [-3.0, 0.0, 50.0, 1000.0])
def test_one_share_is_that_of_a_list_with_one_count(count, size):
    def gap(share: float) -> float:
        return 30.0 + 10.0 * share

    (low,), (high,) = ratios.share_between([count], size, gap=gap)
    assert ratios.one_share_between(count, size, gap=gap) == pytest.approx((low, high), abs=1e-12)
