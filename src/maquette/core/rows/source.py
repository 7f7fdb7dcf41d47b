"""What every kind of table offers to the coding: a public header and types, then batches of raw columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from maquette.core.attribute import Attribute
from maquette.core.errors import SourceError
from maquette.core.rows.arrow import ArrowArray, ArrowType, is_uuid, pa
from maquette.core.rows.coding import compares_numbers, is_text

Batch = tuple[Mapping[str, ArrowArray], float]
"""Raw columns of some rows, and the share of the source that has been read so far."""

ROWS = 2**17
"""Rows of a batch, where the source leaves the choice to us."""


class Source(ABC):
    """A table that can be read from the start as often as needed, until it is closed."""

    description: str
    """What it is, in public words."""
    header: tuple[str, ...]
    """All column names, in order, as found."""

    @property
    def hint(self) -> str | None:
        """What may be wrong if no declared column is there, from the header's form alone."""
        return None

    @property
    def parts(self) -> Sequence[Source]:
        """The tables that this one strings together; each has a header of its own."""
        return (self,)

    @property
    def notices_changes(self) -> bool:
        """Does a pass fail by itself if the table is not the one that was opened?"""
        return False

    def is_unchanged(self) -> bool:
        """Is it the table that was opened, as far as can be seen without a pass? Refused if it is not; False if
        nothing can be seen."""
        return False

    @property
    def likely_rows(self) -> int:
        """How many records there seem to be, for room that is made in advance; 0 if that is not known. Private."""
        return 0

    @abstractmethod
    def kind(self, column: str) -> ArrowType:
        """The type of a column."""

    @abstractmethod
    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """The raw values of some columns, batch by batch."""

    def warnings(self) -> list[str]:
        """What whoever reads it could do besides reading, in words."""
        return []

    close: Callable[[], object] = staticmethod(lambda: None)
    """Give back what is kept open; the engine that has copied all rows calls it."""


class FileStamp:
    """Notices that a file is not the one that was opened: replaced, or written to, even if its time was set back.

    It cannot notice a change of the same length within one tick of the file system's clock after the last one.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._state = self._look()

    def check(self) -> None:
        if self._look() != self._state:
            raise SourceError(f"{self._path} has changed since it was opened; open it again")

    def _look(self) -> tuple[int, ...]:
        try:
            status = self._path.stat()
        except OSError as error:
            raise SourceError(f"cannot read {self._path}: {error.strerror}") from None
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


class FileSource(Source):
    """A file that is read as it was when it was opened, or not at all."""

    _stamp: FileStamp

    @property
    def notices_changes(self) -> bool:
        return True

    def is_unchanged(self) -> bool:
        self._stamp.check()
        return True


def changed(description: str) -> SourceError:
    """For a table that gave other records than when it was opened."""
    return SourceError(
        f"{description} no longer holds the records that it held when it was opened, or its query gives others "
        "each time (LIMIT without ORDER BY, a sample, random()); open it again, from a transaction or a copy that "
        "stays as it is"
    )


def damaged(description: str) -> SourceError:
    """For a failure while reading. The reader's own words may quote the data: they are not repeated, and this
    error is raised after the handler has ended, so that it does not carry the other as its context either.
    """
    return SourceError(
        f"{description} is damaged or cannot be read to its end; write it again from its origin"
    )


def not_text(description: str, encoding: str | None = None) -> SourceError:
    """For text that is none in its encoding, None for a format that is UTF-8 always. The place is not said here."""
    if encoding is None:
        return SourceError(
            f"{description} has text columns that are not UTF-8; write it again with UTF-8 text"
        )
    if encoding != "utf-8":
        return SourceError(
            f"{description} is not {encoding} text; name the encoding that it was saved in, or save it as UTF-8"
        )
    return SourceError(
        f'{description} is not UTF-8 text; save it as UTF-8, or name its encoding, such as encoding="latin-1" or '
        '"cp1252" (--encoding cp1252). maquette domain check DOMAIN --table FILE says where, for the owner\'s eyes'
    )


def fits(attribute: Attribute, kind: ArrowType) -> bool:
    """Can a column of this type hold values of the attribute?"""
    if isinstance(kind, pa.BaseExtensionType):
        return is_uuid(kind) or (is_text(kind.storage_type) and not pa.types.is_binary(kind.storage_type))
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_binary(kind):
        return False
    if pa.types.is_null(kind) or is_text(kind) or _is_number(kind):
        return True
    return not compares_numbers(attribute) and (
        pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_timestamp(kind)
    )


def _is_number(kind: ArrowType) -> bool:
    types = pa.types
    return (
        types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    )
