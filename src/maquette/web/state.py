"""What the front remembers: tokens, browser sessions, jobs, saved questions. SQLite by default, PostgreSQL by URL.

No value of a table is here, and no token: of a token only its scrypt digest, of a browser's cookie and of the statement
that a key was used for only their SHA-256.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    create_engine,
    delete,
    event,
    insert,
    inspect,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from maquette.errors import LedgerError

FORMAT = 4
"""The form of the tables; a newer one is refused, an older one is brought up step by step by `STEPS`."""
STEPS: dict[int, tuple[str, ...]] = {
    1: (
        "CREATE INDEX IF NOT EXISTS job_state ON job (state)",
        "CREATE INDEX IF NOT EXISTS browser_expires ON browser (expires)",
    ),
    2: (
        "ALTER TABLE job ADD COLUMN attempt INTEGER NOT NULL DEFAULT 0",
        'CREATE TABLE statement (person TEXT NOT NULL, "table" TEXT NOT NULL, key TEXT NOT NULL, '
        'digest TEXT NOT NULL, created INTEGER NOT NULL, PRIMARY KEY (person, "table", key))',
    ),
    3: (
        'CREATE TABLE saved (created INTEGER NOT NULL, person TEXT NOT NULL, "table" TEXT NOT NULL, '
        'query TEXT NOT NULL, PRIMARY KEY (person, "table", query))',
    ),
}
"""By the form that they start from: what makes the next one of it, in SQLite and PostgreSQL."""

OWNER_ONLY = stat.S_IRUSR | stat.S_IWUSR
_ADVISORY_LOCK = 0x6D71_7331
metadata = MetaData()
about = Table("about", metadata, Column("format", Integer, nullable=False))
token = Table(
    "token",
    metadata,
    Column("id", Text, primary_key=True),
    Column("person", Text, nullable=False),
    Column("label", Text, nullable=False),
    Column("salt", LargeBinary, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("created", Integer, nullable=False),
    Column("expires", Integer, nullable=False),
    Column("revoked", Integer),
)
browser = Table(
    "browser",
    metadata,
    Column("id", Text, primary_key=True),
    Column("person", Text, nullable=False),
    Column("token", Text),
    Column("csrf", Text, nullable=False),
    Column("expires", Integer, nullable=False),
    Index("browser_expires", "expires"),
)
job = Table(
    "job",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("key", Text, nullable=False),
    Column("person", Text, nullable=False),
    Column("table", Text, nullable=False),
    Column("request", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("stage", Text, nullable=False),
    Column("share", Integer, nullable=False),
    Column("why", Text, nullable=False),
    Column("published", Integer, nullable=False),
    Column("created", Integer, nullable=False),
    Column("attempt", Integer, nullable=False, server_default="0"),
    UniqueConstraint("person", "key", name="job_once"),
    Index("job_state", "state"),
)
statement = Table(
    "statement",
    metadata,
    Column("person", Text, primary_key=True),
    Column("table", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("created", Integer, nullable=False),
)


saved = Table(
    "saved",
    metadata,
    Column("created", Integer, nullable=False),
    Column("person", Text, primary_key=True),
    Column("table", Text, primary_key=True),
    Column("query", Text, primary_key=True),
)


_TRIES, _PAUSE = 100, 0.05
"""How often a file is turned to writing ahead that another has locked, and seconds between."""


class State:
    """The tables, with short transactions."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        with _guarded(), engine.begin() as connection:
            _lock(connection)
            self.was_upgraded = _bring_up(connection)

    @classmethod
    def at(cls, folder: Path, url: str | None = None) -> State:
        """In a folder that is made for its owner only, or in a PostgreSQL database."""
        only_for_owner(folder)
        if url is not None:
            return cls(
                create_engine(url.replace("postgresql://", "postgresql+psycopg://", 1), pool_pre_ping=True)
            )
        place = folder / "service.db"
        os.close(os.open(place, os.O_RDWR | os.O_CREAT, OWNER_ONLY))
        os.chmod(place, OWNER_ONLY)  # one that an earlier version made; what SQLite puts beside it follows
        engine = create_engine(f"sqlite:///{place}", connect_args={"timeout": 30})
        event.listen(engine, "connect", _careful)
        return cls(engine)

    def add(self, table: Table, /, **values: Any) -> bool:
        """One more row; False if its key is there already."""
        try:
            with _guarded(), self._engine.begin() as connection:
                connection.execute(insert(table), values)
            return True
        except Duplicate:
            return False

    def find(self, table: Table, /, **values: Any) -> dict[str, Any] | None:
        """The one row with these values."""
        rows = self.rows(table, **values)
        return rows[0] if rows else None

    def rows(
        self,
        table: Table,
        /,
        *,
        after: int = 0,
        limit: int | None = None,
        newest: bool = False,
        **values: Any,
    ) -> list[dict[str, Any]]:
        """Rows with these values in the order of their first column."""
        first = next(iter(table.c))
        query = select(table).order_by(first.desc() if newest else first)
        if after:
            query = query.where(first < after if newest else first > after)
        for name, value in values.items():
            query = query.where(table.c[name] == value)
        if limit is not None:
            query = query.limit(limit)
        with _guarded(), self._engine.connect() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    def change(self, table: Table, where: dict[str, Any], /, **values: Any) -> int:
        """New values in the rows that meet the condition; how many there were."""
        query = update(table).values(**values)
        for name, value in where.items():
            query = query.where(table.c[name] == value)
        with _guarded(), self._engine.begin() as connection:
            return connection.execute(query).rowcount

    def remove(self, table: Table, /, **values: Any) -> None:
        query = delete(table)
        for name, value in values.items():
            query = query.where(table.c[name] == value)
        with _guarded(), self._engine.begin() as connection:
            connection.execute(query)

    def remove_expired(self, now: int) -> None:
        """Browser sessions that are over."""
        with _guarded(), self._engine.begin() as connection:
            connection.execute(delete(browser).where(browser.c.expires < now))

    def close(self) -> None:
        self._engine.dispose()


