"""Small universes, classes of queries over them, and what every query means by its plain definition.

Nothing here uses the package's own evaluation: `plain_matrix` spells out each class on every cell of the universe.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

import maquette.queries as mq
from maquette.core.binned import Binned
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.queries import Sensitivity

MAX_CELLS = 48

SURVEY = Domain(
    (
        Attribute("age", Kind.NUMERIC, bounds=(18, 98), bins=8, integer=True),
        Attribute("hours-per-week", Kind.NUMERIC, bounds=(0, 50), bins=50),
        Attribute("height", Kind.NUMERIC, edges=(1.0, 1.5, 1.8, 2.5), overflow=True, nullable=True),
        Attribute("Sex", Kind.BOOLEAN, categories=("Female", "Male")),
        Attribute(
            "region", Kind.CATEGORICAL, categories=("north", "south", "it's"), overflow=True, nullable=True
        ),
        Attribute("grade", Kind.ORDINAL, categories=("low", "mid", "high"), nullable=True),
        Attribute("smokes", Kind.BOOLEAN, categories=(False, True)),
        Attribute("children", Kind.ORDINAL, codes=5),
    )
)
"""Attributes of every kind, for conditions."""


def full(domain: Domain, margin: tuple[str, ...]) -> Binned:
    """The table with every cell of its own."""
    return Binned(margin, tuple(tuple(range(domain[name].size)) for name in margin))


FORMS = ("bins", "whole", "wide", "edges", "ordinal", "numbers", "codes", "names", "bool")
ORDERED = FORMS[:7]
KINDS = (
    "marginals",
    "points",
    "prefixes",
    "ranges",
    "boxes",
    "conjunctions",
    "halfspaces",
    "weights",
    "counts",
)


@st.composite
def attributes(draw, name: str, forms=FORMS, cells=None) -> Attribute:
    cells = draw(st.integers(1, 4)) if cells is None else cells
    ends = draw(st.sampled_from([(False, False), (False, False), (True, False), (False, True), (True, True)]))
    open_ends = {"nullable": ends[0], "overflow": ends[1]}
    match draw(st.sampled_from(forms)):
        case "bins":
            return Attribute(name, Kind.NUMERIC, bounds=(0, cells * 1.5), bins=cells, **open_ends)
        case "whole":
            return Attribute(name, Kind.NUMERIC, bounds=(-1, cells - 1), bins=cells, **open_ends)
        case "wide":
            return Attribute(name, Kind.NUMERIC, bounds=(0, 3 * cells), bins=cells, integer=True, **open_ends)
        case "edges":
            edges = tuple([0.0, 0.1, 2.5, 7.0, 100.0][: cells + 1])
            return Attribute(name, Kind.NUMERIC, edges=edges, **open_ends)
        case "ordinal":
            return Attribute(name, Kind.ORDINAL, categories=tuple("lmhx"[:cells]), **open_ends)
        case "numbers":
            return Attribute(name, Kind.ORDINAL, categories=tuple([3, -1, 10, 0.5][:cells]), **open_ends)
        case "codes":
            return Attribute(name, Kind.ORDINAL, codes=cells, **open_ends)
        case "names":
            return Attribute(name, Kind.CATEGORICAL, categories=tuple("abcd"[:cells]), **open_ends)
        case _:
            return Attribute(name, Kind.BOOLEAN, codes=2, **open_ends)


@st.composite
def domains(draw, most_cells: int = MAX_CELLS, forms=FORMS, cells=None) -> Domain:
    chosen: list[Attribute] = []
    for name in ["a", "b-1", "c d"][: draw(st.sampled_from([1, 2, 2, 3, 3]))]:
        attribute = draw(attributes(name, forms, cells))
        if math.prod(a.size for a in chosen) * attribute.size <= most_cells:
            chosen.append(attribute)
    return Domain(tuple(chosen))


def some_of(names, least: int = 1):
    return st.lists(st.sampled_from(list(names)), min_size=least, unique=True)


@st.composite
def queries(draw, domain: Domain, kind: str | None = None):
    """One class over the domain, of the given kind or of any that it allows."""
    ordered = [a.name for a in domain if a.ordered]
    valued = [a.name for a in domain if a.ordered or a.cells == 2]
    binary = [a.name for a in domain if a.cells == 2]
    kinds = ["marginals", "points", "boxes", "weights", "counts"]
    kinds += ["prefixes", "ranges"] * bool(ordered) + ["halfspaces"] * bool(valued)
    kinds += ["conjunctions"] * bool(binary)
    match kind or draw(st.sampled_from(kinds)):
        case "marginals":
            every = [m for k in range(len(domain) + 1) for m in itertools.combinations(domain.names, k)]
            return mq.marginals(domain, attributes=draw(some_of(every)))
        case "points":
            return mq.points(domain, draw(some_of(domain.names)))
        case "prefixes":
            return mq.prefixes(domain, draw(st.sampled_from(ordered)))
        case "ranges":
            return mq.ranges(domain, *draw(some_of(ordered)))
        case "boxes":
            return mq.boxes(domain, draw(st.lists(_box(domain), min_size=1, max_size=5)))
        case "conjunctions":
            over = draw(some_of(binary))
            width = draw(st.integers(1, len(over)))
            return mq.conjunctions(domain, width, literals=draw(st.booleans()), attributes=over)
        case "halfspaces":
            over = draw(some_of(valued))
            number = st.one_of(st.integers(-3, 3), st.sampled_from([0.1, -0.5, Fraction(1, 3)]))
            normals = draw(
                st.lists(st.lists(number, min_size=len(over), max_size=len(over)), min_size=1, max_size=5)
            )
            thresholds = draw(st.lists(number, min_size=len(normals), max_size=len(normals)))
            return mq.halfspaces(domain, over, normals, thresholds)
        case explicit:
            over = draw(some_of(domain.names))
            entry = st.integers(0, 1) if explicit == "counts" else st.sampled_from([0.0, 0.25, 0.3, 0.5, 1.0])
            row = st.lists(entry, min_size=domain.cells(over), max_size=domain.cells(over))
            return mq.weights(domain, draw(st.lists(row, min_size=1, max_size=4)), attributes=over)


@st.composite
def _box(draw, domain: Domain):
    box = {}
    for name in draw(some_of(domain.names, least=0)):
        attribute = domain[name]
        low = draw(st.integers(0, attribute.cells - 1))
        high = draw(st.integers(low, attribute.cells - 1)) if attribute.ordered else low
        box[name] = (low, high)
    return box


@st.composite
def queries_of(draw, kind: str):
    """A class of the given kind over a universe that suits it."""
    forms = ORDERED if kind in ("prefixes", "ranges", "halfspaces") else FORMS
    domain = draw(domains(forms=forms, cells=2 if kind == "conjunctions" else None))
    return draw(queries(domain, kind))


@st.composite
def unions(draw):
    """Two or three classes over one universe, often sharing attributes."""
    domain = draw(domains(most_cells=24, cells=draw(st.sampled_from([None, 2]))))
    parts = [draw(queries(domain)) for _ in range(draw(st.sampled_from([2, 3])))]
    return mq.union(*parts)


def any_queries():
    """A class over a random universe, or a union."""
    return st.sampled_from(["union"] * 4 + [*KINDS]).flatmap(
        lambda kind: unions() if kind == "union" else queries_of(kind)
    )


SCALE = 2**20
"""Weights in `plain_matrix` are whole multiples of 1 / SCALE."""


def plain_matrix(given) -> np.ndarray:
    """The weight of every query (rows) on every cell of the universe (columns), by definition, times SCALE."""
    domain = given.domain
    records = [dict(zip(domain.names, r, strict=True)) for r in itertools.product(*map(range, domain.shape))]
    return np.array([[int(weigh(record) * SCALE) for record in records] for weigh in _meanings(given)])


def _meanings(given):
    """One function from a record's codes to its weight per query, in the class's stated order."""
    domain = given.domain
    match given:
        case mq.Workload():
            for part in given.parts:
                yield from _meanings(part.queries)
        case mq.Marginals():
            for margin in given.margins:
                for cell in itertools.product(*(range(domain[name].size) for name in margin)):
                    yield lambda r, m=margin, c=cell: tuple(r[name] for name in m) == c
        case mq.Prefixes():
            cells = domain[given.attribute].cells
            for j in range(cells):
                yield lambda r, j=j: r[given.attribute] <= j and r[given.attribute] < cells
        case mq.Ranges():
            runs = [
                list(itertools.combinations_with_replacement(range(domain[n].cells), 2)) for n in given.over
            ]
            for box in itertools.product(*runs):
                yield lambda r, b=box: all(
                    lo <= r[n] <= hi for n, (lo, hi) in zip(given.over, b, strict=True)
                )
        case mq.Boxes():
            for box in given.boxes:
                yield lambda r, b=box: all(lo <= r[n] <= hi for n, lo, hi in b)
        case mq.Conjunctions():
            signs = (0, 1) if given.literals else (1,)
            for width in range(1, given.width + 1):
                for over in itertools.combinations(given.over, width):
                    for cell in itertools.product(signs, repeat=width):
                        yield lambda r, o=over, c=cell: tuple(r[name] for name in o) == c
        case mq.Halfspaces():
            for normal, threshold in zip(given.normals, given.thresholds, strict=True):
                yield lambda r, n=normal, t=threshold: _reaches(domain, given.over, r, n, t)
        case mq.Weights():
            shape = [domain[name].size for name in given.over]
            cells = {c: i for i, c in enumerate(itertools.product(*map(range, shape)))}
            for row in given.numerators.tolist():
                yield lambda r, w=row: Fraction(w[cells[tuple(r[n] for n in given.over)]], given.grid)
        case _:
            raise AssertionError(f"no plain meaning for {given!r}")


def _reaches(domain, over, record, normal, threshold) -> bool:
    values = [_value(domain[name], record[name]) for name in over]
    if None in values:
        return False
    return sum((w * v for w, v in zip(normal, values, strict=True)), start=Fraction(0)) >= threshold


def _value(attribute: Attribute, code: int) -> Fraction | None:
    if code >= attribute.cells:
        return None
    if attribute.kind is not Kind.NUMERIC:
        numbers = attribute.ordered and attribute.categories and not isinstance(attribute.categories[0], str)
        return Fraction(str(attribute.categories[code])) if numbers else Fraction(code)
    low, high = Fraction(str(attribute.edge(code))), Fraction(str(attribute.edge(code + 1)))
    if attribute.integer:
        inside = [v for v in range(math.floor(low), math.ceil(high) + 1) if low <= v < high]
        inside += [int(high)] * (code == attribute.cells - 1 and high.denominator == 1)
        return Fraction(inside[0] + inside[-1], 2)
    return low if attribute.one_wide else (low + high) / 2


def plain_sensitivity(matrix: np.ndarray, relation: Relation) -> Sensitivity:
    """By trying every record, or every pair of records."""
    moves = (
        np.abs(matrix) if relation is Relation.ADD_REMOVE else np.abs(matrix[:, :, None] - matrix[:, None, :])
    )
    return Sensitivity(
        Fraction(int(moves.sum(axis=0).max()), SCALE),
        Fraction(int((moves**2).sum(axis=0).max()), SCALE**2),
        Fraction(int(moves.max()), SCALE),
    )


def plain_distinct(matrix: np.ndarray) -> int:
    """Rows that are not constant, up to complement."""
    rows = [tuple(row) for row in matrix.tolist()]
    kinds = {min(row, tuple(SCALE - w for w in row)) for row in rows if len(set(row)) > 1}
    return len(kinds)
