"""How a comparison with a literal reads: as values, exactly, and as cells of the declared attribute, as well as it can.

As cells, what is true and what is unknown are sets of cells; the rest is false. A null is unknown to every comparison.
The overflow cell is unknown to comparisons by order; it is not equal to any category. Where a cell is cut by the
literal, the nearest border decides. This reading of cells is the one that stored queries have: it must not change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from maquette.core.attribute import Kind, Scalar
from maquette.domain import Attribute
from maquette.errors import WorkloadError
from maquette.queries import names
from maquette.queries.condition import Runs, complement, join, normal
from maquette.queries.names import quote

Value = str | bool | Fraction
"""A literal: text, truth value or number."""
Sign = str
"""One of = < <= > >=."""

_LISTED = 20
_NOT = {"=": "<>", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


@dataclass(frozen=True, slots=True)
class Reading:
    """The values for which a comparison holds, and the cells where it is read to hold and to be unknown."""

    said: str
    opposite: str
    """NOT of it, in words."""
    values: ValueSet
    true: Runs
    unknown: Runs

    def negated(self, size: int) -> Reading:
        """NOT of it, among all cells of the attribute: what is unknown stays so."""
        false = complement(join(self.true, self.unknown), size)
        return Reading(self.opposite, self.said, self.values.others(), false, self.unknown)


def is_null(attribute: Attribute) -> Reading:
    """IS NULL: never unknown."""
    name = quote(attribute.name)
    return Reading(f"{name} IS NULL", f"{name} IS NOT NULL", NULL, _cell(attribute.null_cell), ())


def compare(attribute: Attribute, sign: Sign, value: Value) -> Reading:
    """An attribute compared with a literal."""
    said = partial(
        Reading, *(f"{quote(attribute.name)} {word} {_spelled(value)}" for word in (sign, _NOT[sign]))
    )
    if attribute.kind is Kind.NUMERIC:
        if not isinstance(value, Fraction):
            raise WorkloadError(
                f"'{attribute.name}' is numeric; compare it with a number without quotes, got {_spelled(value)}"
            )
        values = compared(attribute, sign, value)
        return said(values, _number_cells(attribute, sign, value), _unordered(attribute))
    code = _code(attribute, value)
    values = compared(attribute, sign, point(attribute, code))
    if sign == "=":
        return said(values, _cell(code), _cell(attribute.null_cell))
    if not attribute.ordered:
        raise WorkloadError(
            f"'{attribute.name}' is {attribute.kind} and has no order; compare it with = or <> or IN"
        )
    return said(values, _by_order(sign, code, attribute.cells), _unordered(attribute))


def undeclared(attribute: Attribute, value: Value) -> Reading:
    """An attribute compared by = with a value that it does not declare: in no declared cell."""
    name, numbers = quote(attribute.name), _rising(attribute)
    if numbers is not None and isinstance(value, Fraction):
        place = value
    else:  # beside all declared values
        place = Fraction(-1) if numbers is None else numbers[0] - 1
    said = (f"{name} = {_spelled(value)}", f"{name} <> {_spelled(value)}")
    return Reading(*said, compared(attribute, "=", place), (), _cell(attribute.null_cell))


class NotDeclared(WorkloadError):
    """The literal is none of the attribute's values."""


def _by_order(sign: Sign, code: int, count: int) -> Runs:
    first, last = {"<": (0, code - 1), "<=": (0, code), ">": (code + 1, count - 1), ">=": (code, count - 1)}[
        sign
    ]
    return normal([(first, last)])


def _number_cells(attribute: Attribute, sign: Sign, value: Fraction) -> Runs:
    if sign == "=":
        return _equal(attribute, value)
    border = _border(attribute, sign, value)
    return normal([(0, border - 1) if sign in ("<", "<=") else (border, attribute.cells - 1)])


