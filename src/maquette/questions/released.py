"""A released distribution by its tables: what the errors of a class of questions are measured against."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain
from maquette.errors import ParameterError
from maquette.queries.base import Margin
from maquette.questions import bounds
from maquette.questions.classes import CLASSES, MAX_CELLS, RULES, ClassTable, cells_of

WHOLE = 2**16
"""The weight of an error that counts as it is. Others count for less: weight / WHOLE of it."""


@dataclass(frozen=True, slots=True, eq=False)
class ReleasedTables:
    """Tables of whole numerators over one denominator: the released share of the records in every cell."""

    sets: tuple[Margin, ...]
    """The sets of attributes that were looked at together; they decide which tables a class has."""
    tables: dict[Margin, NDArray[np.signedinteger[Any]]]
    """Flat, by the attributes in domain order."""
    denominator: int
    weights: dict[str, dict[Margin, int]] = field(default_factory=dict[str, dict[Margin, int]])
    """By class and table, from 1 to `WHOLE`, which all others have: what an error counts for. Public numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class ClassQuestion:
    """Several classes, checked: their tables by attributes, each with the place of its class among those asked for and
    with its weight."""

    names: tuple[str, ...]
    by_margin: dict[Margin, list[tuple[int, ClassTable, int]]]
    shares: dict[Margin, NDArray[np.signedinteger[Any]]]
    """The released tables that are needed, flat, over `denominator`."""
    denominator: int

    @classmethod
    def of(cls, domain: Domain, names: Sequence[str], released: ReleasedTables) -> ClassQuestion:
        """Refuses what the sensitivity of `questions/class_errors.py` does not hold for. Public arguments only."""
        bounds.check_list(names, str, "a list of classes of questions by name")
        bounds.check_type(released, ReleasedTables, "the released distribution by its tables")
        if not names or len(set(names)) < len(names) or not set(names) <= set(CLASSES):
            raise ParameterError(f"expected some of the classes {', '.join(CLASSES)}, each once")
        _check_sets(domain, released.sets)
        bounds.check_type(released.tables, dict, "released tables by their attributes")
        bounds.check_whole(released.denominator, least=1, most=bounds.FACTORS, what="the common denominator")
        weights = _weights(names, released.weights)
        by_margin: dict[Margin, list[tuple[int, ClassTable, int]]] = {}
        for place, name in enumerate(names):
            tables = CLASSES[name].tables(domain, released.sets)
            if not tables or cells_of(domain, tables) > MAX_CELLS:
                raise ParameterError(f"the class '{name}' has no table here, or tables of too many cells")
            for table in tables:
                weight = weights.get((name, table.margin), WHOLE)
                by_margin.setdefault(table.margin, []).append((place, table, weight))
        shares = {margin: _table(domain, margin, released) for margin in by_margin}
        return cls(tuple(names), by_margin, shares, released.denominator)

    def request(self) -> dict[str, Any]:
        """Everything that decides the numbers, for the ledger."""
        hasher = hashlib.sha256()
        for margin, table in self.shares.items():
            hasher.update(repr(margin).encode())
            hasher.update(np.ascontiguousarray(table, dtype="<i4").data)
        request: dict[str, Any] = {
            "ask": "class errors",
            "classes": list(self.names),
            "rules": RULES,
            "tables": hasher.hexdigest(),
            "denominator": self.denominator,
        }
        weights = [
            (self.names[place], margin, weight)
            for margin, tables in self.by_margin.items()
            for place, _, weight in tables
            if weight < WHOLE
        ]
        if weights:  # a question without them is asked as it always was
            request["weights"] = hashlib.sha256(repr(sorted(weights)).encode()).hexdigest()
        return request


def _weights(names: Sequence[str], weights: object) -> dict[tuple[str, Margin], int]:
    """Weights of tables by class, none of them above that of an error as it is."""
    bounds.check_type(weights, dict, "weights by class")
    flat: dict[tuple[str, Margin], int] = {}
    for name, by_margin in cast("dict[object, object]", weights).items():
        if name not in names:
            raise ParameterError("expected weights of classes that are asked for")
        bounds.check_type(by_margin, dict, "weights by the attributes of their table")
        for margin, weight in cast("dict[Margin, int]", by_margin).items():
            bounds.check_whole(weight, least=1, most=WHOLE, what="a weight")
            flat[cast("str", name), margin] = weight
    return flat


def _check_sets(domain: Domain, sets: object) -> None:
    """Sets of attributes of the domain, each named once and in order."""
    bounds.check_list(sets, tuple, "sets of attributes, each a tuple of names")
    for names in cast("Sequence[Margin]", sets):
        bounds.check_list(names, str, "a set of attributes as a tuple of names")
        if tuple(name for name in domain.names if name in names) != names:
            raise ParameterError("expected the attributes of every set in the order of the domain, each once")


def _table(domain: Domain, margin: Margin, released: ReleasedTables) -> NDArray[np.signedinteger[Any]]:
    """A distribution, or part of one: no negative share, and no more than everything."""
    over = ", ".join(margin)
    table = released.tables.get(margin)
    bounds.check_type(table, np.ndarray, f"a released table over {over} in an array")
    assert table is not None
    if table.dtype.kind != "i" or table.shape != (domain.cells(margin),):
        raise ParameterError(f"expected the released table over {over} as flat whole numbers")
    inside = int(table.min()) >= 0 and int(table.max()) <= released.denominator
    if not inside or int(table.sum(dtype=np.int64)) > released.denominator:
        raise ParameterError(f"expected shares in the table over {over} that are at most 1 together")
    return table
