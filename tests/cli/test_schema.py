"""`maquette schema`: from files to a reviewed declaration."""

import json

import maquette as mq
from support.cli_files import call

TABLES = {
    "household": "id,region\n1,north\n2,south\n3,north\n",
    "person": "household,sex,age\n1,f,40\n1,m,41\n2,f,8\n3,m,71\n",
}


def drafted(folder, *more):
    for name, text in TABLES.items():
        (folder / f"{name}.csv").write_text(text)
    return call(
        "schema", "draft", *(word for name in TABLES for word in ("--table", f"{name}={folder / name}.csv")),
        "--key", "household=id", "--link", "person.household=household", *more, "-o", folder / "s.json",
    )  # fmt: skip


def test_a_schema_is_drafted_reviewed_and_checked(tmp_path):
    ended = drafted(tmp_path, "--at-most", "person=5")
    assert ended.code == 0, ended
    assert "an unreviewed draft of 2 tables" in ended.out
    file = tmp_path / "s.json"
    assert file.stat().st_mode & 0o077 == 0
    assert not mq.Schema.load(file).reviewed
    assert "is not overwritten" in drafted(tmp_path, "--at-most", "person=5").err
    left = mq.Schema.load(file)
    accepted = [
        "household",
        "person",
        *(f"{name}.{column}" for name in TABLES for column in left.own(name).names),
    ]
    ended = call(
        "schema",
        "review",
        file,
        "--by",
        "J. Doe",
        *(w for p in accepted for w in ("--accept", f"{p}=public")),
    )
    assert "is reviewed" in ended.out, ended
    assert mq.Schema.load(file).reviewed
    ended = call("schema", "check", file)
    assert "noise is 5 times that for one" in ended.out
    data = json.loads(call("schema", "check", file, "--json").out)
    assert data["unit"] == "household"
    assert data["reviewed"]
    assert [table["rows_of_a_unit"] for table in data["tables"]] == [1, 5]


def test_a_limit_is_not_read_off_the_table(tmp_path):
    ended = drafted(tmp_path, "--at-most", "household=5")
    assert ended.code == 2
    assert "needs at_most" in ended.err
    assert "not by the table" in ended.err


def test_the_review_asks_table_by_table_and_keeps_every_answer(tmp_path):
    drafted(tmp_path, "--at-most", "person=5")
    file = tmp_path / "s.json"
    ended = call("schema", "review", file, text="J. Doe\nthe register\nquestionnaire\nc\ncode book\nq\n")
    assert "at most 5 rows count under one" in ended.out
    left = mq.Schema.load(file)
    assert left.confirmed
    assert left.own("household").reviewed
    assert not left.own("person").reviewed
    assert "still to be confirmed: person.sex, person.age" in ended.out
    ended = call("schema", "review", file, "--by", "J. Doe", text="c\ncode book\nc\ncode book\n")
    assert "is reviewed" in ended.out, ended
