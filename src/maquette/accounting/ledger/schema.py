"""The three tables and the triggers that keep them append-only, in both dialects; statements as text, made once."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, cast

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Connection,
    Executable,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    create_engine,
)
from sqlalchemy.dialects import sqlite

from maquette.errors import LedgerError

metadata = MetaData()
_Amount = BigInteger().with_variant(Integer, "sqlite")

account = Table(
    "account",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("format", Integer, nullable=False),
    Column("name", Text, nullable=False),
    Column("unit", Text, nullable=False),
    Column("epsilon", Text, nullable=False),
    Column("delta", Text, nullable=False),
    Column("relation", Text, nullable=False),
    Column("domain_fingerprint", Text, nullable=False),
    Column("salt", LargeBinary, nullable=False),
    Column("commitment", Text),
    Column("total", _Amount, nullable=False),
    Column("spent", _Amount, nullable=False),
    Column("slack_total", _Amount, nullable=False),
    Column("slack_spent", _Amount, nullable=False),
    Column("seq", _Amount, nullable=False),
    Column("head", Text, nullable=False),
    CheckConstraint("id = 1", name="account_one_row"),
    CheckConstraint("spent BETWEEN 0 AND total", name="account_never_overspent"),
    CheckConstraint("slack_spent BETWEEN 0 AND slack_total", name="account_slack_never_overspent"),
)

entry = Table(
    "entry",
    metadata,
    Column("seq", _Amount, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("parent", Text),
    Column("tag", Text, nullable=False),
    Column("request", Text, nullable=False),
    Column("units", _Amount, nullable=False),
    Column("slack", _Amount, nullable=False),
    Column("envelope", Integer, nullable=False),
    Column("body", Text, nullable=False),
    Column("payload_sha256", Text),
    Column("prev", Text, nullable=False),
    Column("head", Text, nullable=False),
    Column("created", Text, nullable=False),
    CheckConstraint("kind IN ('open', 'bind', 'reserve', 'answer', 'settle')", name="entry_kind"),
    CheckConstraint("units >= 0 AND slack >= 0", name="entry_amounts"),
    UniqueConstraint("key", "kind", name="entry_once"),
    Index("entry_parent", "parent"),
)

payload = Table(
    "payload",
    metadata,
    Column("key", Text, primary_key=True),
    Column("data", LargeBinary, nullable=False),
)

_TABLES = ("account", "entry", "payload")
_FIXED = "id, format, name, unit, epsilon, delta, relation, domain_fingerprint, salt, total, slack_total"


def install(connection: Connection) -> None:
    """Create tables and triggers, inside the caller's transaction."""
    metadata.create_all(connection, checkfirst=False)
    statements = _sqlite_triggers() if connection.dialect.name == "sqlite" else _postgres_triggers()
    for statement in statements:
        connection.exec_driver_sql(statement)


def check(connection: Connection, *, location: str) -> None:
    """Refuse a database with anything else in it than was installed: a trigger or view can change what is counted."""
    if connection.dialect.name == "sqlite":
        shape, reference = _sqlite_shape(connection), _installed()
    else:
        shape, reference = _postgres_shape(connection), _POSTGRES
    for name in sorted(shape.keys() | reference.keys()):
        if shape.get(name) != reference.get(name):
            how = "lacks" if name not in shape else "has another" if name in reference else "has a foreign"
            raise LedgerError(
                f"the ledger {location} {how} {' '.join(name)}: its database was changed, and what it counts cannot be "
                "trusted; restore a backup and check it against a receipt"
            )


Shape = dict[tuple[str, ...], object]
"""What is in a database: kind and name, and how it is defined."""


def _sqlite_shape(connection: Connection) -> Shape:
    rows = connection.exec_driver_sql("SELECT type, name, tbl_name, sql FROM sqlite_master")
    return {
        (str(kind), str(name)): (table, None if sql is None else re.sub(r"[\s\"]+", "", str(sql)).lower())
        for kind, name, table, sql in rows
        if not str(name).startswith("sqlite_stat")  # what ANALYZE leaves
    }


@cache
def _installed() -> Shape:
    """What `install` makes, as this database itself tells it."""
    engine = create_engine("sqlite://")
    try:
        with engine.begin() as connection:
            install(connection)
            return _sqlite_shape(connection)
    finally:
        engine.dispose()


