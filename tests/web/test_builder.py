"""Conditions from forms: the same records as the boxes that were ticked."""

from __future__ import annotations

import pytest

from maquette.domain import Domain
from maquette.errors import ParameterError
from maquette.queries import where
from maquette.web import conditions
from support.made_release import toy_domain


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({}, ""),
        ({"c1": ["0"]}, "sex = 'Female'"),
        ({"c1": ["0", "1"]}, ""),
        ({"f0": ["2"], "t0": ["3"]}, "age >= 20 AND age < 40"),
        ({"c2": ["0", "2"], "c1": ["1"]}, "sex = 'Male' AND region IN ('north', 'west')"),
    ],
)
def test_choices_become_words(values, text):
    assert conditions.condition(toy_domain(), values) == text


@pytest.mark.parametrize("codes", [["0"], ["9"], ["0", "3", "4", "9"], ["1", "2", "3"]])
def test_the_words_mean_the_cells(codes):
    domain = toy_domain()
    box = where(domain, conditions.condition(domain, {"c0": codes})).box()
    assert box == {"age": tuple(int(code) for code in codes)}


@pytest.mark.parametrize(
    "values", [{"c1": ["7"]}, {"c1": ["-1"]}, {"c1": ["x"]}, {"f0": ["3"], "t0": ["2"]}, {"c0": ["9" * 20]}]
)
def test_what_no_form_sends_is_refused(values):
    with pytest.raises(ParameterError):
        conditions.condition(toy_domain(), values)


def test_strange_names_and_categories_come_through():
    domain = Domain.from_dict(
        {
            "attributes": [
                {"name": 'a "b" <i>', "kind": "categorical", "categories": ["it's", "x' OR 1=1 --", "<b>"]}
            ]
        }
    )
    text = conditions.condition(domain, {"c0": ["1"]})
    assert where(domain, text).box() == {'a "b" <i>': (1,)}


def test_long_columns_are_lists_or_ranges():
    domain = Domain.from_dict(
        {
            "attributes": [
                {"name": "n", "kind": "numeric", "bounds": [0, 1000], "bins": 1000},
                {"name": "c", "kind": "categorical", "categories": [f"v{i}" for i in range(30)]},
            ]
        }
    )
    assert [field.form for field in conditions.fields(domain)] == ["range", "list"]
    assert [field.name for field in conditions.fields(domain, ["c"])] == ["c"]
    assert len(conditions.words(domain)) == 2 + 50 + 30
    assert conditions.words(domain, ["c"])[:2] == ["c", "c = 'v0'"]


def test_every_completion_is_a_column_or_a_condition():
    from maquette import demo

    domain = demo.domain()
    for text in conditions.words(domain):
        assert text in domain.names or where(domain, text).count == 1
