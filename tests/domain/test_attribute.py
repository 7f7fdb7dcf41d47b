"""One declared column: its cells, its codes and its values, and every declaration that is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maquette.domain import MISSING, OTHER, Attribute, Kind
from maquette.errors import DomainError

REFUSED = {
    "no name": ({"name": ""}, "needs a name"),
    "name is no text": ({"name": 3}, "needs a name"),
    "space around the name": ({"name": " age"}, "needs a name without space"),
    "unknown kind": ({"kind": "wavelength"}, "kind is one of categorical, ordinal, numeric, boolean"),
    "two forms": ({"categories": ("a",), "codes": 2}, "exactly one of"),
    "no form": ({"categories": None}, "exactly one of"),
    "bins without bounds": ({"bins": 3}, "go together"),
    "bounds without bins": ({"categories": None, "bounds": (0, 1)}, "are for numeric"),
    "numeric by categories": ({"kind": Kind.NUMERIC}, "needs bounds, or edges"),
    "bounds of a categorical": ({"categories": None, "bounds": (0, 1), "bins": 2}, "are for numeric"),
    "edges of a categorical": ({"categories": None, "edges": (0, 1)}, "are for numeric"),
    "empty categories": ({"categories": ()}, "empty list"),
    "a category twice": ({"categories": ("a", "a")}, "lists a category twice"),
    "a category in two spellings": ({"categories": (1, 1.0)}, "lists a category twice"),
    "a category that is no scalar": ({"categories": (("a",), "b")}, "categories are texts"),
    "a category that is not finite": ({"categories": (1.0, math.nan)}, "categories are texts"),
    "size zero": ({"categories": None, "codes": 0}, "size >= 1"),
    "size is a truth value": ({"categories": None, "codes": True}, "size is a whole number"),
    "size is a fraction": ({"categories": None, "codes": 2.5}, "size is a whole number"),
    "three truth values": ({"kind": Kind.BOOLEAN, "categories": ("a", "b", "c")}, "needs 2 values, got 3"),
    "integer categories": ({"integer": True}, "integer is for numeric"),
}

REFUSED_NUMERIC = {
    "low above high": ({"bounds": (1, 0)}, "low < high"),
    "low equals high": ({"bounds": (1, 1)}, "low < high"),
    "infinite": ({"bounds": (0, math.inf)}, "finite bounds"),
    "not a number": ({"bounds": (0, math.nan)}, "finite bounds"),
    "three bounds": ({"bounds": (0, 1, 2)}, "finite bounds"),
    "text": ({"bounds": ("0", "1")}, "finite bounds"),
    "no bins": ({"bins": 0}, "bins >= 1"),
    "bins is a fraction": ({"bins": 1.5}, "bins is a whole number"),
    "far too large": ({"bounds": (-1e300, 1e300)}, "within"),
    "too narrow": ({"bounds": (1e15, 1e15 + 1), "bins": 100}, "too narrow to tell apart"),
    "one edge": ({"bounds": None, "bins": None, "edges": (1,)}, "at least two"),
    "edges fall": ({"bounds": None, "bins": None, "edges": (1, 3, 2)}, "increasing"),
    "edges repeat": ({"bounds": None, "bins": None, "edges": (1, 1)}, "increasing"),
    "an edge is infinite": ({"bounds": None, "bins": None, "edges": (1, math.inf)}, "finite"),
    "whole numbers between cells": (
        {"bounds": (0, 1), "bins": 10, "integer": True},
        "some of its cells hold none",
    ),
    "whole numbers between edges": (
        {"bounds": None, "bins": None, "edges": (0, 0.5, 0.7, 9), "integer": True},
        "some of its cells hold none",
    ),
}


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_a_wrong_declaration_is_refused(case: str):
    change, words = REFUSED[case]
    given = {"name": "x", "kind": Kind.CATEGORICAL, "categories": ("a", "b")} | change
    with pytest.raises(DomainError, match=words):
        Attribute(**given)


@pytest.mark.parametrize("case", REFUSED_NUMERIC, ids=str)
def test_wrong_bounds_are_refused(case: str):
    change, words = REFUSED_NUMERIC[case]
    given = {"name": "x", "kind": Kind.NUMERIC, "bounds": (0, 1), "bins": 2} | change
    with pytest.raises(DomainError, match=words):
        Attribute(**given)


def test_words_and_lists_are_settled_so_that_equal_declarations_are_equal():
    loose = Attribute("x", "ordinal", categories=["a", "b"])
    assert loose == Attribute("x", Kind.ORDINAL, categories=("a", "b"))
    assert hash(loose) == hash(Attribute("x", Kind.ORDINAL, categories=("a", "b")))


@pytest.mark.parametrize(
    ("nullable", "overflow", "size", "missing", "unknown"),
    [(False, False, 2, 0, 0), (True, False, 3, 2, 2), (False, True, 3, 2, 2), (True, True, 4, 3, 2)],
)
def test_overflow_comes_after_the_cells_and_null_last(nullable, overflow, size, missing, unknown):
    a = Attribute("x", Kind.CATEGORICAL, categories=("a", "b"), nullable=nullable, overflow=overflow)
    assert (a.cells, a.size, a.missing_code, a.unknown_code) == (2, size, missing, unknown)
    assert a.overflow_cell == (2 if overflow else None)
    assert a.null_cell == (2 + overflow if nullable else None)


def test_sizes_are_exact_however_large():
    assert Attribute("x", Kind.CATEGORICAL, codes=2**64, nullable=True).size == 2**64 + 1


@pytest.mark.parametrize(
    ("value", "code"),
    [(0, 0), (0.1, 1), (0.3, 3), (0.7, 7), (1, 9), (-5, 0), (5, 9), (math.inf, 9), (-math.inf, 0)],
)
def test_borders_belong_to_the_cell_on_their_right_and_the_outside_clamps(value, code):
    a = Attribute("x", Kind.NUMERIC, bounds=(0, 1), bins=10)
    assert a.bin_index(np.array([value])) == [code]


def test_outside_values_go_to_the_overflow_cell_and_nan_is_missing():
    a = Attribute("x", Kind.NUMERIC, edges=(0, 1, 10), nullable=True, overflow=True)
    found = a.bin_index(np.array([-1, 0, 1, 10, 10.5, math.inf, -math.inf, math.nan, -0.0]))
    assert found.tolist() == [2, 0, 1, 1, 2, 2, 2, 3, 0]


def test_whole_borders_are_exact():
    # 7 * (3 / 21) and the like would miss some of them by one unit in the last place
    for high in range(1, 60):
        a = Attribute("x", Kind.NUMERIC, bounds=(0, high), bins=3 * high)
        assert [a.edge(3 * i) for i in range(high + 1)] == list(range(high + 1))


def numeric_attributes() -> st.SearchStrategy[Attribute]:
    number = st.floats(-1e6, 1e6, allow_nan=False).map(lambda v: round(v, 6))
    flags = {"nullable": st.booleans(), "overflow": st.booleans()}

    def bounded(low: float, width: float, bins: int, **kw: bool) -> Attribute:
        return Attribute("x", Kind.NUMERIC, bounds=(low, low + width), bins=bins, **kw)

    def edged(edges: set[float], **kw: bool) -> Attribute:
        return Attribute("x", Kind.NUMERIC, edges=tuple(sorted(edges)), **kw)

    return st.one_of(
        st.builds(bounded, number, st.floats(1e-3, 1e6), st.integers(1, 300), **flags),
        st.builds(edged, st.sets(number, min_size=2, max_size=20), **flags),
    )


@pytest.mark.slow
@given(a=numeric_attributes(), values=st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=30))
def test_binning_is_total_and_agrees_with_the_edges(a: Attribute, values: list[float]):
    near = [e + d for i in range(a.cells + 1) for e in [a.edge(i)] for d in (0, math.ulp(e), -math.ulp(e))]
    points = np.array(values + near)
    codes = a.bin_index(points)
    assert ((codes >= 0) & (codes < a.size)).all()
    low, high = a.edge(0), a.edge(a.cells)
    for value, code in zip(points, codes, strict=True):
        if math.isnan(value):
            assert code == a.missing_code
        elif low <= value <= high:
            assert a.edge(code) <= value
            assert value < a.edge(code + 1) or (code == a.cells - 1 and value == high)
        elif a.overflow:
            assert code == a.overflow_cell
        else:
            assert code == (0 if value < low else a.cells - 1)


@given(a=numeric_attributes(), seed=st.integers(0, 2**32 - 1))
def test_what_is_decoded_codes_back_to_its_cell(a: Attribute, seed: int):
    codes = np.arange(a.cells)
    middle, missing = a.decode(codes)
    assert not missing.any()
    assert a.bin_index(middle.astype(float)).tolist() == codes.tolist()
    drawn, _ = a.decode(codes, how="uniform", rng=np.random.default_rng(seed))
    assert a.bin_index(drawn.astype(float)).tolist() == codes.tolist()


class LargestShare(np.random.Generator):
    """Draws the largest number below one: the worst case for rounding over a border."""

    def __init__(self) -> None:
        super().__init__(np.random.PCG64(0))

    def random(self, size=None, dtype=np.float64, out=None):
        return np.full(size, np.nextafter(1.0, 0.0))


@given(a=numeric_attributes())
def test_the_largest_draw_stays_in_its_cell(a: Attribute):
    codes = np.arange(a.cells)
    drawn, _ = a.decode(codes, how="uniform", rng=LargestShare())
    assert a.bin_index(drawn.astype(float)).tolist() == codes.tolist()


@given(
    low=st.integers(-1000, 1000),
    bins=st.integers(1, 40),
    width=st.integers(1, 9),
    seed=st.integers(0, 2**32 - 1),
)
def test_whole_numbers_decode_to_whole_numbers_of_their_cell(low, bins, width, seed):
    a = Attribute("x", Kind.NUMERIC, bounds=(low, low + bins * width), bins=bins, integer=True)
    codes = np.repeat(np.arange(bins), 5)
    for values, _ in (a.decode(codes), a.decode(codes, how="uniform", rng=np.random.default_rng(seed))):
        assert values.dtype == np.int64
        assert a.bin_index(values.astype(float)).tolist() == codes.tolist()


def test_every_whole_number_of_a_cell_is_drawn():
    a = Attribute("x", Kind.NUMERIC, bounds=(0, 9), bins=3, integer=True)
    values, _ = a.decode(np.full(500, 2), how="uniform", rng=np.random.default_rng(1))
    assert set(values.tolist()) == {6, 7, 8, 9}  # the last cell is closed on the right


def test_ten_whole_numbers_fit_ten_cells_narrower_than_one():
    a = Attribute("x", Kind.NUMERIC, bounds=(0, 9), bins=10, integer=True)
    assert a.decode(np.arange(10))[0].tolist() == list(range(10))


def test_cells_one_wide_hold_whole_numbers_only_if_declared():
    a = Attribute("age", Kind.NUMERIC, bounds=(17, 91), bins=74)
    assert a.one_wide
    assert a.decode(np.array([0, 73]))[0].tolist() == [17.5, 90.5]
    assert (a.label(0), a.label(73)) == ("[17, 18)", "[90, 91]")
    declared = Attribute("age", Kind.NUMERIC, bounds=(17, 91), bins=74, integer=True)
    assert not declared.one_wide
    assert declared.decode(np.array([0, 72, 73]))[0].tolist() == [17, 89, 91]  # the last cell holds 90 and 91
    assert (declared.label(0), declared.label(72), declared.label(73)) == ("17", "89", "[90, 91]")


def test_a_last_cell_that_ends_between_whole_numbers_holds_one():
    a = Attribute("x", Kind.NUMERIC, bounds=(-0.5, 4.5), bins=5, integer=True)
    assert [a.label(i) for i in range(5)] == ["0", "1", "2", "3", "4"]


def test_uniform_decoding_needs_a_generator():
    a = Attribute("x", Kind.NUMERIC, bounds=(0, 1), bins=2)
    with pytest.raises(DomainError, match="needs a generator"):
        a.decode(np.array([0]), how="uniform")


def test_categories_decode_to_themselves_other_to_a_word_and_missing_is_marked():
    a = Attribute("x", Kind.CATEGORICAL, categories=("a", "b"), nullable=True, overflow=True)
    values, missing = a.decode(np.array([0, 1, 2, 3]))
    assert values.tolist()[:3] == ["a", "b", OTHER]
    assert missing.tolist() == [False, False, False, True]


def test_other_numbers_are_missing_numbers():
    a = Attribute("x", Kind.ORDINAL, categories=(10, 20), nullable=True, overflow=True)
    values, missing = a.decode(np.array([0, 1, 2, 3]))
    assert values.tolist()[:2] == [10, 20]
    assert missing.tolist() == [False, False, True, True]


def test_the_largest_codes_decode_exactly():
    a = Attribute("x", Kind.ORDINAL, codes=2**64 - 1, nullable=True)
    values, missing = a.decode(np.array([0, 2**64 - 2, 2**64 - 1], dtype=np.uint64))
    assert values.tolist()[:2] == [0, 2**64 - 2]
    assert missing.tolist() == [False, False, True]


def test_labels_say_the_cell():
    a = Attribute("x", Kind.NUMERIC, bounds=(0, 1), bins=4, nullable=True, overflow=True)
    assert [a.label(i) for i in range(a.size)] == [
        "[0, 0.25)", "[0.25, 0.5)", "[0.5, 0.75)", "[0.75, 1]", OTHER, MISSING,
    ]  # fmt: skip
    assert Attribute("c", Kind.CATEGORICAL, categories=("a", 2)).label(1) == "2"
    assert Attribute("c", Kind.CATEGORICAL, codes=5).label(3) == "3"


def test_labels_of_large_neighbouring_cells_differ():
    a = Attribute("x", Kind.NUMERIC, bounds=(1_000_000, 1_000_100), bins=10)
    assert len({a.label(i) for i in range(10)}) == 10


def test_order_is_for_numbers_and_ordinals():
    assert Attribute("x", Kind.ORDINAL, codes=3).ordered
    assert Attribute("x", Kind.NUMERIC, bounds=(0, 1), bins=2).ordered
    assert not Attribute("x", Kind.CATEGORICAL, codes=3).ordered
    assert not Attribute("x", Kind.BOOLEAN, codes=2).ordered
