"""Small databases proposed by an earlier release: candidates for one private draw (SmallDB on a released range).

The proposals follow from the release, so they cost nothing, and any number of sizes may be tried. The draw among them
is the exponential mechanism on SmallDB's score; what it loses against the best proposal is its regret. How good the
best proposal is, no theorem says in advance: a certificate measures it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette import _check
from maquette.errors import ParameterError
from maquette.models.answers import SmallDatabase, generator
from maquette.queries.base import Queries
from maquette.results.release import Release

POOL, MAX_ENTRIES = 2000, 2**24
"""Released rows that one proposal is picked from, and queries times rows that are held for that at most."""


def small_databases(
    release: Release, sizes: Sequence[int], *, each: int = 4, workload: Queries | None = None
) -> list[SmallDatabase]:
    """Databases of several sizes out of the rows of a release: `each` of every size, then the rows themselves.

    Every proposal is picked out of random rows of the release, one row at a time, each the one that brings the answers
    over `workload` (the release's own by default) nearest to those of all released rows in squared distance (herding;
    Chen, Welling and Smola 2010): its error falls like 1 / size, that of random rows like the root of that. Public:
    nothing private is looked at.
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
    """`size` of the rows, picked one after the other."""
    most = max(size, min(POOL, MAX_ENTRIES // max(queries.count, 1)))
    pool = rng.choice(rows.m, min(rows.m, most), replace=False)
    columns = {name: codes[pool] for name, codes in rows.columns.items()}
    picked = pool[herd(_weights(queries, columns, len(pool)) - target[:, None].astype(np.float32), size)]
    return SmallDatabase({name: codes[picked] for name, codes in rows.columns.items()})


def herd(gaps: NDArray[np.float32], size: int) -> NDArray[np.int64]:
    """The numbers of `size` columns whose sum is small: the next is the one that makes the norm of the sum smallest."""
    norms = np.einsum("ij,ij->j", gaps, gaps)
    total = np.zeros(len(gaps), dtype=np.float32)
    picked = np.empty(size, dtype=np.int64)
    for place in range(size):
        scores = 2 * (total @ gaps) + norms
        scores[picked[:place]] = np.inf
        picked[place] = int(scores.argmin())
        total = total + gaps[:, picked[place]]
    return picked


def _weights(queries: Queries, columns: dict[str, NDArray[Any]], count: int) -> NDArray[np.float32]:
    """The weight of every query (down) on every row (across)."""
    free = {name: np.zeros(count, dtype=np.uint8) for name in queries.attributes if name not in columns}
    return np.asarray(queries.columns_of(columns | free) / queries.denominator, dtype=np.float32)