_ROW, _BEFORE, _DELETE, _UPDATE, _TRUNCATE = 1, 2, 8, 16, 32
_BODY = "BEGIN RAISE EXCEPTION 'the ledger is append-only'; END"
_POSTGRES: Shape = {
    **{("table", name): tuple(sorted(metadata.tables[name].columns.keys())) for name in _TABLES},
    **{
        ("trigger", f"{t}_append_only"): (t, "O", _ROW | _BEFORE | _UPDATE | _DELETE, _BODY)
        for t in _TABLES[1:]
    },
    **{("trigger", f"{t}_no_truncate"): (t, "O", _BEFORE | _TRUNCATE, _BODY) for t in _TABLES},
    ("trigger", "account_no_delete"): ("account", "O", _ROW | _BEFORE | _DELETE, _BODY),
    ("trigger", "account_fixed"): ("account", "O", _ROW | _BEFORE | _UPDATE, _BODY),
    **{
        ("check", str(constraint.name)): table
        for table in _TABLES
        for constraint in metadata.tables[table].constraints
        if isinstance(constraint, (CheckConstraint, UniqueConstraint))
    },
}


def _postgres_shape(connection: Connection) -> Shape:
    columns: dict[str, list[str]] = {}
    for table, column in connection.exec_driver_sql(_COLUMNS):
        columns.setdefault(table, []).append(column)
    shape: Shape = {("table", table): tuple(sorted(names)) for table, names in columns.items()}
    for name, table, enabled, kind, body in connection.exec_driver_sql(_TRIGGERS):
        shape["trigger", name] = (table, enabled, kind, body.strip())
    for name, table in connection.exec_driver_sql(_CONSTRAINTS):
        shape["check", name] = table
    for (name,) in connection.exec_driver_sql(_RULES):
        shape["rule", name] = name
    return shape


_COLUMNS = """
SELECT table_name, column_name FROM information_schema.columns
WHERE table_schema = current_schema() AND table_name IN ('account', 'entry', 'payload')"""
_TRIGGERS = """
SELECT t.tgname, c.relname, t.tgenabled::text, t.tgtype, p.prosrc
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_proc p ON p.oid = t.tgfoid
WHERE NOT t.tgisinternal AND n.nspname = current_schema() AND c.relname IN ('account', 'entry', 'payload')"""
_CONSTRAINTS = """
SELECT k.conname, c.relname
FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE k.contype IN ('c', 'u') AND n.nspname = current_schema() AND c.relname IN ('account', 'entry', 'payload')"""
_RULES = """
SELECT r.rulename
FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = current_schema() AND c.relname IN ('account', 'entry', 'payload')"""


def _sqlite_triggers() -> list[str]:
    refuse = "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
    written = [
        f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} {refuse}"
        for table in ("entry", "payload")
        for verb in ("UPDATE", "DELETE")
    ]
    return [
        *written,
        f"CREATE TRIGGER account_no_delete BEFORE DELETE ON account {refuse}",
        f"CREATE TRIGGER account_fixed BEFORE UPDATE OF {_FIXED} ON account {refuse}",
    ]


def _postgres_triggers() -> list[str]:
    function = (
        "CREATE FUNCTION ledger_refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'the ledger is append-only'; END $$"
    )
    refuse = "EXECUTE FUNCTION ledger_refuse()"
    written = [
        f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE ON {table} FOR EACH ROW {refuse}"
        for table in ("entry", "payload")
    ]
    emptied = [
        f"CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table} FOR EACH STATEMENT {refuse}"
        for table in ("account", "entry", "payload")
    ]
    return [
        function,
        *written,
        *emptied,
        f"CREATE TRIGGER account_no_delete BEFORE DELETE ON account FOR EACH ROW {refuse}",
        f"CREATE TRIGGER account_fixed BEFORE UPDATE OF {_FIXED} ON account FOR EACH ROW {refuse}",
    ]


# Statements that are put into words once. SQLAlchemy takes longer to run one than SQLite does, and a ledger runs many.
#
# For SQLite the text goes to the driver as it is, with its values in order; elsewhere SQLAlchemy runs the clause. What
# comes back is the same: rows as dictionaries.

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
