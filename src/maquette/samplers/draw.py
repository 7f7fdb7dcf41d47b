"""One draw: look at what the structure needs of the private table, count, draw, hand back whole numbers.

`COUNTERS` has one entry for every structure of `samplers/structures.py`: how its databases are counted over a table,
and how far a given one is off. Nothing else here depends on the structure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.core.answering import answers_on
from maquette.core.drawing import Draws, ExactCounts, Shape
from maquette.core.inversion import Bits
from maquette.core.universe import Universe
from maquette.core.weighting import Weighting
from maquette.samplers import structures as public
from maquette.samplers.atoms import Atoms
from maquette.samplers.brackets import Scale, Uniform
from maquette.samplers.check import check_draw
from maquette.samplers.lists import Column, Listed, all_multisets, levels_of, sequence_weights
from maquette.samplers.ordered import Base, Intervals, Nested, Node, Thresholds
from maquette.samplers.slices import Blocks, Counter, Report, Slices
from maquette.samplers.structures import Family
from maquette.samplers.trees import Forest
from maquette.samplers.trellis import Trellis, WeightedTable

Integers = NDArray[np.int64]
Values = list[NDArray[np.uint64]]
"""A drawn database, one array of codes per attribute."""
Codes = Sequence[NDArray[Any]]
"""A given database in the same form."""

_ANY_DECAY = Fraction(1, 2)
"""A counter asks for a decay to choose its windows; the level of one database needs none."""


@dataclass(frozen=True, slots=True)
class View:
    """What a class is counted over: the table as the draw sees it, the base measure, the levels and their decay."""

    table: ExactCounts
    base: public.Base
    scale: Scale
    decay: Fraction


@dataclass(frozen=True, slots=True)
class CountedClass:
    """A counter over the private table, and how a database that it drew is read as codes."""

    counter: Counter[Any]
    codes: Callable[[Any, Uniform], Values]


@dataclass(frozen=True, slots=True)
class Structured:
    """What the sampler does with one kind of structure."""

    count: Callable[[Any, View], CountedClass]
    error: Callable[[Any, View, Codes], int]
    """The error of a given database in counts, rounded up: its level at one level per count."""


def run(question: public.Draw, table: ExactCounts, *, decay: Fraction, bits: Bits, report: Report) -> Values:
    """Draw from the private table. What is returned has the law of the exponential mechanism, exactly."""
    uniform, view = Uniform(bits), view_of(question, table, decay)
    counted_class = COUNTERS[question.structure.kind].count(question.structure, view)
    return counted_class.codes(
        Slices(counted_class.counter, decay=decay, report=report).draw(uniform), uniform
    )


def error_of(question: public.Draw, values: Codes, table: ExactCounts) -> int:
    """max over q of |q(x) - (n/m) q(y)| in counts, rounded up, by the score of the database's own class."""
    view = view_of(question, table, _ANY_DECAY)
    in_counts = replace(view, scale=replace(view.scale, resolution=1))
    return COUNTERS[question.structure.kind].error(question.structure, in_counts, values)


def view_of(question: public.Draw, table: ExactCounts, decay: Fraction) -> View:
    """The table, weighted where records weigh, with what the question says about levels."""
    return View(weighted_view(table, question.weight), question.base, scale_of(question), decay)


def weighted_view(engine: ExactCounts, weight: Weighting | None) -> ExactCounts:
    """The counts of a table as a draw sees them: of records that are alike, or that weigh."""
    return engine if weight is None else WeightedTable(engine, weight)


def scale_of(question: public.Draw) -> Scale:
    """From deviations to levels; the counts of weighted records are over the grid of the weights."""
    grid = 1 if question.weight is None else question.weight.grid
    return Scale(question.m, question.resolution, grid)


# Sets of cells of one attribute: a database is a sorted list of cells.


def _thresholds(structure: public.Thresholds, view: View) -> CountedClass:
    column = column_of(view.table, structure.attribute)
    return CountedClass(Thresholds(column, view.scale, _paths_base(view.base)), _one_column)


def _intervals(structure: public.Intervals, view: View) -> CountedClass:
    column = column_of(view.table, structure.attribute)
    base, step = _paths_base(view.base), window_step(view.decay)
    return CountedClass(Intervals(column, view.scale, base, step), _one_column)


