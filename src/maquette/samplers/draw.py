"""One draw: look at what the structure needs of the private table, count, draw, hand back whole numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.questions import draws as public
from maquette.questions.atoms import Atoms
from maquette.questions.draws import Family
from maquette.questions.weighting import Weighting
from maquette.samplers.brackets import Scale, Uniform
from maquette.samplers.laws import Bits
from maquette.samplers.lists import Column, Listed, all_multisets, levels_of, sequence_weights
from maquette.samplers.ordered import Base, Intervals, Nested, Node, Thresholds
from maquette.samplers.slices import Blocks, Counter, Report, Slices
from maquette.samplers.trees import Forest
from maquette.samplers.trellis import TableCounts, Trellis, WeightedTable

Integers = NDArray[np.int64]
Values = list[NDArray[np.uint64]]

_LOW = np.uint64(2**32 - 1)


def weighted_view(engine: TableCounts, weight: Weighting | None) -> TableCounts:
    """The counts of a table as a draw sees them: of records that are alike, or that weigh."""
    return engine if weight is None else WeightedTable(engine, weight)


def scale_of(asked: public.Draw) -> Scale:
    return Scale(asked.m, asked.resolution, 1 if asked.weight is None else asked.weight.grid)


def run(asked: public.Draw, table: TableCounts, *, base: Fraction, bits: Bits, report: Report) -> Values:
    """Draw from the private table. What is returned has the law of the exponential mechanism, exactly."""
    engine, scale, uniform = weighted_view(table, asked.weight), scale_of(asked), Uniform(bits)
    match asked.structure:
        case public.Listed() as listed:
            rows = all_multisets(listed.atoms.count, asked.m)
            number = Slices(enumerated(listed, rows, asked, engine), base=base, report=report).draw(uniform)
            return [rows[number].astype(np.uint64)]
        case public.Trellis() as trellis:
            counter = trellis_of(trellis, asked, engine)
            small = Slices(counter, base=base, report=report).draw(uniform)
            return [np.array(small, dtype=np.uint64)]
        case public.Candidates() as candidates:
            unit = math.ceil(candidates.span * candidates.queries.denominator)
            levels = candidate_levels(candidates, engine, scale, unit=unit)
            number = Slices(Listed.of(levels), base=base, report=report).draw(uniform)
            return [np.array([number], dtype=np.uint64)]
        case public.Blocks() as blocks:
            parts = [single(part, kind, engine, scale, base) for part, kind in blocks.parts]
            small = Slices(Blocks(parts), base=base, report=report).draw(uniform)
            return joined([codes_of(c, part, asked.m) for c, part in zip(parts, small, strict=True)], uniform)
        case structure:
            counter = single(structure, asked.base, engine, scale, base)
            return codes_of(counter, Slices(counter, base=base, report=report).draw(uniform), asked.m)


def single(
    structure: public.Single, kind: public.Base, engine: TableCounts, scale: Scale, base: Fraction
) -> Counter[Any]:
    """The counter of one class over the private table."""
    match structure:
        case public.Thresholds(attribute):
            return Thresholds(column_of(engine, attribute), scale, paths_base(kind))
        case public.Intervals(attribute):
            return Intervals(column_of(engine, attribute), scale, paths_base(kind), window_step(base))
        case public.Nested(attribute) as nested:
            column = column_of(engine, attribute, cells=nested.size)
            return Nested(node_of(nested.family, column), column.n, scale)
        case public.Forest() as forest:
            return forest_of(forest, engine, scale)


def codes_of(counter: Counter[Any], small: Any, m: int) -> Values:
    """The drawn database as one array of codes per attribute."""
    if not isinstance(counter, Forest):
        return [np.array(small, dtype=np.uint64)]
    columns = np.zeros((counter.attributes, m), dtype=np.uint64)
    for column, ones in zip(columns, small, strict=True):
        column[ones] = 1
    return list(columns)


def joined(parts: list[Values], uniform: Uniform) -> Values:
    """Rows out of the blocks' parts: each block in a random order of its own."""
    orders = [uniform.shuffled(len(part[0])) for part in parts]
    return [column[order] for part, order in zip(parts, orders, strict=True) for column in part]


def paths_base(kind: public.Base) -> Base:
    if kind == "product":
        raise AssertionError("a product is the base of several blocks")
    return kind


def window_step(base: Fraction) -> int:
    """Levels over which the weight falls to about a half: a good distance of windows."""
    return max(1, round(0.7 / max(-math.log(base), 1e-6)))


