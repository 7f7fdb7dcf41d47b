"""Inequalities for sums, against exact laws; the printed one where it holds and where it fails; one coin a person."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from maquette import lessons
from maquette.errors import ParameterError
from maquette.theory import tails


def binomial(rows: int, chance: float) -> list[float]:
    return [math.comb(rows, s) * chance**s * (1 - chance) ** (rows - s) for s in range(rows + 1)]


@pytest.mark.parametrize(("rows", "chance"), [(1, 0.1), (5, 0.5), (20, 0.3), (60, 0.05)])
def test_exact_tails_of_counts_are_within_the_bounds(rows, chance):
    law, mean = binomial(rows, chance), rows * chance
    for alpha in (0.05, 0.2, 0.5, 1.0, 2.0, 5.0, 8.9):
        far = sum(p for s, p in enumerate(law) if abs(s - mean) >= rows * alpha - 1e-12)
        assert far <= tails.hoeffding(rows=rows, alpha=alpha) + 1e-12
        above = sum(p for s, p in enumerate(law) if s >= (1 + alpha) * mean - 1e-12)
        assert above <= tails.chernoff_above(mean=mean, alpha=alpha) + 1e-12
        if alpha <= tails.chernoff_printed_limit():
            assert tails.chernoff_above(mean=mean, alpha=alpha) <= tails.chernoff_printed(
                mean=mean, alpha=alpha
            )
        if alpha <= 1:
            below = sum(p for s, p in enumerate(law) if s <= (1 - alpha) * mean + 1e-12)
            assert below <= tails.chernoff_below(mean=mean, alpha=alpha) + 1e-12


def test_the_upper_tail_that_is_printed_for_all_alpha_fails():
    """One row that counts with probability 0.1 is at 9.9 times its mean, and beyond, with probability 0.1."""
    assert tails.chernoff_printed(mean=0.1, alpha=8.9) == pytest.approx(0.0713, abs=1e-4)
    assert tails.chernoff_printed(mean=0.1, alpha=8.9) < 0.1 <= tails.chernoff_above(mean=0.1, alpha=8.9)
    limit = tails.chernoff_printed_limit()
    assert limit == pytest.approx(1.8170, abs=1e-4)
    assert tails.chernoff_printed(mean=50.0, alpha=limit + 0.1) < tails.chernoff_above(
        mean=50.0, alpha=limit + 0.1
    )
    with pytest.raises(ParameterError, match="alpha <= 1"):
        tails.chernoff_below(mean=1.0, alpha=1.5)


def test_azuma_needs_no_independence():
    """Every walk of ten steps whose size depends on where it is, listed; at equal numbers it is Hoeffding's bound."""
    ends: list[float] = []
    for signs in itertools.product((-1, 1), repeat=10):
        place = 0.0
        for sign in signs:
            place += sign * (0.5 if place >= 0 else 0.25)
        ends.append(place)
    for deviation in (0.5, 1.0, 2.0, 3.0, 4.0):
        share = sum(abs(end) >= deviation for end in ends) / len(ends)
        assert share <= tails.azuma(steps=10, deviation=deviation, width=1.0)
    assert tails.azuma(steps=40, deviation=8.0) == pytest.approx(tails.hoeffding(rows=40, alpha=0.2))
    wide = sum(abs(4 * end) >= 3.0 for end in ends) / len(ends)
    assert wide > tails.azuma(steps=10, deviation=3.0, width=1.0) / 2  # wider steps go farther


def test_a_coin_of_ones_own_is_private_by_itself():
    single = lessons.randomised_response(1, 0, people=1, epsilon=0.7)
    assert single.log_ratios == pytest.approx((-0.7, 0.7))
    assert single.here[1] == tails.honest_share(epsilon=0.7)
    crowd = lessons.randomised_response(5, 6, people=20, epsilon=0.7)
    assert sum(crowd.here) == pytest.approx(1.0)
    assert crowd.worst <= 0.7 + 1e-12
    assert crowd.delta(0.7) == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(ParameterError, match="no more who mean yes"):
        lessons.randomised_response(3, 4, people=3, epsilon=1.0)


def test_the_error_of_randomised_response_holds_and_needs_its_scale():
    rng, n, yes, epsilon = np.random.default_rng(3), 2000, 600, 1.0
    honest = tails.honest_share(epsilon=epsilon)
    said = rng.binomial(yes, honest, 2000) + rng.binomial(n - yes, 1 - honest, 2000)
    errors = np.abs((said / n - (1 - honest)) / (2 * honest - 1) - yes / n)
    bound = tails.randomised_response(n=n, epsilon=epsilon, log_queries=0.0, beta=0.05)
    assert (errors > bound).mean() <= 0.05
    assert (errors > bound / 3).mean() > 0.05  # the check can fail
    many = tails.randomised_response(n=n, epsilon=epsilon, log_queries=math.log(10), beta=0.05)
    assert many > 10 * bound  # a tenth of epsilon each
    assert bound > 10 * math.log(1 / 0.05) / (epsilon * n)  # what a trusted curator's Laplace noise states
