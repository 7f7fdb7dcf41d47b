"""What `domain check` remarks: each remark seen, and a good declaration left alone."""

from __future__ import annotations

from typing import Any

import pytest

from maquette.domain import Attribute, Domain, Kind
from maquette.domain.remarks import check, is_round

GOOD = Attribute("region", Kind.CATEGORICAL, categories=("north", "south"), nullable=True, overflow=True)
NUMBER: Any = {"kind": Kind.NUMERIC, "bounds": (0, 100), "bins": 10, "nullable": True, "overflow": True}


def remarks(attribute: Attribute, **options) -> list[tuple[str, str]]:
    found = check(Domain((attribute,), **options))
    return [(f.severity, f.text) for f in found if f.attribute == attribute.name]


@pytest.mark.parametrize("attribute", [GOOD, Attribute("age", **NUMBER)])
def test_nothing_is_said_against_a_good_attribute(attribute):
    assert remarks(attribute) == []


@pytest.mark.parametrize(
    ("attribute", "severity", "words"),
    [
        (
            Attribute("x", Kind.CATEGORICAL, categories=("a", "b")),
            "risk",
            "not declared fall into its first cell 'a'",
        ),
        (Attribute("x", Kind.CATEGORICAL, codes=3, nullable=True), "risk", "fall into the cell (missing)"),
        (
            Attribute("x", Kind.CATEGORICAL, codes=3, overflow=True),
            "note",
            "missing values fall into the overflow",
        ),
        (Attribute("x", Kind.NUMERIC, bounds=(0, 10), bins=5), "risk", "fall into its first cell [0, 2)"),
        (
            Attribute("x", Kind.NUMERIC, bounds=(0, 10), bins=5, overflow=True),
            "risk",
            "the overflow cell (other)",
        ),
        (Attribute("x", Kind.NUMERIC, bounds=(0, 10), bins=5), "note", "clamp to [0, 2) and [8, 10]"),
        (
            Attribute("x", Kind.CATEGORICAL, codes=5000, overflow=True),
            "risk",
            "5,001 cells: counts per cell drown",
        ),
        (Attribute("x", Kind.CATEGORICAL, codes=10**6), "risk", "looks like an identifier"),
        (Attribute("patient_id", Kind.CATEGORICAL, codes=30), "risk", "looks like an identifier"),
        (Attribute("E-Mail", Kind.CATEGORICAL, codes=30), "risk", "looks like an identifier"),
        (Attribute("x", Kind.CATEGORICAL, codes=2**65), "error", "cannot be coded"),
        (Attribute("x", Kind.CATEGORICAL, categories=("a",)), "risk", "one cell only"),
        (Attribute("x", **NUMBER | {"bounds": (0.37251, 100)}), "risk", "0.37251 is not round"),
        (Attribute("x", **NUMBER | {"bounds": (0, 48291)}), "risk", "48291 is not round"),
        (
            Attribute("x", Kind.NUMERIC, edges=(0, 1.2345, 10), nullable=True, overflow=True),
            "risk",
            "1.2345 is not round",
        ),
        (Attribute("x", **NUMBER | {"bins": 7, "integer": True}), "note", "unequal numbers of whole numbers"),
        (
            Attribute("x", Kind.CATEGORICAL, categories=("a", "a ")),
            "error",
            "'a ' is never reached: it is read as 'a'",
        ),
        (
            Attribute("x", Kind.CATEGORICAL, categories=("\u00e9", "e\u0301")),
            "error",
            "is never reached: it is read as",
        ),
        (
            Attribute("x", Kind.CATEGORICAL, categories=("a", "")),
            "error",
            "'' is never reached: it is read as missing",
        ),
        (
            Attribute("x", Kind.CATEGORICAL, categories=("a", "(other)")),
            "risk",
            "one of the cells we add ourselves",
        ),
    ],
)
def test_each_remark(attribute, severity, words):
    assert any(s == severity and words in text for s, text in remarks(attribute)), remarks(attribute)


def test_what_was_found_and_paid_for_is_not_scolded():
    found = Attribute("x", Kind.NUMERIC, edges=(0, 12.3456, 48291))
    columns = {"x": {"how": "discovered", "what": "number"}}
    assert {severity for severity, _ in remarks(found, notes={"columns": columns})} == {"note"}
    for other in ({}, {"columns": {"x": {"how": "declared"}}}, {"columns": {"x": "?"}}, {"columns": 3}):
        assert "risk" in {severity for severity, _ in remarks(found, notes=other)}


def test_borders_half_way_between_whole_numbers_are_round_for_whole_numbers():
    days: Any = {"kind": Kind.NUMERIC, "bounds": (0.5, 366.5), "bins": 61, "nullable": True, "overflow": True}
    assert remarks(Attribute("x", **days, integer=True)) == []
    assert "366.5 is not round" in remarks(Attribute("x", **days))[0][1]


def test_a_token_for_missing_hides_a_category():
    assert ("error", "category 'N' is never reached: it is read as missing") in remarks(
        Attribute("x", Kind.CATEGORICAL, categories=("Y", "N")), na_values=("N",)
    )


def test_a_draft_is_an_error_and_errors_come_first():
    found = check(Domain((Attribute("x", Kind.CATEGORICAL, codes=3), GOOD), reviewed=False))
    assert found[0].severity == "error"
    assert '"reviewed": true' in found[0].text
    assert str(found[0]).startswith("error: domain: this is an unreviewed draft")
    order = [f.severity for f in found]
    assert order == sorted(order, key=("error", "risk", "note").index)
    assert all(f.severity != "error" for f in check(Domain((GOOD,))))


def test_sizes_are_always_said():
    (note,) = check(Domain((GOOD,)))
    assert (note.severity, note.attribute) == ("note", None)
    assert note.text == "1 attributes, |X| = 4, ln |X| = 1.39: region 4"
    wide = check(Domain(tuple(Attribute(f"x{i}", **NUMBER) for i in range(20))))
    assert "about 10^21" in wide[-1].text


@pytest.mark.parametrize("value", [0, 1, 90, 520, 1_350_000, 2013, 1900, 2401, 0.5, -10_000, 1e9, 101, 0.001])
def test_round_numbers(value):
    assert is_round(value)


@pytest.mark.parametrize("value", [48291, 0.37251, 12.345, -9999.5, 123456])
def test_numbers_that_nobody_would_think_of(value):
    assert not is_round(value)