class Duplicate(LedgerError):
    """A row with this key is there."""


@contextmanager
def _guarded() -> Generator[None]:
    """A database that cannot be used is a refusal that can be sent again, without its words: they name places."""
    try:
        yield
    except IntegrityError:
        raise Duplicate("the service's state holds this key already") from None
    except SQLAlchemyError as error:
        raise LedgerError(f"cannot use the service's state ({type(error).__name__})") from None


def _lock(connection: Connection) -> None:
    """One process at a time makes or changes the tables."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})")


def _bring_up(connection: Connection) -> bool:
    """Make the tables, or change those of an earlier version into today's: all steps or none. Says whether it did."""
    if not inspect(connection).has_table(about.name):
        metadata.create_all(connection)
        connection.execute(insert(about), {"format": FORMAT})
        return False
    version = int(connection.execute(select(about.c.format)).scalar_one())
    if version > FORMAT:
        raise LedgerError("the service's state is of a newer version of maquette; update maquette")
    for step in range(version, FORMAT):
        for statement in STEPS[step]:
            connection.exec_driver_sql(statement)
    if version < FORMAT:
        connection.execute(update(about).values(format=FORMAT))
    return version < FORMAT


def _careful(connection: Any, _record: Any) -> None:
    """Write ahead, and wait for the disk.

    Several that start at once may each turn a file to writing ahead, where SQLite refuses instead of waiting.
    """
    for pragma in ("synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")
    for _ in range(_TRIES):
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError:
            time.sleep(_PAUSE)
    connection.execute("PRAGMA journal_mode=WAL")


def only_for_owner(folder: Path) -> None:
    """A folder that nobody else may enter."""
    os.makedirs(folder, exist_ok=True)
    os.chmod(folder, stat.S_IRWXU)
