"""The code of a value: every rule of docs/sources.md, seen at work."""

from __future__ import annotations

import datetime
import decimal
import math

import numpy as np
import pyarrow as pa
import pytest

from maquette.core.rows import coding
from maquette.core.rows.arrow import text_array
from maquette.core.rows.coding import coders, parse_numbers, parse_whole_numbers, spell_object, words
from maquette.domain import Attribute, Domain, Kind
from maquette.errors import DomainError

BOTH = {"nullable": True, "overflow": True}


def coded(
    attribute: Attribute, values: list, kind: pa.DataType | None = None, na: tuple[str, ...] = ()
) -> list[int]:
    return coders(Domain((attribute,), na))[attribute.name].code(pa.array(values, kind)).tolist()


def test_text_is_trimmed_composed_and_compared_exactly():
    a = Attribute("x", Kind.CATEGORICAL, categories=("a", "b", "caf\u00e9"), **BOTH)
    values = [
        "a",
        " b\t",
        "cafe\u0301",
        "\u00a0a\u2003",
        "A",
        "",
        "   ",
        None,
        "?",
        " ? ",
        "zz",
        "a\x00",
        "\u202ea",
    ]
    assert coded(a, values, na=("?",)) == [0, 1, 2, 0, 3, 4, 4, 4, 4, 4, 3, 3, 3]


@pytest.mark.parametrize(
    ("flags", "unknown", "missing"),
    [({}, 0, 0), ({"nullable": True}, 2, 2), ({"overflow": True}, 2, 2), (BOTH, 2, 3)],
)
def test_unknown_and_missing_always_have_a_cell(flags, unknown, missing):
    a = Attribute("x", Kind.ORDINAL, categories=("a", "b"), **flags)
    assert coded(a, ["b", "c", None]) == [1, unknown, missing]


def test_the_spelling_of_numbers_does_not_matter_where_categories_are_numbers():
    a = Attribute("x", Kind.ORDINAL, categories=(1, 2, 3.5), **BOTH)
    values = ["1", "1.0", "01", "+1", "1e0", " 2", "3.50", "4", "abc", "", "nan", "inf", "0x1", "1_0", "１"]
    assert coded(a, values) == [0, 0, 0, 0, 0, 1, 2, 3, 3, 4, 4, 3, 3, 3, 3]
    assert coded(a, [1, 2, 3, None]) == [0, 1, 3, 4]
    assert coded(a, [1.0, 3.5, 3.4999, math.nan, math.inf]) == [0, 2, 3, 4, 3]
    assert coded(a, [True, False]) == [0, 3]


def test_categories_in_any_order_keep_their_codes():
    a = Attribute("x", Kind.CATEGORICAL, categories=(30, 10, 20), overflow=True)
    assert coded(a, ["10", "20", "30", "40", "5"]) == [1, 2, 0, 3, 3]


def test_text_categories_that_look_like_numbers_are_text_first_and_numbers_second():
    a = Attribute("zip", Kind.CATEGORICAL, categories=("01301", "1301"), overflow=True)
    assert coded(a, ["01301", "1301", "1301.0", "1.301e3"]) == [0, 1, 1, 2]
    assert coded(a, [1301, 1302]) == [1, 2]
    assert coded(a, [1301.0, 1301.5, None]) == [
        1,
        2,
        2,
    ]  # a column of fractions only because some are missing


def test_whole_number_codes():
    a = Attribute("x", Kind.ORDINAL, codes=5, **BOTH)
    values = ["0", "4", "4.0", "04", "5", "-1", "3.5", "abc", "", None, "nan", "1e400", "-0", "9" * 400]
    assert coded(a, values) == [0, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 5, 0, 5]
    assert coded(a, [0, 4, 5, -1, None], pa.int8()) == [0, 4, 5, 5, 6]
    assert coded(a, [2**63 - 1, -(2**63)], pa.int64()) == [5, 5]
    assert coded(a, [2**64 - 1, 3], pa.uint64()) == [5, 3]
    assert coded(a, [decimal.Decimal("4.00"), decimal.Decimal("4.01"), None]) == [4, 5, 6]
    assert coded(a, [True, False, None]) == [1, 0, 6]


