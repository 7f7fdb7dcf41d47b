"""What Spark's reader does on either side by itself, without a cluster: addresses, refusals, blocks and their results.

The same code on a real cluster is in `test_spark.py`, which takes minutes.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from maquette.core.rows.commitment import LANES, lane_keys
from maquette.core.rows.counting import CountTask, RecordsTask
from maquette.core.rows.engine import MAX_RECORDS
from maquette.domain import Attribute, Domain, Kind
from maquette.errors import ParameterError, SourceError
from maquette.vault import remote, spark
from maquette.vault.readers import check_source
from support.local_frame import LocalFrame

DOMAIN = Domain((Attribute("a", Kind.ORDINAL, codes=3), Attribute("b", Kind.ORDINAL, codes=2)))
HERE = remote.versions()
OTHER = (*HERE[:2], "0.0.1", *HERE[3:])
KEYS = lane_keys(b"0" * 32)


class Session:
    """Gives out frames by the name of what was asked for."""

    def __init__(self, asked: list[str]) -> None:
        self._asked = asked
        self.read = SimpleNamespace(parquet=lambda path: self._frame(f"files {path}"))

    def table(self, name: str) -> Any:
        if name == "missing":
            raise RuntimeError("no such table; row 17 says 'a secret'")
        return self._frame(f"table {name}")

    def sql(self, query: str) -> Any:
        return self._frame(f"query {query}")

    def _frame(self, what: str) -> Any:
        self._asked.append(what)
        return SimpleNamespace(columns=["a", "b"], schema=SimpleNamespace(fields=[]))


class Builder:
    """Writes down how a session is made."""

    def __init__(self, asked: list[str]) -> None:
        self._asked = asked

    def remote(self, place: str) -> Builder:
        self._asked.append(f"remote {place}")
        return self

    def master(self, place: str) -> Builder:
        self._asked.append(f"master {place}")
        return self

    def getOrCreate(self) -> Session:
        if "sc://closed" in "".join(self._asked):
            raise RuntimeError("refused; the password was 'hunter2'")
        return Session(self._asked)


@pytest.fixture
def asked(monkeypatch) -> list[str]:
    """What was asked of pyspark, which is not there."""
    words: list[str] = []
    module = SimpleNamespace(SparkSession=SimpleNamespace(builder=Builder(words)))
    monkeypatch.setitem(sys.modules, "pyspark.sql", module)
    return words


@pytest.mark.parametrize(
    ("place", "options", "words", "description"),
    [
        ("spark:/data/people", {}, ["files /data/people"], "Spark files people"),
        ("spark:", {"table": "t"}, ["table t"], "Spark table t"),
        ("spark:", {"query": "select 1"}, ["query select 1"], "Spark query"),
        ("spark://host:7077", {"table": "t"}, ["master spark://host:7077", "table t"], "Spark table t"),
        ("sc://host:15002", {"query": "q"}, ["remote sc://host:15002", "query q"], "Spark query"),
    ],
)
def test_an_address_says_where_the_session_and_the_records_are(asked, place, options, words, description):
    opened = spark.from_place(place, **{"table": None, "query": None} | options)
    assert asked == words
    assert opened.description == description
    assert check_source(place, **options).columns == 2


@pytest.mark.parametrize(
    ("place", "options"),
    [
        ("spark:", {}),
        ("spark://host", {}),
        ("spark:/data", {"table": "t"}),
        ("sc://host", {"table": "t", "query": "q"}),
    ],
)
def test_exactly_one_of_path_table_and_query_is_needed(asked, place, options):
    with pytest.raises(SourceError, match="exactly one of a path"):
        spark.from_place(place, **{"table": None, "query": None} | options)
    assert asked == []


def test_what_spark_says_of_a_failure_is_not_repeated(asked, monkeypatch):
    with pytest.raises(SourceError, match="missing cannot be opened by Spark") as table:
        spark.from_place("spark:", table="missing", query=None)
    with pytest.raises(SourceError, match="no session can be opened") as session:
        spark.from_place("sc://closed", table="t", query=None)
    for error in (table.value, session.value):
        assert "secret" not in str(error)
        assert "hunter2" not in str(error)
        assert error.__cause__ is None
        assert error.__context__ is None
    with pytest.raises(ParameterError, match="encoding= is for text files"):
        check_source("spark:/data", encoding="latin-1")
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(SourceError, match=r"maquette-dp\[spark\]"):
        spark.from_place("spark:/data", table=None, query=None)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("ModuleNotFoundError: No module named 'maquette'", "workers of the cluster have no maquette"),
        (f"x {remote.OTHER_PACKAGE}2 x", r"another version of pyarrow than this machine \(1\.2\)"),
        ("the row ('anna', 17)", "the job failed in the cluster"),
        ("No module named 'anna'", "the job failed in the cluster"),
    ],
)
def test_a_job_that_failed_says_why_and_quotes_no_record(said, words):
    def fail() -> None:
        raise RuntimeError(said)

    with pytest.raises(SourceError, match=words) as caught:
        spark.collected(SimpleNamespace(toArrow=fail), "Spark query", ("", "", "1.2", ""))
    assert "anna" not in str(caught.value)
    assert caught.value.__context__ is None


def test_too_many_records_and_records_in_an_order_are_refused():
    engine = spark.SparkEngine.__new__(spark.SparkEngine)
    engine.domain = DOMAIN
    engine._description, engine._versions, engine._digest = "Spark query", HERE, None
    none = np.array([], dtype=np.int64)
    engine._check(none, [0] * LANES + [MAX_RECORDS])
    with pytest.raises(SourceError, match="no longer holds"):
        engine._check(none, [1] * LANES + [MAX_RECORDS])
    with pytest.raises(SourceError, match="at most"):
        engine._check(none, [0] * LANES + [MAX_RECORDS + 1])
    with pytest.raises(SourceError, match="has no order of rows"):
        engine.commitment(b"salt", like="0" * 64)


# --- blocks ---------------------------------------------------------------------------------------------------------

RAW = pa.RecordBatch.from_pydict({"d0": [0, 1, 2, 2, 9], "d1": [0, 0, 1, 1, None]})


def counted(blocks: list[Any], expected: tuple[str, ...] = HERE) -> dict[tuple[int, int], int]:
    """What a count of both attributes over blocks gives back, by part and cell."""
    task = CountTask(DOMAIN, [("a", "b")])
    own = [
        batch.select(["records", "other", *(f"c{DOMAIN.names.index(n)}" for n in task.names)])
        for batch in blocks
    ]
    rows = [row for batch in remote.FoldBlocks(DOMAIN, task, expected)(own) for row in batch.to_pylist()]
    return {(row["part"], row["cell"]): row["sum"] for row in rows}


def test_blocks_of_any_size_count_the_same_records(monkeypatch):
    coded = remote.CodeBlocks(DOMAIN, RecordsTask(DOMAIN, KEYS), HERE)
    whole = list(coded([RAW]))
    assert len(whole) == 1
    expected = counted(whole)
    assert sum(value for (part, _), value in expected.items() if part == 0) == 5
    assert expected[remote.RECORDS, LANES] == 5
    monkeypatch.setattr(remote, "RAW_ROWS", 1)
    monkeypatch.setattr(remote, "BLOCK_ROWS", 2)
    pieces = list(coded([RAW.slice(i, 1) for i in range(5)]))
    assert [batch.num_rows for batch in pieces] == [1, 1, 1]  # of two records, two and one
    assert counted(pieces) == expected


def test_a_worker_with_another_version_codes_nothing_and_says_so():
    (batch,) = remote.CodeBlocks(DOMAIN, RecordsTask(DOMAIN, KEYS), OTHER)([RAW])
    assert batch.to_pylist() == [{"records": bytes(8 * (LANES + 1)), "other": 2, "c0": b"", "c1": b""}]
    assert counted([batch])[remote.OTHER_VERSION, 2] == 1  # however the one that counts is made
    right = list(remote.CodeBlocks(DOMAIN, RecordsTask(DOMAIN, KEYS), HERE)([RAW]))
    assert counted(right, OTHER)[remote.OTHER_VERSION, 2] == 1
    assert (remote.OTHER_VERSION, 2) not in counted(right)
    remote.require_versions(HERE)
    with pytest.raises(RuntimeError, match=f"{remote.OTHER_PACKAGE}2"):
        remote.require_versions(OTHER)


@pytest.mark.parametrize("parts", [1, 3])
def test_every_lane_and_the_number_of_records_are_compared_on_every_pass(monkeypatch, parts):
    monkeypatch.setattr(spark, "storage", lambda: None)
    table = pa.table({"a": [0, 1, 2, 2, 0, 1], "b": [0, 0, 1, 1, 1, 0]})
    cut = 6 // parts
    engine = spark.SparkEngine(
        DOMAIN,
        spark.SparkTable(LocalFrame.of([table.slice(i * cut, cut) for i in range(parts)])),
        progress=None,
    )
    digest = engine._digest
    assert digest is not None
    assert digest[LANES] == engine.size() == 6
    for lane in range(LANES + 1):
        with pytest.raises(SourceError, match="no longer holds"):
            engine._check(np.array([]), [x + (i == lane) for i, x in enumerate(digest)])
    assert 0 not in digest[:LANES]  # keyed sums, of 64 bits each


def test_what_a_job_said_is_read_though_the_connection_broke_afterwards():
    class Frame:
        def toArrow(self):
            try:
                raise RuntimeError(f"{remote.OTHER_PACKAGE}0")
            except RuntimeError:
                raise ConnectionError("the gateway is gone") from None

    with pytest.raises(SourceError, match=r"another version of maquette than this machine \(7\.7\)"):
        spark.collected(Frame(), "table", ("7.7",))
