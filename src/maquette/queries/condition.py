"""Conditions on a record: sets of cells joined by *every* and *some*.

There is no *not*: the reader of predicates pushes it down to the sets, where it respects what is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain
from maquette.queries import cells
from maquette.queries.base import Columns, Margin
from maquette.queries.cells import Runs
from maquette.queries.rows import column


@dataclass(frozen=True, slots=True)
class Leaf:
    """The record's cell of this attribute is among these."""

    attribute: str
    runs: Runs


@dataclass(frozen=True, slots=True)
class Every:
    """All parts hold; without parts, always."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Some:
    """At least one part holds; without parts, never."""

    parts: tuple[Condition, ...]


Condition = Leaf | Every | Some

ALWAYS = Every(())
NEVER = Some(())


def simplify(domain: Domain, condition: Condition) -> Condition:
    """The same condition in normal form: flat, one set per attribute and node, sorted, without constants inside."""
    if isinstance(condition, Leaf):
        if not condition.runs:
            return NEVER
        return ALWAYS if condition.runs == cells.whole(domain[condition.attribute].size) else condition
    same = type(condition)
    neutral, absorbing = (ALWAYS, NEVER) if same is Every else (NEVER, ALWAYS)
    parts: list[Condition] = []
    for part in condition.parts:
        simple = simplify(domain, part)
        parts += simple.parts if isinstance(simple, same) else [simple]
    merged = _merge_leaves(domain, parts, same)
    if absorbing in merged:
        return absorbing
    kept = sorted({part for part in merged if part != neutral}, key=repr)
    return kept[0] if len(kept) == 1 else same(tuple(kept))


def opposite(domain: Domain, condition: Condition) -> Condition:
    """The condition that holds for exactly the other records (all cells count, there is nothing unknown)."""
    if isinstance(condition, Leaf):
        size = domain[condition.attribute].size
        return Leaf(condition.attribute, cells.complement(condition.runs, size))
    parts = tuple(opposite(domain, part) for part in condition.parts)
    return Some(parts) if isinstance(condition, Every) else Every(parts)


def leaves(condition: Condition) -> Iterator[Leaf]:
    if isinstance(condition, Leaf):
        yield condition
    else:
        for part in condition.parts:
            yield from leaves(part)


def attributes(domain: Domain, condition: Condition) -> Margin:
    """The attributes that a condition looks at, in domain order."""
    used = {leaf.attribute for leaf in leaves(condition)}
    return tuple(name for name in domain.names if name in used)


def product(condition: Condition) -> tuple[Leaf, ...] | None:
    """The factors of a simplified condition that is a product of sets, else None."""
    if isinstance(condition, Leaf):
        return (condition,)
    if isinstance(condition, Every) and all(isinstance(part, Leaf) for part in condition.parts):
        return tuple(part for part in condition.parts if isinstance(part, Leaf))
    return None


def read_once(condition: Condition) -> bool:
    """Does a simplified condition name every attribute once? Then it is constant only if it says so."""
    named = [leaf.attribute for leaf in leaves(condition)]
    return len(set(named)) == len(named)


class RowMasks:
    """Which rows satisfy conditions; the rows of each set of cells are looked up once."""

    def __init__(self, domain: Domain, columns: Columns, length: int) -> None:
        self._domain = domain
        self._columns = columns
        self._length = length
        self._known: dict[Leaf, NDArray[np.bool_]] = {}

    def of(self, condition: Condition) -> NDArray[np.bool_]:
        if isinstance(condition, Leaf):
            return self._leaf(condition)
        every = isinstance(condition, Every)
        mask = np.full(self._length, every, dtype=bool)
        for part in condition.parts:
            mask = mask & self.of(part) if every else mask | self.of(part)
        return mask

    def _leaf(self, leaf: Leaf) -> NDArray[np.bool_]:
        if leaf not in self._known:
            codes = column(self._domain, self._columns, leaf.attribute)
            self._known[leaf] = cells.holds(leaf.runs, codes, self._domain[leaf.attribute].size)
        return self._known[leaf]


def table_mask(domain: Domain, condition: Condition, names: Margin) -> NDArray[np.bool_]:
    """Which cells of the table over `names` satisfy the condition."""
    shape = tuple(domain[name].size for name in names)
    return np.broadcast_to(_open_mask(domain, condition, names), shape)


def _open_mask(domain: Domain, condition: Condition, names: Margin) -> NDArray[Any]:
    """The mask with axes of length 1 where it does not matter."""
    if isinstance(condition, Leaf):
        size = domain[condition.attribute].size
        shape = [size if name == condition.attribute else 1 for name in names]
        return cells.mask(condition.runs, size).reshape(shape)
    every = isinstance(condition, Every)
    mask = np.full([1] * len(names), every, dtype=bool)
    for part in condition.parts:
        other = _open_mask(domain, part, names)
        mask = mask & other if every else mask | other
    return mask


def _merge_leaves(domain: Domain, parts: list[Condition], same: type[Every] | type[Some]) -> list[Condition]:
    sets: dict[str, Runs] = {}
    others: list[Condition] = []
    for part in parts:
        if not isinstance(part, Leaf):
            others.append(part)
        elif part.attribute not in sets:
            sets[part.attribute] = part.runs
        else:
            combine = cells.meet if same is Every else cells.join
            sets[part.attribute] = combine(sets[part.attribute], part.runs)
    return [simplify(domain, Leaf(name, runs)) for name, runs in sets.items()] + others
