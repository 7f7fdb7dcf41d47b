"""Fits to noisy answers: histograms through the linear map of a workload, trees of counts, projections.

The map goes from a histogram over the attributes of the workload to its answers, and back by its transpose. Marginals
are sums and their transpose repeats values; other classes go through one small matrix over the cells of their own
attributes. A k x |X| matrix is never built.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.queries.base import Queries, TableQueries
from maquette.queries.condition import all_cells
from maquette.queries.marginals import Marginals
from maquette.queries.rows import Margin

Floats = NDArray[np.float64]

MAX_MATRIX_ENTRIES = 10**7
"""Entries of the matrix of one class over the cells of its own attributes."""
MAX_MATRIX_CELLS = 2**14
"""Cells of such a matrix: each costs one evaluation of the class."""


Gone = tuple[int, ...]
"""Axes of the histogram that are summed away, in the order in which that is done."""


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Queries that look at one margin: all of its cells, or weighted sums of them."""

    gone: Gone
    shape: tuple[int, ...]
    """The margin inside the histogram, summed axes of length 1."""
    matrix: Any
    place: slice


@dataclass(frozen=True, slots=True, eq=False)
class HistogramMap:
    """All queries of a workload on a histogram of one shape: counts in, counts out."""

    shape: tuple[int, ...]
    count: int
    pieces: tuple[Piece, ...]
    steps: tuple[Gone, ...]
    """Partial sums that the margins share, each one axis further than its parent, parents first."""

    def forward(self, histogram: Floats) -> Floats:
        """The answers."""
        tables: dict[Gone, Floats] = {(): histogram.reshape(self.shape)}
        for gone in self.steps:
            tables[gone] = tables[gone[:-1]].sum(axis=gone[-1], keepdims=True)
        answers = np.empty(self.count)
        for piece in self.pieces:
            table = tables[piece.gone].ravel()
            answers[piece.place] = table if piece.matrix is None else piece.matrix @ table
        return answers

    def transpose(self, values: Floats) -> Floats:
        """For every cell, the sum over the queries of weight times value."""
        spread: dict[Gone, Floats] = {}
        for piece in self.pieces:
            part = values[piece.place]
            table = (part if piece.matrix is None else piece.matrix.T @ part).reshape(piece.shape)
            spread[piece.gone] = spread[piece.gone] + table if piece.gone in spread else table
        for gone in reversed(self.steps):
            table, parent = spread.pop(gone), gone[:-1]
            if parent not in spread:
                sizes = [1 if axis in parent else size for axis, size in enumerate(self.shape)]
                spread[parent] = np.zeros(sizes)
            # a new array, since the first table of a margin is a view of the caller's values
            spread[parent] = spread[parent] + table
        return np.broadcast_to(spread[()], self.shape)

    def matrix(self) -> Any:
        """The whole map as a sparse matrix, for small ones."""
        from scipy.sparse import csr_array, vstack

        cells = np.arange(math.prod(self.shape)).reshape(self.shape)
        blocks = []
        for piece in self.pieces:
            size = math.prod(piece.shape)
            where = np.broadcast_to(np.arange(size).reshape(piece.shape), self.shape).ravel()
            ones = np.ones(cells.size)
            spread = csr_array((ones, (where, cells.ravel())), shape=(size, cells.size))
            blocks.append(spread if piece.matrix is None else csr_array(piece.matrix) @ spread)
        return vstack(blocks, format="csr")


def histogram_map(queries: Queries) -> HistogramMap | None:
    """The map over `queries.attributes`, or None where a class is too large for its small matrix."""
    attributes = queries.attributes
    shape = tuple(queries.domain[name].size for name in attributes)
    pieces: list[Piece] = []
    start = 0
    for part in queries.classes:
        if isinstance(part, Marginals):
            for margin, place in part.slices.items():
                inside = slice(start + place.start, start + place.stop)
                pieces.append(_piece(attributes, shape, margin, None, inside))
        else:
            matrix = _matrix(part)
            if matrix is None:
                return None
            place = slice(start, start + part.count)
            pieces.append(_piece(attributes, shape, part.attributes, matrix, place))
        start += part.count
    return HistogramMap(shape, queries.count, tuple(pieces), shared_steps(p.gone for p in pieces))


def pass_length(queries: Queries) -> int:
    """Elements that one evaluation on a histogram passes over."""
    attributes = queries.attributes
    shape = tuple(queries.domain[name].size for name in attributes)
    margins = [m for part in queries.classes for m in _margins(part)]
    steps = shared_steps(_gone(attributes, shape, margin) for margin in margins)
    passed = sum(math.prod(s for i, s in enumerate(shape) if i not in gone[:-1]) for gone in steps)
    return passed + sum(queries.domain.cells(margin) for margin in margins)


def shared_steps(sums: Iterable[Gone]) -> tuple[Gone, ...]:
    """Every partial sum on the way to these, parents first."""
    steps = {gone[:length] for gone in sums for length in range(1, len(gone) + 1)}
    return tuple(sorted(steps, key=lambda gone: (len(gone), gone)))


