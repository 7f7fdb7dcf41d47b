"""Public arrays in a request: the ledger's digest of a question covers them by their own digests."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.queries import canonical_hash
from maquette.queries.base import Queries
from maquette.queries.marginals import Binned
from maquette.queries.merging import MAX_PIECE_QUERIES
from maquette.questions.answers import Answers


def answers_digest(numerators: NDArray[Any], denominator: int) -> str:
    """Of released answers: their common denominator, then the numerators a piece at a time."""
    hasher = hashlib.sha256(str(denominator).encode())
    for start in range(0, len(numerators), MAX_PIECE_QUERIES):
        piece = numerators[start : start + MAX_PIECE_QUERIES]
        hasher.update(np.ascontiguousarray(piece, dtype=np.int64).data)
    return hasher.hexdigest()


def answers_request(queries: Queries, answers: Answers) -> dict[str, Any]:
    """Queries and released answers to them as parts of a request."""
    digest = answers_digest(answers.numerators, answers.denominator)
    return {"queries": canonical_hash(queries), "answers": digest}


def database_digest(values: Sequence[NDArray[Any]]) -> str:
    """Of a small database, column by column."""
    hasher = hashlib.sha256()
    for column in values:
        hasher.update(np.ascontiguousarray(column).astype(np.uint64).tobytes() + b"/")
    return hasher.hexdigest()


def tables_request(binned: Sequence[Binned], references: Sequence[NDArray[np.int64]]) -> dict[str, Any]:
    """Tables and public references as parts of a request."""
    hasher = hashlib.sha256()
    for reference in references:
        hasher.update(np.ascontiguousarray(reference, dtype=np.int64).tobytes())
    return {"tables": [table.to_json() for table in binned], "references": hasher.hexdigest()}
