"""The three tables of a ledger."""

from __future__ import annotations

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

metadata = MetaData()
_Amount = BigInteger().with_variant(Integer, "sqlite")

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
)

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
    CheckConstraint("kind IN ('open', 'bind', 'reserve', 'answer', 'settle')", name="entry_kind"),
    CheckConstraint("units >= 0 AND slack >= 0", name="entry_amounts"),
    UniqueConstraint("key", "kind", name="entry_once"),
    Index("entry_parent", "parent"),
)

payload = Table(
    "payload",
    metadata,
    Column("key", Text, primary_key=True),
    Column("data", LargeBinary, nullable=False),
)
