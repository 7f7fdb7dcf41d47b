"""Classes of linear queries: each knows its size, its sensitivities and how to answer itself."""

from maquette.queries.base import Columns, Group, Margin, Queries, Sensitivity, TableQueries
from maquette.queries.form import canonical_hash, from_json, load, save, to_json
from maquette.queries.marginals import Marginals, marginals, points
from maquette.queries.ranges import Prefixes, Ranges, prefixes, ranges, thresholds
from maquette.queries.workload import Part, Workload, union

__all__ = [
    "Columns",
    "Group",
    "Margin",
    "Marginals",
    "Part",
    "Prefixes",
    "Queries",
    "Ranges",
    "Sensitivity",
    "TableQueries",
    "Workload",
    "canonical_hash",
    "from_json",
    "load",
    "marginals",
    "points",
    "prefixes",
    "ranges",
    "save",
    "thresholds",
    "to_json",
    "union",
]
