"""Encodings of text files, and the owner's report on what of a table fits no declared cell."""

from __future__ import annotations

import gzip
import json

import duckdb
import pytest

import maquette as mq
from maquette.core.rows import delimited
from maquette.domain import Attribute, Domain, Kind, Never
from maquette.errors import ParameterError, SourceError
from maquette.vault.readers import open_engine
from support.cli_files import call

CITIES = ("Zürich", "Genève", "Bern")
DOMAIN = Domain(
    (
        Attribute("city", Kind.CATEGORICAL, categories=CITIES, nullable=True, overflow=True),
        Attribute("age", Kind.NUMERIC, bounds=(0, 100), bins=10),
        Attribute("income", Kind.NUMERIC, bounds=(0, 9), bins=3, overflow=True),
        Attribute("sex", Kind.CATEGORICAL, categories=("f", "m")),
        Attribute("rank", Kind.ORDINAL, codes=3, nullable=True),
    )
)
TEXT = (
    "city,age,income,sex,rank\n"
    "Zürich,50,5,f,0\n"
    "Genève,150,50,m,1\n"
    "Paris,-3,,x,7\n"
    ",abc,7,,\n"
)  # fmt: skip
EXPECTED = {
    "city": (1, 1, 0),
    "age": (0, 0, 2),
    "income": (2, 0, 0),
    "sex": (0, 0, 0),
    "rank": (0, 2, 0),
}
"""Records in the overflow cell, in the null cell, and clamped."""


@pytest.fixture
def latin(tmp_path):
    path = tmp_path / "people.csv"
    path.write_bytes(TEXT.encode("latin-1"))
    DOMAIN.save(tmp_path / "people.domain.json")
    return path


@pytest.mark.parametrize(
    "encoding", ["utf-8", "latin-1", "cp1252", "utf-16", "utf-8-sig", "mac-roman", "UTF8"]
)
@pytest.mark.parametrize("chunk", [1, 3, 2**20])
def test_a_file_is_read_in_its_encoding(encoding, chunk, tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "CHUNK", chunk)
    (tmp_path / "t.csv").write_bytes(TEXT.encode(encoding))
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(TEXT.encode(encoding)))
    for name in ("t.csv", "t.csv.gz"):
        for limit in (None, 0):
            engine = open_engine(tmp_path / name, DOMAIN, encoding=encoding, memory_limit=limit)
            assert engine.margins([("city",)])[("city",)].tolist() == [1, 1, 0, 1, 1]


@pytest.mark.parametrize("limit", [None, 0])
def test_text_that_is_not_utf_8_is_refused_when_it_is_opened(latin, limit):
    with pytest.raises(SourceError, match=r'not UTF-8 text; .*encoding="latin-1"') as refused:
        mq.open(latin, domain=DOMAIN, memory_limit=limit)
    said = str(refused.value)
    assert not any(
        char.isdigit() for char in said.replace("UTF-8", "").replace("latin-1", "").replace("cp1252", "")
    )
    assert refused.value.__context__ is None
    mq.open(latin, domain=DOMAIN, memory_limit=limit, encoding="latin-1")


def test_bad_bytes_behind_the_first_batch_are_found_on_opening_a_stream(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "BLOCK", 64)
    (tmp_path / "t.csv").write_bytes(TEXT.encode() * 1 + b"Bern,1,1,f,0\n" * 500 + b"Z\xfcrich,1,1,f,0\n")
    with pytest.raises(SourceError, match="not UTF-8 text"):
        open_engine(tmp_path / "t.csv", DOMAIN, memory_limit=0)


def test_another_encoding_that_does_not_fit_is_refused(tmp_path):
    (tmp_path / "t.csv").write_bytes(TEXT.encode("latin-1") + b"\x81,1,1,f,0\n")
    with pytest.raises(SourceError, match="is not cp1252 text"):
        mq.open(tmp_path / "t.csv", domain=DOMAIN, encoding="cp1252")


