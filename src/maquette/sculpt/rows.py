"""From released tables to synthetic rows: the start, the sweeps, and the codes of the domain.

Sees released values only. Rows are arrays (m, attributes) of row codes, see `bins`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.core.binned import labels
from maquette.models import constraints
from maquette.models.answers import SmallDatabase
from maquette.sculpt.bins import Shape
from maquette.sculpt.effects import effects_of
from maquette.sculpt.measurements import Measurements, TableEstimate, iterative_fit
from maquette.sculpt.sampler import RowSampler
from maquette.sculpt.targets import SAMPLING, Layout, Targets, targets_of

# Chosen on the tables of benchmarks/sculpt.py (figures in benchmarks/results/sculpt.jsonl):
MIN_GAINS = (0.0, 0.02, 0.1)
"""Of the first sweeps, and of all further ones; rows that met most of the tables before begin with the second."""
MORE_SWEEPS = 5
_MAX_START_LOG = 4.0
"""Of the potentials that rows begin with."""
_CHECKED = 5
"""Cells whose mean residual decides whether to go on."""
_STANDS_OUT = 5.0
"""Deviations from which on a cell is checked."""
_CLOSE = 3.0
"""The mean residual, in deviations, that is good enough."""
_FALLING = 0.93
"""A sweep that leaves more than this of the residual is the last."""


# The start: rows drawn in strata along the tree of the most informative pairs.


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
    def log_ratios(self) -> NDArray[np.float64]:
        """To the product of its margins: where the potentials of a tree edge begin."""
        product = np.outer(self.table.sum(axis=1), self.table.sum(axis=0)) / self.table.sum()
        logs = np.log(np.maximum(self.table, 0.5) / np.maximum(product, 0.5))
        return np.clip(logs, -_MAX_START_LOG, _MAX_START_LOG)


def begin(measurements: Measurements, *, m: int, rng: np.random.Generator) -> RowSampler:
    """m rows along the tree of the strongest pairs, ready to be fitted to all tables released so far."""
    layout, targets = targets_of(measurements, m)
    tree = _spanning_tree(_edges(measurements), len(measurements.one_way))
    rows = _draw_along(measurements, list(tree.values()), m=m, rng=rng)
    integral = np.zeros(layout.cells)
    for (number, axes), edge in tree.items():
        sizes = layout.sizes[number, : layout.orders[number]]
        others = tuple(set(range(len(sizes))) - set(axes))
        integral[layout.place(number)] += np.broadcast_to(
            np.expand_dims(edge.log_ratios, others), sizes
        ).ravel()
    return RowSampler(layout, targets, rows, rng=rng, integral=integral)


def extend(sampler: RowSampler, measurements: Measurements, *, rng: np.random.Generator) -> RowSampler:
    """The same rows and potentials with the tables that were released since."""
    layout, targets = targets_of(measurements, len(sampler.rows))
    places: dict[Shape, list[slice]] = {}
    for number, shape in enumerate(sampler.layout.shapes):
        places.setdefault(shape, []).append(sampler.layout.place(number))
    integral = np.zeros(layout.cells)
    for number, shape in enumerate(layout.shapes):
        if places.get(shape):
            integral[layout.place(number)] = sampler.integral[places[shape].pop(0)]
    return RowSampler(layout, targets, sampler.rows, rng=rng, integral=integral)


def _edges(measurements: Measurements) -> dict[Source, Edge]:
    """Every pair of attributes that a table was measured of: by its own tables, else summed out of three-way ones."""
    first = len(measurements.one_way) + len(measurements.structural_zeros)
    estimates = list(enumerate(measurements.estimates().values(), first))
    edges = {Source(i): _edge(measurements, one) for i, one in estimates if len(one.shape.attributes) == 2}
    pairs = {edge.shape.attributes for edge in edges.values()}
    for i, one in estimates:
        if len(one.shape.attributes) < 3:
            continue
        sizes = [measurements.hierarchy.bins(a, level) for a, level in zip(*one.shape, strict=True)]
        for axes in combinations(range(len(sizes)), 2):
            margin = one.margin(axes, sizes)
            if margin.shape.attributes not in pairs:
                edges[Source(i, axes)] = _edge(measurements, margin)
    return edges


def _edge(measurements: Measurements, estimate: TableEstimate) -> Edge:
    """A two-way table, shrunk, and scaled to the one-way counts by iterative proportional fitting."""
    (a, b), (level_a, level_b) = estimate.shape
    down = measurements.hierarchy.sum_in_bins(a, level_a, measurements.one_way[a])
    across = measurements.hierarchy.sum_in_bins(b, level_b, measurements.one_way[b])
    smooth = effects_of(measurements.hierarchy, estimate)[-1].posterior
    return Edge(estimate.shape, iterative_fit(smooth.reshape(len(down), len(across)), down, across))


def _spanning_tree(edges: Mapping[Source, Edge], attributes: int) -> dict[Source, Edge]:
    """The tree (or forest) of the most informative tables (Chow and Liu 1968), by where they come from."""
    group = list(range(attributes))
    chosen: dict[Source, Edge] = {}
    for source, edge in sorted(edges.items(), key=lambda item: -item[1].information):
        a, b = (group[x] for x in edge.shape.attributes)
        if a != b:
            chosen[source] = edge
            group = [a if g == b else g for g in group]
    return chosen


def _draw_along(
    measurements: Measurements, tree: Sequence[Edge], *, m: int, rng: np.random.Generator
) -> NDArray[np.uint16]:
    """m rows: a first attribute from its own table, the others each by their neighbour in the tree."""
    hierarchy = measurements.hierarchy
    one_way = [hierarchy.sum_in_bins(a, 0, counts) for a, counts in enumerate(measurements.one_way)]
    rows = np.zeros((m, len(one_way)), dtype=np.uint16)
    done: set[int] = set()
    for root in range(len(one_way)):
        if root in done:
            continue
        rows[:, root] = _draw_stratified(one_way[root], m, rng)
        done.add(root)
        waiting = [root]
        while waiting:
            a = waiting.pop()
            for edge in tree:
                if a not in edge.shape.attributes:
                    continue
                place = edge.shape.attributes.index(a)
                b, level_b = edge.shape.attributes[1 - place], edge.shape.levels[1 - place]
                if b in done:
                    continue
                done.add(b)
                waiting.append(b)
                groups = hierarchy.bin_of_row_codes(a, edge.shape.levels[place])[rows[:, a]]
                table = edge.table if place == 0 else edge.table.T
                rows[:, b] = _draw_conditional(
                    groups, table, hierarchy.bin_of_row_codes(b, level_b), one_way[b], rng
                )
    return rows


def _draw_conditional(
    groups: NDArray[np.int64],
    table: NDArray[np.float64],
    bin_of: NDArray[np.int64],
    one_way: NDArray[np.float64],
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """A value for every row by the row of `table` that `groups` names; inside a bin by the one-way counts.

    `bin_of` is the column of `table` (a bin) that holds each value.
    """
    bins = np.zeros(table.shape[1])
    np.add.at(bins, bin_of, one_way)
    even = 1 / np.bincount(bin_of, minlength=table.shape[1])[bin_of]
    share = np.where(bins[bin_of] > 0, one_way / np.maximum(bins[bin_of], 1e-12), even)
    order = np.argsort(groups, kind="stable")
    ends = np.searchsorted(groups[order], np.arange(table.shape[0] + 1))
    values = np.empty(len(groups), dtype=np.int64)
    for group in range(table.shape[0]):
        members = order[ends[group] : ends[group + 1]]
        if len(members):
            weights: NDArray[np.float64] = table[group] if table[group].sum() > 0 else bins
            values[members] = _draw_stratified(weights[bin_of] * share, len(members), rng)
    return values


def _draw_stratified(weights: NDArray[np.float64], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draws whose counts differ from their expectation by less than one each, in random order."""
    running = np.cumsum(weights)
    if not running[-1] > 0:
        running = np.arange(1.0, len(weights) + 1)
    points = (np.arange(count) + rng.random()) / count * running[-1]
    values = np.searchsorted(running, points, side="right")
    return rng.permutation(np.minimum(values, len(weights) - 1))


