"""Which low-order tables a workload looks at, and how often. From public structure only."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from maquette.queries.base import Margin, Queries, TableQueries
from maquette.queries.marginals import Marginals
from maquette.queries.workload import Workload

WIDEST_SET = 64
"""Attributes of one query up to which the pairs and triples inside are of interest."""

Weighted = dict[tuple[int, ...], float]


@dataclass(frozen=True, slots=True)
class Interests:
    """Sets of attributes (by place in the domain) with the weight of the queries that look at them together."""

    attributes: tuple[int, ...]
    ordered: frozenset[int]
    """Attributes that queries other than marginals look at, such as ranges and prefixes."""
    pairs: Weighted
    triples: Weighted


def interests(queries: Queries) -> Interests:
    """Every pair and triple of attributes that some query looks at together."""
    place = {attribute.name: i for i, attribute in enumerate(queries.domain)}
    varied = {attribute.name for attribute in queries.domain if attribute.size > 1}
    pairs: Weighted = {}
    triples: Weighted = {}
    used: set[int] = set()
    for margin, weight in _sets(queries):
        names = sorted(place[name] for name in margin if name in varied)
        used.update(names)
        for order, found in ((2, pairs), (3, triples)):
            if len(names) <= WIDEST_SET:
                for part in combinations(names, order):
                    found[part] = found.get(part, 0.0) + weight
    ordered = frozenset(
        place[name]
        for part, _ in parts_of(queries)
        if not isinstance(part, Marginals)
        for name in part.attributes
    )
    return Interests(tuple(sorted(used)), ordered, dict(sorted(pairs.items())), dict(sorted(triples.items())))


def parts_of(queries: Queries) -> list[tuple[Queries, float]]:
    """The plain classes of a workload, each with its weight, in order."""
    if isinstance(queries, Workload):
        return [(part.queries, part.weight) for part in queries.parts]
    return [(queries, 1.0)]


def _sets(queries: Queries) -> list[tuple[Margin, float]]:
    """The sets of attributes that the queries of each part look at, with the part's weight."""
    found: list[tuple[Margin, float]] = []
    for part, weight in parts_of(queries):
        margins = part.margins if isinstance(part, TableQueries) else (part.attributes,)
        found.extend((margin, weight) for margin in margins)
    return found