def test_truth_values_in_every_spelling():
    a = Attribute("x", Kind.BOOLEAN, codes=2, **BOTH)
    assert coded(a, ["true", "T", "Yes", "y", "1", "1.0", "TRUE"]) == [1] * 7
    assert coded(a, ["false", "F", "No", "n", "0", "0.0", "False"]) == [0] * 7
    assert coded(a, ["2", "maybe", "-1", "0.5", "inf"]) == [2] * 5
    assert coded(a, ["", None, "nan"]) == [3] * 3
    assert coded(a, [True, False, None]) == [1, 0, 3]
    assert coded(a, [1, 0, 2]) == [1, 0, 2]
    assert coded(a, ["N", "y"], na=("N",)) == [3, 1]  # a token for missing comes first


@pytest.mark.parametrize("categories", [(True, False), (1, 0)])
def test_declared_truth_values_keep_their_order(categories):
    a = Attribute("x", Kind.BOOLEAN, categories=categories, overflow=True)
    assert coded(a, ["yes", "no", "1", "0", "2"]) == [0, 1, 0, 1, 2]
    assert coded(a, [True, False]) == [0, 1]


def test_two_named_values_are_text_and_a_column_of_truth_finds_true_and_false():
    a = Attribute("x", Kind.BOOLEAN, categories=("Female", "Male"), overflow=True)
    assert coded(a, ["Male", "Female", "yes"]) == [1, 0, 2]
    b = Attribute("x", Kind.BOOLEAN, categories=("True", "False"), overflow=True)
    assert coded(b, [True, False]) == [0, 1]
    assert coded(b, ["True", "true", "TRUE", "yes"]) == [0, 0, 0, 2]


