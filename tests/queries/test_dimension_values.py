"""Every dimension that the specification lists, closed forms against the search, and what is refused."""

import math
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from maquette.domain import Domain
from maquette.errors import ParameterError, WorkloadError
from maquette.queries import conjunctions, marginals, points, prefixes, ranges, union, weights
from maquette.queries import dimension as forms
from maquette.queries.dimension import (
    Dimension,
    fat_shattering_dimension,
    matrix,
    rational,
    shatters,
    vc_dimension,
)


def monotone_conjunctions(*, d: int, empty: bool = True) -> int:
    """Conjunctions of unnegated variables on d bits: d with the empty conjunction, d - 1 without."""
    return d if empty else d - 1


def conjunctions_of_literals(*, d: int, contradiction: bool = True, empty: bool = True) -> int:
    """Conjunctions of literals on d bits: d; on one bit 2 with the contradiction, else 1.

    Without the empty conjunction d - 1 for d >= 3: some literal then holds on the whole shattered set, and its
    variable tells no point apart.
    """
    if d == 1:
        return 2 if contradiction and empty else 1
    return d - 1 if d > 2 and not empty else d


def bits(d: int, *, nullable: bool = False) -> Domain:
    boolean = {"kind": "boolean", "categories": ["no", "yes"], "nullable": nullable}
    return Domain.from_dict({"attributes": [{"name": f"b{i}"} | boolean for i in range(d)]})


def grid(*sizes: int, nullable: bool = False) -> Domain:
    return Domain.from_dict(
        {
            "attributes": [
                {"name": f"a{i}", "kind": "ordinal", "size": size, "nullable": nullable}
                for i, size in enumerate(sizes)
            ]
        }
    )


def proved(queries, found: Dimension) -> bool:
    """Read the witnesses' weights at the shattered cells."""
    numerators, denominator = matrix(queries)
    shape = tuple(queries.domain[name].size for name in found.attributes)
    columns = [int(np.ravel_multi_index(point, shape)) for point in found.points]
    for position, witness in enumerate(found.witnesses):
        patterns = [int(numerators[witness, c]) for c in columns]
        if patterns != [label * denominator for label in found.labelling(position)]:
            return False
    return len(found.witnesses) == 2**found.value and len(set(columns)) == found.value


# --- values of section 5 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("d", "width", "count", "value"),
    [(3, 1, 6, 2), (3, 2, 12, 2), (4, 1, 8, 3), (4, 2, 24, 2), (5, 2, 40, 3), (5, 3, 80, 2)],
)
def test_marginal_cells_on_bits(d, width, count, value):
    queries = marginals(bits(d), k=width)
    found = vc_dimension(queries)
    assert (queries.count, found.value) == (count, value)
    assert found.method == "search"
    assert proved(queries, found)


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_parities(d):
    rows = [[sum(a & b for a, b in zip(s, x, strict=True)) % 2 for x in _cube(d)] for s in _cube(d)]
    assert vc_dimension(rows).value == d


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_monotone_conjunctions(d):
    chosen = [s for size in range(d + 1) for s in combinations(range(d), size)]
    rows = [[int(all(x[i] for i in s)) for x in _cube(d)] for s in chosen]
    assert vc_dimension(rows).value == monotone_conjunctions(d=d) == d
    assert vc_dimension(rows[1:]).value == monotone_conjunctions(d=d, empty=False) == d - 1


@pytest.mark.parametrize(("d", "width", "value"), [(4, 1, 2), (4, 2, 3), (5, 1, 2), (5, 2, 3), (5, 3, 4)])
def test_narrow_monotone_conjunctions(d, width, value):
    chosen = [s for size in range(width + 1) for s in combinations(range(d), size)]  # the empty one included
    rows = [[int(all(x[i] for i in s)) for x in _cube(d)] for s in chosen]
    assert vc_dimension(rows).value == value


@pytest.mark.parametrize("d", [1, 2, 3])
def test_conjunctions_of_literals(d):
    chosen = list(product((None, 0, 1), repeat=d))
    rows = [
        [int(all(want is None or x[i] == want for i, want in enumerate(s))) for x in _cube(d)] for s in chosen
    ]
    assert vc_dimension(rows).value == conjunctions_of_literals(d=d, contradiction=False) == d
    with_contradiction = [*rows, [0] * 2**d]
    assert vc_dimension(with_contradiction).value == conjunctions_of_literals(d=d)
    assert vc_dimension(rows[1:]).value == conjunctions_of_literals(d=d, contradiction=False, empty=False)


