"""Bad files: each gives a typed error about public structure, or the coding that docs/sources.md states."""

from __future__ import annotations

import datetime
import decimal
import gzip
import os
import traceback
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from maquette.domain import Attribute, Domain, Kind
from maquette.errors import MaquetteError, SourceError
from maquette.owner import open as open_table
from maquette.vault.readers import open_engine

CANARY = "ZXQCANARY"

DOMAIN = Domain(
    (
        Attribute("word", Kind.CATEGORICAL, categories=("a", "b", "caf\u00e9"), nullable=True, overflow=True),
        Attribute("number", Kind.NUMERIC, bounds=(0, 10), bins=10, nullable=True, overflow=True),
    ),
    na_values=("?",),
)
OTHER_WORD, NO_WORD, OTHER_NUMBER, NO_NUMBER = 3, 4, 10, 11
HEAD = b"word,number\n"


def codes(source: object, **options) -> list[tuple[int, int]]:
    engine = open_engine(source, DOMAIN, **options)
    columns = engine._columns
    return list(zip(columns["word"].tolist(), columns["number"].tolist(), strict=True))


# --- text files whose records are odd: every one has a documented coding -------------------------------------

MAPPED: dict[str, tuple[bytes, list[tuple[int, int]]]] = {
    "plain": (HEAD + b"a,1\nb,2\n", [(0, 1), (1, 2)]),
    "header only": (HEAD, []),
    "header without line end": (b"word,number", []),
    "no final line end": (HEAD + b"a,1\nb,2", [(0, 1), (1, 2)]),
    "byte order mark": (b"\xef\xbb\xbf" + HEAD + b"a,1\n", [(0, 1)]),
    "CR LF": (b"word,number\r\na,1\r\nb,2\r\n", [(0, 1), (1, 2)]),
    "mixed line ends": (HEAD + b"a,1\r\nb,2\na,3\r\n", [(0, 1), (1, 2), (0, 3)]),
    "CR inside a field": (HEAD + b"a\rx,1\nb,2\n", [(OTHER_WORD, 1), (1, 2)]),
    "CR at the end of the file": (HEAD + b"a,1\n\r", [(0, 1)]),
    "blank lines": (HEAD + b"\na,1\n\n\r\nb,2\n\n", [(0, 1), (1, 2)]),
    "a line of spaces": (HEAD + b"   \n", [(NO_WORD, NO_NUMBER)]),
    "too few fields": (HEAD + b"a\nb,2\n", [(0, NO_NUMBER), (1, 2)]),
    "too many fields": (HEAD + b"a,1,9,9,9\nb,2\n", [(0, 1), (1, 2)]),
    "extra columns in another order": (b"x,number,y,word\n8,1,8,a\n8,2,8,b\n", [(0, 1), (1, 2)]),
    "doubled extra columns": (b"x,x,number,word,,\n8,8,1,a,,\n", [(0, 1)]),
    "quoted header": (b'"word","number"\na,1\n', [(0, 1)]),
    "spaces in the header": (b" word , number \na,1\n", [(0, 1)]),
    "quoted fields": (HEAD + b'"a","1"\n"b","2"\n', [(0, 1), (1, 2)]),
    "delimiter in quotes": (HEAD + b'"a,b",1\nb,2\n', [(OTHER_WORD, 1), (1, 2)]),
    "line end in quotes": (HEAD + b'"a\nb",1\nb,2\n', [(OTHER_WORD, 1), (1, 2)]),
    "doubled quotes": (HEAD + b'"a""b",1\nb,2\n', [(OTHER_WORD, 1), (1, 2)]),
    "empty quotes": (HEAD + b'"",""\n', [(NO_WORD, NO_NUMBER)]),
    "space around quotes": (HEAD + b' "a" , "1" \n', [(0, 1)]),
    "quote left open": (HEAD + b'"a,1\nb,2\na,3\n', [(OTHER_WORD, 1), (1, 2), (0, 3)]),
    "quote left open, quotes after": (HEAD + b'"a,1\n"b","2"\n"a","3"\n', [(OTHER_WORD, 1), (1, 2), (0, 3)]),
    "quote left open at the end": (HEAD + b'a,1\nb,"2', [(0, 1), (1, NO_NUMBER)]),
    "quote in the middle": (HEAD + b'a"x,1\nb,2\n', [(OTHER_WORD, 1), (1, 2)]),
    "text after the closing quote": (HEAD + b'"a"x,1\nb,2\n', [(OTHER_WORD, 1), (1, 2)]),
    "single quotes": (HEAD + b"'a',1\n", [(OTHER_WORD, 1)]),
    "backslashes": (HEAD + b"a\\,1\n\\N,2\n", [(OTHER_WORD, 1), (OTHER_WORD, 2)]),
    "comment sign": (HEAD + b"#a,1\n", [(OTHER_WORD, 1)]),
    "NUL bytes": (HEAD + b"a\x00,1\nb,\x00\nb,2\n", [(OTHER_WORD, 1), (1, NO_NUMBER), (1, 2)]),
    "control Z": (HEAD + b"a,1\n\x1a\nb,2\n", [(0, 1), (OTHER_WORD, NO_NUMBER), (1, 2)]),
    "composed and decomposed": (HEAD + "caf\u00e9,1\ncafe\u0301,2\n".encode(), [(2, 1), (2, 2)]),
    "bidirectional marks": (HEAD + "\u202ea,1\na\u200f,2\n".encode(), [(OTHER_WORD, 1), (OTHER_WORD, 2)]),
    "byte order mark inside": (HEAD + "\ufeffa,1\n".encode(), [(OTHER_WORD, 1)]),
    "spaces around values": (HEAD + " a ,\t1\u00a0\n".encode(), [(0, 1)]),
    "full-width digits": (HEAD + "a,\uff11\n".encode(), [(0, NO_NUMBER)]),
    "text among numbers": (HEAD + b"a,one\nb,2\n", [(0, NO_NUMBER), (1, 2)]),
    "numbers among text": (HEAD + b"1,1\nb,2\n", [(OTHER_WORD, 1), (1, 2)]),
    "NaN in any case": (HEAD + b"a,NaN\na,nan\na,-nan\n", [(0, NO_NUMBER)] * 3),
    "infinities": (HEAD + b"a,inf\na,-Infinity\n", [(0, OTHER_NUMBER)] * 2),
    "negative zero": (HEAD + b"a,-0.0\n", [(0, 0)]),
    "beyond floating point": (HEAD + b"a,1e400\na,-1e400\na,1e-400\n", [(0, OTHER_NUMBER)] * 2 + [(0, 0)]),
    "huge whole numbers": (HEAD + b"a," + b"9" * 5000 + b"\nb,2\n", [(0, OTHER_NUMBER), (1, 2)]),
    "leading zeros": (HEAD + b"a,007\na,+7\na,7.\na,7e0\n", [(0, 7)] * 4),
    "hexadecimal and separators": (HEAD + b"a,0x7\na,1_0\n", [(0, NO_NUMBER)] * 2),
    "decimal comma": (HEAD + b'a,"1,5"\n', [(0, NO_NUMBER)]),
    "currency and percent": (HEAD + b"a,$7\na,7%\n", [(0, NO_NUMBER)] * 2),
    "outside the bounds": (HEAD + b"a,-1\na,10\na,10.01\n", [(0, OTHER_NUMBER), (0, 9), (0, OTHER_NUMBER)]),
    "missing tokens": (HEAD + b"?,?\n ? , ? \n,\n", [(NO_WORD, NO_NUMBER)] * 3),
    "other words for missing": (HEAD + b"NULL,NULL\nNA,NA\n", [(OTHER_WORD, NO_NUMBER)] * 2),
    "dates among numbers": (HEAD + b"a,2020-01-01\n", [(0, NO_NUMBER)]),
    "a field of a megabyte": (HEAD + b"x" * 2**20 + b",1\nb,2\n", [(OTHER_WORD, 1), (1, 2)]),
    "quotes over 64 KiB": (HEAD + b'"' + b"x" * 2**17 + b'",1\nb,2\n', [(OTHER_WORD, 1), (1, 2)]),
    "ten thousand fields": (HEAD + b"a,1" + b",z" * 10_000 + b"\nb,2\n", [(0, 1), (1, 2)]),
    "a record over 8 MiB": (HEAD + b"a," + b"x" * (9 * 2**20) + b"\nb,2\n", [(0, NO_NUMBER), (1, 2)]),
    "formula injection": (HEAD + b"=cmd(),1\n@x,2\n", [(OTHER_WORD, 1), (OTHER_WORD, 2)]),
}  # fmt: skip


