"""Spending as needed: the chances behind the stated errors, against sums over all noise and against simulation."""

import math

import numpy as np
import pytest

from maquette.errors import ParameterError
from maquette.theory import epochs

REACH = 400


def law(scale: float, reach: int = REACH) -> np.ndarray:
    base = math.exp(-1 / scale)
    return (1 - base) / (1 + base) * base ** np.abs(np.arange(-reach, reach + 1))


def exact(threshold_scale: float, test_scale: float, width: float, tests: int, count: int) -> float:
    """The chance of a hidden error if all tests are made in one epoch on guesses that are off by just too much."""
    shift = np.arange(-REACH, REACH + 1)
    noise = law(test_scale)
    tail = np.cumsum(noise)  # P(noise <= z)
    # near although off by width + 1 more than the threshold: noise < shift - width - 1 + ... in whole records
    place = np.clip(shift - int(width) - 1 + REACH, -1, 2 * REACH)
    single = np.where(place >= 0, tail[np.maximum(place, 0)], 0.0)
    return float((law(threshold_scale) * (1 - (1 - single) ** tests)).sum())


@pytest.mark.parametrize("scales", [(2.0, 4.0), (3.0, 3.0), (5.0, 2.0), (1.0, 6.0)])
@pytest.mark.parametrize("width", [10, 25.5, 60])
@pytest.mark.parametrize("tests", [1, 7, 1000])
def test_the_chance_of_a_hidden_error_is_never_understated(scales, width, tests):
    bound = epochs.miss_probability(
        threshold_scale=scales[0], test_scale=scales[1], width=width, tests=tests, epochs=1
    )
    truth = exact(*scales, width, tests, 1)
    assert truth <= bound * (1 + 1e-9)
    assert bound <= 1


def test_the_bound_is_not_far_above_the_truth_where_it_matters():
    bound = epochs.miss_probability(threshold_scale=4.0, test_scale=8.0, width=150, tests=1000, epochs=1)
    truth = exact(4.0, 8.0, 150, 1000, 1)
    assert 1e-9 < truth < bound < 20 * truth


def test_more_epochs_more_tests_and_less_room_hide_more():
    base = {"threshold_scale": 4.0, "test_scale": 8.0, "width": 150.0, "tests": 1000, "epochs": 10}
    chance = epochs.miss_probability(**base)
    for change in (
        {"tests": 2000},
        {"epochs": 20},
        {"width": 140.0},
        {"test_scale": 9.0},
        {"threshold_scale": 5.0},
    ):
        assert epochs.miss_probability(**base | change) > chance


def test_an_analyst_who_waits_for_a_loose_threshold_gains_nothing():
    """All tests go to the loosest of many epochs; a bound that spread them evenly would be exceeded."""
    rng = np.random.default_rng(1)
    scales, width, tests, count = (6.0, 3.0), 40, 400, 20
    base = [math.exp(-1 / s) for s in scales]
    loosest = (rng.geometric(1 - base[0], (40_000, count)) - rng.geometric(1 - base[0], (40_000, count))).max(
        axis=1
    )
    below = base[1] ** np.maximum(width + 1 - loosest, 0) / (1 + base[1])
    failed = float((1 - (1 - np.minimum(below, 1)) ** tests).mean())
    bound = epochs.miss_probability(
        threshold_scale=scales[0], test_scale=scales[1], width=width, tests=tests, epochs=count
    )
    assert failed <= bound
    even = count * epochs.miss_probability(
        threshold_scale=scales[0], test_scale=scales[1], width=width, tests=tests // count, epochs=1
    )
    assert even < bound


@pytest.mark.parametrize("scale", [0.3, 1.0, 7.5, 200.0])
@pytest.mark.parametrize("p", [0.2, 1e-3, 1e-9])
def test_laplace_noise_stays_within_its_reach(scale, p):
    reach = epochs.laplace_reach(scale, p)
    base = math.exp(-1 / scale)
    beyond = 2 * base ** (math.floor(reach) + 1) / (1 + base)
    assert beyond <= p * (1 + 1e-9)
    fine = 2**-10  # on a finer grid too
    a = math.exp(-fine / scale)
    assert 2 * a ** (math.floor(reach / fine) + 1) / (1 + a) <= p * (1 + 1e-9)


def test_gaussian_noise_stays_within_its_reach():
    sigma, p = 20.0, 1e-4
    z = np.arange(-400, 401)
    weights = np.exp(-(z**2) / (2 * sigma**2))
    reach = epochs.gaussian_reach(sigma, p)
    assert weights[np.abs(z) > reach].sum() / weights.sum() <= p


@pytest.mark.parametrize("unit", ["epsilon", "rho"])
def test_epochs_keep_their_chance_and_their_budget(unit):
    budget = 2.0 if unit == "epsilon" else 0.05
    found = epochs.spend_as_needed(unit=unit, budget=budget, reach=2000, k=5000, beta=0.05)
    assert found.threshold + found.width <= 2000 + 1e-9
    assert found.answer_width <= 2000
    assert found.epochs * found.cost <= budget
    chance = epochs.miss_probability(
        threshold_scale=1 / found.first,
        test_scale=2 * found.cap / found.second,
        width=found.width,
        tests=5000,
        epochs=found.epochs,
    )
    assert chance <= epochs.TEST_FAILURES * 0.05 * (1 + 1e-6)
    cheaper = epochs.spend_as_needed(unit=unit, budget=budget, reach=4000, k=5000, beta=0.05)
    assert cheaper.cost < found.cost
    assert cheaper.epochs > found.epochs


def test_an_error_that_nothing_pays_for_is_refused():
    with pytest.raises(ParameterError, match="accept a larger alpha"):
        epochs.spend_as_needed(unit="epsilon", budget=0.01, reach=100, k=1000, beta=0.05)
    with pytest.raises(ParameterError, match="too small to be tested"):
        epochs.spend_as_needed(unit="epsilon", budget=100.0, reach=2, k=1000, beta=0.05)
    with pytest.raises(ParameterError, match="reach"):
        epochs.spend_as_needed(unit="epsilon", budget=1.0, reach=-5, k=1000, beta=0.05)
