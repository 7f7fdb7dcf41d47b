"""Every look of one handle sees the same records, or gives no result; a database file reads nothing but itself."""

from __future__ import annotations

import contextlib
import os

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import maquette as mq
from maquette.accounting import Budget
from maquette.accounting.ledger import Ledger
from maquette.core.rows import delimited
from maquette.core.rows.loading import StreamEngine
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import SourceError
from maquette.queries.marginals import marginals
from maquette.vault import sources
from maquette.vault.readers import open_engine, open_source

DOMAIN = Domain((Attribute("a", Kind.ORDINAL, codes=5), Attribute("b", Kind.ORDINAL, codes=5)))
PAIR = ("a", "b")


@pytest.fixture
def connection():
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT i % 5 AS a, (i // 5) % 5 AS b FROM range(3000) r(i)")
    return connection


LOOKS = {
    "size": lambda engine: engine.size(),
    "margins": lambda engine: engine.margins([("b",)])[("b",)].tolist(),
    "values": lambda engine: engine.distinct("a")[1].tolist(),
    "answer": lambda engine: engine.answer(marginals(DOMAIN, k=2).to_forms()).tolist(),
    "commitment": lambda engine: engine.commitment(b"s"),
}
CHANGES = {
    "a record more": "INSERT INTO t VALUES (1, 1)",
    "a record less": "DELETE FROM t WHERE rowid = 7",
    "a record changed": "UPDATE t SET a = (a + 1) % 5 WHERE rowid = 7",
    "two values exchanged": "UPDATE t SET a = CASE WHEN rowid = 0 THEN 1 ELSE 0 END WHERE rowid IN (0, 6)",
    "emptied": "DELETE FROM t",
}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("change", CHANGES)
def test_a_streamed_table_that_has_changed_gives_no_result(connection, look, change):
    engine = open_engine(connection, DOMAIN, table="t", memory_limit=0)
    assert isinstance(engine, StreamEngine)
    first = LOOKS[look](engine)
    assert LOOKS[look](engine) == first
    connection.execute(CHANGES[change])
    with pytest.raises(SourceError, match="no longer holds the records") as refused:
        LOOKS[look](engine)
    assert not any(sign.isdigit() for sign in str(refused.value))


def test_a_table_in_memory_does_not_care(connection):
    engine = open_engine(connection, DOMAIN, table="t")
    connection.execute("DELETE FROM t")
    assert engine.size() == 3000


@pytest.mark.parametrize("source", ["relation", "query", "other connection"])
def test_however_the_database_is_reached(connection, source):
    ways = {
        "relation": {"source": connection.table("t")},
        "query": {"source": connection, "query": "SELECT b, a FROM t"},
        "other connection": {"source": connection.cursor(), "table": "t"},
    }
    engine = open_engine(**ways[source], domain=DOMAIN, memory_limit=0)
    connection.execute(CHANGES["a record changed"])
    with pytest.raises(SourceError, match="no longer holds"):
        engine.size()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT (random() * 4)::INT AS a, 0 AS b FROM range(2000)",
        "SELECT a, b FROM t USING SAMPLE 50 PERCENT (bernoulli)",
    ],
)
def test_a_query_that_draws_its_rows_gives_no_result(connection, query):
    engine = open_engine(connection, DOMAIN, query=query, memory_limit=0)
    with pytest.raises(SourceError, match="gives others each time"):
        engine.size()


def test_the_order_of_rows_is_no_change(connection):
    engine = open_engine(connection, DOMAIN, query="SELECT a, b FROM t ORDER BY random()", memory_limit=0)
    assert engine.size() == engine.size() == 3000


def test_a_transaction_keeps_the_table_as_it_is(connection):
    reader = connection.cursor()
    reader.begin()
    engine = open_engine(reader, DOMAIN, table="t", memory_limit=0)
    connection.execute("DELETE FROM t")
    assert engine.size() == 3000


def test_a_frame_that_is_changed_in_place_is_not_mixed():
    for make in (lambda columns: pd.DataFrame(columns), lambda columns: columns):
        columns = {"a": np.arange(100) % 5, "b": np.arange(100) % 3}
        frame = make(columns)
        engine = open_engine(frame, DOMAIN, memory_limit=0)
        before = engine.margins([PAIR])[PAIR].tolist()
        columns["a"][:] = 0
        if isinstance(frame, pd.DataFrame):
            frame.loc[:, "a"] = 0
        found = None
        with contextlib.suppress(SourceError):
            found = engine.margins([PAIR])[PAIR].tolist()
        assert found in (None, before)


