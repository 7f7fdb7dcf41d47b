"""The cover by the fat-shattering dimension: each step of its proof against brute force, in exact numbers."""

import math
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from maquette.errors import ParameterError
from maquette.queries.dimension import fat_shattering_dimension
from maquette.theory import lower

pytestmark = pytest.mark.law


def shattered_pairs(
    functions: list[tuple[int, ...]], levels: int
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Sets of points with levels that the functions pass by one on either side in every pattern; the empty one too."""
    points = range(len(functions[0]))
    found = []
    for size in range(len(functions[0]) + 1):
        for chosen in combinations(points, size):
            for at in product(range(1, levels - 1), repeat=size):
                patterns = {
                    tuple(f[x] > level for x, level in zip(chosen, at, strict=True))
                    for f in functions
                    if all(f[x] != level for x, level in zip(chosen, at, strict=True))
                }
                if len(patterns) == 2**size:
                    found.append((chosen, at))
    return found


def separated(rng: np.random.Generator, points: int, levels: int) -> list[tuple[int, ...]]:
    """A maximal set of functions, every two of them two levels apart somewhere, found in random order."""
    chosen: list[tuple[int, ...]] = []
    every = list(product(range(levels), repeat=points))
    for place in rng.permutation(len(every)):
        one = every[place]
        if all(max(abs(a - b) for a, b in zip(one, other, strict=True)) >= 2 for other in chosen):
            chosen.append(one)
    return chosen


@pytest.mark.parametrize(("points", "levels"), [(1, 3), (1, 8), (2, 3), (2, 5), (3, 3), (3, 4), (4, 3)])
def test_separated_functions_shatter_as_many_pairs_as_the_lemma_says(points, levels):
    rng = np.random.default_rng(points * 10 + levels)
    for _ in range(3):
        functions = separated(rng, points, levels)
        assert len(functions) <= ((levels + 1) // 2) ** points
        for count in {1, len(functions) // 2 + 1, len(functions)}:
            some = functions[:count]
            each = points * (levels - 1) * (levels - 2)
            rounds = min(math.floor(math.log(count) / math.log(each) + 1e-12), points)
            found = shattered_pairs(some, levels)
            assert len(found) >= 2**rounds
            # and the contrapositive, as the bound uses it
            dimension = max(len(chosen) for chosen, _ in found)
            y = sum(math.comb(points, i) * (levels - 2) ** i for i in range(dimension + 1))
            assert len(found) <= y
            enough = math.floor(math.log2(y)) + 1
            assert enough > points or count < each**enough


@pytest.mark.parametrize(
    "gamma", [Fraction(1, 4), Fraction(1, 6), Fraction(1, 8), Fraction(1, 10), Fraction(3, 20)]
)
def test_levels_keep_distances_and_dimensions(gamma):
    """Step 1: weights r apart are two levels apart; what levels shatter strongly, the weights gamma-shatter."""
    rng = np.random.default_rng(5)
    step = 2 * gamma
    levels = math.floor(1 / step) + 1
    for _ in range(12):
        rows = [tuple(Fraction(int(v), 40) for v in rng.integers(0, 41, 3)) for _ in range(7)]
        coded = [tuple(math.floor(w / step) for w in row) for row in rows]
        assert max(max(row) for row in coded) < levels
        for a, b in combinations(range(len(rows)), 2):
            apart = max(abs(x - y) for x, y in zip(rows[a], rows[b], strict=True))
            if apart >= 4 * gamma:
                assert max(abs(x - y) for x, y in zip(coded[a], coded[b], strict=True)) >= 2
        strong = max((len(s) for s, _ in shattered_pairs(coded, levels)), default=0)
        fat = fat_shattering_dimension([list(row) for row in rows], gamma).value
        assert strong <= fat
        radius, log_size = lower.fat_cover(dimension=fat, gamma=gamma, points=3)
        assert radius == pytest.approx(4 * gamma)
        cover: list[tuple[Fraction, ...]] = []
        for row in rows:  # a maximal set r apart covers
            if all(max(abs(x - y) for x, y in zip(row, o, strict=True)) >= 4 * gamma for o in cover):
                cover.append(row)
        assert math.log(len(cover)) <= log_size + 1e-9


def test_the_bound_in_numbers():
    # gamma = 1/8: r = 1/2, b = 5 levels, so 12 s to the power R; dimension 1 on 100 points: y = 1 + 100 * 3, R = 9
    radius, log_size = lower.fat_cover(dimension=1, gamma=Fraction(1, 8), points=100)
    assert radius == 0.5
    assert log_size == pytest.approx(9 * math.log(1200))
    # few points: all functions of every second level
    assert lower.fat_cover(dimension=3, gamma=0.125, points=3)[1] == pytest.approx(3 * math.log(3))
    # a radius of 1 or more covers everything with one function
    assert lower.fat_cover(dimension=5, gamma=0.3, points=10)[1] == 0.0
    large = lower.fat_cover(dimension=3, gamma=0.01, points=2**1000)[1]
    assert math.isfinite(large)
    assert large > lower.fat_cover(dimension=2, gamma=0.01, points=2**1000)[1]


def test_the_long_sum_is_bounded_from_above():
    exact = lower.fat_cover(dimension=1000, gamma=0.05, points=10**6)[1]
    bounded = lower.fat_cover(dimension=1001, gamma=0.05, points=10**6)[1]
    assert exact <= bounded <= 1.3 * exact


def test_what_is_no_dimension_is_refused():
    for wrong in ({"dimension": -1}, {"points": 0}, {"gamma": 0.0}):
        with pytest.raises(ParameterError):
            lower.fat_cover(**{"dimension": 1, "gamma": 0.1, "points": 3} | wrong)