def _nested(structure: public.Nested, view: View) -> CountedClass:
    column = column_of(view.table, structure.attribute, cells=structure.size)
    return CountedClass(Nested(node_of(structure.family, column), column.n, view.scale), _one_column)


def _one_column(small: Any, uniform: Uniform) -> Values:
    return [np.array(small, dtype=np.uint64)]


def _cells_error(structure: public.Structure, view: View, values: Codes) -> int:
    counter = COUNTERS[structure.kind].count(structure, view).counter
    return counter.level(sorted(int(code) for code in values[0]))


def _paths_base(kind: public.Base) -> Base:
    if kind == "product":
        raise AssertionError("a product is the base of several blocks")
    return kind


def window_step(decay: Fraction) -> int:
    """Levels over which the weight falls to about a half: a good distance of windows."""
    return max(1, round(0.7 / max(-math.log(decay), 1e-6)))


def column_of(engine: ExactCounts, attribute: str, *, cells: int | None = None) -> Column:
    """The records of one attribute, in its declared cells or in the first so many."""
    codes, counts = engine.distinct(attribute)
    declared = engine.domain[attribute]
    return Column.of(codes, counts, cells=declared.cells if cells is None else cells, size=declared.size)


def node_of(family: Family, column: Column) -> Node:
    """A set with its records, and the sets inside with theirs."""
    first, last = family.run
    return Node(
        family,
        column.up_to(last) - column.up_to(first - 1),
        tuple(node_of(part, column) for part in family.inside),
    )


# A forest of binary attributes: a database is, for every attribute, the rows that have a one.


def _forest(structure: public.Forest, view: View) -> CountedClass:
    def codes(small: Any, uniform: Uniform) -> Values:
        columns = np.zeros((len(structure.attributes), view.scale.m), dtype=np.uint64)
        for column, ones in zip(columns, small, strict=True):
            column[ones] = 1
        return list(columns)

    return CountedClass(forest_of(structure, view.table, view.scale), codes)


def _forest_error(structure: public.Forest, view: View, values: Codes) -> int:
    counter = forest_of(structure, view.table, view.scale)
    return counter.level([np.flatnonzero(column).tolist() for column in values])


def forest_of(forest: public.Forest, engine: ExactCounts, scale: Scale) -> Forest:
    """The forest with the counts of ones."""
    number = {name: i for i, name in enumerate(forest.attributes)}
    edges = public.rooted(forest.attributes, forest.edges) or []
    order = engine.domain.names.index
    pairs = {edge: (edge if order(edge[0]) < order(edge[1]) else edge[::-1]) for edge in edges}
    tables = engine.margins([*pairs.values(), *((name,) for name in forest.attributes)])
    return Forest(
        attributes=len(forest.attributes),
        edges=[(number[a], number[b]) for a, b in edges],
        singles=frozenset(number[name] for name in forest.singles),
        ones=[int(tables[(name,)][1]) for name in forest.attributes],
        both={(number[a], number[b]): int(tables[pairs[a, b]][1, 1]) for a, b in edges},
        n=engine.size(),
        scale=scale,
    )


# Blocks of disjoint attributes: a database is one part per block.


def _blocks(structure: public.Blocks, view: View) -> CountedClass:
    parts = [COUNTERS[part.kind].count(part, replace(view, base=base)) for part, base in structure.parts]

    def codes(small: Any, uniform: Uniform) -> Values:
        values = [part.codes(own, uniform) for part, own in zip(parts, small, strict=True)]
        return joined(values, uniform)

    return CountedClass(Blocks([part.counter for part in parts]), codes)


def _blocks_error(structure: public.Blocks, view: View, values: Codes) -> int:
    starts = np.cumsum([0, *(len(part.attributes) for part, _ in structure.parts)]).tolist()
    places = zip(structure.parts, starts, starts[1:], strict=False)
    return max(
        COUNTERS[part.kind].error(part, replace(view, base=base), values[start:stop])
        for (part, base), start, stop in places
    )


def joined(parts: list[Values], uniform: Uniform) -> Values:
    """Rows out of the blocks' parts: each block in a random order of its own."""
    orders = [uniform.shuffled(len(part[0])) for part in parts]
    return [column[order] for part, order in zip(parts, orders, strict=True) for column in part]


# Any class over few atoms: a database is a sorted list of atoms, or its number in a list of all.


