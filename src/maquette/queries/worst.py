"""Worst cases of a union: where the parts' worst records meet, and by search where nothing proves that they do.

Largest entries (L-infinity) always combine: a change of one answer belongs to one part. For L1 and L2:

- *add/remove*: parts on disjoint attributes have a common worst record, a flat part is at its worst on every record;
- *replace-one*: the same, and a flat part is at its worst on every pair that differs in all its attributes.

So the parts that are not flat are cut into components that share no attribute; a component of several parts is
searched through the table over its attributes. What can be neither proved nor searched is bounded by the sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain, Relation
from maquette.queries.base import Columns, Margin, Norms, Queries, Sensitivity
from maquette.queries.canonical import all_cells

MOST_RECORDS = 2**16
"""Cells of a table whose records are searched one by one."""
MOST_STEPS = 2**28
"""Elementary steps for a search through all pairs of records."""
_BLOCK = 2**18


@dataclass(frozen=True, slots=True)
class Worst:
    """A sensitivity that is never too small."""

    bound: Sensitivity
    exact: bool
    spread: bool
    """Attained by a pair of records that differs in every attribute of two or more cells."""


def union_sensitivity(domain: Domain, parts: Sequence[Queries], relation: Relation) -> Worst:
    """The sensitivity of all parts together."""
    return _union_sensitivity(domain, tuple(parts), relation)


@lru_cache(maxsize=16)
def _union_sensitivity(domain: Domain, parts: tuple[Queries, ...], relation: Relation) -> Worst:
    flat = [part for part in parts if part.flat]
    rest = [_component(domain, group, relation) for group in connected([p for p in parts if not p.flat])]
    proved = _sum([_alone(part, relation) for part in flat] + rest)
    meets = relation is Relation.ADD_REMOVE or not flat or all(worst.spread for worst in rest)
    if meets and proved.exact:
        return proved
    whole = [_component(domain, group, relation) for group in connected(parts)]
    searched = _sum(whole)
    return searched if searched.exact else Worst(_least(proved.bound, searched.bound), False, False)


def connected(parts: Sequence[Queries]) -> list[list[Queries]]:
    """The parts in groups that share no attribute with each other."""
    groups: list[tuple[set[str], list[Queries]]] = []
    for part in parts:
        names, members = set(part.attributes), [part]
        apart: list[tuple[set[str], list[Queries]]] = []
        for other_names, other_members in groups:
            if names & other_names:
                names |= other_names
                members = other_members + members
            else:
                apart.append((other_names, other_members))
        groups = [*apart, (names, members)]
    return [members for _, members in groups]


def _component(domain: Domain, parts: Sequence[Queries], relation: Relation) -> Worst:
    if len(parts) == 1:
        return _alone(parts[0], relation)
    names = tuple(name for name in domain.names if any(name in part.attributes for part in parts))
    records, cost = domain.cells(names), sum(part.pair_cost for part in parts)
    steps = records * cost if relation is Relation.ADD_REMOVE else records * records * cost
    added = _sum([_alone(part, relation) for part in parts])
    if records > MOST_RECORDS or steps > MOST_STEPS:
        return Worst(added.bound, exact=False, spread=False)
    return _search(domain, names, parts, relation, linf=added.bound.linf)


def _alone(part: Queries, relation: Relation) -> Worst:
    return Worst(part.sensitivity(relation), part.exact_sensitivity, part.spread)


def _sum(worst: Sequence[Worst]) -> Worst:
    zero = Sensitivity(Fraction(0), Fraction(0), Fraction(0))
    return Worst(
        sum((one.bound for one in worst), start=zero),
        exact=all(one.exact for one in worst),
        spread=all(one.spread for one in worst),
    )


def _least(one: Sensitivity, other: Sensitivity) -> Sensitivity:
    return Sensitivity(
        min(one.l1, other.l1), min(one.l2_squared, other.l2_squared), min(one.linf, other.linf)
    )


def _search(
    domain: Domain, names: Margin, parts: Sequence[Queries], relation: Relation, *, linf: Fraction
) -> Worst:
    """The largest sums over all records, or all pairs of records, of the table over `names`."""
    shape = tuple(domain[name].size for name in names)
    rows = all_cells(shape, names)
    scale = math.lcm(*(part.denominator for part in parts))
    if relation is Relation.ADD_REMOVE:
        total = _together([part.norms(rows) for part in parts], parts, scale)
        l1, l2 = int(total.l1.max()), int(total.l2_squared.max())
        return Worst(Sensitivity(Fraction(l1, scale), Fraction(l2, scale**2), linf), exact=True, spread=True)
    return _search_pairs(rows, shape, parts, scale, linf)


def _search_pairs(
    rows: Columns, shape: tuple[int, ...], parts: Sequence[Queries], scale: int, linf: Fraction
) -> Worst:
    records = math.prod(shape)
    step = max(1, _BLOCK // records)
    best = _Best()
    for start in range(0, records, step):
        left = {name: codes[start : start + step] for name, codes in rows.items()}
        total = _together([part.distances(left, rows) for part in parts], parts, scale)
        differs = np.ones(total.l1.shape, dtype=bool)
        for (name, codes), size in zip(left.items(), shape, strict=True):
            if size > 1:
                differs &= codes[:, None] != rows[name]
        best = best.with_block(total, differs)
    bound = Sensitivity(Fraction(best.l1[0], scale), Fraction(best.l2[0], scale**2), linf)
    return Worst(bound, exact=True, spread=best.l1[1] >= best.l1[0] and best.l2[1] >= best.l2[0])


@dataclass(frozen=True, slots=True)
class _Best:
    """The largest L1 and L2 squared among all pairs, and among those that differ everywhere."""

    l1: tuple[int, int] = (0, -1)
    l2: tuple[int, int] = (0, -1)

    def with_block(self, total: Norms, differs: NDArray[np.bool_]) -> _Best:
        return _Best(_larger(self.l1, total.l1, differs), _larger(self.l2, total.l2_squared, differs))


def _larger(best: tuple[int, int], sums: NDArray[np.int64], differs: NDArray[np.bool_]) -> tuple[int, int]:
    spread = int(sums[differs].max()) if differs.any() else -1
    return max(best[0], int(sums.max())), max(best[1], spread)


def _together(norms: Sequence[Norms], parts: Sequence[Queries], scale: int) -> Norms:
    factors = [scale // part.denominator for part in parts]
    return Norms(
        np.sum([norm.l1 * f for norm, f in zip(norms, factors, strict=True)], axis=0),
        np.sum([norm.l2_squared * f * f for norm, f in zip(norms, factors, strict=True)], axis=0),
    )
