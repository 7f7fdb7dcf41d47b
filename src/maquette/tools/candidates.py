"""Small databases proposed by an earlier release: candidates for one private draw (SmallDB on a released range).

The proposals follow from the release, so they cost nothing, and any number of sizes may be tried. The draw among them
is the exponential mechanism on SmallDB's score; what it loses against the best proposal is its regret. How good the
best proposal is, no theorem says in advance: a certificate measures it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maquette import _check
from maquette.errors import ParameterError
from maquette.models.answers import SmallDatabase
from maquette.models.rows import generator
from maquette.queries.base import Queries
from maquette.results.release import Release

SEARCHED = 64
"""Subsets that are tried for every proposal; the one whose answers are nearest to the release's is kept."""


def small_databases(
    release: Release, sizes: Sequence[int], *, each: int = 4, workload: Queries | None = None
) -> list[SmallDatabase]:
    """Databases of several sizes out of the rows of a release: `each` of every size, then the rows themselves.

    Every proposal is the best of several random subsets of the released rows, by the largest difference to the
    release's own answers over `workload` (its own by default). Public: nothing private is looked at.
    """
    if release.database is None:
        raise ParameterError("the release has no rows to propose small databases from; release with rows")
    _check.whole(each=each)
    rows, queries = release.database, release.workload if workload is None else workload
    target = rows.answer(queries).fractions
    rng = generator(f"{release.parameters.get('key', '')} candidates")
    proposals: list[SmallDatabase] = []
    for size in sizes:
        _check.whole(size=size)
        if size < rows.m:
            proposals += [_nearest(rows, size, queries, target, rng) for _ in range(each)]
    return [*proposals, rows]


def _nearest(
    rows: SmallDatabase, size: int, queries: Queries, target: np.ndarray, rng: np.random.Generator
) -> SmallDatabase:
    best: tuple[float, SmallDatabase] | None = None
    for _ in range(SEARCHED):
        places = rng.choice(rows.m, size, replace=False)
        subset = SmallDatabase({name: codes[places] for name, codes in rows.columns.items()})
        gap = float(np.abs(subset.answer(queries).fractions - target).max(initial=0.0))
        if best is None or gap < best[0]:
            best = gap, subset
    assert best is not None  # SEARCHED is positive
    return best[1]
