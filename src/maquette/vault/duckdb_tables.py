"""DuckDB databases, connections and relations."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from maquette.core.rows.arrow import ArrowType, pa
from maquette.core.rows.source import ROWS, Batch, Source, damaged
from maquette.errors import SourceError
from maquette.vault.foreign import read_quietly

if TYPE_CHECKING:
    import duckdb


def is_connection(source: object) -> TypeGuard[duckdb.DuckDBPyConnection]:
    """Is this a connection of DuckDB? Where nobody has loaded it, nothing is."""
    return "duckdb" in sys.modules and isinstance(source, sys.modules["duckdb"].DuckDBPyConnection)


def is_relation(source: object) -> TypeGuard[duckdb.DuckDBPyRelation]:
    """Is this a relation of DuckDB?"""
    return "duckdb" in sys.modules and isinstance(source, sys.modules["duckdb"].DuckDBPyRelation)


class Relation(Source):
    """Anything DuckDB can select from, evaluated again on every pass; the engine sees whether it is the same."""

    def __init__(self, relation: duckdb.DuckDBPyRelation, description: str) -> None:
        self.description = description
        self._relation: Any = relation
        self.header = tuple(relation.columns)
        self._schema: Any = read_quietly(
            lambda: self._relation.limit(0).to_arrow_table().schema, self.description
        )

    def kind(self, column: str) -> ArrowType:
        return self._schema.field(self.header.index(column)).type

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        import duckdb

        # by position: DuckDB takes names that differ in case only for the same
        places = [duckdb.SQLExpression(f"#{self.header.index(name) + 1}") for name in columns]
        failed = False
        try:
            for batch in self._relation.select(*places).to_arrow_reader(ROWS):
                yield dict(zip(columns, batch.columns, strict=True)), 0.0
        except (duckdb.Error, pa.ArrowException, OSError):
            failed = True
        if failed:
            raise damaged(f"{self.description} (if it is a query, its casts must not fail: use TRY_CAST)")


def from_file(path: Path, *, table: str | None, query: str | None) -> Source:
    """A table or query of a DuckDB database file, opened read-only and shut off from everything outside it.

    A file from elsewhere may hold views that read other files of this machine, or data frames of this process.
    """
    try:
        import duckdb
    except ImportError:
        raise SourceError(
            "reading DuckDB files needs the extra maquette-dp[duckdb]: pip install 'maquette-dp[duckdb]'"
        ) from None
    try:
        connection = duckdb.connect(str(path), read_only=True, config={"enable_external_access": "false"})
        connection.execute("SET enable_progress_bar = false")  # its pace would tell about the rows
    except duckdb.Error:
        connection = None
    if connection is None:
        raise SourceError(
            f"cannot open {path} as a DuckDB database; is it one, and does no other process write to it? If it is open "
            "in this process, pass that connection instead of the path"
        )
    return from_connection(connection, f"database {path.name}", table=table, query=query)


def from_connection(
    connection: duckdb.DuckDBPyConnection, description: str, *, table: str | None, query: str | None
) -> Source:
    """A table or query of an open connection."""
    import duckdb

    if (table is None) == (query is None):
        raise SourceError(f"{description} needs exactly one of table= and query= (--table, --query)")
    try:
        relation: Any = connection.table(table) if table is not None else _select(connection, query or "")
    except (duckdb.CatalogException, duckdb.BinderException, duckdb.ParserException) as error:
        # raised before any row is read: the text speaks of the query and the schema only
        reason = str(error).splitlines()[0]
    except duckdb.PermissionException:
        reason = (
            "it reads files or data frames outside of the database, which the views and queries of a database file may "
            "not; load them into the database, or open it yourself and pass the connection"
        )
    except duckdb.Error:
        reason = "the table or query cannot be opened; try it in DuckDB first"
    else:
        return Relation(relation, f"{description}, {'query' if table is None else 'table ' + table}")
    raise SourceError(f"{description}: {reason}")


def _select(connection: duckdb.DuckDBPyConnection, query: str) -> duckdb.DuckDBPyRelation:
    import duckdb

    statements = connection.extract_statements(query)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise SourceError("query= takes one SELECT statement")
    return connection.sql(query)
