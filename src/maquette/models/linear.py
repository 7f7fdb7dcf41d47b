"""A workload as a linear map on a histogram over the attributes it looks at, with its transpose.

Marginals are sums and their transpose is spreading; other classes go through one small matrix over the cells
of their own attributes. A k x |X| matrix is never built.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.queries.base import Margin, Queries, TableQueries
from maquette.queries.canonical import all_cells
from maquette.queries.marginals import Marginals
from maquette.queries.workload import Workload

Floats = NDArray[np.float64]

LARGEST_MATRIX = 10**7
"""Entries of the matrix of one class over the cells of its own attributes."""
MOST_CELLS = 2**14
"""Cells of such a matrix: each costs one evaluation of the class."""


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Queries that look at one margin: all of its cells, or weighted sums of them."""

    axes: tuple[int, ...]
    """The histogram's axes that are summed away."""
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

    def forward(self, histogram: Floats) -> Floats:
        """The answers."""
        answers = np.empty(self.count)
        for piece in self.pieces:
            table = histogram.sum(axis=piece.axes).ravel()
            answers[piece.place] = table if piece.matrix is None else piece.matrix @ table
        return answers

    def transpose(self, values: Floats) -> Floats:
        """For every cell, the sum over the queries of weight times value."""
        cells = np.zeros(self.shape)
        for piece in self.pieces:
            part = values[piece.place]
            cells += (part if piece.matrix is None else piece.matrix.T @ part).reshape(piece.shape)
        return cells

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
    for part in classes_of(queries):
        if isinstance(part, Marginals):
            for margin, place in part.slices.items():
                moved = slice(start + place.start, start + place.stop)
                pieces.append(_piece(attributes, shape, margin, None, moved))
        else:
            matrix = _matrix(part)
            if matrix is None:
                return None
            place = slice(start, start + part.count)
            pieces.append(_piece(attributes, shape, part.attributes, matrix, place))
        start += part.count
    return HistogramMap(shape, queries.count, tuple(pieces))


def can_map(queries: Queries) -> bool:
    """Is `histogram_map` within its limits? Public structure only, and quick."""
    return all(isinstance(part, Marginals) or _fits(part) for part in classes_of(queries))


def classes_of(queries: Queries) -> list[Queries]:
    """The plain classes of a workload, in order."""
    return [part.queries for part in queries.parts] if isinstance(queries, Workload) else [queries]


def answer_histogram(queries: Queries, histogram: NDArray[Any]) -> Floats:
    """All answers in counts from a histogram over `queries.attributes` (shaped by their sizes)."""
    return np.concatenate([_answer(part, queries.attributes, histogram) for part in classes_of(queries)])


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


def _piece(attributes: Margin, shape: tuple[int, ...], margin: Margin, matrix: Any, place: slice) -> Piece:
    axes = tuple(i for i, name in enumerate(attributes) if name not in margin)
    kept = tuple(1 if i in axes else size for i, size in enumerate(shape))
    return Piece(axes, kept, matrix, place)


def _fits(part: Queries) -> bool:
    cells = part.domain.cells(part.attributes)
    return cells <= MOST_CELLS and cells * part.count <= LARGEST_MATRIX


def _matrix(part: Queries) -> Any:
    from scipy.sparse import csr_array

    if not _fits(part):
        return None
    return csr_array(cell_weights(part))
