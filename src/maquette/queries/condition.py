"""Conditions on a record: sets of cells joined by *every* and *some*.

There is no *not*: the reader of predicates pushes it down to the sets, where it respects what is unknown. And the keys
by which the same query is known again, in whatever class it stands.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maquette.core.forms import ALWAYS, NEVER, Condition, Every, Leaf, Runs, Some, leaves, mask
from maquette.core.forms import table_mask as cell_mask
from maquette.domain import Domain
from maquette.queries.rows import Columns, Margin, column

if TYPE_CHECKING:
    from maquette.queries.base import Queries

# Sets of cells of one attribute, as runs: sorted, disjoint, not touching, ends included.

MAX_LOOKUP_CELLS = 2**20
"""Attributes up to this size are looked up in a table, larger ones by comparison."""


def runs_of(codes: Iterable[int]) -> Runs:
    """The runs that hold exactly these codes."""
    return normal((int(code), int(code)) for code in codes)


def normal(pairs: Iterable[tuple[int, int]]) -> Runs:
    """Any (low, high) pairs, sorted and merged; pairs with low > high are empty."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(pair for pair in pairs if pair[0] <= pair[1]):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def join(*sets: Runs) -> Runs:
    """The union."""
    return normal(run for runs in sets for run in runs)


def meet(first: Runs, second: Runs) -> Runs:
    """The intersection."""
    return normal((max(a, c), min(b, d)) for a, b in first for c, d in second)


def complement(runs: Runs, size: int) -> Runs:
    """All cells of the attribute that are not in the set."""
    ends = [-1, *(end for run in runs for end in run), size]
    return normal((ends[i] + 1, ends[i + 1] - 1) for i in range(0, len(ends), 2))


def whole(size: int) -> Runs:
    """All cells."""
    return ((0, size - 1),)


def count(runs: Runs) -> int:
    return sum(high - low + 1 for low, high in runs)


def codes(runs: Runs) -> tuple[int, ...]:
    """The members, one by one."""
    return tuple(code for low, high in runs for code in range(low, high + 1))


def holds(runs: Runs, column: NDArray[Any], size: int) -> NDArray[np.bool_]:
    """Which of these codes are members."""
    if size <= MAX_LOOKUP_CELLS:
        return mask(runs, size)[column]
    member = np.zeros(len(column), dtype=bool)
    for low, high in runs:
        member |= (column >= low) & (column <= high)
    return member


def simplify(domain: Domain, condition: Condition) -> Condition:
    """The same condition in normal form: flat, one set per attribute and node, sorted, without constants inside."""
    if isinstance(condition, Leaf):
        if not condition.runs:
            return NEVER
        return ALWAYS if condition.runs == whole(domain[condition.attribute].size) else condition
    same = type(condition)
    neutral, absorbing = (ALWAYS, NEVER) if same is Every else (NEVER, ALWAYS)
    parts: list[Condition] = []
    for part in condition.parts:
        simple = simplify(domain, part)
        parts += simple.parts if isinstance(simple, same) else [simple]
    merged = _merge_leaves(domain, parts, same)
    if absorbing in merged:
        return absorbing
    members = sorted({part for part in merged if part != neutral}, key=repr)
    return members[0] if len(members) == 1 else same(tuple(members))


def opposite(domain: Domain, condition: Condition) -> Condition:
    """The condition that holds for exactly the other records (all cells count, there is nothing unknown)."""
    if isinstance(condition, Leaf):
        size = domain[condition.attribute].size
        return Leaf(condition.attribute, complement(condition.runs, size))
    parts = tuple(opposite(domain, part) for part in condition.parts)
    return Some(parts) if isinstance(condition, Every) else Every(parts)


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


