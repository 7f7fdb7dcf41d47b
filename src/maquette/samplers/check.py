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
from maquette.core.answering import parts_of
from maquette.core.drawing import Shape
from maquette.core.forms import Margin
from maquette.core.universe import Universe
from maquette.core.weighting import check_weight
from maquette.errors import MechanismError, ParameterError, WorkloadError
from maquette.queries import names
from maquette.samplers import structures as public
from maquette.samplers.atoms import Atoms

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
        check_weight(domain, question.weight, tables_of(domain, question.structure))
        _check_factors(question, question.weight.grid)
    return Shape(_rows(question), tuple(_limits(domain, question.structure)))


def tables_of(domain: Universe, structure: public.Structure) -> list[Margin]:
    """The tables that a score is computed from, the weight left aside."""
    match structure:
        case public.Blocks(parts):
            return [margin for part, _ in parts for margin in tables_of(domain, part)]
        case public.Forest(attributes, edges):
            return [*((name,) for name in attributes), *edges]
        case public.Candidates():
            parts = parts_of(structure.forms, domain.sizes)
            return [margin for part in parts for margin in (*part.margins, part.names)]
        case public.Listed() | public.Trellis():
            return [structure.atoms.attributes]
        case _:
            return [structure.attributes]


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
    bounds.check_domain(domain, structure.queries)
    match structure:
        case public.Listed():
            _check_atoms(domain, structure.atoms)
            _check_listed(structure.atoms.count, m)
        case public.Trellis():
            _check_atoms(domain, structure.atoms)
            if structure.layout.states(m) > MAX_TRELLIS_STATES:
                raise MechanismError(
                    f"expected a trellis of at most {MAX_TRELLIS_STATES:,} states; ask for fewer rows"
                )
        case public.Candidates():
            bounds.check_forms(domain, structure.forms)
            _check_candidates(domain, structure, m)


def _check_atoms(domain: Universe, atoms: Atoms) -> None:
    """Weights from 0 to 1 in whole numbers, on every cell of a table: the sensitivity of the score rests on them."""
    bounds.check_type(atoms, Atoms, "the atoms of a class")
    bounds.check_margins(domain, [atoms.attributes])
    bounds.check_whole(atoms.denominator, least=1, most=bounds.FACTORS, what="the denominator of weights")
    cells = domain.cells(atoms.attributes)
    _check_codes(atoms.of, (cells,), atoms.count, "the atom of every cell")
    shape = (len(atoms.weights), atoms.count)
    _check_codes(atoms.weights, shape, atoms.denominator + 1, "weights of atoms over their denominator")


def _check_listed(atoms: int, m: int) -> None:
    """C(atoms + m - 1, m) databases of m rows; counted up to the limit only."""
    count = 1
    for step in range(1, min(m, atoms - 1) + 1):
        count = count * (atoms + m - step) // step
        if count * m > MAX_ENUMERATED_ROWS:
            raise MechanismError("enumeration would list too many databases; ask for fewer rows")


def _check_candidates(domain: Universe, candidates: public.Candidates, m: int) -> None:
    used = {name for margin in tables_of(domain, candidates) for name in margin}
    if not used <= set(candidates.rows):
        raise ParameterError("expected candidates with codes of every attribute that the queries look at")
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
    if isinstance(structure, (public.Listed, public.Trellis)):
        factor = structure.atoms.denominator
    if isinstance(structure, public.Candidates):
        factor = structure.forms.top
    if factor * grid > bounds.FACTORS:
        raise ParameterError(
            "expected a coarser grid of weights, or fewer rows: exact counts would leave 64 bits"
        )


def _rows(question: public.Draw) -> int:
    """Codes per column of a drawn database; the number of a candidate stands for its rows."""
    return 1 if isinstance(question.structure, public.Candidates) else question.m


def _limits(domain: Universe, structure: public.Structure) -> Sequence[int]:
    """For every column of a drawn database the number of codes that it may hold."""
    match structure:
        case public.Candidates():
            return [structure.count]
        case public.Listed() | public.Trellis():
            return [structure.atoms.count]
        case _:
            return [domain[name].size for name in structure.attributes]
