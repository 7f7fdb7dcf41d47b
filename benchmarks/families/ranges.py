"""Errors of what people ask of rows: a range of one column and a value of another, and random conditions."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from benchmarks.families.double import StoredCounts
from maquette.core.attribute import Kind
from maquette.core.tables import count_tables
from maquette.domain import Domain
from maquette.models.answers import SmallDatabase

CONDITIONS = 300
"""Random conditions of every number of columns."""
_LARGEST = 2**20
"""Cells of a pair or triple that is looked at."""
_ORDERED = (Kind.NUMERIC, Kind.ORDINAL)


def range_errors(counts: StoredCounts, database: SmallDatabase) -> dict[str, float]:
    """The worst range x value over all pairs of columns, and the mean and 95 % quantile of random conditions."""
    conditions = _conditions(counts.domain)
    names = tuple(name for name in counts.domain.names if name in database.columns)
    pairs = [
        (down, across)
        for down, across in permutations(names, 2)
        if counts.domain[down].kind in _ORDERED and counts.domain.cells((down, across)) <= _LARGEST
    ]
    margins = {tuple(sorted(pair, key=names.index)) for pair in pairs}
    margins |= {tuple(condition) for condition in conditions}
    gaps = _gaps(counts, database, sorted(margins))
    worst = max((_worst_range(gaps, pair) for pair in pairs), default=0.0)
    errors = [
        abs(float(gaps[tuple(condition)][tuple(slice(*ends) for ends in condition.values())].sum()))
        for condition in conditions
    ]
    return {
        "rows range": worst,
        "rows conditions": float(np.mean(errors)),
        "rows conditions 95": float(np.quantile(errors, 0.95)),
    }


def _gaps(
    counts: StoredCounts, database: SmallDatabase, margins: list[tuple[str, ...]]
) -> dict[tuple[str, ...], NDArray[np.float64]]:
    """Shares of the rows less those of the records, by cell."""
    domain = counts.domain
    sizes = {attribute.name: attribute.size for attribute in domain}
    exact = counts.margins(margins)
    rows = count_tables(sizes, database.columns, margins, rows=database.m)
    return {
        margin: (rows[margin].ravel() / database.m - exact[margin].ravel() / counts.size()).reshape(
            [sizes[name] for name in margin]
        )
        for margin in margins
    }


def _worst_range(gaps: Mapping[tuple[str, ...], NDArray[np.float64]], pair: tuple[str, str]) -> float:
    """The largest error of an interval of the first column and one value of the second, or that value alone."""
    table = gaps[pair] if pair in gaps else gaps[pair[::-1]].T
    sums = np.cumsum(table, axis=0)
    return float((np.maximum(sums.max(axis=0), 0) - np.minimum(sums.min(axis=0), 0)).max())


def _conditions(domain: Domain) -> list[dict[str, tuple[int, int]]]:
    """The same ones for every release: an interval of ordered columns, one value of others, by column."""
    rng = np.random.default_rng(23)
    varied = [i for i, attribute in enumerate(domain) if attribute.size > 1]
    found: list[dict[str, tuple[int, int]]] = []
    for count in range(1, min(3, len(varied)) + 1):
        for _ in range(CONDITIONS):
            places = sorted(rng.choice(varied, count, replace=False).tolist())
            condition: dict[str, tuple[int, int]] = {}
            for attribute in (domain.attributes[place] for place in places):
                if attribute.kind in _ORDERED:
                    low, high = np.sort(rng.integers(0, attribute.size, 2)).tolist()
                else:
                    low = high = int(rng.integers(0, attribute.size))
                condition[attribute.name] = low, high + 1
            if domain.cells(tuple(condition)) <= _LARGEST:
                found.append(condition)
    return found
