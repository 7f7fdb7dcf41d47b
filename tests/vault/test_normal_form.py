"""One normal form of values: the same value finds the same cell from every type, library and file."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maquette.core.rows.coding import coders, spell, spell_object
from maquette.core.rows.source import fits
from maquette.core.values import key, plain_number, spell_float, spelling
from maquette.domain import Attribute, Domain, Kind
from maquette.errors import SourceError
from maquette.vault.readers import open_engine

OTHER, MISSING = "other", "missing"
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
DECIMALS = [pa.decimal32(7, 2), pa.decimal64(12, 4), pa.decimal128(20, 9), pa.decimal256(50, 10)]
TEXTS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
UNITS = ("s", "ms", "us", "ns")
NESTED = [
    pa.list_(pa.int64()),
    pa.large_list(pa.string()),
    pa.list_(pa.int64(), 2),
    pa.struct([("a", pa.int64())]),
    pa.map_(pa.string(), pa.int64()),
    pa.binary(),
    pa.large_binary(),
    pa.binary(4),
    pa.binary_view(),
    pa.duration("s"),
    pa.month_day_nano_interval(),
    pa.dense_union([pa.field("a", pa.int64())]),
    pa.run_end_encoded(pa.int32(), pa.int64()),
]


def attribute(*categories: Any) -> Attribute:
    return Attribute("x", Kind.CATEGORICAL, categories=categories, nullable=True, overflow=True)


def cells(a: Attribute, column: pa.Array, na: tuple[str, ...] = ()) -> list[Any]:
    """The categories that a column's values are coded to."""
    words = [*(a.categories or range(a.cells)), OTHER, MISSING]
    return [words[code] for code in coders(Domain((a,), na))["x"].code(column)]


def listed(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_float16(kind):
        return pa.array([None if v is None else np.float16(v) for v in values], kind)
    return pa.array(values, kind)


@pytest.mark.parametrize("kind", [*INTEGERS, *FLOATS, *DECIMALS, *TEXTS], ids=str)
@pytest.mark.parametrize(
    "categories", [("1", "0", "100"), (1, 0, 100), ("1.00", "0.0", "0100"), (1.0, 0.0, 1e2)]
)
def test_a_number_finds_its_category_from_every_type(kind, categories):
    a = attribute(*categories)
    one, nought, hundred = categories
    make = str if kind in TEXTS else Decimal if kind in DECIMALS else int
    values = [None if v is None else make(v) for v in (1, 0, 100, 7, None)]
    assert cells(a, listed(values, kind)) == [one, nought, hundred, OTHER, MISSING]


@pytest.mark.parametrize("kind", FLOATS, ids=str)
@pytest.mark.parametrize("categories", [("0.1", "0", "2.5", "inf"), (0.1, 0, 2.5, 1)])
def test_fractions_of_every_width(kind, categories):
    column = listed([0.1, -0.0, 2.5, math.nan, None, 0.3], kind)
    tenth, nought, half = categories[:3]
    assert cells(attribute(*categories), column) == [tenth, nought, half, MISSING, MISSING, OTHER]
    infinite = "inf" if "inf" in categories else OTHER
    assert cells(attribute(*categories), listed([math.inf, -math.inf], kind)) == [infinite, OTHER]


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32()], ids=str)
def test_narrow_fractions_fall_on_the_side_of_a_border_that_their_decimal_does(kind):
    a = Attribute("x", Kind.NUMERIC, edges=(0, 0.1, 0.3, 0.7, 1), nullable=True)
    column = listed([0.1, 0.3, 0.7, 0.65, None], kind)
    assert coders(Domain((a,)))["x"].code(column).tolist() == [1, 2, 3, 2, 4]


