"""What the synthetic rows are fitted to: released tables of one, two or three attributes as flat arrays.

A `Layout` places the cells of all tables in one array, so that compiled loops find the cells of a row by additions
alone; `Targets` holds the wanted count of each cell and how firmly it is wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.core.tables import count_tables
from maquette.sculpt.bins import Hierarchy, Shape, bin_index
from maquette.sculpt.effects import Effects, effects_of
from maquette.sculpt.measurements import Measurements

MAX_ORDER = 3
"""Attributes of the widest table that rows are fitted to."""
# Chosen on the tables of benchmarks/sculpt.py (figures in benchmarks/results/sculpt.jsonl):
_ONE_WAY_PRIOR = 0.5
"""Prior deviation of one-way tables."""
_UNMEASURED_PRIOR = 1.0
"""Prior deviation of pairs that were not measured: they are near independence, and how near is in their deviations."""
_MIN_CELLS = 4
"""Of a table whose distance from the rows can be distinguished from noise."""
_TRUSTED = 2.5
"""Deviations that rows may lie from a measurement."""
_CLEAR = 128.0
"""Of the squared noise by the prior variance of a count, from which on the measurement begins to count less; of 8, 32
and 128 on ten tables of the tuning half of benchmarks/families and on Adult, cells 2@1 and 2@10."""
SAMPLING = 0.02
"""The sampling variance of swept rows, as a share of the count."""
# Large enough to rule a cell out:
_FORBIDDEN_LOG = -25.0
"""The log-potential of cells that the domain forbids: never drawn in single precision beside any allowed cell."""
_FORBIDDEN_PRECISION = 1e6
"""The precision of such cells where rows are repaired."""


@dataclass(frozen=True, slots=True, eq=False)
class LevelMaps:
    """The levels that some table uses, as arrays; "level" counts the used ones from here on."""

    depths: NDArray[np.int64]
    """(attributes) Used levels; the finest is always among them."""
    bins: NDArray[np.int64]
    """(attributes, levels) Bins."""
    maps: NDArray[np.uint16]
    """(attributes + 1, levels, row codes) The bin of every row code; the last attribute is a dummy of one bin."""
    parents: NDArray[np.uint16]
    """(attributes + 1, levels, bins) The bin one level up."""

    @classmethod
    def of(cls, hierarchy: Hierarchy, used: Sequence[Sequence[int]]) -> LevelMaps:
        count, depth = len(used), max(map(len, used))
        widest = max(len(levels[0]) for levels in hierarchy.cuts)
        depths = np.array([len(levels) for levels in used], dtype=np.int64)
        bins = np.ones((count, depth), dtype=np.int64)
        maps, parents = np.zeros((2, count + 1, depth, widest), dtype=np.uint16)
        for a, levels in enumerate(used):
            cuts = [hierarchy.cuts[a][level] for level in levels]
            for i, cut in enumerate(cuts):
                bins[a, i] = len(cut)
                maps[a, i, : len(cuts[0])] = bin_index(cuts[0], cut)
            for i, (fine, coarse) in enumerate(pairwise(cuts)):
                parents[a, i, : len(fine)] = bin_index(fine, coarse)
        return cls(depths, bins, maps, parents)

    def map_at(self, attribute: int, level: int) -> int:
        """Where the map of a level begins when all maps stand in one line."""
        _, depth, widest = self.maps.shape
        return (attribute * depth + level) * widest


LEVEL, SIZE, MAP = range(3)
FIRST, FIRST_MAP, FIRST_SIZE, SECOND, SECOND_MAP, SECOND_SIZE = range(3, 9)
CELL, CELL_OWN, CELL_FIRST, CELL_SECOND = range(9, 13)
ORDER, COLUMNS = 13, 14
"""Columns of a table as one of its attributes sees it (a member): that attribute's level, bins and map; the other
attributes with their maps and bins (the dummy where there is none); where its cells begin, and the three strides; its
order."""


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Many tables side by side in one array of cells."""

    hierarchy: Hierarchy
    levels: LevelMaps
    shapes: tuple[Shape, ...]
    orders: NDArray[np.int64]
    """(tables) Attributes of each table."""
    sizes: NDArray[np.int64]
    """(tables, 3) Bins along each attribute, 1 where there is none."""
    offsets: NDArray[np.int64]
    """(tables + 1) Where each table's cells begin."""
    pointers: NDArray[np.int64]
    """(attributes + 1) Where each attribute's run in `members` begins."""
    members: NDArray[np.int32]
    """(incidences, COLUMNS) What a visit of an attribute needs of every table that holds it, the finest level first."""

    @classmethod
    def of(cls, hierarchy: Hierarchy, shapes: Sequence[Shape]) -> Layout:
        count = len(shapes)
        used: list[set[int]] = [{0} for _ in hierarchy.cuts]
        for shape in shapes:
            for a, level in zip(*shape, strict=True):
                used[a].add(level)
        ordered = [sorted(levels) for levels in used]
        levels = LevelMaps.of(hierarchy, ordered)
        sizes = np.ones((count, MAX_ORDER), dtype=np.int64)
        for i, shape in enumerate(shapes):
            for j, (a, level) in enumerate(zip(*shape, strict=True)):
                sizes[i, j] = hierarchy.bins(a, level)
        offsets = np.concatenate([[0], np.cumsum(sizes.prod(axis=1))]).astype(np.int64)
        members: list[list[list[int]]] = [[] for _ in used]
        for i, shape in enumerate(shapes):
            places = [(a, ordered[a].index(level)) for a, level in zip(*shape, strict=True)]
            for j, (a, _) in enumerate(places):
                members[a].append(_member(levels, places, j, sizes[i], int(offsets[i])))
        return cls(
            hierarchy=hierarchy,
            levels=levels,
            shapes=tuple(shapes),
            orders=np.array([len(shape.attributes) for shape in shapes], dtype=np.int64),
            sizes=sizes,
            offsets=offsets,
            pointers=np.cumsum([0, *map(len, members)]).astype(np.int64),
            members=np.array(
                [row for run in members for row in sorted(run, key=itemgetter(LEVEL))], dtype=np.int32
            ).reshape(-1, COLUMNS),
        )

    @property
    def cells(self) -> int:
        return int(self.offsets[-1])

    def place(self, table: int) -> slice:
        """Where one table's cells stand."""
        return slice(int(self.offsets[table]), int(self.offsets[table + 1]))

    @property
    def interactions_at(self) -> int:
        """Where the cells of tables of several attributes begin; one-way tables stand before."""
        return int(self.offsets[np.searchsorted(self.orders, 2)])

    def count(self, rows: NDArray[np.uint16]) -> NDArray[np.float64]:
        """How many rows lie in every cell."""
        return np.concatenate(count_shapes(self.hierarchy, self.shapes, rows), dtype=np.float64)


