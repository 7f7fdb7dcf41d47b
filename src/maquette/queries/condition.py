"""Conditions on a record: sets of cells joined by *every* and *some*.

There is no *not*: the reader of predicates pushes it down to the sets, where it respects what is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Attribute, Domain, Kind
from maquette.queries.base import Columns, Margin, column

# Sets of cells of one attribute, as runs: sorted, disjoint, not touching, ends included.

Runs = tuple[tuple[int, int], ...]

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


def mask(runs: Runs, size: int) -> NDArray[np.bool_]:
    """True at the members."""
    member = np.zeros(size, dtype=bool)
    for low, high in runs:
        member[low : high + 1] = True
    return member


def holds(runs: Runs, column: NDArray[Any], size: int) -> NDArray[np.bool_]:
    """Which of these codes are members."""
    if size <= MAX_LOOKUP_CELLS:
        return mask(runs, size)[column]
    member = np.zeros(len(column), dtype=bool)
    for low, high in runs:
        member |= (column >= low) & (column <= high)
    return member


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
        self._masks: dict[Leaf, NDArray[np.bool_]] = {}

    def of(self, condition: Condition) -> NDArray[np.bool_]:
        if isinstance(condition, Leaf):
            return self._leaf(condition)
        every = isinstance(condition, Every)
        mask = np.full(self._length, every, dtype=bool)
        for part in condition.parts:
            mask = mask & self.of(part) if every else mask | self.of(part)
        return mask

    def _leaf(self, leaf: Leaf) -> NDArray[np.bool_]:
        if leaf not in self._masks:
            codes = column(self._domain, self._columns, leaf.attribute)
            self._masks[leaf] = holds(leaf.runs, codes, self._domain[leaf.attribute].size)
        return self._masks[leaf]


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
    shape = tuple(domain[name].size for name in names)
    return np.broadcast_to(_open_mask(domain, condition, names), shape)


def _open_mask(domain: Domain, condition: Condition, names: Margin) -> NDArray[Any]:
    """The mask with axes of length 1 where it does not matter."""
    if isinstance(condition, Leaf):
        size = domain[condition.attribute].size
        shape = [size if name == condition.attribute else 1 for name in names]
        return mask(condition.runs, size).reshape(shape)
    every = isinstance(condition, Every)
    table = np.full([1] * len(names), every, dtype=bool)
    for part in condition.parts:
        other = _open_mask(domain, part, names)
        table = table & other if every else table | other
    return table


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


# Sets of values of one attribute, exactly, and the cells that they fill, cut or miss.
#
# Cells are coarser than values: a comparison with a literal may hold for some values of a cell and not for
# others. Here a comparison stays a set of values until all that is said about an attribute is known; only
# then is it turned into cells.
#
# Values lie on a line. A numeric attribute's are the real numbers (the whole numbers, if it is declared
# integer): its cells are half-open intervals, the last one closed; without an overflow cell the outer cells
# also hold everything beyond the bounds. The values of other attributes are single points, their numbers
# where they have some in rising order and their codes otherwise; everything between and beside the points
# is the overflow cell, if there is one. NULL is no place on the line: it is in the null cell, else in the
# overflow cell.


Place = tuple[Fraction | float, int]
"""A place between values: just before x is (x, 0), just after it (x, 1)."""
Span = tuple[Place, Place]
"""All values between two places."""

FIRST: Place = (-math.inf, 0)
LAST: Place = (math.inf, 1)


@dataclass(frozen=True, slots=True)
class ValueSet:
    """Values as sorted spans that do not touch, and whether NULL is among them."""

    spans: tuple[Span, ...] = ()
    null: bool = False

    def join(self, other: ValueSet) -> ValueSet:
        """The union."""
        return ValueSet(_normal([*self.spans, *other.spans]), self.null or other.null)

    def meet(self, other: ValueSet) -> ValueSet:
        """The intersection."""
        spans = [(max(a, c), min(b, d)) for a, b in self.spans for c, d in other.spans]
        return ValueSet(_normal(spans), self.null and other.null)

    def others(self) -> ValueSet:
        """All values that are not in the set, without NULL: what NOT leaves of a comparison."""
        ends = [FIRST, *(end for span in self.spans for end in span), LAST]
        return ValueSet(_normal((ends[i], ends[i + 1]) for i in range(0, len(ends), 2)))

    def complement(self) -> ValueSet:
        """Everything that is not in the set, NULL included."""
        return ValueSet(self.others().spans, not self.null)


def _normal(spans: Iterable[Span]) -> tuple[Span, ...]:
    merged: list[Span] = []
    for low, high in sorted(span for span in spans if span[0] < span[1]):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


NULL = ValueSet(null=True)


def compared(attribute: Attribute, sign: str, value: Fraction) -> ValueSet:
    """The values that compare so with a number (an attribute that is not numeric: with one of its points)."""
    if attribute.kind is Kind.NUMERIC and not attribute.integer:
        value = Fraction(
            float(value)
        )  # values are doubles, and so are the literals that they are compared with
    before, after = _place(attribute, (value, 0)), _place(attribute, (value, 1))
    span = {
        "=": (before, after),
        "<": (FIRST, before),
        "<=": (FIRST, after),
        ">": (after, LAST),
        ">=": (before, LAST),
    }[sign]
    return ValueSet(_normal([span]))


def inside(attribute: Attribute, values: ValueSet) -> Runs:
    """The cells that hold no other values: whoever is in one of them is in the set."""
    return complement(touched(attribute, values.complement()), attribute.size)


def touched(attribute: Attribute, values: ValueSet) -> Runs:
    """The cells that hold some of the values: whoever is in the set is in one of them."""
    of_span = _bins if attribute.kind is Kind.NUMERIC else _points
    runs = [run for span in values.spans for run in of_span(attribute, *span)]
    rest = attribute.overflow_cell if attribute.null_cell is None else attribute.null_cell
    if values.null and rest is not None:
        runs.append((rest, rest))
    return normal(runs)


def point(attribute: Attribute, code: int) -> Fraction:
    """Where a declared value lies on the line of an attribute that is not numeric."""
    numbers = _rising(attribute)
    return Fraction(code) if numbers is None else numbers[code]


def _rising(attribute: Attribute) -> list[Fraction] | None:
    """The numbers among which an ordinal attribute's values are, if they are numbers and rise."""
    if not attribute.ordered or attribute.categories is None:
        return None
    if any(isinstance(c, (str, bool)) for c in attribute.categories):
        return None
    numbers = [Fraction(c) for c in attribute.categories]
    return numbers if numbers == sorted(numbers) else None