def _equal(attribute: Attribute, value: Fraction) -> Runs:
    """The cell that holds the value; bins one wide are read as the whole numbers at their left."""
    within = attribute.edge(0) <= value <= attribute.edge(attribute.cells)
    if not within or (_as_whole(attribute) and value.denominator != 1):
        return ()
    if attribute.one_wide:
        code = int(value - Fraction(attribute.edge(0)))
        return _cell(code) if code < attribute.cells else ()
    return _cell(min(_last_edge_at_most(attribute, value), attribute.cells - 1))


def _border(attribute: Attribute, sign: Sign, value: Fraction) -> int:
    """The cell border nearest to the one that a comparison asks for. The last cell includes its right border."""
    if sign in ("<", ">="):
        below = _last_edge_at_most(attribute, value)
        if below >= 0 and _equals(attribute.edge(below), value):
            return below
    elif _equals(
        attribute.edge(attribute.cells), Fraction(math.floor(value)) if _as_whole(attribute) else value
    ):
        return attribute.cells
    if _as_whole(attribute):
        value = Fraction(math.floor(value) + 1 if sign in ("<=", ">") else math.ceil(value))
    return _nearest_edge(attribute, value)


def _as_whole(attribute: Attribute) -> bool:
    return attribute.integer or attribute.one_wide


def _nearest_edge(attribute: Attribute, value: Fraction) -> int:
    """The nearest border; of two equally near ones the lower."""
    below = _last_edge_at_most(attribute, value)
    if below < 0:
        return 0
    if below >= attribute.cells:
        return attribute.cells
    to_low, to_high = value - Fraction(attribute.edge(below)), Fraction(attribute.edge(below + 1)) - value
    return below if to_low <= to_high else below + 1


def _last_edge_at_most(attribute: Attribute, value: Fraction) -> int:
    """By bisection, so that any number of bins will do; -1 if all borders lie above."""
    low, high = -1, attribute.cells
    while low < high:
        middle = (low + high + 1) // 2
        if Fraction(attribute.edge(middle)) <= value or _equals(attribute.edge(middle), value):
            low = middle
        else:
            high = middle - 1
    return low


def _equals(edge: float, value: Fraction) -> bool:
    """Is this literal the shortest spelling of this border, or the border itself?"""
    return value == edge or float(value) == edge


def _code(attribute: Attribute, value: Value) -> int:
    """The declared cell of a literal."""
    if attribute.codes is not None:
        number = Fraction(value) if isinstance(value, bool) and attribute.codes == 2 else value
        if isinstance(number, Fraction) and number.denominator == 1 and 0 <= number < attribute.codes:
            return int(number)
        raise NotDeclared(
            f"'{attribute.name}' holds the whole numbers 0 to {attribute.codes - 1}, got {_spelled(value)}"
        )
    assert attribute.categories is not None
    for code, category in enumerate(attribute.categories):
        if _matches(category, value):
            return code
    near = names.did_you_mean(str(value), [str(category) for category in attribute.categories])
    raise NotDeclared(f"{_spelled(value)} is no category of '{attribute.name}'; {_declared(attribute)}{near}")


def _matches(category: Scalar, value: Value) -> bool:
    if isinstance(category, bool) or isinstance(value, bool):
        return category is value or str(category).lower() == str(value).lower()
    if isinstance(category, str):
        return category == (value if isinstance(value, str) else _spelled(value))
    if isinstance(value, Fraction):
        return _equals(float(category), value) if isinstance(category, float) else value == category
    return value == names.number(category)


def _declared(attribute: Attribute) -> str:
    assert attribute.categories is not None
    shown = ", ".join(names.spell(category) for category in attribute.categories[:_LISTED])
    more = attribute.cells - _LISTED
    listed = f"{shown} and {more} more" if more > 0 else shown
    return f"it has {listed}" + (
        " (other values share one cell and cannot be asked for)" if attribute.overflow else ""
    )


def _spelled(value: Value) -> str:
    if isinstance(value, Fraction):
        return str(int(value)) if value.denominator == 1 else repr(float(value))
    text = names.spell(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _unordered(attribute: Attribute) -> Runs:
    return join(_cell(attribute.overflow_cell), _cell(attribute.null_cell))


def _cell(code: int | None) -> Runs:
    return () if code is None else ((code, code),)


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
