"""The three tables and the triggers that keep them append-only, in both dialects."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Connection,
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

_FIXED = "id, format, name, unit, epsilon, delta, relation, domain_fingerprint, salt, total, slack_total"


def install(connection: Connection) -> None:
    """Create tables and triggers, inside the caller's transaction."""
    metadata.create_all(connection, checkfirst=False)
    statements = _sqlite_triggers() if connection.dialect.name == "sqlite" else _postgres_triggers()
    for statement in statements:
        connection.exec_driver_sql(statement)


def _sqlite_triggers() -> list[str]:
    refuse = "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
    written = [
        f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} {refuse}"
        for table in ("entry", "payload")
        for verb in ("UPDATE", "DELETE")
    ]
    return [
        *written,
        f"CREATE TRIGGER account_no_delete BEFORE DELETE ON account {refuse}",
        f"CREATE TRIGGER account_fixed BEFORE UPDATE OF {_FIXED} ON account {refuse}",
    ]


def _postgres_triggers() -> list[str]:
    function = (
        "CREATE FUNCTION ledger_refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'the ledger is append-only'; END $$"
    )
    refuse = "EXECUTE FUNCTION ledger_refuse()"
    written = [
        f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE ON {table} FOR EACH ROW {refuse}"
        for table in ("entry", "payload")
    ]
    emptied = [
        f"CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table} FOR EACH STATEMENT {refuse}"
        for table in ("account", "entry", "payload")
    ]
    return [
        function,
        *written,
        *emptied,
        f"CREATE TRIGGER account_no_delete BEFORE DELETE ON account FOR EACH ROW {refuse}",
        f"CREATE TRIGGER account_fixed BEFORE UPDATE OF {_FIXED} ON account FOR EACH ROW {refuse}",
    ]
