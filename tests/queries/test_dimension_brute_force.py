"""Dimensions against brute force on random classes: all subsets of points, all labellings, all levels."""

from fractions import Fraction
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maquette.queries import shatter
from maquette.queries.dimension import Dimension, fat_shattering_dimension, shatters, vc_dimension
from maquette.queries.shatter import Split

pytestmark = pytest.mark.law

EIGHTHS = [Fraction(i, 8) for i in range(9)]


def brute_vc(rows: list[tuple[int, ...]]) -> int:
    cells = range(len(rows[0]))
    found = 0
    for size in range(1, len(rows[0]) + 1):
        if any(len({tuple(row[i] for i in s) for row in rows}) == 2**size for s in combinations(cells, size)):
            found = size
    return found


def brute_fat(rows: list[tuple[Fraction, ...]], gamma: Fraction) -> int:
    """Every level at which something changes: all values plus or minus gamma."""
    cells = range(len(rows[0]))
    found = 0
    for size in range(1, min(len(rows[0]), 3) + 1):
        for s in combinations(cells, size):
            levels = [sorted({row[i] + side for row in rows for side in (gamma, -gamma)}) for i in s]
            if any(_every_label(rows, s, chosen, gamma) for chosen in product(*levels)):
                found = size
                break
    return found


def _every_label(rows, s, levels, gamma) -> bool:
    return all(
        any(
            all(
                row[i] >= r + gamma if label else row[i] <= r - gamma
                for i, r, label in zip(s, levels, labels, strict=True)
            )
            for row in rows
        )
        for labels in product((0, 1), repeat=len(s))
    )


def proves(rows: list[tuple], found: Dimension) -> bool:
    """Do the points, levels and witnesses show that the set is shattered?"""
    if len(found.witnesses) != 2**found.value or len(set(found.points)) != found.value:
        return False
    for position, witness in enumerate(found.witnesses):
        for point, level, label in zip(found.points, found.levels, found.labelling(position), strict=True):
            weight = Fraction(rows[witness][point])
            if not (weight >= level + found.gamma if label else weight <= level - found.gamma):
                return False
    return True


@st.composite
def binary(draw):
    cells = draw(st.integers(1, 7))
    row = st.tuples(*[st.integers(0, 1)] * cells)
    return draw(st.lists(row, min_size=1, max_size=40))


@st.composite
def fractional(draw):
    cells = draw(st.integers(1, 3))
    row = st.tuples(*[st.sampled_from(EIGHTHS)] * cells)
    return draw(st.lists(row, min_size=1, max_size=12))


@settings(max_examples=150, deadline=None)
@given(binary())
def test_vc_dimension_equals_brute_force_and_proves_itself(rows):
    found = vc_dimension(rows)
    assert found.value == brute_vc(rows)
    assert proves(rows, found)
    assert len(shatters(rows, found.points)) == 2**found.value


@settings(max_examples=120, deadline=None)
@given(
    fractional(),
    st.sampled_from([Fraction(1, 16), Fraction(1, 8), Fraction(1, 4), Fraction(3, 8), Fraction(1, 2)]),
)
def test_fat_shattering_equals_brute_force_and_proves_itself(rows, gamma):
    found = fat_shattering_dimension(rows, gamma)
    assert found.value == brute_fat(rows, gamma)
    assert proves(rows, found)
    assert len(shatters(rows, found.points, levels=found.levels, gamma=gamma)) == 2**found.value


@settings(max_examples=60, deadline=None)
@given(fractional())
def test_fat_shattering_never_rises_in_gamma(rows):
    values = [fat_shattering_dimension(rows, gamma).value for gamma in EIGHTHS[1:5]]
    assert values == sorted(values, reverse=True)
    assert 2 ** values[0] <= len(set(rows))


@settings(max_examples=60, deadline=None)
@given(binary(), st.sampled_from(EIGHTHS[1:5]))
def test_for_counting_queries_both_dimensions_agree(rows, gamma):
    assert fat_shattering_dimension(rows, gamma).value == vc_dimension(rows).value


def test_the_brute_force_catches_a_search_that_stops_early(monkeypatch):
    """A search that never extends beyond one point must differ from brute force on all labellings of two."""
    rows = [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert vc_dimension(rows).value == brute_vc(rows) == 2

    def shallow(self: object, cells: object, splits: list[Split], chosen: int) -> list[Split]:
        return list(splits) if chosen == 0 else []

    monkeypatch.setattr(shatter._Search, "_promising", shallow)
    assert vc_dimension(rows).value != brute_vc(rows)


def test_the_proof_is_refused_if_a_witness_is_wrong():
    rows = [(0, 0), (0, 1), (1, 0), (1, 1)]
    found = vc_dimension(rows)
    swapped = Dimension(2, found.points, found.levels, found.witnesses[::-1], found.gamma, "search")
    assert proves(rows, found)
    assert not proves(rows, swapped)