def _enumeration(structure: public.Listed, view: View) -> CountedClass:
    rows = all_multisets(structure.atoms.count, view.scale.m)
    return CountedClass(enumerated(structure, rows, view), lambda number, _: [rows[number].astype(np.uint64)])


def enumerated(listed: public.Listed, rows: Integers, view: View) -> Listed:
    """Every multiset of atoms with its level."""
    levels = levels_of(
        rows,
        listed.atoms.weights,
        atom_records(listed.atoms, view.table),
        unit=listed.atoms.span,
        scale=view.scale,
    )
    return Listed.of(levels, None if view.base == "flat" else sequence_weights(rows, listed.atoms.sizes))


def _trellis(structure: public.Trellis, view: View) -> CountedClass:
    finer = replace(view.scale, grid=view.scale.grid * structure.atoms.span)
    records = atom_records(structure.atoms, view.table)
    counter = Trellis(structure.atoms, structure.layout, records, finer, view.base == "sequence")
    return CountedClass(counter, _one_column)


def _atoms_error(structure: public.Listed | public.Trellis, view: View, values: Codes) -> int:
    rows = np.asarray(values[0], dtype=np.int64)[None, :]
    records, atoms = atom_records(structure.atoms, view.table), structure.atoms
    levels = levels_of(rows, atoms.weights, records, unit=atoms.denominator, scale=view.scale)
    return int(levels[0])


def atom_records(atoms: Atoms, engine: ExactCounts) -> Integers:
    """How many records each atom has."""
    table = engine.margins([atoms.attributes])[atoms.attributes].ravel()
    records = np.zeros(atoms.count, dtype=np.int64)
    np.add.at(records, atoms.of, table)
    return records


# Candidates from a public list: a database is its number.


def _candidates(structure: public.Candidates, view: View) -> CountedClass:
    span = structure.forms.replaced(view.table.domain.sizes).linf or 1
    unit = math.ceil(span * structure.forms.top)
    levels = candidate_levels(structure, view.table, view.scale, unit=unit)
    return CountedClass(Listed.of(levels), lambda number, _: [np.array([number], dtype=np.uint64)])


def _candidates_error(structure: public.Candidates, view: View, values: Codes) -> int:
    unit = structure.forms.top
    return int(candidate_levels(structure, view.table, view.scale, unit=unit)[int(values[0][0])])


def candidate_levels(
    candidates: public.Candidates, engine: ExactCounts, scale: Scale, *, unit: int
) -> Integers:
    """The level of every candidate, its error taken over `unit` numerators (see `levels_of`)."""
    exact, n = engine.answer(candidates.forms), engine.size()
    levels: list[int] = []
    for number in range(candidates.count):
        rows = {name: codes[number] for name, codes in candidates.rows.items()}
        released = answers_on(candidates.forms, engine.domain.sizes, rows)
        gap = int(np.abs(scale.m * exact.astype(object) - n * released.astype(object)).max(initial=0))
        levels.append(-(-gap * scale.resolution // (scale.m * scale.grid * unit)))
    return np.array(levels, dtype=np.int64)


COUNTERS: dict[str, Structured] = {
    public.Thresholds.kind: Structured(_thresholds, _cells_error),
    public.Intervals.kind: Structured(_intervals, _cells_error),
    public.Nested.kind: Structured(_nested, _cells_error),
    public.Forest.kind: Structured(_forest, _forest_error),
    public.Blocks.kind: Structured(_blocks, _blocks_error),
    public.Listed.kind: Structured(_enumeration, _atoms_error),
    public.Trellis.kind: Structured(_trellis, _atoms_error),
    public.Candidates.kind: Structured(_candidates, _candidates_error),
}
"""By the kind of structure."""


class ExactDraws(Draws):
    """The sampler of this package: exact draws of every structure that it knows."""

    def check(self, domain: Universe, question: object) -> Shape:
        return check_draw(domain, question)

    def run(
        self, question: public.Draw, counts: ExactCounts, *, decay: Fraction, bits: Bits, report: Report
    ) -> Values:
        return run(question, counts, decay=decay, bits=bits, report=report)

    def error(self, question: public.Draw, values: Codes, counts: ExactCounts) -> int:
        return error_of(question, values, counts)


EXACT_DRAWS = ExactDraws()
