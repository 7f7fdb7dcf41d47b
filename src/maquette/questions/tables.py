"""Tables in bins and public tables to compare them with: checks before anything is paid, and the scores' sensitivity.

A score is the L1 distance in whole counts between a private table and a public one. Neighbouring tables move it by
at most 1 under add/remove-one and 2 under replace-one (`queries/marginals.py`, and the triangle inequality).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain, Relation
from maquette.errors import ParameterError
from maquette.queries.base import Sensitivity
from maquette.queries.marginals import Binned, table_sensitivity
from maquette.questions import bounds


def check_tables(domain: Domain, tables: Sequence[Binned]) -> None:
    """Each must be a partition in whole numbers: the sensitivities rest on it."""
    bounds.check_list(tables, Binned, "a list of tables in bins")
    if not tables:
        raise ParameterError("expected at least one table")
    for table in tables:
        _check_plain(table)
        table.check(domain)
    bounds.check_cells(sum(table.bins for table in tables))


def _check_plain(table: Binned) -> None:
    """Tuples of names and of Python's whole numbers: 0.0 and True equal a code, and are none."""
    bounds.check_list(table.margin, str, "the attributes of a table in bins")
    bounds.check_list(table.cuts, tuple, "the cuts of a table in bins as tuples")
    for codes in [*table.cuts, () if table.groups is None else table.groups]:
        bounds.check_list(codes, int, "cuts and groups in whole numbers")
    hashed: list[object] = [table.margin, table.cuts, () if table.groups is None else table.groups]
    bounds.check_list(hashed, tuple, "the parts of a table in bins as tuples")


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


def cell_sensitivity(relation: Relation) -> Sensitivity:
    """Of counts in disjoint cells: a record is in one of them, an exchanged one in two."""
    shift = Fraction(table_sensitivity(relation))
    return Sensitivity(shift, shift, Fraction(1))


def distance_sensitivity(tables: int, relation: Relation) -> Sensitivity:
    """Of the vector of the distances of so many tables."""
    each = Fraction(table_sensitivity(relation))
    return Sensitivity(tables * each, tables * each**2, each)


def without_overlap(tables: Sequence[Binned], left: Sequence[int], chosen: int) -> list[int]:
    """The numbers in `left` of tables that do not share two attributes with a chosen one."""
    attributes = set(tables[chosen].margin)
    return [i for i in left if len(attributes & set(tables[i].margin)) < 2]


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
