"""Classes of linear queries: each knows its size, its sensitivities and how to answer itself."""

from maquette.core.forms import Sensitivity
from maquette.core.linear_queries import Group
from maquette.queries.base import (
    Part,
    Queries,
    TableQueries,
    Workload,
    canonical_hash,
    log_distinct,
    to_json,
    union,
)
from maquette.queries.conjunctions import Conjunctions, conjunctions
from maquette.queries.forms import from_json, load, parse_workload, save
from maquette.queries.halfspaces import Halfspaces, halfspaces
from maquette.queries.marginals import Marginals, marginals, points
from maquette.queries.parities import Parities
from maquette.queries.predicates import (
    Boxes,
    Predicate,
    Predicates,
    boxes,
    exact_predicates,
    predicates,
    where,
)
from maquette.queries.ranges import Prefixes, Ranges, prefixes, ranges, thresholds
from maquette.queries.rows import Columns, Margin
from maquette.queries.weights import Weights, parities, weights

__all__ = [
    "Boxes",
    "Columns",
    "Conjunctions",
    "Group",
    "Halfspaces",
    "Margin",
    "Marginals",
    "Parities",
    "Part",
    "Predicate",
    "Predicates",
    "Prefixes",
    "Queries",
    "Ranges",
    "Sensitivity",
    "TableQueries",
    "Weights",
    "Workload",
    "boxes",
    "canonical_hash",
    "conjunctions",
    "exact_predicates",
    "from_json",
    "halfspaces",
    "load",
    "log_distinct",
    "marginals",
    "parities",
    "parse_workload",
    "points",
    "predicates",
    "prefixes",
    "ranges",
    "save",
    "thresholds",
    "to_json",
    "union",
    "weights",
    "where",
]
