"""How a ledger comes into being: whole or not at all, and only once at a place.

Triggers keep its tables append-only, in both dialects. `check_schema` compares a database with what was installed.
"""

from __future__ import annotations

import os
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import (
    CheckConstraint,
    Connection,
    UniqueConstraint,
    create_engine,
    insert,
    text,
)

from maquette.core.budget import Budget
from maquette.core.errors import LedgerError
from maquette.core.ledger import schema
from maquette.core.ledger.entry import (
    FORMAT,
    GAUSSIAN_FORMAT,
    GENESIS,
    PARTS_FORMAT,
    PERSONS_FORMAT,
    Row,
    canonical,
    digest,
    next_row,
)
from maquette.core.ledger.receipts import RECEIPT, sync
from maquette.core.ledger.store import (
    APPLICATION_ID,
    MemoryStore,
    PostgresStore,
    SqliteStore,
    Store,
    has_ledger,
)
from maquette.core.neighbours import Persons, Relation, to_text

BEFORE_DOMAIN = "before the domain"
"""Instead of a fingerprint: the ledger pays for finding a domain, and an entry of its own declares it later."""
_ADVISORY_LOCK = 0x6D71_6C31


@dataclass(frozen=True, slots=True)
class Identity:
    """What a ledger is for. Fixed when it is made, and committed to by its first entry."""

    name: str
    budget: Budget
    relation: Relation
    domain_fingerprint: str
    persons: Persons | None = None

    @property
    def format(self) -> int:
        """What a program must be able to read to use the ledger."""
        if self.budget.pure_units:
            return PARTS_FORMAT
        if self.persons is not None or self.domain_fingerprint == BEFORE_DOMAIN:
            return PERSONS_FORMAT
        return GAUSSIAN_FORMAT if self.budget.accounting == "gaussian" else FORMAT


def create(store: Store, identity: Identity) -> None:
    """Make the ledger; LedgerError if something lies there already."""
    match store:
        case SqliteStore():
            _create_file(store.path, identity)
        case PostgresStore():
            _create_in_server(store, identity)
        case MemoryStore():
            with store.writing() as connection:
                _write_first_entry(connection, identity)
        case _:
            raise TypeError(type(store).__name__)


def genesis_body(row: Row) -> dict[str, Any]:
    """What the first entry commits to, from the account's row."""
    words = ["name", "unit", "epsilon", "delta", "relation", "domain_fingerprint"]
    words += ["pure_epsilon"] if "pure_epsilon" in row else []
    return {w: row[w] for w in words} | {"format": row["format"], "salt_sha256": digest(bytes(row["salt"]))}


def _write_first_entry(connection: Connection, identity: Identity) -> None:
    budget = identity.budget
    tables = schema.TWO_PARTS if budget.pure_units else schema.ONE_PART
    install(connection, tables)
    row: dict[str, Any] = {
        "id": 1,
        "format": identity.format,
        "name": identity.name,
        "unit": budget.unit.value,
        "epsilon": repr(budget.epsilon),
        "delta": repr(budget.delta),
        "relation": to_text(identity.relation, identity.persons),
        "domain_fingerprint": identity.domain_fingerprint,
        "salt": secrets.token_bytes(32),
        "total": budget.total_units,
        "spent": 0,
        "slack_total": budget.slack_units,
        "slack_spent": 0,
    }
    if budget.pure_units:
        row |= {
            "pure_epsilon": repr(budget.pure_epsilon),
            "pure_total": budget.pure_units,
            "pure_spent": 0,
        }
    first = next_row(
        "open",
        seq=1,
        prev=GENESIS,
        units=row["total"],
        slack=row["slack_total"],
        pure=row.get("pure_total"),
        body=canonical(genesis_body(row)),
    )
    connection.execute(insert(tables.entry).values(**first))
    connection.execute(insert(tables.account).values(**row, seq=1, head=first["head"]))


def _create_in_server(store: PostgresStore, identity: Identity) -> None:
    with store.writing() as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _ADVISORY_LOCK})
        if has_ledger(connection):
            raise LedgerError(
                f"there is a ledger in {store.location} already; open it, or name another database"
            )
        _write_first_entry(connection, identity)


