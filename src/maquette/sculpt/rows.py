"""The rows to begin with: drawn, in strata, along the tree of the strongest pairs of attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette import _lazy_numba as numba
from maquette.sculpt import targets as patches
from maquette.sculpt.sampler import Targets
from maquette.sculpt.targets import (
    CELL,
    CELL_FIRST,
    CELL_OWN,
    CELL_SECOND,
    FIRST,
    FIRST_MAP,
    MAP,
    ORDER,
    SECOND,
    SECOND_MAP,
    Hierarchy,
    Layout,
    Shape,
)

_LARGEST_LOG = 4.0


class Source(NamedTuple):
    """Which table of a layout an edge comes from, and which two of that table's axes it runs along."""

    table: int
    axes: tuple[int, int] = (0, 1)


@dataclass(frozen=True, slots=True, eq=False)
class Edge:
    """A smooth two-way table that may lie in the tree: measured itself, or summed out of a three-way one."""

    shape: Shape
    table: NDArray[np.float64]

    @property
    def information(self) -> float:
        """Mutual information."""
        joint = self.table / self.table.sum()
        product = np.outer(joint.sum(axis=1), joint.sum(axis=0))
        return float((joint * np.log(np.maximum(joint, 1e-12) / np.maximum(product, 1e-12))).sum())

    @property
    def ratios(self) -> NDArray[np.float64]:
        """Log-ratios to the product of its margins: where the potentials of a tree edge begin."""
        product = np.outer(self.table.sum(axis=1), self.table.sum(axis=0)) / self.table.sum()
        logs = np.log(np.maximum(self.table, 0.5) / np.maximum(product, 0.5))
        return np.clip(logs, -_LARGEST_LOG, _LARGEST_LOG)

    def seen_from(self, attribute: int) -> tuple[int, int, int, NDArray[np.float64]]:
        """The level of this attribute, the other attribute, its level, and the table with this one down."""
        (a, b), (la, lb) = self.shape
        return (la, b, lb, self.table) if attribute == a else (lb, a, la, self.table.T)


def spanning(edges: Mapping[Source, Edge], attributes: int) -> dict[Source, Edge]:
    """The tree (or forest) of the most informative tables (Chow and Liu 1968), by where they come from."""
    group = list(range(attributes))
    chosen: dict[Source, Edge] = {}
    for source, edge in sorted(edges.items(), key=lambda item: -item[1].information):
        a, b = (group[x] for x in edge.shape.attributes)
        if a != b:
            chosen[source] = edge
            group = [a if g == b else g for g in group]
    return chosen


def first_rows(
    hierarchy: Hierarchy,
    tree: Sequence[Edge],
    singles: Sequence[NDArray[np.float64]],
    *,
    m: int,
    rng: np.random.Generator,
) -> NDArray[np.uint16]:
    """m rows of working codes: one attribute from its own table, the others each given its neighbour in the tree."""
    rows = np.zeros((m, len(singles)), dtype=np.uint16)
    seen: set[int] = set()
    for root in range(len(singles)):
        if root in seen:
            continue
        rows[:, root] = _stratified(singles[root], m, rng)
        seen.add(root)
        waiting = [root]
        while waiting:
            a = waiting.pop()
            for edge in tree:
                if a not in edge.shape.attributes:
                    continue
                level, b, other, table = edge.seen_from(a)
                if b in seen:
                    continue
                seen.add(b)
                waiting.append(b)
                groups = hierarchy.working(a, level)[rows[:, a]]
                inside = hierarchy.working(b, other)
                rows[:, b] = given(groups, table, inside, singles[b], rng)
    return rows


