"""One column of the universe: its declared cells, how a value falls into them and how it comes back.

Codes are laid out in one order everywhere: the declared cells 0 .. cells-1, then the overflow cell if there
is one, then the null cell if the attribute is nullable.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from maquette.core import grid, values
from maquette.core.errors import DomainError
from maquette.core.grid import Grid
from maquette.core.values import spelling

Scalar = str | int | float | bool
Decoding = Literal["midpoint", "uniform"]

OTHER = "(other)"
SHOWN_VALUES = 8
"""Declared values of an attribute that are listed for a reader."""
MISSING = "(missing)"


class Kind(StrEnum):
    """What the values of an attribute mean."""

    CATEGORICAL = "categorical"
    ORDINAL = "ordinal"
    NUMERIC = "numeric"
    BOOLEAN = "boolean"


@dataclass(frozen=True, slots=True)
class Attribute:
    """A declared column. Exactly one of `categories`, `codes`, `bounds`, or `edges` is given."""

    name: str
    kind: Kind
    categories: tuple[Scalar, ...] | None = None
    codes: int | None = None
    """The values are the whole numbers 0 .. codes-1."""
    bounds: tuple[float, float] | None = None
    bins: int | None = None
    """Equal-width cells over the closed interval `bounds`; every cell but the last is open on the right."""
    edges: tuple[float, ...] | None = None
    """Increasing cell borders, where equal widths do not serve."""
    nullable: bool = False
    overflow: bool = False
    """A cell of its own for values outside the declaration."""
    integer: bool = False
    """A numeric attribute that holds whole numbers only, and only if it says so; decoded values are whole."""
    calendar: str | None = None
    """An ordinal attribute of days or moments: `categories` are all cells of a year, month, week, day or hour."""
    unit: float | None = None
    """A numeric attribute whose values are multiples of it, of which sums are taken; given by bounds without bins."""
    borders: tuple[float, ...] | None = field(init=False, repr=False, compare=False)
    """The edges, or those that follow from bounds and a unit without bins."""
    grid: Grid | None = field(init=False, repr=False, compare=False)
    """Its fine cells, if it has a unit."""
    cells: int = field(init=False, repr=False, compare=False)
    """How many cells are declared, without the overflow and null cells."""
    size: int = field(init=False, repr=False, compare=False)
    """All cells: declared, overflow, null. An exact int."""

    def __post_init__(self) -> None:
        if not _is_name(self.name):
            raise DomainError(f"an attribute needs a name without space around it, got {self.name!r}")
        self._settle_types()
        forms = [
            self.categories is not None,
            self.codes is not None,
            self.bounds is not None,
            self.edges is not None,
        ]
        if sum(forms) != 1:
            raise DomainError(
                f"attribute '{self.name}' needs exactly one of categories, size, bounds, or edges"
            )
        if self.bounds is None and self.bins is not None:
            raise DomainError(f"attribute '{self.name}': bounds and bins go together")
        if self.kind is Kind.NUMERIC and self.bounds is None and self.edges is None:
            raise DomainError(f"attribute '{self.name}' is numeric and needs bounds, or edges")
        if self.kind is not Kind.NUMERIC and (self.bounds is not None or self.edges is not None):
            raise DomainError(
                f"attribute '{self.name}' is {self.kind}: bounds and edges are for numeric attributes"
            )
        self._settle_grid()
        object.__setattr__(self, "cells", self._count_cells())
        object.__setattr__(self, "size", self.cells + self.overflow + self.nullable)
        self._check_values()

    def _settle_types(self) -> None:
        """Words become kinds and lists become tuples, so that equal declarations are equal values."""
        try:
            object.__setattr__(self, "kind", Kind(self.kind))
        except ValueError:
            kinds = ", ".join(Kind)
            raise DomainError(f"attribute '{self.name}': kind is one of {kinds}, got {self.kind!r}") from None
        for name in ("categories", "bounds", "edges"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, tuple(getattr(self, name)))
        for name, word in (("codes", "size"), ("bins", "bins")):
            count = getattr(self, name)
            if count is not None and (isinstance(count, bool) or not isinstance(count, int)):
                raise DomainError(f"attribute '{self.name}': {word} is a whole number, got {count!r}")

    def _settle_grid(self) -> None:
        """The fine cells, and where bounds come without bins also the borders of the cells."""
        bounds = (
            self.bounds if self.edges is None else (self.edges[0], self.edges[-1]) if self.edges else None
        )
        object.__setattr__(self, "borders", self.edges)
        object.__setattr__(self, "grid", None)
        if self.unit is not None and self.kind is not Kind.NUMERIC:
            raise DomainError(f"attribute '{self.name}' is {self.kind}: a unit is for numeric attributes")
        alone = self.bounds is not None and self.bins is None
        if bounds is None or not (alone or self.unit is not None):
            return
        self._check_ends(bounds)
        low, high = bounds
        try:
            unit = self.unit
            if unit is None:
                unit = grid.default_unit(low, high, integer=self.integer)
            grid.check_unit(unit)
            fine = Grid.over(low, high, unit, has_undeclared=self.nullable or self.overflow)
        except DomainError as error:
            raise DomainError(f"attribute '{self.name}': {error}") from None
        if self.integer and fine.unit.denominator != 1:
            raise DomainError(
                f"attribute '{self.name}' holds whole numbers; its unit is one too, got {unit:g}"
            )
        object.__setattr__(self, "unit", float(unit))
        object.__setattr__(self, "grid", fine)
        if alone:
            object.__setattr__(self, "borders", fine.borders())

    def _count_cells(self) -> int:
        if self.categories is not None:
            return len(self.categories)
        if self.codes is not None:
            return self.codes
        if self.borders is not None:
            return len(self.borders) - 1
        assert self.bins is not None
        return self.bins

    def _check_values(self) -> None:
        if self.categories is not None:
            if not self.categories:
                raise DomainError(f"attribute '{self.name}' has an empty list of categories")
            if not all(_is_scalar(c) for c in self.categories):
                raise DomainError(
                    f"attribute '{self.name}': categories are texts, finite numbers, true or false"
                )
            if len({spelling(c) for c in self.categories}) < len(self.categories):
                raise DomainError(f"attribute '{self.name}' lists a category twice")
        if self.calendar is not None:
            self._check_calendar(self.calendar)
        if self.codes is not None and self.codes < 1:
            raise DomainError(f"attribute '{self.name}' needs size >= 1, got {self.codes}")
        if self.kind is Kind.BOOLEAN and self.cells != 2:
            raise DomainError(f"attribute '{self.name}' is boolean and needs 2 values, got {self.cells}")
        if self.bounds is not None and self.bins is not None:
            self._check_bounds(self.bounds, self.bins)
        if self.edges is not None and (
            len(self.edges) < 2
            or not all(_is_finite(e) for e in self.edges)
            or any(a >= b for a, b in itertools.pairwise(self.edges))
        ):
            raise DomainError(f"attribute '{self.name}' needs at least two finite, increasing edges")
        if self.integer:
            self._check_whole_cells()

    def _check_calendar(self, unit: str) -> None:
        names = self.categories or ("", "")
        if self.kind is not Kind.ORDINAL or names != values.cells(unit, names[0], names[-1]):
            raise DomainError(
                f"attribute '{self.name}' has a calendar by {unit}: it is ordinal, and its categories are all cells "
                "between the first and the last"
            )

    def _check_ends(self, bounds: tuple[float, ...]) -> None:
        if len(bounds) != 2 or not all(_is_finite(b) for b in bounds) or bounds[0] >= bounds[1]:
            raise DomainError(f"attribute '{self.name}' needs finite bounds with low < high, got {bounds}")

    def _check_bounds(self, bounds: tuple[float, ...], bins: int) -> None:
        self._check_ends(bounds)
        if bins < 1:
            raise DomainError(f"attribute '{self.name}' needs bins >= 1, got {bins}")
        largest = max(abs(bounds[0]), abs(bounds[1]))
        if largest > _MAX_BORDER:
            raise DomainError(f"attribute '{self.name}' needs bounds within +-{_MAX_BORDER:g}, got {bounds}")
        if (bounds[1] - bounds[0]) / bins < 8 * math.ulp(largest):
            raise DomainError(f"attribute '{self.name}' has {bins} bins, too narrow to tell apart; use fewer")

    def _check_whole_cells(self) -> None:
        if self.kind is not Kind.NUMERIC:
            raise DomainError(f"attribute '{self.name}' is {self.kind}: integer is for numeric attributes")
        low, high = self.edge(0), self.edge(self.cells)
        if self.borders is None and high - low >= self.cells:
            return  # every cell is at least one wide
        if math.floor(high) - math.ceil(low) + 1 >= self.cells:
            first, last = self._whole_numbers(np.arange(self.cells))
            if np.all(first <= last):
                return
        raise DomainError(
            f"attribute '{self.name}' holds whole numbers, but some of its cells hold none; declare wider cells"
        )

    @property
    def overflow_cell(self) -> int | None:
        return self.cells if self.overflow else None

    @property
    def null_cell(self) -> int | None:
        return self.cells + self.overflow if self.nullable else None

    @property
    def missing_code(self) -> int:
        """Where a missing value goes: the null cell, else the overflow cell, else cell 0. Never an error."""
        return _first(self.null_cell, self.overflow_cell)

    @property
    def unknown_code(self) -> int:
        """Where a value outside the categories goes: the overflow cell, else the null cell, else cell 0."""
        return _first(self.overflow_cell, self.null_cell)

    @property
    def ordered(self) -> bool:
        """Do the declared cells have an order that prefixes and ranges may use?"""
        return self.kind in (Kind.NUMERIC, Kind.ORDINAL)

    @property
    def one_wide(self) -> bool:
        """Cells one wide between whole borders, without a declaration that the values are whole numbers."""
        if self.integer or self.bounds is None or self.bins is None:
            return False
        low, high = self.bounds
        return float(low).is_integer() and high - low == self.bins

    def edge(self, i: int) -> float:
        """The left border of cell i (or, at i = cells, the right border of the last cell)."""
        if self.borders is not None:
            return self.borders[i]
        assert self.bounds is not None
        assert self.bins is not None
        low, high = self.bounds
        return high if i == self.bins else low + (high - low) * i / self.bins

    def bin_index(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """The cell of each number, total: outside clamps to the edge or the overflow cell, NaN is missing."""
        values = np.asarray(values, dtype=np.float64)
        missing = np.isnan(values)
        if self.borders is not None:
            borders = np.asarray(self.borders)
            low, high = self.borders[0], self.borders[-1]
            clamped = np.clip(np.where(missing, low, values), low, high)
            code = np.minimum(np.searchsorted(borders, clamped, side="right") - 1, self.cells - 1)
        else:
            assert self.bounds is not None
            low, high = self.bounds
            clamped = np.clip(np.where(missing, low, values), low, high)
            code = np.floor((clamped - low) / (high - low) * self.cells).astype(np.int64)
            code = np.clip(code, 0, self.cells - 1)
            # the border itself decides, not the rounding of the division
            code = np.where(clamped < low + (high - low) * code / self.cells, code - 1, code)
            following = low + (high - low) * (code + 1) / self.cells
            code = np.where((clamped >= following) & (code < self.cells - 1), code + 1, code)
        code = code.astype(np.int64)
        if self.overflow_cell is not None:
            code = np.where((values < low) | (values > high), self.overflow_cell, code)
        return np.where(missing, self.missing_code, code)

    def fine_code(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """The fine cell of each number, total; a value beyond the bounds is undeclared where `bin_index` says so."""
        assert self.grid is not None
        values = np.asarray(values, dtype=np.float64)
        codes = self.grid.codes(values)
        if not self.overflow:
            return codes
        outside = (values < self.edge(0)) | (values > self.edge(self.cells))
        return np.where(outside, self.grid.undeclared_code, codes)

    def entry(self) -> dict[str, Any]:
        """The entry of the attribute in a domain file."""
        entry: dict[str, Any] = {"name": self.name, "kind": str(self.kind)}
        if self.calendar is not None and self.categories is not None:
            entry |= {
                "calendar": self.calendar,
                "from": self.categories[0],
                "to": self.categories[-1],
            }
        elif self.categories is not None:
            entry["categories"] = list(self.categories)
        if self.codes is not None:
            entry["size"] = self.codes
        if self.bounds is not None:
            entry["bounds"] = list(self.bounds)
        if self.bins is not None:
            entry["bins"] = self.bins
        if self.edges is not None:
            entry["edges"] = list(self.edges)
        if self.unit is not None:
            entry["unit"] = self.unit
        entry["nullable"] = self.nullable
        for flag in ("overflow", "integer"):
            if getattr(self, flag):
                entry[flag] = True
        return entry

    def decode(
        self, codes: NDArray[Any], *, how: Decoding = "midpoint", rng: np.random.Generator | None = None
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Real values for codes, and which of them are missing (their value is then a placeholder).

        Categories come back as declared. A numeric cell becomes its midpoint or a uniform value inside it
        (`rng` is then needed; post-processing, so its seed is nobody's secret). The overflow cell becomes
        "(other)" among texts and missing among numbers.
        """
        codes = np.asarray(codes)
        if codes.dtype != np.uint64:  # as they come for attributes with more than 2^32 cells
            codes = codes.astype(np.int64)
        missing = codes > self.cells - 1
        declared = np.where(missing, 0, codes)
        if self.codes is not None:
            return declared, missing
        if self.categories is not None:
            texts = all(isinstance(c, str) for c in self.categories)
            labels = np.array([*self.categories, OTHER] if texts else self.categories, dtype=object)
            if texts and self.overflow_cell is not None:
                other = codes == self.overflow_cell
                return labels[np.where(other, self.cells, declared)], missing & ~other
            return labels[declared], missing
        return self._decode_bins(declared, how=how, rng=rng), missing

    def _decode_bins(
        self, codes: NDArray[np.int64], *, how: Decoding, rng: np.random.Generator | None
    ) -> NDArray[Any]:
        if how == "uniform":
            if rng is None:
                raise DomainError("decoding to uniform values needs a generator (rng)")
            share = rng.random(len(codes))
        else:
            share = np.full(len(codes), 0.5)
        low, high = self._borders(codes)
        if not self.integer:
            # rounding must not lift a value over the border into the next cell
            return np.minimum(low + (high - low) * share, np.nextafter(high, low))
        first, last = self._whole_numbers(codes)
        return np.minimum(first + np.floor(share * (last - first + 1)), last).astype(np.int64)

    def _borders(self, codes: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Left and right border of each cell, the same numbers as `edge` gives."""
        if self.borders is not None:
            borders = np.asarray(self.borders, dtype=np.float64)
            return borders[codes], borders[codes + 1]
        assert self.bounds is not None
        start, end = self.bounds
        right = start + (end - start) * (codes + 1) / self.cells
        return start + (end - start) * codes / self.cells, np.where(codes == self.cells - 1, end, right)

    def _whole_numbers(self, codes: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The first and the last whole number to which each cell decodes."""
        low, high = self._borders(codes)
        return np.ceil(low), np.where(codes == self.cells - 1, np.floor(high), np.ceil(high) - 1)

    def ends(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The smallest and the largest value that each declared cell of a numeric attribute can hold."""
        codes = np.arange(self.cells)
        return self._whole_numbers(codes) if self.integer else self._borders(codes)

    @property
    def values_in_words(self) -> str:
        """The declared values: all of a few, the first of many, the bounds of numbers."""
        if self.kind is Kind.NUMERIC:
            return f"{self.edge(0):g} to {self.edge(self.cells):g} in {self.cells:,} bins"
        shown = [self.label(code) for code in range(min(self.cells, SHOWN_VALUES))]
        more = self.cells - len(shown)
        return ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")

    def closes_on_a_number(self, code: int) -> bool:
        """Is it the last cell, closed, one wide between two whole numbers and so of both of them?"""
        low, high = self.edge(code), self.edge(code + 1)
        return self.integer and code == self.cells - 1 and high - low == 1 and float(high).is_integer()

    def label(self, code: int) -> str:
        """A cell in words, for reports and messages."""
        if code == self.null_cell:
            return MISSING
        if code == self.overflow_cell:
            return OTHER
        if self.categories is not None:
            return str(self.categories[code])
        if self.codes is not None:
            return str(code)
        if self.integer and self.edge(code + 1) - self.edge(code) == 1 and not self.closes_on_a_number(code):
            return str(math.ceil(self.edge(code)))
        closing = "]" if code == self.cells - 1 else ")"
        return f"[{self.edge(code):.12g}, {self.edge(code + 1):.12g}{closing}"


_MAX_BORDER = 1e250
"""The arithmetic of the borders stays finite below this."""


def _is_finite(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_scalar(value: object) -> bool:
    return isinstance(value, (str, bool)) or _is_finite(value)


def _first(*cells: int | None) -> int:
    return next((c for c in cells if c is not None), 0)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value) and value == value.strip()
