"""SQLite, workbooks, compressed text, Hive folders, lists of files and ADBC: the same counts, and clear errors."""

import datetime as dt
import gzip
import importlib
import sqlite3

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import maquette as mq
from maquette.domain import Attribute, Domain, Kind, Persons
from maquette.errors import ParameterError, SourceError
from maquette.vault.readers import open_engine, open_source, public_name

DOMAIN = Domain(
    (
        Attribute("age", Kind.NUMERIC, bounds=(0, 100), bins=10, nullable=True),
        Attribute("where", Kind.CATEGORICAL, categories=("north", "söuth"), overflow=True, nullable=True),
        Attribute("when", Kind.ORDINAL, categories=("2013-01", "2013-02"), calendar="month", overflow=True),
    )
)
ROWS = [
    (17, "north", "2013-01-05"),
    (17.5, "söuth", "2013-02-28"),
    (None, " north ", "2013-01-31 23:59:59"),
    (200, "elsewhere", "2014-01-01"),
    (99, None, "2013-02-01"),
]
NAMES = ("age", "where", "when")


def counts(source, **options):
    engine = open_engine(source, DOMAIN, **options)
    return engine.margins([NAMES])[NAMES].tolist()


@pytest.fixture
def expected():
    return counts([dict(zip(NAMES, row, strict=True)) for row in ROWS])


def csv_text():
    lines = [",".join("" if value is None else str(value) for value in row) for row in ROWS]
    return "\n".join([",".join(NAMES), *lines, ""]).encode()


def write_zst(path, data):
    with pa.CompressedOutputStream(str(path), "zstd") as stream:
        stream.write(data)


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "people.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute('CREATE TABLE "the people" (age, "where" TEXT, "when" TEXT, id INTEGER)')
        rows = [(*row, i % 2) for i, row in enumerate(ROWS)]
        connection.executemany('INSERT INTO "the people" VALUES (?, ?, ?, ?)', rows)
        connection.execute('CREATE VIEW seen AS SELECT * FROM "the people"')
    connection.close()
    return path


def test_sqlite_files(database, expected, tmp_path):
    assert counts(database, table="the people") == expected
    assert counts(database, table="seen") == expected
    assert counts(database, query='SELECT "when", "where", age FROM "the people";') == expected
    assert counts(database, table="seen", memory_limit=0) == expected
    unnamed = tmp_path / "people.db"
    unnamed.write_bytes(database.read_bytes())
    assert counts(unnamed, table="the people") == expected
    bounded = open_engine(database, DOMAIN, table="seen", persons=Persons("id", 1))
    assert bounded.size() == 2
    before = database.read_bytes()
    assert counts(database, table="seen") == expected
    assert database.read_bytes() == before


def test_sqlite_files_that_cannot_be_read(database, tmp_path):
    with pytest.raises(SourceError, match="exactly one of table= and query="):
        counts(database)
    with pytest.raises(SourceError, match="is there such a table"):
        counts(database, table="nobody")
    for bad in ("DELETE FROM seen", "SELECT 1; SELECT 2", "nonsense", "PRAGMA user_version"):
        with pytest.raises(SourceError, match=r"one SELECT statement|cannot be opened"):
            counts(database, query=bad)
    with pytest.raises(SourceError, match="cannot be opened"):
        counts(database, query="SELECT * FROM pragma_database_list")
    broken = tmp_path / "broken.sqlite"
    broken.write_bytes(b"SQLite format 3\x00" + b"\x01" * 5000)
    with pytest.raises(SourceError, match="cannot be opened"):
        counts(broken, table="people")
    with sqlite3.connect(tmp_path / "latin.sqlite") as connection:
        connection.execute("CREATE TABLE t (age, 'where', 'when')")
        connection.execute("INSERT INTO t VALUES (1, CAST(x'ff' AS TEXT), 'x')")
    connection.close()
    with pytest.raises(SourceError, match="not UTF-8") as caught:
        counts(tmp_path / "latin.sqlite", table="t")
    assert caught.value.__context__ is None
    with pytest.raises(ParameterError, match="encoding= is for text files"):
        counts(database, table="seen", encoding="latin-1")


