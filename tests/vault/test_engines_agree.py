"""Every engine gives the local reader's answers: the same records, however they are stored, cut and ordered."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maquette.core.rows import counting as tables_of
from maquette.core.rows.counting import plan_tables
from maquette.core.rows.engine import Engine, MemoryEngine
from maquette.core.rows.loading import StreamEngine
from maquette.core.tables import count_margins
from maquette.discovery.raw import RawTable, open_raw
from maquette.discovery.spark_raw import SparkRows
from maquette.domain import Attribute, Domain, Kind, Persons
from maquette.queries.predicates import where
from maquette.vault import remote
from maquette.vault.readers import open_engine
from maquette.vault.spark import SparkEngine, SparkTable
from support.hostile_tables import all_looks, cut, every_value, tables
from support.local_frame import LocalFrame


@pytest.fixture(scope="module", autouse=True)
def versions_that_are_read_once() -> Iterator[None]:
    """Every job of every part asks for the versions of its machine; here they are all the same."""
    here = remote.versions()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote, "versions", lambda: here)
        yield


def parquet_files(folder: Path, domain: Domain, parts: list[pa.Table], limit: int | None) -> Engine:
    for i, part in enumerate(parts):
        pq.write_table(part, folder / f"{i}.parquet", row_group_size=3)
    return open_engine(folder, domain, memory_limit=limit)


def database(folder: Path, domain: Domain, parts: list[pa.Table], limit: int | None) -> Engine:
    connection = duckdb.connect()
    records = pa.concat_tables(parts)
    connection.execute("CREATE TABLE t AS SELECT * FROM records")
    del folder, records
    return open_engine(connection, domain, table="t", memory_limit=limit)


def arrow_table(folder: Path, domain: Domain, parts: list[pa.Table], limit: int | None) -> Engine:
    del folder
    return open_engine(pa.concat_tables(parts), domain, memory_limit=limit)


def partitions(folder: Path, domain: Domain, parts: list[pa.Table], limit: int | None) -> Engine:
    """What a cluster does, without one: `test_spark.py` asks the same of a real one."""
    del folder, limit
    return SparkEngine(domain, SparkTable(LocalFrame.of(parts)), progress=None)


STORED = [parquet_files, database, arrow_table, partitions]


@pytest.mark.law
@pytest.mark.parametrize("stored", STORED)
@given(case=tables(), parts=st.sampled_from([1, 7]), turned=st.booleans(), limit=st.sampled_from([None, 0]))
@settings(deadline=None, max_examples=15)
def test_engines_agree_with_the_local_reader(stored: Any, case: Any, parts: int, turned: bool, limit: Any):
    domain, table = case
    expected = all_looks(open_engine(table, domain))
    with tempfile.TemporaryDirectory() as folder:
        engine = stored(Path(folder), domain, cut(table, parts, turned=turned), limit)
        if stored is not partitions:
            assert isinstance(engine, StreamEngine if limit == 0 and table.num_rows else MemoryEngine)
        assert all_looks(engine) == expected


@pytest.mark.law
@pytest.mark.parametrize("parts", [1, 7])
@pytest.mark.parametrize("stored", STORED)
def test_every_hostile_value(stored: Any, parts: int, tmp_path: Path):
    domain, table = every_value()
    expected = all_looks(open_engine(table, domain))
    assert all_looks(stored(tmp_path, domain, cut(table, parts, turned=True), 0)) == expected


def test_the_looks_tell_tables_apart():
    domain, table = every_value()
    expected = all_looks(open_engine(table, domain))
    for name in domain.names:
        rolled = table.set_column(
            table.column_names.index(name),
            name,
            pa.chunked_array([table[name].slice(1), table[name].slice(0, 1)]),
        )
        assert all_looks(open_engine(rolled, domain))["commitment"] != expected["commitment"]
    fewer = all_looks(open_engine(table.slice(1), domain))
    assert {name for name in expected if fewer[name] == expected[name]} == set()


def test_a_table_is_counted_once_and_smaller_ones_are_summed(monkeypatch: pytest.MonkeyPatch):
    domain, table = every_value(["small", "truth", "day"])
    engine = SparkEngine(domain, SparkTable(LocalFrame.of([table])), progress=None)
    expected = open_engine(table, domain)
    jobs: list[Any] = []
    plain = SparkEngine._run
    monkeypatch.setattr(
        SparkEngine, "_run", lambda self, job, names: jobs.append(job) or plain(self, job, names)
    )
    margins = [("truth", "small"), ("small", "truth", "day"), ("day",), ()]
    for _ in range(2):
        for margin, counts in engine.margins(margins).items():
            assert counts.tolist() == expected.margins([margin])[margin].tolist()
    assert (
        engine.answer(where(domain, "small = 1").to_forms()).tolist()
        == expected.answer(where(domain, "small = 1").to_forms()).tolist()
    )
    assert [job.task.margins for job in jobs] == [(("small", "truth", "day"),)]


def raw_looks(raw: RawTable) -> dict[str, Any]:
    """Everything that a discovery can see."""
    looks: dict[str, Any] = {"commitment": raw.commitment(b"salt")}
    for name in raw.columns:
        texts, counts = raw.spellings(name)
        looks[name] = (
            texts,
            counts.tolist(),
            raw.kinds(name).tolist(),
            raw.numbers(name).tolist(),
            raw.numbers(name, (-1.0, 0.0, 0.5, 1.0, 40.0)).tolist(),
            raw.years(name).tolist(),
        )
    return looks


def raw_partitions(parts: list[pa.Table], names: list[str], persons: Persons | None = None) -> RawTable:
    frame = SparkTable(LocalFrame.of(parts))
    return RawTable(SparkRows(frame, names, na_values=("?",), persons=persons), names, name="frame")


@pytest.mark.parametrize("parts", [1, 7])
def test_raw_columns_of_a_cluster_are_those_of_a_file(parts: int):
    domain, table = every_value()
    names = list(domain.names)
    expected = raw_looks(open_raw(table, names, na_values=("?",)))
    assert raw_looks(raw_partitions(cut(table, parts, turned=True), names)) == expected


@pytest.mark.parametrize("parts", [1, 7])
def test_raw_columns_of_persons_too(parts: int):
    domain, table = every_value(rows=90)
    who = pa.array([None if i % 11 == 0 else f" {i % 17}" for i in range(table.num_rows)])
    table = table.append_column("who", who)
    names, persons = list(domain.names), Persons("who", 2)
    expected = raw_looks(open_raw(table, names, na_values=("?",), persons=persons))
    assert raw_looks(raw_partitions(cut(table, parts, turned=True), names, persons)) == expected
    assert expected != raw_looks(open_raw(table, names, na_values=("?",)))


FIVE = Domain(tuple(Attribute(name, Kind.ORDINAL, codes=2 + i) for i, name in enumerate("abcde")))
orders = st.lists(st.permutations("abcde").map(lambda names: tuple(names[:3])), min_size=1)


@given(orders=orders, many=st.booleans(), cells=st.integers(1, 200))
@settings(deadline=None)
def test_tables_are_summed_out_of_larger_ones(orders: list[tuple[str, ...]], many: bool, cells: int):
    margins = list(dict.fromkeys(order[:k] for order in orders for k in range(4)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables_of, "MANY_ROWS", 0 if many else 10**9)
        patch.setattr(tables_of, "COVER_CELLS", cells)
        source = plan_tables(FIVE, margins, rows=300, most=50)
        for margin, wide in source.items():
            assert set(margin) <= set(wide)
            assert margin == wide or FIVE.cells(wide) <= (max(50, cells) if many else 50)
        rng = np.random.default_rng(len(margins))
        columns = {name: rng.integers(0, FIVE[name].size, 300).astype(np.uint8) for name in FIVE.names}
        together = MemoryEngine(FIVE, columns).margins(margins)
        plain = count_margins(FIVE.sizes, columns, margins)
        assert {m: t.tolist() for m, t in together.items()} == {m: t.tolist() for m, t in plain.items()}


def test_pairs_of_many_rows_are_counted_together():
    pairs = list(itertools.combinations(FIVE.names, 2))
    few = plan_tables(FIVE, pairs, rows=1000, most=2**24)
    many = plan_tables(FIVE, pairs, rows=None, most=2**24)
    assert set(few.values()) == set(pairs)
    assert set(many.values()) == {FIVE.names}
