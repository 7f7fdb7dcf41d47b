"""Sets of values of one attribute, exactly, and the cells that they fill, cut or miss.

Cells are coarser than values: a comparison with a literal may hold for some values of a cell and not for others. Here a
comparison stays a set of values until all that is said about an attribute is known; only then is it turned into cells.

Values lie on a line. A numeric attribute's are the real numbers (the whole numbers, if it is declared integer): its
cells are half-open intervals, the last one closed; without an overflow cell the outer cells also hold everything beyond
the bounds. The values of other attributes are single points, their numbers where they have some in rising order and
their codes otherwise; everything between and beside the points is the overflow cell, if there is one. NULL is no place
on the line: it is in the null cell, else in the overflow cell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

from maquette.domain import Attribute, Kind
from maquette.queries import cells
from maquette.queries.cells import Runs

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
    return cells.complement(touched(attribute, values.complement()), attribute.size)


def touched(attribute: Attribute, values: ValueSet) -> Runs:
    """The cells that hold some of the values: whoever is in the set is in one of them."""
    of_span = _bins if attribute.kind is Kind.NUMERIC else _points
    found = [run for span in values.spans for run in of_span(attribute, *span)]
    rest = attribute.overflow_cell if attribute.null_cell is None else attribute.null_cell
    if values.null and rest is not None:
        found.append((rest, rest))
    return cells.normal(found)


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
    found: list[tuple[int, int]] = []
    if attribute.overflow_cell is not None:
        low = _place(attribute, (Fraction(attribute.edge(0)), 0))
        high = _place(attribute, (Fraction(attribute.edge(attribute.cells)), 1))
        if start < low or stop > high:
            found.append((attribute.overflow_cell, attribute.overflow_cell))
        start, stop = max(start, low), min(stop, high)
        if start >= stop:
            return found

    def border(i: int) -> Place:
        return _place(attribute, (Fraction(attribute.edge(i + 1)), 0))

    borders = attribute.cells - 1
    first = _first(borders, lambda i: border(i) > start)
    last = _first(borders, lambda i: border(i) >= stop)
    return [*found, (first, last)]


def _points(attribute: Attribute, start: Place, stop: Place) -> list[tuple[int, int]]:
    numbers = _rising(attribute)

    def place(i: int) -> Place:
        return (Fraction(i) if numbers is None else numbers[i], 0)

    first = _first(attribute.cells, lambda i: place(i) >= start)
    last = _first(attribute.cells, lambda i: place(i) >= stop) - 1
    found = [(first, last)]
    single = first == last and start[0] == stop[0]
    if attribute.overflow_cell is not None and not single:
        found.append((attribute.overflow_cell, attribute.overflow_cell))
    return found


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