def _bins(attribute: Attribute, start: Place, stop: Place) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    if attribute.overflow_cell is not None:
        low = _place(attribute, (Fraction(attribute.edge(0)), 0))
        high = _place(attribute, (Fraction(attribute.edge(attribute.cells)), 1))
        if start < low or stop > high:
            runs.append((attribute.overflow_cell, attribute.overflow_cell))
        start, stop = max(start, low), min(stop, high)
        if start >= stop:
            return runs

    def border(i: int) -> Place:
        return _place(attribute, (Fraction(attribute.edge(i + 1)), 0))

    borders = attribute.cells - 1
    first = _first(borders, lambda i: border(i) > start)
    last = _first(borders, lambda i: border(i) >= stop)
    return [*runs, (first, last)]


def _points(attribute: Attribute, start: Place, stop: Place) -> list[tuple[int, int]]:
    numbers = _rising(attribute)
    if numbers is None:  # the values lie at 0, 1, 2, ...
        first, after = _first_whole(start, attribute.cells), _first_whole(stop, attribute.cells)
    else:
        first = _first(attribute.cells, lambda i: (numbers[i], 0) >= start)
        after = _first(attribute.cells, lambda i: (numbers[i], 0) >= stop)
    last = after - 1
    runs = [(first, last)]
    single = first == last and start[0] == stop[0]
    if attribute.overflow_cell is not None and not single:
        runs.append((attribute.overflow_cell, attribute.overflow_cell))
    return runs


def _first_whole(place: Place, count: int) -> int:
    """The first of 0 .. count-1 that lies at or after a place, else count."""
    value, after = place
    if value == math.inf or value == -math.inf:
        return count if value > 0 else 0
    return min(max(math.floor(value) + 1 if after else math.ceil(value), 0), count)


def _place(attribute: Attribute, place: Place) -> Place:
    """The same place; between whole numbers there is only one."""
    if not attribute.integer:
        return place
    value, after = place
    return (Fraction(math.floor(value) + 1 if after else math.ceil(value)), 0)


def _first(count: int, true: Callable[[int], bool]) -> int:
    """The first of 0 .. count-1 from which on it is true, else count; by bisection, for any number of cells."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if true(middle) else (middle + 1, high)
    return low
