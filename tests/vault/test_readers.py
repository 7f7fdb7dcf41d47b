"""Every kind of source gives the same codes for the same table, in memory and streamed."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from maquette.core.rows.engine import MemoryEngine
from maquette.core.rows.loading import StreamEngine
from maquette.domain import Attribute, Domain, Kind
from maquette.errors import ParameterError, SourceError
from maquette.vault.readers import open_engine, public_name
from maquette.vault.sources import ArrowTable

DOMAIN = Domain(
    (
        Attribute(
            "word", Kind.CATEGORICAL, categories=("ant", "bee", "caf\u00e9"), nullable=True, overflow=True
        ),
        Attribute("number", Kind.NUMERIC, bounds=(0, 10), bins=5, nullable=True, overflow=True),
        Attribute("code", Kind.ORDINAL, codes=4, overflow=True),
        Attribute("truth>1", Kind.BOOLEAN, codes=2, nullable=True),
    ),
    na_values=("?", "-999"),
)
WORDS = ["ant", "bee", None, "cafe\u0301", "wasp", "?", " bee ", "a,b", 'say "x"', ""]
NUMBERS = [0.0, 9.5, None, 10.0, 11.25, -999.0, -1.0, 3.125, 1e300, 5.0]
CODES = [0, 1, 2, 3, 4, -1, 1, 2, 3, 0]
TRUTHS = [True, False, None, True, False, True, None, False, True, False]
EXTRA = [f"note {i}" for i in range(10)]
TABLE = pa.table({"extra": EXTRA, "truth>1": TRUTHS, "code": CODES, "number": NUMBERS, "word": WORDS})
EXPECTED = {
    "word": [0, 1, 4, 2, 3, 4, 1, 3, 3, 4],
    "number": [0, 4, 6, 4, 5, 6, 5, 1, 5, 2],
    "code": [0, 1, 2, 3, 4, 4, 1, 2, 3, 0],
    "truth>1": [1, 0, 2, 1, 0, 1, 2, 0, 1, 0],
}


def csv_text(delimiter: str = ",", end: str = "\n") -> str:
    def field(value: object) -> str:
        text = "" if value is None else str(value)
        return '"' + text.replace('"', '""') + '"' if any(c in text for c in ',"\n;|\t') else text

    rows = [TABLE.column_names, *zip(*(c.to_pylist() for c in TABLE.columns), strict=True)]
    return "".join(delimiter.join(field(v) for v in row) + end for row in rows)


def as_csv(folder: Path) -> dict:
    (folder / "t.csv").write_text(csv_text())
    return {"source": folder / "t.csv"}


def as_csv_text_path(folder: Path) -> dict:
    return {"source": str(as_csv(folder)["source"])}


def as_crlf_with_mark(folder: Path) -> dict:
    (folder / "t.csv").write_bytes(b"\xef\xbb\xbf" + csv_text(end="\r\n").encode())
    return {"source": folder / "t.csv"}


def as_semicolons(folder: Path) -> dict:
    (folder / "t.txt").write_text(csv_text(";"))
    return {"source": folder / "t.txt", "delimiter": ";"}


def as_tabs(folder: Path) -> dict:
    (folder / "t.tsv").write_text(csv_text("\t"))
    return {"source": folder / "t.tsv"}


def as_gzip(folder: Path) -> dict:
    (folder / "t.csv.gz").write_bytes(gzip.compress(csv_text().encode()))
    return {"source": folder / "t.csv.gz"}


def as_csv_pattern(folder: Path) -> dict:
    lines = csv_text().splitlines(keepends=True)
    (folder / "p1.csv").write_text("".join(lines[:4]))
    (folder / "p2.csv").write_text("".join([lines[0], *lines[4:]]))
    return {"source": str(folder / "p*.csv")}


def as_parquet(folder: Path) -> dict:
    pq.write_table(TABLE, folder / "t.parquet", row_group_size=3)
    return {"source": folder / "t.parquet"}


def as_parquet_folder(folder: Path) -> dict:
    (folder / "parts").mkdir()
    pq.write_table(TABLE.slice(0, 4), folder / "parts" / "a.parquet")
    turned = TABLE.slice(4).select(TABLE.column_names[::-1])  # another order, another type of text
    turned = turned.set_column(0, "word", turned.column("word").cast(pa.large_string()))
    pq.write_table(turned, folder / "parts" / "b.parquet")
    return {"source": folder / "parts"}


def as_parquet_of_dictionaries(folder: Path) -> dict:
    table = TABLE.set_column(4, "word", TABLE.column("word").dictionary_encode())
    pq.write_table(table, folder / "t.parquet")
    return {"source": folder / "t.parquet"}


def as_feather(folder: Path) -> dict:
    pa.feather.write_feather(TABLE, str(folder / "t.feather"), compression="zstd", chunksize=3)
    return {"source": folder / "t.feather"}


def as_arrow_stream(folder: Path) -> dict:
    with pa.ipc.new_stream(folder / "t.arrow", TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=4)
    return {"source": folder / "t.arrow"}


def as_arrow_table(folder: Path) -> dict:
    return {"source": pa.concat_tables([TABLE.slice(0, 3), TABLE.slice(3)])}


def as_record_batch(folder: Path) -> dict:
    return {"source": TABLE.to_batches()[0]}


def as_pandas(folder: Path) -> dict:
    return {"source": TABLE.to_pandas()}


def as_pandas_objects(folder: Path) -> dict:
    return {"source": TABLE.to_pandas().astype(object)}


def as_pandas_categories(folder: Path) -> dict:
    return {"source": TABLE.to_pandas().astype({"word": "category"})}


def as_pandas_with_arrow_types(folder: Path) -> dict:
    return {"source": TABLE.to_pandas(types_mapper=pd.ArrowDtype)}


def as_polars(folder: Path) -> dict:
    return {"source": pl.from_arrow(TABLE)}


def as_polars_lazy(folder: Path) -> dict:
    return {"source": pl.from_arrow(TABLE).lazy()}


def as_polars_categories(folder: Path) -> dict:
    return {"source": pl.from_arrow(TABLE).with_columns(pl.col("word").cast(pl.Categorical))}


def as_columns(folder: Path) -> dict:
    return {"source": TABLE.to_pydict()}


def as_numpy_columns(folder: Path) -> dict:
    numbers = np.array([math.nan if v is None else v for v in NUMBERS])
    return {"source": {"word": WORDS, "number": numbers, "code": np.array(CODES), "truth>1": TRUTHS}}


def as_records(folder: Path) -> dict:
    return {"source": TABLE.to_pylist()}


def as_records_without_the_missing(folder: Path) -> dict:
    return {"source": [{k: v for k, v in row.items() if v is not None} for row in TABLE.to_pylist()]}


def database(folder: Path) -> Path:
    path = folder / "t.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("arrow_table", TABLE)
        connection.execute("CREATE TABLE people AS SELECT * FROM arrow_table")
    return path


def as_database_table(folder: Path) -> dict:
    return {"source": database(folder), "table": "people"}


def as_database_query(folder: Path) -> dict:
    query = 'SELECT word, number, code::HUGEINT AS code, "truth>1" FROM people'
    return {"source": database(folder), "query": query}


def as_connection(folder: Path) -> dict:
    connection = duckdb.connect(str(database(folder)), read_only=True)
    return {"source": connection, "query": "SELECT * FROM people"}


def as_relation(folder: Path) -> dict:
    return {"source": duckdb.connect(str(database(folder)), read_only=True).table("people")}


SOURCES = [value for name, value in sorted(globals().items()) if name.startswith("as_")]


@pytest.mark.parametrize("memory_limit", [None, 0], ids=["memory", "stream"])
@pytest.mark.parametrize("make", SOURCES, ids=lambda f: f.__name__)
def test_every_source_gives_the_same_codes(make, memory_limit, tmp_path):
    engine = open_engine(**make(tmp_path), domain=DOMAIN, memory_limit=memory_limit)
    assert type(engine) is (StreamEngine if memory_limit == 0 else MemoryEngine)
    for _ in range(2):
        batches = list(engine._batches(DOMAIN.names))
        found = {name: np.concatenate([b[name] for b in batches]).tolist() for name in DOMAIN.names}
        assert found == EXPECTED


@pytest.mark.slow
def test_every_source_gives_the_same_commitment(tmp_path):
    seals = set()
    for i, make in enumerate(SOURCES):
        folder = tmp_path / str(i)
        folder.mkdir()
        seals.add(open_engine(**make(folder), domain=DOMAIN, memory_limit=0).commitment(b"salt"))
    assert len(seals) == 1


def test_a_source_says_how_much_of_it_has_been_read():
    """For the owner's eyes: it only moves a bar."""
    source = ArrowTable(as_arrow_table(Path())["source"], "a table")
    assert [share for _, share in source.batches(["code"])] == [0.3, 1.0]


