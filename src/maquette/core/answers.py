"""Released answers: fractions on a fixed grid, so that their error can be scored in whole numbers; and all scores of
private tables.

*Tables in bins* are compared with public tables, checked before anything is paid. A score is the L1 distance in whole
counts between a private table and a public one. Neighbouring tables move it by at most 1 under add/remove-one and 2
under replace-one (`queries/marginals.py`, and the triangle inequality).

*Choices* among candidates of one's own: what is scored, and how far one record moves a score.

    count     the candidates are queries; the score of one is its answer, the larger the better
    nearest   the candidates are queries with a fraction f each; the score is -|q(x) - n f|, the nearer the better
    database  the candidates are lists of answers to the same queries; the score is -max |q(x) - n f| over the list

All scores are rounded up (distances before the minus sign) to whole counts, and move by at most 1 between neighbours:
an answer does (weights are in [0, 1]), q(x) - n f does (`count_errors`), and neither absolute value, maximum
nor rounding makes a gap of at most 1 wider than 1. Under add/remove-one all counts move the same way, so that no two of
them move apart by more than 1: a choice by counts is then twice as sharp at the same price.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from maquette.core import bounds
from maquette.core.binned import Binned, table_sensitivity
from maquette.core.errors import ParameterError
from maquette.core.forms import Margin, QueryForms, Sensitivity
from maquette.core.linear_queries import Group, LinearQueries
from maquette.core.neighbours import Relation
from maquette.core.universe import Universe

GRID = 2**30
"""Answers that do not come from rows are rounded to multiples of 1/GRID."""
PIECE = 2**21
"""Answers that are rounded or hashed at once."""


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
        for start in range(0, len(values), PIECE):
            piece = np.asarray(values[start : start + PIECE], dtype=np.float64)
            scaled = np.clip(np.nan_to_num(piece), 0.0, 1.0) * GRID
            numerators[start : start + PIECE] = np.rint(scaled, out=scaled)
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
    for start in range(0, len(numerators), PIECE):
        piece = numerators[start : start + PIECE]
        hasher.update(np.ascontiguousarray(piece, dtype=np.int64).data)
    return hasher.hexdigest()


def answers_request(queries: str, answers: Answers) -> dict[str, Any]:
    """The name of some queries and released answers to them as parts of a request."""
    return {"queries": queries, "answers": answers_digest(answers.numerators, answers.denominator)}


def database_digest(values: Sequence[NDArray[Any]]) -> str:
    """Of a small database, column by column."""
    hasher = hashlib.sha256()
    for column in values:
        hasher.update(np.ascontiguousarray(column).astype(np.uint64).tobytes() + b"/")
    return hasher.hexdigest()


def check_tables(domain: Universe, tables: Sequence[Binned]) -> None:
    """Each must be a partition in whole numbers: the sensitivities rest on it."""
    bounds.check_list(tables, Binned, "a list of tables in bins")
    if not tables:
        raise ParameterError("expected at least one table")
    for table in tables:
        _check_plain(table)
        table.check(domain)
    bounds.check_cells(sum(table.cells for table in tables))


def _check_plain(table: Binned) -> None:
    """Tuples of names and of Python's whole numbers: 0.0 and True equal a code, and are none."""
    bounds.check_list(table.margin, str, "the attributes of a table in bins")
    bounds.check_list(table.cuts, tuple, "the cuts of a table in bins as tuples")
    for cut in table.cuts:
        bounds.check_list(cut, int, "cuts in whole numbers")
    bounds.check_list([table.margin, table.cuts], tuple, "the parts of a table in bins as tuples")


def check_references(tables: Sequence[Binned], references: Sequence[NDArray[np.int64]]) -> None:
    """One public whole number per bin, none of them large enough to leave 64 bits with a count."""
    bounds.check_list(references, np.ndarray, "reference tables as arrays")
    if len(references) != len(tables):
        raise ParameterError(f"expected {len(tables)} reference tables")
    for table, reference in zip(tables, references, strict=True):
        bounds.check_numbers(reference, table.cells, "whole reference counts, one per bin")


def tables_request(binned: Sequence[Binned], references: Sequence[NDArray[np.int64]]) -> dict[str, Any]:
    """Tables and public references as parts of a request."""
    hasher = hashlib.sha256()
    for reference in references:
        hasher.update(np.ascontiguousarray(reference, dtype=np.int64).tobytes())
    return {"tables": [table.to_json() for table in binned], "references": hasher.hexdigest()}


def noisy_tables_request(binned: Sequence[Binned], widths: Sequence[float]) -> dict[str, Any]:
    """Tables with noise of their own widths."""
    noise = [width.hex() for width in widths]
    return {"ask": "tables", "tables": [table.to_json() for table in binned], "noise": noise}


def residuals_request(margins: Sequence[Margin], widths: Sequence[float]) -> dict[str, Any]:
    """Residuals of margins with noise of their own widths."""
    sigmas = [width.hex() for width in widths]
    return {"ask": "residuals", "margins": [list(margin) for margin in margins], "sigmas": sigmas}


