"""PostgreSQL addresses and types that need care: nothing of a password is stored, money and uuid are read as meant."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

import maquette as mq
from maquette.discovery.raw import open_raw
from maquette.domain import Attribute, Domain, Kind
from maquette.vault.readers import open_engine, public_name

pytestmark = pytest.mark.server


def test_a_ledger_made_before_the_domain_does_not_hold_the_password(url: str, owner: Any, tmp_path: Any):
    """It was named by the last part of the address, which may be, or hold, the password."""
    address = f"{url}&password=hunter2"
    mq.discover(
        address, table="people", epsilon=4, ledger=tmp_path / "l", columns={"a": "number", "b": "number"}
    )
    assert b"hunter2" not in (tmp_path / "l").read_bytes()
    with mq.Ledger.open(tmp_path / "l") as ledger:
        assert ledger.name.endswith(":people")


@pytest.mark.parametrize(
    "address",
    ["//me:pass@host", "//me:pass@", "//me:pa/pass@host/db", "//me:p%2Fpass@host", "//me:p?pass@host/x"],
)
def test_no_part_of_an_address_but_the_database_is_a_name(address: str):
    assert "pass" not in public_name(f"postgresql:{address}", None)


ROWS = [(str(UUID(int=7**40 * i)), Decimal(i * 125) / 100 - 300) for i in range(600)]
MONEY = Domain(
    (
        Attribute("price", Kind.NUMERIC, edges=tuple(range(-300, 500, 50)), nullable=True),
        Attribute("key", Kind.CATEGORICAL, categories=tuple(key for key, _ in ROWS[:3]), overflow=True),
    )
)


@pytest.fixture
def bought(owner: Any) -> None:
    owner.execute("DROP TABLE IF EXISTS bought")
    owner.execute("DROP DOMAIN IF EXISTS amount")
    owner.execute("CREATE DOMAIN amount AS money")
    owner.execute("CREATE TABLE bought (key uuid, price money, again amount, relation oid)")
    with owner.cursor() as cursor:
        values = [(key, price, price, 4_000_000_000 + i) for i, (key, price) in enumerate(ROWS)]
        cursor.executemany(
            "INSERT INTO bought VALUES (%s, %s::numeric::money, %s::numeric::money, %s::oid)", values
        )
        cursor.execute("INSERT INTO bought VALUES (NULL, NULL, NULL, NULL)")


def sources(url: str, bought: Any) -> Any:
    from adbc_driver_postgresql import dbapi

    yield url, {"table": "bought"}
    yield url, {"query": "SELECT *, 1 AS more FROM bought"}
    with dbapi.connect(url) as connection:
        yield connection, {"table": "bought"}
        yield connection, {"query": "SELECT key, price, again, relation FROM bought"}


def test_money_and_identifiers_are_read_as_they_are_meant(url: str, bought: Any):
    """Money came as hundredths, without a word; uuids were refused, and oids beyond 2^31 were negative."""
    here = open_engine([{"key": key, "price": price} for key, price in [*ROWS, (None, None)]], MONEY)
    for source, place in sources(url, bought):
        engine = open_engine(source, MONEY, **place)
        for name in MONEY.names:
            assert engine.margins([(name,)])[name,].tolist() == here.margins([(name,)])[name,].tolist()
        raw = open_raw(source, ["again", "relation", "key"], **place)
        assert sorted(map(Decimal, raw.spellings("again")[0])) == [price for _, price in ROWS]
        assert raw.spellings("relation")[0][0] == "4000000000"
        assert raw.spellings("key")[0] == tuple(sorted(key for key, _ in ROWS))


def test_a_uuid_says_whose_record_it_is(url: str, bought: Any):
    for source, place in sources(url, bought):
        table = mq.open(source, domain=MONEY.project(["price"]), person="key", rows_per_person=1, **place)
        assert table.persons is not None
    assert mq.draft(url, table="bought").notes["left_out"]["key"]["why"].startswith("more than 100")