@pytest.mark.parametrize("kind", DECIMALS, ids=str)
def test_decimals(kind):
    column = pa.array([Decimal("1.00"), Decimal("-0.50"), Decimal("0"), Decimal("12.25"), None], kind)
    assert spell(column if kind.bit_width >= 128 else column.cast(pa.decimal128(20, 4))).to_pylist() == [
        "1", "-0.5", "0", "12.25", None,
    ]  # fmt: skip
    assert cells(attribute("1", "-.5", "12.250", "0"), column) == ["1", "-.5", "0", "12.250", MISSING]
    bins = Attribute("x", Kind.NUMERIC, edges=(-1, -0.5, 1, 12.25, 13), nullable=True)
    assert coders(Domain((bins,)))["x"].code(column).tolist() == [2, 1, 1, 3, 4]


def test_decimals_with_a_negative_scale_and_far_behind_the_point():
    wide = pa.array([Decimal("1E+2"), Decimal("0")], pa.decimal128(10, -2))
    assert spell(wide).to_pylist() == ["100", "0"]
    narrow = pa.array([Decimal("0.00000001"), Decimal("0")], pa.decimal128(10, 8))
    assert spell(narrow).to_pylist() == ["0.00000001", "0"]
    assert cells(attribute(1e-8, 0), narrow) == [1e-8, 0]


def test_numbers_above_two_to_the_53_do_not_collide():
    near = (2**53, 2**53 + 1, 2**64 - 1, 10**30, -(2**63))
    a = attribute(*near)
    assert cells(a, pa.array([2**53 + 1, 2**53, 2**53 + 2], pa.int64())) == [2**53 + 1, 2**53, OTHER]
    assert cells(a, pa.array([2**64 - 1, 2**53 + 1], pa.uint64())) == [2**64 - 1, 2**53 + 1]
    assert cells(a, pa.array([str(n) for n in near])) == [*near]
    assert cells(a, pa.array([Decimal(n) for n in near], pa.decimal128(38, 0))) == [*near]
    assert cells(a, pa.array([f"{2**53 + 1}.0", f"+0{2**53 + 1}", "1e30"])) == [2**53 + 1, 2**53 + 1, 10**30]
    assert cells(a, pa.array([2.0**53, 1e30])) == [2**53, 10**30]
    assert cells(attribute("9007199254740993", "9007199254740992"), pa.array([2**53 + 1])) == [
        "9007199254740993"
    ]


def test_truth():
    column = pa.array([True, False, None])
    for categories in ((True, False), ("true", "false"), ("True", "False"), ("TRUE", "FALSE"), (1, 0)):
        expected = [*categories, MISSING]
        assert cells(attribute(*categories), column) == expected
    codes = Attribute("x", Kind.BOOLEAN, codes=2, nullable=True)
    assert coders(Domain((codes,)))["x"].code(column).tolist() == [1, 0, 2]


DAY = dt.datetime(2020, 1, 1)
LATE = dt.datetime(2020, 1, 1, 12, 30, 15)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize(
    "spelled",
    [
        ("2020-01-01 00:00:00", "2020-01-01 12:30:15"),
        ("2020-01-01", "2020-01-01T12:30:15"),
        ("2020-01-01T00:00:00.000000", "2020-01-01 12:30:15.000"),
    ],
)
def test_timestamps_are_spelled_without_their_unit(unit, spelled):
    column = pa.array([DAY, LATE, None, dt.datetime(1999, 1, 1)], pa.timestamp(unit))
    assert spell(column).to_pylist()[:3] == ["2020-01-01 00:00:00", "2020-01-01 12:30:15", None]
    assert cells(attribute(*spelled), column) == [*spelled, MISSING, OTHER]
    assert cells(attribute(*spelled), pa.array(["2020-01-01", "2020-01-01 12:30:15"])) == [*spelled]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "+05:30", "Asia/Kolkata"])
def test_timestamps_with_a_zone_are_spelled_in_utc(unit, zone):
    column = pa.array([DAY, LATE, None], pa.timestamp(unit, "UTC")).cast(pa.timestamp(unit, zone))
    assert spell(column).to_pylist() == ["2020-01-01 00:00:00Z", "2020-01-01 12:30:15Z", None]
    for spelled in (
        ("2020-01-01 00:00:00Z", "2020-01-01 12:30:15+00"),
        ("2020-01-01T01:00:00.0+01:00", "2020-01-01 07:30:15-0500"),
    ):
        assert cells(attribute(*spelled), column) == [*spelled, MISSING]
    assert cells(attribute("2020-01-01 00:00:00", "2020-01-01"), column)[0] == OTHER  # no zone is no instant