def can_map(queries: Queries) -> bool:
    """Is `histogram_map` within its limits? Public structure only, and quick."""
    return all(isinstance(part, Marginals) or _fits(part) for part in queries.classes)


def answer_histogram(queries: Queries, histogram: NDArray[Any]) -> Floats:
    """All answers in counts from a histogram over `queries.attributes` (shaped by their sizes)."""
    return np.concatenate([_answer(part, queries.attributes, histogram) for part in queries.classes])


def _answer(part: Queries, attributes: Margin, histogram: NDArray[Any]) -> Floats:
    domain = part.domain
    if attributes == domain.names:
        return part.on_histogram(histogram) / part.denominator
    if isinstance(part, TableQueries):
        tables = {
            margin: histogram.sum(axis=tuple(i for i, name in enumerate(attributes) if name not in margin))
            for margin in part.margins
        }
        return part.from_margins(tables) / part.denominator
    shape = tuple(domain[name].size for name in attributes)
    rows = all_cells(shape, attributes)
    return part.on_rows(rows, np.ascontiguousarray(histogram).ravel()) / part.denominator


def cell_weights(queries: Queries) -> Floats:
    """The weight of every query (down) on every cell of its own attributes (across)."""
    names = queries.attributes
    shape = tuple(queries.domain[name].size for name in names)
    one = {name: np.zeros(1, dtype=np.int64) for name in queries.domain.names}
    return queries.columns_of(all_cells(shape, names) if names else one) / queries.denominator


def _margins(part: Queries) -> tuple[Margin, ...]:
    return part.margins if isinstance(part, Marginals) else (part.attributes,)


def _piece(attributes: Margin, shape: tuple[int, ...], margin: Margin, matrix: Any, place: slice) -> Piece:
    gone = _gone(attributes, shape, margin)
    return Piece(gone, tuple(1 if axis in gone else size for axis, size in enumerate(shape)), matrix, place)


def _gone(attributes: Margin, shape: tuple[int, ...], margin: Margin) -> Gone:
    """The largest axes go first, so that what the margins share is small early."""
    axes = [axis for axis, name in enumerate(attributes) if name not in margin]
    return tuple(sorted(axes, key=lambda axis: (-shape[axis], axis)))


def _fits(part: Queries) -> bool:
    cells = part.domain.cells(part.attributes)
    return cells <= MAX_MATRIX_CELLS and cells * part.count <= MAX_MATRIX_ENTRIES


def _matrix(part: Queries) -> Any:
    from scipy.sparse import csr_array

    if not _fits(part):
        return None
    return csr_array(cell_weights(part))


# Euclidean projection to non-negative cells of a given total.


def simplex_shift(values: NDArray[Any], *, total: float) -> float:
    """The theta for which max(values - theta, 0) adds up to `total`.

    Cost: a few passes over shrinking arrays (Michelot 1986) instead of a sort; the result is the same.
    """
    active = np.asarray(values, dtype=np.float64).ravel()
    theta = (active.sum() - total) / len(active)
    while True:
        keep = active > theta
        left = int(np.count_nonzero(keep))
        if left == len(active) or left == 0:
            return float(theta)
        active = active[keep]
        theta = (active.sum() - total) / left


def project_simplex(values: NDArray[Any], *, total: float = 1.0) -> NDArray[np.float64]:
    """The closest non-negative cells that add up to `total`, in squared distance."""
    return np.maximum(values - simplex_shift(values, total=total), 0.0)


# The histogram that explains noisy answers best: in squared error, or in the largest error.


def fit_squares(
    queries: HistogramMap,
    answers: NDArray[Any],
    *,
    total: float,
    weights: NDArray[Any] | float = 1.0,
    rounds: int = 300,
) -> Floats:
    """The non-negative histogram of this total whose answers are closest in (weighted) squared distance.

    Accuracy: Gaussian noise projected this way has a mean-square error free of the number of queries (Nikolov,
        Talwar and Zhang 2013; `theory.direct.projection_rmse`), as far as the rounds have converged.
    Cost: two passes over the map per round (accelerated projected gradient, restarted when it turns back).
    """
    cells = math.prod(queries.shape)
    # weights are non-negative, so the largest row sum bounds the largest eigenvalue (Perron)
    steepness = float(queries.transpose(weights * queries.forward(np.ones(queries.shape))).max())
    current = np.full(queries.shape, total / cells)
    if steepness <= 0:
        return current
    ahead, speed = current, 1.0
    for _ in range(rounds):
        slope = queries.transpose(weights * (queries.forward(ahead) - answers))
        following = project_simplex(ahead - slope / steepness, total=total)
        step = following - current
        if float(((ahead - following) * step).sum()) > 0:
            speed, ahead = 1.0, following
        else:
            faster = (1 + math.sqrt(1 + 4 * speed**2)) / 2
            ahead, speed = following + (speed - 1) / faster * step, faster
        current = following
        if float(np.abs(step).max()) <= 1e-7 * total / cells:
            break
    return current