def column_of(engine: TableCounts, attribute: str, *, cells: int | None = None) -> Column:
    """The records of one attribute, in its declared cells or in the first so many."""
    codes, counts = engine.values(attribute)
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


def forest_of(forest: public.Forest, engine: TableCounts, scale: Scale) -> Forest:
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


def enumerated(listed: public.Listed, rows: Integers, asked: public.Draw, engine: TableCounts) -> Listed:
    """Every multiset of atoms with its level."""
    levels = levels_of(
        rows,
        listed.atoms.weights,
        atom_records(listed.atoms, engine),
        unit=listed.atoms.span,
        scale=scale_of(asked),
    )
    return Listed.of(levels, None if asked.base == "flat" else sequence_weights(rows, listed.atoms.sizes))


def trellis_of(trellis: public.Trellis, asked: public.Draw, engine: TableCounts) -> Trellis:
    """The trellis with the records of every atom."""
    scale = scale_of(asked)
    finer = Scale(scale.m, scale.resolution, scale.grid * trellis.atoms.span)
    records = atom_records(trellis.atoms, engine)
    return Trellis(trellis.atoms, trellis.layout, records, finer, asked.base == "sequence")


def atom_records(atoms: Atoms, engine: TableCounts) -> Integers:
    """How many records each atom has."""
    table = engine.margins([atoms.attributes])[atoms.attributes].ravel()
    records = np.zeros(atoms.count, dtype=np.int64)
    np.add.at(records, atoms.of, table)
    return records


def candidate_levels(
    candidates: public.Candidates, engine: TableCounts, scale: Scale, *, unit: int
) -> Integers:
    """The level of every candidate, its error taken over `unit` numerators (see `levels_of`)."""
    exact, n = engine.answer(candidates.queries), engine.size()
    levels: list[int] = []
    for number in range(candidates.count):
        rows = {name: codes[number] for name, codes in candidates.rows.items()}
        held = np.asarray(candidates.queries.on_rows(rows), dtype=np.int64)
        gap = int(np.abs(scale.m * exact.astype(object) - n * held.astype(object)).max(initial=0))
        levels.append(-(-gap * scale.resolution // (scale.m * scale.grid * unit)))
    return np.array(levels, dtype=np.int64)


def split_words(values: Values) -> list[Integers]:
    """Codes up to 2^64 as pairs of numbers that every payload can hold."""
    return [half.astype(np.int64) for v in values for half in (v >> np.uint64(32), v & _LOW)]


def join_words(halves: list[Integers]) -> list[NDArray[Any]]:
    """The codes of `split_words`; int64 where they fit."""
    joined = [
        (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)
        for high, low in zip(halves[::2], halves[1::2], strict=True)
    ]
    return [v.astype(np.int64) if int(v.max(initial=0)) < 2**63 else v for v in joined]


# How far a given database is off, by the score of its own class: for certificates.


Codes = Sequence[NDArray[Any]]
_ANY = Fraction(1, 2)
"""A counter asks for a base to choose its windows; the level of one database needs none."""


def error_of(asked: public.Draw, values: Codes, table: TableCounts) -> int:
    """max over q of |q(x) - (n/m) q(y)| in counts, rounded up: the level at one level per count."""
    engine = weighted_view(table, asked.weight)
    scale = Scale(asked.m, 1, 1 if asked.weight is None else asked.weight.grid)
    match asked.structure:
        case public.Candidates() as candidates:
            return int(
                candidate_levels(candidates, engine, scale, unit=candidates.queries.denominator)[
                    int(values[0][0])
                ]
            )
        case public.Blocks(parts):
            starts = np.cumsum([0, *(len(part.attributes) for part, _ in parts)]).tolist()
            places = zip(parts, starts, starts[1:], strict=False)
            return max(_one(part, base, engine, scale, values[a:b]) for (part, base), a, b in places)
        case public.Listed() | public.Trellis() as listed:
            rows = np.asarray(values[0], dtype=np.int64)[None, :]
            records, atoms = atom_records(listed.atoms, engine), listed.atoms
            levels = levels_of(rows, atoms.weights, records, unit=atoms.denominator, scale=scale)
            return int(levels[0])
        case structure:
            return _one(structure, asked.base, engine, scale, values)


def _one(part: public.Single, base: public.Base, engine: TableCounts, scale: Scale, values: Codes) -> int:
    counter = single(part, base, engine, scale, _ANY)
    if isinstance(counter, Forest):
        return counter.level([np.flatnonzero(column).tolist() for column in values])
    return counter.level(sorted(int(code) for code in values[0]))