def test_half_planes_on_a_small_grid():
    cells = list(product(range(3), repeat=2))
    rows = {
        tuple(int(2 * (a * x + b * y) >= c) for x, y in cells)
        for a in range(-4, 5)
        for b in range(-4, 5)
        for c in range(-33, 35)
    }
    assert len(rows) == 58
    assert vc_dimension(sorted(rows)).value == forms.halfspaces(d=2) == 3


@pytest.mark.parametrize("parts", [1, 2])
def test_unions_of_intervals(parts):
    cells = 2 * parts + 2
    runs = [frozenset(range(a, b)) for a in range(cells) for b in range(a, cells + 1)]
    sets = {frozenset().union(*chosen) for chosen in combinations(runs, parts)}
    rows = [[int(i in s) for i in range(cells)] for s in sorted(sets, key=sorted)]
    assert vc_dimension(rows).value == 2 * parts


def _cube(d: int) -> list[tuple[int, ...]]:
    return list(product((0, 1), repeat=d))


# --- closed forms of our classes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize("cells", [1, 2, 3, 5])
def test_prefixes(cells, nullable):
    queries = prefixes(grid(cells, nullable=nullable), "a0")
    found = vc_dimension(queries)
    assert found.method == "closed form"
    assert found.value == vc_dimension(matrix(queries)[0]).value == forms.thresholds(cells=cells)
    assert proved(queries, found)


@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize(
    "sizes", [(1,), (2,), (3,), (6,), (2, 2), (3, 2), (1, 3), (3, 3), (2, 2, 2), (2, 3, 2)]
)
def test_ranges(sizes, nullable):
    domain = grid(*sizes, nullable=nullable)
    queries = ranges(domain, *domain.names)
    found = vc_dimension(queries)
    assert found.method == "closed form"
    assert found.value == vc_dimension(matrix(queries)[0]).value == forms.boxes(cells=list(sizes))
    assert proved(queries, found)


@pytest.mark.parametrize("sizes", [(1,), (2,), (5,), (2, 3)])
def test_points(sizes):
    queries = points(grid(*sizes))
    found = vc_dimension(queries)
    assert found.method == "closed form"
    assert found.value == vc_dimension(matrix(queries)[0]).value == forms.points(cells=math.prod(sizes))
    assert proved(queries, found)


@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize("literals", [False, True])
@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_wide_conjunctions(d, literals, nullable):
    domain = bits(d, nullable=nullable and d < 4)
    for width in {max(1, d - 1), d}:
        queries = conjunctions(domain, width, literals=literals)
        found = vc_dimension(queries)
        assert (found.method == "search") == (literals and d < 3)
        assert found.value == vc_dimension(matrix(queries)[0]).value
        assert proved(queries, found)
        known = conjunctions_of_literals if literals else monotone_conjunctions
        assert found.value == known(d=d, empty=False)


def test_many_labellings_are_not_listed():
    found = vc_dimension(conjunctions(bits(40), 40))
    assert (found.value, found.witnesses) == (39, ())
    names = [f"a{i}" for i in range(10)]
    assert vc_dimension(ranges(grid(*[5] * 10), *names)).value == 20


def test_explicit_weights():
    domain = grid(3)
    halves = weights(domain, np.array([[0, 0.5, 1], [0.5, 0, 1]]), attributes=["a0"])
    found = fat_shattering_dimension(halves, "1/4")
    assert (found.value, found.levels) == (1, (Fraction(1, 4),))
    assert fat_shattering_dimension(halves, "3/8").value == 0
    with pytest.raises(WorkloadError, match="fat_shattering_dimension"):
        vc_dimension(halves)


def test_a_class_too_large_to_list_has_its_closed_form():
    domain = grid(2**64, 2**64)
    one, box = vc_dimension(prefixes(domain, "a0")), vc_dimension(ranges(domain, "a0", "a1"))
    assert (one.value, box.value) == (1, 4)
    assert len(box.witnesses) == 16
    assert forms.boxes(cells=[2**64]) == 2
    assert fat_shattering_dimension(prefixes(domain, "a0"), "1/3").value == 1


def test_a_search_looks_only_at_the_attributes_that_matter():
    domain = grid(3, 3, 2**40)
    queries = marginals(domain, attributes=[("a0",), ("a1",)])
    found = vc_dimension(queries)
    assert found.attributes == ("a0", "a1")
    assert proved(queries, found)
    both = vc_dimension(union(prefixes(domain, "a0"), prefixes(domain, "a1")))
    assert both.value == 2
    assert both.method == "search"


def test_a_class_that_looks_at_nothing():
    assert vc_dimension(marginals(grid(3), k=0)).value == 0
    assert vc_dimension(union(marginals(grid(3), k=0), marginals(grid(3), k=0))).value == 0


