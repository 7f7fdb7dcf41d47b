"""Borders of declarations: what is refused, what is only noted, and spellings that few libraries make."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

from maquette.core.neighbours import from_text, to_text
from maquette.core.values import cells, spelling
from maquette.domain import Attribute, Domain, Kind, Never, Persons, Relation
from maquette.domain import constraint as constraints
from maquette.domain.constraint import Cells, complete, parse, resolve
from maquette.domain.entries import parse_attribute
from maquette.domain.remarks import check
from maquette.domain.review import usual_scale
from maquette.errors import DomainError, ParameterError


def codes(name: str, size: int = 3) -> Attribute:
    return Attribute(name, Kind.ORDINAL, codes=size)


@pytest.mark.parametrize("column", ["", "x" * 101, "a\nb", 3, None])
def test_a_person_is_named_by_a_column(column):
    with pytest.raises(ParameterError, match="name of a column"):
        Persons(column, 2)
    assert Persons("x" * 100, 2).rows == 2


def test_neighbours_are_stored_as_a_text():
    for persons in (None, Persons("who", 7)):
        assert from_text(to_text(Relation.ADD_REMOVE, persons)) == (Relation.ADD_REMOVE, persons)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (dt.time(8, 30), "08:30:00"),
        (np.datetime64("2020-01-02T03:04:05"), "2020-01-02 03:04:05"),
        (np.datetime64("2020-01-02"), "2020-01-02"),
        (np.float32(0.1), "0.1"),
    ],
)
def test_values_of_other_libraries_are_spelled_as_texts_are(value, text):
    assert spelling(value) == text


def test_cells_that_were_read_are_cells():
    cells = Cells.read([0, 1])
    assert Cells.read(cells) is cells
    assert cells.spec() == [0, 1]


def test_a_map_that_is_none_is_refused():
    with pytest.raises(DomainError, match="determines"):
        parse({"determines": "a", "by": ["b"], "map": [1]})


def test_a_record_is_completed_by_going_back_from_a_wrong_start():
    """With a = 0 every b is allowed by each rule alone and by none together: the search has to leave a = 0."""
    attributes = [codes("a"), codes("b"), codes("c")]
    rules = resolve(
        Domain(tuple(attributes)).attributes,
        [
            Never({"a": [0], "b": [0], "c": [0, 1]}),
            Never({"a": [0], "b": [0], "c": [2]}),
            Never({"a": [0], "b": [1], "c": [0, 2]}),
            Never({"a": [0], "b": [1], "c": [1]}),
            Never({"a": [0], "b": [2], "c": [0]}),
            Never({"a": [0], "b": [2], "c": [1, 2]}),
        ],
    )
    record = complete(attributes, rules, {"a": 0, "b": 0, "c": 0})
    assert record is not None
    assert record["a"] != 0


def test_a_search_for_a_record_ends(monkeypatch):
    monkeypatch.setattr(constraints, "MAX_TRIED_VALUES", 0)
    attributes = [codes("a"), codes("b")]
    rules = resolve(attributes, [Never({"a": [0], "b": [0]})])
    with pytest.raises(DomainError, match="declare them more simply"):
        complete(attributes, rules, {})


def test_an_entry_with_a_wrong_word_is_refused_by_its_place():
    with pytest.raises(DomainError, match="kind"):
        parse_attribute('{"name": "a", "kind": "colour"}')
    with pytest.raises(DomainError, match="one JSON object"):
        parse_attribute('["a"]')


def test_categories_of_one_value_are_noted():
    domain = Domain((Attribute("a", Kind.CATEGORICAL, categories=("1", "01")),))
    assert any("spell the same value" in finding.text for finding in check(domain))


def test_cells_one_wide_that_may_hold_fractions_are_noted():
    domain = Domain((Attribute("a", Kind.NUMERIC, bounds=(0, 10), bins=10),))
    assert any("may hold fractions" in finding.text for finding in check(domain))


def test_texts_that_differ_by_spelling_alone_are_no_scale():
    assert usual_scale(["low", "Low", "high"]) is None


def test_words_of_a_scale_that_do_not_occur_are_spelled_as_the_others():
    plain = usual_scale(["never", "rarely", "often"])
    assert plain is not None
    assert len(plain) > 3
    assert usual_scale(["NEVER", "RARELY", "OFTEN"]) == tuple(word.upper() for word in plain)
    mixed = usual_scale(["Never", "rarely", "OFTEN"])
    assert mixed is not None
    assert {word for word in mixed if word not in ("Never", "rarely", "OFTEN")} == set(plain) - {
        "never",
        "rarely",
        "often",
    }


def test_an_unknown_attribute_is_named():
    domain = Domain((codes("a"),))
    with pytest.raises(DomainError, match="unknown attribute 'b'"):
        domain.cells(["a", "b"])


def test_a_domain_shows_itself_in_a_notebook():
    html = Domain((codes("a"),))._repr_html_()
    assert "a" in html
    assert "3" in html


def test_a_day_that_no_calendar_has_is_refused():
    with pytest.raises(DomainError):
        cells("day", "2021-02-30", "2021-03-02")
