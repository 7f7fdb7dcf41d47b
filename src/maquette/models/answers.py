"""Small databases: the answers that are read off their rows, and rows out of weights on cells."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette import _check
from maquette.domain import Domain
from maquette.errors import ReleaseError
from maquette.queries import condition
from maquette.queries.base import MAX_ANSWERS, Margin, Queries, TableQueries, check_size
from maquette.queries.marginals import MAX_PIECE_QUERIES, pieces
from maquette.queries.predicates import SetQueries
from maquette.queries.weights import Weights
from maquette.questions.answers import Answers


class Unlisted(Answers):
    """Answers of a small database to a class too large to list: each is read from the rows when it is asked for."""

    __slots__ = ()

    def __init__(self, denominator: int) -> None:
        super().__init__(np.zeros(0, dtype=np.int64), denominator)

    @property
    def fractions(self) -> NDArray[np.float64]:
        raise ReleaseError(
            "this class has too many queries to list their answers: ask for single ones with release.answer(...), or "
            "count on release.rows"
        )


@dataclass(frozen=True, slots=True, eq=False)
class SmallDatabase:
    """Coded rows that stand for the table: the maquette. Columns by attribute name, all of length `m`."""

    columns: dict[str, NDArray[Any]]

    @property
    def m(self) -> int:
        return len(next(iter(self.columns.values())))

    def answer(self, queries: Queries) -> Answers:
        """Exact fractions of the rows."""
        check_size(queries.count)
        denominator = queries.denominator * max(self.m, 1)
        long = queries.count > MAX_PIECE_QUERIES and denominator < 2**31
        numerators = np.empty(queries.count, dtype=np.int32 if long else np.int64)
        for start, piece in pieces(queries):
            place = numerators[start : start + piece.count]
            factor = queries.denominator // piece.denominator
            np.multiply(piece.on_rows(self.columns), factor, out=place, casting="unsafe")
        return Answers(numerators, denominator)

    def answer_all(self, queries: Queries) -> Answers:
        """The same, or answers on demand where there are too many to list."""
        if queries.count > MAX_ANSWERS:
            return Unlisted(queries.denominator * max(self.m, 1))
        return self.answer(queries)


# Which attributes a release says something about: those that its measurements look at, from public
# structure alone.


def measured_together(workload: Queries, tables: Iterable[Margin] = ()) -> frozenset[Margin]:
    """Every set of attributes that some measurement looked at together.

    Those of the workload's queries, which every mechanism measures or fits; and `tables` that were measured beside
    them.
    """
    return frozenset(tables).union(margin for part in workload.classes for margin in _sets(part))


def measured_names(domain: Domain, sets: Iterable[Margin]) -> Margin:
    """The attributes in these sets and those of one cell, of which everything is known, in domain order."""
    used = {name for margin in sets for name in margin}
    return tuple(a.name for a in domain if a.name in used or a.size == 1)


def only(database: SmallDatabase | None, names: Margin) -> SmallDatabase | None:
    """The same rows with these columns alone; None if none is left."""
    if database is None or set(database.columns) <= set(names):
        return database
    columns = {name: codes for name, codes in database.columns.items() if name in names}
    return SmallDatabase(columns) if columns else None


def check_complete(database: SmallDatabase, domain: Domain, names: Margin) -> None:
    """Refuse rows that lack one of these attributes; those of one cell need no column."""
    missing = [name for name in names if domain[name].size > 1 and name not in database.columns]
    if missing:
        raise ReleaseError(f"the rows lack the measured attribute '{missing[0]}'")


def answer_from(database: SmallDatabase, queries: Queries) -> Answers:
    """The rows' answers to queries that depend on no other attribute than those of the rows."""
    free = [name for name in queries.attributes if name not in database.columns]
    if not free:
        return database.answer(queries)
    return SmallDatabase(database.columns | dict.fromkeys(free, np.zeros(database.m, np.uint8))).answer(
        queries
    )


def _sets(part: Queries) -> Iterator[Margin]:
    """The sets of attributes that the queries of a plain class look at."""
    if isinstance(part, Weights):
        yield _varied(part)
    elif isinstance(part, SetQueries):
        yield from (condition.attributes(part.domain, one) for one in part.conditions)
    elif isinstance(part, TableQueries) and part.count <= MAX_ANSWERS:
        yield from part.margins
    else:
        yield part.attributes


