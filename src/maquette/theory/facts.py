"""What the bounds of SmallDB need to know about a class of queries, read off the class."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from maquette.domain import Relation
from maquette.errors import WorkloadError
from maquette.queries import dimension_forms
from maquette.queries.base import Queries
from maquette.queries.boxes import Boxes
from maquette.queries.capacity import log_distinct
from maquette.queries.halfspaces import Halfspaces
from maquette.queries.marginals import Marginals
from maquette.queries.ranges import Prefixes, Ranges
from maquette.queries.workload import Workload, union
from maquette.theory.existence import Facts, Shape


def facts_of(queries: Queries, *, vc: int | None = None) -> Facts:
    """Public facts of a class: the cells of the attributes it looks at, ln k after merging, its shape, its dimension.

    The VC dimension is that of `vc_at_most`; otherwise it may be given (see `vc_dimension`). Classes on disjoint
    attributes are described one by one as well.
    """
    span = float(queries.sensitivity(Relation.REPLACE_ONE).linf)
    if span == 0:
        raise WorkloadError("all queries are constant: their fractions are known without any table")
    return Facts(
        universe=queries.domain.cells(queries.attributes),
        log_queries=log_distinct(queries),
        vc=vc_at_most(queries) if vc is None else vc,
        shape=_shape(queries),
        span=min(1.0, span),
        parts=tuple(facts_of(part) for part in disjoint_parts(queries)),
    )


def vc_at_most(queries: Queries) -> int | None:
    """A VC dimension that the class does not exceed, known without a search; None if there is none."""
    closed = dimension_forms.known(queries)
    if closed is not None:
        return len(closed.points)
    match queries:
        case Boxes(domain=domain, attributes=names):
            return dimension_forms.boxes(cells=[domain[name].size for name in names])
        case Halfspaces(over=over):
            return dimension_forms.halfspaces(d=len(over))
        case _:
            return None


def disjoint_parts(queries: Queries) -> list[Queries]:
    """The classes on disjoint attributes that a class consists of, constant ones left out; none if it is one."""
    pieces = [piece for part in _classes(queries) for piece in _pieces(part)]
    groups = _connected(piece.attributes for piece in pieces)
    if len(groups) < 2:
        return []
    found = [[piece for piece in pieces if set(piece.attributes) <= names] for names in groups]
    parts = [group[0] if len(group) == 1 else union(*group) for group in found if group]
    return [part for part in parts if part.distinct()]


def _shape(queries: Queries) -> Shape | None:
    """Prefixes, or runs of the cells of one attribute: intervals, cells of a histogram."""
    if isinstance(queries, Prefixes):
        return "thresholds"
    match queries:
        case Ranges(over=(_,)) | Boxes(attributes=(_,)):
            return "intervals"
        case Marginals(domain=domain, margins=margins):
            names = {name for margin in margins for name in margin if domain[name].size > 1}
            return "intervals" if len(names) == 1 else None
        case _:
            return None


def _classes(queries: Queries) -> list[Queries]:
    return [part.queries for part in queries.parts] if isinstance(queries, Workload) else [queries]


def _pieces(queries: Queries) -> list[Queries]:
    """Marginals one by one, so that they can be told apart; a class that looks at nothing is left out."""
    if isinstance(queries, Marginals):
        told = [
            margin for margin in queries.margins if prod(queries.domain[name].size for name in margin) > 1
        ]
        return [Marginals(queries.domain, (margin,)) for margin in told]
    return [queries] if queries.attributes else []


def _connected(margins: Iterable[tuple[str, ...]]) -> list[set[str]]:
    """Sets of attributes, no two of which are looked at together."""
    groups: list[set[str]] = []
    for margin in margins:
        near = [group for group in groups if group & set(margin)]
        groups = [group for group in groups if group not in near]
        groups.append(set(margin).union(*near))
    return groups