def test_numbers_are_binned_clamped_or_overflow_and_other_text_is_missing():
    a = Attribute("x", Kind.NUMERIC, bounds=(0, 10), bins=10)
    texts = ["0", "9.99", "10", "-3", "1e400", "-inf", "abc", "", None, "nan", "-0.0", "1,5", "0x5", "1e-400"]
    assert coded(a, texts) == [0, 9, 9, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    b = Attribute("x", Kind.NUMERIC, bounds=(0, 10), bins=10, **BOTH)
    assert coded(b, texts) == [0, 9, 9, 10, 10, 10, 11, 11, 11, 11, 0, 11, 11, 0]
    assert coded(b, [1.5, math.nan, None, math.inf, -1.0]) == [1, 11, 11, 10, 10]
    assert coded(b, [1, 2**62, None]) == [1, 10, 11]
    assert coded(b, [True, None]) == [1, 11]
    assert coded(b, [decimal.Decimal("1.50"), None]) == [1, 11]


def test_missing_tokens_that_are_numbers_match_numbers():
    a = Attribute("x", Kind.NUMERIC, bounds=(0, 10), bins=10, nullable=True)
    assert coded(a, ["-999", "-999.0", " -999 ", "5"], na=("-999",)) == [10, 10, 10, 5]
    assert coded(a, [-999, 5], na=("-999",)) == [10, 5]
    assert coded(a, [-999.0, 5.0], na=("-999",)) == [10, 5]
    b = Attribute("x", Kind.ORDINAL, codes=10, **BOTH)
    assert coded(b, ["9", "N", "8"], na=("N", "9")) == [11, 11, 8]


def test_bytes_that_are_no_utf8_make_one_value_unknown():
    a = Attribute("x", Kind.CATEGORICAL, categories=("a", "caf\u00e9"), overflow=True)
    raw = [b"a", b"caf\xe9", "caf\u00e9".encode(), b"\xff\xfe", b"a\xff"]
    assert coded(a, raw, pa.binary()) == [0, 2, 1, 2, 2]
    number = Attribute("x", Kind.NUMERIC, bounds=(0, 10), bins=10, nullable=True)
    assert coded(number, [b"5", b"\xff5", b"6"], pa.binary()) == [5, 10, 6]


def test_a_text_column_whose_bytes_are_broken_is_coded_all_the_same():
    raw = pa.array([b"a", b"\xff", b"b"])
    broken = pa.StringArray.from_buffers(3, raw.buffers()[1], raw.buffers()[2])
    a = Attribute("x", Kind.CATEGORICAL, categories=("a", "b"), overflow=True)
    assert coders(Domain((a,)))["x"].code(broken).tolist() == [0, 2, 1]


def test_other_types_are_spelled_for_text_categories():
    when = datetime.date(2020, 1, 2)
    a = Attribute("x", Kind.CATEGORICAL, categories=("2020-01-02", "1.5", "true"), overflow=True)
    assert coded(a, [when, when + datetime.timedelta(1), None]) == [0, 3, 3]
    assert coded(a, [1.5, 2.0]) == [1, 3]
    assert coded(a, [True, False]) == [2, 3]
    assert coded(a, [decimal.Decimal("1.5")]) == [1]
    zoned = pa.array(
        [datetime.datetime(2020, 1, 2, tzinfo=datetime.UTC)], pa.timestamp("us", tz="Europe/Paris")
    )
    assert coders(Domain((a,)))["x"].code(zoned).tolist() == [3]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_every_kind_of_text_column_codes_alike(kind):
    a = Attribute("x", Kind.CATEGORICAL, categories=("a", "b"), **BOTH)
    assert coders(Domain((a,)))["x"].code(pa.array(["b", None, "c", "a"]).cast(kind)).tolist() == [1, 3, 2, 0]


def test_dictionaries_of_numbers_and_columns_without_any_value():
    a = Attribute("x", Kind.ORDINAL, codes=3, **BOTH)
    assert coders(Domain((a,)))["x"].code(pa.array([2, None, 7]).dictionary_encode()).tolist() == [2, 4, 3]
    assert coded(a, [None, None], pa.null()) == [4, 4]
    assert coded(a, [], pa.string()) == []
    assert coded(a, [], pa.int64()) == []


@pytest.mark.parametrize(
    ("size", "kind"), [(256, np.uint8), (257, np.uint16), (2**16 + 1, np.uint32), (2**32 + 1, np.uint64)]
)
def test_codes_take_the_smallest_type(size, kind):
    coder = coders(Domain((Attribute("x", Kind.ORDINAL, codes=size),)))["x"]
    assert coder.dtype == kind
    assert coder.code(pa.array([str(size - 1)])).dtype == kind
    assert coder.code(pa.array([size - 1], pa.uint64())).tolist() == [size - 1]


def test_codes_near_two_to_the_64_are_exact():
    a = Attribute("x", Kind.ORDINAL, codes=2**64 - 2, **BOTH)
    top, unknown, missing = 2**64 - 3, 2**64 - 2, 2**64 - 1
    texts = [
        str(top),
        f"{top}.0",
        "0" * 30 + "7",
        str(top + 1),
        str(2**64),
        "9" * 50,
        "1.5",
        "-1",
        "abc",
        "",
        "1e3",
    ]
    expected = [top, top, 7, unknown, unknown, unknown, unknown, unknown, unknown, missing, 1000]
    assert coded(a, texts) == expected
    assert coded(a, [top, top + 1, None], pa.uint64()) == [top, unknown, missing]
    assert coded(a, [-1, 5, None], pa.int64()) == [unknown, 5, missing]
    assert coded(a, [1.0, 2.0**53 + 2, 2.0**64, -1.0, 0.5, math.nan, math.inf]) == [
        1, 2**53 + 2, unknown, unknown, unknown, missing, unknown,
    ]  # fmt: skip
    assert coded(a, [decimal.Decimal(top), decimal.Decimal("1.0")]) == [top, 1]
    assert coded(a, ["7", "8"], na=("7",)) == [missing, 8]
    assert coded(a, [7.0, 8.0], na=("7",)) == [missing, 8]


def test_more_cells_than_any_code_are_refused():
    with pytest.raises(DomainError, match=r"more than 2\^64 cells"):
        coders(Domain((Attribute("x", Kind.ORDINAL, codes=2**64, nullable=True),)))


def test_numbers_have_one_grammar():
    good = {"1": 1, "-1.5": -1.5, "1.": 1, ".5": 0.5, "+5": 5, "1e5": 1e5, "1E-2": 0.01, "inf": math.inf}
    assert parse_numbers(pa.array(list(good)), otherwise=7).tolist() == list(good.values())
    bad = [
        "",
        "-",
        ".",
        "1e",
        "--1",
        "+-1",
        "1 2",
        "1_000",
        "0x10",
        "1d",
        "1\x00",
        "1\n2",
        "true",
        "٣",
        "1,5",
    ]
    assert parse_numbers(pa.array(bad), otherwise=7).tolist() == [7] * len(bad)


def test_one_number_out_of_range_does_not_change_the_others():
    texts = ["0.1", "123456.789", "+3", "-2.5e-3", "5e-324", "1.7976931348623157e308"]
    alone = parse_numbers(pa.array(texts), otherwise=7)
    beside = parse_numbers(pa.array([*texts, "1e400", "-1e400", "1e-400"]), otherwise=7)
    assert beside.tolist() == [*alone.tolist(), math.inf, -math.inf, 0.0]


def test_whole_numbers_have_one_grammar():
    texts = [
        "0",
        "007",
        "+3",
        "3.000",
        "3.",
        str(2**64 - 1),
        str(2**64),
        "1" * 40,
        "-1",
        "1.5",
        "1e3",
        "",
        "x",
    ]
    assert parse_whole_numbers(pa.array(texts)).to_pylist() == [
        0,
        7,
        3,
        3,
        3,
        2**64 - 1,
        *[None] * 4,
        1000,
        None,
        None,
    ]


class Unspeakable:
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, None), (math.nan, None), (True, "true"), (np.bool_(False), "false"), (2.0, "2"), (np.float64(2.5), "2.5"),
     (3, "3"), ("x", "x"), (decimal.Decimal("1.50"), "1.5"), (Unspeakable(), None), (np.array([1, 2]), None)],
)  # fmt: skip
def test_any_object_has_a_spelling_or_is_missing(value, text):
    assert spell_object(value) == text


