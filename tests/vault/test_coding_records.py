"""Laws of reading a text file: every byte has a meaning, records do not touch each other, cuts do not matter."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maquette.core.rows import delimited
from maquette.core.rows import delimited as records
from maquette.core.rows.delimited import DelimitedFile
from maquette.domain import Attribute, Domain, Kind
from maquette.vault.readers import open_engine

pytestmark = pytest.mark.law

quick = settings(deadline=None, max_examples=200)


def fields_of(data: bytes, columns: int, delimiter: bytes = b",") -> list[tuple[bytes, ...]]:
    slots = np.arange(columns)
    found = records.cut(data, final=True, delimiter=delimiter[0], slots=slots, count=columns)
    assert found.used == len(data)
    return list(zip(*(f.to_pylist() for f in found.fields()), strict=True))


def reference(data: bytes, columns: int) -> list[tuple[bytes, ...]]:
    """The rules of the reader in the plainest words, byte by byte."""
    found, place = [], 0
    while place < len(data):
        if data[place : place + 1] == b"\n" or data[place:] == b"\r" or data[place : place + 2] == b"\r\n":
            place += 2 if data[place : place + 2] == b"\r\n" else 1
            continue
        row: list[bytes] = []
        while True:
            value, place = _reference_field(data, place)
            row.append(value)
            if data[place : place + 1] != b",":
                break
            place += 1
        place += 1
        found.append(tuple([*row, *[b""] * columns][:columns]))
    return found


def _reference_field(data: bytes, place: int) -> tuple[bytes, int]:
    opening = place + len(data[place:]) - len(data[place:].lstrip(b" "))
    if data[opening : opening + 1] == b'"':
        close = opening + 1
        while close < len(data) and (data[close : close + 1] != b'"' or data[close : close + 2] == b'""'):
            close += 2 if data[close : close + 2] == b'""' else 1
        after = close + 1
        while data[after : after + 1] == b" ":
            after += 1
        if data[after : after + 2] == b"\r\n" or data[after:] == b"\r":
            after += 1
        if close < len(data) and (after >= len(data) or data[after : after + 1] in (b",", b"\n")):
            return data[opening + 1 : close].replace(b'""', b'"'), after
    end = place
    while end < len(data) and data[end : end + 1] not in (b",", b"\n"):
        end += 1
    at_line_end = end == len(data) or data[end : end + 1] == b"\n"
    value = data[place:end]
    return (value[:-1] if at_line_end and value.endswith(b"\r") else value), end


ODD_BYTES = st.lists(
    st.sampled_from([b",", b'"', b"\n", b"\r", b" ", b"a", b"7", b"\xff", b"\x00"]), max_size=40
)


@given(ODD_BYTES.map(b"".join), st.integers(1, 4))
@quick
def test_any_bytes_are_cut_as_the_plain_rules_say(data: bytes, columns: int):
    assert fields_of(data, columns) == reference(data, columns)


@given(st.binary(max_size=200), st.integers(1, 3))
@quick
def test_no_bytes_raise(data: bytes, columns: int):
    assert all(len(row) == columns for row in fields_of(data, columns))


TEXT = st.text(alphabet=st.sampled_from('ab,"\n\r é;'), max_size=6)


@given(st.lists(st.tuples(TEXT, TEXT, TEXT), max_size=8), st.sampled_from(["\n", "\r\n"]))
@quick
def test_well_formed_files_are_read_as_others_read_them(rows: list[tuple[str, str, str]], end: str):
    stream = io.StringIO()
    csv.writer(stream, lineterminator=end, quoting=csv.QUOTE_ALL).writerows(rows)
    found = fields_of(stream.getvalue().encode(), 3)
    assert [tuple(f.decode() for f in row) for row in found] == rows


@given(ODD_BYTES.map(b"".join), st.integers(1, 9), st.integers(2, 12), st.integers(2, 12))
@quick
def test_where_the_file_is_cut_into_blocks_does_not_matter(tmp_path_factory, data, block, quoted, record):
    path = tmp_path_factory.getbasetemp() / "blocks.csv"
    path.write_bytes(b"x,y\n" + data.replace(b"\xff", "\u00e9".encode()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "MAX_QUOTED_BYTES", quoted)
        patch.setattr(records, "MAX_RECORD_BYTES", record)
        results = []
        for size in (block, 10_000):
            patch.setattr(delimited, "BLOCK", size)
            raw = [batch for batch, _ in DelimitedFile(path, ",").batches(("x", "y"))]
            results.append([[v for b in raw for v in b[name].to_pylist()] for name in ("x", "y")])
    assert results[0] == results[1]


def sane(text: str) -> bool:
    return not any(sign in text for sign in '\n\r"')


VALUES = st.one_of(
    st.sampled_from(
        ["", "a", "b", " a ", "A", "?", "1", "1.0", "-5", "1e400", "nan", "inf", "9" * 30, "caf\u00e9", "cafe\u0301",
         "\x00", "\u202eb", "#", "\\", "'", "0x1", "True", "\ufeff", "007", "-0.0"]
    ),
    st.text(st.characters(codec="utf-8"), max_size=5).filter(sane),
    st.floats().map(str),
)  # fmt: skip
QUOTED = VALUES.map(lambda v: '"' + v + '"')
LINES = st.lists(st.one_of(VALUES.map(lambda v: v.replace(",", "")), QUOTED), min_size=0, max_size=6)

DOMAIN = Domain(
    (
        Attribute("word", Kind.CATEGORICAL, categories=("a", "b", "caf\u00e9"), nullable=True, overflow=True),
        Attribute("number", Kind.NUMERIC, bounds=(-10, 10), bins=7, nullable=True, overflow=True),
        Attribute("code", Kind.ORDINAL, codes=9, overflow=True),
        Attribute("truth", Kind.BOOLEAN, codes=2, nullable=True),
    ),
    na_values=("?",),
)


def codes_of(lines: list[str], path) -> list[tuple[int, ...]]:
    path.write_bytes("\n".join(["word,number,code,truth", *lines]).encode() + b"\n")
    engine = open_engine(path, DOMAIN)
    columns = engine._columns  # type: ignore[attr-defined]
    return list(zip(*(columns[name].tolist() for name in DOMAIN.names), strict=True))


@given(st.lists(LINES.map(",".join).filter(bool), min_size=1, max_size=8), st.data())
@settings(deadline=None, max_examples=150)
def test_removing_a_record_removes_its_codes_and_changes_no_other(tmp_path_factory, lines, data):
    path = tmp_path_factory.getbasetemp() / "neighbour.csv"
    whole = codes_of(lines, path)
    assert len(whole) == len(lines)
    gone = data.draw(st.integers(0, len(lines) - 1))
    assert codes_of(lines[:gone] + lines[gone + 1 :], path) == whole[:gone] + whole[gone + 1 :]


def test_the_law_catches_a_reader_that_guesses():
    def guessed(lines: list[str]) -> list[int]:
        listed = sorted(set(lines))  # the categories are read off the rows
        return [listed.index(line) for line in lines]

    lines = ["b", "a", "b"]
    whole = guessed(lines)
    assert guessed(lines[:1] + lines[2:]) != whole[:1] + whole[2:]


@given(st.lists(LINES.map(",".join).filter(bool), min_size=1, max_size=8))
@settings(deadline=None, max_examples=50)
def test_every_code_lies_in_its_attribute(tmp_path_factory, lines):
    for row in codes_of(lines, tmp_path_factory.getbasetemp() / "inside.csv"):
        assert all(0 <= code < a.size for code, a in zip(row, DOMAIN, strict=True))


@given(
    before=st.lists(st.sampled_from(["a,1,1,1", '"a",1,1,1', '"caf\u00e9","2","3","0"', "b,,,"]), max_size=5),
    bad=st.sampled_from(['"a,1,1,1', 'a,"1,1,1', 'a,1,1,"', '"a"b,1,1,1', 'a,1,1,"1""', '" a,"1,1,1']),
    after=st.lists(st.sampled_from(["a,1,1,1", '"a",1,1,1', '"caf\u00e9","2","3","0"', "b,,,"]), max_size=5),
)
@quick
def test_a_quote_left_open_does_not_touch_the_other_records(tmp_path_factory, before, bad, after):
    path = tmp_path_factory.getbasetemp() / "open.csv"
    whole = codes_of([*before, bad, *after], path)
    assert len(whole) == len(before) + 1 + len(after)
    assert whole[: len(before)] + whole[len(before) + 1 :] == codes_of(before + after, path)
