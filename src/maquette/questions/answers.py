"""Released answers: fractions on a fixed grid, so that their error can be scored in whole numbers; and those scores."""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.errors import ParameterError
from maquette.queries import canonical_hash
from maquette.queries.base import Group, Queries, Sensitivity
from maquette.queries.marginals import MAX_PIECE_QUERIES
from maquette.questions import bounds

GRID = 2**30
"""Answers that do not come from rows are rounded to multiples of 1/GRID."""


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """One fraction in [0, 1] for every query of a workload, in its order: `numerators` / `denominator`."""

    numerators: NDArray[np.signedinteger[Any]]
    """In 64 bits; those of rows to a long class in 32 bits, where they fit."""
    denominator: int

    @classmethod
    def from_fractions(cls, values: NDArray[Any]) -> Answers:
        """Round to the grid; outside [0, 1] is clipped, which can only lower an error.

        Piece by piece, so that it takes the memory of the numerators and no more.
        """
        numerators = np.empty(len(values), dtype=np.int64)
        for start in range(0, len(values), MAX_PIECE_QUERIES):
            piece = np.asarray(values[start : start + MAX_PIECE_QUERIES], dtype=np.float64)
            scaled = np.clip(np.nan_to_num(piece), 0.0, 1.0) * GRID
            numerators[start : start + MAX_PIECE_QUERIES] = np.rint(scaled, out=scaled)
        return cls(numerators, GRID)

    @property
    def fractions(self) -> NDArray[np.float64]:
        return self.numerators / self.denominator

    def __len__(self) -> int:
        return len(self.numerators)


# Scores of released answers: their errors on a table, in whole counts, and how far one record moves them.
#
# The score of a query is |q(x) - n f| for a released fraction f in [0, 1], rounded up. Its sensitivity is 1:
# adding a record z moves q(x) - n f by q_z - f, replacing one moves it by a difference of two weights, both
# within [-1, 1], and neither the absolute value, the largest of several, nor rounding up makes a gap of at
# most 1 wider than 1. Signed scores, q(x) - n f and its negative, each rounded up, move by at most 1 for the same
# reasons.


def check_answers(answers: Answers, count: int) -> None:
    """The sensitivity above needs one fraction in [0, 1] per query, in whole numbers."""
    bounds.check_type(answers, Answers, "released answers")
    bounds.check_type(answers.numerators, np.ndarray, "released answers with numerators in an array")
    if answers.numerators.dtype.kind != "i" or answers.numerators.ndim != 1:
        raise ParameterError("expected answers as a list of whole numerators over a positive denominator")
    bounds.check_whole(answers.denominator, least=1, most=bounds.SUMMANDS, what="the answers' denominator")
    if len(answers) != count:
        raise ParameterError(f"expected {count} answers, one per query, got {len(answers)}")
    numerators = answers.numerators
    if count and (int(numerators.min()) < 0 or int(numerators.max()) > answers.denominator):
        raise ParameterError("expected answers between 0 and 1")


def group_ends(groups: Sequence[Group], count: int) -> list[tuple[int, int]]:
    """Where each group begins and ends; the sensitivity of a vector counts them."""
    bounds.check_list(groups, Group, "a list of groups of queries")
    parts = [(group.start, group.stop) for group in groups]
    for part in parts:
        bounds.check_list(part, int, "groups that begin and end at whole numbers")
    if not parts or not all(0 <= start < stop <= count for start, stop in parts):
        raise ParameterError(f"expected groups inside the {count} queries, none of them empty")
    return parts


def one_each(numbers: int) -> Sensitivity:
    """Of a vector of so many numbers, each of which one record moves by at most 1."""
    return Sensitivity(Fraction(numbers), Fraction(numbers), Fraction(1))


def count_errors(exact: NDArray[np.int64], denominator: int, answers: Answers, n: int) -> NDArray[np.int64]:
    """ceil |q(x) - n f| for every query; `exact` are numerators over `denominator`. In whole numbers throughout."""
    gaps, common = _gaps(exact, denominator, answers, n)
    sizes = np.abs(gaps, out=gaps)
    sizes += common - 1
    return (sizes // common).astype(np.int64, copy=False)


def signed_errors(exact: NDArray[np.int64], denominator: int, answers: Answers, n: int) -> NDArray[np.int64]:
    """ceil(q(x) - n f) for every query, then ceil(n f - q(x)) for every query."""
    gaps, common = _gaps(exact, denominator, answers, n)
    return np.concatenate([-(-gaps // common), -(gaps // common)]).astype(np.int64)


def _gaps(exact: NDArray[Any], denominator: int, answers: Answers, n: int) -> tuple[NDArray[Any], int]:
    """q(x) - n f as whole numerators over a common denominator."""
    common = math.lcm(denominator, answers.denominator)
    left, right = common // denominator, n * (common // answers.denominator)
    released: NDArray[Any] = answers.numerators.astype(np.int64, copy=False)
    # with n = 0 as with n = 1, so that an empty table takes no other way
    if common * max(n, 1) >= bounds.EXACT:
        exact, released = exact.astype(object), released.astype(object)
    gaps = exact * left
    gaps -= released * right
    return gaps, common


# What the ledger stores of a question: digests of the public arrays in its request, and released numbers as bytes.


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


# Released whole numbers as bytes for the ledger: the smallest integer type that holds them.


def pack(arrays: Sequence[NDArray[np.int64]]) -> bytes:
    """Arrays in order, without their shapes' meaning: the request says what they are."""
    buffer = io.BytesIO()
    for array in arrays:
        # not by np.abs, which has no answer for the smallest 64-bit number
        reach = max(int(array.max(initial=0)), -int(array.min(initial=0)))
        smallest = next((t for t in (np.int8, np.int16, np.int32) if reach <= np.iinfo(t).max), np.int64)
        np.save(buffer, array.astype(smallest), allow_pickle=False)
    return buffer.getvalue()


def unpack(payload: bytes) -> list[NDArray[np.int64]]:
    """The arrays of `pack`."""
    buffer = io.BytesIO(payload)
    arrays: list[NDArray[np.int64]] = []
    while buffer.tell() < len(payload):
        arrays.append(np.load(buffer, allow_pickle=False).astype(np.int64))
    return arrays
