"""The declared universe: attributes, the domain they span, and who are neighbours."""

from maquette.core.attribute import MISSING, OTHER, Attribute, Kind
from maquette.core.neighbours import Persons, Relation, check_relation, rows_of
from maquette.domain.constraint import Determines, Never
from maquette.domain.domain import Domain

__all__ = [
    "MISSING",
    "OTHER",
    "Attribute",
    "Determines",
    "Domain",
    "Kind",
    "Never",
    "Persons",
    "Relation",
    "check_relation",
    "rows_of",
]
