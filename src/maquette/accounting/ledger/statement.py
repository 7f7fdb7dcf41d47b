"""Statements that are put into words once. SQLAlchemy takes longer to run one than SQLite does, and a ledger runs many.

For SQLite the text goes to the driver as it is, with its values in order; elsewhere SQLAlchemy runs the clause. What
comes back is the same: rows as dictionaries.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, cast

from sqlalchemy import Connection, Executable
from sqlalchemy.dialects import sqlite

_SQLITE = sqlite.dialect(paramstyle="qmark")


class Statement:
    """One clause with named values; a `bindparam(..., expanding=True)` takes a list."""

    def __init__(self, clause: Any, *, many: str | None = None, columns: Sequence[str] | None = None) -> None:
        """`many` names the value that is a list; `columns` are those that an update sets."""
        self._clause: Executable = clause
        self._many = many
        self._columns = None if columns is None else list(columns)
        self._texts: dict[int, tuple[str, tuple[str, ...], dict[str, Any]]] = {}
        """For a number of values in the list: text, names of its values in order, values that are part of it."""

    def rows(self, connection: Connection, **values: Any) -> list[dict[str, Any]]:
        """All rows by the names of their columns."""
        if connection.dialect.name != "sqlite":
            result = connection.execute(self._clause, values).mappings()
            return [dict(cast("Mapping[str, Any]", row)) for row in result]
        cursor = self._run(connection, values)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]

    def tuples(self, connection: Connection, **values: Any) -> list[tuple[Any, ...]]:
        """All rows, in the order of their columns."""
        if connection.dialect.name != "sqlite":
            return [tuple(row) for row in connection.execute(self._clause, values)]
        return self._run(connection, values).fetchall()

    def write(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert or update, once for each of the rows."""
        if connection.dialect.name != "sqlite":
            connection.execute(self._clause, [dict(row) for row in rows])
            return
        text, names, _ = self._text(0)
        driver(connection).executemany(text, ([row[name] for name in names] for row in rows))

    def _run(self, connection: Connection, values: dict[str, Any]) -> sqlite3.Cursor:
        members: Sequence[Any] = () if self._many is None else values[self._many]
        text, names, fixed = self._text(len(members))
        named = fixed | values | {f"{self._many}_{i}": one for i, one in enumerate(members, start=1)}
        return driver(connection).execute(text, [named[name] for name in names])

    def _text(self, size: int) -> tuple[str, tuple[str, ...], dict[str, Any]]:
        if size not in self._texts:
            clause, fixed = cast("Any", self._clause), dict[str, Any]()
            if self._many is None:
                compiled = clause.compile(dialect=_SQLITE, column_keys=self._columns)
                fixed = dict(compiled.params)
            else:
                clause = clause.params({self._many: list(range(size))})
                compiled = clause.compile(dialect=_SQLITE, compile_kwargs={"render_postcompile": True})
            self._texts[size] = (str(compiled), tuple(compiled.positiontup or ()), fixed)
        return self._texts[size]


def driver(connection: Connection) -> sqlite3.Connection:
    """The connection of SQLite's own driver, inside the same transaction."""
    return cast("sqlite3.Connection", connection.connection.dbapi_connection)
