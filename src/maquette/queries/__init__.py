"""Classes of linear queries: each knows its size, its sensitivities and how to answer itself."""

from maquette.queries.base import Columns, Group, Margin, Queries, Sensitivity, TableQueries
from maquette.queries.boxes import Boxes, boxes
from maquette.queries.capacity import log_count, log_distinct
from maquette.queries.conjunctions import Conjunctions, conjunctions
from maquette.queries.form import canonical_hash, from_json, load, save, to_json
from maquette.queries.halfspaces import Halfspaces, halfspaces
from maquette.queries.marginals import Marginals, marginals, points
from maquette.queries.predicate import Predicate, Predicates, exact_predicates, predicates, where
from maquette.queries.ranges import Prefixes, Ranges, prefixes, ranges, thresholds
from maquette.queries.weights import Weights, weights
from maquette.queries.words import parse_workload
from maquette.queries.workload import Part, Workload, union

__all__ = [
    "Boxes",
    "Columns",
    "Conjunctions",
    "Group",
    "Halfspaces",
    "Margin",
    "Marginals",
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
    "log_count",
    "log_distinct",
    "marginals",
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