@pytest.mark.parametrize("encoding", ["nonsense", "base64", "rot13", "undefined", "zlib", "", "utf-8\0"])
def test_encodings_are_of_text(encoding, latin):
    with pytest.raises(ParameterError, match=r"expected encoding to (name|be) a text"):
        mq.open(latin, domain=DOMAIN, encoding=encoding)


def test_encodings_are_for_text_files():
    with pytest.raises(ParameterError, match="encoding= is for text files"):
        mq.open({"a": [1]}, domain=DOMAIN, encoding="latin-1")


def test_the_report_counts_what_fits_no_cell(latin):
    report = mq.fit_report(latin, domain=DOMAIN, encoding="latin-1")
    assert report.records == 4
    assert {c.name: (c.overflow, c.null, c.clamped) for c in report.columns} == EXPECTED
    sex = report.columns[3]
    assert (sex.undeclared, sex.missing) == (1, 1)
    assert sex.undeclared_go == sex.missing_go == "counted in the first cell, f"
    age = report.columns[1]
    assert (age.undeclared, age.missing, age.missing_go) == (2, 1, "counted in the first cell, [0, 10)")


def test_the_report_agrees_with_the_coding(latin):
    report = mq.fit_report(latin, domain=DOMAIN, encoding="latin-1")
    engine = open_engine(latin, DOMAIN, encoding="latin-1")
    for a, fit in zip(DOMAIN, report.columns, strict=True):
        counts = engine.margins([(a.name,)])[(a.name,)]
        assert fit.overflow == (0 if a.overflow_cell is None else counts[a.overflow_cell])
        assert fit.null == (0 if a.null_cell is None else counts[a.null_cell])


def test_the_report_says_everywhere_that_it_is_not_private(latin):
    report = mq.fit_report(latin, domain=DOMAIN, encoding="latin-1")
    assert str(report).startswith("NOT PRIVATE")
    assert report.to_dict()["not_private"] is True
    assert report.to_dict()["warning"].startswith("NOT PRIVATE")
    assert "NOT PRIVATE" in (mq.fit_report.__doc__ or "")


def test_the_command(latin):
    words = ("domain", "check", latin.with_name("people.domain.json"), "--table", latin)
    refused = call(*words)
    assert refused.code == 2
    assert "NOT PRIVATE: file people.csv, byte 26, line 2" in refused.err
    told = call(*words, "--encoding", "latin-1")
    assert told.code == 0
    assert "NOT PRIVATE, NOT FOR RELEASE" in told.out
    assert "city: 1 (25.00 %) not declared: (other); 1 (25.00 %) missing: (missing)" in told.out
    document = json.loads(call(*words, "--encoding", "latin-1", "--json").out)
    assert document["fit"]["not_private"] is True
    assert {
        c["name"]: (c["overflow"], c["null"], c["clamped"]) for c in document["fit"]["columns"]
    } == EXPECTED


@pytest.mark.slow
def test_a_release_from_the_command_line_takes_an_encoding(latin, tmp_path):
    words = ("release", latin, "-d", latin.with_name("people.domain.json"), "--marginals", 1, "--epsilon", 1)
    assert "not UTF-8 text" in call(*words, "-o", tmp_path / "out").err
    assert not (tmp_path / "people.csv.ledger").exists()
    assert call(*words, "-o", tmp_path / "out", "--encoding", "latin-1", "-q").code == 0


@pytest.mark.parametrize("chunk", [1, 7, 2**20])
@pytest.mark.parametrize("before", [b"", b"x\n" * 40, "é\n".encode() * 40, b"\xef\xbb\xbf"])
def test_the_place_is_that_of_the_first_bad_byte(before, chunk, tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "CHUNK", chunk)
    data = b"city\n" + before + b"ab\xe9\xe9\n"
    (tmp_path / "t.csv").write_bytes(data)
    found = delimited.DelimitedFile(tmp_path / "t.csv", ",").bad_place()
    assert found == (data.index(b"\xe9\xe9"), data[: data.index(b"\xe9\xe9")].count(b"\n") + 1)
    (tmp_path / "t.csv").write_bytes(b"city\n" + before)
    assert delimited.DelimitedFile(tmp_path / "t.csv", ",").bad_place() is None


