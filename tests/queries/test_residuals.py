"""What residuals of integer margins cost, against brute force and direct summation on tiny tables."""

import itertools
import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest

from maquette.core.binned import Binned, count_binned
from maquette.core.residuals import MAX_DENOMINATOR, NEGLIGIBLE, projected_axes, ripple, shift_squared
from maquette.domain import Attribute, Domain, Kind, Relation
from support.privacy_lattice import ProjectedNoise, changes, largest_shift, projected

pytestmark = pytest.mark.law

SHAPES = [shape for k in range(4) for shape in itertools.product((1, 2, 3, 4), repeat=k)]
TINY = [
    ((2,), (0,)),
    ((3,), (0,)),
    ((4,), (0,)),
    ((2, 2), (0,)),
    ((2, 2), (0, 1)),
    ((2, 3), (0,)),
    ((2, 3), (0, 1)),
]
ORDERS = (1.25, 1.5, 2.0, 3.0, 5.0)


def _subsets(shape):
    return itertools.chain.from_iterable(
        itertools.combinations(range(len(shape)), k) for k in range(len(shape) + 1)
    )


@pytest.mark.parametrize("relation", list(Relation))
def test_shift_is_the_largest_over_all_cells_or_pairs_of_cells(relation):
    checked = 0
    for shape in SHAPES:
        for axes in _subsets(shape):
            expected = largest_shift(shape, axes, replace=relation is Relation.REPLACE_ONE)
            assert shift_squared(shape, relation, axes) == expected, (shape, axes)
            checked += 1
    assert checked == sum(4**k * 2**k for k in range(4))


LINES = Domain((Attribute("a", Kind.ORDINAL, codes=4), Attribute("b", Kind.ORDINAL, codes=3)))


@pytest.mark.parametrize("relation", list(Relation))
def test_shift_of_bins_is_the_largest_over_all_records(relation):
    """Counted by the gate's own loop, over every way to cut both attributes into bins and every two records."""
    records = list(itertools.product(range(4), range(3)))
    apart, narrower = 0, 0
    for cuts in itertools.product(_cuts(4), _cuts(3)):
        table = Binned(("a", "b"), cuts)
        counted = []
        for a, b in records:
            columns = {"a": np.array([a], dtype=np.uint8), "b": np.array([b], dtype=np.uint8)}
            counted.append(count_binned(LINES, columns, [table])[0].reshape(table.shape))
        for axes in _subsets(table.shape):
            scale = math.prod(table.shape[axis] for axis in axes)
            points = [projected(one, axes) for one in counted]
            moves = points
            if relation is Relation.REPLACE_ONE:
                moves = [one - other for one, other in itertools.permutations(points, 2)]
            largest = Fraction(max(int((move**2).sum()) for move in moves), scale**2)
            assert largest == shift_squared(table.shape, relation, axes), (cuts, axes)
            apart += 1
            narrower += largest < shift_squared((4, 3), relation, axes)
    assert apart == len(_cuts(4)) * len(_cuts(3)) * 4
    assert narrower > 0  # bins cost less than codes, so what is asserted is not one figure for all


def _cuts(size):
    return [(0, *inner) for k in range(size) for inner in itertools.combinations(range(1, size), k)]


def test_the_add_remove_shift_would_be_caught_under_replace_one():
    wrong = [
        shift_squared(shape, Relation.ADD_REMOVE, axes) < largest_shift(shape, axes, replace=True)
        for shape, axes in TINY
    ]
    assert all(wrong)


@lru_cache
def _noise(shape, axes, variance) -> ProjectedNoise:
    return ProjectedNoise(shape, axes, float(variance))


def _variances(shape, axes):
    """From where the bound says something to where it is nearly nothing."""
    found = []
    for step in range(1, 200):
        variance = Fraction(step, 20)
        bound = ripple(shape, variance, axes)
        if bound < 1 and (not found or bound < found[-1][1] / 20) and bound > Fraction(1, 10**7):
            found.append((variance, bound))
    return found


