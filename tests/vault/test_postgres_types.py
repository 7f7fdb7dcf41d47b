"""PostgreSQL addresses and types that need care: nothing of a password is stored, money and uuid are read as meant."""

from __future__ import annotations

from typing import Any

import pytest

import maquette as mq
from maquette.vault.readers import public_name

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
