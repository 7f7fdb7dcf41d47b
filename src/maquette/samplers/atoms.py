"""Elements of the universe that no query tells apart are interchangeable: they form one atom."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maquette.errors import MechanismError, WorkloadError
from maquette.queries.base import Queries
from maquette.queries.rows import Margin

Integers = NDArray[np.int64]

MAX_CELLS_LISTED = 2**14
"""Cells of the attributes that the queries look at; more are not listed one by one."""
MAX_WEIGHTS_LISTED = 2**24
"""Queries times cells."""


@dataclass(frozen=True, slots=True, eq=False)
class Atoms:
    """The atoms of a class of queries over the cells of the attributes that it looks at."""

    attributes: Margin
    shape: tuple[int, ...]
    weights: Integers
    """Numerators of every query (down) on every atom (across)."""
    denominator: int
    of: Integers
    """The atom of every cell, in C order."""

    @property
    def count(self) -> int:
        return self.weights.shape[1]

    @property
    def sizes(self) -> Integers:
        """How many cells each atom has."""
        return np.bincount(self.of, minlength=self.count).astype(np.int64)

    @property
    def span(self) -> int:
        """The numerator of D, the largest difference of one query's weights: no record moves a query by more.

        Where all queries are constant every score is 0, and any unit will do.
        """
        apart = self.weights.max(axis=1, initial=0) - self.weights.min(axis=1, initial=self.denominator)
        return max(int(apart.max(initial=0)), 0) or self.denominator

    def cells(self, atoms: Integers, rng: np.random.Generator) -> dict[str, Integers]:
        """A uniform cell of each atom, as one column per attribute."""
        order = np.argsort(self.of, kind="stable")
        starts = np.concatenate([[0], np.cumsum(self.sizes)])
        flat = order[starts[atoms] + rng.integers(0, self.sizes[atoms])]
        codes = np.unravel_index(flat, self.shape)
        return {name: c.astype(np.int64) for name, c in zip(self.attributes, codes, strict=True)}


def listable(queries: Queries) -> bool:
    """Are there few enough cells to look at each?"""
    cells = queries.domain.cells(queries.attributes)
    return (
        bool(queries.attributes) and cells <= MAX_CELLS_LISTED and cells * queries.count <= MAX_WEIGHTS_LISTED
    )


def atoms(queries: Queries) -> Atoms:
    """The atoms of a class over few cells.

    Cost: every query on every cell.
    """
    if not listable(queries):
        raise MechanismError(
            f"the {queries.count:,} queries look at {queries.domain.cells(queries.attributes):,} cells, too many to "
            f"list (at most {MAX_CELLS_LISTED:,} cells and {MAX_WEIGHTS_LISTED:,} weights)"
        )
    shape = tuple(queries.domain[name].size for name in queries.attributes)
    cells = np.unravel_index(np.arange(math.prod(shape)), shape)
    rows = {name: c.astype(np.int64) for name, c in zip(queries.attributes, cells, strict=True)}
    columns = np.asarray(queries.columns_of(rows))
    if columns.dtype.kind not in "biu":
        raise WorkloadError(f"expected whole numerators of the weights, got {columns.dtype}; use weights()")
    weights, of = np.unique(columns, axis=1, return_inverse=True)
    return Atoms(
        queries.attributes, shape, weights.astype(np.int64), queries.denominator, of.ravel().astype(np.int64)
    )


# Reading the atoms of a class one after the other: which queries are open in between, and how many states
# that makes.
#
# A query is open after some atoms if it weighs an atom already read and one still to come. A small database
# is then known well enough by how many rows it has used and by the sums of its open queries. The number of
# such states is bounded from public structure, for every table.


MAX_TRELLIS_ATOMS = 512
MAX_TRELLIS_QUERIES = 512


@dataclass(frozen=True, slots=True)
class Layer:
    """After some atoms have been read."""

    open: tuple[int, ...]
    """Queries whose sums are kept."""
    columns: int
    """How many different columns the open queries have on the atoms that were read."""
    rank: int
    """Of those columns and the number of rows together."""

    def states(self, m: int, *, counting: bool) -> int:
        """At most so many: counts per different column, or values of independent sums where each is 0 .. m."""
        shared = math.comb(m + self.columns, self.columns)
        return min(shared, (m + 1) ** self.rank) if counting else shared


@dataclass(frozen=True, slots=True)
class Layout:
    """An order of the atoms."""

    order: tuple[int, ...]
    layers: tuple[Layer, ...]
    """Before the first atom, after it, ..., after the last."""
    counting: bool

    def states(self, m: int) -> int:
        """The most that one level of a draw can hold."""
        return sum(layer.states(m, counting=self.counting) for layer in self.layers[:-1]) + 1


def readable(atoms: Atoms) -> bool:
    """Few enough to look for an order?"""
    return atoms.count <= MAX_TRELLIS_ATOMS and len(atoms.weights) <= MAX_TRELLIS_QUERIES


def layout(atoms: Atoms) -> Layout:
    """The better one of two orders: of the atoms' columns, and of their first cells."""
    first_cells = np.full(atoms.count, len(atoms.of), dtype=np.int64)
    np.minimum.at(first_cells, atoms.of, np.arange(len(atoms.of)))
    orders = [np.arange(atoms.count), np.argsort(first_cells, kind="stable")]
    return min((_laid_out(atoms, order) for order in orders), key=lambda layout: layout.states(10))


def _laid_out(atoms: Atoms, order: Integers) -> Layout:
    weights = atoms.weights[:, order]
    is_open = weights != 0
    starts = np.where(is_open.any(axis=1), is_open.argmax(axis=1), atoms.count)
    ends = np.where(is_open.any(axis=1), atoms.count - is_open[:, ::-1].argmax(axis=1), 0)
    layers = tuple(_layer(weights, starts, ends, place) for place in range(atoms.count + 1))
    return Layout(tuple(order.tolist()), layers, atoms.denominator == 1)


def _layer(weights: Integers, starts: Integers, ends: Integers, place: int) -> Layer:
    opened = np.flatnonzero((starts < place) & (place < ends))
    columns = (
        np.unique(weights[opened, :place], axis=1) if place else np.zeros((len(opened), 0), dtype=np.int64)
    )
    rows = np.vstack([np.ones((1, columns.shape[1]), dtype=np.int64), columns])
    rank = int(np.linalg.matrix_rank(rows)) if columns.shape[1] else 0
    return Layer(tuple(opened.tolist()), columns.shape[1], rank)
