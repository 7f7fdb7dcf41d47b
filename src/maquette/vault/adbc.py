"""Any database with an ADBC driver (Snowflake, BigQuery, Flight SQL, SQLite, ...), through a connection that is open.

The seam for databases that have no reader of their own: the owner connects with the driver's own package and passes the
connection. The server chooses the rows; values are coded here. What the driver says is not repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from maquette.errors import SourceError
from maquette.vault.arrow import ArrowType
from maquette.vault.source import Batch, Source, is_valid_text, not_text


def is_connection(source: object) -> bool:
    """Is this an open ADBC connection, of whatever driver?"""
    return type(source).__module__.startswith("adbc_driver_manager") and hasattr(source, "adbc_get_info")


class AdbcTable(Source):
    """A table or one SELECT, run anew on every pass over the connection that was passed."""

    def __init__(self, connection: Any, *, table: str | None, query: str | None) -> None:
        if (table is None) == (query is None):
            raise SourceError("an ADBC connection needs exactly one of table= and query=")
        self.description = "ADBC query" if table is None else f"ADBC table {table}"
        self._connection = connection
        if table is not None:
            self._statement = f"SELECT * FROM {'.'.join(map(_quoted, table.split('.')))}"  # noqa: S608
        else:
            self._statement = _one_select(query or "")
        failed = False
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT * FROM ({self._statement}\n) records WHERE 1 = 0")  # noqa: S608
                self._schema: Any = cursor.fetch_record_batch().schema
        except Exception:  # drivers have errors of their own, and their words may quote what they read
            failed = True
        if failed:
            raise SourceError(
                f"{self.description} cannot be opened over this connection: is it open, and is there such a table? "
                "A name that the database does not write in double quotes goes into query="
            )
        self.header = tuple(self._schema.names)

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


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _one_select(query: str) -> str:
    text = query.strip().removesuffix(";").strip()
    if (
        ";" in text
        or text.split(maxsplit=1)[:1] == []
        or text.split(maxsplit=1)[0].upper() not in ("SELECT", "WITH")
    ):
        raise SourceError("query= takes one SELECT statement")
    return text
