"""Encodings of text files: where they are taken, no record can write a line end, quote or delimiter otherwise."""

from __future__ import annotations

import codecs
import encodings
import itertools
import pkgutil
from encodings.aliases import aliases

import pytest

from maquette.core.rows.delimited import ENCODINGS, DelimitedFile
from maquette.errors import ParameterError

SIGNS = '\n\r",;\t|'
"""What a text file is cut by."""
SPELLINGS = (
    b"\\n",
    b"\\u000a",
    b"\\x22",
    b"+AAo-",
    b"+ACI-",
    b"~\n",
    b"~{",
    b"\x1b$B",
    b"\x0e",
    b"\x1b$)C\x0e",
    b"-",
    b"a..b",
)
"""Beginnings and escapes of codecs that are more than a table."""

ELSE_REFUSED = ("charmap", "idna", "punycode", "iso2022_kr")
"""No encodings of text files, and one whose state is not reached by these tries."""


def text_codecs() -> list[str]:
    """Every text codec that Python brings along, by its own name."""
    found: set[str] = set()
    for name in {*(module.name for module in pkgutil.iter_modules(encodings.__path__)), *aliases.values()}:
        try:
            codec = codecs.lookup(name)
            "".encode(codec.name)
        except (LookupError, UnicodeError, ValueError):
            continue
        found.add(codec.name)
    return sorted(found)


def pieces_of(name: str) -> list[bytes]:
    """Every byte, every two bytes, what codecs escape with, and the longer characters of gb18030 and of euc."""
    if name.startswith(("utf-16", "utf-32")):
        return [chr(place).encode(name) for place in range(0x3000)]
    pieces = [bytes(pair) for n in (1, 2) for pair in itertools.product(range(256), repeat=n)]
    if name == "gb18030":
        four = (range(0x81, 0xFF), range(0x30, 0x3A), range(0x81, 0xFF, 5), range(0x30, 0x3A))
        pieces += [bytes(parts) for parts in itertools.product(*four)]
    if name.startswith("euc"):
        pieces += [bytes((0x8F, *pair)) for pair in itertools.product(range(0xA1, 0xFF), repeat=2)]
    return [*pieces, *SPELLINGS]


def fault_of(name: str) -> str | None:
    """How something before or instead of a sign makes or unmakes it; None if nothing that is tried does."""
    try:
        signs = {sign: sign.encode(name) for sign in SIGNS}
        tail, plain = "\na,".encode(name), "\na,"
        if name in ("utf-16", "utf-32", "utf-8-sig"):  # the byte order mark stands before the whole file only
            mark = "".encode(name)
            signs = {sign: raw.removeprefix(mark) for sign, raw in signs.items()}
            tail = tail.removeprefix(mark)
    except UnicodeError:
        return "a sign cannot be written"
    for piece in pieces_of(name):
        try:
            text = piece.decode(name)
        except (UnicodeError, IndexError):
            text = ""
        for sign, raw in signs.items():
            if text.count(sign) > piece.count(raw):
                return f"{piece!r} is read as {sign!r}"
        try:
            after = (piece + tail).decode(name)
        except (UnicodeError, IndexError):
            continue  # such a file is refused as a whole
        if not after.endswith(plain):
            return f"{piece!r} changes what comes after it"
    return None


@pytest.mark.slow
@pytest.mark.parametrize("name", text_codecs())
def test_every_codec_of_python_that_is_taken_has_one_spelling_for_each_sign(name, tmp_path):
    fault = fault_of(name)
    (tmp_path / "t.csv").write_bytes(b"word\na\n" if name not in ENCODINGS else "word\na\n".encode(name))
    if name in ENCODINGS:
        assert fault is None
        assert DelimitedFile(tmp_path / "t.csv", ",", name).header == ("word",)
    else:
        assert fault is not None or name in ELSE_REFUSED
        with pytest.raises(ParameterError, match=r"several ways to write a line end|name a text encoding"):
            DelimitedFile(tmp_path / "t.csv", ",", name)


@pytest.mark.parametrize(
    "name", ["unicode_escape", "raw_unicode_escape", "utf-7", "UTF_7", "hz", "iso2022_jp", "idna"]
)
def test_an_encoding_with_escapes_is_refused(name, tmp_path):
    (tmp_path / "t.csv").write_bytes(b"word\na\\nb+AAo-c\n")
    with pytest.raises(ParameterError, match="one record could pass for several"):
        DelimitedFile(tmp_path / "t.csv", ",", name)
