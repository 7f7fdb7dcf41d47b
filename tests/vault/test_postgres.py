"""PostgreSQL as a private source, on a real server: one snapshot, least privilege, no password anywhere."""

from __future__ import annotations

import time
from itertools import count
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import sql

from maquette.core.rows.engine import MemoryEngine
from maquette.core.rows.loading import StreamEngine
from maquette.domain import Attribute, Domain, Kind
from maquette.errors import ParameterError, SourceError
from maquette.vault import postgres
from maquette.vault.readers import open_engine
from support.hostile_tables import COLUMNS, all_looks, cut, every_value, tables

pytestmark = pytest.mark.server

DOMAIN = Domain((Attribute("a", Kind.ORDINAL, codes=5), Attribute("b", Kind.ORDINAL, codes=5)))
NUMBER = count(1)
TYPES = {
    pa.string(): "text",
    pa.float64(): "float8",
    pa.decimal128(38, 18): "numeric(38, 18)",
    pa.int64(): "bigint",
    pa.int32(): "integer",
    pa.bool_(): "boolean",
    pa.timestamp("us"): "timestamp",
    pa.timestamp("us", "UTC"): "timestamptz",
    pa.date32(): "date",
}


def store(url: str, parts: list[pa.Table]) -> str:
    """A table with these records under a name of its own."""
    name, schema = f"hostile_{next(NUMBER)}", parts[0].schema
    columns = [sql.SQL("{} " + TYPES[field.type]).format(sql.Identifier(field.name)) for field in schema]
    into = sql.Identifier(name)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE TABLE {} ({})").format(into, sql.SQL(", ").join(columns)))
        with connection.cursor() as cursor:
            for part in parts:
                rows = [tuple(row.values()) for row in part.to_pylist()]
                marks = sql.SQL(", ").join(sql.Placeholder() * len(schema))
                cursor.executemany(sql.SQL("INSERT INTO {} VALUES ({})").format(into, marks), rows)
    return name


@pytest.mark.law
@given(case=tables(), parts=st.sampled_from([1, 7]), turned=st.booleans(), limit=st.sampled_from([None, 0]))
@settings(deadline=None, max_examples=8)
def test_it_agrees_with_the_local_reader(url: str, case: Any, parts: int, turned: bool, limit: Any):
    domain, table = case
    name = store(url, cut(table, parts, turned=turned))
    engine = open_engine(url, domain, table=name, memory_limit=limit)
    assert all_looks(engine) == all_looks(open_engine(table, domain))


@pytest.mark.parametrize("limit", [None, 0])
def test_every_hostile_value(url: str, limit: Any):
    domain, table = every_value()
    name = store(url, cut(table, 7, turned=True))
    engine = open_engine(url, domain, table=f"public.{name}", memory_limit=limit)
    assert isinstance(engine, MemoryEngine if limit is None else StreamEngine)
    assert all_looks(engine) == all_looks(open_engine(table, domain))
    assert set(domain.names) == set(COLUMNS)


def test_values_that_only_a_server_has_raise_nothing(url: str, owner: Any):
    owner.execute(
        "CREATE OR REPLACE VIEW odd AS SELECT x::timestamp AS t, x::timestamptz AS z, x::date AS d, n::numeric AS n, "
        "n::float8 AS f, CASE WHEN n = 'NaN' THEN 'q' ELSE 'r' END::char(3) AS c FROM (VALUES ('infinity', 'NaN'), "
        "('-infinity', 'Infinity'), ('4000-01-01 BC', '-Infinity'), ('5000-01-01', '0.5'), (NULL, NULL)) v(x, n)"
    )
    days = [
        Attribute(n, Kind.CATEGORICAL, categories=("5000-01-01",), nullable=True, overflow=True)
        for n in "tzd"
    ]
    numbers = [Attribute(n, Kind.NUMERIC, bounds=(0, 1), bins=2, nullable=True, overflow=True) for n in "nf"]
    text = Attribute("c", Kind.CATEGORICAL, categories=("q", "r"))
    engine = open_engine(url, Domain((*days, *numbers, text)), table="odd")
    tables = engine.margins([("t",), ("d",), ("n",), ("f",), ("c",)])
    assert tables["t",].tolist() == tables["d",].tolist() == [1, 3, 1]
    assert tables["n",].tolist() == tables["f",].tolist()
    assert tables["c",].tolist() == [1, 4]


LOOKS = {
    "size": lambda engine: engine.size(),
    "margins": lambda engine: engine.margins([("a", "b")])["a", "b"].tolist(),
    "commitment": lambda engine: engine.commitment(b"s"),
    "values": lambda engine: engine.distinct("a")[1].tolist(),
}


def test_a_handle_sees_one_snapshot(url: str, owner: Any):
    stream = open_engine(url, DOMAIN, table="people", memory_limit=0)
    first = {name: look(stream) for name, look in LOOKS.items()}
    owner.execute("INSERT INTO people SELECT 1, 1 FROM generate_series(1, 50)")
    owner.execute("DELETE FROM people WHERE a = 2")
    assert {name: look(stream) for name, look in LOOKS.items()} == first
    assert open_engine(url, DOMAIN, table="people").size() == 3000 + 50 - 600


