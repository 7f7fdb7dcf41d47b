"""Borders of the classes of queries: sizes that are refused, constants in disguise, names in another order."""

from __future__ import annotations

import importlib
import itertools
from fractions import Fraction

import numpy as np
import pytest

from maquette.core.binned import Binned, count_binned
from maquette.domain import Attribute, Domain, Kind
from maquette.errors import WorkloadError
from maquette.queries import (
    boxes,
    conjunctions,
    halfspaces,
    marginals,
    names,
    parities,
    thresholds,
    union,
    weights,
    where,
)
from maquette.queries import dimension as dimensions
from maquette.queries import dimension_interval as intervals
from maquette.queries.conjunctions import _nth_combination
from maquette.queries.forms import parse_workload
from maquette.queries.halfspaces import whole_values
from maquette.queries.marginals import Marginals
from maquette.queries.merging import merge
from maquette.queries.predicates import Predicates

HALFSPACES = importlib.import_module("maquette.queries.halfspaces")  # the package names the function
BITS = Domain(tuple(Attribute(name, Kind.ORDINAL, codes=2) for name in "abc"))
NUMBERS = Domain(tuple(Attribute(name, Kind.ORDINAL, codes=4) for name in "xy"))
WORDS = Domain(
    (
        Attribute("w", Kind.CATEGORICAL, categories=tuple("abcdef"), overflow=True),
        Attribute("n", Kind.NUMERIC, bounds=(0, 4), bins=4),
    )
)


# --- predicates ---------------------------------------------------------------------------------------------------


def test_predicates_of_two_domains_are_no_class():
    with pytest.raises(WorkloadError, match="the same domain"):
        Predicates(BITS, (where(BITS, "a = 0"), where(NUMBERS, "x = 0")))


@pytest.mark.parametrize(
    ("text", "box"),
    [
        ("(a = 0 AND b = 0) OR a = 1 OR b = 1", {}),
        ("(a = 0 AND b = 1 OR a = 1 AND b = 0) AND (a = 0 AND b = 0 OR a = 1 AND b = 1)", {"a": ()}),
        ("(a = 0 AND b = 0) OR (a = 0 AND b = 1)", {"a": (0,)}),
        ("(a = 0 AND b = 0) OR (a = 1 AND b = 1)", None),
    ],
)
def test_a_predicate_is_a_box_if_its_records_are_one_however_it_is_written(text, box):
    assert where(BITS, text).box() == box


def test_an_attribute_that_no_predicate_reads_has_twins_only():
    assert where(BITS, "a = 0").twins("c").tolist() == [0, 0]


def test_too_many_names_are_not_said_in_a_predicate(monkeypatch):
    few, many = where(WORDS, "w IN ('a', 'b')"), where(WORDS, "w NOT IN ('a', 'b')")
    assert names.condition_text(WORDS, few.condition) == "w IN ('a', 'b')"
    monkeypatch.setattr(names, "MAX_NAMED_CELLS", 1)
    assert names.condition_text(WORDS, few.condition) is None
    assert names.condition_text(WORDS, where(WORDS, "w IN ('a', 'b') AND n < 2").condition) is None
    assert many.on_histogram(np.ones(WORDS.shape, dtype=np.int64))[0] > 0
    assert names.code_text(WORDS["w"], WORDS["w"].cells).startswith("(w = (other)")


# --- margins --------------------------------------------------------------------------------------------------------


def test_margins_in_another_order_are_those_of_the_domain():
    assert Marginals(BITS, (("b", "a"),)).margins == (("a", "b"),)


def test_the_same_binned_table_is_counted_once():
    table = Binned(("x",), ((0, 2),))
    with pytest.raises(WorkloadError, match="asked for twice"):
        count_binned(NUMBERS, {"x": np.array([0, 1]), "y": np.array([0, 1])}, [table, table])


# --- what repeats ----------------------------------------------------------------------------------------------------


def test_a_workload_without_copies_comes_back_as_it_is():
    merged = merge(marginals(BITS, k=1))
    values = np.arange(6)
    assert merged.saved == 0
    assert merged.expand(values, 10) is values
    errors = values.astype(float)
    assert merged.expand_errors(errors) is errors


def test_a_class_that_cannot_be_listed_is_not_compared():
    wide = Domain((Attribute("t", Kind.ORDINAL, codes=2**40),))
    queries = thresholds(wide, "t")
    assert merge(queries).queries is queries


def test_half_spaces_that_say_the_same_are_asked_once():
    queries = halfspaces(NUMBERS, ["x", "y"], [(1, 1), (2, 2), (1, 0), (1, 0), (1, 0)], [3, 6, 2, 100, -1])
    merged = merge(queries)
    assert merged.queries.count == 2
    rows = {"x": np.array([0, 1, 2, 3]), "y": np.array([3, 1, 0, 2])}
    assert merged.expand(merged.queries.on_rows(rows), 4).tolist() == queries.on_rows(rows).tolist()