def _varied(part: Weights) -> Margin:
    """The attributes that change the weight of some query; a constant query says nothing about any."""
    table = part.numerators.reshape(part.count, *(part.domain[name].size for name in part.over))
    firsts = (table.take([0], axis=axis) for axis in range(1, table.ndim))
    return tuple(name for name, first in zip(part.over, firsts, strict=True) if np.any(table != first))


# Whole rows out of weights on cells: by largest remainders, or drawn. Post-processing: it costs nothing.


def generator(key: str) -> np.random.Generator:
    """Randomness for post-processing, the same for the same key: a repeated request gives the same rows.

    It is nobody's secret and takes no part in any guarantee.
    """
    return np.random.default_rng(np.frombuffer(hashlib.sha256(key.encode()).digest(), dtype=np.uint32))


def largest_remainder(weights: NDArray[Any], m: int) -> NDArray[np.int64]:
    """Whole counts that add up to m and differ from m times the normalised weights by less than one each.

    Accuracy: no fraction changes by more than floor(N/2) ceil(N/2) / (N m), N the cells of positive weight.
    """
    _check.whole(m=m)
    flat = _normalised(weights)
    if not flat.any():  # nothing to go by: as even as possible
        flat = np.full(len(flat), 1 / len(flat))
    exact = flat * m
    counts = np.floor(exact)
    missing = m - int(counts.sum())
    if missing > 0:
        remainders = np.where(flat > 0, exact - counts, -1.0)
        # a stable order, so that ties do not depend on the sorting method
        chosen = np.argsort(-remainders, kind="stable")[:missing]
        counts[chosen] += 1
    return counts.astype(np.int64).reshape(np.shape(weights))


def systematic(weights: NDArray[Any], m: int) -> NDArray[np.int64]:
    """Whole counts that add up to m, by rounding the running total: every run of cells is kept to within one row.

    Accuracy: a query that counts r runs of consecutive cells changes by at most r / m. Unlike largest remainders it
        does not starve regions of many light cells.
    """
    _check.whole(m=m)
    flat = _normalised(weights)
    if not flat.any():
        flat = np.full(len(flat), 1 / len(flat))
    reached = np.floor(np.cumsum(flat) * m + 0.5)
    reached[-1] = m
    counts = np.diff(np.minimum(reached, m), prepend=0.0)
    return counts.astype(np.int64).reshape(np.shape(weights))


def sample(weights: NDArray[Any], m: int, *, rng: np.random.Generator) -> NDArray[np.int64]:
    """Counts of m rows drawn independently from the normalised weights."""
    _check.whole(m=m)
    return rng.multinomial(m, _normalised(weights)).astype(np.int64).reshape(np.shape(weights))


def even_steps(weights: NDArray[Any], m: int, *, rng: np.random.Generator) -> NDArray[np.int64]:
    """m cells, flat, at even steps through the running total of the weights, from a random start.

    Accuracy: a query that counts r runs of consecutive cells changes by at most r / m.
    """
    running = np.cumsum(weights)
    marks = (np.arange(m) + rng.random()) / m * running[-1]
    return np.minimum(np.searchsorted(running, marks, side="right"), running.size - 1).astype(np.int64)


def database(domain: Domain, attributes: Margin, counts: NDArray[np.int64]) -> SmallDatabase:
    """Rows over some attributes from how often each of their cells occurs, in the order of the cells."""
    sizes = tuple(domain[name].size for name in attributes)
    cells = np.repeat(np.arange(math.prod(sizes)), np.asarray(counts).ravel())
    codes = np.unravel_index(cells, sizes) if sizes else ()
    return SmallDatabase(
        {
            name: code.astype(np.min_scalar_type(size - 1))
            for name, size, code in zip(attributes, sizes, codes, strict=True)
        }
    )


def _normalised(weights: NDArray[Any]) -> NDArray[np.float64]:
    flat = np.maximum(np.asarray(weights, dtype=np.float64).ravel(), 0.0)
    total = flat.sum()
    return flat / total if total > 0 else flat
