"""Ledgers of earlier versions still open, verify and go on; the format itself does not move unnoticed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from maquette.accounting import (
    Budget,
    Cost,
    CubeEvent,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    SelectionEvent,
)
from maquette.accounting.ledger import Ledger, Receipt
from maquette.core.events import from_dict
from maquette.core.ledger import entry, schema, store
from maquette.domain import Relation
from maquette.errors import LedgerError
from support.ledger_cases import create, pay

DUMP = Path(__file__).parent.parent / "support" / "ledger_format_1.sql"
END = Receipt(7, "c8e9c2b1ec8397579f86dfc27b4bc1e489ce6d288b9f0cccb35931889a0ad5f1")


@pytest.fixture
def old(tmp_path) -> Path:
    path = tmp_path / "old.ledger"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(DUMP.read_text(encoding="utf-8"))
    return path


def test_a_ledger_of_format_1_opens_verifies_and_goes_on(old):
    with Ledger.open(old) as ledger:
        assert ledger.verify(END) == END
        assert (ledger.name, ledger.relation, ledger.budget) == (
            "survey",
            Relation.ADD_REMOVE,
            Budget(1.0, 1e-6),
        )
        assert (ledger.spent_units, ledger.slack_spent, ledger.total_units) == (5 * 10**9, 3, 24353852684)
        assert ledger.commitment == "c" * 64
        assert ledger.find("release/1").payload == b"noisy counts"
        assert from_dict(ledger.find("release/1").body) == GaussianEvent(sigma_squared=25, l2_squared=2)
        assert pay(ledger, "later", tag="selection", cost=Cost(10**9)).fresh is False
        assert pay(ledger, "new", 5).fresh
        assert ledger.verify(END).seq == 8


def test_it_stays_bound_to_its_table_by_the_scheme_of_then(old):
    with Ledger.open(old) as ledger:
        ledger.bind("c" * 64)
        for other in ("d" * 64, "v2:" + "c" * 64):
            with pytest.raises(LedgerError, match="bound to the order of its rows"):
                ledger.bind(other)
        assert ledger.commitment == "c" * 64
        assert ledger.verify(END) == END


def test_its_total_is_what_was_promised_then_whatever_is_computed_today(old, monkeypatch):
    monkeypatch.setattr("maquette.core.budget._total_units", lambda *_: 1)
    with Ledger.open(old) as ledger:
        assert ledger.total_units == 24353852684
        pay(ledger, "new", 5)


def test_the_head_of_an_entry_is_fixed():
    row = {
        "seq": 2,
        "kind": "reserve",
        "key": "schlüssel",
        "parent": None,
        "tag": "pure",
        "request": "0" * 64,
        "units": 5,
        "slack": 0,
        "envelope": 0,
        "body": '{"a":1}',
        "payload_sha256": None,
        "prev": "f" * 64,
        "created": "2026-01-01T00:00:00.000+00:00",
    }
    assert entry.head_of(row) == "fb8d87d7189c9401f33e921a97d1bacd26ca622ada5536102363b0fcbe2386f3"
    for name in entry.FIELDS:
        other = 9 if isinstance(row[name], int) else "other"
        assert entry.head_of(row | {name: other}) != entry.head_of(row), name


def test_every_column_but_the_head_is_in_the_chain():
    assert set(entry.FIELDS) == set(schema.entry.c.keys()) - {"head"}


def test_the_file_says_what_it_is(tmp_path):
    create(tmp_path / "x.ledger").close()
    with closing(sqlite3.connect(tmp_path / "x.ledger")) as connection:
        assert (
            connection.execute("PRAGMA application_id").fetchone() == (store.APPLICATION_ID,) == (0x6D716C31,)
        )
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)


def test_the_stored_forms_of_events_are_fixed():
    half = Fraction(1, 2)
    assert [
        LaplaceEvent(scale=half, l1=1).to_dict(),
        GaussianEvent(sigma_squared=half, l2_squared=2).to_dict(),
        CubeEvent(epsilon=half).to_dict(),
        SelectionEvent(epsilon=half, method="exponential").to_dict(),
        PureEvent(epsilon=half, what="size").to_dict(),
    ] == [
        {"tag": "laplace", "scale": "1/2", "l1": "1"},
        {"tag": "gaussian", "sigma_squared": "1/2", "l2_squared": "2", "total_variation": "0"},
        {"tag": "cube", "epsilon": "1/2"},
        {"tag": "selection", "epsilon": "1/2", "method": "exponential"},
        {"tag": "pure", "epsilon": "1/2", "what": "size"},
    ]
