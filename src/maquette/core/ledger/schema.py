"""The three tables of a ledger. One in two parts has columns of its own for the pure part, after the others."""

from __future__ import annotations

from collections.abc import Container
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

_Amount = BigInteger().with_variant(Integer, "sqlite")


class Tables(NamedTuple):
    """Those of a ledger, and what makes them."""

    metadata: MetaData
    account: Table
    entry: Table
    payload: Table


def _tables(*, parts: int) -> Tables:
    metadata = MetaData()
    pure_account: list[Any] = [
        Column("pure_epsilon", Text, nullable=False),
        Column("pure_total", _Amount, nullable=False),
        Column("pure_spent", _Amount, nullable=False),
        CheckConstraint("pure_spent BETWEEN 0 AND pure_total", name="account_pure_never_overspent"),
    ]
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
        *(pure_account if parts == 2 else []),
    )
    amounts = "units >= 0 AND slack >= 0" + (" AND pure >= 0" if parts == 2 else "")
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
        *([Column("pure", _Amount, nullable=False)] if parts == 2 else []),
        CheckConstraint("kind IN ('open', 'bind', 'reserve', 'answer', 'settle')", name="entry_kind"),
        CheckConstraint(amounts, name="entry_amounts"),
        UniqueConstraint("key", "kind", name="entry_once"),
        Index("entry_parent", "parent"),
    )
    payload = Table(
        "payload",
        metadata,
        Column("key", Text, primary_key=True),
        Column("data", LargeBinary, nullable=False),
    )
    return Tables(metadata, account, entry, payload)


ONE_PART, TWO_PARTS = _tables(parts=1), _tables(parts=2)


def tables_of(account: Container[str]) -> Tables:
    """Those of the ledger with this account's row."""
    return TWO_PARTS if "pure_total" in account else ONE_PART


metadata, account, entry, payload = ONE_PART
"""Of a ledger in one part; every column of them is in one of two parts too."""
FIXED = (
    "id, format, name, unit, epsilon, delta, relation, domain_fingerprint, salt, total, slack_total",
    "pure_epsilon, pure_total",
)
"""Columns of the account that never change, and those of them that a ledger in two parts has besides."""
