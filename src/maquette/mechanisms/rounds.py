"""What the offline mechanisms of multiplicative weights share: single queries of a workload, prices, refusals."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.accounting.gaussian import rho_of
from maquette.domain import Relation
from maquette.mechanisms import laws, shape
from maquette.mechanisms.base import Task
from maquette.models.linear import HistogramMap, Piece
from maquette.queries.base import Queries
from maquette.queries.weights import weights

SIZE_SHARE = Fraction(1, 20)
"""The part of the price that goes to the number of records, where that is private."""
MOST_ROUNDS = 400
_WORK = 4e10
"""Elements that all rounds together may pass over."""
_CANDIDATES = 7e5
"""Candidates per second of a private choice."""


def refusal(task: Task, *, name: str) -> str | None:
    """Why weights on the universe of the queries cannot be held or learnt, or None."""
    if not shape.gives_rows(task.queries):
        return (
            f"{name} holds a weight for every cell that the queries look at, and these are "
            f"{shape.universe(task.queries):,} in a class too large for that"
        )
    if task.post in ("lp", "l2"):
        return f"the answers of {name} come from one histogram already; use post='auto'"
    return shape.too_many(task.queries)


def split(task: Task) -> laws.Split:
    """A small part of the price for the number of records, where that is private."""
    if task.relation is Relation.REPLACE_ONE:
        return laws.Split(Fraction(0), task.price)
    size = task.price * SIZE_SHARE
    return laws.Split(size, task.price - size)


def most(task: Task) -> int:
    """Rounds that the work allows; from public structure."""
    return int(min(MOST_ROUNDS, max(10, _WORK / (40 * pass_of(task)))))


def pass_of(task: Task) -> float:
    """Elements that one round passes over."""
    return shape.fit_pass(task.queries) + 20.0 * task.queries.count


def seconds(task: Task, *, rounds: int) -> float:
    """Passes over the weights, and private choices; counting once."""
    each = pass_of(task) / 3e8 + 2 * task.queries.count / _CANDIDATES + 0.003
    return 0.3 + rounds * each


def epsilon_of(price: Fraction, unit: str) -> float:
    """The epsilon of a selection at a price: itself, or sqrt(8 rho) by bounded range; a hair less for rounding."""
    return (float(price) if unit == "epsilon" else math.sqrt(8 * rho_of(price, unit))) * (1 - 1e-9)


def place_of(mapped: HistogramMap, index: int) -> tuple[Piece, int]:
    """The piece that holds a query, and the query's place in it."""
    for piece in mapped.pieces:
        if piece.place.start <= index < piece.place.stop:
            return piece, index - piece.place.start
    raise AssertionError("no piece holds the query")


def row_of(mapped: HistogramMap, index: int) -> NDArray[np.float64]:
    """The weights of one query on the histogram, as an array that spreads over the axes it does not look at."""
    piece, place = place_of(mapped, index)
    if piece.matrix is None:
        row = np.zeros(math.prod(piece.shape))
        row[place] = 1.0
    else:
        row = np.asarray(piece.matrix[[place]].todense(), dtype=np.float64).ravel()
    return row.reshape(piece.shape)


def single(queries: Queries, mapped: HistogramMap, index: int) -> Queries:
    """One query of a workload as a class of its own."""
    piece, _ = place_of(mapped, index)
    kept = [name for axis, name in enumerate(queries.attributes) if axis not in piece.gone]
    row: Any = row_of(mapped, index).ravel()[None, :]
    return weights(queries.domain, row, attributes=kept)
