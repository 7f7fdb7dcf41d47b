"""DuckDB databases, connections and relations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb

from maquette.errors import SourceError
from maquette.vault.arrow import ArrowType
from maquette.vault.source import ROWS, Batch, Source, damaged


class Relation(Source):
    """Anything DuckDB can select from, evaluated again on every pass."""

    def __init__(self, relation: duckdb.DuckDBPyRelation, description: str, keep: object = None) -> None:
        self.description = description
        self._relation: Any = relation
        self._keep = keep
        self.header = tuple(relation.columns)
        self._schema: Any = self._relation.limit(0).to_arrow_table().schema

    def kind(self, column: str) -> ArrowType:
        return self._schema.field(self.header.index(column)).type

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        places = [self.header.index(name) for name in columns]
        try:
            chosen = self._relation.select(*(duckdb.ColumnExpression(self.header[i]) for i in places))
            for batch in chosen.to_arrow_reader(ROWS):
                yield dict(zip(columns, batch.columns, strict=True)), 0.0
        except duckdb.Error:
            damaged(f"{self.description} (if it is a query, its casts must not fail: use TRY_CAST)")


def from_file(path: Path, *, table: str | None, query: str | None) -> Source:
    """A table or query of a DuckDB database file, opened read-only."""
    try:
        connection = duckdb.connect(str(path), read_only=True)
    except duckdb.Error:
        raise SourceError(
            f"cannot open {path} as a DuckDB database; is it one, and does no other process write to it?"
        ) from None
    return from_connection(connection, f"database {path.name}", table=table, query=query)


def from_connection(
    connection: duckdb.DuckDBPyConnection, description: str, *, table: str | None, query: str | None
) -> Source:
    """A table or query of an open connection."""
    if (table is None) == (query is None):
        raise SourceError(f"{description} needs exactly one of table= and query=")
    try:
        relation: Any = connection.table(table) if table is not None else connection.sql(query or "")
    except (duckdb.CatalogException, duckdb.BinderException, duckdb.ParserException) as error:
        # raised before any row is read: the text speaks of the query and the schema only
        raise SourceError(f"{description}: {str(error).splitlines()[0]}") from None
    except duckdb.Error:
        raise SourceError(
            f"{description}: the table or query cannot be opened; try it in DuckDB first"
        ) from None
    if relation is None:
        raise SourceError(f"{description}: the query returns no table; it must be a SELECT")
    return Relation(relation, f"{description}, {'table ' + table if table else 'query'}", keep=connection)
