"""Small universes, random conjunctions of intervals and their exact answers, for tests of hypotheses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Attribute, Domain, Kind
from maquette.queries import boxes, weights, where
from maquette.queries.base import Queries


def universe(*sizes: int) -> Domain:
    return Domain(tuple(Attribute(f"x{i}", Kind.ORDINAL, codes=s) for i, s in enumerate(sizes)))


def lumpy(domain: Domain, seed: int) -> NDArray[np.float64]:
    """A distribution with a few heavy cells."""
    raw = np.random.default_rng(seed).random(domain.shape) ** 6
    return raw / raw.sum()


def random_box(domain: Domain, rng: np.random.Generator, width: int = 2) -> Queries:
    chosen = rng.choice(len(domain), min(width, len(domain)), replace=False)
    box: dict[str, tuple[int, int]] = {}
    for i in chosen:
        ends = sorted(int(e) for e in rng.integers(0, domain.shape[i], 2))
        box[domain.names[i]] = (ends[0], ends[1])
    return boxes(domain, [box])


def kinds_of_query(domain: Domain) -> list[Queries]:
    """A product of intervals, a union of products, fractional weights, a constant."""
    first, last = domain.names[0], domain.names[-1]
    size = domain.cells([first, last])
    matrix = np.linspace(0, 1, size)[None, :] ** 2
    return [
        boxes(domain, [{first: (0, 1), last: (1, 2)}]),
        where(domain, f"{first} = 0 OR {last} > 1"),
        weights(domain, matrix, attributes=[first, last]),
        where(domain, f"{first} >= 0"),
    ]


def exact(queries: Queries, distribution: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(queries.on_histogram(distribution)) / queries.denominator


def entropy(table: NDArray[Any], hypothesis: NDArray[Any]) -> float:
    """KL(table || hypothesis)."""
    kept = table > 0
    return float((table[kept] * np.log(table[kept] / hypothesis[kept])).sum())