@dataclass(frozen=True, slots=True, eq=False)
class RowMasks:
    """Which rows satisfy conditions; the rows of each set of cells are looked up once."""

    domain: Domain
    columns: Columns
    length: int
    _masks: dict[Leaf, NDArray[np.bool_]] = field(default_factory=dict["Leaf", "NDArray[np.bool_]"])

    def of(self, condition: Condition) -> NDArray[np.bool_]:
        if isinstance(condition, Leaf):
            if condition not in self._masks:
                codes = column(self.domain, self.columns, condition.attribute)
                size = self.domain[condition.attribute].size
                self._masks[condition] = holds(condition.runs, codes, size)
            return self._masks[condition]
        every = isinstance(condition, Every)
        mask = np.full(self.length, every, dtype=bool)
        for part in condition.parts:
            mask = mask & self.of(part) if every else mask | self.of(part)
        return mask


def sides(domain: Domain, conditions: Sequence[Condition], codes: Columns) -> dict[str, NDArray[np.bool_]]:
    """For some codes of each attribute: can a record with that code (across) satisfy a condition (down)?"""
    allowed = {name: np.ones((len(conditions), len(some)), dtype=bool) for name, some in codes.items()}
    masks = RowMasks(domain, codes, 0)
    for place, one in enumerate(conditions):
        named = {leaf.attribute for leaf in leaves(one)}
        for name in allowed if one == NEVER else named & allowed.keys():
            allowed[name][place] = _side(one, name, masks)
    return allowed


def _side(condition: Condition, name: str, masks: RowMasks) -> NDArray[np.bool_] | bool:
    """The codes of one attribute at which some record can satisfy the condition: never too few of them.

    By induction: a record that satisfies *every* satisfies each part, one that satisfies *some* satisfies one of them,
    and a set of another attribute excludes no code unless it is empty. For a product of sets the codes are exact.
    """
    if isinstance(condition, Leaf):
        return masks.of(condition) if condition.attribute == name else bool(condition.runs)
    every = isinstance(condition, Every)
    allowed: NDArray[np.bool_] | bool = every
    for part in condition.parts:
        other = _side(part, name, masks)
        allowed = allowed & other if every else allowed | other
    return allowed


def table_mask(domain: Domain, condition: Condition, names: Margin) -> NDArray[np.bool_]:
    """Which cells of the table over `names` satisfy the condition."""
    return cell_mask(sizes_of(domain), condition, names)


def _merge_leaves(domain: Domain, parts: list[Condition], same: type[Every] | type[Some]) -> list[Condition]:
    sets: dict[str, Runs] = {}
    others: list[Condition] = []
    for part in parts:
        if not isinstance(part, Leaf):
            others.append(part)
        elif part.attribute not in sets:
            sets[part.attribute] = part.runs
        else:
            combine = meet if same is Every else join
            sets[part.attribute] = combine(sets[part.attribute], part.runs)
    return [simplify(domain, Leaf(name, runs)) for name, runs in sets.items()] + others


# One key per query: equal keys for a query, its duplicates and its complement, in whatever class they stand.
#
# A query that is a product of sets of cells, one set per attribute, is its sets. Any other 0/1 query is the digest of
# its mask, fractional weights are the digest of their numerators, over the attributes that it depends on. Products
# come before masks, so that the complement of a product has the product's key.


Key = tuple[Any, ...]
"""Comparable with every other key."""


Factor = tuple[str, Runs]
"""An attribute and the cells of it that are meant."""


MAX_COMPARED_CELLS = 2**16
"""Sub-universes up to this size are compared cell by cell."""


MAX_KEYS = 10**6
"""Classes up to this size are compared query by query."""


def sizes_of(domain: Domain) -> dict[str, int]:
    """Cells by attribute, for looking up often."""
    return dict(zip(domain.names, domain.shape, strict=True))


def product_key(sizes: Mapping[str, int], factors_of: Iterable[Factor]) -> Key | None:
    """The key of a product of non-empty sets of cells; None if it holds every record."""
    factors = tuple(sorted((name, runs) for name, runs in factors_of if runs != ((0, sizes[name] - 1),)))
    if len(factors) == 1:
        name, runs = factors[0]
        return ("box", min(factors, ((name, complement(runs, sizes[name])),)))
    return ("box", factors) if factors else None


