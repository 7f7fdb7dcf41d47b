"""How a comparison with a literal reads as cells of the declared attribute.

What is true and what is unknown are sets of cells; the rest is false. A null is unknown to every comparison. A
value outside the declaration (the overflow cell) is unknown to every comparison of a numeric attribute and to
comparisons by order; it is not equal to any category.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from maquette.domain import Attribute, Kind
from maquette.domain.attribute import Scalar
from maquette.errors import WorkloadError
from maquette.queries import cells, sql
from maquette.queries.cells import Runs
from maquette.queries.names import quote

Value = str | bool | Fraction
"""A literal: text, truth value or number."""
Sign = str
"""One of = < <= > >=."""

_LISTED = 20


@dataclass(frozen=True, slots=True)
class Reading:
    """The cells where a comparison holds and where it is unknown, and what a user should know about it."""

    true: Runs
    unknown: Runs
    note: str | None = None


def is_null(attribute: Attribute) -> Reading:
    """IS NULL: never unknown."""
    return Reading(_cell(attribute.null_cell), ())


def compare(attribute: Attribute, sign: Sign, value: Value) -> Reading:
    """An attribute compared with a literal."""
    if attribute.kind is Kind.NUMERIC:
        return _compare_number(attribute, sign, _number(attribute, value))
    code = _code(attribute, value)
    if sign == "=":
        return Reading(_cell(code), _cell(attribute.null_cell))
    if not attribute.ordered:
        raise WorkloadError(
            f"'{attribute.name}' is {attribute.kind} and has no order; compare it with = or <> or IN"
        )
    return Reading(_by_order(sign, code, attribute.cells), _unordered(attribute))


def _by_order(sign: Sign, code: int, count: int) -> Runs:
    first, last = {"<": (0, code - 1), "<=": (0, code), ">": (code + 1, count - 1), ">=": (code, count - 1)}[
        sign
    ]
    return cells.normal([(first, last)])


def _compare_number(attribute: Attribute, sign: Sign, value: Fraction) -> Reading:
    if sign == "=":
        true, exact = _equal(attribute, value)
    else:
        border, exact = _border(attribute, sign, value)
        true = cells.normal([(0, border - 1) if sign in ("<", "<=") else (border, attribute.cells - 1)])
    return Reading(true, _unordered(attribute), None if exact else _note(attribute, sign, value, true))


def _note(attribute: Attribute, sign: Sign, value: Fraction, true: Runs) -> str:
    told = "no record"
    if true:
        told = (
            "all declared cells"
            if true == cells.whole(attribute.cells)
            else sql.run_text(attribute, *true[0])
        )
    return f"{quote(attribute.name)} {sign} {_spelled(value)} was read as {told}"


def _equal(attribute: Attribute, value: Fraction) -> tuple[Runs, bool]:
    """The cell that holds the value, and whether it holds nothing else."""
    inside = attribute.edge(0) <= value <= attribute.edge(attribute.cells)
    if not inside or (attribute.whole and value.denominator != 1):
        return (), False
    if sql.one_wide(attribute):
        code = int(value - Fraction(attribute.edge(0)))
        return (_cell(code), True) if code < attribute.cells else ((), False)
    code = min(_last_edge_at_most(attribute, value), attribute.cells - 1)
    return _cell(code), attribute.whole and len(set(sql.whole_numbers(attribute, code))) == 1


def _border(attribute: Attribute, sign: Sign, value: Fraction) -> tuple[int, bool]:
    """The cell border nearest to the one that a comparison asks for, and whether it is that one.

    The last cell includes its right border, which is why <= and > are exact there and < and >= are not.
    """
    end = attribute.cells
    if sign in ("<", ">="):
        below = _last_edge_at_most(attribute, value)
        if below >= 0 and _equals(attribute.edge(below), value):
            return below, below < end or sql.one_wide(attribute)
    elif _equals(attribute.edge(end), Fraction(math.floor(value)) if attribute.whole else value):
        return end, True
    if attribute.whole:
        value = Fraction(math.floor(value) + 1 if sign in ("<=", ">") else math.ceil(value))
    nearest = _nearest_edge(attribute, value)
    edge = attribute.edge(nearest)
    same = math.ceil(edge) == value if attribute.whole else _equals(edge, value)
    return nearest, same and (nearest < end or sql.one_wide(attribute))


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
