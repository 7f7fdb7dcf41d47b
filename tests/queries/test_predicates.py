"""SQL predicates: what they read, what they say about it, what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sqlglot

import maquette.queries as mq
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import WorkloadError
from maquette.queries import names
from support.query_cases import SURVEY


def box(text: str) -> dict[str, tuple[int, ...]] | None:
    return mq.where(SURVEY, text).box()


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("Sex = 'Male'", {"Sex": (1,)}),
        ("Sex <> 'Male'", {"Sex": (0,)}),
        ("'Male' = Sex", {"Sex": (1,)}),
        ("smokes = TRUE", {"smokes": (1,)}),
        ("smokes = false", {"smokes": (0,)}),
        ("smokes = 'true'", {"smokes": (1,)}),
        ("children >= 3", {"children": (3, 4)}),
        ("children = 3.0", {"children": (3,)}),
        ("2 > children", {"children": (0, 1)}),
        ("grade > 'low'", {"grade": (1, 2)}),
        ("grade BETWEEN 'low' AND 'mid'", {"grade": (0, 1)}),
        ("NOT grade < 'mid'", {"grade": (1, 2)}),
        ("grade IS NULL", {"grade": (3,)}),
        ("grade IS NOT NULL", {"grade": (0, 1, 2)}),
        ("region = 'it''s'", {"region": (2,)}),
        ("region <> 'north'", {"region": (1, 2, 3)}),
        ("region NOT IN ('north', 'south', 'it''s')", {"region": (3,)}),
        ("region IN ('north', 'south')", {"region": (0, 1)}),
        ("height >= 1 AND height < 1.5", {"height": (0,)}),
        ("height BETWEEN 1 AND 2.5", {"height": (0, 1, 2)}),
        ("NOT height BETWEEN 1 AND 2.5", {"height": (3,)}),
        ("height > 2.5 OR height < 1", {"height": (3,)}),
        ("height <> 7 AND height BETWEEN 1 AND 2.5", {"height": (0, 1, 2)}),
        ("height IS NOT NULL", {"height": (0, 1, 2, 3)}),
        ("hours_per_week < 40", {"hours-per-week": tuple(range(40))}),
        ('"hours-per-week" >= 40 AND HOURS_PER_WEEK < 41', {"hours-per-week": (40,)}),
        ("hours_per_week < 30.5 OR hours_per_week >= 30.5", {}),
        ("hours_per_week = 30 AND hours_per_week = 30.5", {"age": ()}),
        ("hours_per_week = 30.5 OR TRUE", {}),
        ("age = 30.5", {"age": ()}),
        ("age >= 28", {"age": tuple(range(1, 8))}),
        ("age > 27", {"age": tuple(range(1, 8))}),
        ("age <= 27", {"age": (0,)}),
        ("age < 28", {"age": (0,)}),
        ("TRUE", {}),
        ("FALSE", {"age": ()}),
        ("children < 2 AND children > 3", {"age": ()}),
        ("children < 2 OR children >= 2", {}),
        ("(Sex = 'Male' OR Sex = 'Female') AND children = 0", {"children": (0,)}),
        ("Sex = 'Male' AND children = 0 OR Sex = 'Male' AND children = 1", {"Sex": (1,), "children": (0, 1)}),
        ("Sex = 'Male' OR children = 0", None),
        ("  age\n>=\t28 ", {"age": tuple(range(1, 8))}),
        ("age>=28 and Sex='Male'", {"age": tuple(range(1, 8)), "Sex": (1,)}),
    ],
)
def test_what_a_predicate_reads(text, cells):
    asked = mq.where(SURVEY, text)
    assert asked.box() == cells
    assert asked.notes == ()


@pytest.mark.parametrize(
    ("text", "read", "cut", "surely", "maybe"),
    [
        ("age >= 60", "age >= 58", "[58, 68)", "age >= 68", "age >= 58"),
        ("age > 60", "age >= 58", "[58, 68)", "age >= 68", "age >= 58"),
        ("age < 65", "age < 68", "[58, 68)", "age < 58", "age < 68"),
        ("age <= 33", "age < 38", "[28, 38)", "age < 28", "age < 38"),
        ("age = 30", "age >= 28 AND age < 38", "[28, 38)", "FALSE", "age >= 28 AND age < 38"),
        ("age >= 5", "all declared cells", "of all values below 28", "age >= 28", "TRUE"),
        ("age >= 18", "all declared cells", "of all values below 28", "age >= 28", "TRUE"),
        ("age <= 98", "all declared cells", "of all values from 88 on", "age < 88", "TRUE"),
        ("age > 200", "no record", "of all values from 88 on", "FALSE", "age >= 88"),
        ("age = 200", "no record", "of all values from 88 on", "FALSE", "age >= 88"),
        ("age < 0", "no record", "of all values below 28", "FALSE", "age < 28"),
        ("age >= 98", "no record", "of all values from 88 on", "FALSE", "age >= 88"),
        (
            "hours_per_week <= 39",
            '"hours-per-week" < 40',
            "[39, 40)",
            "hours_per_week < 39",
            "hours_per_week < 40",
        ),
        (
            "hours_per_week > 39",
            '"hours-per-week" >= 40',
            "[39, 40)",
            "hours_per_week >= 40",
            "hours_per_week >= 39",
        ),
        (
            '"hours-per-week" = 40',
            '"hours-per-week" >= 40 AND "hours-per-week" < 41',
            "[40, 41)",
            "FALSE",
            "hours_per_week >= 40 AND hours_per_week < 41",
        ),
        (
            "height < 1.5",
            "height >= 1 AND height < 1.5",
            "of values that lie outside [1, 2.5]",
            "height >= 1 AND height < 1.5",
            "height < 1.5 OR height > 2.5",
        ),
        (
            "height <= 2.5",
            "all declared cells",
            "of values that lie outside [1, 2.5]",
            "height BETWEEN 1 AND 2.5",
            "height IS NOT NULL",
        ),
        (
            "height = 1.7",
            "height >= 1.5 AND height < 1.8",
            "[1.5, 1.8)",
            "FALSE",
            "height >= 1.5 AND height < 1.8",
        ),
        (
            "height = 7",
            "no record",
            "of values that lie outside [1, 2.5]",
            "FALSE",
            "NOT height BETWEEN 1 AND 2.5",
        ),
    ],
)
def test_what_cuts_a_cell_is_said_and_bounded(text, read, cut, surely, maybe):
    asked = mq.where(SURVEY, text)
    said = text.replace("hours_per_week", '"hours-per-week"')
    assert asked.notes == (f"{said} was read as {read}, as it cuts the cell {cut}",)
    assert asked.cuts == (f"{said} cuts the cell {cut}",)
    assert not asked.exact
    for end, same in zip(asked.ends(), (surely, maybe), strict=True):
        assert end.exact
        assert end.condition == mq.where(SURVEY, same).condition


def test_whole_numbers_are_whole_only_where_they_are_declared():
    declared = Attribute("x", Kind.NUMERIC, bounds=(30, 60), bins=30, integer=True)
    silent = Attribute("x", Kind.NUMERIC, bounds=(30, 60), bins=30)
    assert mq.where(Domain((declared,)), "x = 39").exact
    assert mq.where(Domain((declared,)), "x <= 39").exact
    assert not mq.where(Domain((silent,)), "x = 39").exact
    assert not mq.where(Domain((silent,)), "x <= 39").exact
    assert mq.where(Domain((silent,)), "x < 40").exact
    codes = np.array([9])
    assert declared.decode(codes)[0].tolist() == [39]
    assert silent.decode(codes)[0].tolist() == [39.5]
    assert silent.label(9) == "[39, 40)"


def test_a_missing_value_without_a_cell_of_its_own_is_somewhere():
    other = Domain((Attribute("c", Kind.CATEGORICAL, categories=("a", "b"), overflow=True),))
    asked = mq.where(
        other, "c <> 'a'"
    )  # the overflow cell holds other texts, which satisfy it, and nulls, which do not
    assert asked.notes == (
        "c <> 'a' was read as (c = 'b' OR (c NOT IN ('a', 'b') OR c IS NULL)), "
        "as it cuts the cell of values that are not declared or are missing",
    )
    low, high = asked.ends()
    assert low.box() == {"c": (1,)}
    assert high.box() == {"c": (1, 2)}
    assert mq.where(other, "c <> 'a' OR c IS NULL").box() == {"c": (1, 2)}


def test_the_ends_of_a_predicate_too_long_to_say_are_refused():
    names = tuple(f"{i:03d}{'x' * 60}" for i in range(200))
    domain = Domain((Attribute("c", Kind.ORDINAL, categories=names, overflow=True),))
    asked = mq.where(domain, f"c >= '{names[100]}'")  # an undeclared value may lie on either side
    assert asked.notes
    with pytest.raises(WorkloadError, match="too long to write"):
        asked.ends()


def test_all_but_a_few_of_many_categories_are_said_by_the_few():
    many = tuple(f"c{i}" for i in range(300))
    each: list[Any] = [{}, {"nullable": True}, {"overflow": True}, {"nullable": True, "overflow": True}]
    for flags in each:
        c = Attribute("c", Kind.CATEGORICAL, categories=many, **flags)
        domain = Domain((Attribute("a", Kind.NUMERIC, bounds=(0, 1), bins=2), c))
        for text in ("c <> 'c7'", "c <> 'c7' OR c IS NULL", "c IS NOT NULL"):
            asked = mq.where(domain, f"a <= 0.2 AND ({text})")
            low, high = asked.ends()
            assert max(len(low.sql), len(high.sql)) < 100 or (
                flags == {"overflow": True} and "IS NULL" not in text
            )


def test_the_middle_between_two_borders_goes_to_the_lower():
    wide = Domain((Attribute("x", Kind.NUMERIC, bounds=(0, 40), bins=4),))
    assert mq.where(wide, "x >= 15").notes[0].startswith("x >= 15 was read as x >= 10, ")
    assert mq.where(wide, "x >= 15.0001").notes[0].startswith("x >= 15.0001 was read as x >= 20, ")


def test_notes_of_a_list_are_told_once():
    asked = mq.predicates(SURVEY, ["age >= 60", "age >= 60 AND Sex = 'Male'", "age >= 58"])
    assert asked.notes == ("age >= 60 was read as age >= 58, as it cuts the cell [58, 68)",)


def test_in_words_a_predicate_that_cuts_cells_is_asked_from_both_sides():
    asked = mq.parse_workload(SURVEY, ["where:age >= 60"])
    assert [asked.text(i) for i in range(asked.count)] == ["age >= 68", "age >= 58"]
    assert mq.parse_workload(SURVEY, ["where:age >= 58"]) == mq.where(SURVEY, "age >= 58")


def test_many_bins_cost_nothing():
    fine = Domain((Attribute("x", Kind.NUMERIC, bounds=(0, 2**40), bins=2**40),))
    asked = mq.where(fine, "x >= 1000000 AND x < 1000000000000")
    assert asked.count == 1
    assert asked.notes == ()
    assert asked.sensitivity(Relation.REPLACE_ONE).l1 == 1
    assert asked.distinct() == 1
    rows = {"x": np.array([999_999, 1_000_000, 10**12 - 1, 10**12])}
    assert asked.on_rows(rows).tolist() == [2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("agee >= 60", "unknown attribute 'agee'; the domain has age, hours-per-week, height, Sex"),
        ('"AGE" >= 60', "unknown attribute 'AGE'"),
        (
            "region = 'west'",
            "'west' is no category of 'region'; it has 'north', 'south', 'it''s' \\(other values",
        ),
        ("Sex = 'other'", "'other' is no category of 'Sex'; it has 'Female', 'Male'$"),
        ("grade >= 'top'", "'top' is no category of 'grade'"),
        ("children = 5", "'children' holds the whole numbers 0 to 4, got 5"),
        ("children = 1.5", "'children' holds the whole numbers 0 to 4, got 1.5"),
        ("children = 'one'", "'children' holds the whole numbers 0 to 4, got 'one'"),
        ("age = 'old'", "'age' is numeric; compare it with a number without quotes, got 'old'"),
        ("age = TRUE", "'age' is numeric"),
        ("Sex < 'Male'", "'Sex' is boolean and has no order"),
        ("region BETWEEN 'a' AND 'b'", "'a' is no category of 'region'"),
        ("age = NULL", "nothing equals NULL; write IS NULL"),
        ("age", "COLUMN is not part of the query language"),
        ("age = children", "two attributes cannot be compared"),
        ("1 = 'a'", "must be of one kind"),
        ("age + 1 > 3", "unexpected|not part of the query language"),
        ("age > 3 - 1", "not part of the query language"),
        ("age IS TRUE", "IS is not part of the query language"),
        ("age IN (children)", "two attributes cannot be compared"),
        ('Sex = "Female"', "put text in single quotes: Sex = 'Female'"),
        ("region LIKE 'no%'", r"list those that you mean: region IN \('north'\)"),
        ("region NOT ILIKE 'no%'", "ILIKE is not part of the query language"),
        ("größe > 3", "unknown attribute 'größe'; the domain has"),
        ("Sexx = 'Male'", "did you mean 'Sex'"),
        ("age IN ()", "expected at least one value in the list of 'age'"),
        ("age>=28and Sex='Male'", "unexpected '2'"),
        ("survey.age = 1", "unknown attribute 'survey'"),
        ('"age"."age" = 1', "unexpected '.'"),
        ("age = 1e999", "out of range"),
        ("age = 1e99999999999", "out of range"),
        ("age = 1" + "0" * 400, "out of range"),
        ("age >", "cannot read the predicate"),
        ("(age > 3", "cannot read the predicate"),
        ("age > 3)", "a \\) without its \\("),
        ("", "expected a predicate, got an empty text"),
        (" \n", "expected a predicate, got an empty text"),
        ("age LIKE 3", "LIKE is not part of the query language"),
    ],
)
def test_what_a_predicate_refuses(text, message):
    with pytest.raises(WorkloadError, match=message):
        mq.where(SURVEY, text)


def test_only_text_is_a_predicate():
    with pytest.raises(WorkloadError, match="expected a predicate as text, got int"):
        mq.where(SURVEY, 3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(WorkloadError, match="use where"):
        mq.predicates(SURVEY, "age > 3")
    with pytest.raises(WorkloadError, match="at least one predicate"):
        mq.predicates(SURVEY, [])


def test_limits_before_parsing(monkeypatch):
    monkeypatch.setattr(sqlglot, "parse_one", lambda *_, **__: pytest.fail("the parser was asked"))
    deep = "(" * 33 + "age > 18" + ")" * 33
    nots = "NOT " * 33 + "age > 18"
    mixed = ("NOT " * 16 + "(") * 2 + "age > 18" + ")" * 2
    for text in (deep, nots, mixed):
        with pytest.raises(WorkloadError, match="nested 32 deep"):
            mq.where(SURVEY, text)
    with pytest.raises(WorkloadError, match="4096 characters, got 4097"):
        mq.where(SURVEY, "age > 18".ljust(4097))
    with pytest.raises(WorkloadError, match="may have 128 values"):
        mq.where(SURVEY, f"age IN ({','.join(['20'] * 129)})")


def test_limits_are_reached():
    assert box("(" * 32 + "children = 0" + ")" * 32) == {"children": (0,)}
    assert box("NOT " * 32 + "children = 0") == {"children": (0,)}
    assert box(f"children IN ({','.join(['0'] * 128)})") == {"children": (0,)}
    assert box(" AND ".join(["age>1"] * 255)) == {}
    with pytest.raises(WorkloadError, match="256 comparisons"):
        mq.where(SURVEY, " AND ".join(["age>1"] * 256))
    many = " AND ".join(f"(NOT ({'age>1'}))" for _ in range(100))
    with pytest.raises(WorkloadError, match="256 comparisons"):
        mq.where(SURVEY, many)


def test_names_are_found_exactly_then_by_case_then_loosely():
    domain = Domain(
        tuple(Attribute(n, Kind.ORDINAL, codes=3) for n in ("a b", "A-B", "Total", "total", "x.y"))
    )
    assert names.find(domain, "Total").name == "Total"
    assert names.find(domain, "total").name == "total"
    assert names.find(domain, "X_Y").name == "x.y"
    with pytest.raises(WorkloadError, match="could be any of"):
        names.find(domain, "TOTAL")
    with pytest.raises(WorkloadError, match='could be any of "a b", "A-B"'):
        names.find(domain, "a_b")
    assert mq.where(domain, '"A-B" = 1').box() == {"A-B": (1,)}


@pytest.mark.law
@pytest.mark.parametrize("word", sorted(sqlglot.Tokenizer.KEYWORDS))
def test_an_attribute_may_be_named_like_a_word_of_sql(word):
    if word != word.strip() or not word:
        return
    domain = Domain((Attribute(word, Kind.ORDINAL, codes=3), Attribute("other", Kind.ORDINAL, codes=2)))
    for asked in (mq.marginals(domain, k=2), mq.prefixes(domain, word), mq.ranges(domain, word, "other")):
        for index in (0, asked.count - 1):
            table = np.arange(1, 7).reshape(3, 2)
            said = mq.where(domain, asked.text(index))
            assert said.on_histogram(table)[0] == asked.on_histogram(table)[index]
