"""Tables of one, two or three attributes laid out in flat arrays for the compiled sweeps."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette import _lazy_numba as numba
from maquette.domain import Domain
from maquette.queries.base import Margin
from maquette.queries.counting import count_tables
from maquette.queries.marginals import Binned, Cuts, labels

# Nested contiguous bins of every attribute, from released one-way counts: the resolutions a table may have.

STEPS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Bins of the coarser resolutions."""
FINEST = 512
"""Bins of the finest resolution that rows are carved at; inside a bin, values follow the one-way table alone."""

Levels = tuple[int, ...]
"""One resolution per attribute of a margin: 0 is the finest."""


def nested_cuts(counts: NDArray[np.float64]) -> tuple[Cuts, ...]:
    """Partitions into fewer and fewer bins, each nested in the one before; the first is the finest.

    The heaviest bin is cut at its weighted median, again and again: heavy single values get a bin of their own.
    """
    size = len(counts)
    below = np.concatenate([[0.0], np.cumsum(counts)])
    wanted = [step for step in STEPS if step < min(size, FINEST)]
    if size > FINEST:
        wanted.append(FINEST)
    heap = [(-float(below[-1]), 0, size)]
    starts = [0]
    found: list[Cuts] = []
    for step in wanted:
        while len(starts) < step:
            _, start, stop = heapq.heappop(heap)
            cut = _median(below, start, stop)
            starts.append(cut)
            for low, high in ((start, cut), (cut, stop)):
                if high - low > 1:
                    heapq.heappush(heap, (-float(below[high] - below[low]), low, high))
        found.append(tuple(sorted(starts)))
    if size <= FINEST:
        found.append(tuple(range(size)))
    return tuple(reversed(found))


def _median(below: NDArray[np.float64], start: int, stop: int) -> int:
    inner = below[start + 1 : stop]
    return start + 1 + int(np.argmin(np.abs(2 * inner - below[start] - below[stop])))


