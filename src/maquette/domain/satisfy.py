"""Whether declared constraints can be met together, and a record that meets them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from maquette.domain.attribute import Attribute
from maquette.domain.constraint import Rule
from maquette.errors import DomainError

MOST_STEPS = 10_000
"""Values tried in the search for one record."""


def check_consistent(attributes: Sequence[Attribute], rules: Sequence[Rule]) -> None:
    """Refuse constraints that leave some attribute without any value."""
    left = possible(attributes, rules)
    empty = [name for name, cells in left.items() if not cells.any()]
    if empty:
        said = "; ".join(rule.said for rule in rules if set(rule.names) & set(empty))
        raise DomainError(
            f"the constraints contradict each other: no value of '{empty[0]}' is left by: {said}"
        )


def possible(
    attributes: Sequence[Attribute],
    rules: Sequence[Rule],
    given: Mapping[str, NDArray[np.bool_]] | None = None,
) -> dict[str, NDArray[np.bool_]]:
    """Which cells of the constrained attributes can still occur, each rule by itself, until nothing changes."""
    sizes = {a.name: a.size for a in attributes}
    used = dict.fromkeys(name for rule in rules for name in rule.names)
    left = {name: np.ones(sizes[name], dtype=bool) for name in used}
    for name, cells in (given or {}).items():
        left[name] = cells.copy()
    changed = True
    while changed:
        changed = False
        for rule in rules:
            for axis, kept in enumerate(_support(rule, left)):
                name = rule.names[axis]
                if kept.sum() < left[name].sum():
                    left[name], changed = kept, True
    return left


def complete(
    attributes: Sequence[Attribute], rules: Sequence[Rule], wanted: Mapping[str, int]
) -> dict[str, int] | None:
    """A record of the constrained attributes that meets every rule, near the wanted one; None if there is none.

    Keeps wanted values where it can, in the order of the rules. Refuses if the search takes too long.
    """
    steps = iter(range(MOST_STEPS))

    def search(fixed: dict[str, int], left: dict[str, NDArray[np.bool_]]) -> dict[str, int] | None:
        name = next((name for name in left if name not in fixed), None)
        if name is None:
            return fixed
        values = sorted(np.flatnonzero(left[name]).tolist(), key=lambda v: v != wanted.get(name))
        for value in values:
            if next(steps, None) is None:
                raise DomainError("no record that meets all constraints was found; declare them more simply")
            only = np.arange(len(left[name])) == value
            narrowed = possible(attributes, rules, {**left, name: only})
            if all(cells.any() for cells in narrowed.values()):
                found = search({**fixed, name: value}, narrowed)
                if found is not None:
                    return found
        return None

    return search({}, possible(attributes, rules))


def _support(rule: Rule, left: Mapping[str, NDArray[np.bool_]]) -> list[NDArray[np.bool_]]:
    """For each attribute of a rule, which cells have a partner among what is left of the others."""
    table = rule.allowed
    for axis, name in enumerate(rule.names):
        table = table & left[name].reshape([-1 if i == axis else 1 for i in range(table.ndim)])
    axes = range(table.ndim)
    return [np.asarray(table.any(axis=tuple(a for a in axes if a != axis))) for axis in axes]
