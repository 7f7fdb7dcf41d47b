"""Where a ledger is kept: a SQLite file, a PostgreSQL database or memory. One transaction at a time to write.

Database errors end here. What is raised instead says what was expected and what to do, and carries neither the
statement nor its parameters.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import QueuePool, StaticPool

from maquette.core import _check
from maquette.core.errors import LedgerError, ParameterError
from maquette.core.ledger.entry import NEWEST, driver
from maquette.core.ledger.receipts import SECONDS, ChainState, ReceiptFile, Turn, locks_fail

APPLICATION_ID = 0x6D71_6C31
"""Marks a SQLite file as a ledger ("mql1")."""

_inherited: list[Engine] = []
"""Engines of a parent process. Closing their connections here could disturb the parent, so they are only kept."""


class Store(ABC):
    """An engine, its location in words, and transactions with errors that a user can act on."""

    crosses_fork = True
    writable = True

    def __init__(self, location: str) -> None:
        self.location = location
        self._engine: Engine | None = None

    @abstractmethod
    def _make_engine(self) -> Engine: ...

    @abstractmethod
    def _explain(self, error: Exception) -> str: ...

    @abstractmethod
    def check_present(self) -> None:
        """Raise LedgerError unless a ledger that this version can read lies here."""

    def schema_version(self, connection: Connection) -> int | None:
        """The database's own count of changes to its schema, where it has one; looked at before every payment."""
        del connection
        return None

    def check_pages(self, connection: Connection) -> None:
        """Raise LedgerError if the database itself finds its file damaged."""
        if connection.dialect.name != "sqlite":
            return
        if connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar_one() != "ok":
            raise LedgerError(
                f"the ledger {self.location} is damaged: the database finds its tables or indexes broken; "
                "restore a backup and check it against a receipt"
            )

    @property
    def engine(self) -> Engine:
        if self._engine is None:
            self._engine = self._make_engine()
        return self._engine

    def last_state(self) -> ChainState | None:
        """The last receipt that is kept beside the ledger, where there is one."""
        return None

    @contextmanager
    def turn(self) -> Generator[ChainState | None]:
        """Wait until no other process writes, for `writing` and `keep`; with the last receipt."""
        yield None

    def keep(self, state: ChainState, *, alone: bool = False) -> None:
        """Keep a receipt beside the ledger, durably, `alone` without those of before.

        Only in turn, after the commit that it is of.
        """
        del state, alone

    @contextmanager
    def guarded(self) -> Generator[None]:
        """Turn errors of the database and the file system into LedgerError, and those that broken contents cause."""
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error, OSError) as error:
            raise LedgerError(self._explain(error)) from None
        except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError) as error:
            raise LedgerError(_damaged(self.location, type(error).__name__)) from None

    @contextmanager
    def writing(self) -> Generator[Connection]:
        """A transaction that excludes every other writer and is durable once this returns."""
        with self.guarded(), self.engine.connect() as connection:
            connection = connection.execution_options(ledger_write=True)
            with connection.begin():
                yield connection

    @contextmanager
    def reading(self) -> Generator[Connection]:
        """A transaction that sees one state of the ledger."""
        with self.guarded(), self.engine.connect() as connection:
            if connection.dialect.name == "postgresql":
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    def abandon(self) -> None:
        """Forget the connections of the parent process after a fork, without closing them."""
        if self._engine is not None:
            _inherited.append(self._engine)
            self._engine = None

    def close(self) -> None:
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None


