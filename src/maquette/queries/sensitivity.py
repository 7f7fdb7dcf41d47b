"""Worst cases of a union: where those of the parts meet, and by search where nothing proves that they do.

Largest entries (L-infinity) always combine: a change of one answer belongs to one part. For L1 and L2:

- *add/remove*: parts on disjoint attributes have a common worst record, a flat part is at its worst on every record;
- *replace-one*: the same, and a flat part is at its worst on every pair that differs in all its attributes.

So the parts that are not flat are cut into components that share no attribute; a component of several parts is
searched through the table over its attributes. What can be neither proved nor searched is bounded: by how many
conditions one record can satisfy at once (`most_at_once`), else by the sum.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from maquette.core.forms import Sensitivity
from maquette.domain import Domain, Relation
from maquette.queries.condition import all_cells
from maquette.queries.rows import MAX_SUM, Columns, Norms, first_columns, label_columns

if TYPE_CHECKING:
    from maquette.queries.base import Queries

Part = TypeVar("Part", bound="Queries")

MAX_SEARCHED_RECORDS = 2**16
"""Records that are told apart, in a search through all of them."""
MAX_SEARCH_STEPS = 2**28
"""Elementary steps of a search through all records or pairs of records."""
MAX_WEIGHTS_IN_MEMORY = 2**24
"""Weights that are held at once."""
_BLOCK = 2**18


@dataclass(frozen=True, slots=True)
class SensitivityBound:
    """A sensitivity that is never too small."""

    bound: Sensitivity
    exact: bool
    spread: bool = False
    """Attained by a pair of records that differs in every attribute of two or more cells."""


def union_sensitivity(domain: Domain, parts: Sequence[Queries], relation: Relation) -> SensitivityBound:
    """The sensitivity of all parts together."""
    return _union_sensitivity(domain, tuple(parts), relation)


@lru_cache(maxsize=16)
def _union_sensitivity(domain: Domain, parts: tuple[Queries, ...], relation: Relation) -> SensitivityBound:
    flat = [part for part in parts if part.flat]
    rest = [_component(domain, group, relation) for group in connected([p for p in parts if not p.flat])]
    proved = total([_alone(part, relation) for part in flat] + rest)
    meets = relation is Relation.ADD_REMOVE or not flat or all(worst.spread for worst in rest)
    if meets and proved.exact:
        return proved
    searched = total([_component(domain, group, relation) for group in connected(parts)])
    if searched.exact:
        return searched
    bound = least(proved.bound, searched.bound)
    if relation is Relation.REPLACE_ONE:
        bound = least(bound, twice(_union_sensitivity(domain, parts, Relation.ADD_REMOVE).bound))
    return SensitivityBound(bound, exact=False)


def connected(parts: Sequence[Part]) -> list[list[Part]]:
    """The parts in groups that share no attribute with each other."""
    groups: list[tuple[set[str], list[Part]]] = []
    for part in parts:
        names, members = set(part.attributes), [part]
        apart: list[tuple[set[str], list[Part]]] = []
        for other_names, other_members in groups:
            if names & other_names:
                names |= other_names
                members = other_members + members
            else:
                apart.append((other_names, other_members))
        groups = [*apart, (names, members)]
    return [members for _, members in groups]


def total(worst: Sequence[SensitivityBound]) -> SensitivityBound:
    """Worst cases that meet."""
    zero = Sensitivity(Fraction(0), Fraction(0), Fraction(0))
    return SensitivityBound(
        sum((one.bound for one in worst), start=zero),
        exact=all(one.exact for one in worst),
        spread=all(one.spread for one in worst),
    )


def twice(added: Sensitivity) -> Sensitivity:
    """A bound for replacing a record by one for adding it: |p - q| <= p + q, (p - q)^2 <= p^2 + q^2."""
    return Sensitivity(2 * added.l1, 2 * added.l2_squared, added.linf)


def search(
    domain: Domain, parts: Sequence[Queries], relation: Relation, *, linf: Fraction | None = None
) -> SensitivityBound | None:
    """The exact worst case over all records that the parts tell apart; None if there are too many.

    The largest entry is 1 for counting queries, and must be given (`linf`) for others.
    """
    names = tuple(name for name in domain.names if any(name in part.attributes for part in parts))
    cost, scale = sum(part.pair_cost for part in parts), math.lcm(*(part.denominator for part in parts))
    if (
        not names
        or cost > MAX_WEIGHTS_IN_MEMORY
        or any(domain[name].size > MAX_SEARCHED_RECORDS for name in names)
    ):
        return None
    if sum(part.count for part in parts) * scale**2 >= MAX_SUM:
        return None
    kinds = [_kinds(domain, parts, name) for name in names]
    records = math.prod(len(kind.codes) for kind in kinds)
    steps = records * cost * (1 if relation is Relation.ADD_REMOVE else records)
    if records > MAX_SEARCHED_RECORDS or steps > MAX_SEARCH_STEPS or records * cost > MAX_WEIGHTS_IN_MEMORY:
        return None
    places = all_cells(tuple(len(kind.codes) for kind in kinds), names)
    rows = {name: kind.codes[places[name]] for name, kind in zip(names, kinds, strict=True)}
    many = {name: kind.many[places[name]] for name, kind in zip(names, kinds, strict=True)}
    return _search(_Search(parts, rows, many), relation, linf)


class _Kinds(NamedTuple):
    """The cells of an attribute that are told apart: one code for each, and whether it stands for several."""

    codes: NDArray[np.int64]
    many: NDArray[np.bool_]


def _kinds(domain: Domain, parts: Sequence[Queries], name: str) -> _Kinds:
    labels = label_columns(np.stack([part.twins(name) for part in parts if name in part.attributes]))
    codes, counts = first_columns(labels), np.bincount(labels)
    # an attribute of one cell can never differ, and need not
    return _Kinds(codes.astype(np.int64), (counts > 1) | (domain[name].size == 1))


@dataclass(frozen=True, slots=True)
class _Search:
    parts: Sequence[Queries]
    rows: Columns
    many: Mapping[str, NDArray[np.bool_]]

    @property
    def scale(self) -> int:
        return math.lcm(*(part.denominator for part in self.parts))

    def norms(self) -> Norms:
        return self._together([part.norms(self.rows) for part in self.parts])

    def distances(self, start: int, stop: int) -> tuple[Norms, NDArray[np.bool_]]:
        """From some records to all after them, and which pairs can be chosen to differ in every attribute."""
        left = {name: codes[start:stop] for name, codes in self.rows.items()}
        right = {name: codes[start:] for name, codes in self.rows.items()}
        sums = self._together([part.distances(left, right) for part in self.parts])
        differs = np.ones(sums.l1.shape, dtype=bool)
        for name, codes in left.items():
            differs &= (codes[:, None] != right[name]) | self.many[name][start:stop, None]
        return sums, differs

    def _together(self, norms: Sequence[Norms]) -> Norms:
        factors = [self.scale // part.denominator for part in self.parts]
        if self.scale == 1:  # counting queries: both sums are the same
            distance = np.sum([norm.l1 for norm in norms], axis=0)
            return Norms(distance, distance)
        return Norms(
            np.sum([norm.l1 * f for norm, f in zip(norms, factors, strict=True)], axis=0),
            np.sum([norm.l2_squared * f * f for norm, f in zip(norms, factors, strict=True)], axis=0),
        )


def _search(searched: _Search, relation: Relation, linf: Fraction | None) -> SensitivityBound:
    scale, best = searched.scale, _Best()
    if relation is Relation.ADD_REMOVE:
        sums = searched.norms()
        best = best.with_block(sums, np.ones(sums.l1.shape, dtype=bool))
    else:
        records = len(next(iter(searched.rows.values())))
        step = max(1, _BLOCK // records)
        for start in range(0, records, step):
            best = best.with_block(*searched.distances(start, start + step))
    l1, l2 = Fraction(best.l1[0], scale), Fraction(best.l2[0], scale**2)
    spread = best.l1[1] >= best.l1[0] and best.l2[1] >= best.l2[0]
    return SensitivityBound(
        Sensitivity(l1, l2, min(l1, Fraction(1)) if linf is None else linf), exact=True, spread=spread
    )


@dataclass(frozen=True, slots=True)
class _Best:
    """The largest L1 and L2 squared: among all, and among the pairs that differ everywhere."""

    l1: tuple[int, int] = (0, -1)
    l2: tuple[int, int] = (0, -1)

    def with_block(self, sums: Norms, differs: NDArray[np.bool_]) -> _Best:
        l1 = _larger(self.l1, sums.l1, differs)
        same = sums.l2_squared is sums.l1
        return _Best(l1, l1 if same else _larger(self.l2, sums.l2_squared, differs))


def _larger(best: tuple[int, int], sums: NDArray[np.int64], differs: NDArray[np.bool_]) -> tuple[int, int]:
    return max(best[0], int(sums.max())), max(best[1], int(np.where(differs, sums, -1).max()))


def _component(domain: Domain, parts: Sequence[Queries], relation: Relation) -> SensitivityBound:
    if len(parts) == 1:
        return _alone(parts[0], relation)
    added = total([_alone(part, relation) for part in parts])
    searched = search(domain, parts, relation, linf=added.bound.linf)
    if searched is not None or relation is Relation.REPLACE_ONE:
        return searched or SensitivityBound(added.bound, exact=False)
    listed = [part for part in parts if part.sides({}) is not None]
    others = [_alone(part, relation) for part in parts if part.sides({}) is None]
    together = [most_at_once(domain, listed)] if listed else []
    bound = least(added.bound, total([*together, *others]).bound)
    return SensitivityBound(bound, exact=not others and all(one.exact for one in together))


def _alone(part: Queries, relation: Relation) -> SensitivityBound:
    return SensitivityBound(part.sensitivity(relation), part.exact_sensitivity, part.spread)


def least(one: Sensitivity, other: Sensitivity) -> Sensitivity:
    """The better of two bounds, norm by norm."""
    return Sensitivity(
        min(one.l1, other.l1), min(one.l2_squared, other.l2_squared), min(one.linf, other.linf)
    )


# How many conditions one record can satisfy at once.
#
# Of a set of records each attribute has a side: the codes that its records may have. A record is in at most as many
# sets as have all its codes on their sides. For codes chosen for some attributes, a set is *alive* if they are on its
# sides. Divide one unit of every set that is alive, in any way, among the attributes that are still open and on which
# its side is not everything; a set without such an attribute keeps its unit. For any record with the chosen codes
#
#     sets that it is in  <=  units kept  +  sum over open attributes a of  the shares on a of the alive sets
#                                            whose side holds its code of a
#                         <=  units kept  +  sum over open attributes a of  the largest such sum over all codes of a,
#
# because a set that it is in has its codes on all sides and so counts all of its shares, and no share is negative. The
# search opens the choice with the largest bound first, so at any moment the largest bound of an unopened choice bounds
# every record: opened ones are covered by the choices that replaced them. If that choice leaves no attribute open, its
# bound is the number of sets alive, attained by a record where sets are products of their sides. Otherwise the search
# ends when its steps are used up, with a bound that is proved all the same. Which shares are good is found by descent:
# they move from attributes whose fullest code a set allows to those whose fullest code it excludes. All of it is in
# whole numbers, so that every machine finds the same bound.

MAX_MEETING_STEPS = 2**28
"""Elementary steps of a search for the record in the most sets: about a second."""
_DESCENT = 100
"""Steps of the descent; the bound of random conjunctions falls by two thirds in the first 50, hardly after 100."""
_UNIT = 2**20


def most_at_once(domain: Domain, parts: Sequence[Queries]) -> SensitivityBound:
    """What adding a record moves at most, for classes that know their `sides`: each query counts it with 0 or 1.

    Guarantee: never too small; exact where the classes are products of their sides and the search came to its end.
    """
    count = sum(part.count for part in parts)
    names = [name for name in domain.names if any(name in part.attributes for part in parts)]
    most, complete = count, False
    if names and all(domain[name].size <= MAX_SEARCHED_RECORDS for name in names):
        codes = {name: _kinds(domain, parts, name).codes for name in names}
        if count * sum(map(len, codes.values())) <= MAX_WEIGHTS_IN_MEMORY:
            tables = [part.sides(codes) or {} for part in parts]
            most, complete = _most_alive([np.concatenate([t[name] for t in tables]) for name in names])
    bound = Fraction(most)
    return SensitivityBound(
        Sensitivity(bound, bound, min(bound, Fraction(1))),
        exact=complete and all(part.are_products for part in parts),
    )


def _most_alive(sides: Sequence[NDArray[np.bool_]]) -> tuple[int, bool]:
    """The most sets (rows of `sides`) that one code per attribute leaves alive, and whether the search was complete."""
    tables = sorted(sides, key=lambda side: side.shape[1])
    matters = np.stack([~table.all(axis=1) for table in tables])
    shares, steps = _shares(tables, matters)
    heap: list[tuple[int, int, tuple[int, ...]]] = [(-len(tables[0]), 0, ())]
    while steps <= MAX_MEETING_STEPS and len(heap[0][2]) < len(tables):
        bound, _, chosen = heapq.heappop(heap)
        depth = len(chosen)
        alive = np.ones(len(tables[0]), dtype=bool)
        for table, code in zip(tables, chosen, strict=False):
            alive &= table[:, code]
        left = np.flatnonzero(alive)
        opened = [table[left] for table in tables[depth:]]
        for code, most in enumerate(_bounds(opened, matters[depth:, left], shares[depth:, left])):
            heapq.heappush(heap, (max(bound, -most), -depth - 1, (*chosen, code)))
        steps += sum(table.size for table in opened) + len(tables[0]) * (depth + 1)
    return -heap[0][0], len(heap[0][2]) == len(tables)


def _bounds(
    opened: Sequence[NDArray[np.bool_]], matters: NDArray[np.bool_], shares: NDArray[np.int64]
) -> list[int]:
    """For every code of the first open attribute, how many of the sets alive (rows) a record with it is in at most.

    What a set had on attributes that are no longer open goes to those that are.
    """
    among = matters.sum(axis=0)
    shares = _add_equally(shares, matters, np.where(among > 0, _UNIT - shares.sum(axis=0), 0))
    sums = [share @ table.astype(np.int64) for share, table in zip(shares, opened, strict=True)]
    rest = int(np.count_nonzero(among == 0)) * _UNIT + sum(int(s.max(initial=0)) for s in sums[1:])
    alive = opened[0].sum(axis=0, dtype=np.int64)
    return [min((rest + int(s)) // _UNIT, int(a)) for s, a in zip(sums[0], alive, strict=True)]


def _shares(tables: Sequence[NDArray[np.bool_]], matters: NDArray[np.bool_]) -> tuple[NDArray[np.int64], int]:
    """How the unit of every set (across) is divided among attributes (down), by descent; and the steps that took."""
    size = sum(table.size for table in tables)
    unit = np.where(matters.any(axis=0), _UNIT, 0)
    shares = best = _add_equally(np.zeros(matters.shape, dtype=np.int64), matters, unit)
    least, rounds = math.inf, min(_DESCENT, MAX_MEETING_STEPS // (4 * max(size, 1)))
    for i in range(rounds):
        sums = [share @ table.astype(np.int64) for share, table in zip(shares, tables, strict=True)]
        bound = sum(int(s.max()) for s in sums)
        if bound < least:
            least, best = bound, shares
        fullest = np.stack([table[:, int(s.argmax())] for table, s in zip(tables, sums, strict=True)])
        excludes = matters & ~fullest
        shift = np.where(excludes.any(axis=0) & fullest, np.minimum(shares, _UNIT // (4 + i)), 0)
        shares = _add_equally(shares - shift, excludes, shift.sum(axis=0))
    return best, rounds * size


def _add_equally(
    shares: NDArray[np.int64], to: NDArray[np.bool_], amounts: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Shares with an amount more of every set, divided equally among some attributes; the first gets what is left."""
    among = to.sum(axis=0)
    each = amounts // np.maximum(among, 1)
    shares = shares + np.where(to, each, 0)
    shares[to.argmax(axis=0), np.arange(shares.shape[1])] += amounts - each * among
    return shares
