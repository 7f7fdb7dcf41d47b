"""Columns of uuids, wherever they come from: the texts that a file would hold, as values and as ids of persons."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import maquette as mq
from maquette.core.rows.arrow import stored
from maquette.core.rows.coding import words
from maquette.core.rows.persons import ids_of, missing_words
from maquette.discovery.raw import open_raw
from maquette.domain import Attribute, Domain, Kind, Persons
from maquette.vault.readers import open_engine

IDS = [None if i % 10 == 3 else UUID(int=3**70 * (i % 40)) for i in range(200)]
TEXTS = [None if one is None else str(one) for one in IDS]
COLUMN = pa.array([None if one is None else one.bytes for one in IDS], pa.uuid())
LISTED = tuple(text for text in TEXTS[:5] if text)
DOMAIN = Domain((Attribute("u", Kind.CATEGORICAL, categories=LISTED, nullable=True, overflow=True),))


def make_sources(folder: Path):
    table = pa.table({"u": COLUMN, "x": list(range(200))})
    yield table
    pq.write_table(table, folder / "t.parquet")
    yield folder / "t.parquet"
    with pa.OSFile(str(folder / "t.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    yield folder / "t.arrow"
    connection = duckdb.connect()
    connection.register("texts", pa.table({"u": TEXTS, "x": list(range(200))}))
    connection.execute("CREATE TABLE t AS SELECT u::uuid AS u, x FROM texts")
    yield connection.sql("SELECT * FROM t")
    connection.execute(f"COPY t TO '{folder / 'duck.parquet'}'")
    yield folder / "duck.parquet"
    yield {"u": IDS, "x": list(range(200))}


def test_uuids_are_values_and_ids_of_persons(tmp_path: Path):
    as_text = {"u": TEXTS, "x": list(range(200))}
    persons = Persons("u", 2)
    counts = open_engine(as_text, DOMAIN).margins([("u",)])["u",].tolist()
    assert counts == [5, 5, 5, 5, 160, 20]
    numbers = Domain((Attribute("x", Kind.NUMERIC, bounds=(0, 200), bins=1),))
    for source in make_sources(tmp_path):
        assert open_engine(source, DOMAIN).margins([("u",)])["u",].tolist() == counts
        raw, expected = open_raw(source, ["u"]), open_raw(as_text, ["u"])
        assert raw.spellings("u")[0] == expected.spellings("u")[0]
        assert np.array_equal(raw.spellings("u")[1], expected.spellings("u")[1])
        bounded = open_engine(source, numbers, persons=persons)
        assert bounded.size() == open_engine(as_text, numbers, persons=persons).size()
        assert set(mq.draft(source)["u"].categories or ()) == {text for text in TEXTS if text}


@pytest.mark.parametrize("part", [slice(0, 0), slice(3, 4), slice(7, 50), slice(0, 200)])
def test_a_part_of_a_column_gives_its_own_texts(part: slice):
    column = COLUMN.slice(part.start, part.stop - part.start)
    assert words(stored(column)).to_pylist() == TEXTS[part]
    ids = ids_of(column, missing_words(()))
    assert np.array_equal(ids.first, ids_of(pa.array(TEXTS[part], pa.string()), missing_words(())).first)
