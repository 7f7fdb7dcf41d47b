"""How a comparison with a literal reads: as values, exactly, and as cells of the declared attribute, as well as it can.

As cells, what is true and what is unknown are sets of cells; the rest is false. A null is unknown to every comparison.
The overflow cell is unknown to comparisons by order; it is not equal to any category. Where a cell is cut by the
literal, the nearest border decides. This reading of cells is the one that stored queries have: it must not change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from maquette.domain import Attribute, Kind
from maquette.domain.attribute import Scalar
from maquette.errors import WorkloadError
from maquette.queries import cells, sql, valueset
from maquette.queries.cells import Runs
from maquette.queries.names import quote
from maquette.queries.valueset import ValueSet

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
        false = cells.complement(cells.join(self.true, self.unknown), size)
        return Reading(self.opposite, self.said, self.values.others(), false, self.unknown)


def is_null(attribute: Attribute) -> Reading:
    """IS NULL: never unknown."""
    name = quote(attribute.name)
    return Reading(f"{name} IS NULL", f"{name} IS NOT NULL", valueset.NULL, _cell(attribute.null_cell), ())


def compare(attribute: Attribute, sign: Sign, value: Value) -> Reading:
    """An attribute compared with a literal."""
    said = partial(
        Reading, *(f"{quote(attribute.name)} {word} {_spelled(value)}" for word in (sign, _NOT[sign]))
    )
    if attribute.kind is Kind.NUMERIC:
        number = _number(attribute, value)
        values = valueset.compared(attribute, sign, number)
        return said(values, _number_cells(attribute, sign, number), _unordered(attribute))
    code = _code(attribute, value)
    values = valueset.compared(attribute, sign, valueset.point(attribute, code))
    if sign == "=":
        return said(values, _cell(code), _cell(attribute.null_cell))
    if not attribute.ordered:
        raise WorkloadError(
            f"'{attribute.name}' is {attribute.kind} and has no order; compare it with = or <> or IN"
        )
    return said(values, _by_order(sign, code, attribute.cells), _unordered(attribute))


def _by_order(sign: Sign, code: int, count: int) -> Runs:
    first, last = {"<": (0, code - 1), "<=": (0, code), ">": (code + 1, count - 1), ">=": (code, count - 1)}[
        sign
    ]
    return cells.normal([(first, last)])


def _number_cells(attribute: Attribute, sign: Sign, value: Fraction) -> Runs:
    if sign == "=":
        return _equal(attribute, value)
    border = _border(attribute, sign, value)
    return cells.normal([(0, border - 1) if sign in ("<", "<=") else (border, attribute.cells - 1)])


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


def _number(attribute: Attribute, value: Value) -> Fraction:
    if isinstance(value, Fraction):
        return value
    raise WorkloadError(
        f"'{attribute.name}' is numeric; compare it with a number without quotes, got {_spelled(value)}"
    )


def _code(attribute: Attribute, value: Value) -> int:
    """The declared cell of a literal."""
    if attribute.codes is not None:
        number = Fraction(value) if isinstance(value, bool) and attribute.codes == 2 else value
        if isinstance(number, Fraction) and number.denominator == 1 and 0 <= number < attribute.codes:
            return int(number)
        raise WorkloadError(
            f"'{attribute.name}' holds the whole numbers 0 to {attribute.codes - 1}, got {_spelled(value)}"
        )
    assert attribute.categories is not None
    for code, category in enumerate(attribute.categories):
        if _matches(category, value):
            return code
    raise WorkloadError(f"{_spelled(value)} is no category of '{attribute.name}'; {_declared(attribute)}")


def _matches(category: Scalar, value: Value) -> bool:
    if isinstance(category, bool) or isinstance(value, bool):
        return category is value or str(category).lower() == str(value).lower()
    if isinstance(category, str):
        return category == (value if isinstance(value, str) else _spelled(value))
    if isinstance(value, Fraction):
        return _equals(float(category), value) if isinstance(category, float) else value == category
    return value == sql.number(category)


def _declared(attribute: Attribute) -> str:
    assert attribute.categories is not None
    shown = ", ".join(sql.spell(category) for category in attribute.categories[:_LISTED])
    more = attribute.cells - _LISTED
    listed = f"{shown} and {more} more" if more > 0 else shown
    return f"it has {listed}" + (
        " (other values share one cell and cannot be asked for)" if attribute.overflow else ""
    )


def _spelled(value: Value) -> str:
    if isinstance(value, Fraction):
        return str(int(value)) if value.denominator == 1 else repr(float(value))
    told = sql.spell(value)
    return told if len(told) <= 60 else told[:57] + "..."


def _unordered(attribute: Attribute) -> Runs:
    return cells.join(_cell(attribute.overflow_cell), _cell(attribute.null_cell))


def _cell(code: int | None) -> Runs:
    return () if code is None else ((code, code),)
