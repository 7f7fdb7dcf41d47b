"""A table, view or query of a PostgreSQL server, read as Arrow batches inside one snapshot (ADBC, binary COPY).

The server chooses columns and rows; values are coded here, by the coder of every other source. Nothing that the driver
says is repeated: its words may quote a record, a query or a password.

Any database with an ADBC driver (Snowflake, BigQuery, Flight SQL, SQLite, ...), through a connection that is open.

The seam for databases that have no reader of their own: the owner connects with the driver's own package and passes the
connection. The server chooses the rows; values are coded here. What the driver says is not repeated.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from maquette.core.rows.arrow import ArrowType, pa
from maquette.core.rows.source import Batch, Source, not_text
from maquette.errors import ParameterError, SourceError
from maquette.vault.foreign import check_select, is_valid_text, quoted

_URL = re.compile(r"(?i)postgres(ql)?(\+\w+)?://")
_NAME = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^".\s][^".]*))\s*(\.|$)')
_SNAPSHOT = "SELECT pg_backend_pid(), now()::text, pg_current_snapshot()::text"
"""What a connection shows as long as it is in the transaction that it began with, and no other."""


def is_address(place: str) -> bool:
    """Is this the address of a PostgreSQL server?"""
    return _URL.match(place) is not None


def database_name(place: str) -> str:
    """The name of the database in an address, without anything else of it.

    A password with a slash in it, not written as %2F, would pass for the path: what stands before an @ is no name.
    """
    try:
        name = unquote(urlsplit(place).path.strip("/"))
    except ValueError:
        name = ""
    return name if name and "@" not in name else "postgresql"


def from_address(place: str, *, table: str | None, query: str | None) -> PostgresTable:
    """A table (or view) or query of a server, in a snapshot that is taken now."""
    if (table is None) == (query is None):
        raise SourceError("a PostgreSQL database needs exactly one of table= and query= (--table, --query)")
    if table is not None:
        return PostgresTable(_connect(place), quoted_table(table), f"PostgreSQL table {table}")
    check_select(query or "", "postgres")
    return PostgresTable(_connect(place), f"({query}\n) AS records", "PostgreSQL query")


def quoted_table(table: str) -> str:
    """A table's name, with or without its schema, quoted part by part: it can be nothing but a name.

    A name with dots in it stands in double quotes: public."my.table".
    """
    parts: list[str] = []
    place, end = 0, "."
    while end == ".":
        match = _NAME.match(table, place)
        if match is None or "\0" in table:
            raise ParameterError(
                f"expected table= to be a name such as people or public.people, got {table!r}; "
                'put a name that has dots or quotes in it into double quotes: public."my.table"'
            )
        parts.append(match[1].replace('""', '"') if match[1] is not None else match[2].rstrip())
        place, end = match.end(), match[3]
    return ".".join(map(quoted, parts))


_CASTS = {b"money": "numeric", b"oid": "bigint"}
"""Types that the driver hands over as other numbers than they mean (money as hundredths), and what the server makes of
them instead."""


def _with_casts(schema: Any) -> str | None:
    """The columns of a relation as a SELECT lists them, if some have to be cast; None if none has."""
    listed: list[str] = []
    for field in schema:
        metadata: dict[bytes, bytes] = field.metadata or {}
        cast, name = _CASTS.get(metadata.get(b"POSTGRESQL:type", b"")), quoted(field.name)
        listed.append(name if cast is None else f"{name}::{cast} AS {name}")
    return ", ".join(listed) if any("::" in column for column in listed) else None


def _literal(text: str) -> str:
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


class PostgresTable(Source):
    """One relation in one REPEATABLE READ READ ONLY transaction, which lasts as long as this object."""

    def __init__(self, connection: Any, relation: str, description: str) -> None:
        self.description = description
        self._relation = self._selected = relation
        self._connection = connection
        self._lost = False
        self.close = weakref.finalize(self, _close, connection)
        self._snapshot, self._schema, self._stable = self._look()
        self.header = tuple(self._schema.names)

    @property
    def notices_changes(self) -> bool:
        """A table's own rows cannot change inside a snapshot; a view or a query may still call random()."""
        return self._stable

    def kind(self, column: str) -> ArrowType:
        return self._schema.field(self.header.index(column)).type

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        names = ", ".join(map(quoted, columns))
        failure: SourceError | None = self._loss() if self._lost else None
        if failure is None:
            try:
                self._check_snapshot()
                with self._connection.cursor() as cursor:
                    cursor.execute(f"SELECT {names} FROM {self._selected}")  # noqa: S608  (names are quoted)
                    for batch in cursor.fetch_record_batch():
                        raw = dict(zip(columns, batch.columns, strict=True))
                        if not all(is_valid_text(column) for column in raw.values()):
                            failure = not_text(self.description)
                            break
                        yield raw, 0.0
                self._check_snapshot()
            except (_Lost, _driver().Error, pa.ArrowException, OSError):
                failure = self._loss()
        if failure is not None:
            raise failure

    def warnings(self) -> list[str]:
        """What the role of this connection may do besides reading, by the server's own catalogues."""
        return self._privileges().warnings()

    def _privileges(self) -> Privileges:
        return Privileges(*self._row(_PRIVILEGES.replace("$RELATION", _literal(self._relation))))

    def _look(self) -> tuple[Any, Any, bool]:
        """The snapshot, the public types of the columns, and whether this is a plain table."""
        reason = ""
        try:
            with self._connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            snapshot = self._row(_SNAPSHOT)
            schema = self._columns()
            casts = _with_casts(schema)
            if casts is not None:
                self._selected = f"(SELECT {casts} FROM {self._relation}) AS meant"  # noqa: S608
                schema = self._columns()
            return snapshot, schema, self._is_plain_table()
        except (_driver().Error, pa.ArrowException, OSError) as error:
            reason = _OPENING.get(
                getattr(error, "sqlstate", None) or "", "it cannot be opened; try it in psql first"
            )
        self.close()
        raise SourceError(f"{self.description}: {reason}")

    def _columns(self) -> Any:
        with self._connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {self._selected} LIMIT 0")  # noqa: S608  (a quoted name, or a query)
            return cursor.fetch_record_batch().schema

    def _is_plain_table(self) -> bool:
        if self._relation.startswith("("):
            return False
        (plain,) = self._row(
            "SELECT relkind IN ('r', 'm') AND NOT relrowsecurity FROM pg_class "  # noqa: S608
            f"WHERE oid = to_regclass({_literal(self._relation)})"
        )
        return bool(plain)

    def _row(self, statement: str) -> tuple[Any, ...]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            return tuple(cursor.fetchone())

    def _check_snapshot(self) -> None:
        if self._row(_SNAPSHOT) != self._snapshot:
            raise _Lost

    def _loss(self) -> SourceError:
        """After any error the transaction is over. What the error was is for the server's own log."""
        self._lost = True
        self.close()
        return SourceError(
            f"{self.description}: the snapshot that was opened is lost: the server was restarted, a time limit or a "
            "standby ended the transaction, or a cast or division of a view or query failed on a row (the server's log "
            "says which); open the table again. A release that goes on after that is refused if the records have "
            "changed meanwhile"
        )


