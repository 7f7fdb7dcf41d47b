"""The review of a drafted schema: a person says of every column, and of every key with its limit, why it is public."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

from maquette.core import _check
from maquette.domain import review
from maquette.errors import DomainError
from maquette.schema.schema import Schema


def remaining(schema: Schema) -> tuple[str, ...]:
    """What nobody has confirmed yet: tables, for their keys and limits, and columns as table.column."""
    confirmed = _reviews(schema)
    tables = () if schema.confirmed else [name for name in schema.names if name not in confirmed]
    columns = [f"{name}.{column}" for name in schema.names for column in review.remaining(schema.own(name))]
    return (*tables, *columns)


def confirm(schema: Schema, place: str, *, by: str, why: str) -> Schema:
    """The schema with a column confirmed (table.column), or the key of a table and how many of its rows count."""
    table, dot, column = place.partition(".")
    schema[table]
    if dot:
        return schema.with_domain(table, review.confirm(schema.own(table), column, by=by, why=why))
    if not by.strip() or not why.strip():
        raise DomainError(f"confirming '{table}' needs to say who confirms it, and why its limit is public")
    entry = {"by": by.strip(), "why": why.strip(), "on": datetime.date.today().isoformat()}
    reviews = _reviews(schema) | {table: entry}
    done = schema.confirmed or all(name in reviews for name in schema.names)
    return replace(schema, confirmed=done, notes=schema.notes | {review.REVIEWS: reviews})


def drop(schema: Schema, place: str) -> Schema:
    """The schema without a column (table.column)."""
    table, _, column = place.partition(".")
    return schema.with_domain(table, review.drop(schema.own(table), column))


def _reviews(schema: Schema) -> dict[str, Any]:
    note = schema.notes.get(review.REVIEWS, {})
    return dict(note) if _check.is_dict(note) else {}
