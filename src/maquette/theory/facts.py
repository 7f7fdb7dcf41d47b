"""What the bounds of SmallDB need to know about a class of queries, read off the class."""

from __future__ import annotations

from maquette.domain import Relation
from maquette.errors import WorkloadError
from maquette.queries.base import Queries
from maquette.queries.capacity import log_distinct
from maquette.queries.dimension_forms import known
from maquette.queries.ranges import Prefixes, Ranges
from maquette.theory.existence import Facts, Shape


def facts_of(queries: Queries, *, vc: int | None = None) -> Facts:
    """Public facts of a class: the cells of the attributes it looks at, ln k after merging, its shape, its dimension.

    The VC dimension is the closed form's where there is one; otherwise it may be given (see `vc_dimension`).
    """
    span = float(queries.sensitivity(Relation.REPLACE_ONE).linf)
    if span == 0:
        raise WorkloadError("all queries are constant: their fractions are known without any table")
    closed = known(queries)
    return Facts(
        universe=queries.domain.cells(queries.attributes),
        log_queries=log_distinct(queries),
        vc=vc if vc is not None else None if closed is None else len(closed.points),
        shape=_shape(queries),
        span=min(1.0, span),
    )


def _shape(queries: Queries) -> Shape | None:
    if isinstance(queries, Prefixes):
        return "thresholds"
    return "intervals" if isinstance(queries, Ranges) and len(queries.over) == 1 else None