class _Lost(Exception):
    """The connection is in another transaction than it began with."""


@dataclass(frozen=True, slots=True)
class Privileges:
    """What a role may do, beside reading one table."""

    role: str
    superuser: bool
    owner: bool
    writes_table: bool
    writes_others: int
    creates: bool
    temporary: bool
    powerful: str
    read_only: bool

    def warnings(self) -> list[str]:
        """In words, for the person who sets the role up; none for a role as `docs/sources.md` makes it."""
        said = [
            (self.superuser, "is a superuser"),
            (self.owner, "owns the table, or is a member of the role that does"),
            (self.writes_table, "may write to the table"),
            (self.writes_others > 0, f"may write to {self.writes_others} other tables of the database"),
            (self.creates, "may create schemas or tables"),
            (self.temporary, "may create temporary tables: REVOKE TEMPORARY ON DATABASE ... FROM PUBLIC"),
            (bool(self.powerful), f"is a member of {self.powerful}"),
            (
                not self.read_only,
                "does not begin its transactions read-only: ALTER ROLE ... SET default_transaction_read_only = on",
            ),
        ]
        return [f"role {self.role} {words}" for applies, words in said if applies]


_WRITES = " OR ".join(
    [
        *(f"has_table_privilege(c.oid, '{p}')" for p in ("INSERT", "UPDATE", "DELETE", "TRUNCATE")),
        *(f"has_any_column_privilege(c.oid, '{p}')" for p in ("INSERT", "UPDATE")),
    ]
)
_PRIVILEGES = f"""
SELECT current_user::text,
       (SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication FROM pg_roles WHERE rolname = current_user),
       coalesce((SELECT pg_has_role(relowner, 'MEMBER') FROM pg_class WHERE oid = to_regclass($RELATION)), false),
       coalesce((SELECT {_WRITES} FROM pg_class c WHERE oid = to_regclass($RELATION)), false),
       (SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
         WHERE relkind IN ('r', 'p', 'v', 'f') AND nspname NOT IN ('pg_catalog', 'information_schema')
           AND nspname NOT LIKE 'pg\\_%' AND c.oid IS DISTINCT FROM to_regclass($RELATION) AND ({_WRITES})),
       has_database_privilege(current_database(), 'CREATE')
         OR (SELECT bool_or(has_schema_privilege(oid, 'CREATE')) FROM pg_namespace WHERE nspname NOT LIKE 'pg\\_temp%'),
       has_database_privilege(current_database(), 'TEMPORARY'),
       coalesce((SELECT string_agg(rolname, ', ' ORDER BY rolname) FROM pg_roles
         WHERE rolname IN ('pg_write_all_data', 'pg_write_server_files', 'pg_execute_server_program',
                           'pg_read_server_files') AND pg_has_role(oid, 'MEMBER')), '')::text,
       current_setting('default_transaction_read_only') = 'on'
"""  # noqa: S608  (no outside text but a quoted name)

