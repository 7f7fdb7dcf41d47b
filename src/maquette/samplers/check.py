"""What a draw may be asked for, checked against the table's domain before payment.

The score of a draw has sensitivity 1 because a small database has exactly m rows, each in one cell of the universe:
then q(y) / m lies between 0 and 1 for every query. So rows are counted here and codes are held against the domain,
whoever made them. Sizes that no machine holds are refused too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from maquette.core import bounds
from maquette.core.drawing import Shape
from maquette.core.universe import Universe
from maquette.core.weighting import check_weight
from maquette.errors import MechanismError, ParameterError, WorkloadError
from maquette.queries import names
from maquette.queries.base import Margin, Queries, TableQueries
from maquette.samplers import structures as public

MAX_LISTED_DATABASE_ROWS = 2**20
"""Rows of a small database that is chosen from a list."""
MAX_COUNTER_ROWS = 2**12
"""Rows of one that is counted: layers of as many long numbers are held."""
MAX_ENUMERATED_ROWS = 2**28
"""Rows of all databases that are enumerated, together."""
MAX_TRELLIS_STATES = 2**20
MAX_NESTING = 200
"""Sets inside one another; they are walked through by recursion."""
MAX_RESOLUTION = 2**20
MAX_CODES = 2**64

_STRUCTURES = (
    public.Thresholds,
    public.Intervals,
    public.Nested,
    public.Forest,
    public.Blocks,
    public.Listed,
    public.Trellis,
    public.Candidates,
)
_WITH_COUNTER = _STRUCTURES[:5]


def check_draw(domain: Universe, question: object) -> Shape:
    """A class over the table's own domain, a number of rows that the sampler can hold, weights that fit."""
    if type(question) is not public.Draw or type(question.structure) not in _STRUCTURES:
        raise ParameterError("expected a draw of a known structure")
    most = MAX_COUNTER_ROWS if isinstance(question.structure, _WITH_COUNTER) else MAX_LISTED_DATABASE_ROWS
    bounds.check_whole(question.m, least=1, most=most, what="the rows of a small database")
    bounds.check_whole(question.resolution, least=1, most=MAX_RESOLUTION, what="the resolution of a draw")
    match question.structure:
        case public.Blocks(parts):
            for part, _ in parts:
                _check_single(domain, part)
        case public.Listed() | public.Trellis() | public.Candidates() as structure:
            _check_queries(domain, structure, question.m)
        case single:
            _check_single(domain, single)
    if question.weight is not None:
        check_weight(domain, question.weight, tables_of(question.structure))
        _check_factors(question, question.weight.grid)
    rows = 1 if isinstance(question.structure, public.Candidates) else question.m  # the number of a candidate
    return Shape(rows, tuple(_limits(domain, question.structure)))


def tables_of(structure: public.Structure) -> list[Margin]:
    """The tables that a score is computed from, the weight left aside."""
    match structure:
        case public.Blocks(parts):
            return [margin for part, _ in parts for margin in tables_of(part)]
        case public.Forest(attributes, edges):
            return [*((name,) for name in attributes), *edges]
        case public.Candidates(queries):
            return _tables(queries)
        case _:
            return [structure.attributes]


def _tables(queries: Queries) -> list[Margin]:
    return [
        m for q in queries.classes for m in (q.margins if isinstance(q, TableQueries) else (q.attributes,))
    ]


def _check_single(domain: Universe, part: public.Single) -> None:
    if type(part) not in _WITH_COUNTER[:4]:
        raise ParameterError("expected a draw of a known structure")
    for name in part.attributes:
        if names.attribute(domain, name).size > MAX_CODES:
            raise WorkloadError(f"attribute '{name}' has more cells than 64 bits can number")
    match part:
        case public.Nested():
            _check_nested(domain, part)
        case public.Forest():
            _check_forest(domain, part)
        case _:
            pass


def _check_nested(domain: Universe, part: public.Nested) -> None:
    if part.size != domain[part.attribute].size:
        raise ParameterError(
            f"expected sets of the {domain[part.attribute].size} cells of '{part.attribute}'"
        )
    if not all(type(end) is int for run in part.runs for end in run):
        raise ParameterError("expected sets as runs of whole numbers")
    ends: list[int] = []
    for first, last in sorted(set(part.runs), key=lambda run: (run[0], -run[1])):
        while ends and ends[-1] < first:
            ends.pop()
        ends.append(last)
        if len(ends) > MAX_NESTING:
            raise MechanismError(f"expected at most {MAX_NESTING} sets inside one another")


def _check_forest(domain: Universe, part: public.Forest) -> None:
    names.margin(domain, part.attributes)
    wide = [name for name in part.attributes if domain[name].size != 2]
    if wide:
        raise ParameterError(f"expected a forest of binary attributes, but '{wide[0]}' is none")
    if not set(part.singles) <= set(part.attributes):
        raise ParameterError("expected one-way marginals of the forest's own attributes")


def _check_queries(
    domain: Universe, structure: public.Listed | public.Trellis | public.Candidates, m: int
) -> None:
    bounds.forms_of(domain, structure.queries)
    match structure:
        case public.Listed():
            _check_listed(structure.atoms.count, m)
        case public.Trellis():
            if structure.layout.states(m) > MAX_TRELLIS_STATES:
                raise MechanismError(
                    f"expected a trellis of at most {MAX_TRELLIS_STATES:,} states; ask for fewer rows"
                )
        case public.Candidates():
            _check_candidates(domain, structure, m)


def _check_listed(atoms: int, m: int) -> None:
    """C(atoms + m - 1, m) databases of m rows; counted up to the limit only."""
    count = 1
    for step in range(1, min(m, atoms - 1) + 1):
        count = count * (atoms + m - step) // step
        if count * m > MAX_ENUMERATED_ROWS:
            raise MechanismError("enumeration would list too many databases; ask for fewer rows")


def _check_candidates(domain: Universe, candidates: public.Candidates, m: int) -> None:
    for name, codes in candidates.rows.items():
        size = names.attribute(domain, name).size
        _check_codes(codes, (candidates.count, m), size, f"candidates of {m} rows, in codes of '{name}'")


def _check_codes(codes: object, shape: tuple[int, ...], size: int, what: str) -> None:
    bounds.check_type(codes, np.ndarray, f"{what}, as an array")
    array = cast("NDArray[Any]", codes)
    if array.dtype.kind not in "iu" or array.shape != shape:
        raise ParameterError(f"expected {what}, in whole numbers")
    if int(array.min(initial=0)) < 0 or int(array.max(initial=0)) >= size:
        raise ParameterError(f"expected {what}, each below {size}")


def _check_factors(question: public.Draw, grid: int) -> None:
    """Weighed counts are numerators over the grid, and are multiplied by the rows or the queries' denominator."""
    structure = question.structure
    factor = question.m
    if isinstance(structure, (public.Listed, public.Trellis, public.Candidates)):
        factor = structure.queries.denominator
    if factor * grid > bounds.FACTORS:
        raise ParameterError(
            "expected a coarser grid of weights, or fewer rows: exact counts would leave 64 bits"
        )


def _limits(domain: Universe, structure: public.Structure) -> Sequence[int]:
    """For every column of a drawn database the number of codes that it may hold."""
    match structure:
        case public.Candidates():
            return [structure.count]
        case public.Listed() | public.Trellis():
            return [structure.atoms.count]
        case _:
            return [domain[name].size for name in structure.attributes]
