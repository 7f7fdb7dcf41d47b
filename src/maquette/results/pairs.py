"""The strongest two-way tables of a release as heat maps: how often values go together, with the stated errors.

Everything here is read off the released answers. Which tables are strongest is decided on coarse cells, so that noise
of many small ones does not decide it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from maquette.core.attribute import MISSING, OTHER, Kind
from maquette.domain import Attribute
from maquette.queries import condition
from maquette.queries.condition import Every, Leaf
from maquette.queries.marginals import Marginals
from maquette.queries.names import whole_numbers
from maquette.queries.predicates import of_condition
from maquette.results import wording
from maquette.results.knowledge import estimate

if TYPE_CHECKING:
    from maquette.queries.rows import Margin
    from maquette.results.release import Release

MAX_PAIRS = 500
"""Two-way tables that are compared."""
MAX_TABLE_CELLS = 2**21
"""A larger table is not read for this."""
MAX_LINES = 7
"""Rows and columns of a heat map, without those of other and missing values."""
MAX_MAPS = 4
MAX_CANDIDATES = 16
"""Maps that are made to choose from: noise can look like strength, so the errors decide among them."""
LEVELS = 3
"""Tones of colour on either side of what independence would give."""
FULL_TONE = 0.05
"""The difference from independence, as a share of the records, at which the tone is full."""


@dataclass(frozen=True, slots=True)
class HeatCell:
    """One cell: its share in words, its tone from -3 (rarer than by chance) to 3 (more often), and what is not sure."""

    text: str
    value: float
    """As a share of the records."""
    error: float | None
    tone: int
    is_sure: bool
    """Whether its share is above its stated error; otherwise it may be nothing."""
    title: str


_Cell = TypeVar("_Cell")


@dataclass(frozen=True, slots=True)
class CrossTable(Generic[_Cell]):
    """Two attributes, one down and one across."""

    down: str
    across: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[_Cell, ...]], ...]


@dataclass(frozen=True, slots=True)
class HeatMap(CrossTable[HeatCell]):
    """Shares of two attributes against what chance would give."""

    error: float | None
    """The largest stated error of a cell; None where one has no stated error."""
    alone: bool
    """Whether some of these errors hold for its own cell alone, and not for all together."""
    evidence: float
    """How much the cells differ from independence beyond their stated errors, added up."""

    @property
    def caption(self) -> str:
        if self.error is None:
            return "some cells have no stated error"
        if self.alone:
            return f"each cell by itself within {wording.points(self.error)}: of many cells a few will lie outside"
        return f"every cell within {wording.points(self.error)}, all together"


def heat_maps(release: Release) -> list[HeatMap]:
    """The tables in which two attributes depend on each other most, strongest first; none without marginals."""
    strengths = [
        (_strength(table), pair)
        for pair in _pairs(release)
        if (table := _coarse_table(release, pair)) is not None
    ]
    strengths.sort(key=lambda one: (-one[0], one[1]))
    maps = [heat_map(release, pair) for strength, pair in strengths[:MAX_CANDIDATES] if strength > 0]
    return sorted((one for one in maps if one is not None), key=lambda one: -one.evidence)[:MAX_MAPS]


def bundles(attribute: Attribute, most: int) -> Iterator[tuple[str, range]]:
    """The cells of an attribute in at most so many bundles of neighbours, then the overflow and null cells."""
    width = -(-attribute.cells // most)
    for start in range(0, attribute.cells, width):
        stop = min(start + width, attribute.cells)
        yield _label(attribute, start, stop - 1), range(start, stop)
    if attribute.overflow_cell is not None:
        yield OTHER, range(attribute.overflow_cell, attribute.overflow_cell + 1)
    if attribute.null_cell is not None:
        yield MISSING, range(attribute.null_cell, attribute.null_cell + 1)


def _label(attribute: Attribute, first: int, last: int) -> str:
    if first == last:
        return attribute.label(first)
    if attribute.integer:
        return f"{whole_numbers(attribute, first)[0]} – {whole_numbers(attribute, last)[1]}"
    if attribute.kind is Kind.NUMERIC:
        return f"{attribute.edge(first):g} – {attribute.edge(last + 1):g}"
    return f"{attribute.label(first)} … {attribute.label(last)}"


# Which tables there are, and how much two attributes have to do with each other in one.


def _pairs(release: Release) -> list[Margin]:
    """Pairs of attributes that some marginal of the workload holds together."""
    if not release.listed:
        return []
    together = {
        pair
        for part in release.workload.classes
        if isinstance(part, Marginals)
        for margin in part.margins
        if release.domain.cells(margin) <= MAX_TABLE_CELLS
        for pair in combinations(margin, 2)
        if all(release.domain[name].size > 1 for name in pair)
    }
    return sorted(together)[:MAX_PAIRS]


def _coarse_table(release: Release, pair: Margin) -> NDArray[np.float64] | None:
    """The released shares of a pair in bundles, from the smallest marginal that holds it."""
    best: tuple[int, Marginals, int, Margin] | None = None
    start = 0
    for part in release.workload.classes:
        if isinstance(part, Marginals):
            for margin in part.margins:
                cells = part.domain.cells(margin)
                if set(pair) <= set(margin) and (best is None or cells < best[0]):
                    best = (cells, part, start, margin)
        start += part.count
    if best is None or best[0] > MAX_TABLE_CELLS:
        return None
    cells, part, offset, margin = best
    place = offset + part.slices[margin].start
    values = release.answers.numerators[place : place + cells] / release.answers.denominator
    table = values.reshape([release.domain[name].size for name in margin])
    table = table.sum(axis=tuple(i for i, name in enumerate(margin) if name not in pair))
    if [name for name in margin if name in pair] != list(pair):
        table = table.T
    for axis, name in enumerate(pair):
        starts = [codes.start for _, codes in bundles(release.domain[name], MAX_LINES)]
        table = np.add.reduceat(table, starts, axis=axis)
    return table


def _strength(table: NDArray[np.float64]) -> float:
    """Half the sum of the differences from independence: the share of records that would have to change cells."""
    total = table.sum()
    if not total > 0:
        return 0.0
    return float(np.abs(_excess(table)).sum() / 2)


def _excess(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """How much larger every share is than independence would give."""
    total = max(float(table.sum()), 1e-12)
    return table - np.outer(table.sum(axis=1), table.sum(axis=0)) / total


# One map, with the statements that the release makes about its cells.


def heat_map(release: Release, pair: Margin, *, most: int = MAX_LINES) -> HeatMap | None:
    """The table of two attributes with at most so many lines either way; None where a cell is not covered."""
    down, across = (list(bundles(release.domain[name], most)) for name in pair)
    shares = [[_share(release, pair, rows, columns) for _, columns in across] for _, rows in down]
    if any(share is None for line in shares for share in line):
        return None
    values = np.array([[0.0 if share is None else share[0] for share in line] for line in shares])
    errors = [share[1] for line in shares for share in line if share is not None]
    excess = _excess(values)
    rows = tuple(
        (
            label,
            tuple(
                _cell(float(values[i, j]), errors[i * len(across) + j], excess[i, j])
                for j in range(len(across))
            ),
        )
        for i, (label, _) in enumerate(down)
    )
    bounds = [error for error in errors if error is not None]
    beyond = [abs(e) - error for e, error in zip(excess.flat, errors, strict=True) if error is not None]
    return HeatMap(
        down=pair[0],
        across=pair[1],
        columns=tuple(label for label, _ in across),
        rows=rows,
        error=max(bounds) if len(bounds) == len(errors) else None,
        alone=any(share[2] for line in shares for share in line if share is not None),
        evidence=float(sum(max(one, 0.0) for one in beyond)),
    )


def _share(
    release: Release, pair: Margin, rows: range, columns: range
) -> tuple[float, float | None, bool] | None:
    leaves = (
        Leaf(name, ((codes.start, codes.stop - 1),))
        for name, codes in zip(pair, (rows, columns), strict=True)
    )
    result = estimate(
        release, of_condition(release.domain, condition.simplify(release.domain, Every(tuple(leaves))))
    )
    return None if result is None else (result.value, result.error, result.alone)


def _cell(value: float, error: float | None, excess: float) -> HeatCell:
    is_sure = error is not None and value > error
    most = LEVELS if is_sure else 1
    tone = int(np.clip(round(LEVELS * excess / FULL_TONE), -most, most))
    statement = "no stated error" if error is None else f"± {wording.points(error)}"
    return HeatCell(
        text=f"{100 * value:.1f}" if value >= 0.0005 else "0",
        value=value,
        error=error,
        tone=tone,
        is_sure=is_sure,
        title=f"{wording.percent(value)}, {statement}",
    )
