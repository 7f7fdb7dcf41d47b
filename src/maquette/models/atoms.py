"""Elements of the universe that no query tells apart are interchangeable: they form one atom."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maquette.errors import MechanismError
from maquette.queries.base import Margin, Queries

Integers = NDArray[np.int64]

MOST_CELLS = 2**14
"""Cells of the attributes that the queries look at; more are not listed one by one."""
MOST_WEIGHTS = 2**24
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
    return bool(queries.attributes) and cells <= MOST_CELLS and cells * queries.count <= MOST_WEIGHTS


def atoms(queries: Queries) -> Atoms:
    """The atoms of a class over few cells.

    Cost: every query on every cell.
    """
    if not listable(queries):
        raise MechanismError(
            f"the {queries.count:,} queries look at {queries.domain.cells(queries.attributes):,} cells, too many to "
            f"list (at most {MOST_CELLS:,} cells and {MOST_WEIGHTS:,} weights)"
        )
    shape = tuple(queries.domain[name].size for name in queries.attributes)
    cells = np.unravel_index(np.arange(math.prod(shape)), shape)
    rows = {name: c.astype(np.int64) for name, c in zip(queries.attributes, cells, strict=True)}
    weights, of = np.unique(queries.columns_of(rows), axis=1, return_inverse=True)
    return Atoms(
        queries.attributes, shape, weights.astype(np.int64), queries.denominator, of.ravel().astype(np.int64)
    )
