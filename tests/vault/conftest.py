"""A table on a real PostgreSQL server, for the tests of that source."""

import pytest


@pytest.fixture(scope="module")
def url() -> str:
    """A database of its own on a real PostgreSQL server."""
    from support.ledger_postgres import new_database

    return new_database().replace("+psycopg", "")


@pytest.fixture
def owner(url: str):
    """A connection that owns a table of 3,000 people, made anew."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET lock_timeout = '20s'")
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        connection.execute("DROP TABLE IF EXISTS people CASCADE")
        connection.execute(
            "CREATE TABLE people AS SELECT i % 5 AS a, (i / 5) % 5 AS b FROM generate_series(0, 2999) i"
        )
        yield connection