def count_shapes(
    hierarchy: Hierarchy, shapes: Sequence[Shape], rows: NDArray[np.uint16]
) -> list[NDArray[np.int64]]:
    """How many rows lie in the cells of every table, flat."""
    margins = [tuple(f"{a}/{level}" for a, level in zip(*shape, strict=True)) for shape in shapes]
    columns: dict[str, NDArray[np.unsignedinteger[Any]]] = {}
    sizes: dict[str, int] = {}
    for a, level in {place for shape in shapes for place in zip(*shape, strict=True)}:
        bins = hierarchy.bins(a, level)
        short = np.min_scalar_type(bins - 1)
        columns[f"{a}/{level}"] = hierarchy.bin_of_row_codes(a, level).astype(short)[rows[:, a]]
        sizes[f"{a}/{level}"] = bins
    tables = count_tables(sizes, columns, list(dict.fromkeys(margins)), rows=len(rows))
    return [tables[margin].reshape(-1) for margin in margins]


def _member(
    levels: LevelMaps, places: Sequence[tuple[int, int]], own: int, sizes: NDArray[np.int64], offset: int
) -> list[int]:
    """One table as its attribute number `own` sees it; `places` are the attributes with their levels."""
    others = [t for t in range(len(places)) if t != own]
    dummy = (0, levels.map_at(len(levels.depths), 0), 1)
    other_columns = [(places[t][0], levels.map_at(*places[t]), int(sizes[t])) for t in others] + [dummy] * (
        2 - len(others)
    )
    strides = [int(sizes[t + 1 :].prod()) for t in (own, *others)] + [0] * (2 - len(others))
    return [
        *(places[own][1], int(sizes[own]), levels.map_at(*places[own])),
        *(other_columns[0] + other_columns[1]),
        *(offset, *strides),
        len(places),
    ]


@dataclass(slots=True, eq=False)
class Targets:
    """What the rows should look like, one entry per cell of a layout."""

    counts: NDArray[np.float64]
    """Wanted counts, in rows."""
    deviations: NDArray[np.float64]
    """Of the noise in them, in rows."""
    prior_deviations: NDArray[np.float64]
    """tau: the prior deviation of the cell's log-interaction; 0 where the cell has a fixed potential alone."""
    fixed: NDArray[np.float64]
    """Fixed log-potentials."""

    def goals(self, average: NDArray[np.float64], offsets: NDArray[np.int64]) -> NDArray[np.float64]:
        """Counts that a repair leads to: the rows' own average over sweeps, near the measurement; `offsets` are those
        of the layout."""
        signals = (self.prior_deviations * (average + 1)) ** 2
        return blend(average, self.counts, self.deviations, signals, offsets)

    @property
    def precisions(self) -> NDArray[np.float64]:
        """How much a squared residual of each cell counts in a repair; rows stay out of structural zeros."""
        measured_precisions = 1 / np.maximum(self.deviations, 1.0) ** 2
        return np.where(self.prior_deviations > 0, measured_precisions, _FORBIDDEN_PRECISION)