def test_fractions_of_a_second():
    stored = {"ms": 500, "us": 500_000, "ns": 500_000_000}
    for unit, value in stored.items():
        column = pa.array([value], pa.int64()).cast(pa.timestamp(unit))
        assert spell(column).to_pylist() == ["1970-01-01 00:00:00.5"]
        assert cells(attribute("1970-01-01 00:00:00.500000"), column) == ["1970-01-01 00:00:00.500000"]
    assert spell(pa.array([7], pa.int64()).cast(pa.timestamp("ns"))).to_pylist() == [
        "1970-01-01 00:00:00.000000007"
    ]


def test_moments_far_away_are_values_like_others():
    far = pa.array([2**62, -(2**62), -(2**63), 2**63 - 1, 0], pa.int64())
    for unit, zone in itertools.product(UNITS, (None, "UTC", "America/New_York")):
        found = cells(
            attribute("1970-01-01 00:00:00", "1970-01-01 00:00:00Z"), far.cast(pa.timestamp(unit, zone))
        )
        assert found[:4] == [OTHER] * 4
        assert found[4] in ("1970-01-01 00:00:00", "1970-01-01 00:00:00Z")


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()], ids=str)
def test_days(kind):
    column = pa.array([DAY.date(), None, dt.date(1999, 12, 31)], kind)
    for word in ("2020-01-01", "2020-01-01 00:00:00", "2020-01-01T00:00"):
        assert cells(attribute(word), column) == [word, MISSING, OTHER]


@pytest.mark.parametrize("kind", [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")], ids=str)
def test_times_of_day(kind):
    column = pa.array([dt.time(12, 30), dt.time(0, 0, 1), None], kind)
    assert spell(column).to_pylist() == ["12:30:00", "00:00:01", None]
    assert cells(attribute("12:30", "00:00:01.000"), column) == ["12:30", "00:00:01.000", MISSING]


def test_null_columns_are_missing():
    for a in (
        attribute("x"),
        attribute(1),
        Attribute("x", Kind.NUMERIC, bounds=(0, 1), bins=2, nullable=True),
    ):
        assert coders(Domain((a,)))["x"].code(pa.nulls(2)).tolist() == [a.missing_code] * 2


@pytest.mark.parametrize("kind", NESTED, ids=str)
def test_types_that_hold_no_values_are_refused_by_name(kind):
    assert not fits(attribute("x"), kind)
    table = pa.table({"x": pa.array([], kind)}) if not pa.types.is_union(kind) else None
    if table is not None:
        with pytest.raises(SourceError, match=r"column 'x' .* has type ") as refused:
            open_engine(table, Domain((attribute("x"),)))
        assert str(kind) in str(refused.value)


@pytest.mark.parametrize("kind", [pa.timestamp("s"), pa.date32(), pa.time64("us")], ids=str)
def test_moments_are_no_numbers(kind):
    for a in (attribute(1, 2), Attribute("x", Kind.NUMERIC, bounds=(0, 1), bins=2), attribute(True, False)):
        assert not fits(a, kind)


def test_declared_missing_values_go_by_value_too():
    assert cells(attribute("1"), pa.array([-999.0, 1.0]), na=("-999",)) == [MISSING, "1"]
    assert cells(attribute("1"), pa.array(["-999.00", "1"]), na=("-999",)) == [MISSING, "1"]
    assert cells(attribute(1, 2), pa.array(["-999.00", "1"]), na=("-999",)) == [MISSING, 1]
    assert cells(attribute("?", "x"), pa.array(["?", "x"]), na=("?",)) == [MISSING, "x"]


def test_exact_spelling_comes_first():
    a = attribute("1.0", "1", "01")
    assert cells(a, pa.array(["1", "1.0", "01", "001"])) == ["1", "1.0", "01", "1"]
    assert cells(a, pa.array([1])) == ["1"]
    assert cells(a, pa.array([Decimal("1.0")])) == ["1"]


@pytest.mark.parametrize(
    ("text", "plain"),
    [("1", "1"), ("+01.50", "1.5"), ("-0.0", "0"), (".5", "0.5"), ("5.", "5"), ("1e3", "1000"), ("12.5E-3", "0.0125"),
     ("1e-400", "0." + "0" * 399 + "1"), ("1e401", None), ("1e999999999", None), ("", None), (".", None), ("e5", None),
     ("1_0", None), ("0x1", None), ("٣", None), ("1 ", None), ("--1", None), ("0e5", "0"), ("9" * 5000, "9" * 5000)],
)  # fmt: skip
def test_plain_numbers(text, plain):
    assert plain_number(text) == plain


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_spelled_so_that_it_reads_as_itself(value):
    text = spell_float(value)
    assert float(text) == value
    assert "e" not in text
    assert key(text) == text == plain_number(repr(value)) or float(value).is_integer()
    assert spelling(value) == text == spell_object(np.float64(value))


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**9), max_value=10**9))
def test_decimals_are_spelled_exactly(value):
    assert Decimal(spelling(value)) == value
    assert spell(pa.array([value], pa.decimal128(30, 6))).to_pylist() == [spelling(value)]