def test_weights_of_one_half_everywhere_are_told_apart_by_nothing():
    queries = union(
        weights(BITS, [[0.5, 0.5], [0.5, 0.5], [0.25, 1.0]], attributes=["a"]), marginals(BITS, k=1)
    )
    merged = merge(queries)
    rows = {name: np.array([0, 1, 1]) for name in "abc"}
    asked = merged.queries.on_rows(rows) * (queries.denominator // merged.queries.denominator)
    assert merged.expand(asked, 3 * queries.denominator).tolist() == queries.on_rows(rows).tolist()


# --- dimensions -------------------------------------------------------------------------------------------------------


def test_weights_beyond_64_bits_are_searched_in_whole_numbers():
    tiny = Fraction(1, 2**70)
    matrix = [[tiny, 1 - tiny], [tiny, 1 - tiny], [1 - tiny, tiny]]
    assert dimensions.search_dimension(matrix, Fraction(1, 4)).value == 1


def test_a_matrix_that_is_too_large_to_search_is_refused(monkeypatch):
    monkeypatch.setattr(dimensions, "MAX_SEARCHED_WEIGHTS", 3)
    with pytest.raises(WorkloadError, match="at most 3 weights"):
        intervals.dimension_interval([[0, 1], [1, 0]], Fraction(1, 4))


@pytest.mark.parametrize(
    ("queries", "most"),
    [
        (boxes(NUMBERS, [{"x": (i, j), "y": (0, j)} for i in range(2) for j in range(i, 4)]), 4),
        (halfspaces(NUMBERS, ["x", "y"], [(1, 1), (1, 3), (2, 1), (2, 3)] * 2, [1, 2, 2, 4, 3, 5, 6, 7]), 3),
    ],
)
def test_a_class_with_a_structure_has_a_dimension_that_it_does_not_exceed(queries, most, monkeypatch):
    assert intervals.vc_at_most(queries) == most
    assert intervals.at_most(queries)[0] <= most
    monkeypatch.setattr(dimensions, "MAX_SEARCHED_WEIGHTS", 1)  # no search: what is known without one
    interval = intervals.dimension_interval(queries)
    assert (interval.low.value, interval.high) == (0, intervals.at_most(queries)[0])


def test_parts_that_are_too_large_add_nothing(monkeypatch):
    monkeypatch.setattr(dimensions, "MAX_SEARCHED_WEIGHTS", 1)
    queries = union(boxes(NUMBERS, [{"x": (0, 1)}]), boxes(NUMBERS, [{"y": (0, 1)}, {"y": (1, 2)}]))
    assert intervals.dimension_interval(queries).low.value == 0


def test_parities_of_all_subsets_by_their_short_form():
    queries = parse_workload(BITS, ["parities:a,b"])
    assert queries.count == 4
    rows = {"a": np.array([0, 1, 1]), "b": np.array([1, 1, 0]), "c": np.array([0, 0, 0])}
    numbers = queries.on_rows(rows) / queries.denominator
    assert sorted(numbers.tolist()) == [0.0, 2.0, 2.0, 2.0]
    assert parities(BITS, ["a", "b"]) == queries
    assert dimensions.vc_dimension(parities(BITS, ["a", "b", "c"])).value == 3
    with pytest.raises(WorkloadError, match="two cells each"):
        parities(NUMBERS, ["x"])


def test_half_spaces_over_too_many_values_are_refused(monkeypatch):
    monkeypatch.setattr(HALFSPACES, "MAX_LISTED_VALUES", 3)
    with pytest.raises(WorkloadError, match="declare coarser cells"):
        whole_values(Attribute("never seen before", Kind.ORDINAL, codes=4))


@pytest.mark.parametrize(
    "other", [conjunctions(BITS, 1), thresholds(BITS, "a")], ids=["literals", "thresholds"]
)
def test_a_query_found_in_a_class_that_was_left_out_is_followed_to_where_it_is_asked(other):
    """The second table over a is answered by the first, and the first by the other class, in part by complements."""
    first, second = Marginals(BITS, (("a",),)), Marginals(BITS, (("a",), ("b",)))
    workload = union(other, first, second)
    merged = merge(workload)
    assert merged.queries.count < workload.count - 2
    rows = {name: np.array(bits) for name, bits in zip("abc", ([0, 1, 1], [1, 0, 0], [0, 0, 1]), strict=True)}
    assert merged.expand(merged.queries.on_rows(rows), 3).tolist() == workload.on_rows(rows).tolist()


@pytest.mark.parametrize("size", range(6))
def test_every_combination_is_found_by_its_place(size):
    pool = "abcde"
    expected = [list(one) for one in itertools.combinations(pool, size)]
    assert [_nth_combination(pool, size, place) for place in range(len(expected))] == expected