def workbook(path, sheets):
    xlsxwriter = importlib.import_module("xlsxwriter")
    with xlsxwriter.Workbook(str(path)) as book:
        day = book.add_format({"num_format": "yyyy-mm-dd"})
        for name, rows in sheets.items():
            sheet = book.add_worksheet(name)
            for i, row in enumerate(rows):
                for j, value in enumerate(row):
                    if isinstance(value, dt.datetime):
                        sheet.write_datetime(i, j, value, day)
                    elif value is not None:
                        sheet.write(i, j, value)


def test_workbooks(tmp_path, expected):
    days = [
        dt.datetime.fromisoformat(row[2])  # a day of its own kind, as Excel keeps it
        for row in ROWS
    ]
    typed = [(*row[:2], day) for row, day in zip(ROWS, days, strict=True)]
    workbook(tmp_path / "one.xlsx", {"people": [NAMES, *typed]})
    assert counts(tmp_path / "one.xlsx") == expected
    blank = [NAMES, *ROWS[:2], (None, None, None), *ROWS[2:]]
    workbook(tmp_path / "two.xlsx", {"notes": [("x",)], "people": blank})
    assert counts(tmp_path / "two.xlsx", table="people") == expected
    assert counts(tmp_path / "two.xlsx", table="people", memory_limit=0) == expected
    with pytest.raises(SourceError, match="has 2 sheets; name one"):
        counts(tmp_path / "two.xlsx")
    with pytest.raises(SourceError, match="no sheet 'nobody'"):
        counts(tmp_path / "two.xlsx", table="nobody")
    with pytest.raises(ParameterError, match="are for databases"):
        counts(tmp_path / "two.xlsx", query="SELECT 1")
    workbook(tmp_path / "empty.xlsx", {"people": []})
    with pytest.raises(SourceError, match="does not start with a row"):
        counts(tmp_path / "empty.xlsx")
    (tmp_path / "none.xlsx").write_bytes(b"no workbook")
    with pytest.raises(SourceError, match="damaged"):
        counts(tmp_path / "none.xlsx")


def test_workbooks_need_their_extra(tmp_path, monkeypatch):
    real = importlib.import_module

    def missing(name, *rest):
        if name == "python_calamine":
            raise ModuleNotFoundError(name)
        return real(name, *rest)

    (tmp_path / "t.ods").write_bytes(b"x")
    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(SourceError, match=r"maquette-dp\[excel\]"):
        counts(tmp_path / "t.ods")


def test_compressed_text(tmp_path, expected):
    write_zst(tmp_path / "t.csv.zst", csv_text())
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(csv_text()))
    assert counts(tmp_path / "t.csv.zst") == expected
    assert counts(tmp_path / "t.csv.zst", memory_limit=0) == expected
    assert counts(tmp_path / "t.csv.gz") == expected
    write_zst(tmp_path / "l.tsv.zst", csv_text().decode().replace(",", "\t").encode("cp1252"))
    assert counts(tmp_path / "l.tsv.zst", encoding="cp1252") == expected
    with pytest.raises(SourceError, match="not UTF-8"):
        counts(tmp_path / "l.tsv.zst")
    whole = (tmp_path / "t.csv.zst").read_bytes()
    (tmp_path / "cut.csv.zst").write_bytes(whole[:-20])
    with pytest.raises(SourceError, match=r"no Zstandard file, or an incomplete one|damaged"):
        counts(tmp_path / "cut.csv.zst")
    (tmp_path / "none.csv.zst").write_bytes(csv_text())
    with pytest.raises(SourceError, match="no Zstandard file, or an incomplete one"):
        counts(tmp_path / "none.csv.zst")
    (tmp_path / "t.csv").write_bytes(whole)
    with pytest.raises(SourceError, match=r"its name ends in \.zst"):
        counts(tmp_path / "t.csv")


def frame():
    return pl.DataFrame(
        {name: [None if row[i] is None else str(row[i]) for row in ROWS] for i, name in enumerate(NAMES)}
    )


def test_a_list_of_files(tmp_path, expected):
    frame()[:2].write_parquet(tmp_path / "a.parquet")
    frame()[2:].write_csv(tmp_path / "b.csv")
    files = [tmp_path / "a.parquet", str(tmp_path / "b.csv")]
    assert counts(files) == expected
    assert public_name(files, None) == "2 files"
    with pytest.raises(SourceError, match="no file at"):
        counts([*files, tmp_path / "c.csv"])
    with pytest.raises(ParameterError, match="are for databases"):
        counts(files, table="x")


