"""The number that a cell stands for in a half-space, exactly."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from maquette.domain import Attribute, Domain, Kind
from maquette.errors import WorkloadError
from maquette.queries import names, sql

MOST_VALUES = 2**20
"""Cells of an attribute whose values are listed."""


def exact(number: object, *, what: str) -> Fraction:
    """A number as it was written: floats by their shortest decimal, so that 0.1 is a tenth."""
    if isinstance(number, Fraction):
        return number
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise WorkloadError(f"expected a number as {what}, got {number!r}")
    if isinstance(number, float) and not math.isfinite(number):
        raise WorkloadError(f"expected a finite number as {what}, got {number!r}")
    return Fraction(number) if isinstance(number, int) else Fraction(repr(float(number)))


def numeric(domain: Domain, name: str) -> Attribute:
    """The attribute of this name, if its cells have values: numeric, ordinal, or two declared cells."""
    attribute = names.attribute(domain, name)
    if not (attribute.ordered or attribute.cells == 2):
        raise WorkloadError(
            f"half-spaces need numeric, ordinal or binary attributes, but '{name}' is {attribute.kind} "
            f"with {attribute.cells} categories"
        )
    return attribute


def value(attribute: Attribute, code: int) -> Fraction:
    """The value of a declared cell.

    A bin's midpoint (of the whole numbers in it, for integer attributes; its left border, where bins are one wide
    between whole borders), a number among the categories itself, and the code of any other cell.
    """
    if attribute.kind is Kind.NUMERIC:
        return _middle(attribute, code)
    if attribute.categories is not None and attribute.ordered:
        categories = attribute.categories
        if all(isinstance(c, (int, float)) and not isinstance(c, bool) for c in categories):
            return exact(categories[code], what="a category")
    return Fraction(code)


class Whole(NamedTuple):
    """The values of all declared cells as whole numbers over one denominator."""

    numerators: tuple[int, ...]
    denominator: int


@lru_cache(maxsize=64)
def whole_values(attribute: Attribute) -> Whole:
    """The values of all declared cells."""
    if attribute.cells > MOST_VALUES:
        raise WorkloadError(
            f"'{attribute.name}' has {attribute.cells:,} cells, more than {MOST_VALUES:,}; declare coarser cells"
        )
    found = [value(attribute, code) for code in range(attribute.cells)]
    denominator = math.lcm(*(v.denominator for v in found))
    return Whole(tuple(int(v * denominator) for v in found), denominator)


def extremes(attribute: Attribute) -> tuple[Fraction, Fraction]:
    """The smallest and the largest value of a declared cell."""
    if attribute.categories is None:  # values rise with the code
        return value(attribute, 0), value(attribute, attribute.cells - 1)
    numerators, denominator = whole_values(attribute)
    return Fraction(min(numerators), denominator), Fraction(max(numerators), denominator)


def _middle(attribute: Attribute, code: int) -> Fraction:
    if attribute.integer or attribute.one_wide:
        first, last = sql.whole_numbers(attribute, code)
        return Fraction(first + last, 2)
    return (_border(attribute, code) + _border(attribute, code + 1)) / 2


def _border(attribute: Attribute, index: int) -> Fraction:
    if attribute.edges is not None:
        return exact(attribute.edges[index], what="an edge")
    assert attribute.bounds is not None
    assert attribute.bins is not None
    low, high = (exact(bound, what="a bound") for bound in attribute.bounds)
    return low + (high - low) * Fraction(index, attribute.bins)
