"""Short hands for tests that use ledgers."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from maquette.accounting import UNITS, Budget, Cost
from maquette.accounting.ledger import Entry, Ledger
from maquette.domain import Relation

IDENTITY: dict[str, Any] = {"relation": Relation.ADD_REMOVE, "domain_fingerprint": "d" * 64, "name": "survey"}


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def budget_of(units: int) -> Budget:
    """A pure budget of a small number of units."""
    return Budget(units / UNITS)


def create(location: str | Path, units: int = 100, **changes: Any) -> Ledger:
    return Ledger.create(location, **{"budget": budget_of(units), **IDENTITY, **changes})


def memory(units: int = 100, **changes: Any) -> Ledger:
    return Ledger.memory(**{"budget": budget_of(units), **IDENTITY, **changes})


def pay(ledger: Ledger, key: str, units: int = 1, **changes: Any) -> Entry:
    """Reserve with everything else made up from the key."""
    values: dict[str, Any] = {
        "request": digest(key),
        "tag": "pure",
        "cost": Cost(units),
        "body": {"key": key},
    }
    return ledger.reserve(key, **values | changes)