@pytest.mark.parametrize("case", MAPPED, ids=str)
def test_an_odd_text_file_has_its_documented_coding(case: str, tmp_path: Path):
    data, expected = MAPPED[case]
    (tmp_path / "t.csv").write_bytes(data)
    assert codes(tmp_path / "t.csv") == expected
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(data, 1))
    assert codes(tmp_path / "t.csv.gz") == expected


def peak_of(work: Callable[[], object]) -> int:
    """The most memory that Python and numpy held during a call, in bytes."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_measure_of_memory_can_fail():
    assert peak_of(lambda: bytes(2**27)) > 2**26 + 2**25


@pytest.mark.slow
def test_a_sparse_file_of_zeros_is_one_record_in_little_memory(tmp_path: Path):
    path = tmp_path / "t.csv"
    path.write_bytes(HEAD + b"a,1\nb,")
    os.truncate(path, 2**28)
    with path.open("ab") as stream:
        stream.write(b"\nb,2\n")
    assert codes(path) == [(0, 1), (1, NO_NUMBER), (1, 2)]
    assert peak_of(lambda: codes(path)) < 2**26 + 2**25


@pytest.mark.slow
def test_a_gzip_bomb_is_read_in_little_memory(tmp_path: Path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(HEAD + b"a,1\nb," + b"0" * 2**28 + b"\nb,2\n", 9))
    assert path.stat().st_size < 2**20
    assert codes(path) == [(0, 1), (1, 0), (1, 2)]
    assert peak_of(lambda: codes(path)) < 2**26 + 2**25


# --- structure that is wrong: refused before any record is looked at -----------------------------------------


def file(name: str, data: bytes) -> Callable[[Path], object]:
    def make(folder: Path) -> object:
        (folder / name).write_bytes(data)
        return folder / name

    return make


ROW = f"{CANARY},7\n".encode()


def parquet(**columns) -> Callable[[Path], object]:
    def make(folder: Path) -> object:
        table = pa.table(columns)
        pq.write_table(table, folder / "t.parquet")
        return folder / "t.parquet"

    return make


def parquet_of_two(folder: Path) -> object:
    (folder / "t").mkdir()
    pq.write_table(pa.table({"word": ["a"], "number": [1]}), folder / "t" / "1.parquet")
    pq.write_table(pa.table({"word": ["a"], "number": [[CANARY]]}), folder / "t" / "2.parquet")
    return folder / "t"


def without_footer(folder: Path) -> object:
    path = parquet(word=[CANARY], number=[1])(folder)
    data = path.read_bytes()
    path.write_bytes(data[:-20])
    return path


def doubled_parquet(folder: Path) -> object:
    table = pa.Table.from_arrays(
        [pa.array([CANARY]), pa.array(["a"]), pa.array([1])], ["word", "word", "number"]
    )
    pq.write_table(table, folder / "t.parquet")
    return folder / "t.parquet"


def empty_folder(folder: Path) -> object:
    (folder / "t").mkdir()
    return folder / "t"


NUMBERS = {"number": [1]}
BLOB = pa.array([CANARY.encode()], pa.binary())
LATIN = pa.array([CANARY.encode(), b"caf\xe9"], pa.binary()).view(pa.string())
DATES = pa.array([datetime.date(2020, 1, 1)])
TIMES = pa.array([datetime.datetime(2020, 1, 1)], pa.timestamp("us", tz="Europe/Paris"))

REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "no such file": (lambda folder: folder / "none.csv", "no file at"),
    "empty folder": (empty_folder, "no table file in"),
    "pattern without a match": (lambda folder: str(folder / "*.parquet"), "no table file in"),
    "unknown ending": (file("t.pdf", ROW), "cannot tell what .* should end in one of .csv"),
    "no ending": (file("table", HEAD + ROW), "cannot tell what"),
    "empty file": (file("t.csv", b""), "does not start with a header row"),
    "blank first line": (file("t.csv", b"\n" + HEAD + ROW), "does not start with a header row"),
    "byte order mark only": (file("t.csv", b"\xef\xbb\xbf"), "does not start with a header row"),
    "UTF-16": (file("t.csv", (HEAD + ROW).decode().encode("utf-16")), "UTF-16"),
    "UTF-16 without mark": (file("t.csv", (HEAD + ROW).decode().encode("utf-16-le")), "UTF-16"),
    "a binary file": (file("t.csv", b"\x00\x01" + ROW), "binary"),
    "Latin-1 header": (file("t.csv", b"word,number,caf\xe9\n" + ROW), "header .* is not UTF-8"),
    "Latin-1": (file("t.csv", HEAD + ROW + b"caf\xe9,1\n"), "file t.csv is not UTF-8 text; .*encoding="),
    "bad bytes in a number": (file("t.csv", HEAD + ROW + b"a,\xff1\n"), "file t.csv is not UTF-8 text"),
    "Latin-1, compressed": (file("t.csv.gz", gzip.compress(HEAD + ROW + b"caf\xe9,1\n")), "t.csv.gz is not UTF-8 text"),
    "a character cut at the end": (file("t.csv", HEAD + ROW + b"caf\xc3"), "file t.csv is not UTF-8 text"),
    "Parquet, text in Latin-1": (parquet(word=LATIN, number=[1, 2]), "text columns that are not UTF-8"),
    "Arrow, text in Latin-1": (lambda _: pa.table({"word": LATIN, "number": [1, 2]}), "text .* not UTF-8"),
    "line ends of CR only": (file("t.csv", b"word,number\r" + ROW.replace(b"\n", b"\r")), "LF or CR LF"),
    "endless first line": (file("t.csv", CANARY.encode() * 200_000), "header row"),
    "a name without end": (file("t.csv", b"word,number," + b"x" * 200_000 + b"\n" + ROW), "over 100,000"),
    "missing column": (file("t.csv", b"word\n" + ROW), "no column 'number'; it has 1 column"),
    "both missing": (file("t.csv", b"x,y\n" + ROW), "none of the 2 declared columns .* header row"),
    "no header row": (file("t.csv", ROW + ROW), "does the file start with a header row"),
    "another case": (file("t.csv", b"Word,number\n" + ROW), "'word' is there with other capitals or spaces"),
    "doubled column": (file("t.csv", b"word,number,word\n" + ROW), "more than one column 'word'"),
    "semicolons": (file("t.csv", b"word;number\n" + ROW), "separated by ';'"),
    "tabs": (file("t.csv", b"word\tnumber\n" + ROW), "separated by a tab"),
    "bars": (file("t.csv", b"word|number\n" + ROW), r"separated by '\|'"),
    "not gzip": (file("t.csv.gz", HEAD + ROW), "no gzip file, or an incomplete one"),
    "empty gzip": (file("t.csv.gz", b""), "header row"),
    "cut gzip header": (file("t.csv.gz", gzip.compress(HEAD + ROW)[:12]), "no gzip file, or an incomplete one"),
    "gzip by another name": (file("t.csv", gzip.compress(HEAD + ROW)), "gzip-compressed; rename"),
    "Parquet of nothing": (file("t.parquet", b""), "no Parquet file, or an incomplete one"),
    "Parquet of text": (file("t.parquet", HEAD + ROW), "no Parquet file, or an incomplete one"),
    "Parquet without footer": (without_footer, "no Parquet file, or an incomplete one"),
    "Parquet missing a column": (parquet(word=[CANARY]), "no column 'number'"),
    "Parquet with a doubled column": (doubled_parquet, "more than one column 'word'"),
    "Parquet, nested": (parquet(word=[[CANARY]], **NUMBERS), "'word' .* has type list<.*>, .*categorical"),
    "Parquet, structures": (parquet(word=[{"x": CANARY}], **NUMBERS), "'word' .* has type struct"),
    "Parquet, bytes": (parquet(word=BLOB, **NUMBERS), "'word' .* has type binary"),
    "Parquet, dates for numbers": (parquet(word=["a"], number=DATES), "'number' .* date32.* expects numbers"),
    "Parquet, times for numbers": (parquet(word=["a"], number=TIMES), "'number' .* timestamp.* expects numbers"),
    "one of two files differs": (parquet_of_two, "'number' of file 2.parquet has type list"),
    "Arrow of text": (file("t.arrow", HEAD + ROW), "no Arrow IPC file, or an incomplete one"),
    "Arrow of nothing": (file("t.feather", b""), "no Arrow IPC file, or an incomplete one"),
    "not a database": (file("t.duckdb", HEAD + ROW), "as a DuckDB database"),
    "pandas, doubled column": (
        lambda _: pd.DataFrame([[CANARY, 1, 2]], columns=["word", "word", "number"]), "more than one column"),
    "pandas, periods": (
        lambda _: pd.DataFrame({"word": ["a"], "number": pd.period_range("2020-01", periods=1, freq="M")}),
        "'number' .* has type"),
    "pandas, complex": (lambda _: pd.DataFrame({"word": ["a"], "number": [1j]}), "'number' .* cannot be read"),
    "pandas, durations": (
        lambda _: pd.DataFrame({"word": ["a"], "number": pd.to_timedelta([1])}), "'number' .* duration"),
    "polars, lists": (lambda _: pl.DataFrame({"word": [[CANARY]], "number": [1]}), "'word' .* has type"),
    "polars, bytes": (lambda _: pl.DataFrame({"word": [CANARY.encode()], "number": [1]}), "'word' .* large_binary"),
    "columns of two lengths": (lambda _: {"word": [CANARY, "a"], "number": [1]}, "different lengths"),
    "a list of texts": (lambda _: [CANARY], "one mapping per record"),
    "a number": (lambda _: 7, "cannot read a table from int"),
    "a text matrix": (lambda _: np.array([[CANARY]]), "cannot read a table from ndarray"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_wrong_structure_is_refused_without_a_private_word(case: str, tmp_path: Path):
    make, words = REFUSED[case]
    source = make(tmp_path)
    for limit in (None, 0):
        with pytest.raises(SourceError, match=words) as caught:
            open_table(source, domain=DOMAIN, memory_limit=limit)
        assert_silent(caught.value)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet", "t.arrow"])
def test_a_file_that_may_not_be_read_is_said_so(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_args: object, **_options: object) -> None:
        raise PermissionError(13, "Permission denied")

    (tmp_path / name).write_bytes(HEAD + ROW)
    for place in ("pathlib.Path.open", "pyarrow.parquet.read_schema", "pyarrow.memory_map"):
        monkeypatch.setattr(place, refuse)
    with pytest.raises(SourceError, match=f"cannot read .*{name}: [Pp]ermission denied"):
        open_engine(tmp_path / name, DOMAIN)


def test_a_file_that_is_gone_at_the_second_reading_is_said_so(tmp_path: Path):
    (tmp_path / "t.csv").write_bytes(HEAD + ROW)
    engine = open_engine(tmp_path / "t.csv", DOMAIN, memory_limit=0)
    (tmp_path / "t.csv").unlink()
    with pytest.raises(SourceError, match=r"cannot read .*No such file"):
        engine.size()


def assert_silent(error: BaseException) -> None:
    """Neither the message, nor the trace, nor any error that it hangs on to holds the planted word."""
    shown = "".join(traceback.format_exception(error))
    assert CANARY not in shown
    seen: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in seen:
        seen.append(link)
        assert CANARY not in repr(link)
        link = link.__cause__ or link.__context__


def test_the_check_for_silence_can_fail():
    with pytest.raises(MaquetteError) as caught:  # noqa: PT012
        try:
            raise ValueError(CANARY)
        except ValueError:
            raise SourceError("something went wrong") from None
    with pytest.raises(AssertionError):
        assert_silent(caught.value)


# --- files that break off while they are read ----------------------------------------------------------------


def broken_gzip(folder: Path) -> dict:
    rng = np.random.default_rng(0)
    lines = b"".join(b"%s,%d\n" % (CANARY.encode(), v) for v in rng.integers(0, 10**9, 5000))
    data = gzip.compress(HEAD + lines)
    (folder / "t.csv.gz").write_bytes(data[: len(data) // 2])
    return {"source": folder / "t.csv.gz"}


def broken_pages(folder: Path) -> dict:
    table = pa.table({"word": [f"{CANARY}{i}" for i in range(5000)], "number": list(range(5000))})
    pq.write_table(table, folder / "t.parquet", compression="zstd")
    data = bytearray((folder / "t.parquet").read_bytes())
    data[50:3000] = bytes(2950)
    (folder / "t.parquet").write_bytes(data)
    return {"source": folder / "t.parquet"}


def failing_query(folder: Path) -> dict:
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE t AS SELECT '{CANARY}' AS word, '{CANARY}' AS number")
    return {"source": connection, "query": "SELECT word, number::DOUBLE AS number FROM t"}


@pytest.mark.parametrize("make", [broken_gzip, broken_pages, failing_query])
def test_a_source_that_breaks_off_is_said_to_be_damaged_and_not_quoted(make, tmp_path):
    with pytest.raises(SourceError, match="damaged or cannot be read to its end") as caught:
        open_engine(**make(tmp_path), domain=DOMAIN)
    assert_silent(caught.value)


# --- databases -----------------------------------------------------------------------------------------------


def database(folder: Path) -> Path:
    with duckdb.connect(str(folder / "t.duckdb")) as connection:
        connection.execute(f"CREATE TABLE t AS SELECT '{CANARY}' AS word, 1 AS number")
    return folder / "t.duckdb"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "exactly one of table= and query="),
        ({"table": "t", "query": "SELECT 1"}, "exactly one of"),
        ({"table": "none"}, "none.*does not exist"),
        ({"query": "SELECT nothing FROM t"}, "nothing"),
        ({"query": "SELEC"}, "SELEC"),
        ({"query": "SELECT 1; SELECT 2"}, "one SELECT"),
        ({"query": "DROP TABLE t"}, "one SELECT"),
        ({"query": ""}, "one SELECT"),
        (
            {"query": "SELECT word, 1::BLOB AS number FROM t"},
            "cannot be opened|type binary|Unimplemented|cast",
        ),
        ({"query": "SELECT word, [1] AS number FROM t"}, "'number' .* has type list"),
        ({"query": "SELECT word, INTERVAL 1 DAY AS number FROM t"}, "'number' .*_interval"),
    ],
)
def test_wrong_tables_and_queries_are_refused(options, words, tmp_path):
    with pytest.raises(SourceError, match=words) as caught:
        open_engine(database(tmp_path), DOMAIN, **options)
    assert_silent(caught.value)


def test_a_query_cannot_change_the_database():
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT 'a' AS word, 1 AS number")
    for query in ("DROP TABLE t", "INSERT INTO t VALUES ('b', 2)", "SELECT 1; DROP TABLE t"):
        with pytest.raises(SourceError, match="one SELECT"):
            open_engine(connection, DOMAIN, query=query)
    assert codes(connection, table="t") == [(0, 1)]


# --- odd values in typed sources: documented codings ---------------------------------------------------------


def test_null_decimal_and_odd_numbers_of_a_database():
    relation = duckdb.connect().sql(
        "SELECT * FROM (VALUES ('a', 1.50::DECIMAL(9, 2)), (NULL, NULL), (' b', 10.01), ('', -0.01)) t(word, number)"
    )
    assert codes(relation) == [(0, 1), (NO_WORD, NO_NUMBER), (1, OTHER_NUMBER), (NO_WORD, OTHER_NUMBER)]


def test_objects_of_every_kind_in_one_column():
    nothing = [float("nan"), True, b"a", decimal.Decimal("1.5"), {"x": 1}, object(), pd.NA, pd.NaT, "\ud800"]
    odd = ["a", 7, None, *nothing]
    frame = pd.DataFrame({"word": pd.Series(odd, dtype=object), "number": pd.Series(odd, dtype=object)})
    found = codes(frame)
    assert [w for w, _ in found] == [0, 3, 4, 4, 3, 3, 3, 3, 3, 4, 4, 3]
    assert [n for _, n in found] == [11, 7, 11, 11, 11, 11, 1, 11, 11, 11, 11, 11]
    assert codes({"word": odd, "number": odd}) == found
    assert codes([{"word": v, "number": v} for v in odd]) == found


def test_a_dictionary_whose_entries_repeat_or_are_null():
    words = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 2, None, 3], pa.int8()), pa.array(["a", "a", None, " b"])
    )
    assert [w for w, _ in codes(pa.table({"word": words, "number": [1] * 5}))] == [0, 0, NO_WORD, NO_WORD, 1]


def test_dates_and_times_compare_as_iso_text(tmp_path):
    domain = Domain(
        (Attribute("day", Kind.CATEGORICAL, categories=("2020-01-01", "2020-01-02"), overflow=True),)
    )
    days = pa.table({"day": [datetime.date(2020, 1, 2), datetime.date(2020, 1, 3), None]})
    assert open_engine(days, domain).margins([("day",)])["day",].tolist() == [0, 1, 2]


def test_there_are_enough_cases():
    assert len(MAPPED) + len(REFUSED) >= 100