def test_hive_folders(tmp_path, expected):
    folder = tmp_path / "hive"
    for i, row in enumerate(ROWS):
        value = "__HIVE_DEFAULT_PARTITION__" if row[1] is None else row[1].replace(" ", "%20")
        place = folder / f"where={value}" / f"part={i}"
        place.mkdir(parents=True, exist_ok=True)
        pq.write_table(frame()[i : i + 1].drop("where").to_arrow(), place / "part-0.parquet")
    (folder / "_temporary").mkdir()
    (folder / "_temporary" / "x.parquet").write_bytes(b"unfinished")
    (folder / "_SUCCESS").touch()
    assert counts(folder) == expected
    assert counts(folder, memory_limit=0) == expected
    opened = open_source(folder)
    assert opened.header == ("age", "when", "where", "part")
    assert sum(len(raw["part"]) for raw, _ in opened.batches(["part"])) == len(ROWS)


def test_adbc_connections(expected):
    adbc = pytest.importorskip("adbc_driver_duckdb.dbapi")
    with adbc.connect() as connection:
        with connection.cursor() as cursor:
            cursor.execute('CREATE TABLE "my people" (age DOUBLE, "where" VARCHAR, "when" VARCHAR)')
            for row in ROWS:
                cursor.execute('INSERT INTO "my people" VALUES (?, ?, ?)', row)
        assert counts(connection, table="my people") == expected
        assert counts(connection, table="main.my people", memory_limit=0) == expected
        assert counts(connection, query='SELECT * FROM "my people";') == expected
        with pytest.raises(SourceError, match="exactly one of"):
            counts(connection)
        with pytest.raises(SourceError, match="is there such a table"):
            counts(connection, table="nobody")
        for bad in ("DELETE FROM t", "SELECT 1; SELECT 2", ""):
            with pytest.raises(SourceError, match="one SELECT"):
                counts(connection, query=bad)


def test_an_adbc_query_that_fails_on_a_row_does_not_say_which():
    adbc = pytest.importorskip("adbc_driver_duckdb.dbapi")
    with adbc.connect() as connection:
        with connection.cursor() as cursor:
            cursor.execute(
                "CREATE TABLE t AS SELECT * FROM (VALUES (1, 'secret', 'x')) v(age, \"where\", \"when\")"
            )
        with pytest.raises(SourceError, match="cannot be read to its end") as caught:
            counts(connection, query='SELECT age, "when", CAST("where" AS INTEGER) AS "where" FROM t')
        assert "secret" not in str(caught.value)
        assert caught.value.__context__ is None


def test_two_tables_by_a_view(tmp_path):
    """People and their visits, joined in a view of the owner's, bounded by person."""
    path = tmp_path / "clinic.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE patients AS SELECT i AS id, i % 2 = 0 AS insured FROM range(500) t(i)"
        )
        connection.execute(
            "CREATE TABLE visits AS SELECT i % 500 AS patient, ['a', 'b', 'c'][1 + i % 3] AS ward FROM range(3000) t(i)"
        )
        connection.execute(
            "CREATE VIEW seen AS SELECT p.id, p.insured, v.ward FROM patients p JOIN visits v ON v.patient = p.id"
        )
    domain = Domain(
        (
            Attribute("insured", Kind.BOOLEAN, codes=2),
            Attribute("ward", Kind.CATEGORICAL, categories=("a", "b", "c")),
        )
    )
    table = mq.open(path, table="seen", domain=domain, person="id", rows_per_person=2)
    assert table._engine.size() == 1000
    made = mq.release(table, mq.marginals(domain, 2), epsilon=4.0, ledger=tmp_path / "l")
    again = mq.open(
        path, table="seen", domain=domain, person="id", rows_per_person=2
    )  # rows in another order
    mq.release(again, mq.marginals(domain, 1), epsilon=0.1, total_epsilon=None, ledger=tmp_path / "m")
    assert abs(made.answer("insured = 1").value - 0.5) < 0.2
    with duckdb.connect(str(path)) as connection:  # one patient less, with all visits
        connection.execute("DELETE FROM patients WHERE id = 7")
    less = mq.open(path, table="seen", domain=domain, person="id", rows_per_person=2)
    gap = (
        table._engine.margins([("insured", "ward")])["insured", "ward"]
        - less._engine.margins([("insured", "ward")])["insured", "ward"]
    )
    assert abs(gap).sum() == 2