def decode(
    measurements: Measurements, rows: NDArray[np.uint16], names: Iterable[str], *, rng: np.random.Generator
) -> SmallDatabase:
    """Rows of these attributes in the codes of the domain, brought to its constraints. Where a row code stands for
    several, by the one-way table."""
    hierarchy = measurements.hierarchy
    columns: dict[str, NDArray[Any]] = {}
    for a, attribute in enumerate(hierarchy.domain):
        column = rows[:, a].astype(np.int64)
        cut = hierarchy.cuts[a][0]
        if len(cut) < attribute.size:
            bin_of = labels(attribute.size, cut).astype(np.int64)
            column = _draw_conditional(column, np.eye(len(cut)), bin_of, measurements.one_way[a], rng)
        columns[attribute.name] = column.astype(np.min_scalar_type(max(attribute.size - 1, 1)))
    database = SmallDatabase({name: columns[name] for name in names})
    rules = constraints.compile(hierarchy.domain, database.columns)
    return rules.mend(database, rng=rng) if rules else database


# The sweeps.


def quiet(*_: object) -> None:
    """Progress that nobody watches."""


def sweep(
    sampler: RowSampler, *, min_gains: Sequence[float], more: int, progress: Callable[[float], None]
) -> None:
    """One sweep per least gain, then up to `more` at the last while the largest residuals are large and falling."""
    last = len(min_gains) + min(more, sampler.affordable_sweeps)
    before = np.inf
    for done in range(1, last + 1):
        sampler.sweep(min_gain=min_gains[min(done, len(min_gains)) - 1])
        progress(done / last)
        if done < len(min_gains):
            continue
        worst = _worst_residual(sampler.layout, sampler.targets, sampler.counts)
        if worst < _CLOSE or worst > _FALLING * before:
            return
        before = worst


def is_close(sampler: RowSampler, rows: NDArray[np.uint16]) -> bool:
    """Are these rows, of whatever number, as close to the measurements as sweeps go on for?"""
    counts = sampler.layout.count(rows) * (len(sampler.rows) / len(rows))
    return _worst_residual(sampler.layout, sampler.targets, counts) < _CLOSE


def _worst_residual(layout: Layout, targets: Targets, counts: NDArray[np.float64]) -> float:
    """The mean of the largest residuals among cells that stand out of the noise, in deviations."""
    first = layout.interactions_at
    goal, deviations = targets.counts[first:], targets.deviations[first:]
    checked = goal > _STANDS_OUT * deviations
    if not checked.any():
        return 0.0
    allowed = np.sqrt(deviations[checked] ** 2 + SAMPLING * goal[checked] + 1)
    residuals = np.abs((goal - counts[first:])[checked]) / allowed
    return float(np.sort(residuals)[-_CHECKED:].mean())
