"""How rich a class of queries is: the logarithms of its size that bounds ask for."""

from __future__ import annotations

import math

from maquette.queries.base import Queries


def log_count(queries: Queries) -> float:
    """ln of the number of queries as asked."""
    return math.log(queries.count)


def log_distinct(queries: Queries) -> float:
    """ln |Q| after merging duplicates and complements and dropping constants; 0 if nothing is left."""
    return math.log(max(1, queries.distinct()))