def binned_residuals_request(binned: Sequence[Binned], widths: Sequence[float]) -> dict[str, Any]:
    """Residuals of tables in bins with noise of their own widths."""
    return noisy_tables_request(binned, widths) | {"ask": "residuals in bins"}


def selection_request(
    binned: Sequence[Binned],
    references: Sequence[NDArray[np.int64]],
    penalties: NDArray[np.int64],
    related: bool,
) -> dict[str, Any]:
    """The same with public penalties; `related` is named where it is asked for."""
    request = {"penalties": penalties.tolist()} | tables_request(binned, references)
    return request | ({"related": True} if related else {})


def cell_sensitivity(relation: Relation) -> Sensitivity:
    """Of counts in disjoint cells: a record is in one of them, an exchanged one in two."""
    shift = Fraction(table_sensitivity(relation))
    return Sensitivity(shift, shift, Fraction(1))


def distance_sensitivity(tables: int, relation: Relation) -> Sensitivity:
    """Of the vector of the distances of so many tables."""
    each = Fraction(table_sensitivity(relation))
    return Sensitivity(tables * each, tables * each**2, each)


def without_overlap(
    tables: Sequence[Binned], left: Sequence[int], chosen: int, *, related: bool
) -> list[int]:
    """The numbers in `left` of tables that do not share two attributes with a chosen one.

    With `related` they may, unless all attributes of the one are among those of the other.
    """
    attributes = set(tables[chosen].margin)
    remaining: list[int] = []
    for i in left:
        others = set(tables[i].margin)
        most = min(len(attributes), len(others)) if related else 2
        if len(attributes & others) < most:
            remaining.append(i)
    return remaining


# Residuals of a noisy table, in whole numbers: what is stored of it, and what is handed out.


def relative(table: NDArray[np.int64], axes: Sequence[int]) -> NDArray[np.int64]:
    """The table less its first slice along each of `axes`: what the projection keeps of it, and nothing more.

    Both maps forget exactly the tables that are constant along one of the axes, so each is a function of the other;
    this one stays among small whole numbers.
    """
    for axis in axes:
        table = table - table.take([0], axis=axis)
    return table.ravel()


def project(table: NDArray[np.int64], axes: Sequence[int]) -> tuple[NDArray[np.int64], int]:
    """Remove the means over `axes`, in whole numbers: the result is over the product of their sizes."""
    for axis in axes:
        table = table * table.shape[axis] - table.sum(axis=axis, keepdims=True)
    return table, math.prod(table.shape[axis] for axis in axes)


Goal = Literal["count", "nearest", "database"]
MAX_CANDIDATES = 10_000_000
"""Scores are held in memory."""


@dataclass(frozen=True, slots=True, eq=False)
class ChoiceQuestion:
    """Candidates and their score."""

    goal: Goal
    queries: LinearQueries
    answers: tuple[Answers, ...] = ()
    """None for counts, one list with an answer per candidate for `nearest`, one list per candidate for `database`."""

    @property
    def count(self) -> int:
        """How many candidates there are."""
        return len(self.answers) if self.goal == "database" else self.queries.count

    def check(self, domain: Universe) -> QueryForms:
        """Its queries as the gate answers them.

        The sensitivity of 1 needs weights in [0, 1] and answers between 0 and 1.
        """
        bounds.check_type(self.goal, str, "a choice by count, nearest or database")
        if self.goal not in get_args(Goal):
            raise ParameterError("expected a choice by count, nearest or database")
        query_forms = bounds.forms_of(domain, self.queries)
        count = query_forms.count(domain.sizes)
        bounds.check_type(self.answers, tuple, "a tuple of released answers")
        lists = {"count": 0, "nearest": 1}.get(self.goal)
        if lists is not None and len(self.answers) != lists:
            raise ParameterError(f"expected {lists} lists of answers for a choice by {self.goal}")
        for answers in self.answers:
            check_answers(answers, count)
        candidates = len(self.answers) if self.goal == "database" else count
        bounds.check_whole(candidates, least=1, most=MAX_CANDIDATES, what="how many candidates there are")
        return query_forms

    def is_monotone(self, relation: Relation) -> bool:
        """Do all scores move the same way between neighbours?"""
        return self.goal == "count" and relation is Relation.ADD_REMOVE

    def request(self, queries: str) -> dict[str, Any]:
        """What the ledger remembers of it; `queries` is their name."""
        return {
            "ask": f"choose {self.goal}",
            "queries": queries,
            "answers": [answers_digest(one.numerators, one.denominator) for one in self.answers],
        }

    def scores(self, exact: NDArray[np.int64], denominator: int, n: int) -> NDArray[np.int64]:
        """Of all candidates, from the exact answers to all queries, over their denominator."""
        if self.goal == "count":
            return -(-exact // denominator)
        errors = [count_errors(exact, denominator, one, n) for one in self.answers]
        return -errors[0] if self.goal == "nearest" else -np.array([e.max(initial=0) for e in errors])
