"""Which low-order tables a workload looks at, and how often. From public structure only."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from maquette.models.linear import classes_of
from maquette.queries.base import Margin, Queries, TableQueries
from maquette.queries.workload import Workload

MOST_TRIPLES = 20_000
"""Sets of three attributes that are looked at; beyond, those inside the strongest pairs come first."""
WIDEST_SET = 64
"""Attributes of one query up to which all pairs inside are of interest."""

Weighted = dict[tuple[int, ...], float]


@dataclass(frozen=True, slots=True)
class Interests:
    """Sets of attributes (by place in the domain) with the weight of the queries that look at them together."""

    attributes: tuple[int, ...]
    pairs: Weighted
    triples: Weighted

    @property
    def order(self) -> int:
        """The widest table that can matter: 1, 2 or 3."""
        return 3 if self.triples else 2 if self.pairs else 1


def interests(queries: Queries) -> Interests:
    """Every pair and triple of attributes that some query looks at together."""
    place = {name: i for i, name in enumerate(queries.domain.names)}
    pairs: Weighted = {}
    triples: Weighted = {}
    used: set[int] = set()
    for margin, weight in _sets(queries):
        names = tuple(sorted(place[name] for name in margin if queries.domain[name].size > 1))
        used.update(names)
        for order, found in ((2, pairs), (3, triples)):
            if len(names) <= WIDEST_SET:
                for part in combinations(names, order):
                    found[part] = found.get(part, 0.0) + weight
    return Interests(tuple(sorted(used)), dict(sorted(pairs.items())), dict(sorted(triples.items())))


def _sets(queries: Queries) -> list[tuple[Margin, float]]:
    """The sets of attributes that the queries of each part look at, with the part's weight."""
    parts = (
        [(p.queries, p.weight) for p in queries.parts] if isinstance(queries, Workload) else [(queries, 1.0)]
    )
    found: list[tuple[Margin, float]] = []
    for part, weight in parts:
        for single in classes_of(part):
            margins = single.margins if isinstance(single, TableQueries) else (single.attributes,)
            found.extend((margin, weight) for margin in margins)
    return found
