"""The rows to begin with: drawn, in strata, along the tree of the strongest pairs of attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.models.sculpt.bins import Hierarchy
from maquette.models.sculpt.layout import Shape

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
