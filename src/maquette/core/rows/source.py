"""What every kind of table offers to the coding: a public header and types, then batches of raw columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from maquette.core.attribute import Attribute
from maquette.core.errors import MaquetteError, SourceError
from maquette.core.rows.arrow import ArrowArray, ArrowType, is_uuid, pa
from maquette.core.rows.coding import compares_numbers, is_text
from maquette.core.universe import Universe

T = TypeVar("T")
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


@dataclass(frozen=True, slots=True)
class SourceCheck:
    """What the place of a table shows without a look at its records."""

    description: str
    columns: int
    warnings: tuple[str, ...]


class Joined(Source):
    """Several files with the same columns, one after the other."""

    def __init__(self, description: str, parts: Sequence[Source]) -> None:
        self.description = description
        self.header = tuple(name for name in parts[0].header if all(name in part.header for part in parts))
        self._parts = tuple(parts)

    @property
    def parts(self) -> Sequence[Source]:
        return self._parts

    @property
    def notices_changes(self) -> bool:
        return all(part.notices_changes for part in self._parts)

    def is_unchanged(self) -> bool:
        return all(part.is_unchanged() for part in self._parts)

    @property
    def likely_rows(self) -> int:
        return sum(part.likely_rows for part in self._parts)

    def kind(self, column: str) -> ArrowType:
        return self._parts[0].kind(column)

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        for index, part in enumerate(self._parts):
            for raw, share in part.batches(columns):
                yield raw, (index + share) / len(self._parts)


class Partition(Source):
    """A file of a Hive folder, with the columns that its place names: year=2013/month=5/part.parquet."""

    def __init__(self, file: Source, values: Mapping[str, str | None]) -> None:
        self.description = file.description
        self._file = file
        self._values = {name: value for name, value in values.items() if name not in file.header}
        self.header = (*file.header, *self._values)

    @property
    def notices_changes(self) -> bool:
        return self._file.notices_changes

    def is_unchanged(self) -> bool:
        return self._file.is_unchanged()

    @property
    def likely_rows(self) -> int:
        return self._file.likely_rows

    def kind(self, column: str) -> ArrowType:
        return pa.string() if column in self._values else self._file.kind(column)

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        own = [name for name in columns if name not in self._values]
        for raw, share in self._file.batches(own or self._file.header[:1]):
            rows = len(next(iter(raw.values())))
            named = {
                name: pa.array([value] * rows, pa.string())
                for name, value in self._values.items()
                if name in columns
            }
            yield {name: named[name] if name in named else raw[name] for name in columns}, share


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


def check_even(columns: Iterable[Sized]) -> None:
    """A record has a value in every column: columns of other lengths would join the values of several."""
    if len({len(column) for column in columns}) > 1:
        raise SourceError("the reader of this source gave columns of different lengths; it cannot be counted")


def quoted(name: str) -> str:
    """A name of a column or table as SQL."""
    return '"' + name.replace('"', '""') + '"'


def check_select(query: str, dialect: str) -> None:
    """Refuse what is not one SELECT statement in this dialect of SQL."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        statements = sqlglot.parse(query, read=dialect)
    except SqlglotError:
        statements = []
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        raise SourceError("query= takes one SELECT statement")


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


def read_quietly(read: Callable[[], T], description: str) -> T:
    """What a library reads for us. Its own errors (a panic of polars is none of `Exception`) may quote the data."""
    try:
        return read()
    except (MaquetteError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        failure = damaged(description)
    raise failure


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


def is_valid_text(column: ArrowArray) -> bool:
    """Is this column, if it holds text, really UTF-8? Writers of Parquet and Arrow need not check."""
    kind = column.type
    if not (is_text(kind) or pa.types.is_dictionary(kind)) or pa.types.is_binary(kind):
        return True
    try:
        column.validate(full=True)
    except pa.ArrowException:
        return False
    return True


def check_fit(source: Source, domain: Universe) -> None:
    """Every declared column is there once, with a type that can hold its values. Looks at no record."""
    for part in source.parts:
        _check_header(part, domain)
        for attribute in domain:
            _check_kind(part, attribute)


def _check_header(source: Source, domain: Universe) -> None:
    # the first line of a file without a header is a record: found names are never repeated in a message
    missing = [name for name in domain.names if name not in source.header]
    if missing:
        raise SourceError(
            f"{source.description} has no column {_in_words(missing)}; {_advice(source, domain, missing)}"
        )
    twice = [name for name in domain.names if source.header.count(name) > 1]
    if twice:
        raise SourceError(
            f"{source.description} has more than one column {_in_words(twice)}; "
            "give every column its own name, or drop one of them"
        )


def _advice(source: Source, domain: Universe, missing: Sequence[str]) -> str:
    if source.hint:
        return source.hint
    alike = {_loose(name) for name in source.header}
    other_case = [name for name in missing if _loose(name) in alike]
    if other_case:
        return f"{_in_words(other_case)} is there with other capitals or spaces: rename it in the file or the domain"
    if len(missing) == len(domain):
        return (
            f"none of the {len(domain)} declared columns is among the {len(source.header)} found: "
            "does the file start with a header row?"
        )
    columns = "1 column" if len(source.header) == 1 else f"{len(source.header)} columns"
    return f"it has {columns}: rename or add the missing ones, or drop them from the domain"


def _loose(name: str) -> str:
    return "".join(name.split()).casefold()


def _in_words(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _check_kind(source: Source, attribute: Attribute) -> None:
    kind = source.kind(attribute.name)
    if not fits(attribute, kind):
        values = "numbers" if compares_numbers(attribute) else "text, numbers, truth values or dates"
        raise SourceError(
            f"column '{attribute.name}' of {source.description} has type {kind}, but the domain declares it "
            f"{attribute.kind} and expects {values} (or text that spells them); "
            "convert the column or leave the attribute out of the domain"
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
