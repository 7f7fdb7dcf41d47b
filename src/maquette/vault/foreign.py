"""What other programs wrote and other libraries read: SQL, text that may be none, errors that may quote the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from maquette.core.rows.arrow import ArrowArray, pa
from maquette.core.rows.coding import is_text
from maquette.core.rows.source import damaged
from maquette.errors import MaquetteError, SourceError

T = TypeVar("T")


def quoted(name: str) -> str:
    """A name of a column or table as SQL."""
    return '"' + name.replace('"', '""') + '"'


def check_select(query: str, dialect: str) -> None:
    """Refuse what is not one SELECT statement in this dialect of SQL."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        statements = sqlglot.parse(query, read=dialect)
    except SqlglotError:
        statements = []
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        raise SourceError("query= takes one SELECT statement")


def read_quietly(read: Callable[[], T], description: str) -> T:
    """What a library reads for us. Its own errors (a panic of polars is none of `Exception`) may quote the data."""
    try:
        return read()
    except (MaquetteError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        failure = damaged(description)
    raise failure


def is_valid_text(column: ArrowArray) -> bool:
    """Is this column, if it holds text, really UTF-8? Writers of Parquet and Arrow need not check."""
    kind = column.type
    if not (is_text(kind) or pa.types.is_dictionary(kind)) or pa.types.is_binary(kind):
        return True
    try:
        column.validate(full=True)
    except pa.ArrowException:
        return False
    return True