def condition_key(domain: Domain, condition: Condition) -> Key:
    """The key of the records that satisfy a simplified condition (and of no others).

    Equal for equal sets of records if they are products of sets of cells, or look at no more than 2^16 cells.
    """
    if condition in (ALWAYS, NEVER):
        return ("constant", condition == ALWAYS)
    factors = product(condition)
    if factors is not None:
        return ("box", tuple(sorted((leaf.attribute, leaf.runs) for leaf in factors)))
    looked_at = attributes(domain, condition)
    if domain.cells(looked_at) > MAX_COMPARED_CELLS:
        return ("tree", repr(condition))
    names, mask = relevant(looked_at, table_mask(domain, condition, looked_at))
    return _one_sided(domain, names, mask.astype(np.int64), 1) if names else ("constant", bool(mask))


def merged_key(domain: Domain, condition: Condition) -> Key | None:
    """One key for a simplified condition and its opposite; None if it is constant."""
    own = condition_key(domain, condition)
    if own[0] == "constant":
        return None
    return min(own, condition_key(domain, simplify(domain, opposite(domain, condition))))


def array_key(domain: Domain, over: Margin, array: NDArray[Any], denominator: int) -> Key | None:
    """The key of a query given by its numerators over the table of some attributes; None if it is constant."""
    names, reduced = relevant(over, array)
    if not names:
        return None
    return min(
        _one_sided(domain, names, reduced, denominator),
        _one_sided(domain, names, denominator - reduced, denominator),
    )


def relevant(over: Margin, array: NDArray[Any]) -> tuple[Margin, NDArray[Any]]:
    """The attributes that an array really depends on, and the array over them."""
    names: list[str] = []
    for name in over:
        axis = len(names)
        first = array.take([0], axis=axis)
        if (array == first).all():
            array = first.squeeze(axis=axis)
        else:
            names.append(name)
    return tuple(names), array


def sets_of(mask: NDArray[np.bool_]) -> list[NDArray[np.intp]] | None:
    """The factors of a mask that is a product of sets, or None."""
    axes = range(mask.ndim)
    factors = [np.flatnonzero(mask.any(axis=tuple(a for a in axes if a != axis))) for axis in axes]
    whole = math.prod(len(factor) for factor in factors)
    return factors if whole == np.count_nonzero(mask) else None


def _one_sided(domain: Domain, names: Margin, array: NDArray[Any], denominator: int) -> Key:
    ordered = tuple(sorted(names))
    array = array.transpose([names.index(name) for name in ordered])
    if not np.isin(array, (0, denominator)).all():
        shrink = math.gcd(denominator, *(int(v) for v in np.unique(array)))
        reduced = np.ascontiguousarray(array // shrink, dtype=np.int64)
        return ("weights", ordered, denominator // shrink, hashlib.sha256(reduced.tobytes()).hexdigest())
    mask = array != 0
    factors = sets_of(mask)
    if factors is not None:
        return ("box", tuple((name, runs_of(codes)) for name, codes in zip(ordered, factors, strict=True)))
    return ("mask", ordered, hashlib.sha256(np.packbits(mask).tobytes()).hexdigest())


# Classes compared cell by cell: every cell of a table as a row, and the keys that follow.


def keys_by_cells(queries: Queries) -> Iterator[Key | None]:
    """Keys from the weights on every cell of the attributes that the queries look at."""
    names = queries.attributes or queries.domain.names[:1]  # constants look at no attribute
    shape = tuple(queries.domain[name].size for name in names)
    for row in queries.columns_of(all_cells(shape, names)):
        yield array_key(queries.domain, names, row.reshape(shape), queries.denominator)


def all_cells(shape: tuple[int, ...], names: Margin) -> dict[str, NDArray[np.int64]]:
    """Every cell of a table once, as coded rows."""
    grids = np.indices(shape).reshape(len(shape), -1)
    return dict(zip(names, grids, strict=True))


def count_distinct(keys: Iterable[Key | None]) -> int:
    return len({key for key in keys if key is not None})