@given(st.datetimes(), st.sampled_from(["us", "ns"]))
@settings(deadline=None)
def test_python_and_arrow_spell_moments_alike(moment, unit):
    if unit == "ns" and not 1700 < moment.year < 2200:
        unit = "us"
    assert spell(pa.array([moment], pa.timestamp(unit))).to_pylist() == [spell_object(moment)]
    zoned = moment.replace(tzinfo=dt.UTC)
    assert spell(pa.array([zoned], pa.timestamp(unit, "UTC"))).to_pylist() == [spell_object(zoned)]


@given(st.text(max_size=12))
def test_the_key_of_a_key_is_itself_and_no_text_is_refused(text):
    assert key(key(text)) == key(text)
    cells(attribute("1", "x"), pa.array([text.encode(errors="replace").decode()]))


@pytest.mark.parametrize(
    "text", ["2020-13-45 99:99:99+01:00", "9999-12-31 23:59:59-01:00", "123456-01-01 00:00:00+01"]
)
def test_moments_that_do_not_exist_are_texts(text):
    assert key(text) == text


# the same table by every way

NAMES = ("text", "number", "amount", "moment", "instant", "day", "truth", "ratio")
DOMAIN = Domain(
    (
        Attribute("text", Kind.CATEGORICAL, categories=("a", "b"), nullable=True, overflow=True),
        Attribute("number", Kind.CATEGORICAL, categories=("1", "2", "-3"), nullable=True, overflow=True),
        Attribute("amount", Kind.CATEGORICAL, categories=("1", "2.5"), nullable=True, overflow=True),
        Attribute(
            "moment",
            Kind.CATEGORICAL,
            categories=("2020-01-01 00:00:00", "2020-01-01 12:30:15"),
            nullable=True,
            overflow=True,
        ),
        Attribute(
            "instant", Kind.CATEGORICAL, categories=("2020-01-01 00:00:00Z",), nullable=True, overflow=True
        ),
        Attribute("day", Kind.CATEGORICAL, categories=("2020-01-01",), nullable=True, overflow=True),
        Attribute("truth", Kind.BOOLEAN, categories=("true", "false"), nullable=True, overflow=True),
        Attribute("ratio", Kind.CATEGORICAL, categories=("0.1", "2"), nullable=True, overflow=True),
    )
)
TABLE = pa.table(
    {
        "text": pa.array(["a", "b", None, "c"]),
        "number": pa.array([1, 2, None, 9], pa.int32()),
        "amount": pa.array([Decimal("1.00"), Decimal("2.50"), None, Decimal("9.99")], pa.decimal128(10, 2)),
        "moment": pa.array([DAY, LATE, None, dt.datetime(1999, 1, 1)], pa.timestamp("us")),
        "instant": pa.array([DAY, LATE, None, LATE], pa.timestamp("us", "Europe/Berlin")),
        "day": pa.array([DAY.date(), None, DAY.date(), dt.date(1999, 1, 1)]),
        "truth": pa.array([True, False, None, True]),
        "ratio": pa.array([0.1, 2.0, math.nan, 7.25]),
    }
)
CODES = {
    "text": [0, 1, 3, 2],
    "number": [0, 1, 4, 3],
    "amount": [0, 1, 3, 2],
    "moment": [0, 1, 3, 2],
    "instant": [0, 1, 2, 1],
    "day": [0, 2, 0, 1],
    "truth": [0, 1, 3, 0],
    "ratio": [0, 1, 3, 2],
}