_OPENING = {
    "42P01": "there is no such table; its name is taken as it is written, in its own case, as public.people",
    "3F000": "there is no such schema; names are taken as they are written, in their own case",
    "42501": "the role may not read it; grant it USAGE on the schema and SELECT on the table",
    "42601": "the query has a syntax error; try it in psql first",
    "42703": "the query names a column that is not there; try it in psql first",
}
"""What can be wrong before any row is read, by the server's code."""


def _driver() -> Any:
    try:
        return importlib.import_module("adbc_driver_postgresql.dbapi")
    except ModuleNotFoundError:
        pass
    raise SourceError(
        "reading from PostgreSQL needs the extra maquette-dp[postgres]: pip install 'maquette-dp[postgres]'"
    )


def _connect(place: str) -> Any:
    """A connection that is in a transaction from its first statement on. The address is not kept."""
    driver = _driver()
    reason = ""
    try:
        return driver.connect(_URL.sub("postgresql://", place, count=1))
    except driver.Error as error:
        reason = str(error)
    if "password" in reason or "authentication" in reason or "role" in reason:
        reason = "the server refused the role or its password (PGPASSWORD, ~/.pgpass or a service file can hold it)"
    elif "does not exist" in reason:
        reason = "the server has no database of this name"
    else:
        reason = "no server answers; check host and port, and that psql can connect with the same address"
    raise SourceError(f"cannot connect to PostgreSQL: {reason}")


def _close(connection: Any) -> None:
    with contextlib.suppress(Exception):  # it may be gone already
        connection.close()


def is_connection(source: object) -> bool:
    """Is this an open ADBC connection, of whatever driver?"""
    return type(source).__module__.startswith("adbc_driver_manager") and hasattr(source, "adbc_get_info")


class AdbcTable(Source):
    """A table or one SELECT, run again on every pass over the connection that was passed."""

    def __init__(self, connection: Any, *, table: str | None, query: str | None) -> None:
        if (table is None) == (query is None):
            raise SourceError("an ADBC connection needs exactly one of table= and query=")
        self.description = "ADBC query" if table is None else f"ADBC table {table}"
        self._connection = connection
        if table is not None:
            self._statement = f"SELECT * FROM {'.'.join(map(quoted, table.split('.')))}"  # noqa: S608
        else:
            self._statement = _one_select(query or "")
        failed = False
        try:
            self._schema: Any = self._columns()
            casts = _with_casts(self._schema)
            if casts is not None:
                self._statement = f"SELECT {casts} FROM ({self._statement}\n) meant"  # noqa: S608
                self._schema = self._columns()
        except Exception:  # drivers have errors of their own, and their words may quote what they read
            failed = True
        if failed:
            raise SourceError(
                f"{self.description} cannot be opened over this connection: is it open, and is there such a table? "
                "A name that the database does not write in double quotes goes into query="
            )
        self.header = tuple(self._schema.names)

    def _columns(self) -> Any:
        with self._connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM ({self._statement}\n) records WHERE 1 = 0")  # noqa: S608
            return cursor.fetch_record_batch().schema

    def kind(self, column: str) -> ArrowType:
        return self._schema.field(self.header.index(column)).type

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        places = [self.header.index(name) for name in columns]
        failure: SourceError | None = None
        cursor = self._connection.cursor()
        try:
            cursor.execute(self._statement)
            for batch in cursor.fetch_record_batch():
                raw = {name: batch.column(place) for name, place in zip(columns, places, strict=True)}
                if not all(is_valid_text(column) for column in raw.values()):
                    failure = not_text(self.description)
                    break
                yield raw, 0.0
        except Exception:
            failure = SourceError(
                f"{self.description} cannot be read to its end over this connection; open the connection again"
            )
        finally:
            cursor.close()
        if failure is not None:
            raise failure


def _one_select(query: str) -> str:
    text = query.strip().removesuffix(";").strip()
    if (
        ";" in text
        or text.split(maxsplit=1)[:1] == []
        or text.split(maxsplit=1)[0].upper() not in ("SELECT", "WITH")
    ):
        raise SourceError("query= takes one SELECT statement")
    return text
