"""Combinations of values: words, what is covered by how many sets, and what the gate refuses to ask."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from maquette.core.any_order import MAX_COLUMNS, MAX_VALUES, Axis, Family, Statistic
from maquette.core.combination_errors import CombinationQuestion, ReleasedRows
from maquette.domain import Attribute, Domain, Kind
from maquette.errors import ParameterError, WorkloadError
from maquette.queries.combinations import COMBINATIONS, able, count, narrower, parts

DOMAIN = Domain(
    (
        Attribute("a", Kind.ORDINAL, codes=4),
        Attribute("b", Kind.CATEGORICAL, codes=2, nullable=True),
        Attribute("wide", Kind.CATEGORICAL, codes=MAX_VALUES + 1),
        Attribute("c", Kind.CATEGORICAL, codes=3),
    )
)
NAMES = ("a", "b", "c")
ROWS = ReleasedRows(NAMES, np.array([[0, 0, 0], [3, 2, 2]], dtype=np.uint16))
ANY = [Statistic(Family.CELL, 64)]


def members(axis: Axis, family: Family) -> set[frozenset[int]]:
    """The sets of one column that a family has."""
    values = range(axis.size)
    sets = {frozenset((v,)) for v in values}
    if family is Family.RANGE and axis.ordered:
        ends = itertools.combinations(range(axis.declared + 1), 2)
        sets |= {frozenset(range(low, high)) for low, high in ends}
    if family is Family.LIST:
        sets |= {frozenset(s) for k in range(axis.size) for s in itertools.combinations(values, k + 1)}
    return sets


def runs_of(codes: frozenset[int]) -> tuple[tuple[int, int], ...]:
    runs: list[tuple[int, int]] = []
    for code in sorted(codes):
        if runs and runs[-1][1] == code - 1:
            runs[-1] = (runs[-1][0], code)
        else:
            runs.append((code, code))
    return tuple(runs)


def fewest(axis: Axis, codes: frozenset[int], family: Family) -> int:
    """By trying: the fewest disjoint sets of a family that make up a set."""
    sets = [s for s in members(axis, family) if s <= codes]
    for k in range(1, len(codes) + 1):
        for chosen in itertools.combinations(sets, k):
            if sum(map(len, chosen)) == len(codes) and frozenset().union(*chosen) == codes:
                return k
    return 0


@pytest.mark.parametrize("family", list(Family))
@pytest.mark.parametrize("axis", [Axis(5, 4, True), Axis(5, 4, False), Axis(4, 2, True), Axis(6, 5, True)])
def test_a_set_is_as_many_members_as_are_needed_or_all_records_less_others(axis, family):
    for k in range(axis.size + 1):
        for values in itertools.combinations(range(axis.size), k):
            inside = frozenset(values)
            outside = frozenset(range(axis.size)) - inside
            terms, whole = parts(axis, runs_of(inside), family)
            if not inside or not outside:
                assert (terms, whole) == (0, int(not outside))
            else:
                assert terms == fewest(axis, outside if whole else inside, family)
                assert terms + whole <= min(fewest(axis, inside, family), 1 + fewest(axis, outside, family))


def test_how_many_cells_there_are():
    sizes = {"a": 4, "b": 3, "c": 3}
    for order in (1, 2, 3, 64):
        listed = sum(
            int(np.prod([sizes[name] for name in chosen]))
            for k in range(1, min(order, 3) + 1)
            for chosen in itertools.combinations(NAMES, k)
        )
        assert count(DOMAIN, NAMES, order) == listed
    assert count(DOMAIN, NAMES, 3) == 5 * 4 * 4 - 1


def test_families_are_nested():
    widest = COMBINATIONS["any combination and a list"]
    assert all(narrower(one, widest) for one in COMBINATIONS.values())
    assert not narrower(
        COMBINATIONS["any combination"], COMBINATIONS["any combination and a list, one column"]
    )
    assert narrower(
        COMBINATIONS["any combination, one column"],
        COMBINATIONS["any combination and a range, up to 2 columns"],
    )
    assert COMBINATIONS["any combination and a list, one column"].says == "any condition on one column"
    assert len({one.says for one in COMBINATIONS.values()}) == len(COMBINATIONS) == 12


def test_columns_with_too_many_values_are_left_out():
    assert able(DOMAIN, DOMAIN.names) == NAMES
    many = Domain(tuple(Attribute(f"x{i}", Kind.BOOLEAN, codes=2) for i in range(MAX_COLUMNS + 1)))
    assert able(many, many.names) == ()


def test_the_request_names_everything_that_decides_the_numbers():
    def request(rows=ROWS, statistics=ANY):
        return CombinationQuestion.of(DOMAIN, rows, statistics).request()

    other = ReleasedRows(NAMES, ROWS.codes[::-1].copy())
    assert request() == request()
    different = [request(other), request(statistics=[Statistic(Family.RANGE, 64)])]
    different += [
        request(statistics=[Statistic(Family.CELL, 64, floor=1)]),
        request(statistics=[*ANY, Statistic(Family.CELL, 1)]),
    ]
    different += [request(ReleasedRows(("b", "c"), ROWS.codes[:, 1:].copy()))]
    assert all(one != request() for one in different)


WRONG = {
    "no rows": ROWS.codes[:0],
    "another type": ROWS.codes.astype(np.int64),
    "a column too few": ROWS.codes[:, :2],
    "a code that is no value": ROWS.codes + np.uint16(1),
    "flat": ROWS.codes.ravel(),
    "no array": ROWS.codes.tolist(),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_rows_that_are_none_are_refused(wrong):
    with pytest.raises(ParameterError):
        CombinationQuestion.of(DOMAIN, ReleasedRows(NAMES, WRONG[wrong]), ANY)


@pytest.mark.parametrize(
    "names",
    [("b", "a", "c"), ("a", "a", "c"), ("a", "b", "nobody"), ["a", "b", "c"], ("a", "b", "wide"), "abc"],
)
def test_columns_that_are_none_are_refused(names):
    with pytest.raises((ParameterError, WorkloadError)):
        CombinationQuestion.of(DOMAIN, ReleasedRows(names, ROWS.codes), ANY)


@pytest.mark.parametrize(
    "statistics",
    [
        [],
        ANY * 2,
        [Statistic(Family.CELL, 64), Statistic(Family.CELL, 64, floor=3)],
        [Statistic(Family.CELL, 0)],
        [Statistic(Family.CELL, 65)],
        [Statistic(Family.CELL, 1, floor=-1)],
        [Statistic(Family.CELL, 1, floor=2**33)],
        [Statistic(0, 1)],  # pyright: ignore[reportArgumentType]
        ["any combination"],
    ],
)
def test_families_that_are_none_are_refused(statistics):
    with pytest.raises(ParameterError):
        CombinationQuestion.of(DOMAIN, ROWS, statistics)
