"""Cells in SQL: the words that `where` reads back as the same cells."""

from __future__ import annotations

import math

from maquette.domain import Attribute, Kind
from maquette.domain.attribute import Scalar
from maquette.queries.names import quote

MOST_LISTED = 128
"""Literals in one list; `where` accepts no more."""


def code_text(attribute: Attribute, code: int) -> str:
    """The records in one cell."""
    name = quote(attribute.name)
    if code == attribute.null_cell:
        return f"{name} IS NULL"
    if code == attribute.overflow_cell:
        if attribute.kind is Kind.NUMERIC or attribute.cells > MOST_LISTED:
            return f"{name} = (other)"  # no predicate says this
        return f"{name} NOT IN ({', '.join(literal(attribute, c) for c in range(attribute.cells))})"
    if attribute.kind is Kind.NUMERIC:
        return run_text(attribute, code, code)
    return f"{name} = {literal(attribute, code)}"


def run_text(attribute: Attribute, low: int, high: int) -> str:
    """The records in the declared cells low .. high of an ordered attribute."""
    name = quote(attribute.name)
    last = attribute.cells - 1
    if attribute.kind is Kind.NUMERIC and not one_wide(attribute):
        if low == high and attribute.whole and len(set(whole_numbers(attribute, low))) == 1:
            return f"{name} = {whole_numbers(attribute, low)[0]}"
        above = f"{name} >= {number(attribute.edge(low))}"
        below = f"{name} < {number(attribute.edge(high + 1))}"
        return above if high == last else below if low == 0 else f"{above} AND {below}"
    if low == high:
        return f"{name} = {literal(attribute, low)}"
    if high == last:
        return f"{name} >= {literal(attribute, low)}"
    if low == 0:
        return f"{name} <= {literal(attribute, high)}"
    return f"{name} BETWEEN {literal(attribute, low)} AND {literal(attribute, high)}"


def literal(attribute: Attribute, code: int) -> str:
    """A declared cell's value: its category, its number, or the left border of its bin."""
    if attribute.categories is not None:
        return spell(attribute.categories[code])
    return str(code) if attribute.codes is not None else number(attribute.edge(code))


def spell(value: Scalar) -> str:
    """A value as an SQL literal."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return number(value)


def number(value: float) -> str:
    """A number in its shortest exact form."""
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(value)


def one_wide(attribute: Attribute) -> bool:
    """Does each bin stand for one whole number, its left border?"""
    return attribute.whole and not attribute.integer


def whole_numbers(attribute: Attribute, code: int) -> tuple[int, int]:
    """The first and the last whole number in a bin of a whole-number attribute."""
    first, last = math.ceil(attribute.edge(code)), math.ceil(attribute.edge(code + 1)) - 1
    if one_wide(attribute):
        return first, first
    return first, math.floor(attribute.edge(code + 1)) if code == attribute.cells - 1 else last
