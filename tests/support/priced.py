"""Prices for tests: a ledger that counts as the price does, neighbours by add/remove-one, unless said otherwise."""

from maquette.core.budget import Unit
from maquette.core.prices import Prices
from maquette.domain import Relation


def priced(unit: Unit, *, ledger: Unit | None = None, relation: Relation = Relation.ADD_REMOVE) -> Prices:
    return Prices(unit, unit if ledger is None else ledger, relation)
