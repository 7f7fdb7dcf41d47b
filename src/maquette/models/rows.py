"""Whole rows out of weights on cells: by largest remainders, or drawn. Post-processing: it costs nothing."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette import _check
from maquette.domain import Domain
from maquette.models.answers import SmallDatabase
from maquette.queries.base import Margin


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