@pytest.mark.parametrize(("shape", "axes"), TINY)
def test_ripple_bounds_the_projected_law_point_by_point(shape, axes):
    cases = _variances(shape, axes)
    assert len(cases) >= 3
    for variance, bound in cases:
        noise = _noise(shape, axes, variance)
        seen = noise.largest_ripple
        assert seen <= float(bound), (shape, axes, variance)
        # for one axis the bound is right up to its constants; a second axis has a dual with longer vectors only
        assert len(axes) > 1 or float(bound) < 20 * seen + 1e-9


@pytest.mark.parametrize(("shape", "axes"), TINY)
@pytest.mark.parametrize("relation", list(Relation))
def test_projected_noise_keeps_the_charged_rho(shape, axes, relation):
    variance, bound = _variances(shape, axes)[1]
    noise = _noise(shape, axes, variance)
    assert _excess(noise, relation, shift_squared(shape, relation, axes), float(bound)) <= 1e-9


@pytest.mark.parametrize(("shape", "axes"), TINY)
@pytest.mark.parametrize("relation", list(Relation))
def test_a_shift_one_per_cent_too_small_is_caught(shape, axes, relation):
    variance, bound = _variances(shape, axes)[2]
    noise = _noise(shape, axes, variance)
    assert _excess(noise, relation, shift_squared(shape, relation, axes), float(bound)) <= 1e-9
    assert (
        _excess(noise, relation, shift_squared(shape, relation, axes) * Fraction(99, 100), float(bound))
        > 1e-6
    )


def test_the_projected_charge_for_a_variance_below_the_rule_is_caught():
    """Noise too small for the axis: the projected law is far from a lattice Gaussian and costs more."""
    shape, axes, variance = (2,), (0,), Fraction(1, 10)
    assert projected_axes(shape, variance) == ()
    noise = _noise(shape, axes, variance)
    charged = shift_squared(shape, Relation.ADD_REMOVE, axes)
    assert _excess(noise, Relation.ADD_REMOVE, charged, 0.0) > 0.1
    assert _excess(noise, Relation.ADD_REMOVE, shift_squared(shape, Relation.ADD_REMOVE, ()), 0.0) <= 1e-9


def _excess(noise: ProjectedNoise, relation: Relation, charged: Fraction, kappa: float) -> float:
    """By how much the worst divergence passes what was charged (with what the ripple adds to it)."""
    rho = float(charged) / (2 * noise.variance)
    # relabelling the cells of an axis changes neither the law nor the divergence: one change of each kind
    shifts = {tuple(sorted(s.ravel())): s for s in _shifts(noise, relation)}.values()
    return max(
        seen - order * rho - kappa * (2 * order - 1) / (order - 1)
        for shift in shifts
        for order, seen in zip(ORDERS, noise.renyi(shift, ORDERS), strict=True)
    )


def _shifts(noise: ProjectedNoise, relation: Relation) -> list[np.ndarray]:
    return list(changes(noise.sizes, noise.axes, replace=relation is Relation.REPLACE_ONE))


def test_an_unknown_ripple_counts_as_one():
    assert ripple((100,), Fraction(1), (0,)) == 1
    assert ripple((2, 2), Fraction(1, 100), (0, 1)) == 1
    assert ripple((2, 2), Fraction(1, 100), ()) == 0


def test_only_axes_with_a_negligible_ripple_are_projected():
    for shape in [s for s in SHAPES if s] + [(100,), (7, 100), (2, 40, 40), (2000, 3000)]:
        for variance in (Fraction(1, 2), Fraction(5), Fraction(20), Fraction(400), Fraction(10**5)):
            axes = projected_axes(shape, variance)
            assert axes == tuple(sorted(set(axes)))
            assert math.prod(shape[a] for a in axes) <= MAX_DENOMINATOR
            assert ripple(shape, variance, axes) <= NEGLIGIBLE * max(len(axes), 1)
            for axis in set(range(len(shape))) - set(axes):
                left_out = ripple(shape, variance, (axis,)) > NEGLIGIBLE
                too_long = math.prod(shape[a] for a in (*axes, axis)) > MAX_DENOMINATOR
                assert left_out or too_long


def test_ripple_falls_with_the_variance_and_never_to_nothing():
    bounds = [ripple((3, 4), Fraction(v), (0, 1)) for v in (4, 8, 16, 400, 10**6)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] > 0
