"""One question as a session sees it: what it means, whatever words it came in."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from maquette.domain import Domain
from maquette.errors import ParameterError, WorkloadError
from maquette.models.rows import generator
from maquette.queries import Predicate, canonical_hash, where
from maquette.queries.base import Columns, Queries

_PROBES = 16


@dataclass(frozen=True, slots=True)
class Question:
    """A query with the name of its meaning: the same for its duplicates and its complement."""

    queries: Queries
    text: str
    meaning: str
    """Digest of what is asked, up to taking the complement; empty for a constant."""
    side: bool
    """Which of the two complements it is."""
    constant: float | None
    """Its value, if all records weigh the same."""
    notes: tuple[str, ...] = ()
    ends: tuple[Question, Question] | None = None
    """For a predicate that cuts cells: who surely satisfies it and who may. They are asked in its place."""

    def turned(self, value: float, side: bool) -> float:
        """A value that was given for one side, as this question's."""
        return value if side == self.side else 1.0 - value


class Reader:
    """Reads questions over one domain."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._probes = _probes(domain)

    def read(self, asked: str | Queries) -> Question:
        """A predicate in SQL, or a class of exactly one query."""
        queries = where(self._domain, asked) if isinstance(asked, str) else asked
        if not isinstance(queries, Queries):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ParameterError(f"expected a predicate or one query, got {type(asked).__name__}")
        if queries.domain.fingerprint != self._domain.fingerprint:
            raise WorkloadError("expected a query over the table's own domain; build it from table.domain")
        if queries.count != 1:
            raise WorkloadError(f"expected one query at a time, got {queries.count}; ask them one by one")
        return self._identify(queries)

    def _identify(self, queries: Queries) -> Question:
        if isinstance(queries, Predicate) and not queries.exact:
            low, high = (self._identify(end) for end in queries.ends())
            return Question(queries, queries.sql, "", True, None, queries.cuts, (low, high))
        text = queries.text(0)
        weights = np.asarray(queries.columns_of(self._probes))[0]
        key = next(iter(queries.query_keys()))
        if key is None:
            return Question(queries, text, "", True, float(weights[0]) / queries.denominator)
        # of a query and its complement, one weighs the first record above a half that does not weigh just a half
        decided = weights[2 * weights != queries.denominator]
        if not len(decided):
            return Question(queries, text, canonical_hash(queries), True, None)
        meaning = hashlib.sha256(repr(key).encode()).hexdigest()
        return Question(queries, text, meaning, bool(2 * decided[0] > queries.denominator), None)


def _probes(domain: Domain) -> Columns:
    """A few records of the universe, the same for everybody."""
    rng = generator(f"probes {domain.fingerprint}")
    columns: dict[str, Any] = {a.name: rng.integers(0, a.size, size=_PROBES) for a in domain}
    return columns