def _create_file(path: Path, identity: Identity) -> None:
    """Build the whole ledger beside its place, then link it there: the link fails if the place is taken."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    store = SqliteStore(draft)
    try:
        _check_place(path)
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with store.writing() as connection:
            connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.exec_driver_sql(f"PRAGMA user_version = {identity.format}")
            _write_first_entry(connection, identity)
        _switch_to_wal(store)
        _publish(draft, path)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno is not None else type(error).__name__
        raise LedgerError(
            f"cannot make a ledger at {path}: {reason}; choose a directory that is writable"
        ) from None
    except LedgerError as error:
        raise LedgerError(str(error).replace(str(draft), str(path))) from None
    finally:
        store.close()
        for leftover in (draft, Path(f"{draft}-wal"), Path(f"{draft}-shm"), Path(f"{draft}-journal")):
            with suppress(OSError):
                leftover.unlink()


def _check_place(path: Path) -> None:
    if not path.parent.is_dir():
        raise LedgerError(
            f"cannot make a ledger at {path}: there is no directory {path.parent}; make it first"
        )
    if path.is_dir():
        raise LedgerError(f"expected a new file at {path}, found a directory; name a file in it")
    if path.exists():
        raise _already_exists(path)
    for tail in ("-wal", "-journal", RECEIPT):
        # SQLite would replay the log of a removed ledger into the new one; a receipt says what was paid there
        left = path.with_name(path.name + tail)
        if left.exists() and (left.stat().st_size or tail != RECEIPT) and not path.exists():
            raise LedgerError(
                f"found {path}{tail} without its ledger: a ledger was removed or moved from here; "
                "restore it, or move that file away"
            )


def _switch_to_wal(store: SqliteStore) -> None:
    with store.guarded(), store.engine.connect() as connection:
        raw: Any = connection.connection.driver_connection
        raw.execute("PRAGMA journal_mode = WAL")
    store.close()


def _publish(draft: Path, path: Path) -> None:
    sync(draft)
    try:
        os.link(draft, path)
    except FileExistsError:
        raise _already_exists(path) from None
    sync(path.parent)


def _already_exists(path: Path) -> LedgerError:
    return LedgerError(
        f"there is a file at {path} already; open it if it is this table's ledger, or name another"
    )


_TABLES = ("account", "entry", "payload")


def install(connection: Connection, tables: schema.Tables = schema.ONE_PART) -> None:
    """Create tables and triggers, inside the caller's transaction."""
    tables.metadata.create_all(connection, checkfirst=False)
    fixed = ", ".join(schema.FIXED if tables is schema.TWO_PARTS else schema.FIXED[:1])
    statements = _sqlite_triggers(fixed) if connection.dialect.name == "sqlite" else _postgres_triggers(fixed)
    for statement in statements:
        connection.exec_driver_sql(statement)


def check_schema(connection: Connection, *, location: str) -> None:
    """Refuse a database with anything else in it than was installed: a trigger or view can change what is counted."""
    if connection.dialect.name == "sqlite":
        shape, references = _sqlite_shape(connection), [_installed(tables) for tables in _KINDS]
    else:
        shape, references = _postgres_shape(connection), [_postgres(tables) for tables in _KINDS]
    reference = min(references, key=lambda one: len(one.items() ^ shape.items()))
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


_KINDS = (schema.ONE_PART, schema.TWO_PARTS)


@cache
def _installed(tables: schema.Tables) -> Shape:
    """What `install` makes, as this database itself tells it."""
    engine = create_engine("sqlite://")
    try:
        with engine.begin() as connection:
            install(connection, tables)
            return _sqlite_shape(connection)
    finally:
        engine.dispose()


_ROW, _BEFORE, _DELETE, _UPDATE, _TRUNCATE = 1, 2, 8, 16, 32


_BODY = "BEGIN RAISE EXCEPTION 'the ledger is append-only'; END"


@cache
def _postgres(tables: schema.Tables) -> Shape:
    """What `install` makes in a server, as `_postgres_shape` tells it."""
    table_of = tables.metadata.tables
    return {
        **{("table", name): tuple(sorted(table_of[name].columns.keys())) for name in _TABLES},
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
            for constraint in table_of[table].constraints
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


def _sqlite_triggers(fixed: str) -> list[str]:
    refuse = "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
    written = [
        f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} {refuse}"
        for table in ("entry", "payload")
        for verb in ("UPDATE", "DELETE")
    ]
    return [
        *written,
        f"CREATE TRIGGER account_no_delete BEFORE DELETE ON account {refuse}",
        f"CREATE TRIGGER account_fixed BEFORE UPDATE OF {fixed} ON account {refuse}",
    ]


def _postgres_triggers(fixed: str) -> list[str]:
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
        f"CREATE TRIGGER account_fixed BEFORE UPDATE OF {fixed} ON account FOR EACH ROW {refuse}",
    ]
