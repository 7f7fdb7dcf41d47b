"""Small databases exist: how many there are, and how near the best one is to any table."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maquette.errors import ParameterError
from maquette.theory import existence
from maquette.theory.existence import Facts, log_multisets, log_sequences, log_tree

# --- the range ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("universe", "rows", "multisets", "sequences"),
    [
        (16, 20, 21.90128776, 55.45177444),
        (256, 92, 197.66215090, 510.15632489),
        (1000, 5, 29.76126969, 34.53877639),
    ],
)
def test_the_range_has_the_printed_size(universe, rows, multisets, sequences):
    assert log_multisets(universe=universe, rows=rows) == pytest.approx(multisets, rel=0, abs=5.000001e-9)
    assert log_sequences(universe=universe, rows=rows) == pytest.approx(sequences, rel=0, abs=5.000001e-9)


@pytest.mark.slow
@settings(max_examples=200)
@given(st.integers(1, 2**80), st.integers(0, 600))
def test_the_range_is_the_binomial_coefficient(universe, rows):
    exact = math.log(math.comb(universe + rows - 1, rows))
    assert log_multisets(universe=universe, rows=rows) == pytest.approx(exact, rel=1e-13, abs=1e-13)


def test_the_range_is_precise_where_the_textbook_formula_has_no_digits_left():
    universe, rows = 2**64, 1000
    exact = math.log(math.comb(universe + rows - 1, rows))
    textbook = math.lgamma(universe + rows) - math.lgamma(rows + 1) - math.lgamma(universe)
    assert log_multisets(universe=universe, rows=rows) == pytest.approx(exact, rel=1e-14)
    assert abs(textbook - exact) > 1


def test_the_range_of_a_universe_beyond_the_doubles():
    universe = 10**400
    assert log_multisets(universe=universe, rows=100) == pytest.approx(
        math.log(math.comb(universe + 99, 100)), rel=1e-13
    )


def databases(cells: int, rows: int):
    """All multisets of rows, as counts."""
    if cells == 1:
        yield (rows,)
        return
    for first in range(rows + 1):
        for rest in databases(cells - 1, rows - first):
            yield (first, *rest)


def tree_mass(counts: tuple[int, ...]) -> float:
    """The mass of one database under the tree base, by its definition."""
    if len(counts) == 1:
        return 1.0
    left, right = counts[: len(counts) // 2], counts[len(counts) // 2 :]
    a, c = sum(left), sum(counts)
    split = math.comb(2 * a, a) * math.comb(2 * (c - a), c - a) / 4**c
    return split * tree_mass(left) * tree_mass(right)


@pytest.mark.parametrize("universe", [1, 2, 4, 8, 3, 5])
@pytest.mark.parametrize("rows", [0, 1, 2, 3, 4, 5])
def test_the_tree_gives_no_database_less_than_stated(universe, rows):
    masses = [tree_mass(y) for y in databases(universe, rows)]
    assert math.fsum(masses) == pytest.approx(1)
    stated = log_tree(universe=universe, rows=rows)
    worst = -math.log(min(masses))
    assert worst <= stated + 1e-9
    if universe & (universe - 1) == 0:
        assert stated == pytest.approx(worst, abs=1e-9)


def test_the_tree_over_a_vast_universe_is_cheap_and_grows_smoothly():
    values = [log_tree(universe=2**64, rows=m) for m in range(1, 400)]
    steps = [b - a for a, b in pairwise(values)]
    assert values[0] == pytest.approx(64 * math.log(2))
    assert all(later <= earlier + 1e-7 for earlier, later in pairwise(steps))  # concave
    assert all(log_tree(universe=2**64, rows=m) < log_sequences(universe=2**64, rows=m) for m in (2, 10, 300))


# --- existence ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("queries", "alpha", "rows"),
    [
        (1, 0.1, 35),
        (2, 0.1, 70),
        (100, 0.1, 265),
        (1000, 0.05, 1521),
        (1e6, 0.01, 72544),
        (100, 1, 3),
        (100, 2, 1),
    ],
)
def test_rows_by_sampling(queries, alpha, rows):
    assert existence.sampling_rows(alpha=alpha, log_queries=math.log(queries)) == rows
    assert existence.sampling(rows=rows, log_queries=math.log(queries)) <= alpha


def best_error(x: tuple[int, ...], rows: int, queries: list[tuple[int, ...]]) -> float:
    """The least error of any small database, by enumeration."""
    n = sum(x)
    return min(
        max(abs(sum(q[i] * (x[i] / n - y[i] / rows) for i in range(len(x)))) for q in queries)
        for y in databases(len(x), rows)
    )


def subsets(cells: int) -> list[tuple[int, ...]]:
    return [tuple(mask >> i & 1 for i in range(cells)) for mask in range(2**cells)]


TABLES = st.lists(st.integers(0, 7), min_size=2, max_size=5).filter(lambda x: sum(x) > 0).map(tuple)


@settings(max_examples=40, deadline=None)
@given(TABLES, st.integers(1, 5))
def test_every_form_holds_for_every_table(x, rows):
    cells = len(x)
    every = subsets(cells)
    assert best_error(x, rows, every) <= existence.rounding(rows=rows, universe=cells) + 1e-12
    assert (
        best_error(x, rows, every) <= existence.sampling(rows=rows, log_queries=cells * math.log(2)) + 1e-12
    )
    prefixes = [tuple(int(i <= j) for i in range(cells)) for j in range(cells)]
    assert best_error(x, rows, prefixes) <= existence.thresholds(rows=rows) + 1e-12
    runs = [tuple(int(a <= i <= b) for i in range(cells)) for a in range(cells) for b in range(a, cells)]
    assert best_error(x, rows, runs) <= existence.intervals(rows=rows) + 1e-12
    assert sum(x) > 8 or best_error(x, sum(x), every) <= 1e-12  # form c


@settings(max_examples=40, deadline=None)
@given(TABLES, st.integers(1, 5), st.sampled_from([(0.0, 1.0), (0.0, 0.25), (0.5, 0.375), (0.75, 2**-8)]))
def test_forms_of_narrow_weights_hold_for_every_table(x, rows, within):
    """Weights between a and a + D: the forms are D times those of counting queries."""
    least, d = within
    every = [tuple(least + d * weight for weight in query) for query in subsets(len(x))]
    known = Facts(universe=len(x), log_queries=len(x) * math.log(2), span=d)
    error = best_error(x, rows, every)
    assert {form.letter for form in existence.forms(known)} == {"a", "b"}
    assert all(error <= form.alpha(rows) + 1e-12 for form in existence.forms(known))


def test_rounding_and_thresholds_are_attained():
    assert best_error((1, 1), 1, subsets(2)) == existence.rounding(rows=1, universe=2) == 0.5
    assert best_error((1, 1, 1, 1), 2, subsets(4)) == existence.rounding(rows=2, universe=4) == 0.5
    assert best_error((1, 1), 1, [(1, 0), (1, 1)]) == existence.thresholds(rows=1)


def test_a_smaller_constant_would_be_refuted():
    assert best_error((1, 1, 1, 1), 2, subsets(4)) > 0.99 * existence.rounding(rows=2, universe=4)
    assert best_error((1, 1), 1, [(1, 0), (1, 1)]) > 0.99 * existence.thresholds(rows=1)


def test_a_form_is_offered_only_where_it_applies():
    plain = Facts(universe=16, log_queries=math.log(100))
    assert {form.letter for form in existence.forms(plain)} == {"a", "b"}
    assert {form.letter for form in existence.forms(replace(plain, universe=10**30))} == {"a"}
    known = replace(plain, log_queries=math.log(1e9), vc=2, shape="intervals", covers=((0.1, 3.0),))
    assert {form.letter for form in existence.forms(known)} == set("abdefg")
    assert {form.letter for form in existence.forms(known, only="bf")} == {"b", "f"}
    few = replace(
        plain, log_queries=math.log(2), vc=2
    )  # fewer queries than behaviours: form d says nothing new
    assert {form.letter for form in existence.forms(few)} == {"a", "b", "e"}


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({"universe": 0, "log_queries": 1.0}, "universe"),
        ({"universe": 4, "log_queries": -0.1}, "at least one query"),
        ({"universe": 4, "log_queries": math.nan}, "at least one query"),
        ({"universe": 4, "log_queries": math.inf}, "class without end"),
        ({"universe": 4, "log_queries": 1.0, "span": 1.5}, "span"),
        ({"universe": 4, "log_queries": 1.0, "vc": -1}, "vc"),
        ({"universe": 4, "log_queries": 1.0, "shape": "circles"}, "shape"),
    ],
)
def test_facts_are_checked(known, words):
    with pytest.raises(ParameterError, match=words):
        Facts(**known)
