"""A long class of queries in consecutive pieces, so that all answers need not be held at once."""

from __future__ import annotations

from collections.abc import Iterator

from maquette.queries.base import Margin, Queries
from maquette.queries.marginals import Marginals
from maquette.queries.workload import Workload

LONG = 2**21
"""Queries of a piece; a single margin of more is one piece."""


def pieces(queries: Queries, *, most: int | None = None) -> Iterator[tuple[int, Queries]]:
    """Where each piece begins, and its queries: marginals are cut between margins, other classes stay whole.

    Each piece has its own denominator, which divides that of all of them.
    """
    limit = LONG if most is None else most
    if queries.count <= limit:
        yield 0, queries
        return
    start = 0
    for part in [p.queries for p in queries.parts] if isinstance(queries, Workload) else [queries]:
        for piece in _cut(part, limit) if isinstance(part, Marginals) else [part]:
            yield start, piece
            start += piece.count


def _cut(queries: Marginals, limit: int) -> Iterator[Marginals]:
    held: list[Margin] = []
    cells = 0
    for margin, place in queries.slices.items():
        size = place.stop - place.start
        if held and cells + size > limit:
            yield Marginals(queries.domain, tuple(held))
            held, cells = [], 0
        held.append(margin)
        cells += size
    yield Marginals(queries.domain, tuple(held))