def test_the_transaction_is_repeatable_and_read_only(url: str, owner: Any):
    source = postgres.from_address(url, table="people", query=None)
    settings_ = ("transaction_isolation", "transaction_read_only")
    assert [source._row(f"SELECT current_setting('{name}')")[0] for name in settings_] == [
        "repeatable read",
        "on",
    ]
    with pytest.raises(Exception, match="read-only"), source._connection.cursor() as cursor:
        cursor.execute("INSERT INTO people VALUES (1, 1)")


def test_a_table_in_memory_holds_no_connection(url: str, owner: Any):
    open_engine(url, DOMAIN, table="people")
    for _ in range(200):  # a server takes a moment to see that a connection was closed
        others = owner.execute(
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'"
        ).fetchall()
        if not others:
            return
        time.sleep(0.05)
    raise AssertionError("the transaction is still open")


@pytest.mark.parametrize("ended", ["terminated", "timed out", "began another transaction"])
def test_a_lost_snapshot_is_an_error_and_stays_one(url: str, owner: Any, ended: str):
    engine = open_engine(url, DOMAIN, table="people", memory_limit=0)
    assert engine.size() == 3000
    source: Any = engine._source
    if ended == "terminated":
        owner.execute("SELECT pg_terminate_backend(%s)", (source._snapshot[0],))
    elif ended == "timed out":
        with source._connection.cursor() as cursor:
            cursor.execute("SET statement_timeout = 1")
        with pytest.raises(Exception, match="timeout"):
            source._row("SELECT pg_sleep(1)")
    else:
        source._connection.rollback()
    for look in LOOKS.values():
        with pytest.raises(
            SourceError, match=r"snapshot that was opened is lost: .*; open the table again"
        ) as refused:
            look(engine)
        assert refused.value.__cause__ is None
        assert refused.value.__context__ is None


def test_a_view_that_picks_other_rows_each_time_gives_no_result(url: str, owner: Any):
    owner.execute("CREATE VIEW lucky AS SELECT * FROM people ORDER BY random() LIMIT 100")
    with pytest.raises(SourceError, match="no longer holds the records"):
        open_engine(url, DOMAIN, table="lucky", memory_limit=0).commitment(b"s")


def test_a_query_is_one_select(url: str, owner: Any):
    for limit in (None, 0):
        engine = open_engine(
            url, DOMAIN, query="SELECT b, a FROM people WHERE a < 2 -- few", memory_limit=limit
        )
        assert engine.size() == 1200
    for query in (
        "DELETE FROM people",
        "SELECT 1; SELECT 2",
        "not sql",
        "",
        "SELECT a, b FROM people); DROP TABLE people",
    ):
        with pytest.raises(SourceError, match="one SELECT statement"):
            open_engine(url, DOMAIN, query=query)
    with pytest.raises(SourceError, match="exactly one of"):
        open_engine(url, DOMAIN)
    writes = "WITH gone AS (DELETE FROM people RETURNING a, b) SELECT a, b FROM gone"
    with pytest.raises(SourceError, match="try it in psql"):
        open_engine(url, DOMAIN, query=writes)
    with pytest.raises(SourceError, match="a cast or division"):
        open_engine(url, DOMAIN, query="SELECT 1 / a AS a, b FROM people")
    assert owner.execute("SELECT count(*) FROM people").fetchone() == (3000,)


@pytest.mark.parametrize(
    "name", ['odd"name', "with.dot", "Upper Case", "a'b", "a\\b", "$$x$$", "; DROP TABLE people; --"]
)
def test_names_are_quoted(url: str, owner: Any, name: str):
    table = sql.Identifier(name)
    owner.execute(sql.SQL("CREATE TABLE {} AS SELECT * FROM people LIMIT 7").format(table))
    written = '"' + name.replace('"', '""') + '"'
    for limit in (None, 0):
        assert open_engine(url, DOMAIN, table=f"public.{written}", memory_limit=limit).size() == 7
    owner.execute(sql.SQL("DROP TABLE {}").format(table))
    assert owner.execute("SELECT count(*) FROM people").fetchone() == (3000,)


@pytest.mark.parametrize("name", ["", ".", "a.", ".a", 'a"b', '"a', "a..b", "people\0"])
def test_what_is_no_name_is_refused(name: str):
    with pytest.raises(ParameterError, match="a name such as"):
        postgres.quoted_table(name)


def test_what_is_wrong_is_said_without_the_drivers_words(url: str, owner: Any):
    with pytest.raises(SourceError, match=r"no such table; its name is taken as it is written"):
        open_engine(url, DOMAIN, table="People")
    with pytest.raises(SourceError, match="no column 'b'"):
        open_engine(url, DOMAIN, query="SELECT a FROM people")
    with pytest.raises(SourceError, match=r"column 'a' .* has type"):
        open_engine(url, DOMAIN, query="SELECT ARRAY[a] AS a, b FROM people")
    with pytest.raises(ParameterError, match="encoding"):
        open_engine(url, DOMAIN, table="people", encoding="latin-1")


def test_without_the_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, url: str):
    monkeypatch.setitem(__import__("sys").modules, "adbc_driver_postgresql.dbapi", None)
    with pytest.raises(SourceError, match=r"maquette-dp\[postgres\]"):
        open_engine(url, DOMAIN, table="people")
