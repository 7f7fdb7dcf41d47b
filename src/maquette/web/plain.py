"""Figures and cells as people say them: no more digits than the error allows, years without commas, bins in words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from maquette.core.attribute import Attribute, Kind
from maquette.core.measurement import Size
from maquette.queries.names import quote
from maquette.theory import quantiles

LONG = 10_000
"""From here on thousands are set apart by commas; 1972 is a year."""
EXPLAINED = {
    "certified": "Certified: the largest error of the finished release was measured on the table, with a little noise "
    "that the statement counts in.",
    "guaranteed": "Guaranteed: a theorem says so; it was known before anything was looked at.",
}
"""What the first word of a statement means."""


@dataclass(frozen=True, slots=True)
class Said:
    """A value and its error as texts."""

    value: str
    error: str
    """Empty where no error is stated."""

    def __str__(self) -> str:
        return f"{self.value}{f' {self.error}' if self.error else ''}"


def number(value: float | None, digits: int = 0) -> str:
    """With so many digits behind the point (before it, where negative)."""
    if value is None or not math.isfinite(value):
        return "not known"
    shown = round(value, digits) + 0.0  # no minus before a zero
    text = f"{shown:,.{max(digits, 0)}f}"
    return text if abs(shown) >= LONG else text.replace(",", "")


def said(value: float | None, error: float | None, *, unit: str = "") -> Said:
    """A figure, rounded to the second digit of its error; that is rounded up, and covers the rounding too.

    A value below its error keeps a digit more: 5 people, within 190.
    """
    if value is None or not math.isfinite(value):
        return Said("not known", "")
    if error is None or not math.isfinite(error):
        return Said(_with(_short(value), unit), "")
    if error <= 0:
        return Said(_with(_short(value), unit), "exact")
    digits = 1 - math.floor(math.log10(error))
    is_small = abs(value) < 10.0**-digits and round(value, digits + 1) != 0
    shown = digits + is_small
    reach = error + abs(round(value, shown) - value)
    up = math.ceil(reach * 10.0**digits * (1 - 1e-12)) / 10.0**digits
    return Said(_with(number(value, shown), unit), f"± {_with(number(up, digits), _error_unit(unit))}")


def share(value: float | None, error: float | None) -> Said:
    """A share of the records in percent, its error in points."""
    return said(None if value is None else 100 * value, None if error is None else 100 * error, unit="%")


def figure(name: str, value: float | None, error: float | None) -> Said:
    """A figure of a table by its name: shares in percent, all others as they are."""
    return share(value, error) if name.startswith("share") else said(value, error)


def people(value: float | None, error: float | None) -> Said:
    """A number of records: never below zero, whole where the error is."""
    return said(None if value is None else max(value, 0.0), error)


def _short(value: float) -> str:
    """Four digits at most behind the point, where no error says how many count."""
    if value == round(value) or abs(value) >= 1000:
        return number(value)
    return number(value, max(0, 3 - math.floor(math.log10(abs(value))))).rstrip("0").rstrip(".")


def _with(text: str, unit: str) -> str:
    return f"{text} {unit}" if unit else text


def _error_unit(unit: str) -> str:
    return "points" if unit == "%" else unit


def statement(text: str) -> str:
    """By what a figure is known, without the words of those who made the release."""
    return text.replace("every query of the workload", "every figure that the release was made for")


def figure_name(name: str) -> str:
    """A figure as a heading says it."""
    return {"count(*)": "records", "share()": "share of the records"}.get(name, name)


def explained(text: str) -> str:
    """A statement, and what its first word means."""
    return " ".join([f"{statement(text)}.", EXPLAINED.get(text.split(" ")[0], "")]).strip()


@lru_cache(maxsize=4096)
def cell(attribute: Attribute, code: int) -> str:
    """A cell: 60 to 69, 10,000 to under 20,000, north."""
    if attribute.kind is not Kind.NUMERIC or code >= attribute.cells:
        return attribute.label(code)
    return run(attribute, code, code)


def run(attribute: Attribute, first: int, last: int) -> str:
    """Neighbouring cells of an ordered attribute."""
    if attribute.kind is not Kind.NUMERIC or last >= attribute.cells:
        low, high = attribute.label(first), attribute.label(last)
        return low if first == last else f"{low} to {high}"
    low, high = attribute.edge(first), attribute.edge(last + 1)
    if attribute.integer:
        low, high = math.ceil(low), math.floor(high) if last == attribute.cells - 1 else math.ceil(high) - 1
        return number(low) if low == high else f"{number(low)} to {number(high)}"
    under = "" if last == attribute.cells - 1 else "under "
    return f"{_edge(low)} to {under}{_edge(high)}"


def _edge(value: float) -> str:
    return number(value) if float(value).is_integer() else f"{value:.6g}"


def sql_name(name: str) -> str:
    """A column as SQL writes it."""
    return quote(name)


def in_words(value: Any) -> str:
    """A cell of a table on a page."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _short(value) if isinstance(value, float) else "not known" if value is None else str(value)


SIZE_CHANCE = 0.05
"""Of the error that stands beside a number of records."""


def reach_of(size: Size) -> float:
    """How far a number of records may be off, except with a small chance."""
    return 0.0 if size.noise is None else quantiles.reach(size.noise, SIZE_CHANCE)
