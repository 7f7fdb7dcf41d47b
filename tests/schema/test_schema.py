"""The declaration of several tables: what it says, what it refuses, and its review."""

import json

import pytest

import maquette as mq
from maquette.errors import DomainError
from maquette.schema import Schema, review
from support.census import schema_of


def data(**changes):
    spec = schema_of(3, visits=2).to_dict()
    for name, change in changes.items():
        table = next(table for table in spec["tables"] if table["name"] == name)
        table.update(change)
        for key in [key for key, value in table.items() if value is None]:
            del table[key]
    return spec


def test_a_schema_is_its_file(tmp_path):
    schema = schema_of(3, visits=2)
    place = tmp_path / "s.json"
    place.write_text(schema.to_text(), "utf-8")
    again = mq.Schema.load(place)
    assert again == schema
    assert again.fingerprint == schema.fingerprint
    assert again.unit == "household"
    assert again.unit_rows == {"household": 1, "person": 3, "visit": 6}
    assert str(again.persons["visit"]) == "persons by 'household.id' with at most 6 records each"


def test_the_order_in_a_file_does_not_matter():
    spec = data()
    spec["tables"] = spec["tables"][::-1]
    assert Schema.from_dict(spec).names == ("household", "person", "visit")


def test_views_have_the_columns_of_their_ancestors():
    schema = schema_of(3, visits=2)
    assert schema.domain("household").names == ("region", "number_of_person")
    assert schema.domain("visit").names == ("ward", "age", "number_of_visit", "region", "number_of_person")
    assert schema.own_columns("person") == ("age", "number_of_visit")
    number = schema.domain("household")["number_of_person"]
    assert [number.label(code) for code in range(number.size)] == ["0", "1", "2", "3"]


def test_columns_of_one_name_are_told_apart():
    domain = {"attributes": [{"name": "region", "kind": "categorical", "categories": ["x", "y"]}]}
    schema = Schema.from_dict(data(person={"domain": domain}))
    assert schema.domain("person").names[:3] == ("person_region", "number_of_visit", "household_region")
    assert schema.spelling("household", "region") == "household_region"
    assert schema.spelling("household", "number_of_person") == "number_of_person"


WRONG = {
    "in a circle": data(person={"parent": "visit"}),
    "is not among the tables": data(person={"parent": "nobody"}),
    "points to one parent": data(person={"parent": ["household", "visit"]}),
    "needs a key": data(person={"key": None}),
    "cannot both name its rows and point": data(person={"key": "household"}),
    "keys are never released": data(person={"refers": "age"}),
    "a whole number from 1, got 0": data(person={"at_most": 0}),
    "needs at_most": data(person={"at_most": None}),
    "parent and refers go together": data(person={"refers": None}),
    "more than 1,000": data(person={"at_most": 900}),
    "points to no other and is not the unit's": data(visit={"parent": None, "refers": None, "key": "n"}),
    "which points to": data() | {"unit": "person"},
    "which is not among the tables household": data() | {"unit": "nobody"},
    "letters, digits and _": data() | {"tables": [*data()["tables"], {**data()["tables"][2], "name": "a b"}]},
    "names of their own": data() | {"tables": [*data()["tables"], data()["tables"][2]]},
}


@pytest.mark.parametrize("words", WRONG)
def test_what_is_no_tree_of_tables_is_refused_in_words(words):
    with pytest.raises(DomainError, match=words):
        Schema.from_dict(WRONG[words])


def test_every_key_limit_and_column_is_confirmed_by_a_person(tmp_path):
    spec = data(**{name: {} for name in ("household", "person", "visit")}) | {"reviewed": False}
    for table in spec["tables"]:
        table["domain"]["reviewed"] = False
    schema = Schema.from_dict(spec)
    left = ("household", "person", "visit", "household.region", "person.age", "visit.ward")
    assert review.remaining(schema) == left
    with pytest.raises(DomainError, match=r"this schema is an unreviewed draft.* maquette schema review"):
        mq.open({name: {} for name in schema.names}, schema=schema)
    with pytest.raises(DomainError, match="say who"):
        review.confirm(schema, "person", by="", why="x")
    for place in left:
        assert not schema.reviewed
        schema = review.confirm(schema, place, by="J. Doe", why="code book")
    assert schema.reviewed
    assert review.remaining(schema) == ()
    again = Schema.from_dict(json.loads(schema.to_text()))
    assert again.reviewed
    assert again.notes["reviews"]["person"]["by"] == "J. Doe"