def test_spaces_around_a_quoted_field_are_no_part_of_it(tmp_path):
    """After a comma, and before the next: its quotes still hold what is between them together."""
    (tmp_path / "t.csv").write_text('word,code\n  "a,b" ,1\n "bee",  "2"  \n!"ant",3\n')
    domain = Domain(
        (
            Attribute("word", Kind.CATEGORICAL, categories=("a,b", "bee", '!"ant"')),
            Attribute("code", Kind.ORDINAL, codes=4),
        )
    )
    (found,) = open_engine(tmp_path / "t.csv", domain)._batches(domain.names)
    assert {name: codes.tolist() for name, codes in found.items()} == {"word": [0, 1, 2], "code": [1, 2, 3]}


def test_whole_numbers_of_every_width_and_decimals(tmp_path):
    domain = Domain((Attribute("x", Kind.ORDINAL, codes=4, overflow=True),))
    for kind in ("TINYINT", "UBIGINT", "HUGEINT", "DECIMAL(10, 2)", "FLOAT", "DOUBLE", "VARCHAR"):
        relation = duckdb.connect().sql(f"SELECT x::{kind} AS x FROM (VALUES (0), (3), (4), (NULL)) t(x)")
        engine = open_engine(relation, domain)
        assert engine.margins([("x",)])[("x",)].tolist() == [1, 0, 0, 1, 2]