def test_lone_surrogates_are_unknown_and_declared_ones_do_no_harm():
    a = Attribute("x", Kind.CATEGORICAL, categories=("a", "\udc00"), **BOTH)
    coder = coders(Domain((a,), na_values=("?",)))["x"]
    assert coder.code(text_array(["a", "x\ud800", None, "?"])).tolist() == [0, 2, 3, 3]


def test_words_replace_bad_bytes_and_keep_the_rest():
    assert words(pa.array([b" a ", b"\xff", "e\u0301".encode()])).to_pylist() == ["a", "\ufffd", "\u00e9"]


RULES = [
    Attribute("x", Kind.ORDINAL, codes=5, **BOTH),
    Attribute("x", Kind.ORDINAL, codes=300),
    Attribute("x", Kind.NUMERIC, bounds=(-3, 90), bins=31, **BOTH),
    Attribute("x", Kind.CATEGORICAL, categories=("1", "-9", "70"), **BOTH),
    Attribute("x", Kind.CATEGORICAL, categories=(1, 70, 3)),
    Attribute("x", Kind.BOOLEAN, categories=(False, True), **BOTH),
    Attribute("x", Kind.ORDINAL, codes=2**60, **BOTH),
]


@pytest.mark.law
@pytest.mark.parametrize("rule", RULES, ids=lambda a: f"{a.kind} {a.size}")
@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]
)
def test_many_whole_numbers_are_coded_as_one_by_one(rule, kind, monkeypatch):
    """A narrow range is looked up, a wide one is not; both as if every value stood alone."""
    info = np.iinfo(kind.to_pandas_dtype())
    rng = np.random.default_rng(5)
    narrow = rng.integers(max(-20, info.min), 100, 400).tolist()
    for values in (
        narrow,
        [*narrow, None, 70],
        [*narrow, info.max, info.min],
        [None] * 400,
        [info.max] * 400,
    ):
        coder = coders(Domain((rule,), ("-9", "99")))["x"]
        expected = coder.code(pa.array(values, kind)).tolist()
        with monkeypatch.context() as patch:
            patch.setattr(coding, "MIN_LOOKED_UP", 1)
            assert coder.code(pa.array(values, kind)).tolist() == expected
        assert coder.code(pa.array(values[:1], kind)).tolist() == expected[:1]


def test_batches_of_other_ranges_are_coded_by_one_table(monkeypatch):
    """The table of one batch serves the next, grows with it, or is left alone where the numbers lie too far apart."""
    monkeypatch.setattr(coding, "MIN_LOOKED_UP", 1)
    rule = Attribute("x", Kind.NUMERIC, bounds=(0, 90), bins=9, **BOTH)
    shared = coders(Domain((rule,)))["x"]
    for low, high in ((10, 60), (20, 30), (0, 70), (-30, 10), (50, 10**12), (-5, 95), (40, 41)):
        for kind in (pa.int64(), pa.int64(), pa.int32()):
            if high > 2**31 and kind == pa.int32():
                continue
            values = pa.array([None, *np.random.default_rng(abs(low)).integers(low, high, 800)], kind)
            expected = rule.bin_index(np.array([np.nan, *values.to_pylist()[1:]]))
            assert shared.code(values).tolist() == expected.tolist()


def test_a_dictionary_that_is_longer_than_its_column_is_not_coded_whole():
    attribute = Attribute("x", Kind.CATEGORICAL, categories=("b", "c"), **BOTH)
    coder = coders(Domain((attribute,)))["x"]
    column = pa.DictionaryArray.from_arrays([2, None, 1], pa.array(["a", "b", " c", "d", "e"]))
    assert coder.code(column).tolist() == [1, 3, 0]