def as_arrow(folder: Path) -> Any:
    return TABLE


def as_parquet(folder: Path) -> Any:
    pq.write_table(TABLE, folder / "t.parquet")
    return folder / "t.parquet"


def as_pandas(folder: Path) -> Any:
    return TABLE.to_pandas()


def as_pandas_arrow(folder: Path) -> Any:
    return TABLE.to_pandas(types_mapper=pd.ArrowDtype)


def as_pandas_objects(folder: Path) -> Any:
    return TABLE.to_pandas().astype(object)


def as_polars(folder: Path) -> Any:
    return pl.from_arrow(TABLE)


def as_python(folder: Path) -> Any:
    return TABLE.to_pylist()


def as_csv_by_pandas(folder: Path) -> Any:
    TABLE.to_pandas().to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


def as_csv_by_polars(folder: Path) -> Any:
    pl.from_arrow(TABLE).with_columns(pl.col("ratio").fill_nan(None)).write_csv(folder / "t.csv")
    return folder / "t.csv"


def as_csv_by_arrow(folder: Path) -> Any:
    ratio = pa.array([0.1, 2.0, None, 7.25])
    pyarrow.csv.write_csv(TABLE.set_column(7, "ratio", ratio), folder / "t.csv")
    return folder / "t.csv"


def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'America/New_York'")
    connection.register("arrow_table", TABLE)
    connection.execute("CREATE TABLE t AS SELECT * FROM arrow_table")
    return connection


def as_duckdb(folder: Path) -> Any:
    return _connection().table("t")


def as_csv_by_duckdb(folder: Path) -> Any:
    query = "SELECT * REPLACE (CASE WHEN isnan(ratio) THEN NULL ELSE ratio END AS ratio) FROM t"
    _connection().execute(f"COPY ({query}) TO '{folder / 't.csv'}'")
    return folder / "t.csv"


WAYS = [value for name, value in sorted(globals().items()) if name.startswith("as_")]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_the_same_table_has_the_same_codes_by_every_way(way, tmp_path):
    for limit in (None, 0):
        engine = open_engine(way(tmp_path), DOMAIN, memory_limit=limit)
        found = {name: [] for name in NAMES}
        for batch in engine._batches(NAMES):
            for name in NAMES:
                found[name] += batch[name].tolist()
        assert found == CODES


def test_whole_numbers_in_narrow_fractions_are_exact():
    whole = [123456792.0, 16777216.0, 2.0**40, -65504.0]
    assert cells(attribute(*map(str, map(int, whole))), pa.array(whole, pa.float32())) == [
        str(int(w)) for w in whole
    ]
    assert cells(attribute("65504"), pa.array([np.float16(65504)])) == ["65504"]
    a = Attribute("x", Kind.ORDINAL, codes=2**30, overflow=True)
    assert coders(Domain((a,)))["x"].code(pa.array([123456792.0], pa.float32())).tolist() == [123456792]
    mixed = pa.array([0.1, None, math.nan, math.inf, -math.inf, 3.4e38], pa.float32())
    b = Attribute("x", Kind.NUMERIC, bounds=(0, 1), bins=10, nullable=True, overflow=True)
    assert coders(Domain((b,)))["x"].code(mixed).tolist() == [1, 11, 11, 10, 10, 10]


def test_the_context_of_decimals_does_not_matter():
    with decimal.localcontext() as context:
        context.prec = 3
        assert spelling(Decimal("123456.7890")) == "123456.789"
