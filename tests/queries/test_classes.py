"""Query classes: what they refuse, what they know in closed form, and how large they may be."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

import maquette.queries as mq
from maquette import plan
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import WorkloadError
from maquette.queries import Sensitivity, rows
from maquette.queries.dimension import vc_dimension

SURVEY = Domain(
    (
        Attribute("age", Kind.NUMERIC, bounds=(0, 100), bins=10, integer=True),
        Attribute("sex", Kind.BOOLEAN, categories=("Female", "Male")),
        Attribute("region", Kind.CATEGORICAL, categories=("n", "s"), nullable=True, overflow=True),
        Attribute("grade", Kind.ORDINAL, codes=3),
    )
)
ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE


def wide_domain(attributes: int = 14, cells: int = 40) -> Domain:
    return Domain(tuple(Attribute(f"x{i}", Kind.ORDINAL, codes=cells) for i in range(attributes)))


def counting(moved: int, largest: int = 1) -> Sensitivity:
    return Sensitivity(Fraction(moved), Fraction(moved), Fraction(largest))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda d: mq.marginals(d), "either k, such as k=3, or attributes"),
        (lambda d: mq.marginals(d, 2, attributes=[["age"]]), "either k, such as k=3, or attributes"),
        (lambda d: mq.marginals(d, 5), r"order k \(of so many attributes\) from 0 to 4, got 5"),
        (lambda d: mq.marginals(d, -1), "order k .* got -1"),
        (lambda d: mq.marginals(d, True), "order k .* got True"),
        (lambda d: mq.marginals(d, 2.0), "order k .* got 2.0"),
        (lambda d: mq.marginals(d, "2"), "order k .* got '2'"),
        (lambda d: mq.marginals(d, []), "at least one set of attributes"),
        (lambda d: mq.marginals(d, [1, 1]), r"marginal over \(\w+\) is asked twice"),
        (
            lambda d: mq.marginals(d, attributes=["age"]),
            "expected a list of attribute names, got the text 'age'",
        ),
        (lambda d: mq.marginals(d, attributes="age"), "expected a list of sets of attributes"),
        (
            lambda d: mq.marginals(d, attributes=[["agee"]]),
            "unknown attribute 'agee'; the domain has age, sex, region, grade",
        ),
        (lambda d: mq.marginals(d, attributes=[["age", "age"]]), "'age' is named twice"),
        (
            lambda d: mq.marginals(d, attributes=[["age", "sex"], ["sex", "age"]]),
            r"\(age, sex\) is asked twice",
        ),
        (lambda d: mq.points(d, "age"), "expected a list of attribute names"),
        (lambda d: mq.prefixes(d, "agee"), "unknown attribute 'agee'"),
        (lambda d: mq.prefixes(d, "region"), "'region' is categorical; ordered are: age, grade"),
        (lambda d: mq.ranges(d), "ranges need at least one attribute"),
        (lambda d: mq.ranges(d, "age", "sex"), "ranges need an ordered attribute, but 'sex' is boolean"),
        (lambda d: mq.boxes(d, []), "at least one box"),
        (lambda d: mq.boxes(d, [["age"]]), "expected a box such as"),
        (lambda d: mq.boxes(d, [{"age": 3}]), r"expected \(first code, last code\) for 'age'"),
        (
            lambda d: mq.boxes(d, [{"age": (3, 10)}]),
            r"codes 0 <= first <= last <= 9 for 'age', got \(3, 10\)",
        ),
        (lambda d: mq.boxes(d, [{"age": (4, 3)}]), "codes 0 <= first <= last <= 9"),
        (lambda d: mq.boxes(d, [{"age": (-1, 3)}]), "codes 0 <= first"),
        (lambda d: mq.boxes(d, [{"age": (0.0, 3)}]), "codes 0 <= first"),
        (lambda d: mq.boxes(d, [{"age": (False, 3)}]), "codes 0 <= first"),
        (lambda d: mq.boxes(d, [{"region": (0, 1)}]), "need an ordered attribute, but 'region'"),
        (lambda d: mq.conjunctions(d, 3), r"width \(of so many binary attributes\) from 1 to 2, got 3"),
        (lambda d: mq.conjunctions(d, 0), "width .* got 0"),
        (lambda d: mq.conjunctions(d, "2"), "width .* got '2'"),
        (lambda d: mq.conjunctions(d, 1, attributes=["age"]), "two declared cells, but 'age' has 10"),
        (lambda d: mq.conjunctions(d.project(["age"]), 1), "there is none"),
        (lambda d: mq.halfspaces(d, ["region", "age"], [[1, 1]], [1]), None),
        (lambda d: mq.halfspaces(d, [], [[]], [1]), "at least one attribute"),
        (lambda d: mq.halfspaces(d, ["age"], [], []), "one threshold for each of at least one normal"),
        (lambda d: mq.halfspaces(d, ["age"], [[1]], [1, 2]), "got 1 normals and 2 thresholds"),
        (lambda d: mq.halfspaces(d, ["age"], [[1, 2]], [1]), "normals with 1 numbers, one for each of age"),
        (lambda d: mq.halfspaces(d, ["age"], [1], [1]), "expected a list of normals"),
        (
            lambda d: mq.halfspaces(d, ["age"], [[math.nan]], [1]),
            "expected a finite number as a normal's entry",
        ),
        (lambda d: mq.halfspaces(d, ["age"], [[1]], [math.inf]), "expected a finite number as a threshold"),
        (lambda d: mq.halfspaces(d, ["age"], [["1"]], [1]), "expected a number as a normal's entry"),
        (lambda d: mq.halfspaces(d, "age", [[1]], [1]), "expected a list of attribute names"),
        (lambda d: mq.union(), "at least one class"),
        (lambda d: mq.union(mq.points(d), weights=[1, 2]), "one weight for each of 1 classes, got 2"),
        (lambda d: mq.union(mq.points(d), weights=[0]), "weight of a part > 0 and finite, got 0"),
        (lambda d: mq.union(mq.points(d), weights=[math.nan]), "weight of a part > 0"),
        (lambda d: mq.union(mq.points(d), weights=[math.inf]), "weight of a part > 0"),
        (lambda d: mq.union(mq.points(d), weights=["1"]), "weight of a part > 0"),
        (lambda d: mq.points(d) + mq.points(d.project(["age"])), "over the same domain"),
        (lambda d: mq.Workload(d, ()), "at least one class"),
        (lambda d: mq.Workload(d, (mq.Part(mq.union(mq.points(d))),)), "a union cannot contain unions"),
        (lambda d: mq.points(d).text(-1), "number of a query from 0 to 239, got -1"),
        (lambda d: mq.prefixes(d, "age").text(10), "number of a query from 0 to 9, got 10"),
    ],
)
def test_what_does_not_fit_the_domain_is_refused(make, message):
    if message is None:
        make(SURVEY)  # two declared cells have values 0 and 1
        return
    with pytest.raises(WorkloadError, match=message):
        make(SURVEY)


def test_halfspaces_need_values():
    domain = Domain((Attribute("colour", Kind.CATEGORICAL, categories=("r", "g", "b")),))
    with pytest.raises(WorkloadError, match="'colour' is categorical with 3 categories"):
        mq.halfspaces(domain, ["colour"], [[1]], [1])


def test_too_many_marginals_are_refused_before_they_are_listed():
    with pytest.raises(WorkloadError, match="166,167,000 marginals of order 3, more than 1,000,000"):
        mq.marginals(wide_domain(1000), 3)


def test_marginals_of_the_size_of_adult_are_instant_to_know():
    sizes = (85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2)
    domain = Domain(tuple(Attribute(f"x{i}", Kind.ORDINAL, codes=s) for i, s in enumerate(sizes)))
    asked = mq.marginals(domain, k=3)
    assert len(asked.margins) == 364
    assert asked.count == sum(math.prod(c) for c in combinations(sizes, 3)) == 20_894_536 == len(asked)
    assert asked.distinct() == asked.count
    assert asked.sensitivity(ADD) == counting(364)
    assert asked.sensitivity(REPLACE) == counting(728)
    assert asked.text(20_894_535) == "x11 = 98 AND x12 = 41 AND x13 = 1"
    assert asked.describe() == "364 3-way marginals (20,894,536 queries)"


def test_marginals_stand_in_the_order_asked():
    asked = mq.marginals(SURVEY, attributes=[["sex", "age"], [], ["grade"]])
    assert asked.margins == (("age", "sex"), (), ("grade",))
    assert asked.slices == {("age", "sex"): slice(0, 20), (): slice(20, 21), ("grade",): slice(21, 24)}
    table = np.arange(240).reshape(SURVEY.shape)
    answers = asked.on_histogram(table)
    assert answers[20] == table.sum()
    assert (answers[:20].reshape(10, 2) == table.sum(axis=(2, 3))).all()
    assert [asked.text(i) for i in (3, 20, 21)] == [
        "age >= 10 AND age < 20 AND sex = 'Male'",
        "TRUE",
        "grade = 0",
    ]


def test_groups_are_orders_and_parts():
    asked = mq.marginals(SURVEY, [1, 2]) + mq.prefixes(SURVEY, "age")
    told = [(g.name, g.stop - g.start) for g in asked.groups()]
    assert told == [("1-way marginals", 19), ("2-way marginals", 116), ("10 prefixes of age", 10)]


@pytest.mark.parametrize(
    ("asked", "distinct"),
    [
        (mq.marginals(SURVEY, attributes=[["sex"]]), 1),
        (mq.marginals(SURVEY, attributes=[["region"]]), 4),
        (mq.marginals(SURVEY, attributes=[[]]), 0),
        (mq.prefixes(SURVEY, "age"), 9),
        (mq.ranges(SURVEY, "age"), 45),
        (mq.ranges(SURVEY, "grade"), 3),
        (mq.ranges(SURVEY, "age", "grade"), 55 * 6 - 1 - 9 - 2),
        (mq.conjunctions(SURVEY, 2), 3),
        (mq.conjunctions(SURVEY, 2, literals=True), 7),
        (mq.prefixes(SURVEY, "age") + mq.ranges(SURVEY, "age"), 45),
        (mq.marginals(SURVEY, 1) + mq.marginals(SURVEY, [1, 2]), mq.marginals(SURVEY, [1, 2]).distinct()),
        (mq.where(SURVEY, "age >= 50") + mq.where(SURVEY, "NOT age >= 50") + mq.where(SURVEY, "age < 50"), 1),
        (mq.predicates(SURVEY, ["TRUE", "FALSE", "sex = 'Male'", "region IS NULL", "region IS NOT NULL"]), 2),
        (mq.weights(SURVEY, [[0.5, 0.5], [0.25, 0.75], [0.75, 0.25], [1, 0]], attributes=["sex"]), 2),
        (mq.halfspaces(SURVEY, ["age"], [[1], [2], [-1], [1]], [50, 100, -49, 1000]), 1),
    ],
    ids=lambda value: value.describe()[:40] if isinstance(value, mq.Queries) else None,
)
def test_distinct_merges_duplicates_and_complements_and_drops_constants(asked, distinct):
    assert asked.distinct() == distinct
    assert mq.log_distinct(asked) == pytest.approx(math.log(max(1, distinct)))


def test_attributes_of_one_cell_make_no_difference():
    domain = Domain((Attribute("only", Kind.ORDINAL, codes=1), Attribute("x", Kind.ORDINAL, codes=3)))
    asked = mq.marginals(domain, [0, 1, 2])
    assert (asked.count, asked.distinct()) == (8, 3)
    assert asked.sensitivity(ADD) == counting(4)
    assert asked.sensitivity(REPLACE) == counting(4)
    assert mq.prefixes(domain, "only").sensitivity(REPLACE) == counting(0, 0)
    assert mq.prefixes(domain, "only").sensitivity(ADD) == counting(1)


def test_a_null_cell_makes_every_prefix_count():
    domain = Domain((Attribute("x", Kind.ORDINAL, codes=5, nullable=True),))
    assert mq.prefixes(domain, "x").sensitivity(REPLACE) == counting(5)
    assert mq.prefixes(domain, "x").distinct() == 5
    assert mq.ranges(domain, "x").distinct() == 15


def test_two_to_the_64_thresholds_are_known_but_not_answered():
    domain = Domain((Attribute("t", Kind.ORDINAL, codes=2**64),))
    asked = mq.thresholds(domain, "t")
    assert asked
    assert asked.count == 2**64
    assert asked.distinct() == 2**64 - 1
    assert asked.sensitivity(ADD) == counting(2**64)
    assert asked.sensitivity(REPLACE) == counting(2**64 - 1)
    assert mq.log_distinct(asked) == pytest.approx(64 * math.log(2))
    assert asked.text(2**63) == f"t <= {2**63}"
    assert mq.from_json(domain, mq.to_json(asked)) == asked
    with pytest.raises(WorkloadError, match="too many to answer at once"):
        asked.on_rows({"t": np.zeros(3, dtype=np.uint64)})
    intervals = mq.ranges(domain, "t")
    assert intervals.count == 2**63 * (2**64 + 1)
    assert intervals.sensitivity(REPLACE) == counting((2**64 + 1) ** 2 // 4)
    assert intervals.text(intervals.count - 1) == f"t = {2**64 - 1}"
    assert intervals.text(2**64) == "t = 1"


def test_the_whole_of_a_huge_universe_is_known_but_not_answered():
    asked = mq.points(wide_domain())
    assert asked.count == asked.distinct() == 40**14
    assert asked.sensitivity(REPLACE) == counting(2)
    assert asked.text(40**14 - 1).startswith("x0 = 39 AND x1 = 39")
    with pytest.raises(WorkloadError, match="too many to answer"):
        asked.on_rows({f"x{i}": np.zeros(1, dtype=np.uint8) for i in range(14)})


def test_conjunctions_of_a_thousand_attributes_are_known():
    domain = Domain(tuple(Attribute(f"b{i}", Kind.BOOLEAN, codes=2) for i in range(1000)))
    asked = mq.conjunctions(domain, 5, literals=True)
    subsets = sum(math.comb(1000, j) for j in range(1, 6))
    assert asked.count == sum(math.comb(1000, j) * 2**j for j in range(1, 6))
    assert asked.distinct() == asked.count - 1000
    assert asked.sensitivity(ADD) == counting(subsets)
    assert asked.sensitivity(REPLACE) == counting(2 * subsets)
    assert asked.text(asked.count - 1) == " AND ".join(f"b{i} = 1" for i in range(995, 1000))
    with pytest.raises(WorkloadError, match="too many to answer"):
        asked.on_rows({})


def test_the_number_of_answers_at_once_is_limited(monkeypatch):
    monkeypatch.setattr(rows, "MAX_ANSWERS", 9)
    with pytest.raises(WorkloadError, match="10 queries are too many to answer at once"):
        mq.prefixes(SURVEY, "age").on_histogram(np.zeros(SURVEY.shape))


def test_ranges_in_several_dimensions():
    domain = wide_domain(3, 20)
    asked = mq.ranges(domain, "x2", "x0", "x1")
    assert asked.attributes == ("x0", "x1", "x2")
    assert asked.count == 210**3
    assert asked.sensitivity(ADD) == counting(110**3)
    assert asked.exact_sensitivity
    assert (
        asked.sensitivity(REPLACE).l1 > 110**3
    )  # two records off the middle lie farther apart than one and none
    assert asked.text(0) == "x0 = 0 AND x1 = 0 AND x2 = 0"


def test_ranges_over_too_many_cells_give_a_bound_that_says_so():
    domain = Domain(tuple(Attribute(name, Kind.ORDINAL, codes=2**40) for name in "ab"))
    asked = mq.ranges(domain, "a", "b")
    assert not asked.exact_sensitivity
    assert asked.sensitivity(REPLACE).l1 == 2 * asked.sensitivity(ADD).l1


def test_halfspaces_are_exact_on_their_borders():
    domain = Domain((Attribute("x", Kind.NUMERIC, bounds=(0, 1), bins=10),))
    # midpoints 0.05, 0.15, ...; 0.1 * 3 is not 0.3 in floating point, but here it is
    asked = mq.halfspaces(domain, ["x"], [[2], [2], [0.1]], [0.3, 0.3000001, 0.015])
    assert asked.on_histogram(np.ones(10, dtype=int)).tolist() == [9, 8, 9]
    assert asked.text(0) == "2 * x >= 3/10"
    assert asked.describe() == "3 half-spaces of x"


def test_halfspaces_over_a_huge_plane_are_exact_in_one_direction_and_bounded_in_two():
    domain = wide_domain(6, 1000)
    up = mq.halfspaces(domain, domain.names, [[1] * 6, [0, 1, 2, 3, 4, 5], [1] * 6], [100, 200, 10**9])
    assert up.exact_sensitivity
    assert up.sensitivity(ADD) == counting(2)  # the last holds nobody
    both = mq.halfspaces(domain, domain.names, [[1] * 6, [-1] * 6], [100, -90])
    assert not both.exact_sensitivity
    assert both.sensitivity(REPLACE) == counting(2)
    assert both.distinct() == 2
    rows = {name: np.array([10, 20, 999]) for name in domain.names}
    assert both.on_rows(rows).tolist() == [2, 1]


def test_boxes_over_attributes_too_large_for_a_table():
    domain = Domain(tuple(Attribute(name, Kind.ORDINAL, codes=10**6) for name in "abc"))
    box = dict.fromkeys("abc", (10, 20))
    asked = mq.boxes(domain, [box, {"a": (0, 15)}])
    rows = {name: np.array([9, 10, 20, 21]) for name in "abc"}
    assert asked.on_rows(rows).tolist() == [2, 2]
    assert asked.on_rows(rows, np.array([1, 2, 4, 8])).tolist() == [6, 3]
    assert asked.on_rows(rows, np.array([1, 2, 4, 8]) / 8).tolist() == [0.75, 0.375]
    assert asked.sensitivity(REPLACE).l1 == 2
    assert not asked.exact_sensitivity
    assert asked.text(0) == "a BETWEEN 10 AND 20 AND b BETWEEN 10 AND 20 AND c BETWEEN 10 AND 20"


def test_rows_that_are_no_rows_of_the_domain_are_refused():
    good = {name: np.zeros(2, dtype=np.uint8) for name in SURVEY.names}
    asked = mq.where(SURVEY, "age >= 50 OR sex = 'Male'")
    spaces = mq.halfspaces(SURVEY, ["age", "grade"], [[1, 1]], [1])
    for queries in (asked, spaces):
        with pytest.raises(WorkloadError, match="codes outside the attribute's cells"):
            queries.on_rows(good | {"age": np.array([0, 10], dtype=np.uint8)})
        with pytest.raises(WorkloadError, match="no column for attribute 'age'"):
            queries.on_rows({name: codes for name, codes in good.items() if name != "age"})
        with pytest.raises(WorkloadError, match="one length"):
            queries.on_rows(good | {"grade": np.zeros(3, dtype=np.uint8)})
        with pytest.raises(WorkloadError, match="one length"):
            queries.on_rows(good, np.ones(3))
        with pytest.raises(WorkloadError, match="whole numbers, got float64"):
            queries.on_rows(good | {"age": np.zeros(2)})
        with pytest.raises(WorkloadError, match="weights must be numbers"):
            queries.on_rows(good, np.array(["a", "b"]))


def test_sums_that_would_not_fit_64_bits_are_not_searched():
    domain = Domain((Attribute("x", Kind.ORDINAL, codes=60_000),))
    most = 60_001**2 // 4
    asked = mq.ranges(domain, "x") + mq.weights(domain, np.full((1, 60_000), 0.5))
    for relation in Relation:
        assert asked.sensitivity(relation).l2_squared >= most
        assert asked.sensitivity(relation).l1 >= most
    assert asked.sensitivity(ADD).l2_squared == most + Fraction(1, 4)
    assert not asked.exact_sensitivity


def test_ordinal_numbers_need_not_rise():
    domain = Domain((Attribute("x", Kind.ORDINAL, categories=(5, 100, 1)),))
    asked = mq.halfspaces(domain, ["x"], [[1], [1], [-1]], [50, 101, -2])
    assert asked.on_histogram(np.array([1, 10, 100])).tolist() == [10, 0, 100]
    assert asked.sensitivity(ADD) == counting(1)
    assert asked.sensitivity(REPLACE) == counting(2)
    rising = mq.halfspaces(domain, ["x"], [[1]], [50])
    assert rising.sensitivity(ADD) == rising.sensitivity(REPLACE) == counting(1)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint64, bool, np.float32])
def test_histograms_of_any_type_of_number(dtype):
    table = np.ones(SURVEY.shape, dtype=dtype)
    asked = (
        mq.marginals(SURVEY, [0, 4]) + mq.ranges(SURVEY, "age", "grade") + mq.boxes(SURVEY, [{"age": (2, 5)}])
    )
    asked += mq.where(SURVEY, "age >= 50 OR sex = 'Male'") + mq.halfspaces(SURVEY, ["age"], [[1]], [50])
    answers = asked.on_histogram(table)
    assert answers.dtype == (np.float64 if dtype is np.float32 else np.int64)
    assert (answers == asked.on_histogram(np.ones(SURVEY.shape, dtype=np.int64))).all()


def test_many_sets_of_cells_are_told_apart_by_their_borders():
    domain = Domain((Attribute("x", Kind.ORDINAL, codes=5000),))
    asked = mq.boxes(domain, [{"x": (i, i + 1)} for i in range(0, 4000, 4)])
    labels = asked.twins("x")
    assert labels[0] == labels[1]
    assert labels[1] != labels[2]
    assert labels[2] == labels[3]
    assert labels[4500] == labels[4999]
    assert asked.sensitivity(ADD) == counting(1)
    assert asked.sensitivity(REPLACE) == counting(2)


def test_classes_are_frozen():
    for asked in (mq.points(SURVEY), mq.prefixes(SURVEY, "age"), mq.where(SURVEY, "TRUE")):
        with pytest.raises(AttributeError):
            asked.domain = SURVEY


def bits(d: int) -> Domain:
    return Domain(tuple(Attribute(f"b{i}", Kind.ORDINAL, codes=2) for i in range(d)))


def test_all_conjunctions_of_bits_by_name():
    domain = bits(20)
    asked = mq.conjunctions(domain)
    assert (asked.count, asked.width) == (2**20 - 1, 20)
    assert mq.parse_workload(domain, ["conjunctions"]) == asked == mq.conjunctions(domain, 20)
    assert mq.parse_workload(domain, ["conjunctions:b3,B1,b2"]) == mq.conjunctions(
        domain, 3, attributes=["b1", "b2", "b3"]
    )
    assert mq.parse_workload(domain, ["literals:b1"]) == mq.conjunctions(
        domain, 1, literals=True, attributes=["b1"]
    )
    assert asked.is_one_table


def test_conjunctions_of_64_bits_are_known_and_the_refusal_says_what_answers_them():
    asked = mq.conjunctions(bits(64))
    assert asked.count == 2**64 - 1
    assert asked.sensitivity(REPLACE).l1 == 2**64 - 1
    assert vc_dimension(asked).value == 63
    with pytest.raises(
        WorkloadError, match=r"18,446,744,073,709,551,615 conjunctions .* which answer every conj"
    ):
        plan(asked, n=1000, epsilon=1.0)
