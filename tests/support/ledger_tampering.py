"""Changing a ledger file as somebody with the database's own tools would, and covering the tracks."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path


def tamper(path: Path, *statements: str, parameters: tuple[object, ...] = ()) -> None:
    """Run statements with triggers and checks out of the way; the triggers are put back afterwards."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        triggers = connection.execute(
            "SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall()
        for name, _, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("PRAGMA ignore_check_constraints = ON")
        for statement in statements:
            connection.execute(statement, parameters if "?" in statement else ())
        tables = {
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }
        for _, table, sql in triggers:
            if table in tables:
                connection.execute(sql)
