"""Who are neighbours: the two tables whose releases must look alike."""

from __future__ import annotations

from enum import StrEnum

from maquette import _check


class Relation(StrEnum):
    """The neighbouring relation of a guarantee. Always stored next to the budget."""

    ADD_REMOVE = "add-remove"
    """One record more or less; the number of records n is private."""

    REPLACE_ONE = "replace-one"
    """One record exchanged for another; n is public."""

    @classmethod
    def named(cls, relation: Relation | str) -> Relation:
        """The relation of that name; ParameterError for any other word."""
        _check.one_of([str(one) for one in cls], relation=str(relation))
        return cls(relation)
