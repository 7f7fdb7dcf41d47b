"""Bars, maps and small multiples: figures and errors as people say them, links to what lies behind, words escaped."""

from __future__ import annotations

import html
import re

import pytest

from maquette.domain import Attribute, Domain, Kind
from maquette.web import charts, conditions, explore, plain
from maquette.web.pages import template
from support.made_release import toy_domain, toy_release


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (5.3, 187.0, "5 ± 190"),
        (24383.0, 187.0, "24,380 ± 190"),
        (1972.4, 3.2, "1972.4 ± 3.2"),
        (3963.0, 0.0, "3963 exact"),
        (0.5, None, "0.5"),
        (None, 3.0, "not known"),
        (float("nan"), 3.0, "not known"),
        (-0.0001, 0.5, "0.00 ± 0.51"),
    ],
)
def test_a_figure_has_the_digits_that_its_error_allows(value, error, text):
    assert str(plain.said(value, error)) == text


def test_what_is_said_covers_what_is_stated():
    for value in (0.0, 0.1234567, 5.3, 999.96, 12345.678):
        for error in (0.00123, 0.0999, 1.0, 9.96, 187.0, 5421.0):
            told = plain.said(value, error)
            middle, reach = (float(re.sub("[^0-9.]", "", text)) for text in (told.value, told.error))
            assert middle - reach <= value - error + 1e-9
            assert middle + reach >= value + error - 1e-9


def test_cells_are_said_as_people_say_them():
    age = Attribute("age", Kind.NUMERIC, bounds=(0, 100), bins=10, integer=True)
    pay = Attribute("pay", Kind.NUMERIC, edges=(0.0, 0.5, 20000.0), nullable=True)
    year = Attribute("year", Kind.NUMERIC, bounds=(1970, 1990), bins=20, integer=True)
    assert [plain.cell(age, c) for c in (0, 9)] == ["0 to 9", "90 to 100"]
    assert [plain.cell(pay, c) for c in range(3)] == ["0 to under 0.5", "0.5 to 20,000", "(missing)"]
    assert plain.cell(year, 2) == "1972"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("age >= 60 and sex = 'Male'", ["age 60 or more", "sex Male"]),
        ("age < 20", ["age up to 19"]),
        ("sex = 'Male' or age < 20", []),
        ("nonsense", []),
        ("", []),
    ],
)
def test_conditions_are_said_in_words(text, words):
    domain = Domain(
        [
            Attribute("age", Kind.NUMERIC, bounds=(0, 100), bins=10, integer=True),
            Attribute("sex", Kind.CATEGORICAL, categories=("Female", "Male")),
        ]
    )
    assert [part.words for part in conditions.parts(domain, text)] == words


def test_a_bar_leads_to_its_records_and_what_is_left_out_comes_back():
    release = toy_release()
    shown = explore.view(release, ["sex"])
    for mark, row in zip(shown.bars, shown.table.to_pylist(), strict=True):
        query = dict(re.findall(r"(by|where)=([^&]*)", mark.href))
        look = explore.view(release, [query["by"]], where=f"sex = '{row['sex']}'")
        assert [part.column for part in look.parts] == ["sex"]
        assert look.parts[0].rest == ""
        assert "sex" not in look.further
    pair = explore.view(release, ["age", "sex"], shape="small")
    assert [label for label, _ in pair.multiples] == [row["sex"] for row in shown.table.to_pylist()]
    assert pair.heat is None


def test_the_largest_comes_first_where_that_is_asked_for():
    figures = [row["value"] for row in explore.view(toy_release(), ["age"]).table.to_pylist()]
    lengths = [mark.length for mark in explore.view(toy_release(), ["age"], sort="size").bars]
    assert lengths == sorted(lengths, reverse=True)
    assert len(lengths) == len(figures)


def test_the_overview_has_a_picture_of_every_column():
    release = toy_release()
    sketches = explore.overview(release, lambda name: explore.view(release, [name], figure="share()"))
    assert sorted(sketch.name for sketch in sketches) == sorted(release.measured)
    assert all(mark.said.error for sketch in sketches for mark in sketch.marks)


def test_words_of_a_table_are_escaped_in_charts():
    name = "<script>alert(1)</script>"
    domain = Domain([Attribute(name, Kind.CATEGORICAL, categories=("<b>", "'\">"))])
    rows = [
        {name: text, "value": 5.0, "error": 2.0, "lower": 3.0, "upper": 7.0, "below_noise": False}
        for text in ("<b>", "'\">")
    ]
    chart = charts.Chart.of(rows, list(domain), "count(*)", lambda codes: f"explore?c={codes[0]}")
    text = template("parts.html.j2").module.bar_table(chart.bars(rows, name), name, "count(*)")
    assert "<script" not in text
    assert "<b>" not in text
    assert "<b>" in html.unescape(str(text))


def test_a_result_has_each_figure_with_its_error_in_one_cell():
    release = toy_release()
    columns, rows = explore.shown(
        release.sql("select sex, count(*), share() from t group by sex"), toy_domain()
    )
    assert columns == ["sex", "count(*)", "share()", "how it is known"]
    assert all("±" in row[1] and "points" in row[2] for row in rows)
