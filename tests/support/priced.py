"""Prices for tests: a ledger that counts as the price does, neighbours by add/remove-one, unless said otherwise."""

from maquette.accounting.budget import Unit
from maquette.domain import Relation
from maquette.gate.prices import Prices


def priced(unit: Unit, *, ledger: Unit | None = None, relation: Relation = Relation.ADD_REMOVE) -> Prices:
    return Prices(unit, unit if ledger is None else ledger, relation)