def fit_entropic(
    queries: HistogramMap,
    answers: NDArray[Any],
    *,
    total: float,
    weights: NDArray[Any] | float = 1.0,
    rounds: int = 100,
) -> Floats:
    """A histogram of this total that lowers the same squared distance by exponentiated steps from the uniform one.

    It stays smooth where the answers say nothing, and on large sparse universes comes near the answers in far
    fewer rounds than `fit_squares`; stopped early it follows the noise less.

    Cost: as `fit_squares` per round, a little more where a step is taken back.
    """
    cells = math.prod(queries.shape)
    share = np.full(queries.shape, 1 / cells)
    logs = np.log(share)
    gap = queries.forward(share * total) - answers
    height = float((weights * gap * gap).sum()) / 2
    heaviest = float(queries.transpose(weights * np.ones(queries.count)).max())
    step = 1 / (total * heaviest) if heaviest > 0 else 0.0
    for _ in range(rounds):
        slope = queries.transpose(weights * gap)
        before = height
        while True:
            next_logs = logs - step * slope
            next_logs -= next_logs.max()
            following = np.exp(next_logs)
            mass = float(following.sum())
            following /= mass
            gap_there = queries.forward(following * total) - answers
            height = float((weights * gap_there * gap_there).sum()) / 2
            if height <= before + 0.5 * total * float((slope * (following - share)).sum()):
                break
            if step * total * heaviest < 1e-9:  # no step helps: the minimum, up to rounding
                return share * total
            step /= 2
        share, logs, gap = following, next_logs - math.log(mass), gap_there
        step *= 1.5
        if before - height <= 1e-9 * before:
            break
    return share * total


def fit_largest(queries: HistogramMap, answers: NDArray[Any], *, total: float) -> tuple[Floats, float] | None:
    """The non-negative histogram of this total with the smallest largest deviation, and that deviation.

    Accuracy: if every answer is within e of the truth and the total within t, the deviation is at most e + t, so
        the new answers are within 2e + t (linear program of Dwork, Naor, Reingold, Rothblum and Vadhan 2009).
    Cost: a linear program with |X| + 1 unknowns and 2 |Q| + 1 conditions. None if the solver gives up.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, hstack, vstack

    matrix = queries.matrix()
    slack = csr_array(np.ones((queries.count, 1)))
    cells = math.prod(queries.shape)
    solved = linprog(
        np.append(np.zeros(cells), 1.0),
        A_ub=vstack([hstack([matrix, -slack]), hstack([-matrix, -slack])], format="csr"),
        b_ub=np.concatenate([answers, -answers]),
        A_eq=csr_array(np.append(np.ones(cells), 0.0)[None, :]),
        b_eq=[total],
        method="highs",
    )
    if solved.status != 0:
        return None
    return np.maximum(solved.x[:-1], 0.0).reshape(queries.shape), float(solved.x[-1])


# Counts at every level of a tree, made consistent by weighted least squares, and a rising sequence out of
# prefixes.


def tree_widths(size: int, branches: int) -> list[int]:
    """Leaves per node at every level below the root, from the leaves up."""
    leaves = [1]
    while leaves[-1] * branches < size:
        leaves.append(leaves[-1] * branches)
    return leaves


def fit_tree(
    levels: Sequence[Floats],
    variances: Sequence[float],
    *,
    branches: int,
    total: float,
    total_variance: float,
) -> Floats:
    """The leaves of the tree that is closest to all measured counts, squares weighted by 1 / variance.

    `levels` run from the leaves up, `total` is the root, exact if its variance is 0. Every node has `branches`
    children, the last one of a level maybe fewer.

    Accuracy: exact least squares, by one pass up (each node's count from its subtree) and one pass down.
    Cost: linear in the number of nodes.
    """
    best, variance_of = [np.asarray(levels[0], dtype=np.float64)], [np.full(len(levels[0]), variances[0])]
    for counts, variance in zip(levels[1:], variances[1:], strict=True):
        below, variance_below = _sum_children(best[-1], branches), _sum_children(variance_of[-1], branches)
        share = variance_below / (variance_below + variance)
        best.append(share * counts + (1 - share) * below)
        variance_of.append(share * variance)
    top, top_variance = float(best[-1].sum()), float(variance_of[-1].sum())
    root = (
        total
        if not total_variance
        else (total * top_variance + top * total_variance) / (top_variance + total_variance)
    )
    nodes = best[-1] + (root - top) * variance_of[-1] / top_variance
    for below, variance_below in zip(best[-2::-1], variance_of[-2::-1], strict=True):
        gap = (nodes - _sum_children(below, branches)) / _sum_children(variance_below, branches)
        nodes = below + np.repeat(gap, branches)[: len(below)] * variance_below
    return nodes


def rising(values: Floats) -> Floats:
    """Half way between the largest value so far and the smallest to come.

    Accuracy: rises, and is nowhere farther from a rising truth than `values` were at their worst: both halves are
        within that of it.
    """
    return (np.maximum.accumulate(values) + np.minimum.accumulate(values[::-1])[::-1]) / 2


def _sum_children(values: Floats, branches: int) -> Floats:
    return np.add.reduceat(values, np.arange(0, len(values), branches))