def test_names_that_differ_in_case_are_told_apart():
    relation = duckdb.connect().sql("SELECT 1 AS a, 2 AS A")
    domain = Domain((Attribute("A", Kind.ORDINAL, codes=4),))
    assert open_engine(relation, domain).margins([("A",)])[("A",)].tolist() == [0, 0, 1, 0]


@pytest.mark.slow
def test_a_database_connection_outlives_its_name(tmp_path):
    import gc

    engine = open_engine(**as_database_table(tmp_path), domain=DOMAIN, memory_limit=0)
    gc.collect()
    assert engine.size() == 10


def test_an_empty_table_is_a_table(tmp_path):
    (tmp_path / "t.csv").write_text("word,number,code,truth>1\n")
    pq.write_table(TABLE.slice(0, 0), tmp_path / "t.parquet")
    for source in (
        tmp_path / "t.csv",
        tmp_path / "t.parquet",
        TABLE.slice(0, 0),
        [],
        pl.from_arrow(TABLE).head(0),
    ):
        for limit in (None, 0):
            engine = open_engine(source, DOMAIN, memory_limit=limit)
            assert engine.size() == 0
            assert engine.margins([("word", "code")])["word", "code"].sum() == 0


def test_progress_is_told_in_twenty_one_steps_however_large_the_table(tmp_path):
    for rows in (0, 3, 3000):
        told: list[float] = []
        (tmp_path / "t.csv").write_text("word,number,code,truth>1\n" + "ant,1,1,1\n" * rows)
        open_engine(tmp_path / "t.csv", DOMAIN, progress=told.append)
        open_engine(tmp_path / "t.csv", DOMAIN, progress=told.append, memory_limit=0)
        assert told == [i / 20 for i in range(21)] * 2


def test_a_file_that_changes_between_two_passes_is_noticed(tmp_path):
    for make in (as_csv, as_parquet, as_feather):
        options = make(tmp_path)
        engine = open_engine(**options, domain=DOMAIN, memory_limit=0)
        assert engine.size() == 10
        with Path(options["source"]).open("ab") as stream:
            stream.write(b"ant,1,1,1\n")
        with pytest.raises(SourceError, match="changed since it was opened"):
            engine.size()


@pytest.mark.parametrize("limit", [-1, 1.5, True])
def test_the_memory_limit_is_a_number_of_bytes(limit):
    with pytest.raises(ParameterError, match="memory_limit"):
        open_engine([], DOMAIN, memory_limit=limit)


@pytest.mark.parametrize("delimiter", ["", ",,", '"', "\n", "\u00e9", " "])
def test_a_delimiter_is_one_plain_character(delimiter, tmp_path):
    with pytest.raises(ParameterError, match="one ASCII character"):
        open_engine(**as_csv(tmp_path) | {"delimiter": delimiter}, domain=DOMAIN)


@pytest.mark.parametrize("make", [as_csv, as_pandas])
def test_table_and_query_are_for_databases(make, tmp_path):
    with pytest.raises(ParameterError, match="DuckDB"):
        open_engine(**make(tmp_path), domain=DOMAIN, table="people")


def test_a_lazy_frame_that_is_not_local_is_not_collected():
    """A relation stands for any frame whose rows lie elsewhere; narwhals would collect it without a word."""
    frame = nw.from_native(duckdb.sql("SELECT 1 AS a")).with_columns(b=nw.lit(1))
    with pytest.raises(SourceError, match="lazy frame of duckdb is not collected"):
        open_engine(frame, Domain((Attribute("a", Kind.ORDINAL, codes=3),)))


def test_a_table_has_the_name_of_its_file_and_a_dot_that_of_its_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert public_name(Path("data") / ".people.csv", None) == ".people.csv"
    assert public_name(".", None) == tmp_path.name
    assert public_name("..", None) == tmp_path.parent.name
    assert public_name("/", None) == "/"
