"""Text files with delimited fields (CSV), read by fixed public rules and never by guessing.

A record is a line that is not blank. Fields are cut at the delimiter; a field may stand in double quotes and
then hold delimiters, line ends and doubled quotes. Every record has one coding, whatever its bytes are:

- too few fields: the rest is missing; too many: the surplus is ignored;
- a quoted field that is not properly closed within 64 KiB is no quoted field: its quote is an ordinary
  character, so that it does not swallow the records after it;
- a record longer than 8 MiB is cut there;
- bytes that are not UTF-8 make that one value an unknown one.
"""

from __future__ import annotations

import csv
import gzip
import unicodedata
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from maquette.errors import ParameterError, SourceError
from maquette.vault.arrow import ArrowArray, ArrowType, pa
from maquette.vault.records import cut
from maquette.vault.source import Batch, FileStamp, Source, damaged

BLOCK = 2**23
LONGEST_HEADER = 2**20
USUAL_DELIMITERS = {",": "','", ";": "';'", "\t": "a tab", "|": "'|'"}


class DelimitedFile(Source):
    """A CSV file, plain or gzip-compressed (by its name)."""

    def __init__(self, path: Path, delimiter: str) -> None:
        if len(delimiter) != 1 or not delimiter.isascii() or delimiter in ' "\r\n':
            raise ParameterError(f"expected delimiter to be one ASCII character, got delimiter={delimiter!r}")
        self.description = f"file {path.name}"
        self._path = path
        self._delimiter = delimiter
        self._stamp = FileStamp(path)
        line = self._first_line()
        self._start = len(line)
        self.header = self._split_header(line)

    def kind(self, column: str) -> ArrowType:
        return pa.string()

    @property
    def hint(self) -> str | None:
        if len(self.header) > 1:
            return None
        found = "".join(self.header)
        other = next((words for sign, words in USUAL_DELIMITERS.items() if sign in found), None)
        return (
            other and f"its header is one field that seems to be separated by {other}: pass that as delimiter"
        )

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        self._stamp.check()
        slots = np.full(len(self.header), -1, dtype=np.int64)
        slots[[self.header.index(name) for name in columns]] = np.arange(len(columns))
        failed = False
        try:
            for fields, share in self._blocks(slots, len(columns)):
                yield dict(zip(columns, fields, strict=True)), share
        except (OSError, EOFError, zlib.error):
            failed = True
        if failed:
            raise damaged(self.description)

    def _blocks(self, slots: NDArray[np.int64], count: int) -> Iterator[tuple[list[ArrowArray], float]]:
        total = max(1, self._path.stat().st_size)
        rest, going_on = b"", False
        with self._path.open("rb") as raw, _plain(raw, self._path) as stream:
            stream.read(self._start)
            final = False
            while not final:
                block = stream.read(BLOCK)
                final = not block
                if going_on:  # inside the line of a record that was cut
                    end = block.find(b"\n") + 1
                    if not end and not final:
                        continue
                    block, going_on = block[end:] if end else b"", False
                buffer = rest + block
                fields, used, going_on = cut(
                    buffer, final=final, delimiter=ord(self._delimiter), slots=slots, count=count
                )
                rest = buffer[used:]
                yield fields, min(1.0, raw.tell() / total)

    def _first_line(self) -> bytes:
        try:
            with self._path.open("rb") as raw, _plain(raw, self._path) as stream:
                line = stream.readline(LONGEST_HEADER + 1)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise SourceError(f"{self.description} is not a whole gzip file; compress it again") from None
        except OSError as error:
            raise SourceError(f"cannot read {self._path}: {error.strerror}") from None
        self._check_first_line(line)
        return line

    def _check_first_line(self, line: bytes) -> None:
        name = self.description
        if line.startswith(b"\x1f\x8b"):
            raise SourceError(f"{name} is gzip-compressed; rename it so that its name ends in .gz")
        if line.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\x00" in line:
            raise SourceError(f"{name} is UTF-16 or a binary file, not UTF-8 text; save it as UTF-8")
        text = line.removeprefix(b"\xef\xbb\xbf")
        if not text.strip():
            raise SourceError(
                f"{name} does not start with a header row; its first line must name the columns"
            )
        if len(line) > LONGEST_HEADER or b"\r" in text.rstrip(b"\r\n"):
            raise SourceError(f"{name} does not start with a header row on a line that ends in LF or CR LF")

    def _split_header(self, line: bytes) -> tuple[str, ...]:
        try:
            text = line.decode("utf-8-sig").rstrip("\r\n")
        except UnicodeDecodeError:
            raise SourceError(
                f"the header of {self.description} is not UTF-8; save the file as UTF-8"
            ) from None
        try:
            names = next(csv.reader([text], delimiter=self._delimiter, skipinitialspace=True))
        except csv.Error:
            raise SourceError(
                f"the header of {self.description} has a name of over 100,000 characters"
            ) from None
        return tuple(unicodedata.normalize("NFC", name.strip()) for name in names)


def _plain(raw: BinaryIO, path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if path.suffix == ".gz" else raw