@dataclass(frozen=True, slots=True, eq=False)
class Hierarchy:
    """The resolutions of all attributes of a domain."""

    domain: Domain
    cuts: tuple[tuple[Cuts, ...], ...]
    """By attribute, then by level."""

    @classmethod
    def from_counts(cls, domain: Domain, counts: Sequence[NDArray[np.float64]]) -> Hierarchy:
        """Public: it follows from released one-way counts."""
        return cls(domain, tuple(nested_cuts(table) for table in counts))

    def bins(self, attribute: int, level: int) -> int:
        return len(self.cuts[attribute][level])

    def level_of(self, attribute: int, most: int) -> int:
        """The finest level of at most so many bins (the coarsest if there is none)."""
        levels = self.cuts[attribute]
        return next((i for i, cut in enumerate(levels) if len(cut) <= most), len(levels) - 1)

    def labels(self, attribute: int, level: int) -> NDArray[np.int64]:
        """The bin of every code."""
        size = self.domain.attributes[attribute].size
        return labels(size, self.cuts[attribute][level]).astype(np.int64)

    def cells(self, attributes: Sequence[int], levels: Sequence[int]) -> int:
        return math.prod(self.bins(a, level) for a, level in zip(attributes, levels, strict=True))

    def table(self, attributes: Sequence[int], levels: Sequence[int]) -> Binned:
        """As the gate is asked for it."""
        margin: Margin = tuple(self.domain.attributes[a].name for a in attributes)
        return Binned(margin, tuple(self.cuts[a][level] for a, level in zip(attributes, levels, strict=True)))

    def finest(self, attributes: Sequence[int], most: float) -> Levels:
        """The finest levels whose table has at most `most` bins; the coarser attribute is refined first."""
        return _finest(tuple(tuple(map(len, self.cuts[a])) for a in attributes), most)

    def working(self, attribute: int, level: int) -> NDArray[np.int64]:
        """The bin of every code of the finest level."""
        return inside(self.cuts[attribute][0], self.cuts[attribute][level])

    def spread(self, attribute: int, level: int, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Counts of codes summed up in the bins of a level."""
        return np.add.reduceat(counts, self.cuts[attribute][level])


def inside(fine: Sequence[int], coarse: Sequence[int]) -> NDArray[np.int64]:
    """The coarse bin that holds each fine one."""
    return np.searchsorted(np.asarray(coarse), np.asarray(fine), side="right") - 1


@lru_cache(maxsize=2**13)
def _finest(ladders: tuple[tuple[int, ...], ...], most: float) -> Levels:
    """`Hierarchy.finest` by the bins of every level: thousands of tables share a few sizes."""
    levels = [len(ladder) - 1 for ladder in ladders]
    while True:
        bins = [ladder[level] for ladder, level in zip(ladders, levels, strict=True)]
        cells = math.prod(bins)
        able = [
            (bins[i], i)
            for i, level in enumerate(levels)
            if level > 0 and cells // bins[i] * ladders[i][level - 1] <= most
        ]
        if not able:
            return tuple(levels)
        levels[min(able)[1]] -= 1


# Small cells inside heavy ones, laid out for the compiled sweeps: most of a table of theirs is left open.
#
# A table of all bins at that resolution would cost a row the bins along both attributes; here a visit
# touches just the runs of bins that belong to some cell.


@dataclass(frozen=True, slots=True, eq=False)
class Patch:
    """Some cells of a two-way table, each made of pairs of working codes; the rest of the table is left open."""

    attributes: tuple[int, ...]
    cells: NDArray[np.int64]
    """The cell of every pair of working codes, from 0 on, or -1."""

    @property
    def count(self) -> int:
        return int(self.cells.max()) + 1


PATCH_OWN, OTHER, LINES, BINS, OWN_STEP, OTHER_STEP = range(6)
"""Columns of a patch as one of its attributes sees it: its number, the other attribute, where its lines of runs are
told, where the bins of the patch begin and their strides."""


@dataclass(frozen=True, slots=True, eq=False)
class Patchwork:
    """All patches in flat arrays, their cells in one run."""

    patches: tuple[Patch, ...]
    offsets: NDArray[np.int64]
    """Where each patch's cells begin; one more at the end."""
    pointers: NDArray[np.int64]
    """By attribute: its run in `members`."""
    members: NDArray[np.int64]
    """What a visit of an attribute needs of every patch that holds it, in columns."""
    firsts: NDArray[np.int64]
    """One member of every patch."""
    bins: NDArray[np.int32]
    """The cell of every bin, patch after patch, or -1."""
    starts: NDArray[np.int64]
    """For every member and code of the other attribute, where its runs begin."""
    runs: NDArray[np.int32]
    """First bin, the bin after the last, and the cell."""

    @classmethod
    def of(cls, attributes: int, patches: Sequence[Patch]) -> Patchwork:
        offsets = np.cumsum([0, *(patch.count for patch in patches)]).astype(np.int64)
        members: list[list[list[int]]] = [[] for _ in range(attributes)]
        owners: list[list[int]] = [[] for _ in range(attributes)]
        bins, runs, starts = [np.zeros(0, np.int64)], [np.zeros((0, 3), np.int64)], [np.zeros(0, np.int64)]
        lines = begin = passed = 0
        for i, patch in enumerate(patches):
            grid = np.where(patch.cells >= 0, patch.cells + offsets[i], -1)
            steps = (grid.shape[1], 1)
            for own, seen in ((0, grid.T), (1, grid)):
                other = 1 - own
                found, firsts = _runs(seen)
                a, b = patch.attributes[own], patch.attributes[other]
                members[a].append([a, b, lines, begin, steps[own], steps[other]])
                owners[a].append(i)
                runs.append(found)
                starts.append(firsts + passed)
                lines += len(firsts)
                passed += len(found)
            bins.append(grid.ravel())
            begin += grid.size
        _, firsts = np.unique([i for run in owners for i in run], return_index=True)
        return cls(
            patches=tuple(patches),
            offsets=offsets,
            pointers=np.cumsum([0, *map(len, members)]).astype(np.int64),
            members=np.array([row for run in members for row in run], dtype=np.int64).reshape(-1, 6),
            firsts=firsts.astype(np.int64),
            bins=np.concatenate(bins).astype(np.int32),
            starts=np.concatenate(starts),
            runs=np.concatenate(runs).astype(np.int32),
        )

    @property
    def cells(self) -> int:
        return int(self.offsets[-1])

    def place(self, patch: int) -> slice:
        """Where one patch's cells stand."""
        return slice(int(self.offsets[patch]), int(self.offsets[patch + 1]))

    def count(self, rows: NDArray[np.uint16]) -> NDArray[np.int64]:
        """How many rows lie in every cell."""
        counts = np.zeros(self.cells, dtype=np.int64)
        _count(rows, self.members[self.firsts], self.bins, counts)
        return counts


def _runs(grid: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The runs of one cell along every line of a grid, and where those of each line begin; one more at the end."""
    lines, length = grid.shape
    edges = np.ones((lines, length), dtype=bool)
    edges[:, 1:] = grid[:, 1:] != grid[:, :-1]
    line, first = np.nonzero(edges)
    stop = np.append(first[1:], 0)
    stop[stop == 0] = length
    cell = grid[line, first]
    kept = cell >= 0
    begin = np.searchsorted(line[kept], np.arange(lines + 1))
    return np.column_stack([first, stop, cell])[kept], begin


@numba.njit(cache=True, nogil=True)
def _count(rows: Any, members: Any, bins: Any, counts: Any) -> None:
    for c in range(members.shape[0]):
        t = members[c]
        for r in range(rows.shape[0]):
            cell = bins[t[BINS] + t[OWN_STEP] * rows[r, t[PATCH_OWN]] + t[OTHER_STEP] * rows[r, t[OTHER]]]
            if cell >= 0:
                counts[cell] += 1


WIDEST = 3
"""Attributes of the widest table that rows are carved to."""


class Shape(NamedTuple):
    """One table: which attributes, at which levels."""

    attributes: tuple[int, ...]
    levels: Levels


@dataclass(frozen=True, slots=True, eq=False)
class Levelled:
    """The levels that some table uses, as arrays. Rows hold codes of the finest level of each attribute."""

    depths: NDArray[np.int64]
    """Used levels per attribute; the finest is always among them."""
    bins: NDArray[np.int64]
    """Bins by attribute and used level."""
    maps: NDArray[np.uint16]
    """The bin of every code of the finest level, by attribute and used level; one attribute more, of a single bin."""
    parents: NDArray[np.uint16]
    """The bin one used level up, by attribute, used level and bin."""

    @classmethod
    def of(cls, hierarchy: Hierarchy, used: Sequence[Sequence[int]]) -> Levelled:
        count, depth = len(used), max(map(len, used))
        widest = max(len(levels[0]) for levels in hierarchy.cuts)
        depths = np.array([len(levels) for levels in used], dtype=np.int64)
        bins = np.ones((count, depth), dtype=np.int64)
        maps, parents = np.zeros((2, count + 1, depth, widest), dtype=np.uint16)
        for a, levels in enumerate(used):
            cuts = [hierarchy.cuts[a][level] for level in levels]
            for i, cut in enumerate(cuts):
                bins[a, i] = len(cut)
                maps[a, i, : len(cuts[0])] = inside(cuts[0], cut)
            for i, (fine, coarse) in enumerate(pairwise(cuts)):
                parents[a, i, : len(fine)] = inside(fine, coarse)
        return cls(depths, bins, maps, parents)

    def map_at(self, attribute: int, level: int) -> int:
        """Where the map of a level begins when all maps stand in one line."""
        _, depth, widest = self.maps.shape
        return (attribute * depth + level) * widest


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Many tables side by side in one flat run of cells, and again once per attribute for the weights.

    The cells of patches stand first, in both.
    """

    hierarchy: Hierarchy
    levelled: Levelled
    shapes: tuple[Shape, ...]
    orders: NDArray[np.int64]
    sizes: NDArray[np.int64]
    offsets: NDArray[np.int64]
    """Where each table's cells begin; one more at the end."""
    weights_at: NDArray[np.int64]
    """Where the weights of a table begin that run fastest along one of its attributes."""
    weights: int
    pointers: NDArray[np.int64]
    """By attribute: its run in `members`."""
    members: NDArray[np.int32]
    """What a visit of an attribute needs of every table that holds it, in columns (see `_member`)."""
    patchwork: Patchwork

    @classmethod
    def of(cls, hierarchy: Hierarchy, shapes: Sequence[Shape], patches: Sequence[Patch] = ()) -> Layout:
        count = len(shapes)
        used: list[set[int]] = [{0} for _ in hierarchy.cuts]
        for shape in shapes:
            for a, level in zip(*shape, strict=True):
                used[a].add(level)
        ordered = [sorted(levels) for levels in used]
        levelled = Levelled.of(hierarchy, ordered)
        sizes = np.ones((count, WIDEST), dtype=np.int64)
        weights_at = np.zeros((count, WIDEST), dtype=np.int64)
        patchwork = Patchwork.of(len(used), patches)
        end = patchwork.cells
        for i, shape in enumerate(shapes):
            for j, (a, level) in enumerate(zip(*shape, strict=True)):
                sizes[i, j] = hierarchy.bins(a, level)
            for j in range(len(shape.attributes)):
                weights_at[i, j] = end
                end += int(sizes[i].prod())
        offsets = patchwork.cells + np.concatenate([[0], np.cumsum(sizes.prod(axis=1))]).astype(np.int64)
        runs: list[list[list[int]]] = [[] for _ in used]
        for i, shape in enumerate(shapes):
            places = [(a, ordered[a].index(level)) for a, level in zip(*shape, strict=True)]
            for j, (a, _) in enumerate(places):
                runs[a].append(_member(levelled, places, j, sizes[i], int(offsets[i]), weights_at[i]))
        members = np.array([row for run in runs for row in run], dtype=np.int32).reshape(-1, COLUMNS)
        return cls(
            hierarchy=hierarchy,
            levelled=levelled,
            shapes=tuple(shapes),
            orders=np.array([len(shape.attributes) for shape in shapes], dtype=np.int64),
            sizes=sizes,
            offsets=offsets,
            weights_at=weights_at,
            weights=end,
            pointers=np.cumsum([0, *map(len, runs)]).astype(np.int64),
            members=members,
            patchwork=patchwork,
        )

    @property
    def cells(self) -> int:
        return int(self.offsets[-1])

    def place(self, table: int) -> slice:
        """Where one table's cells stand."""
        return slice(int(self.offsets[table]), int(self.offsets[table + 1]))

    def count(self, rows: NDArray[np.uint16]) -> NDArray[np.float64]:
        """How many rows lie in every cell."""
        tables = count_shapes(self.hierarchy, self.shapes, rows)
        return np.concatenate([self.patchwork.count(rows), *tables], dtype=np.float64)


def count_shapes(
    hierarchy: Hierarchy, shapes: Sequence[Shape], rows: NDArray[np.uint16]
) -> list[NDArray[np.int64]]:
    """How many rows lie in the cells of every table, flat."""
    asked = [tuple(f"{a}/{level}" for a, level in zip(*shape, strict=True)) for shape in shapes]
    columns: dict[str, NDArray[np.uint16]] = {}
    sizes: dict[str, int] = {}
    for a, level in {place for shape in shapes for place in zip(*shape, strict=True)}:
        columns[f"{a}/{level}"] = hierarchy.working(a, level).astype(np.uint16)[rows[:, a]]
        sizes[f"{a}/{level}"] = hierarchy.bins(a, level)
    counted = count_tables(sizes, columns, list(dict.fromkeys(asked)), rows=len(rows))
    return [counted[margin].reshape(-1) for margin in asked]


LEVEL, SIZE, MAP, OWN = range(4)
FIRST, FIRST_MAP, SECOND, SECOND_MAP = range(4, 8)
ALONG, ALONG_FIRST, ALONG_SECOND = range(8, 11)
CELL, CELL_OWN, CELL_FIRST, CELL_SECOND = range(11, 15)
ORDER, COPIES = 15, 16
COLUMNS = COPIES + 4 * WIDEST
"""Columns of a member: the attribute's own level, bins, map and number; the other attributes and their maps (a single
bin where there is none); the weights along the attribute; cells; copies of the weights, each as a constant and three
strides."""


def _member(
    levelled: Levelled,
    places: Sequence[tuple[int, int]],
    own: int,
    sizes: NDArray[np.int64],
    offset: int,
    weights_at: NDArray[np.int64],
) -> list[int]:
    """One table as its attribute number `own` sees it."""
    a, level = places[own]
    others = [t for t in range(len(places)) if t != own]
    nothing = (0, levelled.map_at(len(levelled.depths), 0))
    seen = [(places[t][0], levelled.map_at(*places[t])) for t in others] + [nothing] * (2 - len(others))

    def strides(order: Sequence[int]) -> list[int]:
        """Of the own and the two other attributes in a table whose attributes run in this order, slowest first."""
        step, found = 1, dict.fromkeys(range(-2, WIDEST), 0)
        for t in reversed(order):
            found[t], step = step, step * int(sizes[t])
        return [found[t] for t in (own, *others, -1, -2)[:3]]

    copies: list[int] = []
    for t in range(WIDEST):
        if t < len(places):
            order = [s for s in range(len(places)) if s != t] + [t]
            copies += [int(weights_at[t]), *strides(order)]
        else:
            copies += [0, 0, 0, 0]
    cell_strides = strides(range(len(places)))
    along = copies[4 * own : 4 * own + 4]
    return [
        *(level, int(sizes[own]), levelled.map_at(a, level), a),
        *(seen[0] + seen[1]),
        *(along[0], along[2], along[3]),
        *(offset, *cell_strides),
        *(len(places), *copies),
    ]