def blend(
    average: NDArray[np.float64],
    noisy: NDArray[np.float64],
    deviations: NDArray[np.float64] | float,
    signals: NDArray[np.float64],
    offsets: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Counts of rows, averaged over sweeps, brought near what was measured of them; not negative.

    The rows share out what all tables say together, so they are the better estimate wherever noise is all that is
    wrong with a measurement. They are kept within a few deviations of it, and follow it by precision where their own
    sampling error is the larger one. Where the prior variance of a count (`signals`) is many times that of its noise
    other tables have nothing to add: there the measurement stands. `offsets` is where each table begins, and the end.

    Rows that lie farther from a table than its noise explains did not reach it (mostly of columns that are tied to each
    other): there they count as much less as the squared distance says (James and Stein 1961).
    """
    sizes, distances = np.diff(offsets), ((average - noisy) / deviations) ** 2
    expected = sizes / np.maximum(np.add.reduceat(distances, offsets[:-1]), 1e-12)
    missed = np.where(sizes < _MIN_CELLS, 0.0, np.maximum(1 - expected, 0.0))
    average = average + np.repeat(missed, sizes) * (noisy - average)
    width = _TRUSTED * deviations
    counts = np.maximum(np.clip(average, noisy - width, noisy + width), 0.0)
    sampling = SAMPLING * counts
    counts += sampling / (sampling + deviations**2) * (noisy - counts)
    clear = np.exp(-_CLEAR * deviations**2 / np.maximum(signals, 1e-12))
    return np.maximum(counts + clear * (noisy - counts), 0.0)


def targets_of(measurements: Measurements, m: int) -> tuple[Layout, Targets]:
    """Everything released as targets for m rows.

    One-way tables, structural zeros, tables of several attributes, pairs that were not measured, sums of tables.
    """
    hierarchy, one_way, zeros = measurements.hierarchy, measurements.one_way, measurements.structural_zeros
    estimates, unmeasured = measurements.estimates(), measurements.unmeasured_pairs()
    effects = [effects_of(hierarchy, table) for table in estimates.values()]
    coarse = [level for levels in effects for level in levels[:-1] if level.table.shape not in estimates]
    singles = [Shape((a,), (0,)) for a in range(len(one_way))]
    sums = (level.table.shape for level in coarse)
    shapes = [*singles, *(shape for shape, _ in zeros), *estimates, *unmeasured, *sums]
    layout = Layout.of(hierarchy, shapes)
    counts, deviations, prior_deviations = np.empty((3, layout.cells))
    fixed = np.zeros(layout.cells)
    places = iter(range(len(shapes)))
    for a, codes in enumerate(one_way):
        place = layout.place(next(places))
        counts[place] = hierarchy.sum_in_bins(a, 0, codes)
        deviations[place] = np.sqrt(measurements.one_way_variances[a])
        prior_deviations[place] = _ONE_WAY_PRIOR
        fixed[place] = np.log(np.maximum(counts[place] / counts[place].sum(), 1e-7))
    for _, allowed in zeros:
        place = layout.place(next(places))
        counts[place], deviations[place], prior_deviations[place] = 0.0, 1.0, 0.0
        fixed[place] = np.where(allowed, 0.0, _FORBIDDEN_LOG)
    fine = [levels[-1] for levels in effects]
    free = [Effects(table, np.full(len(table.counts), _UNMEASURED_PRIOR)) for table in unmeasured.values()]
    for level in (*fine, *free, *coarse):
        place = layout.place(next(places))
        counts[place], deviations[place] = level.table.counts, np.sqrt(level.table.variances)
        prior_deviations[place] = level.deviations
    scale = m / measurements.total
    return layout, Targets(counts * scale, deviations * scale, prior_deviations, fixed)


def structural_zeros(hierarchy: Hierarchy) -> list[tuple[Shape, NDArray[np.bool_]]]:
    """Declared combinations that no record has, as tables of attributes that rows hold in full."""
    zeros: list[tuple[Shape, NDArray[np.bool_]]] = []
    for rule in hierarchy.domain.rules:
        places = tuple(hierarchy.domain.index(name) for name in rule.names)
        if rule.target is None and len(places) <= MAX_ORDER and hierarchy.is_full(places):
            zeros.append((Shape(places, (0,) * len(places)), rule.allowed.ravel()))
    return zeros


def predict(
    measurements: Measurements, rows: NDArray[np.uint16], shapes: Sequence[Shape]
) -> list[NDArray[np.float64]]:
    """What the rows so far say of further tables, in counts of records."""
    scale = measurements.total / max(len(rows), 1)
    counts = count_shapes(measurements.hierarchy, shapes, rows)
    return [one.astype(np.float64) * scale for one in counts]
