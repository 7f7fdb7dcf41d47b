"""SQLite databases and workbooks (Excel, OpenDocument): files whose values have types of their own, one by one.

A column of either may hold a number in one row and a text in the next. So every value is spelled by itself, as with
columns of Python objects, and the type of a column says nothing about the rows.
"""

from __future__ import annotations

import importlib
import sqlite3
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from maquette.core.rows.arrow import ArrowType, pa
from maquette.core.rows.source import (
    ROWS,
    Batch,
    FileSource,
    FileStamp,
    Source,
    damaged,
    not_text,
)
from maquette.errors import SourceError
from maquette.vault.foreign import check_select, quoted
from maquette.vault.sources import spelled

SQLITE = (".sqlite", ".sqlite3")
WORKBOOKS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
_MAGIC = b"SQLite format 3\x00"
_ALLOWED = frozenset(
    [sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE]
)
"""What a query or view may do: read tables of its own file."""


def is_sqlite(path: Path) -> bool:
    """By its name or, for a name that says nothing, by its first bytes."""
    if path.name.lower().endswith(SQLITE):
        return True
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


class SqliteTable(Source):
    """A table, view or query of a SQLite file, opened read-only; every pass reads it anew."""

    def __init__(self, path: Path, *, table: str | None, query: str | None) -> None:
        self.description = f"database {path.name}"
        if (table is None) == (query is None):
            raise SourceError(f"{self.description} needs exactly one of table= and query= (--table, --query)")
        self._path = path
        self._relation = quoted(table) if table is not None else f"({_one_select(query or '')}\n)"
        self.description += f", {'query' if table is None else f'table {table}'}"
        self.header = self._find_header()

    def kind(self, column: str) -> ArrowType:
        return pa.string()

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        places = [self.header.index(name) for name in columns]
        failure: SourceError | None = None
        connection = self._connect()
        try:
            cursor = connection.execute(f"SELECT * FROM {self._relation}")  # noqa: S608  (quoted, or one SELECT)
            while rows := cursor.fetchmany(ROWS):
                yield (
                    {
                        name: spelled([row[place] for row in rows])
                        for name, place in zip(columns, places, strict=True)
                    },
                    0.0,
                )
        except UnicodeError:
            failure = not_text(self.description)
        except sqlite3.Error:
            failure = damaged(self.description)
        finally:
            connection.close()
        if failure is not None:
            raise failure

    def _find_header(self) -> tuple[str, ...]:
        try:
            connection = self._connect()
            try:
                cursor = connection.execute(f"SELECT * FROM {self._relation} LIMIT 0")  # noqa: S608
                return tuple(str(column[0]) for column in cursor.description)
            finally:
                connection.close()
        except sqlite3.Error:
            pass
        raise SourceError(
            f"{self.description} cannot be opened: is this a SQLite file, is there such a table, and does the query "
            "read nothing outside of it? Try it in sqlite3 first"
        )

    def _connect(self) -> sqlite3.Connection:
        address = f"file:{quote(str(self._path.resolve()))}?mode=ro"
        connection = sqlite3.connect(address, uri=True, check_same_thread=False)
        connection.text_factory = _text
        connection.set_authorizer(_authorize)
        return connection


def _text(data: bytes) -> str:
    return str(data, "utf-8")


def _authorize(action: int, *_: Any) -> int:
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY


def _one_select(query: str) -> str:
    check_select(query, "sqlite")
    return query.rstrip().removesuffix(";")


class Worksheet(FileSource):
    """A sheet of a workbook: its first row names the columns, every other row that is not empty is a record."""

    def __init__(self, path: Path, *, table: str | None) -> None:
        self.description = f"workbook {path.name}"
        self._path = path
        self._stamp = FileStamp(path)
        self._sheet = table
        rows = self._rows()
        first = next(rows, None)
        if first is None or not any(_is_value(cell) for cell in first):
            raise SourceError(f"{self.description} does not start with a row that names the columns")
        self.header = tuple(unicodedata.normalize("NFC", str(cell).strip()) for cell in first)

    def kind(self, column: str) -> ArrowType:
        return pa.string()

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        self._stamp.check()
        places = [self.header.index(name) for name in columns]
        rows = [row for number, row in enumerate(self._rows()) if number and any(map(_is_value, row))]
        for start in range(0, len(rows), ROWS):
            part = rows[start : start + ROWS]
            cells = {
                name: spelled([row[place] if place < len(row) else None for row in part])
                for name, place in zip(columns, places, strict=True)
            }
            yield cells, (start + len(part)) / len(rows)
        self._stamp.check()

    def _rows(self) -> Iterator[list[Any]]:
        reader = _calamine()
        reason = None
        try:
            book = reader.CalamineWorkbook.from_path(str(self._path))
            sheets = book.sheet_names
            if self._sheet is None and len(sheets) != 1:
                reason = f"{self.description} has {len(sheets)} sheets; name one of them with table="
            elif self._sheet is not None and self._sheet not in sheets:
                reason = f"{self.description} has no sheet '{self._sheet}'"
            else:
                name = sheets[0] if self._sheet is None else self._sheet
                return iter(book.get_sheet_by_name(name).to_python(skip_empty_area=True))
        except reader.PasswordError:
            reason = f"{self.description} is protected by a password; save it without one"
        except (reader.CalamineError, OSError, ValueError):
            reason = str(damaged(self.description))
        raise SourceError(reason)


def _is_value(cell: object) -> bool:
    return cell is not None and cell != ""


def _calamine() -> Any:
    try:
        return importlib.import_module("python_calamine")
    except ModuleNotFoundError:
        pass
    raise SourceError(
        "reading workbooks needs the extra maquette-dp[excel]: pip install 'maquette-dp[excel]'"
    )
