"""What the ledger stores of a question: digests of the public arrays in its request, and released numbers as bytes."""

from __future__ import annotations

import hashlib
import io
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


# Released whole numbers as bytes for the ledger: the smallest integer type that holds them.


def pack(arrays: Sequence[NDArray[np.int64]]) -> bytes:
    """Arrays in order, without their shapes' meaning: the request says what they are."""
    buffer = io.BytesIO()
    for array in arrays:
        np.save(buffer, array.astype(_smallest(array)), allow_pickle=False)
    return buffer.getvalue()


def unpack(payload: bytes) -> list[NDArray[np.int64]]:
    """The arrays of `pack`."""
    buffer = io.BytesIO(payload)
    arrays: list[NDArray[np.int64]] = []
    while buffer.tell() < len(payload):
        arrays.append(np.load(buffer, allow_pickle=False).astype(np.int64))
    return arrays


def _smallest(array: NDArray[np.int64]) -> type[np.signedinteger]:
    # not by np.abs, which has no answer for the smallest 64-bit number
    reach = max(int(array.max(initial=0)), -int(array.min(initial=0)))
    return next((t for t in (np.int8, np.int16, np.int32) if reach <= np.iinfo(t).max), np.int64)