def test_a_look_that_was_paid_for_and_failed_stays_paid_and_returns_nothing(connection):
    ledger = Ledger.memory(
        budget=Budget(1.0), relation=Relation.ADD_REMOVE, domain_fingerprint=DOMAIN.fingerprint, name="t"
    )
    table = mq.open(connection, table="t", domain=DOMAIN, memory_limit=0)
    mq.release(table, marginals(DOMAIN, k=1), epsilon=0.25, ledger=ledger, key="one")
    connection.execute(CHANGES["a record changed"])
    with pytest.raises(SourceError, match="no longer holds"):
        mq.release(table, marginals(DOMAIN, k=1), epsilon=0.25, ledger=ledger, key="two")


def as_csv(path, rows: int = 400) -> None:
    path.write_text("a,b\n" + "".join(f"{i % 5},{i % 3}\n" for i in range(rows)))


def as_parquet(path, rows: int = 400) -> None:
    table = pa.table({"a": [i % 5 for i in range(rows)], "b": [i % 3 for i in range(rows)]})
    pq.write_table(table, path, row_group_size=50, compression="none")


FILES = {"t.csv": as_csv, "t.parquet": as_parquet}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_was_replaced_by_one_of_its_length_and_time(name, tmp_path):
    path, other = tmp_path / name, tmp_path / f"other-{name}"
    FILES[name](path)
    engine = open_engine(path, DOMAIN, memory_limit=0)
    assert engine.size() == 400
    status = path.stat()
    other.write_bytes(path.read_bytes())
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(path)
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    with pytest.raises(SourceError, match="has changed since it was opened"):
        engine.size()


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_changes_while_it_is_read(name, tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "BLOCK", 100)
    monkeypatch.setattr(delimited, "CHUNK", 100)
    monkeypatch.setattr(sources, "ROWS", 50)
    path = tmp_path / name
    FILES[name](path)
    source = open_source(path)
    assert source.notices_changes
    batches = source.batches(PAIR)
    next(batches)
    with path.open("ab") as stream:
        stream.write(b"\n")
    with pytest.raises(SourceError, match="has changed since it was opened"):
        list(batches)


@pytest.fixture
def foreign(tmp_path):
    """A database file from elsewhere, with views on what is outside of it."""
    (tmp_path / "secret.csv").write_text("a,b\n1,1\n2,2\n")
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS a, 2 AS b")
        connection.execute("CREATE VIEW inside AS SELECT * FROM t")
        connection.execute(f"CREATE VIEW reads AS SELECT * FROM read_csv('{tmp_path / 'secret.csv'}')")
        connection.execute(f"CREATE VIEW names AS SELECT 1 AS a, 1 AS b FROM glob('{tmp_path}/*')")
    return tmp_path / "t.duckdb"


def test_a_database_file_reads_itself(foreign):
    assert open_engine(foreign, DOMAIN, table="t").size() == 1
    assert open_engine(foreign, DOMAIN, table="inside", memory_limit=0).size() == 1


@pytest.mark.parametrize("limit", [None, 0])
@pytest.mark.parametrize("view", ["reads", "names"])
def test_a_view_of_a_database_file_reads_no_other_file(foreign, view, limit):
    with pytest.raises(SourceError, match="reads files or data frames outside of the database"):
        open_engine(foreign, DOMAIN, table=view, memory_limit=limit)
    with pytest.raises(SourceError, match="reads files or data frames outside of the database"):
        mq.fit_report(foreign, domain=DOMAIN, table=view)


def test_a_query_on_a_database_file_reads_no_other_file(foreign):
    place = foreign.with_name("secret.csv")
    with pytest.raises(SourceError, match="outside of the database"):
        open_engine(foreign, DOMAIN, query=f"SELECT * FROM read_csv('{place}')")


def test_the_owners_own_connection_may(foreign):
    with duckdb.connect(str(foreign), read_only=True) as connection:
        assert open_engine(connection, DOMAIN, table="reads").size() == 2
        with pytest.raises(SourceError, match="pass that connection"):
            open_engine(foreign, DOMAIN, table="t")
