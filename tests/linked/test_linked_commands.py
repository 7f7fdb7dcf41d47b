"""The commands on several tables: a release from files, and what is taken out of its folder."""

import csv
import json

import duckdb
import pytest

import maquette as mq
from maquette.errors import ReleaseError
from support.census import people, schema_of
from support.cli_files import call, refused

JOIN = "select h.region, count(*) from person p join household h on p.household = h.id group by h.region"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with two tables, their schema and the release of them."""
    folder = tmp_path_factory.mktemp("commands")
    for name, columns in people(600).items():
        with (folder / f"{name}.csv").open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
    (folder / "census.schema.json").write_text(schema_of(4).to_text())
    ended = released(folder)
    assert ended.code == 0, ended
    return folder


def words(folder, *, epsilon=2, output="census.maquette"):
    return [
        *(
            "--schema",
            folder / "census.schema.json",
            "--marginals",
            2,
            "--epsilon",
            epsilon,
            "--delta",
            "1e-6",
        ),
        *("--mechanism", "sculpt", "--ledger", folder / "census.ledger", "-o", folder / output, "--quiet"),
    ]


def released(folder, *more, **changes):
    tables = [f"{name}={folder / name}.csv" for name in ("household", "person")]
    return call("release", *tables, *words(folder, **changes), *more)


def test_one_command_releases_several_tables(place):
    folder = place / "census.maquette"
    made = mq.load(folder)
    assert isinstance(made, mq.LinkedRelease)
    assert made.schema.names == ("household", "person")
    assert {view.checked for view in made.views.values()} == {"bound"}
    assert isinstance(mq.load(folder / "person"), mq.Release)
    assert (folder / "person" / "report.html").is_file()


def test_the_same_command_is_free_and_says_the_same(place):
    spent = call("ledger", "show", place / "census.ledger", "--json").json["spent"]
    before = mq.load(place / "census.maquette").rows
    again = released(place, "--json")
    assert again.code == 0, again
    assert set(again.json["tables"]) == {"household", "person"}
    assert call("ledger", "show", place / "census.ledger", "--json").json["spent"] == spent
    assert all(rows.equals(before[name]) for name, rows in mq.load(place / "census.maquette").rows.items())
    refused(released(place, epsilon=1), "stays", "--replace")
    refused(released(place, "--key", "another"), "stays")


def test_tables_in_one_database_are_released_alike(place, tmp_path):
    base = tmp_path / "census.duckdb"
    with duckdb.connect(str(base)) as connection:
        for name in ("household", "person"):
            connection.execute(f"create table {name} as select * from read_csv('{place / name}.csv')")
    changed = [
        str(word).replace(str(place / "census.ledger"), str(tmp_path / "c.ledger")) for word in words(place)
    ]
    ended = call("release", base, *changed, "-o", tmp_path / "c.maquette")
    assert ended.code == 0, ended
    assert mq.load(tmp_path / "c.maquette").schema.unit == "household"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (["household=h.csv"], "NAME=TABLE once for each"),
        (["household=h.csv", "household=h.csv", "person=p.csv"], "NAME=TABLE once for each"),
        (["household=h.csv", "person="], "NAME=TABLE once for each"),
        (["household=h.csv", "person=p.csv", "--marginals", "1"], "--marginals K once"),
        (["household=h.csv", "person=p.csv", "--where", "age = 'old'"], "--marginals K once"),
        (["household=h.csv", "person=p.csv", "--domain", "d.json"], "--schema FILE for several"),
        (["household=h.csv", "person=p.csv", "--person", "household"], "for one table"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_paid(changed, said, place):
    usual = words(place, output="other.maquette")
    usual[usual.index(place / "census.ledger")] = place / "new.ledger"
    refused(call("release", *changed, *usual), said)
    assert not (place / "new.ledger").exists()


def test_one_table_needs_a_domain_and_several_a_schema(place):
    refused(call("release", "people.csv", "--marginals", 1, "--epsilon", 1), "--domain FILE for one table")


def test_answers_across_tables(place):
    folder, made = place / "census.maquette", mq.load(place / "census.maquette")
    answers = call("answer", folder, "age = 'old'", "region = 'south'", "--json").json
    assert [one["value"] for one in answers] == [
        made.answer(text).value for text in ("age = 'old'", "region = 'south'")
    ]
    assert "rows of table 'household'" in answers[1]["notes"][-1]
    of = call("answer", folder, "region = 'south'", "--of", "person", "--json").json
    assert "rows of table 'person'" in of[0]["notes"][-1]
    table = call("table", folder, "region", "--of", "person", "--json").json
    assert len(table["rows"]) == len(call("table", folder, "region", "--json").json["rows"])
    assert "rows of table 'person'" in table["notes"][-1]
    found = json.loads(call("sql", folder, JOIN, "--json").out)
    assert found["rows"] == made.sql(JOIN).to_pylist()
    refused(call("answer", folder, "region = 'south'", "--of", "visit"), "visit")
    refused(call("answer", folder / "person", "age = 'old'", "--of", "person"), "several tables")


def test_rows_are_exported_in_the_forms_that_there_are(place):
    folder, count = place / "census.maquette", mq.load(place / "census.maquette").rows["person"].num_rows
    ended = call("export", folder, "-o", place / "out", "--duckdb", "--csv")
    assert ended.code == 0, ended
    assert "tables.duckdb" in ended.out
    with duckdb.connect(str(place / "out" / "tables.duckdb"), read_only=True) as connection:
        assert connection.execute("select count(*) from person").fetchone() == (count,)
    refused(call("export", folder, "-o", place / "no", "--xlsx"), "--xlsx", "duckdb")
    refused(call("export", folder, "-o", place / "no", "--table", "age"), "for one table")
    refused(call("export", folder / "person", "-o", place / "no", "--sqlite"), "--sqlite")
    assert not (place / "no").exists()


def test_a_folder_that_is_no_release_is_refused_as_before(tmp_path):
    with pytest.raises(ReleaseError):
        mq.load(tmp_path)


# The plan.


def planned(place, *more):
    usual = ["--schema", place / "census.schema.json", "--marginals", 2, "--n", 600, "--epsilon", 2]
    return call("plan", *usual, "--delta", "1e-6", *more)


def test_a_plan_divides_as_the_release_does(place, tmp_path):
    plan = planned(place, "--json").json
    assert {name: (one["rows"], one["unit_rows"]) for name, one in plan["tables"].items()} == {
        "household": (600, 1),
        "person": (1500, 4),
    }
    tables = mq.open({name: place / f"{name}.csv" for name in plan["tables"]}, schema=schema_of(4))
    made = mq.release(tables, 2, epsilon=2, delta=1e-6, typical_rows=600, ledger=tmp_path / "c.ledger")
    assert {name: view.budget.epsilon for name, view in made.views.items()} == {
        name: one["epsilon"] for name, one in plan["tables"].items()
    }
    assert {name: view.mechanism for name, view in made.views.items()} == {
        name: one["forecast"]["mechanism"] for name, one in plan["tables"].items()
    }


def test_a_plan_shows_the_error_against_the_limits(place):
    plan = planned(place, "--json").json
    errors = {
        one["at_most"]: one["tables"]["person"]["expected"]
        for one in plan["limits"]
        if one["table"] == "person"
    }
    assert errors[2] < plan["tables"]["person"]["forecast"]["expected"] < errors[8]
    said = planned(place, "--ledger", place / "census.ledger")
    assert said.code == 0, said
    assert "With another limit" in said.out
    assert "of ledger" in said.out


@pytest.mark.parametrize(
    "more", [("--online",), ("--alpha", 0.1), ("--rows-per-person", 2), ("--domain", "d.json")]
)
def test_a_plan_of_several_tables_refuses_what_is_said_of_one(more, place):
    refused(planned(place, *more), "one table")


def test_a_plan_of_several_tables_refuses_the_other_relation(place):
    assert planned(place, "--relation", "replace-one").code == 2