# --- values of section 6 -----------------------------------------------------------------------------------------


def test_fat_shattering_of_products():
    halves = list(product((0, 0.5), repeat=2))
    assert [fat_shattering_dimension(halves, g).value for g in ("1/8", "1/4")] == [2, 2]
    assert [fat_shattering_dimension(halves, g).value for g in (0.2500001, "3/8", "1/2")] == [0, 0, 0]
    wide = list(product((0, 0.25, 0.75), (0.25, 0.5, 1), (0, 0.5, 0.75)))
    found = [fat_shattering_dimension(wide, g).value for g in ("1/8", "1/4", "3/8", "1/2")]
    assert found == [3, 3, 3, 0]


def test_fat_shattering_of_intervals():
    rows = [[int(a <= i <= b) for i in range(5)] for a in range(5) for b in range(a, 5)]
    assert [fat_shattering_dimension(rows, g).value for g in ("1/4", "1/2")] == [2, 2]


def test_a_tie_at_the_margin_is_decided_in_rationals():
    rows = [[0.1], [0.3]]
    assert fat_shattering_dimension(rows, 0.1).value == 1  # 0.3 - 0.1 in doubles is below 0.2
    assert 0.3 - 0.1 < 0.2
    assert fat_shattering_dimension(rows, "0.1000001").value == 0
    assert fat_shattering_dimension([[Fraction(1, 3)], [1]], Fraction(1, 3)).value == 1


def test_levels_are_inside_the_margins():
    found = fat_shattering_dimension(list(product((0, 0.25, 0.75), repeat=2)), "1/8")
    assert found.value == 2
    assert all(found.gamma <= level <= 1 - found.gamma for level in found.levels)


# --- edges -------------------------------------------------------------------------------------------------------


def test_small_classes():
    assert vc_dimension([]).value == -1
    assert vc_dimension([[0, 1, 1]]).value == 0
    assert vc_dimension([[0, 1, 1], [0, 1, 1]]).witnesses == (0,)
    assert vc_dimension([[0, 1], [1, 0]]).value == 1


def test_witnesses_are_numbers_of_the_given_queries_also_after_merging_duplicates():
    rows = [[0, 0], [0, 0], [0, 1], [0, 1], [1, 0], [1, 1]]
    assert sorted(vc_dimension(rows).witnesses) == [0, 2, 4, 5]


def test_a_claim_can_be_checked():
    rows = [[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]]
    assert len(shatters(rows, [0, 1])) == 4
    assert shatters(rows, [0, 2]) == ()
    assert len(shatters(rows, [])) == 1
    queries = ranges(grid(3, nullable=True), "a0")
    assert len(shatters(queries, [(0,), (2,)])) == 4
    assert shatters(queries, [(0,), (3,)]) == ()  # no range counts the null cell


def test_what_is_refused():
    with pytest.raises(WorkloadError, match="fat_shattering_dimension"):
        vc_dimension([[0.5, 1]])
    with pytest.raises(WorkloadError, match="between 0 and 1"):
        fat_shattering_dimension([[1.5]], 0.1)
    with pytest.raises(WorkloadError, match="matrix"):
        fat_shattering_dimension([0.5, 1], 0.1)  # pyright: ignore[reportArgumentType]
    with pytest.raises(WorkloadError, match="too many weights"):
        vc_dimension(marginals(grid(100, 100, 100), k=2))
    for wrong in (0, -0.1, 0.6, "x", math.nan, math.inf, "1/0"):
        with pytest.raises(ParameterError, match="gamma"):
            fat_shattering_dimension([[0, 1]], wrong)
    assert rational(0.1, "gamma") == Fraction(1, 10)


@pytest.mark.parametrize("wrong", [0, -1, 1.5])
def test_sizes_of_closed_forms_are_checked(wrong):
    with pytest.raises(ParameterError):
        forms.boxes(cells=[3, wrong])
    with pytest.raises(ParameterError):
        forms.halfspaces(d=wrong)


@pytest.mark.parametrize("points", [[5], [-1], ["0"], [0.0], [None], [True], list(range(17))])
def test_points_that_are_no_columns_are_refused(points):
    with pytest.raises(ParameterError, match="expected"):
        forms.shatters([[0, 1], [1, 0]], points)


def test_a_matrix_of_texts_is_a_matrix_of_numbers():
    assert forms.vc_dimension([["0", "1"], ["1", "0"]]).value == forms.vc_dimension([[0, 1], [1, 0]]).value
    assert forms.vc_dimension([["0", "1"], ["1", "0"]]).is_complete