def given(
    groups: NDArray[np.int64],
    table: NDArray[np.float64],
    inside: NDArray[np.int64],
    single: NDArray[np.float64],
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """A value for every row given the bin of its neighbour; inside a bin by the one-way table."""
    bins = np.zeros(table.shape[1])
    np.add.at(bins, inside, single)
    even = 1 / np.bincount(inside, minlength=table.shape[1])[inside]
    share = np.where(bins[inside] > 0, single / np.maximum(bins[inside], 1e-12), even)
    order = np.argsort(groups, kind="stable")
    ends = np.searchsorted(groups[order], np.arange(table.shape[0] + 1))
    found = np.empty(len(groups), dtype=np.int64)
    for group in range(table.shape[0]):
        members = order[ends[group] : ends[group + 1]]
        if len(members):
            weights: NDArray[np.float64] = table[group] if table[group].sum() > 0 else bins
            found[members] = _stratified(weights[inside] * share, len(members), rng)
    return found


def _stratified(weights: NDArray[np.float64], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draws whose counts differ from their expectation by less than one each, in random order."""
    reached = np.cumsum(weights)
    if not reached[-1] > 0:
        reached = np.arange(1.0, len(weights) + 1)
    points = (np.arange(count) + rng.random()) / count * reached[-1]
    found = np.searchsorted(reached, points, side="right")
    return rng.permutation(np.minimum(found, len(weights) - 1))


# The last repair of rows: columns that hang together are taken over from another row, together.
#
# The sweeps draw one value at a time. Where columns are tied (items that are missing together, copies,
# columns that follow from others) no single value can change, so rows that began wrong stay wrong. Here a
# row takes the values of a whole block of columns from another row if that brings the rows' counts nearer
# to what is wanted. Values of a block that occur together in no row are never made. Zero temperature: every
# accepted move lowers the sum of squared gaps.
#
# Compiled because every move changes the counts that the next one is judged by.

TIES = (0.1, 0.3, 0.7)
"""Shares of the smaller column's entropy that another one explains: columns above each of them form blocks."""
TRUSTED, PLAIN = 2.5, 5.0
"""Deviations that rows may lie from a measurement, and from which on a cell is plainly not empty."""
_FORBIDDEN = 1e6
_MOST_PASSES = 40
_WORK = 4e8
"""Tables that may be looked up, over all proposals."""
_FALLING = 0.985
"""A pass that leaves more than this of the squared gaps is the last."""


def goals(
    targets: Targets, average: NDArray[np.float64], *, as_measured: bool = False
) -> NDArray[np.float64]:
    """What the rows' counts should be: their own average over sweeps, within a few deviations of the measurement.

    `as_measured` takes cells that are plainly not empty as they were measured, for measurements that stand clear.
    """
    reach = TRUSTED * targets.deviations
    found = np.clip(average, targets.counts - reach, targets.counts + reach)
    if as_measured:
        np.copyto(found, targets.counts, where=targets.counts > PLAIN * targets.deviations)
    return np.maximum(found, 0.0)


def precisions(targets: Targets) -> NDArray[np.float64]:
    """How much a squared gap of each cell counts: by its measurement; rows stay out of forbidden cells."""
    return np.where(targets.freedom > 0, 1 / np.maximum(targets.deviations, 1.0) ** 2, _FORBIDDEN)


def blocks(layout: Layout, counts: NDArray[np.float64]) -> list[tuple[int, ...]]:
    """Sets of attributes to move together: those that explain each other, loosely or firmly, and all of them."""
    d = len(layout.hierarchy.cuts)
    ties = _ties(layout, counts)
    found = {tuple(range(d))}
    for least in TIES:
        group = list(range(d))
        for (a, b), tie in ties.items():
            if tie >= least:
                group = [group[a] if g == group[b] else g for g in group]
        found |= {tuple(a for a in range(d) if group[a] == g) for g in set(group)}
    return sorted(found)


def _ties(layout: Layout, counts: NDArray[np.float64]) -> dict[tuple[int, int], float]:
    """For every pair of attributes in some table, the mutual information by the smaller entropy."""
    found: dict[tuple[int, int], float] = {}
    for number in np.argsort(
        layout.orders, kind="stable"
    ):  # a pair's own table goes before one that holds it
        shape, order = layout.shapes[number], int(layout.orders[number])
        fresh = [pair for pair in combinations(range(order), 2) if _names(shape, pair) not in found]
        if not fresh:
            continue
        table = counts[layout.place(int(number))].reshape(layout.sizes[number, :order])
        for pair in fresh:
            found[_names(shape, pair)] = _tie(table.sum(axis=tuple(set(range(order)) - set(pair))))
    return found


def _names(shape: Shape, pair: tuple[int, int]) -> tuple[int, int]:
    return shape.attributes[pair[0]], shape.attributes[pair[1]]


def _tie(table: NDArray[np.float64]) -> float:
    joint = np.maximum(table, 0.0)
    joint = joint / max(joint.sum(), 1e-12)
    down, across, both = (_entropy(part) for part in (joint.sum(axis=1), joint.sum(axis=0), joint))
    return (down + across - both) / max(min(down, across), 1e-3)


def _entropy(shares: NDArray[np.float64]) -> float:
    kept = shares[shares > 0]
    return float(-(kept * np.log(kept)).sum())


def exchange(
    layout: Layout,
    rows: NDArray[np.uint16],
    wanted: NDArray[np.float64],
    precisions: NDArray[np.float64],
    *,
    rng: np.random.Generator,
) -> int:
    """Let rows take blocks over from each other, in place, while the gaps are falling; returns the passes made.

    `wanted` are counts of the rows for every cell of the layout, `precisions` the weights of the squared gaps.
    """
    m, d = rows.shape
    chosen = blocks(layout, wanted)
    inside = np.zeros((len(chosen), d), dtype=np.bool_)
    for i, block in enumerate(chosen):
        inside[i, list(block)] = True
    looked_up = inside @ (np.diff(layout.pointers) + np.diff(layout.patchwork.pointers))
    most = int(np.clip(_WORK / (m * looked_up.mean()), 1, _MOST_PASSES))
    lacking = wanted - layout.count(rows)
    gaps = float(precisions @ lacking**2)
    for done in range(1, most + 1):
        _exchange(
            rows,
            rng.permutation(m),
            rng.integers(0, m, m),
            rng.integers(0, len(chosen), m),
            inside,
            layout.levelled.maps.ravel(),
            layout.pointers,
            layout.members,
            layout.patchwork.pointers,
            layout.patchwork.members,
            layout.patchwork.bins,
            lacking,
            precisions,
        )
        before, gaps = gaps, float(precisions @ lacking**2)
        if gaps > _FALLING * before:
            return done
    return most


@numba.njit(cache=True, nogil=True)
def _exchange(
    rows: Any,
    takers: Any,
    givers: Any,
    chosen: Any,
    inside: Any,
    maps: Any,
    pointers: Any,
    members: Any,
    patch_pointers: Any,
    patch_members: Any,
    patch_bins: Any,
    lacking: Any,
    precisions: Any,
) -> int:
    """One proposal for every row in `takers`: the block `chosen` of the row in `givers`; returns how many were taken.

    `rows` (m x d) are working codes, changed in place; `inside` (blocks x d) says which attributes a block holds;
    `maps`, `pointers`, `members` and the `patch_` arrays are the layout's; `lacking` is the wanted minus the live
    count of every cell, kept up to date; `precisions` is the weight of each cell's squared gap.
    """
    taken = 0
    cells = np.empty((members.shape[0] + patch_members.shape[0], 2), dtype=np.int64)
    d = rows.shape[1]
    for v in range(takers.shape[0]):
        row, other, block = rows[takers[v]], rows[givers[v]], inside[chosen[v]]
        change, count = 0.0, 0
        for a in range(d):
            if not block[a]:
                continue
            for q in range(pointers[a], pointers[a + 1]):
                t = members[q]
                first, second, order = t[FIRST], t[SECOND], t[ORDER]
                with_first = order > 1 and block[first]
                with_second = order > 2 and block[second]
                if (with_first and first < a) or (with_second and second < a):
                    continue  # this table was seen from an earlier attribute of the block
                base = t[CELL]
                own = np.int64(t[CELL_OWN])
                old = base + own * maps[t[MAP] + row[a]]
                new = base + own * maps[t[MAP] + other[a]]
                if order > 1:
                    step = np.int64(t[CELL_FIRST])
                    old += step * maps[t[FIRST_MAP] + row[first]]
                    new += step * maps[t[FIRST_MAP] + (other[first] if with_first else row[first])]
                if order > 2:
                    step = np.int64(t[CELL_SECOND])
                    old += step * maps[t[SECOND_MAP] + row[second]]
                    new += step * maps[t[SECOND_MAP] + (other[second] if with_second else row[second])]
                if old == new:
                    continue
                change += precisions[old] * (1 + 2 * lacking[old]) + precisions[new] * (1 - 2 * lacking[new])
                cells[count, 0], cells[count, 1] = old, new
                count += 1
            for q in range(patch_pointers[a], patch_pointers[a + 1]):
                t = patch_members[q]
                b = t[patches.OTHER]
                if block[b] and b < a:
                    continue
                start = t[patches.BINS]
                old = patch_bins[start + t[patches.OWN_STEP] * row[a] + t[patches.OTHER_STEP] * row[b]]
                there = other[b] if block[b] else row[b]
                new = patch_bins[start + t[patches.OWN_STEP] * other[a] + t[patches.OTHER_STEP] * there]
                if old == new:
                    continue
                if old >= 0:
                    change += precisions[old] * (1 + 2 * lacking[old])
                if new >= 0:
                    change += precisions[new] * (1 - 2 * lacking[new])
                cells[count, 0], cells[count, 1] = old, new
                count += 1
        if count == 0 or change >= 0:
            continue
        taken += 1
        for i in range(count):
            if cells[i, 0] >= 0:  # a patch leaves most of its table open
                lacking[cells[i, 0]] += 1.0
            if cells[i, 1] >= 0:
                lacking[cells[i, 1]] -= 1.0
        for a in range(d):
            if block[a]:
                row[a] = other[a]
    return taken