class SqliteStore(Store):
    """A file: write-ahead log, fsync at every commit, one writer at a time over all processes."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.path = path
        self._turn = Turn(path)
        self._receipt = ReceiptFile(path)
        self._handle: int | None = None
        self._copy: tempfile.TemporaryDirectory[str] | None = None

    @property
    def writable(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """May this user write the file and files beside it, and does the medium take them?"""
        return os.access(self.path, os.W_OK) and os.access(self.path.absolute().parent, os.W_OK)

    def _make_engine(self) -> Engine:
        address = _address(self.path, "mode=rw") if self.writable else self._address_to_read()
        return _sqlite_engine(partial(_connect, address), QueuePool)

    def _address_to_read(self) -> str:
        """Where nothing can be written SQLite may need a log that it cannot make: then the file is all there is.

        A log that lies there and cannot be used in place is used in a copy: it may hold the newest entries.
        """
        address = _address(self.path, "mode=ro")
        try:
            with closing(_connect(address)) as connection:
                connection.execute("SELECT 1 FROM sqlite_master").fetchone()
            return address
        except sqlite3.Error:
            log = Path(f"{self.path}-wal")
            if not log.exists() or not log.stat().st_size:
                return _address(self.path, "mode=ro&immutable=1")
        self._copy = tempfile.TemporaryDirectory(prefix="maquette-ledger-")
        place = Path(self._copy.name) / "copy.ledger"
        shutil.copyfile(self.path, place)
        shutil.copyfile(log, f"{place}-wal")
        return _address(place, "mode=rw")

    def schema_version(self, connection: Connection) -> int | None:
        return int(driver(connection).execute("PRAGMA schema_version").fetchone()[0])

    def last_state(self) -> ChainState | None:
        with self.guarded():
            return self._receipt.read()

    @contextmanager
    def turn(self) -> Generator[ChainState | None]:
        with self.guarded(), self._turn.acquired() as handle:
            self._handle = handle
            try:
                yield self._receipt.read(handle)
            finally:
                self._handle = None

    def keep(self, state: ChainState, *, alone: bool = False) -> None:
        assert self._handle is not None
        with self.guarded():
            (self._receipt.replace if alone else self._receipt.write)(self._handle, state)

    def abandon(self) -> None:
        self._turn.forget()
        super().abandon()

    def close(self) -> None:
        self._turn.forget()
        super().close()
        if self._copy is not None:
            self._copy.cleanup()
            self._copy = None

    def check_present(self) -> None:
        # the file is never opened but by SQLite: to close another handle of it would drop the locks that SQLite holds
        # on it for this whole process, and another process could then remove the log under this one's feet
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            raise LedgerError(
                f"no ledger at {self.path}; make one with: maquette ledger create {self.path} --domain FILE --epsilon E"
            ) from None
        except OSError as error:
            raise LedgerError(f"cannot read the ledger {self.path}: {error.strerror}") from None
        if self.path.is_dir():
            raise LedgerError(f"expected a ledger file at {self.path}, found a directory; name a file in it")
        if not os.access(self.path, os.R_OK):
            raise LedgerError(f"cannot read the ledger {self.path}: Permission denied")
        if not size:
            raise LedgerError(
                f"{self.path} is not a ledger or is damaged: it is empty; check the path or restore a backup"
            )
        with self.reading() as connection:
            mark = connection.exec_driver_sql("PRAGMA application_id").scalar_one()
            version = int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())
        if mark != APPLICATION_ID:
            raise LedgerError(f"{self.path} is another program's database, not a ledger; name another file")
        check_format(version, self.location)

    def _explain(self, error: Exception) -> str:
        if _name_of(error).startswith(("SQLITE_BUSY", "SQLITE_IOERR_LOCK", "SQLITE_PROTOCOL")):
            trouble = locks_fail(self.path)
            if trouble is not None:
                return f"cannot use the ledger {self.location}: {trouble}"
        return _explain_sqlite(error, self.location)


class MemoryStore(Store):
    """A ledger that ends with its process. One connection, so readers wait for the writer."""

    crosses_fork = False

    def __init__(self) -> None:
        super().__init__("memory")
        self._turn = threading.Lock()
        self._closed = False

    def _make_engine(self) -> Engine:
        if self._closed:
            raise LedgerError(
                "the ledger in memory was closed and forgotten; give the ledger a file to keep it"
            )
        return _sqlite_engine(lambda: _connect(":memory:"), StaticPool)

    def check_present(self) -> None:
        return

    def close(self) -> None:
        self._closed = True
        super().close()

    @contextmanager
    def writing(self) -> Generator[Connection]:
        with self._turn, super().writing() as connection:
            yield connection

    @contextmanager
    def reading(self) -> Generator[Connection]:
        with self._turn, super().reading() as connection:
            yield connection

    def _explain(self, error: Exception) -> str:
        return _explain_sqlite(error, self.location)


class PostgresStore(Store):
    """A PostgreSQL database (or schema, by its search path) that holds one ledger."""

    def __init__(self, url: URL) -> None:
        super().__init__(url.render_as_string(hide_password=True))
        self._url = url

    def _make_engine(self) -> Engine:
        try:
            engine = create_engine(
                self._url, hide_parameters=True, pool_pre_ping=True, isolation_level="READ COMMITTED"
            )
        except ModuleNotFoundError:
            raise LedgerError(
                "a ledger in PostgreSQL needs the psycopg package; install it with: pip install 'maquette-dp[postgres]'"
            ) from None
        event.listen(engine, "connect", _make_commits_durable)
        return engine

    def check_present(self) -> None:
        with self.reading() as connection:
            if not has_ledger(connection):
                raise LedgerError(
                    f"no ledger in {self.location}; make one with: maquette ledger create URL --domain FILE --epsilon E"
                )
            version = int(connection.exec_driver_sql("SELECT format FROM account").scalar_one())
        check_format(version, self.location)

    def _explain(self, error: Exception) -> str:
        state = getattr(getattr(error, "orig", None), "sqlstate", None)
        place = f"the ledger {self.location}"
        if state is None:
            return (
                f"cannot reach {place}: no connection; check that the server runs, that the user may log in "
                "and that the database exists, then ask again with the same key"
            )
        if state[:2] in ("53", "58"):
            return f"cannot write {place}: the server has no room or cannot reach its disk (SQLSTATE {state})"
        if state in ("25006", "42501"):
            return f"cannot write {place}: it is read-only for this user (SQLSTATE {state})"
        if state[:2] == "28" or state == "3D000":
            return (
                f"cannot open {place}: the server refused the user or has no such database (SQLSTATE {state})"
            )
        return f"cannot use {place}: the server answered with SQLSTATE {state}; nothing was returned"


def locate(location: str | Path) -> SqliteStore | PostgresStore:
    """The store of a path or URL."""
    if not isinstance(location, (str, Path)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ParameterError(f"expected the path or URL of a ledger, got {type(location).__name__}")
    text = str(location)
    why = "there is none" if not text or not Path(text).name else _check.no_path(text)
    if why is not None:
        raise LedgerError(f"expected the path of a ledger file or a postgresql URL: {why}")
    if isinstance(location, Path) or "://" not in text:
        return SqliteStore(Path(location))
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise LedgerError(
            "expected the path of a ledger file or postgresql+psycopg://user@host/database"
        ) from None
    if url.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        return PostgresStore(url.set(drivername="postgresql+psycopg"))
    if url.drivername == "sqlite" and url.database:
        return SqliteStore(Path(url.database))
    raise LedgerError(f"expected a ledger file or a postgresql URL, got a URL of kind {url.drivername!r}")


def has_ledger(connection: Connection) -> bool:
    tables = set(inspect(connection).get_table_names())
    return {"account", "entry", "payload"} <= tables


def check_format(version: int, location: str) -> None:
    if version > NEWEST:
        raise LedgerError(
            f"the ledger {location} has format {version}, this version of maquette reads up to {NEWEST}; "
            "install a newer one"
        )


def _sqlite_engine(connect: Any, pool: type[QueuePool] | type[StaticPool]) -> Engine:
    engine = create_engine("sqlite://", creator=connect, poolclass=pool, hide_parameters=True)
    event.listen(engine, "begin", _begin)
    return engine


def _connect(address: str) -> sqlite3.Connection:
    # isolation_level None: the driver begins no transactions of its own, `_begin` does
    connection = sqlite3.connect(
        address, uri=True, timeout=SECONDS, isolation_level=None, check_same_thread=False
    )
    for pragma in ("synchronous=FULL", "fullfsync=ON", "checkpoint_fullfsync=ON", "trusted_schema=OFF"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("ledger_write", False)
    driver(connection).execute("BEGIN IMMEDIATE" if writes else "BEGIN")


def _make_commits_durable(connection: Any, _record: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = on")
    connection.commit()


def _address(path: Path, options: str) -> str:
    return f"file:{quote(os.fsencode(path.absolute()))}?{options}"


def _name_of(error: Exception) -> str:
    cause = error.orig if isinstance(error, DBAPIError) else error
    return str(getattr(cause, "sqlite_errorname", ""))


def _explain_sqlite(error: Exception, location: str) -> str:
    cause = error.orig if isinstance(error, DBAPIError) else error
    name = _name_of(error)
    for prefix, reason in _SQLITE_REASONS.items():
        if name.startswith(prefix):
            return f"cannot use the ledger {location}: {reason}"
    if isinstance(cause, OSError) and cause.errno is not None:
        return f"cannot use the ledger {location}: {os.strerror(cause.errno)}"
    return _damaged(location, name or type(cause).__name__)


def _damaged(location: str, kind: str) -> str:
    return (
        f"the ledger {location} is damaged or not a ledger ({kind}); run maquette ledger verify, or restore a backup "
        "and check it against a receipt"
    )


_SQLITE_REASONS = {
    "SQLITE_FULL": "the disk is full; make room and ask again with the same key",
    "SQLITE_READONLY": "the file or its directory is read-only; make both writable",
    "SQLITE_CANTOPEN": "the file cannot be opened; check that it and its directory exist and are writable",
    "SQLITE_BUSY": f"another process has held it for {SECONDS:.0f} s; end that process and ask again",
    "SQLITE_LOCKED": "another connection holds it; ask again",
    "SQLITE_IOERR": "the disk reported an error or is full; check it and ask again with the same key",
    "SQLITE_PERM": "access was denied; check the owner and mode of the file",
    "SQLITE_NOTADB": "it is not a ledger or is damaged; check the path or restore a backup",
    "SQLITE_CORRUPT": "the file is damaged; restore a backup and check it against a receipt",
}
