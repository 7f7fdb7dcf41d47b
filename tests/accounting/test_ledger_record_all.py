"""Several values in one transaction: all or none, and only under new keys."""

import hashlib

import pytest

from maquette.accounting.ledger import Ledger, Record
from maquette.core.budget import Budget, Cost
from maquette.domain import Relation
from maquette.errors import KeyReused, LedgerError


def made() -> Ledger:
    ledger = Ledger.memory(
        budget=Budget(1.0), relation=Relation.ADD_REMOVE, domain_fingerprint="d", name="people"
    )
    ledger.reserve(
        "session", request=digest("session"), tag="session", cost=Cost(100), body={}, envelope=True
    )
    return ledger


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def records(*keys: str) -> list[Record]:
    return [Record(key, digest(key), "test", {"ask": key}, key.encode()) for key in keys]


def test_all_are_stored_in_order_with_their_receipts_at_no_cost():
    ledger = made()
    entries = ledger.record_all(records("a", "b", "c"), parent="session")
    assert [e.payload for e in entries] == [b"a", b"b", b"c"]
    assert all(e.fresh and e.units == 0 for e in entries)
    for entry in entries:
        ledger.verify(entry.answered)
    assert [e.key for e in ledger.children("session")] == ["a", "b", "c"]
    assert ledger.spent_units == 100
    assert ledger.record_all([], parent="session") == []


def test_a_key_that_is_taken_leaves_no_trace_of_the_others():
    ledger = made()
    ledger.record_all(records("b"), parent="session")
    before = [e.head for e in ledger.entries()]
    for keys in (("a", "b"), ("b",), ("b", "c")):
        with pytest.raises(KeyReused, match="'b' was used before"):
            ledger.record_all(records(*keys), parent="session")
    assert [e.head for e in ledger.entries()] == before
    ledger.verify()


def test_a_settled_envelope_takes_nothing_more():
    ledger = made()
    ledger.settle("session")
    before = [e.head for e in ledger.entries()]
    with pytest.raises(LedgerError, match="settled"):
        ledger.record_all(records("a", "b"), parent="session")
    assert [e.head for e in ledger.entries()] == before
