"""Text files with delimited fields (CSV), read by fixed public rules and never by guessing.

A record is a line that is not blank. Fields are cut at the delimiter; a field may stand in double quotes and
then hold delimiters, line ends and doubled quotes. Every record has one coding, whatever its bytes are:

- too few fields: the rest is missing; too many: the surplus is ignored;
- a quoted field that is not properly closed within 64 KiB is no quoted field: its quote is an ordinary
  character, so that it does not swallow the records after it;
- a record longer than 8 MiB is cut there.

A file is text in one encoding, UTF-8 unless another is given. Bytes that are no text in it tell that the wrong encoding
was named, which is a property of the file as damage is: the file is refused when it is opened, and never half read.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import unicodedata
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from maquette.core import _lazy_numba as numba
from maquette.core.errors import ParameterError, SourceError
from maquette.core.rows.arrow import ArrowArray, ArrowType, pa
from maquette.core.rows.source import Batch, FileSource, FileStamp, damaged, not_text

# Cutting bytes into records and fields: the inner loops of the CSV reader, total over all bytes.

MAX_QUOTED_BYTES = 2**16
"""Bytes within which a quoted field must be closed, else its quote is an ordinary character."""
MAX_RECORD_BYTES = 2**23
"""Bytes after which a record is cut; the rest of its line is ignored."""

_QUOTE, _LF, _CR, _SPACE = 34, 10, 13, 32


@dataclass(frozen=True, slots=True)
class Cut:
    """Where the wanted fields of every whole record of a buffer are; one row of each array for each of them."""

    data: NDArray[np.uint8]
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    doubled: NDArray[np.bool_]
    """Does it hold doubled quotes?"""
    used: int
    """Bytes up to the end of the last whole record."""
    is_going_on: bool
    """Was the last record cut, so that its line goes on after them?"""

    def fields(self) -> list[ArrowArray]:
        """The fields themselves."""
        return [
            _gather(self.data, *places) for places in zip(self.starts, self.ends, self.doubled, strict=True)
        ]

    def records_over_lines(self) -> int:
        """How many records go on over a line end, if the first of the wanted fields is the first of the record.

        After the line on which a record starts, and before that of the next one, there are then lines that are not
        blank: at least the one with the closing quote.
        """
        if not self.starts.shape[1]:
            return 0
        stops = np.append(np.flatnonzero(self.data[: self.used] == _LF), self.used)
        lengths = np.diff(stops, prepend=-1) - 1
        is_blank = (lengths == 0) | ((lengths == 1) & (self.data[stops - 1] == _CR))
        full_before = np.append(0, np.cumsum(~is_blank))  # lines that are not blank, before each line
        starts: NDArray[np.int64] = self.starts[0].astype(np.int64)
        first_lines: NDArray[np.int64] = np.searchsorted(stops, starts)
        next_lines = np.append(first_lines[1:], len(stops))
        return int(np.count_nonzero(full_before[next_lines] - full_before[first_lines] > 1))


def cut(buffer: bytes, *, final: bool, delimiter: int, slots: NDArray[np.int64], count: int) -> Cut:
    """The wanted fields of every whole record of a buffer that starts at the start of a record.

    `slots` says for each column of the file which of the `count` results it is, or -1.
    """
    data = np.frombuffer(buffer, dtype=np.uint8)
    rows = int(np.count_nonzero(data == _LF)) + 1
    starts = np.zeros((count, rows), dtype=np.int32)
    ends = np.zeros((count, rows), dtype=np.int32)
    doubled = np.zeros((count, rows), dtype=np.bool_)
    records, used, going_on = _cut(
        data, final, delimiter, MAX_RECORD_BYTES, MAX_QUOTED_BYTES, slots, starts, ends, doubled
    )
    return Cut(data, starts[:, :records], ends[:, :records], doubled[:, :records], int(used), bool(going_on))


def _gather(data: Any, starts: Any, ends: Any, doubled: Any) -> ArrowArray:
    """One column of fields as Arrow bytes."""
    offsets = np.zeros(len(starts) + 1, dtype=np.int32)
    np.cumsum(ends - starts, out=offsets[1:])
    values = np.empty(int(offsets[-1]), dtype=np.uint8)
    _copy(data, starts, ends, doubled, offsets, values)
    return pa.Array.from_buffers(
        pa.binary(), len(starts), [None, pa.py_buffer(offsets), pa.py_buffer(values)]
    )


@numba.njit(cache=True, nogil=True, plain=True)
def _copy(data: Any, starts: Any, ends: Any, doubled: Any, offsets: Any, values: Any) -> None:
    position = zero = np.int64(0)
    for row in range(len(starts)):
        i, end, skips = zero + starts[row], ends[row], doubled[row]
        while i < end:
            values[position] = data[i]
            position += 1
            i += 2 if skips and data[i] == _QUOTE else 1
        offsets[row + 1] = position


@numba.njit(cache=True, nogil=True, plain=True)
def _cut(
    data: Any,
    final: bool,
    delimiter: int,
    longest_record: int,
    longest_quoted: int,
    slots: Any,
    starts: Any,
    ends: Any,
    doubled: Any,
) -> tuple[int, int, bool]:
    """How many records there are, where what is left begins, and whether the last record was cut.

    One function: each one that it would call is compiled apart, and once more within it.
    """
    size = len(data)
    # a bare 0 has a type of its own, and so has False: the types of the loop would be inferred once more for each
    zero: Any = np.int64(0)
    line_feed: Any = np.int64(_LF)
    no: Any = np.bool_(False)
    row = begin = zero
    while begin < size:
        if data[begin] == _LF:  # a blank line
            begin += 1
            continue
        if data[begin] == _CR:
            if begin + 1 == size:
                if final:
                    begin += 1
                break
            if data[begin + 1] == _LF:
                begin += 2
                continue
        stop = begin + longest_record
        complete = final or stop <= size
        stop = stop if stop < size else size
        place, column = begin, zero
        while True:  # one field each, up to the place of the delimiter or line end after it
            start, close, after, twice = place, zero, zero, no
            first = place
            while first < stop and data[first] == _SPACE:
                first += 1
            if first < stop and data[first] == _QUOTE:  # is there a quote that properly closes it?
                inside = first + 1
                while inside < stop and inside - first <= longest_quoted:
                    if data[inside] == _QUOTE:
                        if inside + 1 == stop or data[inside + 1] != _QUOTE:
                            break
                        twice = not no
                        inside += 1
                    inside += 1
                if inside >= stop:
                    if not complete:
                        return row, begin, no
                elif inside - first <= longest_quoted:
                    after, mark = inside + 1, delimiter
                    while after < stop and data[after] == _SPACE:
                        after += 1
                    if after < stop and data[after] == _CR:
                        after += 1
                        mark = line_feed
                    if after == stop:
                        if not complete:
                            return row, begin, no
                        close = inside
                    elif data[after] == _LF or data[after] == mark:
                        close = inside
            if close > 0:
                start, end, place = first + 1, close, after
            else:
                twice = no
                while place < stop and data[place] != delimiter and data[place] != _LF:
                    place += 1
                if place == stop and not complete:
                    return row, begin, no
                end = place
            is_last = place == stop or data[place] == _LF
            if close == 0 and is_last and end > start and data[end - 1] == _CR:
                end -= 1
            if column < len(slots) and slots[column] >= 0:
                slot = slots[column]
                starts[slot, row] = start
                ends[slot, row] = end
                doubled[slot, row] = twice
            if is_last:
                break
            column += 1
            place += 1
        row += 1
        while place < size and data[place] != _LF:  # a record that was cut: the rest of its line is no record
            place += 1
        if place == size:
            return row, size, not no
        begin = place + 1
    return row, begin, no


BLOCK = 2**23
CHUNK = 2**20
MAX_HEADER_BYTES = 2**20
USUAL_DELIMITERS = {",": "','", ";": "';'", "\t": "a tab", "|": "'|'"}


class DelimitedFile(FileSource):
    """A CSV file, plain or compressed by gzip or Zstandard (by its name)."""

    def __init__(self, path: Path, delimiter: str, encoding: str = "utf-8") -> None:
        if len(delimiter) != 1 or not delimiter.isascii() or delimiter in ' "\r\n':
            raise ParameterError(f"expected delimiter to be one ASCII character, got delimiter={delimiter!r}")
        self.description = f"file {path.name}"
        self._path = path
        self._delimiter = delimiter
        self._encoding = _codec_name(encoding)
        self._stamp = FileStamp(path)
        self.header = self._split_header(self._first_line())

    def kind(self, column: str) -> ArrowType:
        return pa.string()

    @property
    def hint(self) -> str | None:
        if len(self.header) > 1:
            return None
        line = "".join(self.header)
        other = next((words for sign, words in USUAL_DELIMITERS.items() if sign in line), None)
        return (
            other and f"its header is one field that seems to be separated by {other}: pass that as delimiter"
        )

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        slots = np.full(len(self.header), -1, dtype=np.int64)
        slots[[self.header.index(name) for name in columns]] = np.arange(len(columns))
        for records, share in self._records(slots, len(columns)):
            yield dict(zip(columns, records.fields(), strict=True)), share

    def records_over_lines(self) -> int:
        """How many records go on over a line end: quoted fields with line ends, or lines that a stray quote joined.

        For the owner alone.
        """
        slots = np.full(len(self.header), -1, dtype=np.int64)
        slots[0] = 0
        return sum(records.records_over_lines() for records, _ in self._records(slots, 1))

    def _records(self, slots: NDArray[np.int64], count: int) -> Iterator[tuple[Cut, float]]:
        self._stamp.check()
        failure: SourceError | None = None
        try:
            yield from self._blocks(slots, count)
            self._stamp.check()  # nor did it change while it was read
        except UnicodeError:
            failure = not_text(self.description, self._encoding)
        except (OSError, EOFError, zlib.error):
            failure = damaged(self.description)
        if failure is not None:
            raise failure

    def _blocks(self, slots: NDArray[np.int64], count: int) -> Iterator[tuple[Cut, float]]:
        total = max(1, self._path.stat().st_size)
        rest, going_on = b"", False
        with self._path.open("rb") as raw, self._as_utf8(raw) as stream:
            stream.readline()
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
                records = cut(buffer, final=final, delimiter=ord(self._delimiter), slots=slots, count=count)
                rest, going_on = buffer[records.used :], records.is_going_on
                yield records, min(1.0, raw.tell() / total)

    def bad_place(self) -> tuple[int, int] | None:
        """The first byte that is no text in the file's encoding, and its line; None if there is none.

        For the owner alone. Bytes of a compressed file are counted after unpacking.
        """
        decoder = codecs.getincrementaldecoder(self._encoding)()
        place, line = 0, 1
        with self._path.open("rb") as raw, _plain(raw, self._path) as stream:
            while True:
                chunk = stream.read(CHUNK)
                pending = len(decoder.getstate()[0])
                try:
                    decoder.decode(chunk, final=not chunk)
                except UnicodeDecodeError as error:
                    return place - pending + error.start, line + chunk[: max(0, error.start - pending)].count(
                        b"\n"
                    )
                if not chunk:
                    return None
                place, line = place + len(chunk), line + chunk.count(b"\n")

    @contextmanager
    def _as_utf8(self, raw: BinaryIO) -> Generator[BinaryIO]:
        with _plain(raw, self._path) as stream:
            yield cast(BinaryIO, io.BufferedReader(_Recoded(stream, self._encoding), CHUNK))

    def _first_line(self) -> bytes:
        kind = "Zstandard" if self._path.suffix.lower() == ".zst" else "gzip"
        reason = f"{self.description} is no {kind} file, or an incomplete one; compress it again"
        try:
            with self._path.open("rb") as raw, _plain(raw, self._path) as stream:
                self._check_start(stream.readline(MAX_HEADER_BYTES + 1))
            with self._path.open("rb") as raw, self._as_utf8(raw) as stream:
                line = stream.readline(MAX_HEADER_BYTES + 1)
            self._check_first_line(line)
            return line
        except UnicodeError:  # its context would quote the line
            reason = f"the header of {not_text(self.description, self._encoding)}"
        except (EOFError, zlib.error, gzip.BadGzipFile):
            pass
        except OSError as error:
            if error.strerror is not None:  # else the decompressor's own
                reason = f"cannot read {self._path}: {error.strerror}"
        raise SourceError(reason)

    def _check_start(self, start: bytes) -> None:
        name = self.description
        for packed, ending, magic in (
            ("gzip", ".gz", b"\x1f\x8b"),
            ("Zstandard", ".zst", b"\x28\xb5\x2f\xfd"),
        ):
            if start.startswith(magic):
                raise SourceError(
                    f"{name} is {packed}-compressed; rename it so that its name ends in {ending}"
                )
        if self._encoding == "utf-8" and (start.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\x00" in start):
            raise SourceError(
                f'{name} is UTF-16 or a binary file, not UTF-8 text; save it as UTF-8, or say encoding="utf-16" '
                "(--encoding utf-16)"
            )

    def _check_first_line(self, line: bytes) -> None:
        name = self.description
        text = line.removeprefix(b"\xef\xbb\xbf")
        if not text.strip():
            raise SourceError(
                f"{name} does not start with a header row; its first line must name the columns"
            )
        if len(line) > MAX_HEADER_BYTES or b"\r" in text.rstrip(b"\r\n"):
            raise SourceError(f"{name} does not start with a header row on a line that ends in LF or CR LF")

    def _split_header(self, line: bytes) -> tuple[str, ...]:
        text = line.decode("utf-8-sig").rstrip("\r\n")
        try:
            names = next(csv.reader([text], delimiter=self._delimiter, skipinitialspace=True))
        except csv.Error:
            raise SourceError(
                f"the header of {self.description} has a name of over 100,000 characters"
            ) from None
        return tuple(unicodedata.normalize("NFC", name.strip()) for name in names)


def _plain(raw: BinaryIO, path: Path) -> BinaryIO:
    if path.suffix.lower() == ".zst":
        return cast(BinaryIO, io.BufferedReader(_Unpacked(raw), CHUNK))
    return cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if path.suffix.lower() == ".gz" else raw


class _Unpacked(io.RawIOBase):
    """The contents of a stream that is compressed by Zstandard; OSError where it is cut off or none."""

    def __init__(self, raw: BinaryIO) -> None:
        self._stream: Any = pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _Recoded(io.RawIOBase):
    """The text of a stream as UTF-8, whatever it is encoded in; UnicodeError where it is not."""

    def __init__(self, stream: BinaryIO, encoding: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._rest = memoryview(b"")
        self._first = True

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            # the header by itself: it is checked before any record is looked at
            chunk = self._stream.readline(MAX_HEADER_BYTES + 1) if self._first else self._stream.read(CHUNK)
            self._first = False
            self._rest = memoryview(self._decoder.decode(chunk, final=not chunk).encode())
            if not chunk:
                break
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


_NAMES = (
    # one byte is one character; mac-arabic and mac-farsi are not here: they have two bytes for a quote
    "ascii cp037 cp1006 cp1026 cp1125 cp1140 cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 cp273 "
    "cp424 cp437 cp500 cp720 cp737 cp775 cp850 cp852 cp855 cp856 cp857 cp858 cp860 cp861 cp862 cp863 cp864 cp865 "
    "cp866 cp869 cp874 cp875 hp-roman8 iso8859-1 iso8859-10 iso8859-11 iso8859-13 iso8859-14 iso8859-15 "
    "iso8859-16 iso8859-2 iso8859-3 iso8859-4 iso8859-5 iso8859-6 iso8859-7 iso8859-8 iso8859-9 koi8-r koi8-t "
    "koi8-u kz1048 mac-croatian mac-cyrillic mac-greek mac-iceland mac-latin2 mac-roman mac-romanian mac-turkish "
    "palmos ptcp154 tis-620 "
    # several bytes, and no state that a record could leave behind for the next one
    "utf-8 utf-8-sig utf-16 utf-16-be utf-16-le utf-32 utf-32-be utf-32-le big5 big5hkscs cp932 cp949 cp950 "
    "euc_jis_2004 euc_jisx0213 euc_jp euc_kr gb18030 gb2312 gbk johab shift_jis shift_jis_2004 shift_jisx0213"
)
ENCODINGS = frozenset(_NAMES.split())
"""Encodings in which a line end, a quote and a delimiter are written in one way only, whatever stands before them. In
others (utf-7, unicode_escape, hz, iso2022) what a record holds can end its line, swallow it or change what follows."""


def _codec_name(encoding: str) -> str:
    try:
        codec = codecs.lookup(encoding)
        "".encode(encoding)  # codecs between bytes are none of text
    except (LookupError, TypeError, UnicodeError, ValueError):
        codec = None
    if codec is None:
        raise ParameterError(
            f"expected encoding to name a text encoding such as utf-8, latin-1 or cp1252, got encoding={encoding!r}"
        )
    if codec.name not in ENCODINGS:
        raise ParameterError(
            f"encoding={encoding!r} has several ways to write a line end or a quote, or goes on from one line to the "
            "next, so that one record could pass for several; save the file as UTF-8"
        )
    return codec.name
