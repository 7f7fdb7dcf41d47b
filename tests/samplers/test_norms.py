"""Noise in the norm of a polytope: the levels' law by decimals, the drawn law against a sum over all whole points."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from maquette.core.bodies import Body
from maquette.core.inversion import SystemBits
from maquette.core.noise import BoxLevel, _below, table, whole_point
from support.seeded import SeededBits, SeededNoise

SKEWED = Body((2, 3), ((1, -2), (3, 1)), (4, 5))


def law_of(body, resolution, decay, reach=40):
    """P(z) by summing decay^level over all points within reach."""
    weights = {
        point: float(decay) ** math.ceil(resolution * body.norm(np.array(point)))
        for point in itertools.product(range(-reach, reach + 1), repeat=len(body.box))
    }
    total = math.fsum(weights.values())
    return {point: weight / total for point, weight in weights.items()}


def chi_square(sample, law):
    """The statistic over points that are expected five times or more, and its degrees of freedom."""
    seen = dict.fromkeys(law, 0)
    for point in map(tuple, sample.tolist()):
        seen[point] = seen.get(point, 0) + 1
    expected = {point: p * len(sample) for point, p in law.items()}
    often = [point for point, e in expected.items() if e >= 5]
    rest = len(sample) - sum(expected[p] for p in often), len(sample) - sum(seen[p] for p in often)
    value = (
        sum((seen[p] - expected[p]) ** 2 / expected[p] for p in often) + (rest[1] - rest[0]) ** 2 / rest[0]
    )
    return value, len(often)


@pytest.mark.law
@pytest.mark.parametrize(("resolution", "decay"), [(1, Fraction(1, 2)), (3, Fraction(4, 5))])
def test_the_drawn_law_is_that_of_the_norm(resolution, decay):
    noise = SeededNoise(4)
    zeros = np.zeros(2, dtype=np.int64)
    sample = np.array(
        [noise.norm(zeros, body=SKEWED, resolution=resolution, decay=decay) for _ in range(1500)]
    )
    value, degrees = chi_square(sample, law_of(SKEWED, resolution, decay))
    assert value < degrees + 4 * math.sqrt(2 * degrees)
    wrong, degrees = chi_square(sample, law_of(SKEWED, resolution, decay**2))
    assert wrong > degrees + 8 * math.sqrt(2 * degrees)
    boxed, degrees = chi_square(sample, law_of(Body(SKEWED.box), resolution, decay))
    assert boxed > degrees + 8 * math.sqrt(2 * degrees), "without its facets"


def test_noise_is_added_to_the_exact_values_and_needs_nothing_of_them():
    far = np.array([2**40, -7])
    here, there = (
        SeededNoise(9).norm(exact, body=SKEWED, resolution=2, decay=Fraction(9, 10))
        for exact in (far, np.zeros(2, dtype=np.int64))
    )
    assert (here - far == there).all()


@pytest.mark.parametrize(
    "law",
    [
        BoxLevel((2, 3), 4, Fraction(3, 4)),
        BoxLevel((1,), 1, Fraction(1, 9)),
        BoxLevel((5, 1, 1), 2, Fraction(9, 10)),
    ],
)
def test_weights_of_levels_are_bracketed_and_what_is_left_out_is_bounded(law):
    brackets = law.brackets(128, 60)
    exact = [law.points(j) * law.decay**j * 2**128 for j in range(len(brackets.low))]
    assert all(low <= w <= high for low, w, high in zip(brackets.low, exact, brackets.high, strict=True))
    far = range(len(exact), 3 * len(exact))
    left_out = sum(law.points(j) * law.decay**j for j in far) * 2**128
    assert 0 < left_out <= brackets.right
    assert brackets.right << 60 < sum(brackets.high)


def test_points_of_a_level_are_those_of_its_box():
    law = BoxLevel((2, 3), 4, Fraction(1, 2))
    for level in range(9):
        sides = [2 * math.floor(Fraction(level * side, 4)) + 1 for side in (2, 3)]
        assert law.points(level) == sides[0] * sides[1]


def test_the_one_point_that_was_tried_is_taken_where_it_lies_inside():
    levels = np.array([3], dtype=np.int64)
    points = [whole_point(SeededBits(i), Body((2, 1)), levels, 1) for i in range(8)]
    assert all(point is not None and (np.abs(point) <= [6, 3]).all() for point in points)


def test_products_beyond_64_bits_are_compared_exactly():
    body = Body((2**24, 2**24), ((2**24, -(2**24)),), (2**48,))
    levels = np.full(4096, 2**20)
    bits = SeededBits(3)
    drawn = [whole_point(bits, body, levels[:64], 1) for _ in range(60)]
    points = np.array([point for point in drawn if point is not None], dtype=object)
    assert len(points) > 50
    assert (np.abs(points[:, 0] - points[:, 1]) * 2**24 <= 2**20 * 2**48).all()
    assert (np.abs(points) <= 2**44).all()


def test_numbers_below_different_limits_are_uniform():
    limits = np.tile([1, 3, 2**63 - 1], (3000, 1))
    drawn = _below(SeededBits(5), limits)
    assert (drawn >= 0).all()
    assert (drawn < limits).all()
    assert np.bincount(drawn[:, 1], minlength=3) == pytest.approx([1000] * 3, abs=130)
    assert float(drawn[:, 2].mean()) == pytest.approx(2**62, rel=0.05)


def test_production_draws_from_the_system():
    law = table(BoxLevel(SKEWED.box, 1, Fraction(1, 2)))
    point = whole_point(SystemBits(), SKEWED, law.draw(SystemBits(), 512), 1)
    assert point is not None
    assert point.shape == (2,)


def loss_at_least(decay, *, draws=2500):
    """A lower bound of epsilon, at 99.9 %, from how often a draw looks like that of a neighbour one move away."""
    from scipy.stats import beta

    move = np.array([1, -1])  # of norm 3/4: one of two levels at resolution 2
    noise = SeededNoise(8)

    def looks_moved(exact):
        drawn = [noise.norm(exact, body=SKEWED, resolution=2, decay=decay) for _ in range(draws)]
        return sum(SKEWED.norm(z - move) < SKEWED.norm(z) for z in drawn)

    here, there = looks_moved(np.zeros(2, dtype=np.int64)), looks_moved(move)
    return math.log(beta.ppf(5e-4, there, draws - there + 1) / beta.ppf(1 - 5e-4, here + 1, draws - here))


@pytest.mark.slow
def test_an_audit_finds_no_more_loss_than_was_paid_and_would_find_a_third_of_the_noise():
    """What is paid for at most two levels, at epsilon 1."""
    assert SKEWED.norm(np.array([1, -1])) == Fraction(3, 4)
    paid = Fraction(math.exp(-0.5))
    assert 0.2 < loss_at_least(paid) <= 1
    assert loss_at_least(paid**3) > 1
