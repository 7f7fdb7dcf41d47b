"""Unions, their JSON form, and workloads in a few words."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import maquette.queries as mq
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import WorkloadError
from maquette.queries import sensitivity

SURVEY = Domain(
    (
        Attribute("age", Kind.NUMERIC, bounds=(0, 100), bins=10),
        Attribute("sex", Kind.BOOLEAN, categories=("Female", "Male")),
        Attribute("hours-per-week", Kind.ORDINAL, codes=4),
    )
)
ONE_OF_EACH = [
    mq.marginals(SURVEY, [0, 1, 2]),
    mq.prefixes(SURVEY, "age"),
    mq.ranges(SURVEY, "age", "hours-per-week"),
    mq.boxes(SURVEY, [{"age": (1, 3), "sex": (0, 0)}, {}]),
    mq.conjunctions(SURVEY, 1, literals=True),
    mq.halfspaces(SURVEY, ["hours-per-week", "age"], [[1, Fraction(1, 3)], [0.1, -2]], [3, Fraction(-7, 2)]),
    mq.weights(SURVEY, [[0.5, 0.25], [0, 1]], attributes=["sex"]),
    mq.where(SURVEY, "age >= 50 OR sex = 'Male'"),
    mq.predicates(SURVEY, ["age >= 50", "sex = 'Male'"]),
]
ONE_OF_EACH.append(mq.union(*ONE_OF_EACH, weights=range(1, 10)))


def wrap(queries: object, **fields: object) -> str:
    return json.dumps({"format": "maquette-queries", "version": 1, "queries": queries} | fields)


@pytest.mark.parametrize("asked", ONE_OF_EACH, ids=lambda q: q.kind)
def test_every_class_comes_back_from_its_json(asked, tmp_path):
    again = mq.from_json(SURVEY, mq.to_json(asked))
    assert again == asked
    assert mq.canonical_hash(again) == mq.canonical_hash(asked)
    mq.save(asked, tmp_path / "workload.json")
    assert mq.load(SURVEY, tmp_path / "workload.json") == asked
    assert json.loads(mq.to_json(asked))["queries"]["kind"] == asked.kind


def test_hashes_tell_classes_apart():
    assert len({mq.canonical_hash(asked) for asked in ONE_OF_EACH}) == len(ONE_OF_EACH)


def test_predicates_and_boxes_of_equal_meaning_have_one_hash():
    said = ["age >= 20 AND age < 40", "NOT (age < 20 OR age >= 40)", "age BETWEEN 20 AND 40"]
    hashes = {mq.canonical_hash(mq.where(SURVEY, text)) for text in said}
    hashes.add(mq.canonical_hash(mq.boxes(SURVEY, [{"age": (2, 3)}])))
    assert len(hashes) == 1
    assert mq.canonical_hash(mq.where(SURVEY, "age >= 40")) not in hashes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("1" * 5000, "not JSON"),
        ("[]", "expected an object for the workload"),
        ("{}", "the workload lacks format, version, queries"),
        (
            wrap({"kind": "prefixes", "attribute": "age"}, format="other"),
            'expected "format": "maquette-queries"',
        ),
        (
            wrap({"kind": "prefixes", "attribute": "age"}, version=2),
            "reads version 1 of the workload's form, got 2",
        ),
        (wrap({"kind": "prefixes", "attribute": "age"}, version="1"), "a whole number as version"),
        (wrap({"kind": "prefixes", "attribute": "age"}, more=1), "unknown fields more"),
        (wrap({}), 'expected an object with a "kind"'),
        (wrap(None), 'expected an object with a "kind"'),
        (wrap({"kind": ["prefixes"]}), 'expected an object with a "kind"'),
        (wrap({"kind": "suffixes"}), "unknown kind of queries 'suffixes'; known are boxes, conjunctions"),
        (wrap({"kind": "prefixes"}), "prefixes lacks attribute"),
        (
            wrap({"kind": "prefixes", "attribute": "agee"}),
            "unknown attribute 'agee'; the domain has age, sex",
        ),
        (wrap({"kind": "prefixes", "attribute": 3}), "a text as attribute of prefixes, got 3"),
        (wrap({"kind": "prefixes", "attribute": "age", "x": 1}), "prefixes has unknown fields x"),
        (wrap({"kind": "marginals", "margins": [["age", 3]]}), "lists of texts as margins"),
        (wrap({"kind": "marginals", "margins": ["age"]}), "a list of lists as margins"),
        (wrap({"kind": "ranges", "attributes": "age"}), "a list as attributes of ranges"),
        (wrap({"kind": "boxes", "boxes": [3]}), "expected a box such as"),
        (wrap({"kind": "boxes", "boxes": [{"age": [1, 20]}]}), "codes 0 <= first"),
        (wrap({"kind": "predicate", "where": "agee > 3"}), "unknown attribute 'agee'"),
        (wrap({"kind": "predicates", "where": "age > 3"}), "a list as where"),
        (
            wrap({"kind": "conjunctions", "width": 1, "literals": 1, "attributes": ["sex"]}),
            "true or false as literals",
        ),
        (
            wrap(
                {
                    "kind": "halfspaces",
                    "attributes": ["age"],
                    "normals": [["1e999999999"]],
                    "thresholds": ["1"],
                }
            ),
            "a number such as",
        ),
        (
            wrap({"kind": "halfspaces", "attributes": ["age"], "normals": [["1/0"]], "thresholds": ["1"]}),
            "a number such as",
        ),
        (
            wrap({"kind": "weights", "attributes": ["sex"], "denominator": 1, "numerators": [[0, 2]]}),
            "whole numerators of weights from 0",
        ),
        (
            wrap({"kind": "weights", "attributes": ["sex"], "denominator": 1, "numerators": [[0, 1], [0]]}),
            "rows of equal length",
        ),
        (
            wrap(
                {"kind": "weights", "attributes": ["sex"], "denominator": 10**30, "numerators": [[0, 10**29]]}
            ),
            "whole numerators of weights from 0",
        ),
        (wrap({"kind": "union", "parts": []}), "at least one class"),
        (
            wrap({"kind": "union", "parts": [{"queries": {"kind": "union", "parts": []}, "weight": 1}]}),
            "a union cannot contain unions",
        ),
        (
            wrap(
                {
                    "kind": "union",
                    "parts": [{"queries": {"kind": "prefixes", "attribute": "age"}, "weight": -1}],
                }
            ),
            "weight of a part > 0",
        ),
        (
            wrap(
                {
                    "kind": "union",
                    "parts": [{"queries": {"kind": "prefixes", "attribute": "age"}, "weight": "1"}],
                }
            ),
            "a number as weight",
        ),
    ],
)
def test_what_is_no_workload_is_refused(text, message):
    with pytest.raises(WorkloadError, match=message):
        mq.from_json(SURVEY, text)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=80))
def test_random_text_is_no_workload(text):
    with pytest.raises(WorkloadError):
        mq.from_json(SURVEY, text)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(WorkloadError, match=r"cannot read the workload file .*missing\.json"):
        mq.load(SURVEY, tmp_path / "missing.json")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(WorkloadError, match=r"cannot read the workload file .*binary\.json"):
        mq.load(SURVEY, tmp_path / "binary.json")
    (tmp_path / "wrong.json").write_text("{}")
    with pytest.raises(WorkloadError, match=r"wrong\.json: the workload lacks"):
        mq.load(SURVEY, tmp_path / "wrong.json")


def test_unions_are_flat_and_multiply_weights():
    inner = mq.union(mq.prefixes(SURVEY, "age"), mq.points(SURVEY), weights=[2, 3])
    outer = mq.union(inner, mq.where(SURVEY, "TRUE"), weights=[10, 1])
    assert [part.weight for part in outer.parts] == [20, 30, 1]
    assert [part.queries.kind for part in outer.parts] == ["prefixes", "marginals", "predicate"]
    assert (mq.prefixes(SURVEY, "age") + mq.points(SURVEY)).count == 10 + 80
    assert outer.describe().startswith("10 prefixes of age and ")


def test_weights_of_parts_change_no_query():
    light, heavy = (mq.union(mq.points(SURVEY), mq.prefixes(SURVEY, "age"), weights=[1, w]) for w in (1, 100))
    table = np.arange(80).reshape(SURVEY.shape)
    assert (light.on_histogram(table) == heavy.on_histogram(table)).all()
    for relation in Relation:
        assert light.sensitivity(relation) == heavy.sensitivity(relation)
    assert light != heavy
    assert mq.canonical_hash(light) != mq.canonical_hash(heavy)


def test_a_union_has_a_common_denominator():
    asked = mq.points(SURVEY, ["sex"]) + mq.weights(SURVEY, [[0.5, 0]], attributes=["sex"])
    assert asked.denominator == 2**20
    table = np.ones(SURVEY.shape, dtype=np.int64)
    assert asked.on_histogram(table).tolist() == [40 * 2**20, 40 * 2**20, 20 * 2**20]
    assert asked.text(2) == "weights 0 over sex"
    with pytest.raises(WorkloadError, match="number of a query from 0 to 2"):
        asked.text(3)


def test_worst_cases_that_do_not_meet_are_not_added():
    """Two predicates that no record satisfies together."""
    asked = mq.where(SURVEY, "age < 50") + mq.where(SURVEY, "age >= 50 AND sex = 'Male'")
    assert asked.sensitivity(Relation.ADD_REMOVE).l1 == 1
    assert asked.sensitivity(Relation.REPLACE_ONE).l1 == 2
    assert asked.exact_sensitivity


def test_the_worst_pair_of_records_may_agree_in_an_attribute():
    """Only records that both have x = 0 and differ in y move both: a pair that differs everywhere moves one of them."""
    domain = Domain((Attribute("x", Kind.ORDINAL, codes=2), Attribute("y", Kind.ORDINAL, codes=2)))
    asked = mq.where(domain, "x = 0 AND y = 0") + mq.where(domain, "x = 0 AND y = 1")
    moved = asked.sensitivity(Relation.REPLACE_ONE)
    assert (moved.l1, moved.l2_squared, moved.linf) == (2, 2, 1)
    assert asked.exact_sensitivity


def test_what_cannot_be_searched_is_bounded_and_says_so(monkeypatch):
    parts = (mq.where(SURVEY, "age < 50 OR sex = 'Female'"), mq.where(SURVEY, "age >= 50 AND sex = 'Male'"))
    monkeypatch.setattr(sensitivity, "MAX_SEARCH_STEPS", 0)
    sensitivity._union_sensitivity.cache_clear()
    asked = mq.union(*parts)
    assert asked.sensitivity(Relation.ADD_REMOVE).l1 == 2
    assert not asked.exact_sensitivity
    products = mq.where(SURVEY, "age < 50") + mq.where(SURVEY, "age >= 50 AND sex = 'Male'")
    assert products.sensitivity(Relation.ADD_REMOVE).l1 == 1  # proved by the sides of the two products
    assert not products.exact_sensitivity  # for replacing a record it is only a bound
    sensitivity._union_sensitivity.cache_clear()


def test_large_unions_with_marginals_are_exact_without_search():
    domain = Domain(tuple(Attribute(f"x{i}", Kind.ORDINAL, codes=50) for i in range(14)))
    asked = mq.union(
        mq.marginals(domain, 3),
        mq.prefixes(domain, "x0"),
        mq.ranges(domain, "x1", "x2"),
        mq.where(domain, "x3 > 7"),
    )
    assert asked.exact_sensitivity
    assert asked.sensitivity(Relation.ADD_REMOVE).l1 == 364 + 50 + (51**2 // 4) ** 2 + 1
    single = mq.ranges(domain, "x1", "x2").sensitivity(Relation.REPLACE_ONE).l1
    assert asked.sensitivity(Relation.REPLACE_ONE).l1 == 728 + 49 + single + 1
    assert asked.distinct() <= asked.count


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["marginals:2"], mq.marginals(SURVEY, 2)),
        (["marginals:1,2"], mq.marginals(SURVEY, [1, 2])),
        (["marginal:sex,AGE"], mq.marginals(SURVEY, attributes=[["age", "sex"]])),
        (["points"], mq.points(SURVEY)),
        (["points:sex"], mq.points(SURVEY, ["sex"])),
        (["prefixes:age"], mq.prefixes(SURVEY, "age")),
        (["thresholds: age"], mq.prefixes(SURVEY, "age")),
        (["Ranges:age,hours_per_week"], mq.ranges(SURVEY, "age", "hours-per-week")),
        (["conjunctions:1"], mq.conjunctions(SURVEY, 1)),
        (["literals:1"], mq.conjunctions(SURVEY, 1, literals=True)),
        (["where:age >= 50 and sex = 'Male'"], mq.where(SURVEY, "age >= 50 and sex = 'Male'")),
        (
            ["halfspaces: age + 2*hours_per_week >= 60; -1/2 age <= 3"],
            mq.halfspaces(SURVEY, ["age", "hours-per-week"], [(1, 2), (Fraction(1, 2), 0)], [60, -3]),
        ),
        (
            ["boxes:age=3..5,sex=0..0; AGE=0..1"],
            mq.boxes(SURVEY, [{"age": (3, 5), "sex": (0, 0)}, {"age": (0, 1)}]),
        ),
        (["marginals:1", "prefixes:age"], mq.marginals(SURVEY, 1) + mq.prefixes(SURVEY, "age")),
    ],
)
def test_workloads_in_words(words, expected):
    assert mq.parse_workload(SURVEY, words) == expected


def test_a_workload_file_by_name(tmp_path):
    mq.save(ONE_OF_EACH[0], tmp_path / "w.json")
    assert mq.parse_workload(SURVEY, [f"file:{tmp_path / 'w.json'}"]) == ONE_OF_EACH[0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "at least one class of queries"),
        ("marginals:3", "expected a list of words"),
        (["marginalls:3"], "unknown class of queries 'marginalls'; write for example marginals:3"),
        (["marginals"], "whole numbers after marginals:"),
        (["marginals:x"], "whole numbers after marginals:, such as marginals:3, got 'x'"),
        (["conjunctions:1,2"], "one whole number after conjunctions:"),
        (["prefixes:"], "expected one attribute, such as prefixes:age"),
        (["prefixes:agee"], "unknown attribute 'agee'"),
        (["ranges:"], "ranges need at least one attribute"),
        (["where:"], "expected a predicate"),
        (["halfspaces:"], "expected an inequality"),
        (["halfspaces:age > 3"], "expected an inequality such as"),
        (["halfspaces:agee >= 3"], "unknown attribute 'agee'"),
        (["parities:age"], "attributes with two cells"),
        (["weights:sex:0,x"], "expected weights such as"),
        (["weights:sex:0,1,1,1,1,1"], "expected weights of shape"),
        (["boxes:age=3"], "expected codes such as"),
        (["file:/nonexistent/w.json"], "cannot read the workload file"),
    ],
)
def test_words_that_name_no_workload(words, message):
    with pytest.raises(WorkloadError, match=message):
        mq.parse_workload(SURVEY, words)