def test_a_table_of_a_database(tmp_path):
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT 'Bern' AS city, 5 AS age, 1 AS income, 'f' AS sex, 9 AS rank"
        )
    report = mq.fit_report(tmp_path / "t.duckdb", domain=DOMAIN, table="t")
    assert [c.null for c in report.columns] == [0, 0, 0, 0, 1]
    DOMAIN.save(tmp_path / "d.json")
    told = call("domain", "check", tmp_path / "d.json", "--table", tmp_path / "t.duckdb", "--name", "t")
    assert told.code == 0
    assert "rank: 1 (100.00 %) not declared: (missing)" in told.out


# What the owner is told of a table as a whole, by this command and by nothing else.

AGES = Domain(
    (
        Attribute("age", Kind.NUMERIC, bounds=(0, 100), bins=10, nullable=True),
        Attribute("sex", Kind.CATEGORICAL, categories=("f", "m"), nullable=True, overflow=True),
    ),
    constraints=(Never({"age": {"to": 20}, "sex": ["m"]}),),
)


@pytest.mark.parametrize(
    ("text", "remarks"),
    [
        ("", ["the table has no records"]),
        ("50,f\n", []),
        (",\n,\n", ["age: every value is missing", "sex: every value is missing"]),
        ("old,f\nyoung,m\n", ["age: no value is a number; is it"]),
        ("old,f\n,m\n", ["age: no value is a number (1 are missing); is it"]),
        ("500,F\n700,\n", ["age: no value is declared", "sex: no value is declared"]),
        ("10,m\n15,m\n30,m\n10,f\n", ["2 (50.00 %) of the records break the constraint"]),
        ('"\n50",f\n30,"m\n"\n\n20,f\n', ["2 records go on over a line end"]),
        ('50,f,"x\n\n30,m,x"\n20,f\n', ["1 records go on over a line end"]),
    ],
)
@pytest.mark.parametrize("block", [16, 2**23])
def test_the_owner_is_told_of_the_table_as_a_whole(text, remarks, block, tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "BLOCK", block)
    (tmp_path / "t.csv").write_text(f"age,sex\n{text}")
    report = mq.fit_report(tmp_path / "t.csv", domain=AGES)
    assert len(report.remarks) == len(remarks)
    assert all(told.startswith(remark) for told, remark in zip(report.remarks, remarks, strict=True))
    assert all(remark in str(report) for remark in report.remarks)


def test_what_is_told_stays_with_the_command(tmp_path):
    """Not the exit code, nor what a service shows where its configuration allows counts of columns."""
    AGES.save(tmp_path / "d.json")
    told = []
    for name, text in (("empty", ""), ("wrong", "x,y\n10,m\n"), ("good", "50,f\n")):
        (tmp_path / f"{name}.csv").write_text(f"age,sex\n{text}")
        ended = call("domain", "check", tmp_path / "d.json", "--table", tmp_path / f"{name}.csv", "--json")
        fit = json.loads(ended.out)["fit"]
        told.append((ended.code, ended.err, len(fit["remarks"])))
        plain = mq.fit_report(tmp_path / f"{name}.csv", domain=AGES).to_dict()
        assert set(fit) - set(plain) == {"constraints", "records_over_lines", "remarks"}
        assert set(plain["columns"][0]) == {
            *("name", "records", "undeclared", "undeclared_go", "missing", "missing_go"),
            *("overflow", "null", "clamped"),
        }
    assert told == [(0, "", 1), (0, "", 1), (0, "", 0)]


def test_broken_constraints_are_those_of_the_coded_records():
    rows = {"age": [5, 5, 19.9, 20, None, -3], "sex": ["m", "f", "m", "m", "m", "m"]}
    report = mq.fit_report(rows, domain=AGES)
    assert [count for _, count in report.broken] == [3]  # -3 is counted in the first cell
